// Package observe defines observers and the notices that they receive, for metrics, traces and
// logs. Nothing needs notices for its correctness. The notice of a journal entry is sent after the
// entry is durable.
package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/guard"
)

// A Notice reports one event. Fields that do not apply are zero.
type Notice struct {
	Kind       Kind
	At         time.Time
	Run        string // run ID
	WorkflowID string
	Workflow   string
	Pattern    string
	Trace      string // the header traceparent that the run was started with; empty for none
	Status     string // status of the run
	Step       string // path of the step or branch, or name of the participant
	Phase      string // phase of a TCC
	Signal     string // name of the signal
	SentIn     string // in SignalDelivered: the trace context of the sender; empty for none
	Timer      string // path of the timer or sleep
	Other      string // run ID of the child or successor
	Attempt    int
	Took       time.Duration
	Due        time.Time // of a retry, and when a timer that has fired was due
	Rows       int
	Err        string
	Reason     string
	// Change is the name of the change of state, such as OrderFailed or ShipOrderRetrying; empty
	// if the notice is about none. Package bus has the names of a workflow's own.
	Change string
	Benign bool // the failure was expected, or a participant has refused its try for good

	// DeadLettered is set in RunEnded if the run has written a dead letter.
	DeadLettered bool
}

// Own reports whether the notice is about a run that an engine has started for itself.
func (n *Notice) Own() bool { return strings.HasPrefix(n.Workflow, "perdure.") }

// Succeeded reports whether a run or a step has ended as it should.
func (n *Notice) Succeeded() bool {
	return n.Kind == RunContinued || Outcome(n.Kind, n.Status) == Completed
}

// A Func receives notices. Notices of a run's entries come one at a time, in the order of its
// journal, and the engine's commits wait for them. So a Func must return soon: until it does, no
// run goes on. It must not call an engine in a way that writes to the store. Other notices come
// from other goroutines at any time: StepStarted of an attempt without a record, before the
// attempt's body, and the kinds that are not in the lifecycle. Each notice has a goroutine of its
// own. A panic, or runtime.Goexit, which t.FailNow of a test calls, ends that goroutine and changes
// nothing else: the observers after it hear of the notice all the same.
type Func func(Notice)

// An Observer receives the kinds of notices that it lists.
type Observer struct {
	Kinds []Kind // empty for all kinds
	See   Func
	// Direct promises that See returns soon and never calls runtime.Goexit. It is then called
	// without a goroutine of its own, which makes it several times as cheap. A panic still goes no
	// further.
	Direct bool
}

// A Set is a group of observers. One that panics does not disturb the others. A Set does not change
// once it is made, and many goroutines may use it at a time. A nil Set has no observers.
type Set struct {
	named map[Kind][]seer // by kind that an observer lists, in the order of the observers
	all   []seer          // observers of any other kind
}

// A seer is the function of an observer, and how it is called.
type seer struct {
	see    Func
	direct bool
}

// NewSet returns the set of these observers, without those that have no See; nil if none are left.
func NewSet(observers []Observer) *Set {
	if !slices.ContainsFunc(observers, func(o Observer) bool { return o.See != nil }) {
		return nil
	}
	s := &Set{named: map[Kind][]seer{}}
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
		s.all = append(s.all, seer{o.See, o.Direct})
	}
	for k := range s.named {
		if len(want) == 0 || want[k] {
			s.named[k] = append(s.named[k], seer{o.See, o.Direct})
		}
	}
}

// Wants reports whether an observer receives notices of this kind. If none does, the notice need
// not be made.
func (s *Set) Wants(k Kind) bool { return len(s.who(k)) > 0 }

// Tell calls each observer of the notice's kind, one after the other, in their order.
func (s *Set) Tell(n Notice) {
	for all := s.who(n.Kind); len(all) > 0; {
		if all[0].direct {
			tellDirect(all[0].see, &n)
			all = all[1:]
			continue
		}
		all = all[tell(all, n):]
	}
}

func tellDirect(see Func, n *Notice) {
	_ = guard.Try(func() error {
		see(*n)
		return nil
	})
}

// tell calls observers until one does not return, or is called directly. It returns how many it has
// called.
func tell(all []seer, n Notice) (called int) {
	_ = guard.Call(func() error {
		for _, o := range all {
			if o.direct {
				return nil
			}
			called++
			o.see(n)
		}
		return nil
	})
	return called
}

// who returns the observers of a kind.
func (s *Set) who(k Kind) []seer {
	if s == nil {
		return nil
	}
	if named, ok := s.named[k]; ok {
		return named
	}
	return s.all
}
