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
	in   context.Context // the scope that it has run in
	over bool
	err  error
}

// Inline runs the saga in workflow code, as a part of the run of ctx: with its headers,
// variables and store, in a scope of that name, or in a loop of that name and a
// [perdure.Key]. It waits until the saga has ended. A saga that has failed is undone
// then; that is no error here: the part says so. The saga's own timeout has no meaning,
// and it need not be registered. A [backpressure.Named] holds instead of its pressure.
//
// Where a compensation waits for an operator, the run is SUSPENDED meanwhile; he decides
// for the name undo:NAME.STEP, or undo:NAME.KEY.STEP.
//
// Where the run is cancelled or times out, now or later, the part is undone as a whole
// saga would be. The same holds where the branch that it is in is cancelled: by the timeout
// of the step that it is a part of, say, or since the run fails beside it. Where ctx ends,
// Inline returns the error of ctx, and the part is undone while the run goes on. A part that
// goes on when the run succeeds without it is undone too. Where the code of the part's own
// branch goes on after it and fails, the part stays: see [Part.Undo].
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
	pressure, opts, err := pressureOf(p.pressure, opts)
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
		own.x.part, own.x.pressure = place, pressure
		if err := perdure.OnCancel(within, "compensate", own.cleanUp); err != nil {
			return err
		}
		part = own
		return own.run(within)
	}, opts...)
	return part, err
}

// pressureOf takes the names of pressures off the options of a part, and returns the one
// that holds.
func pressureOf(p backpressure.Policy, opts []perdure.BranchOption) (backpressure.Policy,
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

// tooLong gives a step whose compensation an operator could not decide on, in a part of
// that place.
func (p *plan) tooLong(place string) string {
	for _, t := range p.steps {
		if p.parks && t.undo != nil && !pattern.ValidName(undone(place+t.id)) {
			return t.id
		}
	}
	return ""
}

// refused says why the definition cannot be used, although nobody registers it.
func (p *plan) refused() error {
	issues := slices.Concat(p.graph.Check(), p.issues)
	if !slices.ContainsFunc(issues, func(i definition.Issue) bool {
		return i.Severity == definition.SeverityError
	}) {
		return nil
	}
	return &definition.Error{Workflow: p.name, Issues: issues}
}

// part begins the saga as one of a run, in a scope of its own.
func (p *plan) part(within context.Context, name string, input json.RawMessage) (*Part, error) {
	info, err := perdure.InfoOf(within)
	if err != nil {
		return nil, err
	}
	x := p.begin(input)
	x.part, x.path = name+".", info.Scope
	return &Part{x: x, name: name, in: within}, nil
}

// run runs it to its end. It fails where the run ends meanwhile.
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

// cleanUp undoes the part because the run, or the branch that it is in, ends before its
// time. What it has completed stays where the run succeeds.
func (p *Part) cleanUp(ctx context.Context) error {
	if p.over && pattern.EndingBy(ctx) == nil {
		return nil
	}
	return p.x.cleanUp(ctx)
}

// Err is the error that the saga has failed with; nil where it has succeeded.
func (p *Part) Err() error { return p.err }

// FailedSteps gives the IDs of the steps that have failed, the first first.
func (p *Part) FailedSteps() []string {
	var ids []string
	for _, f := range p.x.failed {
		ids = append(ids, f.id)
	}
	return ids
}

// CompensatedSteps gives the IDs of the steps that were undone so far, the first first.
func (p *Part) CompensatedSteps() []string { return slices.Clone(p.x.undid) }

// Undo undoes, by the saga's policy, what is done and not undone yet: of a part that has
// succeeded, because something else of the run has failed. It is workflow code. The
// error is that of a compensation that the handler makes the saga's.
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
