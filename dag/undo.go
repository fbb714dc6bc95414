package dag

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/pattern"
)

// fail undoes the steps that are done and ends the run.
func (x *execution) fail() error {
	err := pattern.FailedStep(x.failed[0].s.id, x.failed[0].err)
	if e := x.stopAsides("workflow failed: " + err.Error()); e != nil {
		return e
	}
	if e := x.compensate(); e != nil {
		return e
	}
	var all []pattern.Failing
	for _, f := range x.failed {
		all = append(all, pattern.Failing{Err: f.err, IDs: []string{f.s.id}})
	}
	suppressed, e := x.calls.Failed(x.ctx, err, all...)
	if e == nil {
		e = x.calls.Wait(x.ctx)
	}
	switch {
	case e != nil:
		return e
	case suppressed:
		return nil
	}
	for _, f := range x.failed {
		if e := deadletter.Add(x.ctx, f.s.id, f.err, deadletter.At(f.status)); e != nil {
			return e
		}
	}
	return perdure.Fail(x.ctx, err)
}

// stopAsides cancels the async steps that have not ended, so that no step ends while others are
// undone. It takes in the steps that have ended meanwhile.
func (x *execution) stopAsides(why string) error {
	for _, s := range x.asides {
		if f := x.begun[s.id]; f != nil {
			cancelled, err := f.Cancel(x.ctx, why)
			if err != nil {
				return err
			}
			if cancelled {
				delete(x.begun, s.id)
			}
		}
	}
	_, err := x.takeIn()
	return err
}

// undoes reports whether a step of the graph has a compensation.
func (p *plan) undoes() bool {
	return slices.ContainsFunc(p.steps, func(s *step) bool { return s.undo != nil })
}

// cleanUp undoes the steps that are done, if the run is cancelled with compensation.
func (x *execution) cleanUp(ctx context.Context) error {
	undoes, err := pattern.Undoes(ctx)
	if err != nil || !undoes {
		return err
	}
	x.ctx = ctx
	if err := x.hear(); err != nil {
		return err
	}
	return x.compensate()
}

// hear takes in the steps that had succeeded when the run was about to end, but whose results the
// graph had not read. A step with a prelude, such as a child, has succeeded with that.
func (x *execution) hear() error {
	var open []future
	steps := map[future]*step{}
	for _, s := range x.steps {
		if f := x.begun[s.id]; f != nil && x.isBegun(s) {
			open, steps[f] = append(open, f), s
		}
	}
	for f, over := range perdure.AsCompleted(x.ctx, open...) {
		if over != nil {
			return over
		}
		s := steps[f]
		out, err := f.Await(x.ctx)
		if done, is := x.preludes[s.id]; err != nil && is {
			out, err = done, nil
		}
		if err == nil {
			x.succeeded(s, out)
		}
	}
	return pattern.EndedBy(x.ctx)
}

// compensate undoes the steps that are done, the step that ended last first.
func (x *execution) compensate() error {
	x.rollback.Parks = x.back
	return x.rollback.Run(x.ctx)
}

// rollBack undoes a graph that has completed, because an operator has asked for it, and ends the
// run.
func (x *execution) rollBack() error {
	if err := x.compensate(); err != nil {
		return err
	}
	if err := x.rollback.Failed(); err != nil {
		return perdure.Fail(x.ctx, err)
	}
	return pattern.End(x.ctx, perdure.StatusCompensated, nil, nil)
}

// undoGiven returns the sources of the argument of a compensation: the sources of its step's
// argument, and the result of the step.
func (x *execution) undoGiven(s *step) pattern.Sources {
	given := x.given()
	results := given.Result
	given.Result = func(id string) (json.RawMessage, bool) {
		if id == ownResult {
			id = s.id
		}
		return results(id)
	}
	return given
}
