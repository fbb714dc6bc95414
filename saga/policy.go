package saga

import (
	"github.com/perdure/perdure"
)

// A Policy sets the order in which steps are undone, and how many attempts a compensation has.
type Policy string

// The policies.
const (
	// StrictSequential undoes one step after the other, beginning with the step that ended last.
	// Each compensation has one attempt.
	StrictSequential Policy = "STRICT_SEQUENTIAL"
	// GroupedParallel undoes layer by layer, beginning with the last layer, all steps of a layer at
	// once. Each compensation has one attempt.
	GroupedParallel Policy = "GROUPED_PARALLEL"
	// RetryWithBackoff is StrictSequential with retries: by the retry policy of the compensation,
	// or else of its step.
	RetryWithBackoff Policy = "RETRY_WITH_BACKOFF"
	// CircuitBreaker is RetryWithBackoff, but when a critical compensation fails, nothing more is
	// undone.
	CircuitBreaker Policy = "CIRCUIT_BREAKER"
	// BestEffortParallel undoes all steps at once. Each compensation has one attempt.
	BestEffortParallel Policy = "BEST_EFFORT_PARALLEL"
)

func (p Policy) retries() bool { return p == RetryWithBackoff || p == CircuitBreaker }

func (p Policy) valid() bool {
	switch p {
	case StrictSequential, GroupedParallel, RetryWithBackoff, CircuitBreaker, BestEffortParallel:
		return true
	}
	return false
}

// An Action is the answer of a handler to a compensation that has failed.
type Action string

// The actions.
const (
	Continue Action = "CONTINUE" // leave it failed and continue
	// make one more attempt, after the delay of the retry policy; at most ten times
	Retry Action = "RETRY"
	// stop undoing; the saga fails with the error of the compensation
	FailSaga Action = "FAIL_SAGA"
	// like Continue, even if the step is critical or an operator would be asked
	SkipStep        Action = "SKIP_STEP"
	MarkCompensated Action = "MARK_COMPENSATED" // count it as undone
)

// maxRetries limits how many more attempts a handler can ask for.
const maxRetries = 10

// An UndoError is the failure of a compensation.
type UndoError struct {
	Saga    string
	Step    string
	Err     error
	Attempt int // number of attempts so far
	Retries int // number of these attempts that a handler asked for
}

// A Handler returns an action for a compensation that has failed. Its answer must depend on its
// argument alone, because it may be called again after a crash. A panic counts as [Continue].
type Handler func(UndoError) Action

// ContinueHandler returns [Continue] for each failure. It is the default.
func ContinueHandler(UndoError) Action { return Continue }

// FailFast returns [FailSaga] for the first failure.
func FailFast(UndoError) Action { return FailSaga }

// RetryThenFail asks for three more attempts, then returns [FailSaga].
func RetryThenFail(e UndoError) Action { return retryThen(FailSaga, e) }

// Robust asks for three more attempts, then returns [Continue].
func Robust(e UndoError) Action { return retryThen(Continue, e) }

// OneOf returns a handler that asks the handlers in order and returns the first answer that is not
// [Continue].
func OneOf(handlers ...Handler) Handler {
	return func(e UndoError) Action {
		for _, h := range handlers {
			if a := h(e); a != Continue {
				return a
			}
		}
		return Continue
	}
}

var handlers = map[string]Handler{
	"default": ContinueHandler, "log-and-continue": ContinueHandler, "fail-fast": FailFast,
	"retry": RetryThenFail, "robust": Robust,
}

// NamedHandler returns a handler by its name: default, log-and-continue, fail-fast, retry or
// robust.
func NamedHandler(name string) (Handler, error) {
	if h := handlers[name]; h != nil {
		return h, nil
	}
	return nil, &perdure.Error{
		Code: perdure.CodeNotFound, Op: "handler " + name,
		Message: "there is no handler of this name",
		Hint:    "default, log-and-continue, fail-fast, retry and robust are there",
	}
}

// retryThen asks for three attempts in addition to those of the policy, then returns last.
func retryThen(last Action, e UndoError) Action {
	if e.Retries < 3 {
		return Retry
	}
	return last
}
