package journal

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Step is the state of one step or branch.
type Step struct {
	Op       Op
	Path     string // Op with the scopes it is in: branch/label
	Opens    int64  // the scope that a branch or scope opened; else 0
	Phase    string // the phase of a TCC's participant; else empty
	Of       int    // of an undo: the occurrence of the step that it undoes; 0 for the first
	Status   StepStatus
	Attempts int
	Started  time.Time // when the first attempt began; for a sequential step, as its result has it
	Ended    time.Time // when the last attempt ended; zero while the step is not terminal
	Due      time.Time // when the next attempt begins, while the step is RETRYING
	Failure  *Failure  // the error of the last attempt or compensation that failed
	Reason   string    // why it was cancelled, or skipped by an operator
	By       string    // the operator who skipped it
	Undo     bool      // it has a compensation, and has been executed
	Then     string    // of a visit that goes on: the action that it takes; else empty
	OwnUndo  bool      // an option of the step undoes it, and no pattern

	StandsFor int64  // the scope that the opened one stands for; else 0
	ForStep   string // the step beside it that the branch of the opened scope performs
}

// A Cleanup is an action that a run has planned before its end.
type Cleanup struct {
	Op    Op
	Path  string // Op with the scopes it is in; the operations of the clean-up are within it
	Opens int64  // the scope of the clean-up's operations
}

// A Published is a value that a run has published, or a variable.
type Published struct {
	Data []byte    // nil if it is spilled and the entry did not have it
	Seq  int64     // the sequence of the entry
	At   time.Time // when it was published
}

// A Stream is the state of a stream, into which the steps of a run put chunks.
type Stream struct {
	Last    int64           // the sequence of its last entry
	Written int64           // bytes, with those of parts that are void
	Parts   map[int64]int64 // the bytes of each part that counts, by the entry that it begins with
}

// Bytes returns the number of bytes that count.
func (s Stream) Bytes() (n int64) {
	for _, part := range s.Parts {
		n += part
	}
	return n
}

// A Snapshot is a run's state at one entry of its journal. It is an immutable copy that shares
// nothing with its aggregate.
type Snapshot struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Seq        int64 // the sequence of the last entry applied
	Started    time.Time
	Last       time.Time // when the last entry was written
	Ended      time.Time
	Failure    *Failure  // the error that the run ended with, or the last panic of its code
	Reason     string    // the reason why it is suspended or was cancelled
	By         string    // the operator who has suspended or cancelled it
	Mode       Action    // how it was cancelled
	Due        time.Time // when the code is replayed, while the run waits for that
	Failures   int       // panics of its code in a row
	Build      string    // the build that wrote last
	Events     int
	Steps      []Step // in the order of their first entries
	// the status that the run ends with after its clean-up; zero if it is not cleaning up
	Ending   Status
	Cleanups []Cleanup
	// paths of recorded operations that the code of the current build has not asked for
	Unused []string
	Waits  []Wait // in the order in which they began; none of a run that has ended
	// the input, or the payload that replaced it; nil if it is spilled and no entry has its bytes
	Payload    []byte
	PayloadSeq int64 // the sequence of the entry with the spilled payload; else 0
	Published  map[string]Published
	Attributes map[string]string
	Headers    map[string]string
	Variables  map[string]Published
	Streams    map[string]Stream
	Keys       []string       // idempotency keys that the run has used
	Versions   map[string]int // by change: the lowest version that a marker decided
	// the steps of the declaration, layer by layer, as the run began; nil if there is none
	Layers [][]string

	Neighbours
	Origin Origin // the run that this one goes on from
}

// Neighbours are the runs before and after a run in a chain; empty and zero at its ends.
type Neighbours struct {
	Predecessor        RunID
	PredecessorStarted time.Time
	PredecessorEnded   time.Time
	Successor          RunID
}

// Undoable returns the paths of the steps whose effects are there and could be undone: steps that
// have a compensation, and participants of a TCC that have tried and neither confirmed nor
// cancelled. They are in the order of their first entries.
func (s *Snapshot) Undoable() []string {
	var out []string
	s.undoable(func(t *Step) { out = append(out, t.Path) })
	return out
}

func (s *Snapshot) undoable(each func(*Step)) {
	settled := map[string]bool{} // paths of participants without their phase
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Status == StepIsCanceled || t.Status == StepIsConfirmed {
			settled[t.participant()] = true
		}
	}
	for i := range s.Steps {
		t := &s.Steps[i]
		tried := t.Status == StepIsTried && !settled[t.participant()]
		if tried || t.Undo && (t.Status == StepIsDone || t.Status == StepIsCompensationFailed) {
			each(t)
		}
	}
}

// participant returns the path of a step without its phase.
func (s *Step) participant() string {
	scope := s.Path[:strings.LastIndex(s.Path, "/")+1]
	return scope + strings.TrimPrefix(s.Path[len(scope):], strings.ToLower(s.Phase)+":")
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
	s.Streams = maps.Clone(s.Streams)
	for name, t := range s.Streams {
		t.Parts = maps.Clone(t.Parts)
		s.Streams[name] = t
	}
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
