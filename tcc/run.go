package tcc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// An execution is a TCC in progress. Its state is a fold of the results of its operations, so that
// replay computes it again. Workflow code writes it, and the bodies of steps read it.
type execution struct {
	*plan
	input  json.RawMessage
	calls  *pattern.Calls
	whole  bool            // if it is a run of its own
	prefix string          // of the IDs of its participants, for readers of errors
	place  string          // the same for operators; not a path but a part of a name
	in     context.Context // for a member: the scope that it runs in

	phase   perdure.Phase                               // the phase that began last
	trying  *participant                                // the participant whose try is under way
	tried   []*participant                              // in order
	settled map[string]bool                             // participants that have done this phase
	flying  map[string]*perdure.Future[json.RawMessage] // confirms, by ID
	failed  []pattern.Failing                           // over all phases
	failure error                                       // the first failure of this phase
	why     error                                       // why the TCC is cancelled
	blame   string                                      // the ID of the participant at fault
	over    bool
	status  perdure.RunStatus // the final status
	err     error             // the final error

	mu    sync.RWMutex
	tries map[string]json.RawMessage
}

// begin returns a new execution.
func (p *plan) begin(input json.RawMessage) *execution {
	return &execution{
		plan: p, input: input, calls: p.calls.Begin(), phase: perdure.PhaseTry,
		settled: map[string]bool{}, tries: map[string]json.RawMessage{},
		flying: map[string]*perdure.Future[json.RawMessage]{},
	}
}

// run is the workflow: a whole run of the TCC.
func (p *plan) run(ctx context.Context, input json.RawMessage) error {
	if err := p.events.Begin(ctx); err != nil {
		return err
	}
	x := p.begin(input)
	x.whole = true
	if err := perdure.OnCancel(ctx, "call-off", x.callOff); err != nil {
		return err
	}
	return x.forward(ctx)
}

// forward executes all phases. It returns an error if the run ends meanwhile.
func (x *execution) forward(ctx context.Context) error {
	failed, err := x.try(ctx)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return x.cancel(ctx, failed)
	}
	return x.confirm(ctx)
}

// errEnded is the error of a TCC that is cancelled because the workflow around it ended first.
var errEnded = &perdure.Error{Code: perdure.CodeCancelled, Message: "the workflow has ended"}

// callOff ends the TCC after the run was cancelled or has timed out. A TCC that has decided carries
// out its decision. A TCC that still tries is cancelled as if a try had failed.
func (x *execution) callOff(ctx context.Context) error {
	switch {
	case x.over:
		return nil
	case x.phase == perdure.PhaseConfirm:
		x.hear()
		return x.confirm(ctx)
	case x.phase == perdure.PhaseCancel:
		return x.cancel(ctx, x.why)
	case x.trying != nil: // nobody knows whether it has tried
		x.tried = append(x.tried, x.trying)
	}
	why := pattern.EndingBy(ctx)
	if why == nil {
		why = errEnded
	}
	return x.cancel(ctx, why)
}

// hear notes the confirms that had succeeded when the run was about to end, but whose results the
// workflow's code had not read.
func (x *execution) hear() {
	for id, f := range x.flying {
		if status, _, _ := f.State(); status == report.StepIsDone {
			x.settled[id] = true
		}
	}
}

// given returns the sources of the arguments of participants.
func (x *execution) given() pattern.Sources {
	return pattern.Sources{Input: x.input, Tried: x.triedBy}
}

// triedBy returns the result of the try of a participant.
func (x *execution) triedBy(id string) (json.RawMessage, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	data, found := x.tries[id]
	return data, found
}

// try makes the participants try one after the other. It returns as failed the error of the try
// that ends the phase.
func (x *execution) try(ctx context.Context) (failed, err error) {
	for _, p := range x.inOrder {
		x.trying = p
		out, err := p.task(perdure.PhaseTry).Run(ctx, x.given())
		if over := pattern.EndedBy(ctx); over != nil {
			return nil, over
		}
		x.trying = nil
		switch {
		case err == nil:
			x.mu.Lock()
			x.tries[p.id] = out
			x.mu.Unlock()
			x.tried = append(x.tried, p)
			continue
		case !p.optional:
			failed = pattern.FailedPhase(perdure.PhaseTry, x.prefix+p.id, err)
			x.failed = append(x.failed, pattern.Failing{Err: failed, IDs: []string{p.id}})
		}
		if err := x.events.StepFailed(ctx, x.phase.Of(p.id), err); err != nil || failed != nil {
			return failed, err
		}
	}
	return nil, nil
}

// enter records the decision to begin a phase, before any participant hears of it, and the end of
// the phase before. If a clean-up continues a phase, the phase does not begin again.
func (x *execution) enter(ctx context.Context, phase perdure.Phase) error {
	if x.phase == phase {
		return nil
	}
	status, before := perdure.StatusConfirming, pattern.Fact{
		Kind: pattern.PhaseCompleted, Name: "phase", Phase: string(x.phase),
	}
	if phase == perdure.PhaseCancel {
		status, before.Kind, before.Err = perdure.StatusCanceling, pattern.PhaseFailed, x.why
	}
	if x.whole {
		if err := pattern.SetStatus(ctx, status); err != nil {
			return err
		}
	}
	if !x.over { // else the phase has completed: a member is cancelled that had confirmed
		if err := pattern.Record(ctx, before); err != nil {
			return err
		}
	}
	if err := pattern.Record(ctx, pattern.Fact{
		Kind: pattern.PhaseStarted, Name: "phase", Phase: string(phase),
	}); err != nil {
		return err
	}
	x.phase, x.failure = phase, nil
	clear(x.settled)
	return nil
}

