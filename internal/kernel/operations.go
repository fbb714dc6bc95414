package kernel

import (
	"cmp"
	"iter"
	"slices"
)

// The operations of a run that are not over.
//
// Invariants: an operation is in the list from when code has asked for it until it is
// settled, or delivered where it is held. The operations that have begun are numbered in
// the order in which they did, live as on replay. inFlight is the number of those that
// have an attempt, and pinned that of those that a context of the author's may end: with
// any of either the run stays in memory.
//
// It is guarded by its run's mu.
type operations struct {
	newest   *operation // a list by older
	started  int64      // that have begun
	inFlight int
	pinned   int
}

// track adds an operation.
func (s *operations) track(o *operation) {
	if o.older = s.newest; o.older != nil {
		o.older.newer = o
	}
	s.newest = o
	o.scope.use(1)
}

// untrack takes an operation off, if it is there.
func (s *operations) untrack(o *operation) {
	switch {
	case o.newer != nil:
		o.newer.older = o.older
	case s.newest == o:
		s.newest = o.older
	default:
		return
	}
	if o.older != nil {
		o.older.newer = o.newer
	}
	o.newer, o.older = nil, nil
	o.scope.use(-1)
}

// begin gives an operation its place in the order of starts, unless it has one.
func (s *operations) begin(o *operation) {
	if o.start == 0 {
		s.started++
		o.start = s.started
	}
}

// fly gives an operation an attempt.
func (s *operations) fly(o *operation, a *attempt) {
	o.attempt = a
	s.inFlight++
}

// land takes its attempt from an operation, if it has one.
func (s *operations) land(o *operation) {
	if o.attempt != nil {
		o.attempt = nil
		s.inFlight--
	}
}

// flies reports whether an attempt is executed or about to be.
func (s *operations) flies() bool { return s.inFlight > 0 }

// pin counts an operation that a context of the author's may end: one more, or one less.
func (s *operations) pin(n int) { s.pinned += n }

// mayLeave reports whether no operation keeps the run in memory.
func (s *operations) mayLeave() bool { return s.inFlight == 0 && s.pinned == 0 }

// all returns the operations, the newest first.
func (s *operations) all() iter.Seq[*operation] {
	return func(yield func(*operation) bool) {
		for o := s.newest; o != nil && yield(o); o = o.older {
		}
	}
}

// running returns the operations that have begun and are not over, in the order
// of their starts.
func (s *operations) running() []*operation {
	return slices.DeleteFunc(s.ongoing(), func(o *operation) bool { return o.settled })
}

// ongoing returns them with those whose cancellation is recorded and not delivered.
func (s *operations) ongoing() []*operation {
	var out []*operation
	for o := range s.all() {
		if (!o.settled || o.held) && o.start > 0 {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *operation) int { return cmp.Compare(a.start, b.start) })
	return out
}

// executing counts the attempts whose bodies are being executed.
func (s *operations) executing() int {
	n := 0
	for o := range s.all() {
		if o.attempt != nil && !o.attempt.began.IsZero() {
			n++
		}
	}
	return n
}

// timer returns the open timer of that path, or nil.
func (s *operations) timer(path string) *operation {
	for o := range s.all() {
		if o.class == isTimer && !o.settled && o.path() == path {
			return o
		}
	}
	return nil
}

// forMessage returns the open waits for messages, the one that has waited longest first.
func (s *operations) forMessage() []*operation {
	var waits []*operation
	for o := range s.all() {
		if o.forMessage && !o.settled {
			waits = append(waits, o)
		}
	}
	slices.Reverse(waits)
	return waits
}

// stopTimers stops the timers of the operations.
func (s *operations) stopTimers() {
	for o := range s.all() {
		if o.timer != nil {
			o.timer.Stop()
		}
	}
}

// startTimers sets the timers again that were stopped.
func (s *operations) startTimers() {
	for o := range s.all() {
		if o.timer != nil {
			o.timer.Stop()
			o.arm()
		}
	}
}
