package kernel

import (
	"cmp"
	"container/heap"
	"container/list"
	"time"

	"github.com/perdure/perdure/journal"
)

// A waits has the operations of a run that wait for a time or a message, found by what they wait
// for: a run may have 100,000 of them, and no message and no timer looks at all of them.
//
// Invariants: an operation is among them from its wait to its waited. The counts are the numbers of
// the operations among them. trying is the number of operations whose predicate is about to look
// into the inbox: while it is above 0, others that want to look get in line.
//
// The mu of the run guards it.
type waits struct {
	count    int
	messages int // operations that wait for a message
	deciding int // operations that wait for an operator
	trying   int

	// the operations of an address; the one that has waited longest is first
	byAddress map[address]*list.List
	timers    dues
	limits    dues // the time limits of waits for messages, and the times of next attempts
}

// A want has the conditions that an operation waits for: a time, a message, or both.
type want struct {
	// the time of the next attempt, of a timer, or of a time limit; zero for none
	due        time.Time
	timer      *time.Timer // until due; nil while none runs
	forMessage bool        // the operation ends with a message
	from       string      // the name of that message
	match      func([]byte) bool
	trying     bool     // match is about to look into the inbox
	seen       int64    // messages up to this number do not match
	notices    bool     // it ends with a signal of any name, and does not take the signal
	besides    []int64  // messages up to seen that end it too
	expired    bool     // its time is over
	choices    []string // the choices of an operator

	waits  bool          // it is among the waits of the run
	place  int           // its index in the heap of times
	inLine *list.Element // its place among the operations with the same address
}

// An address selects the messages that an operation waits for.
type address struct {
	kind journal.Kind
	// of a signal or decision; the run ID of a child, the number of a slot, the path of a callback
	name string
}

// addressOf returns the address of the operations that wait for a message.
func addressOf(m *journal.Entry) address {
	switch m.Kind {
	case journal.ChildCompleted, journal.SlotGranted, journal.AnswerReceived:
		return address{m.Kind, m.Op.Key}
	}
	return address{m.Kind, m.Op.Name}
}

// anySignal is the address of the operations that wait for a signal of any name, and take none.
var anySignal = address{journal.SignalReceived, ""}

func (o *operation) address() address {
	switch o.class {
	case isChild:
		return address{journal.ChildCompleted, string(o.child)}
	case isDecision:
		return address{journal.DecisionMade, o.from}
	case isLock:
		return address{journal.SlotGranted, slotKey(o.slot)}
	}
	if isCallback(o) {
		return address{journal.AnswerReceived, o.id.Key}
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

// remove removes an operation, if it is among them.
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

// any reports whether an operation waits.
func (w *waits) any() bool { return w.count > 0 }

// anyForMessage reports whether an operation waits for a message.
func (w *waits) anyForMessage() bool { return w.messages > 0 }

// anyDecision reports whether an operation waits for an operator.
func (w *waits) anyDecision() bool { return w.deciding > 0 }

// tries counts operations whose predicate is about to look into the inbox: n is 1 or -1.
func (w *waits) tries(n int) { w.trying += n }

// anyTries reports whether there is such an operation.
func (w *waits) anyTries() bool { return w.trying > 0 }

// of returns the operations that wait for messages of that address. The operation that has waited
// longest is first.
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

// next returns when the first operation goes on by itself; zero means never.
func (w *waits) next() time.Time { return earlier(w.timers.first(), w.limits.first()) }

// timer returns the first timer whose time has come; nil if there is none. Of several timers of one
// time it returns the one that was set first.
func (w *waits) timer(c clock) *operation {
	if len(w.timers) == 0 || c.until(w.timers[0].due) > 0 {
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

// A dues is a heap of operations by their times and, at one time, in the order in which they began.
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

// Push implements heap.Interface, as Pop does.
func (d *dues) Push(o any) {
	o.(*operation).place = len(*d)
	*d = append(*d, o.(*operation))
}

// Pop removes the last operation and returns it.
func (d *dues) Pop() any {
	last := len(*d) - 1
	o := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return o
}
