package server

import (
	"slices"
	"sync"

	"github.com/perdure/perdure/observe"
)

// A Feed remembers the last notices of an engine for those who follow live events. Its observer is
// given to the engine (perdure.Options.Observers). The zero value is ready to use. Many goroutines
// may call its methods.
type Feed struct {
	mu    sync.Mutex
	ring  []observe.Notice // the last feedSize, as a ring
	count int64            // of all notices so far: the number of the last one
	more  chan struct{}    // closed with the next notice; nil if nobody waits
}

// feedSize is the number of notices that a feed remembers.
const feedSize = 4096

// Observer returns the observer that fills the feed.
func (f *Feed) Observer() observe.Observer { return observe.Observer{See: f.see, Direct: true} }

func (f *Feed) see(n observe.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring == nil {
		f.ring = make([]observe.Notice, feedSize)
	}
	f.ring[f.count%feedSize] = n
	f.count++
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// A numbered is a notice with its number.
type numbered struct {
	observe.Notice
	number int64
}

// after returns the last notices behind a number that are wanted, at most so many, and the number
// of the last notice of all. Missed reports that there were more than it remembers or returns.
// Wanted must return at once: the engine waits.
func (f *Feed) after(number int64, wanted func(*observe.Notice) bool, most int) (out []numbered,
	last int64, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number > f.count { // of another process
		number, missed = f.count, true
	}
	first := max(number, f.count-feedSize)
	missed = missed || first > number
	for i := f.count; i > first; i-- {
		n := &f.ring[(i-1)%feedSize]
		if !wanted(n) {
			continue
		}
		if len(out) == most {
			missed = true
			break
		}
		out = append(out, numbered{*n, i})
	}
	slices.Reverse(out)
	return out, f.count, missed
}

// wait returns a channel that is closed when there is a notice behind a number.
func (f *Feed) wait(number int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < f.count {
		return closed
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return f.more
}

// last returns the number of the last notice.
func (f *Feed) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}
