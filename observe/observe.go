// Package observe has what is told to observers: metrics, traces, logs.
// Notices are never needed for correctness. One that tells of a journal entry
// is told after the entry is durable.
package observe

import (
	"slices"
	"time"

	"github.com/perdure/perdure/internal/guard"
)

// A Notice tells one thing. Fields that do not apply are zero.
type Notice struct {
	Kind       Kind
	At         time.Time
	Run        string // run ID
	WorkflowID string
	Workflow   string
	Pattern    string
	Status     string // of the run
	Step       string // path of the step or branch, or the participant
	Phase      string // of a TCC
	Signal     string // its name
	Timer      string // path of the timer or sleep
	Other      string // run ID of the child, or of the successor
	Attempt    int
	Took       time.Duration
	Due        time.Time
	Rows       int
	Err        string
	Reason     string
	Benign     bool // the failure was expected
}

// A Func receives notices. Those that tell of a run's entries come one at a time
// and in the order of its journal, and the engine's commits wait for them. So it
// must return soon: while it does not, no run goes on, and it must not itself ask
// an engine for what has to be written. Others come from other goroutines at any
// time: StepStarted of an attempt without a record, before the attempt's body, and
// the kinds that are not of the lifecycle. Each call has a goroutine of its own: a
// panic in it, or runtime.Goexit, which t.FailNow of a test calls, ends that and
// changes nothing.
type Func func(Notice)

// An Observer takes only the kinds it wants.
type Observer struct {
	Kinds []Kind // none for all of them
	See   Func
}

// A Set has many observers. One that panics does not disturb the others. It is
// not changed once it is made, and may be used by many goroutines at a time. A
// nil Set has no observers.
type Set struct {
	named map[Kind][]Func // by each kind that an observer names, in the order of the observers
	all   []Func          // those of any other kind
}

// NewSet gives the set of these observers, nil where there are none. Those without
// a See are left out.
func NewSet(observers []Observer) *Set {
	if !slices.ContainsFunc(observers, func(o Observer) bool { return o.See != nil }) {
		return nil
	}
	s := &Set{named: map[Kind][]Func{}}
	for _, o := range observers {
		for _, k := range o.Kinds {
			s.named[k] = nil
		}
	}
	for _, o := range observers {
		if o.See != nil {
			s.add(o)
		}
	}
	return s
}

func (s *Set) add(o Observer) {
	want := make(map[Kind]bool, len(o.Kinds))
	for _, k := range o.Kinds {
		want[k] = true
	}
	if len(want) == 0 {
		s.all = append(s.all, o.See)
	}
	for k := range s.named {
		if len(want) == 0 || want[k] {
			s.named[k] = append(s.named[k], o.See)
		}
	}
}

// Wants says whether an observer takes notices of this kind. Where none does,
// the notice need not be made.
func (s *Set) Wants(k Kind) bool { return len(s.who(k)) > 0 }

// Tell gives the notice to each observer that takes its kind, one after the
// other, in their order.
func (s *Set) Tell(n Notice) {
	for _, see := range s.who(n.Kind) {
		tell(see, n)
	}
}

func tell(see Func, n Notice) {
	_ = guard.Call(func() error {
		see(n)
		return nil
	})
}

// who gives the observers that take a kind.
func (s *Set) who(k Kind) []Func {
	if s == nil {
		return nil
	}
	if named, ok := s.named[k]; ok {
		return named
	}
	return s.all
}
