package backpressure

import (
	"fmt"
	"reflect"
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// A CircuitBreaker is a policy that stops things which fail again and again. It has three states:
//
//   - Closed, at first: it opens after Failures failures in a row. After n failures in a
//     row, at most Failures-n things go on at a time, so that no more than Failures can
//     fail before it opens.
//   - Open: nothing begins, and each thing gets an [OpenError]. After Recovery it is
//     half-open.
//   - Half-open: it closes after Successes successes, and opens again after one failure. At
//     most as many things go on at a time as successes are still missing.
//
// A thing that ends while the breaker is open does not count, because it began before. A thing that
// ends while it is half-open counts, whenever it began.
//
// A zero field has the default that stands beside it.
type CircuitBreaker struct {
	Failures  int           // failures in a row that open it; 0 means 5
	Recovery  time.Duration // how long it is open; 0 means 30 s
	Successes int           // successes that close it when it is half-open; 0 means 3
}

// Begin implements [Policy]. If Validate returns an error, nothing begins and each thing gets that
// error.
func (b CircuitBreaker) Begin() Limiter {
	if err := b.Validate(); err != nil {
		return misfit{err}
	}
	return &breakerLimiter{of: b.filled()}
}

// Validate returns an error of code invalid if a field is not valid.
func (b CircuitBreaker) Validate() error {
	const op = "circuit breaker"
	b = b.filled()
	switch {
	case b.Failures < 1:
		return failure.Invalid(op, "Failures %d is not valid: at least 1", b.Failures)
	case b.Recovery < 0:
		return failure.Invalid(op, "Recovery %v is not valid: at least 0", b.Recovery)
	case b.Successes < 1:
		return failure.Invalid(op, "Successes %d is not valid: at least 1", b.Successes)
	}
	return nil
}

func (b CircuitBreaker) filled() CircuitBreaker {
	if b.Failures == 0 {
		b.Failures = 5
	}
	if b.Recovery == 0 {
		b.Recovery = 30 * time.Second
	}
	if b.Successes == 0 {
		b.Successes = 3
	}
	return b
}

type breakerLimiter struct {
	of       CircuitBreaker
	failures int // in a row, while closed
	open     bool
	since    time.Time // when it opened the last time
	needed   int       // successes that are missing, while half-open
}

func (f *breakerLimiter) Room(running int, now time.Time) (int, error) {
	if f.open {
		if until := f.since.Add(f.of.Recovery); now.Before(until) {
			return 0, &OpenError{Since: f.since, Until: until}
		}
		f.open, f.needed = false, f.of.Successes
	}
	if f.needed == 0 {
		return f.of.Failures - f.failures - running, nil
	}
	return f.needed - running, nil
}

func (f *breakerLimiter) Ended(err error, now time.Time) {
	switch {
	case f.open:
	case err == nil:
		f.failures, f.needed = 0, max(f.needed-1, 0)
	default:
		if f.failures++; f.needed > 0 || f.failures >= f.of.Failures {
			f.open, f.since = true, now
		}
	}
}

// An OpenError is the error of a thing that may not begin because a [CircuitBreaker] is open.
// Journals keep it: errors.As finds it in the chain of a recorded error.
type OpenError struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Error names the times when the breaker opened and when it becomes half-open.
func (e *OpenError) Error() string {
	const layout = "2006-01-02T15:04:05.999Z07:00"
	return fmt.Sprintf("perdure: the circuit breaker is open since %s, until %s", e.Since.UTC().
		Format(layout), e.Until.UTC().Format(layout))
}

// It never fails: no name is registered before this one.
var _ = failure.RegisterType("perdure.breaker-open", reflect.TypeFor[*OpenError]())
