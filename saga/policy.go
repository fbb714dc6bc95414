package saga

import (
	"github.com/perdure/perdure"
)

// A Policy says in which order steps are undone, and how often that is tried.
type Policy string

// The policies.
const (
	// StrictSequential undoes one after the other, the one that ended last first, each
	// with one attempt.
	StrictSequential Policy = "STRICT_SEQUENTIAL"
	// GroupedParallel undoes layer by layer, the last first, the steps of a layer at
	// once, each with one attempt.
	GroupedParallel Policy = "GROUPED_PARALLEL"
	// RetryWithBackoff is StrictSequential with the compensation's retries, else those of
	// its step.
	RetryWithBackoff Policy = "RETRY_WITH_BACKOFF"
	// CircuitBreaker is RetryWithBackoff, and where a critical compensation fails,
	// nothing more is undone.
	CircuitBreaker Policy = "CIRCUIT_BREAKER"
	// BestEffortParallel undoes all at once, each with one attempt.
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

// An Action is what a handler answers to a compensation that has failed.
type Action string

// The actions.
const (
	Continue Action = "CONTINUE" // pass over it
	// one more attempt, after the delay of its policy; at most ten
	Retry Action = "RETRY"
	// nothing more is undone, and its error is the saga's
	FailSaga Action = "FAIL_SAGA"
	// pass over it, also where it is critical, or an operator would be asked
	SkipStep        Action = "SKIP_STEP"
	MarkCompensated Action = "MARK_COMPENSATED" // count it as undone
)

// maxRetries is how often a handler is given one more attempt.
const maxRetries = 10

// An UndoError is a compensation that has failed.
type UndoError struct {
	Saga    string
	Step    string
	Err     error
	Attempt int // how many attempts there were
	Retries int // how many of them were made because a handler had asked for them
}

// A Handler answers to compensations that have failed. It must decide by its argument
// alone: it may be asked again after a crash. A panic in it is [Continue].
type Handler func(UndoError) Action

// ContinueHandler passes over: the default.
func ContinueHandler(UndoError) Action { return Continue }

// FailFast gives the saga up at the first.
func FailFast(UndoError) Action { return FailSaga }

// RetryThenFail asks for three more attempts, then gives the saga up.
func RetryThenFail(e UndoError) Action { return retryThen(FailSaga, e) }

// Robust asks for three more attempts, then passes over.
func Robust(e UndoError) Action { return retryThen(Continue, e) }

// OneOf gives the first answer that is not [Continue].
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

// NamedHandler gives one of the handlers by name: default, log-and-continue, fail-fast,
// retry, robust.
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

// retryThen asks for three attempts beyond those of the policy.
func retryThen(last Action, e UndoError) Action {
	if e.Retries < 3 {
		return Retry
	}
	return last
}
