package kernel

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An activation says how far the activation of a run is, from its start or claim until it ends
// or leaves.
//
// Invariants: once end is set or left is true, it is decided that the activation is over, and
// nothing is appended any more; while it is unloading, nothing is appended for now. Only a
// refusal of the store takes an end back. Once it has departed, all of that is durable or
// never will be: contexts have ended and waiters hear.
//
// It is guarded by its run's mu.
type activation struct {
	end      *journal.Error // the termination error of a run that has ended
	left     bool           // it leaves without having ended
	departed bool

	unloading bool          // it has asked to leave memory
	awake     chan struct{} // closed when that is decided
	claimed   bool          // while it was about to leave: see awaits
	again     bool          // it was parked, and must be looked at again

	idles bool      // it is among those that are unloaded after a while
	until time.Time // that while ends then

	refusal error         // of the store
	verdict store.Verdict // of a start
	found   journal.Head  // by a start whose ID was taken
}

// ended returns the termination error, or nil where the run has not ended.
func (s *activation) ended() *journal.Error { return s.end }

// hasLeft reports whether the run leaves memory without having ended.
func (s *activation) hasLeft() bool { return s.left }

// over reports whether it is decided that the activation ends.
func (s *activation) over() bool { return s.left || s.end != nil }

// gone reports whether nothing may be appended any more, or not now.
func (s *activation) gone() bool { return s.over() || s.unloading }

// leave ends the activation of a run that has not ended. Nothing is appended any
// more, and what is not sealed by the caller's turn is dropped by depart.
func (s *activation) leave() { s.left = true }

// endBy ends the activation by the end of the run.
func (s *activation) endBy(end *journal.Error) { s.end = end }

// takeLeave notes that all is durable or never will be. It reports false where it was noted
// already, and returns what contexts end with.
func (s *activation) takeLeave() (cause error, first bool) {
	first = !s.departed
	s.departed = true
	if s.end != nil && !s.left {
		return s.end, first
	}
	return ErrUnloaded, first
}

// refuse ends the activation, since the store refuses what it has recorded. It reports
// whether this is the first refusal: the run may be parked then.
func (s *activation) refuse(err error) (first bool) {
	first = s.refusal == nil
	s.refusal, s.left = err, true
	return first
}

// reprieve takes back the end of a run that is to be parked instead.
func (s *activation) reprieve() { s.end = nil }

// refusedBy returns the store's refusal of what was recorded, or nil.
func (s *activation) refusedBy() error { return s.refusal }

// answer takes in that a start was not made, and ends the activation.
func (s *activation) answer(v store.Verdict, found journal.Head) {
	s.verdict, s.found, s.left = v, found, true
}

// startedAs returns what the store has made of a start.
func (s *activation) startedAs() (store.Verdict, journal.Head) { return s.verdict, s.found }

// startUnload notes that the store is asked to let the run leave memory.
func (s *activation) startUnload() { s.unloading, s.awake = true, make(chan struct{}) }

// decides returns a channel that is closed when it is decided whether the run leaves
// memory; nil where it has not asked to.
func (s *activation) decides() <-chan struct{} {
	if !s.unloading {
		return nil
	}
	return s.awake
}

// awaits notes that a claim has given, or may have, a run that is about to leave
// this engine: the store has let it go, and the run has not heard of that. When it
// has left, it is taken again. It reports false where the run does not wait to hear.
func (s *activation) awaits() bool {
	s.claimed = s.claimed || s.unloading
	return s.unloading
}

// unloaded takes in what the store has made of an unload: refused, the run has messages that it
// does not know. It reports whether the run stays, and whether a claim has taken it
// meanwhile, so that it is to be taken again when it has left.
func (s *activation) unloaded(refused, leased bool) (stays, taken bool) {
	gone := s.left
	if s.unloading {
		s.unloading = false
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
func (s *activation) mustReturn() bool { return s.again }

// awaitIdle has the run looked at when its idle timeout has passed. It reports whether the run
// is new among those that wait for that.
func (s *activation) awaitIdle(until time.Time) (first bool) {
	first = !s.idles
	s.idles, s.until = true, until
	return first
}

// endIdle takes the run off those that wait for their idle timeout. It returns until when the
// run was to wait.
func (s *activation) endIdle() time.Time {
	s.idles = false
	return s.until
}
