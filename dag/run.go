package dag

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// An execution is a graph that goes on. It is a fold of the results of its operations: a replay
// makes it anew. Workflow code writes it, and the bodies of steps read it.
type execution struct {
	*plan
	ctx   context.Context
	input json.RawMessage
	info  perdure.Info
	calls *pattern.Calls

	passed map[string]int    // the number of stages that a step has passed
	begun  map[string]future // steps that have begun and are not settled
	// the results of preludes whose steps have not recorded them
	preludes map[string]json.RawMessage
	asides   []*step // async steps, in the order of their starts
	failed   []failure
	rollback pattern.Rollback
	back     bool // an operator has asked to undo the completed graph

	mu      sync.RWMutex
	results map[string]json.RawMessage
}

type future = *perdure.Future[json.RawMessage]

// A failure is a step that has failed.
type failure struct {
	s      *step
	err    error
	status perdure.RunStatus // the status of the run when the step failed
}

// run is the workflow function of the graph.
func (p *plan) run(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	x := &execution{
		plan: p, ctx: ctx, input: input, calls: p.calls.Begin(),
		passed: map[string]int{}, begun: map[string]future{},
		preludes: map[string]json.RawMessage{}, results: map[string]json.RawMessage{},
	}
	var err error
	if x.info, err = perdure.InfoOf(ctx); err != nil {
		return nil, err
	}
	if x.info.DryRun {
		return nil, x.dryRun()
	}
	if err := x.events.Begin(ctx); err != nil {
		return nil, err
	}
	if p.undoes() {
		if err := perdure.OnCancel(ctx, "compensate", x.cleanUp, perdure.Added); err != nil {
			return nil, err
		}
	}
	if err := x.walk(); err != nil {
		return nil, err
	}
	if len(x.failed) > 0 {
		return nil, x.fail()
	}
	if err := x.finish(); err != nil {
		return nil, err
	}
	if x.back, err = pattern.RollsBack(ctx); err != nil {
		return nil, err
	}
	if x.back {
		return nil, x.rollBack()
	}
	if p.again != nil {
		next, more, err := p.again(x.known())
		if err != nil {
			return nil, err
		}
		if more {
			return nil, perdure.ContinueAsNew(ctx, next)
		}
	}
	return x.results[p.output], nil
}

