package saga

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/pattern"
)

// An execution is a saga in progress. Its state is a fold of the results of its operations, so that
// replay computes it again. Workflow code writes it, and the bodies of steps read it.
type execution struct {
	*plan
	backpressure backpressure.Policy
	policy       Policy  // of the rollback; empty before it
	handler      Handler // of the rollback
	// its name, with a dot, in the run that it is a part of; empty if it is the run
	part     string
	path     string          // of its scope, with a slash; empty if it is the run
	whole    *compositionRun // the composition it belongs to, or nil
	optional bool            // if it is a member
	input    json.RawMessage
	inputs   Inputs             // by step, if each has its own
	layers   [][]string         // with the clones of steps
	units    map[string]*unit   // by ID
	clones   map[string][]*unit // of a step, in the order of the items
	left     map[string]int     // number of clones that have not ended
	calls    *pattern.Calls

	begun  []*unit // units in branches, in order
	done   []*unit // in the order of their ends
	failed []failure

	mu       sync.RWMutex
	results  map[string]json.RawMessage
	undone   map[string]json.RawMessage
	undoErrs map[string]error

	judged  map[string]bool // compensations that have a verdict, by ID
	undid   []string        // IDs of undone units
	stopped bool            // if true, nothing more is undone
	abort   error           // of a compensation whose handler answered FailSaga
	back    bool            // an operator has asked to undo the completed saga
}

// A unit is a step, or a clone of one.
type unit struct {
	*step
	clone
	layer  int
	future *perdure.Future[json.RawMessage] // nil if it has no branch
	ended  bool
}

// A failure is a step that has failed.
type failure struct {
	step string // the ID without the suffix of a clone
	clone
	err    error
	status perdure.RunStatus // of the run at the time of the failure
}

func (p *plan) begin(input json.RawMessage) *execution {
	x := &execution{
		plan: p, backpressure: p.backpressure, input: input, calls: p.calls.Begin(),
		units: map[string]*unit{}, clones: map[string][]*unit{}, left: map[string]int{},
		results: map[string]json.RawMessage{}, undone: map[string]json.RawMessage{},
		undoErrs: map[string]error{}, judged: map[string]bool{},
	}
	if p.hasInputs() {
		x.inputs, _ = pattern.Decode[Inputs](input) // it has been decoded once
	}
	return x
}

// forward executes the steps. It returns an error if the run ends meanwhile.
func (x *execution) forward(ctx context.Context) error {
	if !x.expand(ctx) {
		return pattern.EndedBy(ctx)
	}
	return pattern.Walk{
		Layers: x.layers, Policy: x.backpressure,
		More: func() bool { return len(x.failed) == 0 },
		Begin: func(id string, alone bool) (pattern.Awaitable, error) {
			return x.beginStep(ctx, x.units[id], alone)
		},
		Ended: func(id string, f pattern.Awaitable, refused error) (pattern.Awaitable, error) {
			u := x.units[id]
			if refused != nil {
				return nil, x.refuse(ctx, u, refused)
			}
			out, err := f.(*perdure.Future[json.RawMessage]).Await(ctx)
			return nil, x.settle(ctx, u, out, err)
		},
	}.Run(ctx)
}

// expand makes clones of the steps over lists. A list that cannot be read fails its step, before
// any other step begins.
func (x *execution) expand(ctx context.Context) bool {
	for _, layer := range x.plan.layers {
		var ids []string
		for _, id := range layer {
			t := x.byID[id]
			clones, err := t.clones(x.input)
			if err != nil {
				u := &unit{step: t, clone: clone{id: id}}
				out, skipped, over := x.task(u).Skipped(ctx, x.given(u))
				if skipped && over == nil {
					x.results[id] = out
					continue
				}
				_ = x.refuse(ctx, u, err)
				return false
			}
			if t.each != nil {
				x.left[id], x.results[id] = len(clones), json.RawMessage("[]")
			}
			if t.each != nil && len(clones) == 0 && t.variable != "" {
				if err := perdure.SetVariable(ctx, t.variable, x.results[id]); err != nil {
					return false
				}
			}
			for _, c := range clones {
				u := &unit{step: t, clone: c, layer: len(x.layers)}
				x.units[c.id] = u
				x.clones[id] = append(x.clones[id], u)
				ids = append(ids, c.id)
			}
		}
		if len(ids) > 0 {
			x.layers = append(x.layers, ids)
		}
	}
	return true
}

// given returns the sources of the argument of a unit.
func (x *execution) given(u *unit) pattern.Sources {
	in := x.input
	switch {
	case u.each != nil:
		in = u.item
	case x.hasInputs():
		in = x.inputs[u.step.id]
	}
	return pattern.Sources{
		Input: in, Result: x.reader(x.results), Undone: x.reader(x.undone),
		UndoError: func(id string) error {
			x.mu.RLock()
			defer x.mu.RUnlock()
			return x.undoErrs[id]
		},
	}
}

