package tcc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/perdure/perdure"
)

// An execution is a TCC that goes on. What it knows is a fold of what its operations
// gave: a replay makes it anew. Workflow code writes it, the bodies of steps read it.
type execution struct {
	*plan
	input json.RawMessage
	calls *perdure.Calls

	trying *participant   // whose try is under way
	tried  []*participant // in order
	why    error          // why the TCC is called off

	mu    sync.RWMutex
	tries map[string]json.RawMessage
}

// run is the workflow: a whole run of the TCC.
func (p *plan) run(ctx context.Context, input json.RawMessage) error {
	x := &execution{plan: p, input: input, calls: p.definition.calls.Begin(), tries: map[string]json.RawMessage{}}
	if err := perdure.OnCancel(ctx, "call-off", x.callOff); err != nil {
		return err
	}
	err := x.try(ctx)
	if over := perdure.Over(ctx); over != nil {
		return over
	}
	if err == nil {
		err = x.confirm(ctx)
	}
	if err == nil {
		return x.end(ctx, perdure.StatusConfirmed, nil)
	}
	if over := perdure.Over(ctx); over != nil {
		return over
	}
	return x.cancel(ctx, err)
}

// given is what the arguments of participants are made of.
func (x *execution) given() perdure.Given {
	return perdure.Given{Input: x.input, Tried: func(id string) (json.RawMessage, bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		data, found := x.tries[id]
		return data, found
	}}
}

// try has the participants try one after the other. It gives the error of the one that
// ends the phase.
func (x *execution) try(ctx context.Context) error {
	for _, p := range x.inOrder {
		x.trying = p
		out, err := p.task(perdure.PhaseTry).Run(ctx, x.given())
		if over := perdure.Over(ctx); over != nil {
			return over
		}
		x.trying = nil
		switch {
		case err == nil:
			x.mu.Lock()
			x.tries[p.id] = out
			x.mu.Unlock()
			x.tried = append(x.tried, p)
		case !p.optional:
			return perdure.FailedPhase(perdure.PhaseTry, p.id, err)
		}
	}
	return nil
}

// enter records the decision to begin a phase, before anybody hears of it.
func (x *execution) enter(ctx context.Context, status perdure.RunStatus, phase perdure.Phase) error {
	before := perdure.Fact{Kind: perdure.PhaseCompleted, Name: "phase", Phase: string(perdure.PhaseTry)}
	if phase == perdure.PhaseCancel {
		before.Kind, before.Err = perdure.PhaseFailed, x.why
	}
	if err := perdure.SetStatus(ctx, status); err != nil {
		return err
	}
	if err := perdure.Record(ctx, before); err != nil {
		return err
	}
	return perdure.Record(ctx, perdure.Fact{Kind: perdure.PhaseStarted, Name: "phase", Phase: string(phase)})
}

// callOff is what is done where the run was cancelled, or has timed out, while
// participants tried: it is CANCELED then, as if a try had failed.
func (x *execution) callOff(ctx context.Context) error {
	if x.trying != nil { // nobody knows whether it has tried
		x.tried = append(x.tried, x.trying)
	}
	return x.cancel(ctx, perdure.EndingBy(ctx))
}

// confirm has all that have tried confirm at once. It gives the error of the first that
// cannot.
func (x *execution) confirm(ctx context.Context) error {
	if err := x.enter(ctx, perdure.StatusConfirming, perdure.PhaseConfirm); err != nil {
		return err
	}
	futures := make([]*perdure.Future[json.RawMessage], len(x.tried))
	for i, p := range x.tried {
		futures[i] = p.task(perdure.PhaseConfirm).Async(ctx, x.given())
	}
	var why error
	for i, p := range x.tried {
		err := x.decide(ctx, p, perdure.PhaseConfirm, futures[i])
		if over := perdure.Over(ctx); over != nil {
			return over
		}
		if err == nil {
			err = x.calls.StepEnded(ctx, p.id)
		}
		if err != nil && why == nil {
			why = perdure.FailedPhase(perdure.PhaseConfirm, p.id, err)
		}
	}
	return why
}

// decide waits for what a participant does in a phase, and gives its error. Where that
// is for an operator, it is as he decides.
func (x *execution) decide(ctx context.Context, p *participant, phase perdure.Phase, f *perdure.Future[json.RawMessage]) error {
	for {
		_, err := f.Await(ctx)
		if over := perdure.Over(ctx); over != nil || err == nil || !x.parks {
			return err
		}
		d, e := perdure.Park(ctx, phase.Of(p.id), perdure.FailedPhase(phase, p.id, err).Error(), "retry", "skip", "handled")
		switch {
		case e != nil:
			return e
		case d.Choice == "handled":
			return nil
		case d.Choice == "skip":
			return err
		}
		f = p.task(phase).Async(ctx, x.given())
	}
}

// cancel has all that have tried cancel, the last one first, and ends the run.
func (x *execution) cancel(ctx context.Context, why error) error {
	x.why = why
	if err := x.enter(ctx, perdure.StatusCanceling, perdure.PhaseCancel); err != nil {
		return err
	}
	var failed error
	for _, p := range slices.Backward(x.tried) {
		err := x.decide(ctx, p, perdure.PhaseCancel, p.task(perdure.PhaseCancel).Async(ctx, x.given()))
		if over := perdure.Over(ctx); over != nil {
			return over
		}
		if err != nil && failed == nil {
			failed = perdure.FailedPhase(perdure.PhaseCancel, p.id, err)
		}
	}
	if failed == nil {
		return x.end(ctx, perdure.StatusCanceled, why)
	}
	return x.fail(ctx, failed)
}

// fail ends a TCC that is neither confirmed nor cancelled as a whole.
func (x *execution) fail(ctx context.Context, why error) error {
	phase := perdure.Fact{Kind: perdure.PhaseFailed, Name: "phase", Phase: string(perdure.PhaseCancel), Err: why}
	if err := perdure.Record(ctx, phase); err != nil {
		return err
	}
	id := participantOf(why)
	if err := perdure.DeadLetter(ctx, id, why); err != nil {
		return err
	}
	suppressed, err := x.calls.Failed(ctx, why, id)
	if err != nil {
		return err
	}
	if err := x.calls.Wait(ctx); err != nil {
		return err
	}
	if suppressed {
		return perdure.End(ctx, perdure.StatusConfirmed, json.RawMessage(nil), nil)
	}
	return perdure.End(ctx, perdure.StatusFailed, json.RawMessage(nil), why)
}

// end ends a TCC that is confirmed or cancelled.
func (x *execution) end(ctx context.Context, status perdure.RunStatus, why error) error {
	if err := x.calls.Wait(ctx); err != nil {
		return err
	}
	phase := perdure.Fact{Kind: perdure.PhaseCompleted, Name: "phase", Phase: string(perdure.PhaseConfirm)}
	if why != nil {
		phase.Phase = string(perdure.PhaseCancel)
	}
	if err := perdure.Record(ctx, phase); err != nil {
		return err
	}
	return perdure.End(ctx, status, json.RawMessage(nil), why)
}

// participantOf gives the participant that an error names.
func participantOf(err error) string {
	var of *perdure.PhaseError
	if errors.As(err, &of) {
		return of.Participant
	}
	return ""
}
