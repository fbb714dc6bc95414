package api

import "time"

// A LogLine is a line that the body of a step has logged, and that is kept with the run.
type LogLine struct {
	Seq     int64     `json:"seq"` // the entry of the journal that has it
	At      time.Time `json:"at"`
	Step    string    `json:"step"`
	Attempt int       `json:"attempt"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	Attrs   Data      `json:"attrs,omitzero"`
	// lines of the attempt that were left out: there are none after this one
	Omitted int `json:"omitted,omitempty"`
}

// A Chunk is a chunk of a stream of a run.
type Chunk struct {
	Offset int64 `json:"offset"`
	// the offset of the first chunk that the same attempt of the same step has put in
	Part    int64     `json:"part"`
	Void    bool      `json:"void,omitempty"` // the part does not count any more; there is no data
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at"`
	Data    Data      `json:"data,omitzero"`
}
