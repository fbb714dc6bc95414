package journal

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// A Step is what a journal says of one step or branch.
type Step struct {
	Op       Op
	Path     string // Op with the scopes it is in: branch/label
	Opens    int64  // the scope that it opened, where it is a branch or scope; else 0
	Phase    string // of a TCC's participant; else empty
	Status   StepStatus
	Attempts int
	Started  time.Time // of the first attempt; of a sequential step as its result tells it
	Ended    time.Time // when its last attempt did; zero while it is not terminal
	Due      time.Time // of the next attempt, while it is RETRYING
	Failure  *Failure  // of the last attempt, or compensation, that failed
	Reason   string    // why it was cancelled

	StandsFor int64  // the scope that the one that it opened stands for; else 0
	ForStep   string // the step beside it that the branch of the scope that it opened does
}

// A Cleanup is what a run has planned to do before it ends.
type Cleanup struct {
	Op    Op
	Path  string // Op with the scopes it is in; what it does is within it
	Opens int64  // the scope of what it does
}

// A Published is what a run shows under a name.
type Published struct {
	Data []byte    // nil where it is spilled and the entry did not bring it
	Seq  int64     // of the entry that has it
	At   time.Time // when it was published
}

// A Snapshot is a run's state at one entry of its journal. It is an immutable
// copy: it shares nothing with the aggregate that gave it.
type Snapshot struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Seq        int64 // of the last entry applied
	Started    time.Time
	Last       time.Time // when the last entry was written
	Ended      time.Time
	Failure    *Failure  // that the run ended by, or that its code last panicked with
	Reason     string    // why it is suspended or was cancelled
	Due        time.Time // when its code is replayed, while it waits for that
	Failures   int       // panics of its code in a row
	Build      string    // that wrote last
	Events     int
	Steps      []Step // in the order of their first entries
	Ending     Status // the run cleans up and will end so; zero where it does not
	Cleanups   []Cleanup
	// paths of recorded operations that the code of the build that has the run has not asked for
	Unused []string
	Waits  []Wait // in the order in which they began; none of a run that has ended
	// the input, or what replaced it; nil where it is spilled and no entry brought it
	Payload    []byte
	PayloadSeq int64 // of the entry that has the payload, where it is spilled; else 0
	Published  map[string]Published
	Attributes map[string]string
	Headers    map[string]string
	Variables  map[string]Published
	Keys       []string       // idempotency keys that it has used
	Versions   map[string]int // by change: the lowest that a marker decided
	// the steps of its declaration, layer by layer, as it began; nil without one
	Layers [][]string

	// Of a chain of runs; empty and zero at its ends.
	Predecessor        RunID
	PredecessorStarted time.Time
	PredecessorEnded   time.Time
	Successor          RunID

	Retried RunID // the run that this one retries; empty for none
}

func (s Snapshot) clone() Snapshot {
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].Failure = s.Steps[i].Failure.clone()
	}
	s.Cleanups = slices.Clone(s.Cleanups)
	s.Unused = slices.Clone(s.Unused)
	s.Waits = slices.Clone(s.Waits)
	for i := range s.Waits {
		s.Waits[i].Choices = slices.Clone(s.Waits[i].Choices)
	}
	s.Published, s.Variables = clonePublished(s.Published), clonePublished(s.Variables)
	s.Keys = slices.Clone(s.Keys)
	s.Failure = s.Failure.clone()
	s.Payload = bytes.Clone(s.Payload)
	s.Attributes = maps.Clone(s.Attributes)
	s.Headers = maps.Clone(s.Headers)
	s.Versions = maps.Clone(s.Versions)
	s.Layers = slices.Clone(s.Layers)
	for i := range s.Layers {
		s.Layers[i] = slices.Clone(s.Layers[i])
	}
	return s
}

func clonePublished(m map[string]Published) map[string]Published {
	m = maps.Clone(m)
	for name, p := range m {
		p.Data = bytes.Clone(p.Data)
		m[name] = p
	}
	return m
}
