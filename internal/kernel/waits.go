package kernel

import (
	"cmp"
	"container/heap"
	"container/list"
	"time"

	"github.com/perdure/perdure/journal"
)

// An openWaits finds the operations of a run that wait, by the message or the time that
// they wait for: a run may have 100,000 of them, and neither a message nor a timer costs a
// look at all. An operation is in it from its wait to its waited. It is guarded by its
// run's mu.
type openWaits struct {
	forMessage map[address]*list.List // of *operation, the one that has waited longest first
	timers     dues
	limits     dues // of waits for messages, and when steps are tried again
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

func (w *openWaits) add(o *operation) {
	if o.forMessage {
		if w.forMessage == nil {
			w.forMessage = map[address]*list.List{}
		}
		at := o.address()
		if w.forMessage[at] == nil {
			w.forMessage[at] = list.New()
		}
		o.inLine = w.forMessage[at].PushBack(o)
	}
	if !o.due.IsZero() {
		heap.Push(w.dues(o), o)
	}
}

func (w *openWaits) remove(o *operation) {
	if o.inLine != nil {
		at := o.address()
		line := w.forMessage[at]
		if line.Remove(o.inLine); line.Len() == 0 {
			delete(w.forMessage, at)
		}
		o.inLine = nil
	}
	if !o.due.IsZero() {
		heap.Remove(w.dues(o), o.place)
	}
}

// of returns the operations that wait for messages of that address, the one that has
// waited longest first.
func (w *openWaits) of(at address) func(yield func(*operation) bool) {
	return func(yield func(*operation) bool) {
		line := w.forMessage[at]
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
func (w *openWaits) next() time.Time { return earlier(w.timers.first(), w.limits.first()) }

// timer returns the first timer whose time has come, of several at one time the one that
// was set first; nil where there is none.
func (w *openWaits) timer() *operation {
	if len(w.timers) == 0 || time.Until(w.timers[0].due) > 0 {
		return nil
	}
	return w.timers[0]
}

func (w *openWaits) dues(o *operation) *dues {
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
