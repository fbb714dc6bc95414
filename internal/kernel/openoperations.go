package kernel

import (
	"cmp"
	"iter"
	"slices"
)

// An operations has the operations of a run that are not over.
//
// Invariants: an operation is in the list from when code has asked for it until it is settled, or,
// if it is held, until it is delivered. The operations that have begun are numbered in the order in
// which they began, live as on replay. inFlight is the number of operations that have an attempt.
// pinned is the number of operations that a context of the author's may end, and asking the number
// of those that the store has to answer. While any is above 0, the run stays in memory.
//
// The mu of the run guards it.
type operations struct {
	newest   *operation // linked by older
	started  int64      // the number of operations that have begun
	inFlight int
	pinned   int
	asking   int          // operations whose ask the store has not answered
	holding  []*operation // that have slots, which are not freed
	paused   []*operation // whose next attempts are held back while the workflow is paused
}

// track adds an operation.
func (s *operations) track(o *operation) {
	if o.older = s.newest; o.older != nil {
		o.older.newer = o
	}
	s.newest = o
	o.scope.use(1)
}

// untrack removes an operation, if it is in the list.
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

// begin sets the place of an operation in the order of starts, unless it has one.
func (s *operations) begin(o *operation) {
	if o.start == 0 {
		s.started++
		o.start = s.started
	}
}

// fly sets the attempt of an operation.
func (s *operations) fly(o *operation, a *attempt) {
	o.attempt = a
	s.inFlight++
}

// land removes the attempt of an operation, if it has one.
func (s *operations) land(o *operation) {
	if o.attempt != nil {
		o.attempt.letGo()
		o.attempt = nil
		s.inFlight--
	}
}

// flies reports whether an attempt is being executed or about to be.
func (s *operations) flies() bool { return s.inFlight > 0 }

// pin counts operations that a context of the author's may end: n is 1 or -1.
func (s *operations) pin(n int) { s.pinned += n }

// mayLeave reports whether no operation keeps the run in memory.
func (s *operations) mayLeave() bool { return s.inFlight == 0 && s.pinned == 0 && s.asking == 0 }

// asks records whether the store has an ask of an operation to answer.
func (s *operations) asks(o *operation, does bool) {
	if o.asking == does {
		return
	}
	if o.asking = does; does {
		s.asking++
	} else {
		s.asking--
	}
}

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

// ongoing returns the running operations, and those whose cancellation is recorded and not
// delivered.
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

// forMessage returns the open waits for messages; the operation that has waited longest is first.
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

// asker returns the open operation that asks for the slot of that number, or nil.
func (s *operations) asker(slot int64) *operation {
	for o := range s.all() {
		if o.ask != nil && o.slot == slot && !o.settled {
			return o
		}
	}
	return nil
}

// holds records that an operation has its slot.
func (s *operations) holds(o *operation) { s.holding = append(s.holding, o) }

// freed records that the slot of that number is freed.
func (s *operations) freed(slot int64) {
	s.holding = slices.DeleteFunc(s.holding, func(o *operation) bool { return o.slot == slot })
}

// pause records that the next attempt of an operation waits for the end of a pause.
func (s *operations) pause(o *operation) {
	if !slices.Contains(s.paused, o) {
		s.paused = append(s.paused, o)
	}
}

// anyPaused reports whether an operation waits for the end of a pause.
func (s *operations) anyPaused() bool {
	return slices.ContainsFunc(s.paused, func(o *operation) bool { return !o.settled })
}

// takePaused returns the operations whose attempts may begin when a pause is over.
func (s *operations) takePaused() []*operation {
	held := slices.DeleteFunc(s.paused, func(o *operation) bool { return o.settled })
	s.paused = nil
	return held
}

// takeCancelled returns the slots of scopes that were cancelled, which are to be freed.
func (s *operations) takeCancelled() (slots []int64) {
	s.holding = slices.DeleteFunc(s.holding, func(o *operation) bool {
		is := o.scope.cancelled() != nil
		if is {
			slots = append(slots, o.slot)
		}
		return is
	})
	return slots
}

// stopTimers stops every timer that runs, so that the run is able to leave memory.
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
