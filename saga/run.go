package saga

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
)

// An execution is a saga that goes on. What it knows is a fold of what its operations
// gave: a replay makes it anew. Workflow code writes it, the bodies of steps read it.
type execution struct {
	*plan
	input  json.RawMessage
	layers [][]string          // with the clones of steps
	units  map[string]*unit    // by ID
	clones map[string][]string // IDs of those of a step, in the order of the items
	left   map[string]int      // how many of them have not ended
	calls  *perdure.Calls

	done   []*unit // in the order in which they ended
	failed []failure

	mu       sync.RWMutex
	results  map[string]json.RawMessage
	undone   map[string]json.RawMessage
	undoErrs map[string]error

	verdicts map[string]bool // on compensations, by ID
}

// A unit is a step, or a clone of one.
type unit struct {
	*step
	clone
	layer int
}

// A failure is a step that has failed.
type failure struct {
	u   *unit // nil where the input cannot be used
	err error
}

func (p *plan) begin(_ context.Context, input json.RawMessage) *execution {
	return &execution{
		plan: p, input: input, calls: p.definition.calls.Begin(),
		units: map[string]*unit{}, clones: map[string][]string{}, left: map[string]int{},
		results: map[string]json.RawMessage{}, undone: map[string]json.RawMessage{}, undoErrs: map[string]error{}, verdicts: map[string]bool{},
	}
}

// forward does the steps. It fails where the run ends meanwhile.
func (x *execution) forward(ctx context.Context) error {
	if err := x.expand(); err != nil {
		x.failed = append(x.failed, failure{err: err})
		return nil
	}
	return perdure.Walk{
		Layers: x.layers, Pressure: x.pressure,
		More: func() bool { return len(x.failed) == 0 },
		Begin: func(id string, alone bool) (perdure.Awaitable, error) {
			return x.beginStep(ctx, x.units[id], alone)
		},
		Ended: func(id string, f perdure.Awaitable, refused error) (perdure.Awaitable, error) {
			u := x.units[id]
			if refused != nil {
				return nil, x.refuse(ctx, u, refused)
			}
			out, err := f.(*perdure.Future[json.RawMessage]).Await(ctx)
			return nil, x.settle(ctx, u, out, err)
		},
	}.Run(ctx)
}

// expand makes clones of the steps that are over lists.
func (x *execution) expand() error {
	for _, layer := range x.plan.layers {
		var ids []string
		for _, id := range layer {
			t := x.byID[id]
			clones := []clone{{id: id}}
			if t.each != nil {
				var err error
				if clones, err = t.each.clones(x.inputOf(t, x.input)); err != nil {
					return perdure.FailedStep(id, err)
				}
				x.left[id] = len(clones)
				x.results[id] = json.RawMessage("[]")
			}
			for _, c := range clones {
				x.units[c.id] = &unit{t, c, len(x.layers)}
				ids = append(ids, c.id)
				if t.each != nil {
					x.clones[id] = append(x.clones[id], c.id)
				}
			}
		}
		if len(ids) > 0 {
			x.layers = append(x.layers, ids)
		}
	}
	return nil
}

// given is what the argument of a unit is made of.
func (x *execution) given(u *unit) perdure.Given {
	in := u.item
	if u.each == nil {
		in = x.inputOf(u.step, x.input)
	}
	read := func(m map[string]json.RawMessage) func(string) (json.RawMessage, bool) {
		return func(id string) (json.RawMessage, bool) {
			x.mu.RLock()
			defer x.mu.RUnlock()
			data, found := m[id]
			return data, found
		}
	}
	return perdure.Given{
		Input: in, Result: read(x.results), Undone: read(x.undone),
		UndoError: func(id string) error {
			x.mu.RLock()
			defer x.mu.RUnlock()
			return x.undoErrs[id]
		},
	}
}

// task is what a unit does.
func (u *unit) task() perdure.Task {
	retry := u.retry
	return perdure.Task{
		Name: u.step.id, Key: u.clone.key, Call: u.call, Retry: &retry, Timeout: u.timeout, Event: u.event, Variable: u.variable,
	}
}

// beginStep begins a unit, unless its idempotency key was used.
func (x *execution) beginStep(ctx context.Context, u *unit, alone bool) (perdure.Awaitable, error) {
	if key := u.step.key; key != "" {
		if u.each != nil {
			key += "#" + u.clone.key
		}
		isNew, err := perdure.AddKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if !isNew {
			err := perdure.Record(ctx, perdure.Fact{Kind: perdure.StepSkipped, Name: u.step.id, Key: u.clone.key, Reason: perdure.Duplicate})
			if err != nil {
				return nil, err
			}
			x.put(u, nil)
			return nil, nil
		}
	}
	if !alone {
		return u.task().Async(ctx, x.given(u)), nil
	}
	out, err := u.task().Run(ctx, x.given(u))
	return nil, x.settle(ctx, u, out, err)
}

// refuse fails a unit that the pressure lets not begin.
func (x *execution) refuse(ctx context.Context, u *unit, why error) error {
	t := u.task()
	t.Retry = &perdure.NoRetry
	t.Call = func(context.Context, perdure.Given) (json.RawMessage, error) { return nil, why }
	_, err := t.Run(ctx, x.given(u))
	return x.settle(ctx, u, nil, err)
}

// settle takes in how a unit has ended, and gives its error.
func (x *execution) settle(ctx context.Context, u *unit, out json.RawMessage, err error) error {
	if perdure.Over(ctx) != nil {
		return err
	}
	if err != nil {
		x.failed = append(x.failed, failure{u, err})
		return err
	}
	x.put(u, out)
	x.done = append(x.done, u)
	return x.calls.StepEnded(ctx, u.clone.id)
}

// put keeps a result. That of a step over a list is complete with its last clone.
func (x *execution) put(u *unit, out json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if out != nil {
		x.results[u.clone.id] = out
	}
	if u.each == nil {
		return
	}
	if x.left[u.step.id]--; x.left[u.step.id] > 0 {
		return
	}
	var all []json.RawMessage
	for _, id := range x.clones[u.step.id] {
		one := x.results[id]
		if one == nil {
			one = json.RawMessage("null")
		}
		all = append(all, one)
	}
	x.results[u.step.id], _ = json.Marshal(all)
}

func (x *execution) failedSteps() []string {
	var ids []string
	for _, f := range x.failed {
		if f.u != nil {
			ids = append(ids, f.u.clone.id)
		}
	}
	return ids
}

// why is the error of the saga: that of the first step that failed.
func (x *execution) why() error {
	first := x.failed[0]
	if first.u == nil {
		return first.err
	}
	return perdure.FailedStep(first.u.clone.id, first.err)
}
