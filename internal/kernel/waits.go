package kernel

import (
	"cmp"
	"container/heap"
	"container/list"
	"time"

	"github.com/perdure/perdure/journal"
)

// The waits of a run are its operations that wait for a time or a message, found by what
// they wait for: a run may have 100,000 of them, and neither a message nor a timer costs a
// look at all.
//
// Invariants: an operation is among them from its wait to its waited. The counts are those
// of the operations that are. trying is the number of those whose predicate is about to
// look into the inbox: while there is one, others that want to look get in line.
//
// It is guarded by its run's mu.
type waits struct {
	count    int
	messages int // that wait for a message
	deciding int // that wait for an operator
	trying   int

	byAddress map[address]*list.List // of *operation, the one that has waited longest first
	timers    dues
	limits    dues // of waits for messages, and when steps are tried again
}

// A want is what an operation waits for: a time, a message, or both.
type want struct {
	due        time.Time   // of the next attempt, a timer, a time limit; zero without
	timer      *time.Timer // until due; nil while none runs
	forMessage bool        // it ends with a message
	from       string      // the name of that message
	match      func([]byte) bool
	trying     bool     // match is to look into the inbox
	seen       int64    // messages up to this one do not match
	expired    bool     // its time is over
	choices    []string // of an operator

	waits  bool          // it is among the waits of the run
	place  int           // among those that wait for a time
	inLine *list.Element // among those that wait for such a message
}

// An address says which messages an operation waits for.
type address struct {
	kind journal.Kind
	name string // of a signal or a decision; the run ID of a child
}

// addressOf returns the address of those that wait for a message.
func addressOf(m *journal.Entry) address {
	if m.Kind == journal.ChildCompleted {
		return address{m.Kind, m.Op.Key}
	}
	return address{m.Kind, m.Op.Name}
}

func (o *operation) address() address {
	switch o.class {
	case isChild:
		return address{journal.ChildCompleted, string(o.child)}
	case isDecision:
		return address{journal.DecisionMade, o.from}
	}
	return address{journal.SignalReceived, o.from}
}

// add adds an operation.
func (w *waits) add(o *operation) {
	o.waits = true
	w.counts(o, 1)
	if o.forMessage {
		if w.byAddress == nil {
			w.byAddress = map[address]*list.List{}
		}
		at := o.address()
		if w.byAddress[at] == nil {
			w.byAddress[at] = list.New()
		}
		o.inLine = w.byAddress[at].PushBack(o)
	}
	if !o.due.IsZero() {
		heap.Push(w.dues(o), o)
	}
}

// remove takes an operation off, if it is among them.
func (w *waits) remove(o *operation) {
	if !o.waits {
		return
	}
	o.waits = false
	w.counts(o, -1)
	if o.inLine != nil {
		at := o.address()
		line := w.byAddress[at]
		if line.Remove(o.inLine); line.Len() == 0 {
			delete(w.byAddress, at)
		}
		o.inLine = nil
	}
	if !o.due.IsZero() {
		heap.Remove(w.dues(o), o.place)
	}
}

func (w *waits) counts(o *operation, n int) {
	w.count += n
	if o.forMessage {
		w.messages += n
	}
	if o.class == isDecision {
		w.deciding += n
	}
}

// any reports whether something waits.
func (w *waits) any() bool { return w.count > 0 }

// anyForMessage reports whether something waits for a message.
func (w *waits) anyForMessage() bool { return w.messages > 0 }

// anyDecision reports whether something waits for an operator.
func (w *waits) anyDecision() bool { return w.deciding > 0 }

// tries counts waits whose predicate is about to look into the inbox: one more, or one
// less.
func (w *waits) tries(n int) { w.trying += n }

// anyTries reports whether there is one.
func (w *waits) anyTries() bool { return w.trying > 0 }

// of returns the operations that wait for messages of that address, the one that has
// waited longest first.
func (w *waits) of(at address) func(yield func(*operation) bool) {
	return func(yield func(*operation) bool) {
		line := w.byAddress[at]
		if line == nil {
			return
		}
		for e := line.Front(); e != nil; {
			next := e.Next() // the operation may leave the line meanwhile
			if !yield(e.Value.(*operation)) {
				return
			}
			e = next
		}
	}
}

// next returns when the first operation goes on by itself; zero is never.
func (w *waits) next() time.Time { return earlier(w.timers.first(), w.limits.first()) }

// timer returns the first timer whose time has come, of several at one time the one that
// was set first; nil where there is none.
func (w *waits) timer() *operation {
	if len(w.timers) == 0 || time.Until(w.timers[0].due) > 0 {
		return nil
	}
	return w.timers[0]
}

func (w *waits) dues(o *operation) *dues {
	if o.class == isTimer {
		return &w.timers
	}
	return &w.limits
}

// dues is a heap of operations by their times and, at one time, in the order in which
// they began.
type dues []*operation

func (d dues) first() time.Time {
	if len(d) == 0 {
		return time.Time{}
	}
	return d[0].due
}

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	return cmp.Or(d[i].due.Compare(d[j].due), cmp.Compare(d[i].start, d[j].start)) < 0
}

func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push is called by package heap, as Pop is.
func (d *dues) Push(o any) {
	o.(*operation).place = len(*d)
	*d = append(*d, o.(*operation))
}

// Pop takes the last one off.
func (d *dues) Pop() any {
	last := len(*d) - 1
	o := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return o
}
