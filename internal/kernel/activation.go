package kernel

import (
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// An activation is the time of a run in memory: from its start or claim until it ends or leaves.
//
// Invariants: once end is set or left is true, it is decided that the activation is over, and no
// entry is appended any more. While it is unloading, no entry is appended for now. Only a refusal
// of the store removes an end. Once it has departed, every entry is durable or never will be,
// contexts have ended, and waiters are notified.
//
// The mu of the run guards it.
type activation struct {
	end      *journal.Error // the termination error of a run that has ended
	left     bool           // the run leaves without having ended
	departed bool

	unloading bool          // the run has asked to leave memory
	awake     chan struct{} // closed when the answer is there
	claimed   bool          // a claim came while the run was about to leave: see awaits
	again     bool          // the run was parked, and must be looked at again

	idles bool      // the run is among the idle runs
	until time.Time // the end of its idle timeout

	refusal error         // by the store
	verdict store.Verdict // of a start
	found   journal.Head  // the run that has the ID of a start
}

// ended returns the termination error, or nil if the run has not ended.
func (s *activation) ended() *journal.Error { return s.end }

// hasLeft reports whether the run leaves memory without having ended.
func (s *activation) hasLeft() bool { return s.left }

// over reports whether it is decided that the activation ends.
func (s *activation) over() bool { return s.left || s.end != nil }

// gone reports whether no entry may be appended any more, or for now.
func (s *activation) gone() bool { return s.over() || s.unloading }

// leave ends the activation of a run that has not ended. No entry is appended any more. Entries
// that the caller's turn does not seal are dropped by depart.
func (s *activation) leave() { s.left = true }

// endBy ends the activation by the end of the run.
func (s *activation) endBy(end *journal.Error) { s.end = end }

// takeLeave records that every entry is durable or never will be. It returns the cause that
// contexts end with, and reports whether it is the first call.
func (s *activation) takeLeave() (cause error, first bool) {
	first = !s.departed
	s.departed = true
	if s.end != nil && !s.left {
		return s.end, first
	}
	return ErrUnloaded, first
}

// refuse ends the activation, since the store refuses its entries. It reports whether this is the
// first refusal: then the run may be parked.
func (s *activation) refuse(err error) (first bool) {
	first = s.refusal == nil
	s.refusal, s.left = err, true
	return first
}

// reprieve removes the end of a run that is to be parked instead.
func (s *activation) reprieve() { s.end = nil }

// refusedBy returns the store's refusal of entries, or nil.
func (s *activation) refusedBy() error { return s.refusal }

// answer records that a start was not made, and ends the activation.
func (s *activation) answer(v store.Verdict, found journal.Head) {
	s.verdict, s.found, s.left = v, found, true
}

// startedAs returns the verdict on a start, and the run that has its ID.
func (s *activation) startedAs() (store.Verdict, journal.Head) { return s.verdict, s.found }

// startUnload records that the store is asked to let the run leave memory.
func (s *activation) startUnload() { s.unloading, s.awake = true, make(chan struct{}) }

// decides returns a channel that is closed when it is decided whether the run leaves memory; nil if
// the run has not asked to.
func (s *activation) decides() <-chan struct{} {
	if !s.unloading {
		return nil
	}
	return s.awake
}

// awaits records that a claim has returned, or may have returned, a run that is about to leave this
// engine. The store has then released the run, and the run does not know that yet. When the run has
// left, it is taken again. awaits returns false if the run does not wait for an answer.
func (s *activation) awaits() bool {
	s.claimed = s.claimed || s.unloading
	return s.unloading
}

// unloaded takes the verdict on an unload. If it was refused, the run has messages that it does not
// know. It reports whether the run stays, and whether a claim has taken the run meanwhile, so that
// it is to be taken again when it has left.
func (s *activation) unloaded(refused, leased bool) (stays, taken bool) {
	gone := s.left
	if s.unloading {
		s.unloading = false
		close(s.awake)
	}
	// If a claim has returned the run meanwhile, the store had released it. Whatever the verdict is
	// now, another engine may have had the run in between.
	taken = s.claimed && (!refused || leased && !gone)
	s.claimed = false
	switch {
	case taken || !refused:
		s.left = true
	case gone: // the run was parked, or the engine stops
		s.again = true
	default:
		stays = true
	}
	return stays, taken
}

// mustReturn reports whether the run is to be taken again when it has left, because it has a
// message that it has not seen.
func (s *activation) mustReturn() bool { return s.again }

// awaitIdle sets the end of the run's idle timeout. It reports whether the run is new among the
// idle runs.
func (s *activation) awaitIdle(until time.Time) (first bool) {
	first = !s.idles
	s.idles, s.until = true, until
	return first
}

// endIdle removes the run from the idle runs. It returns the end of its idle timeout.
func (s *activation) endIdle() time.Time {
	s.idles = false
	return s.until
}
