package saga

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// A Part is a saga that has run as a part of a run: see [Saga.Inline].
type Part struct {
	x    *execution
	name string
	in   context.Context // the scope that the part has run in
	over bool
	err  error
}

// Inline runs the saga in workflow code, as a part of the run of ctx. The part uses the headers,
// variables and store of the run. It has a scope of the given name; in a loop, give each call the
// same name and its own [perdure.Key]. Inline waits until the saga has ended. A saga that has
// failed has been undone by then. This is not an error of Inline: see [Part.Err]. The saga's own
// timeout has no effect, and the saga need not be registered. The option [backpressure.Named]
// replaces the saga's backpressure policy.
//
// While a compensation waits for an operator, the run is SUSPENDED. The operator decides for the
// name undo:NAME.STEP, or undo:NAME.KEY.STEP if the part has a key.
//
// If the run is cancelled or times out, now or later, the part is undone as a whole saga would be.
// The same happens if the branch of the part is cancelled, for example by the timeout of the step
// that it belongs to, or because the run fails beside it. If ctx ends, Inline returns the error of
// ctx, and the part is undone while the run continues. If the run succeeds while the part is still
// in progress, the part is undone too. If the workflow fails later, the part is not undone: call
// [Part.Undo].
func (s *Saga[I]) Inline(ctx context.Context, name string, in I,
	opts ...perdure.BranchOption) (*Part, error) {
	p := s.def.compile()
	if err := p.refused(); err != nil {
		return nil, err
	}
	input, err := pattern.Encode(in)
	if err != nil {
		return nil, err
	}
	policy, opts, err := backpressureOf(p.backpressure, opts)
	if err != nil {
		return nil, err
	}
	place := name + "."
	for _, o := range opts {
		if key, is := o.(perdure.Key); is {
			place = name + "." + string(key) + "."
		}
	}
	if id := p.tooLong(place); id != "" {
		return nil, &perdure.Error{
			Code: perdure.CodeInvalid, Op: "run " + p.name, Message: "name, key and the ID of " +
				id + " are too long together for an operator",
		}
	}
	var part *Part
	err = pattern.Enclose(ctx, name, func(within context.Context) error {
		own, err := p.part(within, name, input)
		if err != nil {
			return err
		}
		own.x.part, own.x.backpressure = place, policy
		if err := perdure.OnCancel(within, "compensate", own.cleanUp); err != nil {
			return err
		}
		part = own
		return own.run(within)
	}, opts...)
	return part, err
}

// backpressureOf removes the names of policies from the options of a part. It returns the policy
// that applies, and the other options.
func backpressureOf(p backpressure.Policy, opts []perdure.BranchOption) (backpressure.Policy,
	[]perdure.BranchOption, error) {
	var left []perdure.BranchOption
	for _, o := range opts {
		name, is := o.(backpressure.Named)
		if !is {
			left = append(left, o)
			continue
		}
		named, err := backpressure.Lookup(string(name))
		if err != nil {
			return nil, nil, err
		}
		p = named
	}
	return p, left, nil
}

// tooLong returns the ID of a step whose compensation an operator could not decide on, because its
// name would be too long in a part of that place. It is empty if there is none.
func (p *plan) tooLong(place string) string {
	for _, t := range p.steps {
		if p.parks && t.undo != nil && pattern.CheckName("ID", place+t.id, undone("")) != nil {
			return t.id
		}
	}
	return ""
}

// refused returns the errors of a definition that is not registered; nil if it can be used.
func (p *plan) refused() error {
	issues := slices.Concat(p.graph.Check(), p.issues)
	if !slices.ContainsFunc(issues, func(i definition.Issue) bool {
		return i.Severity == definition.SeverityError
	}) {
		return nil
	}
	return &definition.Error{Workflow: p.name, Issues: issues}
}

// part begins the saga as a part of a run, in its own scope.
func (p *plan) part(within context.Context, name string, input json.RawMessage) (*Part, error) {
	info, err := perdure.InfoOf(within)
	if err != nil {
		return nil, err
	}
	x := p.begin(input)
	x.part, x.path = name+".", info.Scope
	return &Part{x: x, name: name, in: within}, nil
}

// run runs the part to its end. It returns an error if the run ends meanwhile.
func (p *Part) run(ctx context.Context) error {
	if err := p.x.forward(ctx); err != nil {
		return err
	}
	var over error
	if len(p.x.failed) > 0 {
		p.err, over = p.x.backward(ctx)
	} else if over = p.x.calls.Completed(ctx); over == nil {
		over = p.x.calls.Wait(ctx)
	}
	p.over = over == nil
	return over
}

// cleanUp undoes the part because the run, or the part's branch, ends early. A part that is
// complete stays if the run succeeds.
func (p *Part) cleanUp(ctx context.Context) error {
	if p.over && pattern.EndingBy(ctx) == nil {
		return nil
	}
	return p.x.cleanUp(ctx)
}

// Err returns the error that the saga has failed with; nil if it has succeeded.
func (p *Part) Err() error { return p.err }

// FailedSteps returns the IDs of the steps that have failed, in the order of their failures.
func (p *Part) FailedSteps() []string {
	var ids []string
	for _, f := range p.x.failed {
		ids = append(ids, f.id)
	}
	return ids
}

// CompensatedSteps returns the IDs of the steps that were undone so far, in order.
func (p *Part) CompensatedSteps() []string { return slices.Clone(p.x.undid) }

// Undo undoes every step that is done and not undone yet, by the saga's policy. Workflow code calls
// it for a part that has succeeded, when something else in the run has failed. It returns an error
// if a compensation fails and the handler answers [FailSaga], or if the run ends meanwhile.
func (p *Part) Undo(ctx context.Context) error {
	within, err := perdure.Scope(ctx, undone(p.name), pattern.StandsFor(p.in))
	if err != nil {
		return err
	}
	return p.x.cleanUp(within)
}

func (p *Part) resultOf(id string) json.RawMessage {
	data, _ := p.x.reader(p.x.results)(id)
	return data
}

func (p *Part) resultsOf(prefix string) map[string]json.RawMessage {
	p.x.mu.RLock()
	defer p.x.mu.RUnlock()
	out := maps.Clone(p.x.results)
	maps.DeleteFunc(out, func(id string, _ json.RawMessage) bool {
		return !strings.HasPrefix(id, prefix)
	})
	return out
}