func (x *execution) reader(m map[string]json.RawMessage) func(string) (json.RawMessage, bool) {
	return func(id string) (json.RawMessage, bool) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		data, found := m[id]
		return data, found
	}
}

// task returns the task of a unit.
func (x *execution) task(u *unit) pattern.Task {
	retry := u.retry
	t := pattern.Task{
		Name: u.step.id, Key: u.clone.key, Call: u.call, Retry: &retry, Timeout: u.timeout,
		Event: x.events.Step(u.event), Variable: u.variable, Undo: u.undo != nil,
	}
	if u.each != nil {
		t.Variable = "" // it is set to the list when all clones have ended
	}
	return t
}

// beginStep begins a unit, unless its idempotency key was used before.
func (x *execution) beginStep(ctx context.Context, u *unit, alone bool) (pattern.Awaitable, error) {
	out, skipped, err := x.task(u).Skipped(ctx, x.given(u))
	if err != nil {
		return nil, err
	}
	if skipped {
		return nil, x.passBy(ctx, u, out)
	}
	if key := u.step.key; key != "" {
		if u.each != nil {
			key += "[" + u.clone.key + "]"
		}
		isNew, err := pattern.AddKey(ctx, x.path+key) // a part is a separate execution
		if err != nil {
			return nil, x.settle(ctx, u, nil, err)
		}
		if !isNew {
			return nil, x.repeat(ctx, u)
		}
	}
	if !alone {
		u.future = x.task(u).Async(ctx, x.given(u))
		x.begun = append(x.begun, u)
		return u.future, nil
	}
	out, err = x.task(u).Run(ctx, x.given(u))
	return nil, x.settle(ctx, u, out, err)
}

// passBy notes a unit that an operator has skipped: there is nothing to undo.
func (x *execution) passBy(ctx context.Context, u *unit, out json.RawMessage) error {
	u.ended = true
	if err := x.put(ctx, u, out); err != nil {
		return err
	}
	return x.calls.StepEnded(ctx, u.clone.id, u.step.id)
}

// repeat notes a unit whose effect has already happened: there is nothing to undo.
func (x *execution) repeat(ctx context.Context, u *unit) error {
	err := pattern.Record(ctx, pattern.Fact{
		Kind: pattern.StepSkipped, Name: u.step.id, Key: u.clone.key,
		Reason: pattern.ReasonDuplicate,
	})
	if err != nil {
		return err
	}
	return x.put(ctx, u, nil)
}

// refuse fails a unit that must not begin, and records the failure.
func (x *execution) refuse(ctx context.Context, u *unit, why error) error {
	t := pattern.Task{Name: u.step.id, Key: u.clone.key, Retry: &perdure.NoRetry}
	t.Call = func(context.Context, pattern.Sources) (json.RawMessage, error) { return nil, why }
	_, err := t.Run(ctx, x.given(u))
	return x.settle(ctx, u, nil, err)
}

// settle notes the end of a unit, and returns its error.
func (x *execution) settle(ctx context.Context, u *unit, out json.RawMessage, err error) error {
	over := pattern.EndedBy(ctx)
	if over != nil && err != nil {
		return err
	}
	u.ended = true
	if err == nil {
		x.done = append(x.done, u)
		err = x.put(ctx, u, out)
	}
	if over != nil { // only undo it
		return over
	}
	if err != nil {
		info, e := perdure.InfoOf(ctx)
		if e != nil {
			return e
		}
		x.failed = append(x.failed, failure{u.step.id, u.clone, err, info.Status})
		if e := x.events.StepFailed(ctx, u.clone.id, err); e != nil {
			return e
		}
		return err
	}
	return x.calls.StepEnded(ctx, u.clone.id, u.step.id)
}

// put keeps a result. The result of a step over a list is complete with its last clone.
func (x *execution) put(ctx context.Context, u *unit, out json.RawMessage) error {
	x.keepResult(u.clone.id, out)
	if u.each == nil {
		return nil
	}
	if x.left[u.step.id]--; x.left[u.step.id] > 0 {
		return nil
	}
	clones := x.clones[u.step.id]
	all := make([]json.RawMessage, len(clones))
	for i, c := range clones {
		all[i] = x.results[c.clone.id]
	}
	list, err := u.each.list(all)
	if err != nil {
		return err
	}
	x.keepResult(u.step.id, list)
	if u.variable == "" {
		return nil
	}
	return perdure.SetVariable(ctx, u.variable, list)
}

func (x *execution) keepResult(id string, out json.RawMessage) {
	if out == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.results[id] = out
}

// failing returns the failures. Each failure of a clone has the ID of its step too.
func (x *execution) failing() []pattern.Failing {
	var all []pattern.Failing
	for _, f := range x.failed {
		all = append(all, pattern.Failing{Err: f.err, IDs: []string{f.id, f.step}})
	}
	return all
}

// why returns the error of the saga: the error of the first step that failed, or of a compensation
// whose handler has answered FailSaga.
func (x *execution) why() error {
	if x.abort != nil {
		return x.abort
	}
	first := x.failed[0]
	return pattern.FailedStep(first.id, first.err)
}
