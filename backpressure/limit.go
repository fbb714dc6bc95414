package backpressure

import (
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Limit is a policy that limits the number of things that go on at a time; 0 means no limit.
type Limit int

// Begin implements [Policy].
func (n Limit) Begin() Limiter { return n }

// Validate returns an error of code invalid for a negative number.
func (n Limit) Validate() error {
	if n < 0 {
		return failure.Invalid("limit", "%d at a time: at least 1, or 0 for no limit", int(n))
	}
	return nil
}

// Room implements [Limiter]. If Validate returns an error, nothing begins and each thing gets that
// error.
func (n Limit) Room(running int, _ time.Time) (int, error) {
	if n == 0 {
		return noLimit, nil
	}
	return int(n) - running, n.Validate()
}

// Ended implements [Limiter].
func (Limit) Ended(error, time.Time) {}