// confirm makes all participants that have tried confirm at once. If one of them cannot, all are
// cancelled.
func (x *execution) confirm(ctx context.Context) error {
	if err := x.enter(ctx, perdure.PhaseConfirm); err != nil {
		return err
	}
	for _, p := range x.tried {
		if !x.settled[p.id] {
			x.flying[p.id] = p.task(perdure.PhaseConfirm).Async(ctx, x.given())
		}
	}
	for _, p := range x.tried {
		if x.settled[p.id] {
			continue
		}
		done, err := x.settle(ctx, p, x.flying[p.id])
		if err == nil && done {
			err = x.calls.StepEnded(ctx, p.id)
		}
		if err != nil {
			return err
		}
	}
	if x.failure != nil {
		return x.cancel(ctx, x.failure)
	}
	return x.end(ctx, perdure.StatusConfirmed, nil)
}

// cancel makes all participants that have tried cancel, beginning with the last.
func (x *execution) cancel(ctx context.Context, why error) error {
	x.why = why
	if err := x.enter(ctx, perdure.PhaseCancel); err != nil {
		return err
	}
	for _, p := range slices.Backward(x.tried) {
		if x.settled[p.id] {
			continue
		}
		if _, err := x.settle(ctx, p, p.task(perdure.PhaseCancel).
			Async(ctx, x.given())); err != nil {
			return err
		}
	}
	if x.failure != nil {
		return x.fail(ctx, x.failure)
	}
	return x.end(ctx, perdure.StatusCanceled, why)
}

// settle waits for a participant in the current phase and reports whether it has done the phase. If
// the participant has failed and the TCC parks, an operator decides. It returns an error if the run
// ends meanwhile.
func (x *execution) settle(ctx context.Context, p *participant,
	f *perdure.Future[json.RawMessage]) (done bool, err error) {
	for {
		_, failed := f.Await(ctx)
		if over := pattern.EndedBy(ctx); over != nil {
			return false, over
		}
		if failed == nil {
			x.settled[p.id] = true
			return true, nil
		}
		why := pattern.FailedPhase(x.phase, x.prefix+p.id, failed)
		choice := "skip"
		if x.parks {
			d, err := perdure.Park(ctx, x.phase.Of(x.place+p.id), why.Error(), "retry", "skip",
				"handled")
			if err != nil {
				return false, err
			}
			choice = d.Choice
		}
		t := p.task(x.phase)
		switch choice {
		case "skip":
			x.settled[p.id] = true
			x.failed = append(x.failed, pattern.Failing{Err: why, IDs: []string{p.id}})
			if x.failure == nil {
				x.failure = why
			}
			return false, x.events.StepFailed(ctx, x.phase.Of(p.id), failed)
		case "handled": // recorded as if the participant had done it
			t.Call = func(context.Context, pattern.Sources) (json.RawMessage, error) {
				data, _ := x.triedBy(p.id)
				return data, nil
			}
		}
		f = t.Async(ctx, x.given())
		x.flying[p.id] = f
	}
}

// end ends a TCC that is confirmed or cancelled.
func (x *execution) end(ctx context.Context, status perdure.RunStatus, why error) error {
	if err := pattern.Record(ctx, pattern.Fact{
		Kind: pattern.PhaseCompleted, Name: "phase", Phase: string(x.phase),
	}); err != nil {
		return err
	}
	return x.finish(ctx, status, why)
}

// fail ends a TCC that is neither confirmed nor cancelled as a whole.
func (x *execution) fail(ctx context.Context, why error) error {
	if err := pattern.Record(ctx, pattern.Fact{
		Kind: pattern.PhaseFailed, Name: "phase", Phase: string(x.phase), Err: why,
	}); err != nil {
		return err
	}
	_, id := failedOf(why)
	id = strings.TrimPrefix(id, x.prefix)
	suppressed, err := x.calls.Failed(ctx, why, x.failed...)
	if err != nil {
		return err
	}
	if suppressed {
		return x.finish(ctx, perdure.StatusConfirmed, nil)
	}
	if x.blame = id; x.prefix == "" { // for a member the composition writes it
		if err := x.letter(ctx, why); err != nil {
			return err
		}
	}
	return x.finish(ctx, perdure.StatusFailed, why)
}

// letter writes the dead letter of a TCC that has failed.
func (x *execution) letter(ctx context.Context, why error) error {
	return deadletter.Add(ctx, x.blame, why)
}

// finish ends the execution and, if the execution is a whole run, the run.
func (x *execution) finish(ctx context.Context, status perdure.RunStatus, why error) error {
	if status == perdure.StatusConfirmed && !x.whole { // for a whole run, listeners call them
		if err := x.calls.Completed(ctx); err != nil {
			return err
		}
	}
	if err := x.calls.Wait(ctx); err != nil {
		return err
	}
	x.over, x.status, x.err = true, status, why
	if !x.whole {
		return nil
	}
	return pattern.End(ctx, status, json.RawMessage(nil), why)
}
