// Package backpressure limits how many of many things go on at a time: the items of a list in
// a code workflow ([ForEach]), the steps of a graph, the members of a composition.
package backpressure

import (
	"math"
	"time"
)

// A Policy says how many of many things may go on at a time, and whether more may
// begin at all. It is data: what it has seen of one use of it is in a Limiter.
type Policy interface {
	Begin() Limiter
}

// A Limiter is one use of a policy. It decides by what it is told alone, so that workflow
// code which asks it decides the same on replay. It is used by one goroutine.
type Limiter interface {
	// Room says how many more may begin now, while running go on; below 0 is none. An
	// error is what becomes of the next one instead. Where nothing runs, there is room
	// or an error.
	Room(running int, now time.Time) (int, error)
	// Ended takes in that one has ended, with an error or nil.
	Ended(err error, now time.Time)
}

// noLimit is the room where there is no limit.
const noLimit = math.MaxInt

// A misfit is the limiter of a policy that is not valid: none of the many begins, and each
// gets the error.
type misfit struct{ err error }

func (f misfit) Room(int, time.Time) (int, error) { return 0, f.err }
func (misfit) Ended(error, time.Time)             {}
