package saga

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/pattern"
)

// undone returns the name of the compensation of a step.
func undone(step string) string { return perdure.PhaseUndo.Of(step) }

// backward undoes the steps that are done, because a step has failed. It returns as why the error
// of the saga, or nil if a callback suppresses it; over is the reason if it could not finish.
func (x *execution) backward(ctx context.Context) (why, over error) {
	if err := x.undoAll(ctx); err != nil {
		return nil, err
	}
	why = x.why()
	suppressed, err := x.calls.Failed(ctx, why, x.failing()...)
	if err == nil {
		err = x.calls.Wait(ctx)
	}
	if err != nil || suppressed {
		return nil, err
	}
	for _, f := range x.failed {
		opts := append(f.keys(), deadletter.At(f.status))
		if err := deadletter.Add(ctx, f.step, f.err, opts...); err != nil {
			return nil, err
		}
	}
	return why, nil
}

// cleanUp undoes the steps that are done, because the run ends before the saga does.
func (x *execution) cleanUp(ctx context.Context) error {
	if err := x.hear(ctx); err != nil {
		return err
	}
	if err := x.undoAll(ctx); err != nil {
		return err
	}
	return x.abort
}

// hear settles the steps that had succeeded when the run was about to end, but whose results the
// workflow's code had not read.
func (x *execution) hear(ctx context.Context) error {
	var open []*perdure.Future[json.RawMessage]
	byFuture := map[*perdure.Future[json.RawMessage]]*unit{}
	for _, u := range x.begun {
		if !u.ended {
			open, byFuture[u.future] = append(open, u.future), u
		}
	}
	for f, over := range perdure.AsCompleted(ctx, open...) {
		if over != nil {
			return over
		}
		if out, err := f.Await(ctx); err == nil {
			_ = x.settle(ctx, byFuture[f], out, nil)
		}
	}
	return pattern.EndedBy(ctx)
}

// rollBack undoes a saga that has completed, because an operator has asked for it, and ends the
// run.
func (x *execution) rollBack(ctx context.Context) error {
	if err := x.undoAll(ctx); err != nil {
		return err
	}
	if why := x.notUndone(); why != nil {
		return perdure.Fail(ctx, why)
	}
	return pattern.End(ctx, perdure.StatusCompensated, nil, nil)
}

// notUndone returns the error of the first step that is not undone, or nil if everything is undone.
func (x *execution) notUndone() error {
	if x.abort != nil {
		return x.abort
	}
	for _, u := range x.done {
		if u.undo != nil && !slices.Contains(x.undid, u.clone.id) {
			return pattern.FailedUndo(u.clone.id, x.undoErrs[u.clone.id])
		}
	}
	return nil
}

// undoAll undoes, by the policy, every step that is done and has no verdict yet. It returns an
// error if the run ends meanwhile.
func (x *execution) undoAll(ctx context.Context) error {
	if len(x.groups()) == 0 {
		return nil
	}
	if err := x.compensating(ctx, true); err != nil {
		return err
	}
	if err := x.decide(ctx); err != nil {
		return err
	}
	for _, group := range x.groups() {
		undo := x.undoGroup
		if x.stopped {
			undo = x.skip
		}
		if err := undo(ctx, group); err != nil {
			return err
		}
	}
	return x.compensating(ctx, false)
}

// decide sets the policy and the handler of a rollback, and records them.
func (x *execution) decide(ctx context.Context) error {
	how, err := pattern.BeginUndo(ctx, pattern.Backward{
		Policy: string(x.plan.policy), Handles: x.handles,
	})
	if err != nil {
		return err
	}
	x.policy, x.handler = Policy(how.Policy), ContinueHandler
	if x.handles {
		x.handler = x.plan.handler
	}
	if how.OnError != "" {
		x.handler, err = NamedHandler(how.OnError)
	}
	return err
}

// compensating sets the status of the run to COMPENSATING while there is something to undo: in this
// status neither a cancel nor the timeout ends the run. A composition has the status while any
// member undoes. A part does not change the status, because the saga does not know what else is in
// the run.
func (x *execution) compensating(ctx context.Context, begins bool) error {
	switch {
	case x.whole != nil && (begins || x.optional): // the status stays after a required member
		return x.whole.compensating(ctx, begins)
	case begins && x.part == "":
		return pattern.SetStatus(ctx, perdure.StatusCompensating)
	}
	return nil
}

// groups returns groups of units: each group is undone at once, one group after the other.
func (x *execution) groups() [][]*unit {
	var groups [][]*unit
	last := -1
	for i, u := range slices.Backward(x.done) {
		if u.undo == nil || x.judged[u.clone.id] {
			continue
		}
		at := i
		switch x.policy {
		case BestEffortParallel:
			at = 0
		case GroupedParallel: // a layer ends before the next one begins
			at = u.layer
		}
		if at != last {
			groups = append(groups, nil)
		}
		last = at
		groups[len(groups)-1] = append(groups[len(groups)-1], u)
	}
	return groups
}

// undoGroup undoes the units of a group at once.
func (x *execution) undoGroup(ctx context.Context, group []*unit) error {
	futures := make([]*perdure.Future[json.RawMessage], len(group))
	byFuture := map[*perdure.Future[json.RawMessage]]*unit{}
	for i, u := range group {
		futures[i] = x.undoTask(u, x.undoPolicy(u)).Async(ctx, x.undoGiven(u))
		byFuture[futures[i]] = u
	}
	for f, over := range perdure.AsCompleted(ctx, futures...) {
		if over != nil {
			return over
		}
		if err := x.judge(ctx, byFuture[f], f); err != nil {
			return err
		}
	}
	return nil
}

