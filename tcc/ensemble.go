package tcc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
)

// An ensemble is a composition in progress. Like an execution, its state is a fold of the results
// of its operations.
type ensemble struct {
	*assembly
	input json.RawMessage
	calls *pattern.Calls
	begun []*Member             // in order
	parts map[string]*execution // by alias
	why   error                 // why it is cancelled
}

// run is the workflow. Only success ends it here. Every other end happens in the clean-up, where
// operations have the same paths as in the code.
func (a *assembly) run(ctx context.Context, input json.RawMessage) error {
	if err := a.events.Begin(ctx); err != nil {
		return err
	}
	e := &ensemble{
		assembly: a,
		input:    input,
		calls:    a.calls.Begin(),
		parts:    map[string]*execution{},
	}
	if err := perdure.OnCancel(ctx, "call-off", e.callOff); err != nil {
		return err
	}
	if err := e.tell(ctx, pattern.PhaseStarted, nil); err != nil {
		return err
	}
	err := pattern.Walk{
		Layers: a.layers, Policy: a.backpressure,
		More: func() bool { return e.why == nil },
		Begin: func(alias string, _ bool) (pattern.Awaitable, error) {
			m := a.byAlias[alias]
			e.begun = append(e.begun, m)
			return perdure.Go(ctx, alias, func(ctx context.Context) (bool, error) {
				return true, e.play(ctx, m)
			}), nil
		},
		Ended: func(alias string, f pattern.Awaitable, refused error) (pattern.Awaitable, error) {
			return nil, e.ended(ctx, a.byAlias[alias], f, refused)
		},
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case e.why != nil:
		return perdure.Cancel(ctx, e.why.Error())
	}
	return e.finish(ctx, perdure.StatusConfirmed, nil)
}

// finish ends the run.
func (e *ensemble) finish(ctx context.Context, status perdure.RunStatus, why error) error {
	if err := e.calls.Wait(ctx); err != nil {
		return err
	}
	fact := pattern.PhaseCompleted
	if why != nil {
		fact = pattern.PhaseFailed
	}
	if err := e.tell(ctx, fact, why); err != nil {
		return err
	}
	return pattern.End(ctx, status, json.RawMessage(nil), why)
}

// tell records for observers that the composition has begun or has ended.
func (e *ensemble) tell(ctx context.Context, fact pattern.FactKind, why error) error {
	return pattern.Record(ctx, pattern.Fact{
		Kind: fact, Name: "composition", Phase: string(perdure.PhaseComposition), Err: why,
	})
}

// play tries and confirms a member. It returns an error if the member cannot begin.
func (e *ensemble) play(ctx context.Context, m *Member) error {
	in, err := m.makeInput(ctx, pattern.Sources{Input: e.input, Tried: e.triedBy})
	if err != nil {
		return err
	}
	x := m.plan.begin(in)
	x.in, x.prefix, x.place = ctx, m.alias+"/", m.alias+"."
	e.parts[m.alias] = x
	err = x.forward(ctx)
	if err == nil && m.optional && x.status == perdure.StatusFailed { // no other code reports it
		err = x.letter(ctx, x.err)
	}
	return err
}

// triedBy returns the result of the try of a member's participant. The key is alias/participant.
func (e *ensemble) triedBy(key string) (json.RawMessage, bool) {
	alias, id, _ := strings.Cut(key, "/")
	if x := e.parts[alias]; x != nil && x.status == perdure.StatusConfirmed {
		return x.triedBy(id)
	}
	return nil, false
}

// ended notes the end of a member, and returns the member's error.
func (e *ensemble) ended(ctx context.Context, m *Member, f pattern.Awaitable, err error) error {
	if err == nil {
		_, err = f.(*perdure.Future[bool]).Await(ctx)
	}
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if x := e.parts[m.alias]; x != nil {
		err = x.err
	} else { // it has not begun
		err = pattern.FailedPhase(perdure.PhaseTry, m.alias, err)
	}
	if err == nil {
		return e.calls.StepEnded(ctx, m.alias)
	}
	if !m.optional && e.why == nil {
		e.why = err
	}
	return err
}

// callOff cancels all members that have begun, and ends the run.
func (e *ensemble) callOff(ctx context.Context) error {
	why := e.why
	if why == nil {
		why = pattern.EndingBy(ctx)
	}
	if err := pattern.SetStatus(ctx, perdure.StatusCanceling); err != nil {
		return err
	}
	var failed []pattern.Failing
	var letters []func() error
	ends := why
	for _, m := range slices.Backward(e.begun) {
		x := e.parts[m.alias]
		if x == nil {
			continue
		}
		in, err := perdure.Scope(ctx, m.alias, pattern.StandsFor(x.in))
		if err != nil {
			return err
		}
		if err := x.undo(in, why); err != nil {
			return err
		}
		if x.status == perdure.StatusFailed && !m.optional {
			letters = append(letters, func() error { return x.letter(in, x.err) })
		}
		if x.status == perdure.StatusFailed {
			if failed = append(failed, pattern.Failing{
				Err: x.err,
				IDs: []string{m.alias},
			}); len(failed) == 1 {
				ends = x.err
			}
		}
	}
	return e.end(ctx, ends, failed, letters)
}

// end ends a composition that is cancelled. If members have failed, it writes their dead letters,
// unless a callback suppresses the failure.
func (e *ensemble) end(ctx context.Context, why error, failed []pattern.Failing,
	letters []func() error) error {
	status := perdure.StatusCanceled
	if len(failed) > 0 {
		suppressed, err := e.calls.Failed(ctx, why, failed...)
		if err != nil {
			return err
		}
		if status = perdure.StatusFailed; suppressed {
			status, why, letters = perdure.StatusConfirmed, nil, nil
		}
	}
	for _, letter := range letters {
		if err := letter(); err != nil {
			return err
		}
	}
	return e.finish(ctx, status, why)
}

// undo cancels a member. The member first carries out what it has decided.
func (x *execution) undo(ctx context.Context, why error) error {
	if err := x.callOff(ctx); err != nil {
		return err
	}
	if x.phase == perdure.PhaseCancel { // true also if a callback has suppressed its failure
		return nil
	}
	return x.cancel(ctx, why)
}
