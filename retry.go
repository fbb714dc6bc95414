package perdure

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

// A Retry sets how often an operation is tried and how long to wait between attempts. As an
// option of a step, it is the step's policy. As an option of a workflow, it is the policy of the
// steps that have none. Precedence: step, workflow, the default.
//
// A zero field has its default: 3 attempts, 1 s, factor 2, no jitter, and at most 5 min, or First
// if that is longer.
type Retry struct {
	Attempts int           // in total, at least 1
	First    time.Duration // before the second attempt
	Cap      time.Duration // the longest delay
	Factor   float64       // by which the delay grows, at least 1
	// The share of the delay, 0 to 1, by which the delay is longer or shorter at random.
	Jitter  float64
	NoDelay bool // the next attempt begins at once; the four fields above are then not set

	// On has the classes of errors that are retried, found anywhere in the chain. Empty means
	// all. A class is a sentinel of [RegisterError]; a value of a type of [RegisterErrorType],
	// which stands for all errors of the type; or an [Error] with only a code.
	On []error
}

// defaultRetry is the policy of steps without a policy.
var defaultRetry = Retry{Attempts: 3, First: time.Second, Cap: 5 * time.Minute, Factor: 2}

// NoRetry allows one attempt.
var NoRetry = Retry{Attempts: 1, NoDelay: true}

// Delay returns how long the policy waits between attempt n, counted from 1, and the next
// attempt, without jitter.
func (r Retry) Delay(n int) time.Duration {
	if r.NoDelay {
		return 0
	}
	r = r.filled()
	d := float64(r.First) * math.Pow(r.Factor, float64(max(n, 1)-1))
	if d >= float64(r.Cap) || math.IsNaN(d) {
		return r.Cap
	}
	return time.Duration(d)
}

// total returns how long the policy waits in all, without jitter. The delays grow up to the
// longest delay and then stay there.
func (r Retry) total() time.Duration {
	if r.NoDelay {
		return 0
	}
	r = r.filled()
	first, longest, delays := float64(r.First), float64(r.Cap), float64(r.Attempts-1)
	if r.Factor == 1 || first >= longest {
		return time.Duration(min(delays*min(first, longest), maxDelay))
	}
	growing := min(delays, math.Ceil(math.Log(longest/first)/math.Log(r.Factor)))
	sum := first * ((math.Pow(r.Factor, growing) - 1) / (r.Factor - 1))
	return time.Duration(min(sum+(delays-growing)*longest, maxDelay))
}

// ShouldRetry reports whether the policy allows an attempt after the n-th.
func (r Retry) ShouldRetry(n int) bool { return n < r.filled().Attempts }

// Validate returns an [Error] of code invalid if a field is not valid.
func (r Retry) Validate() error {
	switch {
	case r.Attempts < 0:
		return failure.Invalid("retry", "Attempts %d is not valid: at least 1", r.Attempts)
	case r.First < 0:
		return failure.Invalid("retry", "First %v is not valid: at least 0", r.First)
	case r.Cap < 0:
		return failure.Invalid("retry", "Cap %v is not valid: at least 0", r.Cap)
	case r.Factor != 0 && !(r.Factor >= 1) || math.IsInf(r.Factor, 0):
		return failure.Invalid("retry", "Factor %v is not valid: at least 1", r.Factor)
	case !(r.Jitter >= 0 && r.Jitter <= 1):
		return failure.Invalid("retry", "Jitter %v is not valid: allowed are 0 to 1", r.Jitter)
	case r.NoDelay && (r.First != 0 || r.Cap != 0 || r.Factor != 0 || r.Jitter != 0):
		return &Error{
			Code: journal.CodeInvalid, Op: "retry", Message: "NoDelay is set together with a delay",
			Hint: "leave out NoDelay, or First, Cap, Factor and Jitter",
		}
	}
	for _, on := range r.On {
		if !failure.IsClass(on) {
			return &Error{
				Code: journal.CodeInvalid, Op: "retry",
				Message: "On has an error that is not registered", Err: on,
				Hint: "pass it to RegisterError, or its type to RegisterErrorType: " +
					"then it is found in recorded errors",
			}
		}
	}
	return nil
}

// Check returns the policy and its issues: a field that is not valid ([Retry.Validate]) refuses the
// definition, and delays that are longer than a day, each or together, are warnings.
func (r Retry) Check(where string) (Retry, []definition.Issue) {
	if err := r.Validate(); err != nil {
		return r, []definition.Issue{definition.Wrong(where, err)}
	}
	var issues []definition.Issue
	if longest := max(r.First, r.Cap); longest > definition.OddlyLong {
		issues = append(issues, definition.Odd(where, "a delay of %v", longest))
	} else if all := r.total(); all > definition.OddlyLong {
		issues = append(issues, definition.Odd(where, "delays of %v together",
			all.Truncate(time.Second)))
	}
	return r, issues
}

func (r Retry) filled() Retry {
	if r.Attempts == 0 {
		r.Attempts = defaultRetry.Attempts
	}
	if r.First == 0 {
		r.First = defaultRetry.First
	}
	if r.Cap == 0 {
		r.Cap = max(defaultRetry.Cap, r.First)
	}
	if r.Factor == 0 {
		r.Factor = defaultRetry.Factor
	}
	return r
}

// maxDelay is the largest delay, as a float, that is still a valid duration.
const maxDelay = float64(math.MaxInt64 - 1<<10)

// next returns when the next attempt begins after a failure of the n-th.
func (r Retry) next(n int, f *journal.Failure) (time.Duration, bool) {
	if !r.ShouldRetry(n) || !r.retries(f) {
		return 0, false
	}
	d := r.Delay(n)
	if r.Jitter > 0 {
		d = time.Duration(min(float64(d)*(1+r.Jitter*(2*rand.Float64()-1)), maxDelay))
	}
	return d, true
}

func (r Retry) retries(f *journal.Failure) bool {
	if f == nil || len(r.On) == 0 {
		return true
	}
	err := failure.Err(f)
	return slices.ContainsFunc(r.On, func(on error) bool { return failure.InClass(err, on) })
}