// dryRun walks the whole graph and does nothing.
func (x *execution) dryRun() error {
	for _, layer := range x.layers {
		for _, id := range layer {
			if err := x.skip(x.byID[id], "dry run"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *execution) skip(s *step, why string) error {
	return pattern.Record(x.ctx, pattern.Fact{Kind: pattern.StepSkipped, Name: s.id, Reason: why})
}

// walk does the steps, layer by layer. It fails if the run ends meanwhile.
func (x *execution) walk() error {
	return pattern.Walk{
		Layers: x.layers, Policy: x.backpressure,
		More:   func() bool { return len(x.failed) == 0 },
		Beside: func(id string) bool { return x.byID[id].async },
		Begin: func(id string, alone bool) (pattern.Awaitable, error) {
			return awaitable(x.begin(x.byID[id], alone))
		},
		Ended: func(id string, f pattern.Awaitable, refused error) (pattern.Awaitable, error) {
			if refused != nil {
				return nil, x.refuse(x.byID[id], refused)
			}
			out, err := f.(future).Await(x.ctx)
			return awaitable(x.ended(x.byID[id], out, err))
		},
	}.Run(x.ctx)
}

// awaitable returns a nil interface for a nil future.
func awaitable(f future, err error) (pattern.Awaitable, error) {
	if f == nil {
		return nil, err
	}
	return f, err
}

// begin begins a step: it evaluates the condition, then begins the first stage or the step itself.
func (x *execution) begin(s *step, alone bool) (future, error) {
	out, skipped, err := x.task(s, nil).Skipped(x.ctx, x.given())
	if err != nil {
		return nil, err
	}
	if skipped { // there is nothing to undo
		return nil, x.keep(s, out)
	}
	if s.condition != nil {
		holds, err := pattern.Evaluate(x.ctx, s.condition, x.known())
		switch {
		case err != nil:
			return nil, x.refuse(s, err)
		case !holds:
			return nil, x.skip(s, "its condition does not hold")
		}
	}
	if s.async {
		x.asides = append(x.asides, s)
	}
	return x.advance(s, nil, alone)
}

// A stage is work that a step waits for before it begins.
type stage struct {
	word string // the branch of the stage has this word and the ID of the step as its name
	do   func(context.Context) (json.RawMessage, error)

	options []perdure.BranchOption
}

// stages returns the stages of a step: its gates, then its prelude.
func (x *execution) stages(s *step) (all []stage) {
	if len(s.gates) > 0 {
		all = append(all, stage{word: "gate:", do: s.pass})
	}
	if s.before != nil {
		all = append(all, stage{
			word: s.word, do: func(ctx context.Context) (json.RawMessage, error) {
				return s.do(ctx, x.given())
			},
			options: []perdure.BranchOption{pattern.ForStep(s.id)},
		})
	}
	return all
}

// advance begins the next stage of a step, or the step itself. out is the result of the last stage.
func (x *execution) advance(s *step, out json.RawMessage, alone bool) (future, error) {
	var f future
	if all, at := x.stages(s), x.passed[s.id]; at < len(all) {
		f = perdure.Go(x.ctx, all[at].word+s.id, all[at].do, all[at].options...)
	} else {
		t := x.task(s, out)
		if alone {
			out, err := t.Run(x.ctx, x.given())
			return nil, x.settle(s, out, err)
		}
		if s.before != nil {
			x.preludes[s.id] = out
		}
		f = t.Async(x.ctx, x.given())
	}
	x.passed[s.id]++
	x.begun[s.id] = f
	return f, nil
}

// isBegun reports whether a step has passed its stages.
func (x *execution) isBegun(s *step) bool { return x.passed[s.id] > len(x.stages(s)) }

// ended takes in the end of a stage of a step, or of the step itself.
func (x *execution) ended(s *step, out json.RawMessage, err error) (future, error) {
	delete(x.begun, s.id)
	switch {
	case x.isBegun(s):
		return nil, x.settle(s, out, err)
	case err != nil:
		return nil, x.refuse(s, err)
	}
	return x.advance(s, out, false)
}

// refuse fails a step that did not begin.
func (x *execution) refuse(s *step, why error) error {
	if pattern.EndedBy(x.ctx) != nil {
		return why
	}
	t := pattern.Task{
		Name:  s.id,
		Retry: &perdure.NoRetry,
		Call:  func(context.Context, pattern.Sources) (json.RawMessage, error) { return nil, why },
	}
	_, err := t.Run(x.ctx, x.given())
	return x.settle(s, nil, err)
}

// settle takes in the end of a step, and returns the error of the step.
func (x *execution) settle(s *step, out json.RawMessage, err error) error {
	if pattern.EndedBy(x.ctx) != nil {
		if err == nil { // a clean-up may undo it
			x.succeeded(s, out)
		}
		return err
	}
	if err != nil {
		if !s.async {
			info, e := perdure.InfoOf(x.ctx)
			if e != nil {
				return e
			}
			x.failed = append(x.failed, failure{s, err, info.Status})
		}
		if e := x.events.StepFailed(x.ctx, s.id, err); e != nil {
			return e
		}
		return err
	}
	x.succeeded(s, out)
	return x.calls.StepEnded(x.ctx, s.id)
}

// succeeded takes in the result of a step that was done.
func (x *execution) succeeded(s *step, out json.RawMessage) {
	x.result(s, out)
	if s.undo != nil {
		x.rollback.Done(pattern.Undo{
			Name: s.id, Call: s.undo, Given: x.undoGiven(s), Retry: s.retry, Default: true,
			Timeout: s.timeout,
		})
	}
}

func (x *execution) result(s *step, out json.RawMessage) {
	x.mu.Lock()
	x.results[s.id] = out
	x.mu.Unlock()
}

// keep takes in the result of a step that there was no need to do.
func (x *execution) keep(s *step, out json.RawMessage) error {
	x.result(s, out)
	return x.calls.StepEnded(x.ctx, s.id)
}

// finish waits for callbacks, and takes in the async steps that have ended meanwhile.
func (x *execution) finish() error {
	for {
		if err := x.calls.Wait(x.ctx); err != nil {
			return err
		}
		taken, err := x.takeIn()
		if err != nil || !taken {
			return err
		}
	}
}

// takeIn takes in the async steps that have ended, in the order of their ends, and reports whether
// there were any.
func (x *execution) takeIn() (any bool, err error) {
	var ended []future
	steps := map[future]*step{}
	for _, s := range x.asides {
		f := x.begun[s.id]
		if f == nil || x.passed[s.id] < len(x.stages(s)) {
			continue
		}
		if status, _, _ := f.State(); status == report.StepIsRunning ||
			!x.isBegun(s) && s.before == nil {
			continue // it has not ended, or it waits at its gates
		}
		ended, steps[f] = append(ended, f), s
	}
	for f, over := range perdure.AsCompleted(x.ctx, ended...) {
		if over != nil {
			return false, over
		}
		s := steps[f]
		out, err := f.Await(x.ctx)
		next, _ := x.ended(s, out, err)
		if next != nil { // the prelude has ended, and the step records its result
			out, err = next.Await(x.ctx)
			_, _ = x.ended(s, out, err)
		}
		if over := pattern.EndedBy(x.ctx); over != nil {
			return false, over
		}
	}
	return len(ended) > 0, nil
}

// task returns the task of a step. The task of a step with a prelude records the result of the
// prelude.
func (x *execution) task(s *step, out json.RawMessage) pattern.Task {
	t := pattern.Task{
		Name: s.id, Call: s.call, Retry: s.retry, Timeout: s.timeout, Variable: s.variable,
		Undo: s.undo != nil,
	}
	if s.before != nil {
		t.Timeout = 0
		t.Call = func(context.Context, pattern.Sources) (json.RawMessage, error) { return out, nil }
	}
	if x.events.On {
		t.Event = x.events.Step(s.event)
	}
	return t
}

// given returns the sources of the arguments of steps.
func (x *execution) given() pattern.Sources {
	return pattern.Sources{Input: x.input, Result: func(id string) (json.RawMessage, bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		out, found := x.results[id]
		return out, found
	}}
}

// known returns the values that conditions decide by. Only workflow code writes the results, and it
// does not write them while it evaluates a condition.
func (x *execution) known() pattern.View {
	return pattern.View{
		Input: x.input, Results: x.results, Headers: x.info.Headers,
		Variables: func(names ...string) (map[string]json.RawMessage, error) {
			return pattern.Variables(x.ctx, names...)
		},
	}
}
