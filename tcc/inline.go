package tcc

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
)

// An Ending tells how a TCC has ended that was a part of a workflow.
type Ending struct {
	Status perdure.RunStatus // CONFIRMED, CANCELED or FAILED
	Err    error             // why it was cancelled, or could not be; nil where it is confirmed
	tries  map[string]json.RawMessage
}

// In gives what the participant's try gave in a TCC that was a part of a workflow, and
// false where it gave nothing.
func (p *Participant[A, R]) In(e Ending) (R, bool, error) {
	data, found := e.tries[p.p.id]
	if !found {
		var none R
		return none, false, nil
	}
	tried, err := pattern.Decode[R](data)
	return tried, err == nil, err
}

// Inline runs the TCC as a part of the workflow that calls it, in a scope of its name; in a
// loop with a [perdure.Key]. Each part is an execution of its own, with idempotency keys
// of its own. A TCC that was cancelled, or has failed, is no error here: the ending says
// so. An error is that of a definition that is wrong, or that the run ends.
//
// When the run ends meanwhile, however it does, or the branch that the TCC is in is
// cancelled, the TCC goes on until it has ended too: it is cancelled, or where that is
// decided, confirmed. Where ctx ends, Inline returns the error of ctx, and the TCC ends in
// the same way, beside the run. Only a run that continues as new leaves it behind. The overall
// timeout is that of the run.
func (t *TCC[I]) Inline(ctx context.Context, in I, opts ...perdure.BranchOption) (Ending, error) {
	p := t.def.compile()
	if err := p.refused(); err != nil {
		return Ending{}, err
	}
	input, err := pattern.Encode(in)
	if err != nil {
		return Ending{}, err
	}
	x := p.begin(input)
	if x.place, err = p.placeOf(opts); err != nil {
		return Ending{}, err
	}
	err = pattern.Enclose(ctx, p.name, func(scope context.Context) error {
		if err := perdure.Finally(scope, "call-off", x.callOff); err != nil {
			return err
		}
		return x.forward(scope)
	}, opts...)
	if err != nil {
		return Ending{}, err
	}
	return Ending{x.status, x.err, maps.Clone(x.tries)}, nil
}

// placeOf gives what an operator knows a part by: the name of the TCC, and the key.
func (p *plan) placeOf(opts []perdure.BranchOption) (string, error) {
	place := p.name + "."
	for _, o := range opts {
		if key, is := o.(perdure.Key); is {
			place = p.name + "." + string(key) + "."
		}
	}
	for _, one := range p.inOrder {
		if p.parks && !pattern.ValidName(perdure.PhaseConfirm.Of(place+one.id)) {
			return "", &perdure.Error{
				Code: perdure.CodeInvalid, Op: "run " + p.name,
				Message: "name, key and the ID of " + one.id +
					" are too long together for an operator",
			}
		}
	}
	return place, nil
}

// refused gives the error of a definition that nobody registers.
func (p *plan) refused() error {
	all := p.all()
	for _, i := range all {
		if i.Severity != definition.SeverityWarning && i.Severity != definition.SeverityInfo {
			return &definition.Error{Workflow: p.name, Issues: all}
		}
	}
	return nil
}
