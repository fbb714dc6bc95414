package dag

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/perdure/perdure"
)

// An execution is a graph that goes on. What it knows is a fold of what its operations
// gave: a replay makes it anew. Workflow code writes it, the bodies of steps read it.
type execution struct {
	*plan
	ctx   context.Context
	input json.RawMessage
	info  perdure.Info
	calls *perdure.Calls

	ready   map[string]bool // their gates and preludes are passed
	running []asyncStep     // that nobody waits for
	done    []*step         // in the order in which they ended
	failed  []failure

	mu      sync.RWMutex
	results map[string]json.RawMessage
}

// A failure is a step that has failed.
type failure struct {
	s   *step
	err error
}

type asyncStep struct {
	s *step
	f *perdure.Future[json.RawMessage]
}

// run is the workflow.
func (p *plan) run(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	x := &execution{
		plan: p, ctx: ctx, input: input, calls: p.definition.calls.Begin(),
		ready: map[string]bool{}, results: map[string]json.RawMessage{},
	}
	var err error
	if x.info, err = perdure.InfoOf(ctx); err != nil {
		return nil, err
	}
	if x.info.DryRun {
		return nil, x.dryRun()
	}
	if err := x.walk(); err != nil {
		return nil, err
	}
	if err := x.harvest(); err != nil {
		return nil, err
	}
	if len(x.failed) > 0 {
		return nil, x.fail()
	}
	if err := x.calls.Wait(ctx); err != nil {
		return nil, err
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
	return perdure.Record(x.ctx, perdure.Fact{Kind: perdure.StepSkipped, Name: s.id, Reason: why})
}

// walk does the steps, layer by layer. It fails where the run ends meanwhile.
func (x *execution) walk() error {
	return perdure.Walk{
		Layers: x.layers, Pressure: x.pressure,
		More: func() bool { return len(x.failed) == 0 },
		Begin: func(id string, alone bool) (perdure.Awaitable, error) {
			return x.begin(x.byID[id], alone)
		},
		Ended: func(id string, f perdure.Awaitable, refused error) (perdure.Awaitable, error) {
			s := x.byID[id]
			if refused != nil {
				return nil, x.refuse(s, refused)
			}
			out, err := f.(*perdure.Future[json.RawMessage]).Await(x.ctx)
			if x.ready[id] {
				return nil, x.settle(s, out, err)
			}
			if err != nil {
				return nil, x.refuse(s, err)
			}
			return x.prepare(s, out)
		},
	}.Run(x.ctx)
}

// begin begins a step: with its condition, its gates, or itself.
func (x *execution) begin(s *step, alone bool) (perdure.Awaitable, error) {
	if err := x.harvest(); err != nil {
		return nil, err
	}
	if s.condition != nil {
		holds, err := x.holds(s)
		switch {
		case err != nil:
			return nil, x.refuse(s, err)
		case !holds:
			return nil, x.skip(s, "its condition does not hold")
		}
	}
	switch {
	case len(s.gates) > 0:
		return perdure.Go(x.ctx, "gate:"+s.id, func(ctx context.Context) (json.RawMessage, error) { return nil, s.pass(ctx) }), nil
	case s.before != nil:
		return s.before(x.ctx, x, s), nil
	}
	return x.start(s, alone)
}

// prepare goes on with a step whose gates are open, or whose prelude has ended.
func (x *execution) prepare(s *step, out json.RawMessage) (perdure.Awaitable, error) {
	if _, passed := x.results["gate:"+s.id]; len(s.gates) > 0 && s.before != nil && !passed {
		x.put("gate:"+s.id, nil)
		return s.before(x.ctx, x, s), nil
	}
	if s.before != nil {
		x.put(beforeOf(s), out)
	}
	return x.start(s, false)
}

// start has the step itself done.
func (x *execution) start(s *step, alone bool) (perdure.Awaitable, error) {
	x.ready[s.id] = true
	if s.async {
		x.running = append(x.running, asyncStep{s, x.task(s).Async(x.ctx, x.given(s))})
		return nil, nil
	}
	if !alone {
		return x.task(s).Async(x.ctx, x.given(s)), nil
	}
	out, err := x.task(s).Run(x.ctx, x.given(s))
	return nil, x.settle(s, out, err)
}

// refuse fails a step that did not begin.
func (x *execution) refuse(s *step, why error) error {
	if perdure.Over(x.ctx) != nil {
		return why
	}
	t := x.task(s)
	t.Retry = &perdure.NoRetry
	t.Call = func(context.Context, perdure.Given) (json.RawMessage, error) { return nil, why }
	_, err := t.Run(x.ctx, x.given(s))
	return x.settle(s, nil, err)
}

// settle takes in how a step has ended, and gives its error.
func (x *execution) settle(s *step, out json.RawMessage, err error) error {
	if perdure.Over(x.ctx) != nil {
		return err
	}
	if err != nil {
		if !s.async {
			x.failed = append(x.failed, failure{s, err})
		}
		return err
	}
	x.put(s.id, out)
	x.done = append(x.done, s)
	return x.calls.StepEnded(x.ctx, s.id)
}

// harvest takes in the async steps that have ended.
func (x *execution) harvest() error {
	var left []asyncStep
	for _, a := range x.running {
		status, out, err := a.f.State()
		if status == perdure.StepIsRunning {
			left = append(left, a)
			continue
		}
		if x.settle(a.s, out, err); perdure.Over(x.ctx) != nil {
			return perdure.Over(x.ctx)
		}
	}
	x.running = left
	return nil
}

func (x *execution) put(id string, out json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.results[id] = out
}

// task is what a step does.
func (x *execution) task(s *step) perdure.Task {
	t := perdure.Task{Name: s.id, Call: s.call, Retry: s.retry, Timeout: s.timeout, Variable: s.variable}
	if x.events {
		t.Event = s.event
		if t.Event == nil {
			t.Event = &perdure.StepEvent{}
		}
	}
	return t
}

// given is what the argument of a step is made of.
func (x *execution) given(*step) perdure.Given {
	return perdure.Given{Input: x.input, Result: func(id string) (json.RawMessage, bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		out, found := x.results[id]
		return out, found
	}}
}

// holds asks the condition of a step. It may be the user's code: a panic in it is an
// error.
func (x *execution) holds(s *step) (holds bool, err error) {
	return perdure.Ask(x.ctx, s.condition, x.known())
}

// known is what conditions decide by.
func (x *execution) known() perdure.Known {
	k := perdure.Known{Input: x.input, Results: map[string]json.RawMessage{}, Headers: x.info.Headers}
	for _, s := range x.done {
		k.Results[s.id] = x.results[s.id]
	}
	k.Variables, _ = perdure.Variables(x.ctx)
	return k
}

// fail undoes what is done and ends the run.
func (x *execution) fail() error {
	ctx := x.ctx
	err := perdure.FailedStep(x.failed[0].s.id, x.failed[0].err)
	if e := x.undo(); e != nil {
		return e
	}
	var ids []string
	for _, f := range x.failed {
		ids = append(ids, f.s.id)
		if e := perdure.DeadLetter(ctx, f.s.id, f.err); e != nil {
			return e
		}
	}
	suppressed, e := x.calls.Failed(ctx, err, ids...)
	if e == nil {
		e = x.calls.Wait(ctx)
	}
	switch {
	case e != nil:
		return e
	case suppressed:
		return nil
	}
	return perdure.Fail(ctx, err)
}

// undo undoes the steps that are done, the one that ended last first.
func (x *execution) undo() error {
	undoes := slices.DeleteFunc(slices.Clone(x.done), func(s *step) bool { return s.undo == nil })
	if len(undoes) == 0 {
		return nil
	}
	if err := perdure.SetStatus(x.ctx, perdure.StatusCompensating); err != nil {
		return err
	}
	if err := perdure.Record(x.ctx, perdure.Fact{Kind: perdure.CompensationStarted, Name: "compensation", Reason: "BEST_EFFORT_SEQUENTIAL"}); err != nil {
		return err
	}
	for _, s := range slices.Backward(undoes) {
		t := perdure.Task{Name: s.id, Phase: perdure.PhaseUndo, Call: s.undo, Retry: s.retry, Timeout: s.timeout}
		_, err := t.Run(x.ctx, x.given(s))
		if over := perdure.Over(x.ctx); over != nil {
			return over
		}
		fact := perdure.Fact{Kind: perdure.StepCompensated, Name: s.id}
		if err != nil {
			fact.Kind, fact.Err = perdure.CompensationFailed, err
		}
		if err := perdure.Record(x.ctx, fact); err != nil {
			return err
		}
	}
	return nil
}
