package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
)

// backward undoes what is done, and gives the error of the saga.
func (x *execution) backward(ctx context.Context) error {
	if x.hasUndo() {
		if err := perdure.SetStatus(ctx, perdure.StatusCompensating); err != nil {
			return err
		}
	}
	abort := x.undoAll(ctx)
	err := x.why()
	if abort != nil {
		err = abort
	}
	for _, f := range x.failed {
		if f.u == nil || perdure.Over(ctx) != nil {
			continue
		}
		if e := perdure.DeadLetter(ctx, f.u.clone.name(), f.err); e != nil {
			return e
		}
	}
	return err
}

func (x *execution) hasUndo() bool {
	return slices.ContainsFunc(x.done, func(u *unit) bool { return u.undo != nil })
}

// undoAll undoes what is done by the policy. It gives the error of a compensation that
// the handler makes the saga's.
func (x *execution) undoAll(ctx context.Context) error {
	if !x.hasUndo() {
		return nil
	}
	if err := perdure.Record(ctx, perdure.Fact{Kind: perdure.CompensationStarted, Name: "compensation", Reason: string(x.policy)}); err != nil {
		return err
	}
	groups := x.groups()
	for i, group := range groups {
		stop, err := x.undoGroup(ctx, group)
		if over := perdure.Over(ctx); over != nil {
			return over
		}
		if stop {
			if e := x.skip(ctx, groups[i+1:]); e != nil {
				return e
			}
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// groups gives what is undone at once, in order.
func (x *execution) groups() [][]*unit {
	var groups [][]*unit
	layers := map[int]int{} // where in groups
	for _, u := range slices.Backward(x.done) {
		if u.undo == nil {
			continue
		}
		at := len(groups)
		switch x.policy {
		case BestEffortParallel:
			at = 0
		case GroupedParallel:
			if known, ok := layers[u.layer]; ok {
				at = known
			}
			layers[u.layer] = at
		}
		if at == len(groups) {
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], u)
	}
	if x.policy == GroupedParallel { // a layer has ended before the next one has begun
		slices.SortStableFunc(groups, func(a, b []*unit) int { return b[0].layer - a[0].layer })
	}
	return groups
}

// undoGroup undoes units at once. Stop says that nothing more is to be undone, and err
// what then is the error of the saga.
func (x *execution) undoGroup(ctx context.Context, group []*unit) (stop bool, err error) {
	futures := make([]*perdure.Future[json.RawMessage], len(group))
	byFuture := map[*perdure.Future[json.RawMessage]]*unit{}
	for i, u := range group {
		futures[i] = x.undoTask(u, x.undoPolicy(u)).Async(ctx, x.undoGiven(u))
		byFuture[futures[i]] = u
	}
	for f, over := range perdure.AsCompleted(ctx, futures...) {
		if over != nil {
			return true, over
		}
		stopped, e := x.judge(ctx, byFuture[f], f)
		if stop = stop || stopped; err == nil {
			err = e
		}
	}
	return stop, err
}

// undoPolicy says how often a compensation is tried.
func (x *execution) undoPolicy(u *unit) perdure.Retry {
	switch {
	case !x.policy.retries():
		return perdure.NoRetry
	case u.undoRetry != nil:
		return *u.undoRetry
	}
	return u.retry
}

// undoTask is what undoes a unit.
func (x *execution) undoTask(u *unit, retry perdure.Retry) perdure.Task {
	timeout := u.undoTimeout
	if timeout == 0 {
		timeout = u.timeout
	}
	return perdure.Task{Name: u.step.id, Key: u.clone.key, Phase: perdure.PhaseUndo, Call: u.undo, Retry: &retry, Timeout: timeout}
}

// undoGiven is what the argument of a compensation is made of: what that of its step was
// made of, and the result of it.
func (x *execution) undoGiven(u *unit) perdure.Given {
	given := x.given(u)
	results := given.Result
	given.Result = func(id string) (json.RawMessage, bool) {
		if id == ownResult {
			id = u.clone.id
		}
		return results(id)
	}
	return given
}

// judge gives a verdict on a compensation that has been tried: it is tried again as
// often as the handler or an operator asks for it.
func (x *execution) judge(ctx context.Context, u *unit, f *perdure.Future[json.RawMessage]) (stop bool, err error) {
	attempts, retries := 0, 0
	for {
		out, err := f.Await(ctx)
		if over := perdure.Over(ctx); over != nil {
			return true, over
		}
		if err == nil {
			return false, x.isUndone(ctx, u, out, nil)
		}
		attempts += f.Attempts()
		x.keepError(u, err)
		switch action := x.ask(u, err, attempts, retries); {
		case action == Retry && retries < maxRetries:
			delay := x.undoPolicy(u).Delay(retries + 1)
			if retries++; perdure.Sleep(ctx, delay) != nil {
				return true, perdure.Over(ctx)
			}
		case action == MarkCompensated:
			return false, x.isUndone(ctx, u, nil, err)
		case action == FailSaga:
			return true, errors.Join(perdure.FailedUndo(u.clone.id, err), x.isNot(ctx, u, err, ""))
		case x.parks && action != SkipStep:
			done, over := x.park(ctx, u, err)
			if done || over != nil {
				return over != nil, over
			}
		default:
			breaks := x.policy == CircuitBreaker && u.critical
			return breaks, x.isNot(ctx, u, err, "")
		}
		f = x.undoTask(u, perdure.NoRetry).Async(ctx, x.undoGiven(u))
	}
}

// ask asks the handler. It is the user's code: a panic in it passes over.
func (x *execution) ask(u *unit, err error, attempts, retries int) (a Action) {
	defer func() {
		if recover() != nil {
			a = Continue
		}
	}()
	return x.handler(UndoError{Saga: x.name, Step: u.clone.id, Err: err, Attempt: attempts, Retries: retries})
}

// park waits for an operator. Done says that he has decided otherwise than to try again.
func (x *execution) park(ctx context.Context, u *unit, why error) (done bool, err error) {
	open := 0
	for _, d := range x.done {
		if d.undo != nil && !x.verdicts[d.clone.id] {
			open++
		}
	}
	reason := fmt.Sprintf("rollback incomplete: %d effects are not undone: %v", open, perdure.FailedUndo(u.clone.id, why))
	d, err := perdure.Park(ctx, "undo:"+u.clone.name(), reason, "retry", "skip", "handled")
	switch {
	case err != nil:
		return true, err
	case d.Choice == "handled":
		return true, x.isUndone(ctx, u, nil, why)
	case d.Choice == "skip":
		return true, x.isNot(ctx, u, why, "skipped by an operator: "+d.Reason)
	}
	return false, nil
}

// isUndone records that a unit is undone.
func (x *execution) isUndone(ctx context.Context, u *unit, out json.RawMessage, err error) error {
	x.verdicts[u.clone.id] = true
	x.mu.Lock()
	x.undone[u.clone.id] = out
	x.mu.Unlock()
	return perdure.Record(ctx, perdure.Fact{Kind: perdure.StepCompensated, Name: u.step.id, Key: u.clone.key, Err: err})
}

// isNot records that a unit could not be undone.
func (x *execution) isNot(ctx context.Context, u *unit, err error, reason string) error {
	x.verdicts[u.clone.id] = true
	x.keepError(u, err)
	return perdure.Record(ctx, perdure.Fact{Kind: perdure.CompensationFailed, Name: u.step.id, Key: u.clone.key, Err: err, Reason: reason})
}

func (x *execution) keepError(u *unit, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.undoErrs[u.clone.id] = err
}

var errNotTried = errors.New("it was not tried: the compensation of another step has failed")

// skip records of what is left that nothing undoes it.
func (x *execution) skip(ctx context.Context, groups [][]*unit) error {
	for _, group := range groups {
		for _, u := range group {
			if err := x.isNot(ctx, u, errNotTried, "not tried"); err != nil {
				return err
			}
		}
	}
	return nil
}
