package backpressure

import (
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Adaptive is a policy under which more go on at a time while few fail, and fewer
// where many do. Whenever Every have ended, it judges by the share of these that failed,
// and counts anew.
//
// A zero field has its default, which stands beside it.
type Adaptive struct {
	// how many may go on at a time at first; 4, or what is nearest to it of Min to Max
	Start int
	Min   int     // never fewer, at least 1; 1
	Max   int     // never more; 16
	Halve float64 // half as many where a larger share failed, up to 1; 0.1
	Grow  float64 // one more where a smaller share failed, less than Halve; half of Halve
	Every int     // how many results it judges at a time; 10
}

// Begin is [Policy].Begin. Where Validate complains, nothing begins and all get that
// error.
func (a Adaptive) Begin() Limiter {
	if err := a.Validate(); err != nil {
		return misfit{err}
	}
	a = a.filled()
	return &adaptiveLimiter{of: a, limit: a.Start}
}

// Validate returns an error of code invalid where a field is not valid.
func (a Adaptive) Validate() error {
	const op = "adaptive"
	a = a.filled()
	switch {
	case a.Min < 1:
		return failure.Invalid(op, "Min is %d: at least 1", a.Min)
	case a.Max < a.Min:
		return failure.Invalid(op, "Max is %d: at least Min, which is %d", a.Max, a.Min)
	case a.Start < a.Min || a.Start > a.Max:
		return failure.Invalid(op, "Start is %d: %d to %d, as Min and Max are", a.Start, a.Min,
			a.Max)
	case !(a.Halve >= 0 && a.Halve <= 1):
		return failure.Invalid(op, "Halve is %v: 0 to 1", a.Halve)
	case !(a.Grow >= 0 && a.Grow < a.Halve):
		return failure.Invalid(op, "Grow is %v: at least 0, and less than Halve, which is %v",
			a.Grow, a.Halve)
	case a.Every < 1:
		return failure.Invalid(op, "Every is %d: at least 1", a.Every)
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
	ended, failed int // since it judged
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
