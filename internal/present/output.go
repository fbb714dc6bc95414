package present

import (
	"encoding/json"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
)

// LogLine returns the form of a log line of a step.
func LogLine(l steplog.Line) api.LogLine {
	return api.LogLine{
		Seq: l.Entry, At: l.Time.UTC(), Step: l.Step, Attempt: l.Attempt,
		Level: l.Level.String(), Message: l.Message, Attrs: api.Data(l.Attrs),
		Omitted: l.Omitted,
	}
}

// Chunk returns the form of a chunk of a stream.
func Chunk(c stream.Chunk[json.RawMessage]) api.Chunk {
	return api.Chunk{
		Offset: c.Offset, Part: c.Part, Void: c.Void, Attempt: c.Attempt, At: utc(c.At),
		Data: api.Data(c.Value),
	}
}
