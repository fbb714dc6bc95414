package kernel

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A residence says how far the residence of a run is, from its start or claim until it ends
// or leaves.
//
// Invariants: once end is set or left is true, it is decided that the residence is over, and
// nothing is appended any more; while it is resting, nothing is appended for now. Only a
// refusal of the store takes an end back. Once it has departed, all of that is durable or
// never will be: contexts have ended and waiters hear.
//
// It is guarded by its run's mu.
type residence struct {
	end      *journal.Error // the termination error of a run that has ended
	left     bool           // it leaves without having ended
	departed bool

	resting bool          // it has asked to leave memory
	awake   chan struct{} // closed when that is decided
	claimed bool          // while it was about to leave: see awaits
	again   bool          // it was parked, and must be looked at again

	lingers bool      // it is among those that rest after a while
	until   time.Time // that while ends then

	refusal error         // of the store
	verdict store.Verdict // of a start
	found   journal.Head  // by a start whose ID was taken
}

// ended returns the termination error, or nil where the run has not ended.
func (s *residence) ended() *journal.Error { return s.end }

// hasLeft reports whether the run leaves memory without having ended.
func (s *residence) hasLeft() bool { return s.left }

// over reports whether it is decided that the residence ends.
func (s *residence) over() bool { return s.left || s.end != nil }

// gone reports whether nothing may be appended any more, or not now.
func (s *residence) gone() bool { return s.over() || s.resting }

// leave ends the residence of a run that has not ended. Nothing is appended any
// more, and what is not sealed by the caller's turn is dropped by depart.
func (s *residence) leave() { s.left = true }

// endBy ends the residence by the end of the run.
func (s *residence) endBy(end *journal.Error) { s.end = end }

// takeLeave notes that all is durable or never will be. It reports false where it was noted
// already, and returns what contexts end with.
func (s *residence) takeLeave() (cause error, first bool) {
	first = !s.departed
	s.departed = true
	if s.end != nil && !s.left {
		return s.end, first
	}
	return ErrUnloaded, first
}

// refuse ends the residence, since the store refuses what it has recorded. It reports
// whether this is the first refusal: the run may be parked then.
func (s *residence) refuse(err error) (first bool) {
	first = s.refusal == nil
	s.refusal, s.left = err, true
	return first
}

// reprieve takes back the end of a run that is to be parked instead.
func (s *residence) reprieve() { s.end = nil }

// refusedBy returns the store's refusal of what was recorded, or nil.
func (s *residence) refusedBy() error { return s.refusal }

// answer takes in that a start was not made, and ends the residence.
func (s *residence) answer(v store.Verdict, found journal.Head) {
	s.verdict, s.found, s.left = v, found, true
}

// startedAs returns what the store has made of a start.
func (s *residence) startedAs() (store.Verdict, journal.Head) { return s.verdict, s.found }

// startRest notes that the store is asked to let the run leave memory.
func (s *residence) startRest() { s.resting, s.awake = true, make(chan struct{}) }

// decides returns a channel that is closed when it is decided whether the run leaves
// memory; nil where it has not asked to.
func (s *residence) decides() <-chan struct{} {
	if !s.resting {
		return nil
	}
	return s.awake
}

// awaits notes that a claim has given, or may have, a run that is about to leave
// this engine: the store has let it go, and the run has not heard of that. When it
// has left, it is taken again. It reports false where the run does not wait to hear.
func (s *residence) awaits() bool {
	s.claimed = s.claimed || s.resting
	return s.resting
}

// rested takes in what the store has made of a rest: refused, the run has messages that it
// does not know. It reports whether the run stays, and whether a claim has taken it
// meanwhile, so that it is to be taken again when it has left.
func (s *residence) rested(refused, leased bool) (stays, taken bool) {
	gone := s.left
	if s.resting {
		s.resting = false
		close(s.awake)
	}
	// Where a claim has given it meanwhile, the store had let it go. Whatever it says
	// now, another engine may have had the run in between.
	taken = s.claimed && (!refused || leased && !gone)
	s.claimed = false
	switch {
	case taken || !refused:
		s.left = true
	case gone: // it was parked, or the engine stops
		s.again = true
	default:
		stays = true
	}
	return stays, taken
}

// mustReturn reports whether the run is to be taken again when it has left: it has been
// sent something that it has not seen.
func (s *residence) mustReturn() bool { return s.again }

// linger has the run looked at later. It reports whether it is new among those that linger.
func (s *residence) linger(until time.Time) (first bool) {
	first = !s.lingers
	s.lingers, s.until = true, until
	return first
}

// endLinger takes the run off those that linger. It returns until when it was to.
func (s *residence) endLinger() time.Time {
	s.lingers = false
	return s.until
}
