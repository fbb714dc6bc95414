package backpressure

import (
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Limit is a policy under which at most so many go on at a time; 0 is no limit.
type Limit int

// Begin is [Policy].Begin.
func (n Limit) Begin() Limiter { return n }

// Validate returns an error of code invalid for a negative number.
func (n Limit) Validate() error {
	if n < 0 {
		return failure.Invalid("limit", "%d at a time: at least 1, or 0 for no limit", int(n))
	}
	return nil
}

// Room is [Limiter].Room. Where Validate complains, nothing begins and all get that error.
func (n Limit) Room(running int, _ time.Time) (int, error) {
	if n == 0 {
		return noLimit, nil
	}
	return int(n) - running, n.Validate()
}

// Ended is [Limiter].Ended.
func (Limit) Ended(error, time.Time) {}
