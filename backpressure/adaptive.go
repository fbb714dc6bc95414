package backpressure

import (
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Adaptive is a policy that lets more things go on at a time while few fail, and fewer while many
// fail. Each time that Every things have ended, it changes the limit by the share of these things
// that have failed.
//
// A zero field has the default that stands beside it.
type Adaptive struct {
	// Start is the first limit. Zero means 4; if 4 is not between Min and Max, it means the nearer
	// of the two.
	Start int
	Min   int     // lower bound of the limit, at least 1; 0 means 1
	Max   int     // upper bound of the limit; 0 means 16
	Halve float64 // a larger share of failures halves the limit; at most 1; 0 means 0.1
	Grow  float64 // a smaller share adds one; less than Halve; 0 means half of Halve
	Every int     // number of results in each decision; 0 means 10
}

// Begin implements [Policy]. If Validate returns an error, nothing begins and each thing gets that
// error.
func (a Adaptive) Begin() Limiter {
	if err := a.Validate(); err != nil {
		return misfit{err}
	}
	a = a.filled()
	return &adaptiveLimiter{of: a, limit: a.Start}
}

// Validate returns an error of code invalid if a field is not valid.
func (a Adaptive) Validate() error {
	const op = "adaptive"
	a = a.filled()
	switch {
	case a.Min < 1:
		return failure.Invalid(op, "Min %d is not valid: at least 1", a.Min)
	case a.Max < a.Min:
		return failure.Invalid(op, "Max %d is not valid: at least Min, which is %d", a.Max,
			a.Min)
	case a.Start < a.Min || a.Start > a.Max:
		return failure.Invalid(op, "Start %d is not valid: allowed are %d to %d, by Min and Max",
			a.Start, a.Min, a.Max)
	case !(a.Halve >= 0 && a.Halve <= 1):
		return failure.Invalid(op, "Halve %v is not valid: allowed are 0 to 1", a.Halve)
	case !(a.Grow >= 0 && a.Grow < a.Halve):
		return failure.Invalid(op, "Grow %v is not valid: at least 0, and less than Halve, which "+
			"is %v", a.Grow, a.Halve)
	case a.Every < 1:
		return failure.Invalid(op, "Every %d is not valid: at least 1", a.Every)
	}
	return nil
}

func (a Adaptive) filled() Adaptive {
	if a.Min == 0 {
		a.Min = 1
	}
	if a.Max == 0 {
		a.Max = 16
	}
	if a.Start == 0 {
		a.Start = min(max(4, a.Min), a.Max)
	}
	if a.Halve == 0 {
		a.Halve = 0.1
	}
	if a.Grow == 0 {
		a.Grow = a.Halve / 2
	}
	if a.Every == 0 {
		a.Every = 10
	}
	return a
}

type adaptiveLimiter struct {
	of            Adaptive
	limit         int
	ended, failed int // since the last decision
}

func (f *adaptiveLimiter) Room(running int, _ time.Time) (int, error) {
	return f.limit - running, nil
}

func (f *adaptiveLimiter) Ended(err error, _ time.Time) {
	f.ended++
	if err != nil {
		f.failed++
	}
	if f.ended < f.of.Every {
		return
	}
	switch share := float64(f.failed) / float64(f.ended); {
	case share > f.of.Halve:
		f.limit = max(f.limit/2, f.of.Min)
	case share < f.of.Grow && f.limit < f.of.Max:
		f.limit++
	}
	f.ended, f.failed = 0, 0
}
