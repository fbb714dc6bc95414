package saga

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/pattern"
)

// An execution is a saga that goes on. What it knows is a fold of what its operations
// gave: a replay makes it anew. Workflow code writes it, the bodies of steps read it.
type execution struct {
	*plan
	pressure backpressure.Policy
	// its name in the run that it is a part of, with a dot; empty where it is the run
	part     string
	path     string     // of the scope that it runs in, with a slash; empty where it is the run
	whole    *composing // that it is a member of; nil for none
	optional bool       // as a member
	input    json.RawMessage
	inputs   Inputs             // of steps, where each has its own
	layers   [][]string         // with the clones of steps
	units    map[string]*unit   // by ID
	clones   map[string][]*unit // of a step, in the order of the items
	left     map[string]int     // how many of them have not ended
	calls    *pattern.Calls

	begun  []*unit // beside the workflow's code, in order
	done   []*unit // in the order in which they ended
	failed []failure

	mu       sync.RWMutex
	results  map[string]json.RawMessage
	undone   map[string]json.RawMessage
	undoErrs map[string]error

	judged  map[string]bool // compensations on which there is a verdict, by ID
	undid   []string        // what is undone
	stopped bool            // nothing more is undone
	abort   error           // of the compensation that the handler makes the saga's
}

// A unit is a step, or a clone of one.
type unit struct {
	*step
	clone
	layer  int
	future *perdure.Future[json.RawMessage] // nil where it is not beside the workflow's code
	ended  bool
}

// A failure is a step that has failed.
type failure struct {
	step string // ID, without what tells clones apart
	clone
	err    error
	status perdure.RunStatus // of the run when it failed
}

func (p *plan) begin(input json.RawMessage) *execution {
	x := &execution{
		plan: p, pressure: p.pressure, input: input, calls: p.calls.Begin(),
		units: map[string]*unit{}, clones: map[string][]*unit{}, left: map[string]int{},
		results: map[string]json.RawMessage{}, undone: map[string]json.RawMessage{},
		undoErrs: map[string]error{}, judged: map[string]bool{},
	}
	if p.hasInputs() {
		x.inputs, _ = pattern.Decode[Inputs](input) // it has been decoded once
	}
	return x
}

// forward does the steps. It fails where the run ends meanwhile.
func (x *execution) forward(ctx context.Context) error {
	if !x.expand(ctx) {
		return pattern.EndedBy(ctx)
	}
	return pattern.Walk{
		Layers: x.layers, Policy: x.pressure,
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

// expand makes clones of the steps that are over lists. A list that cannot be had fails
// its step, before any other begins.
func (x *execution) expand(ctx context.Context) bool {
	for _, layer := range x.plan.layers {
		var ids []string
		for _, id := range layer {
			t := x.byID[id]
			clones, err := t.clones(x.input)
			if err != nil {
				_ = x.refuse(ctx, &unit{step: t, clone: clone{id: id}}, err)
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

// given is what the argument of a unit is made of.
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

// task is what a unit does.
func (x *execution) task(u *unit) pattern.Task {
	retry := u.retry
	t := pattern.Task{
		Name: u.step.id, Key: u.clone.key, Call: u.call, Retry: &retry, Timeout: u.timeout,
		Event: x.events.Step(u.event), Variable: u.variable,
	}
	if u.each != nil {
		t.Variable = "" // it is set to the list, when that is complete
	}
	return t
}

// beginStep begins a unit, unless its idempotency key was used.
func (x *execution) beginStep(ctx context.Context, u *unit, alone bool) (pattern.Awaitable, error) {
	if key := u.step.key; key != "" {
		if u.each != nil {
			key += "#" + u.clone.key
		}
		isNew, err := pattern.AddKey(ctx, x.path+key) // a part is an execution of its own
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
	out, err := x.task(u).Run(ctx, x.given(u))
	return nil, x.settle(ctx, u, out, err)
}

// repeat takes in a unit whose effect is there already: there is nothing to undo.
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

// refuse fails a unit that must not begin, and says so.
func (x *execution) refuse(ctx context.Context, u *unit, why error) error {
	t := pattern.Task{Name: u.step.id, Key: u.clone.key, Retry: &perdure.NoRetry}
	t.Call = func(context.Context, pattern.Sources) (json.RawMessage, error) { return nil, why }
	_, err := t.Run(ctx, x.given(u))
	return x.settle(ctx, u, nil, err)
}

// settle takes in how a unit has ended, and gives its error.
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
	if over != nil { // it is only to be undone
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

// put keeps a result. That of a step over a list is complete with its last clone.
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

// failing gives what has failed; clones with the IDs of the steps that they are of.
func (x *execution) failing() []pattern.Failing {
	var all []pattern.Failing
	for _, f := range x.failed {
		all = append(all, pattern.Failing{Err: f.err, IDs: []string{f.id, f.step}})
	}
	return all
}

// why is the error of the saga: that of the first step that failed, or of the
// compensation that the handler makes it.
func (x *execution) why() error {
	if x.abort != nil {
		return x.abort
	}
	first := x.failed[0]
	return pattern.FailedStep(first.id, first.err)
}
