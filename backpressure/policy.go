// Package backpressure limits the number of things that go on at a time: the items of a list in a
// code workflow ([ForEach]), the steps of a graph, the members of a composition.
package backpressure

import (
	"math"
	"time"
)

// A Policy limits how many things go on at a time, and decides whether more may begin at all. It is
// data: the state of one use of a policy is in a Limiter.
type Policy interface {
	Begin() Limiter
}

// A Limiter is one use of a policy. It decides by the arguments of its calls alone, so that
// workflow code which uses it decides the same on replay. One goroutine uses it.
type Limiter interface {
	// Room returns the number of things that may begin now, while running things go on; below 0
	// counts as 0. An error means that the next thing does not begin and gets this error instead.
	// If nothing runs, Room must return a number above 0 or an error.
	Room(running int, now time.Time) (int, error)
	// Ended is called when a thing has ended, with its error or nil.
	Ended(err error, now time.Time)
}

// noLimit is the room if there is no limit.
const noLimit = math.MaxInt

// A misfit is the limiter of a policy that is not valid: nothing begins, and each thing gets the
// error.
type misfit struct{ err error }

func (f misfit) Room(int, time.Time) (int, error) { return 0, f.err }
func (misfit) Ended(error, time.Time)             {}
