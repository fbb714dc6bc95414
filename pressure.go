package perdure

import "time"

// A Pressure says how many of many things may go on at a time, and whether more may
// begin at all. It is data: what it has seen of one use of it is in a Flow.
type Pressure interface {
	Begin() Flow
}

// A Flow is one use of a pressure. It decides by what it is told alone, so that workflow
// code which asks it decides the same on replay. It is used by one goroutine.
type Flow interface {
	// Room says how many more may begin now, while running go on; below 0 is none. An
	// error is what becomes of the next one instead. Where nothing runs, there is room
	// or an error.
	Room(running int, now time.Time) (int, error)
	// Ended takes in that one has ended, with an error or nil.
	Ended(err error, now time.Time)
}

// AtMost is a pressure under which at most so many go on at a time; 0 is no limit.
type AtMost int

// Begin is [Pressure].Begin.
func (n AtMost) Begin() Flow { return n }

// Room is [Flow].Room.
func (n AtMost) Room(running int, _ time.Time) (int, error) {
	if n <= 0 {
		return int(^uint(0) >> 1), nil
	}
	return int(n) - running, nil
}

// Ended is [Flow].Ended.
func (AtMost) Ended(error, time.Time) {}