// undoPolicy returns the retry policy of a compensation.
func (x *execution) undoPolicy(u *unit) perdure.Retry {
	switch {
	case !x.policy.retries():
		return perdure.NoRetry
	case u.undoRetry != nil:
		return *u.undoRetry
	}
	return u.retry
}

// undoTask returns the task that undoes a unit.
func (x *execution) undoTask(u *unit, retry perdure.Retry) pattern.Task {
	return pattern.Task{
		Name: u.step.id, Key: u.clone.key, Phase: perdure.PhaseUndo, Call: u.undo, Retry: &retry,
		Timeout: u.undoTimeout,
	}
}

// undoGiven returns the sources of the argument of a compensation: the sources of its step's
// argument and the step's result.
func (x *execution) undoGiven(u *unit) pattern.Sources {
	given := x.given(u)
	results := given.Result
	given.Result = func(id string) (json.RawMessage, bool) {
		if id == u.step.id {
			id = u.clone.id
		}
		return results(id)
	}
	return given
}

// judge decides the outcome of a compensation that was tried. It tries the compensation again as
// long as the handler or an operator asks for it.
func (x *execution) judge(ctx context.Context, u *unit, f *perdure.Future[json.RawMessage]) error {
	attempts, retries := 0, 0
	for {
		out, err := f.Await(ctx)
		if over := pattern.EndedBy(ctx); over != nil {
			return over
		}
		if err == nil {
			return x.isUndone(ctx, u, out, nil)
		}
		attempts += f.Attempts()
		x.keepError(u, err)
		switch action := x.ask(u, err, attempts, retries); {
		case action == Retry && retries < maxRetries:
			retries++
			if err := perdure.Sleep(ctx, x.undoPolicy(u).Delay(retries)); err != nil {
				return err
			}
		case action == MarkCompensated:
			return x.isUndone(ctx, u, nil, err)
		case action == SkipStep:
			return x.isNot(ctx, u, err, "skipped by the handler")
		case action == FailSaga:
			if x.stopped = true; x.abort == nil {
				x.abort = pattern.FailedUndo(u.clone.id, err)
			}
			return x.isNot(ctx, u, err, "")
		case x.parks || x.back:
			if done, e := x.park(ctx, u, err); done || e != nil {
				return e
			}
		default:
			return x.giveUp(ctx, u, err, "")
		}
		f = x.undoTask(u, perdure.NoRetry).Async(ctx, x.undoGiven(u))
	}
}

// ask calls the handler. A panic counts as Continue.
func (x *execution) ask(u *unit, err error, attempts, retries int) Action {
	action := Continue
	_ = guard.Try(func() error {
		action = x.handler(UndoError{
			Saga: x.name, Step: u.clone.id, Err: err, Attempt: attempts, Retries: retries,
		})
		return nil
	})
	return action
}

// park waits for an operator. It returns true unless the operator asks for another attempt.
func (x *execution) park(ctx context.Context, u *unit, why error) (done bool, err error) {
	open := 0
	for _, d := range x.done {
		if d.undo != nil && !x.judged[d.clone.id] {
			open++
		}
	}
	d, err := pattern.ParkUndo(ctx, x.part+u.step.id, u.clone.key, open,
		pattern.FailedUndo(u.clone.id, why))
	switch {
	case err != nil:
		return true, err
	case d.Choice == pattern.ChoiceHandled:
		return true, x.isUndone(ctx, u, nil, why)
	case d.Choice == pattern.ChoiceSkip:
		return true, x.giveUp(ctx, u, why, "skipped by an operator: "+d.Reason)
	}
	return false, nil
}

// isUndone records that a unit is undone.
func (x *execution) isUndone(ctx context.Context, u *unit, out json.RawMessage, err error) error {
	x.judged[u.clone.id] = true
	x.undid = append(x.undid, u.clone.id)
	x.mu.Lock()
	x.undone[u.clone.id] = out
	x.mu.Unlock()
	return pattern.Record(ctx, pattern.Fact{
		Kind: pattern.StepCompensated, Name: u.step.id, Key: u.clone.key, Err: err,
	})
}

// giveUp leaves a compensation failed. After a critical one nothing more may be undone.
func (x *execution) giveUp(ctx context.Context, u *unit, err error, reason string) error {
	x.stopped = x.stopped || x.policy == CircuitBreaker && u.critical
	return x.isNot(ctx, u, err, reason)
}

// isNot records that a unit could not be undone.
func (x *execution) isNot(ctx context.Context, u *unit, err error, reason string) error {
	x.judged[u.clone.id] = true
	x.keepError(u, err)
	return pattern.Record(ctx, pattern.Fact{
		Kind: pattern.StepCompensationFailed, Name: u.step.id, Key: u.clone.key, Err: err,
		Reason: reason,
	})
}

func (x *execution) keepError(u *unit, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.undoErrs[u.clone.id] = err
}

var errNotTried = errors.New("it was not tried: the compensation of another step has failed")

// skip records for each remaining unit that its compensation was not tried.
func (x *execution) skip(ctx context.Context, group []*unit) error {
	for _, u := range group {
		if err := x.isNot(ctx, u, errNotTried, "not tried"); err != nil {
			return err
		}
	}
	return nil
}
