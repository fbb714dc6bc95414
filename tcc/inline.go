package tcc

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
)

// An Ending is the outcome of a TCC that was a part of a workflow.
type Ending struct {
	Status perdure.RunStatus // CONFIRMED, CANCELED or FAILED
	Err    error             // why it was cancelled or has failed; nil if it is confirmed
	tries  map[string]json.RawMessage
}

// In returns the result of the participant's try, in a TCC that was a part of a workflow. It
// returns false if there is no result.
func (p *Participant[A, R]) In(e Ending) (R, bool, error) {
	data, found := e.tries[p.p.id]
	if !found {
		var none R
		return none, false, nil
	}
	tried, err := pattern.Decode[R](data)
	return tried, err == nil, err
}

// Inline runs the TCC as a part of the workflow that calls it, in a scope named after the TCC. In a
// loop, give each call its own [perdure.Key]. Each part is a separate execution, with its own
// idempotency keys. A TCC that was cancelled or has failed is not an error here: see the Ending.
// Inline returns an error if the definition is wrong or the run ends.
//
// If the run ends meanwhile in any way, or the branch of the TCC is cancelled, the TCC continues to
// its own end: it is cancelled or, if that is already decided, confirmed. If ctx ends, Inline
// returns the error of ctx, and the TCC ends in the same way, beside the run. Only a run that
// continues as new leaves the TCC behind. The overall timeout is the timeout of the run.
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

// placeOf returns the place of a part in the names that an operator uses: the name of the TCC, and
// the key.
func (p *plan) placeOf(opts []perdure.BranchOption) (string, error) {
	place := p.name + "."
	for _, o := range opts {
		if key, is := o.(perdure.Key); is {
			place = p.name + "." + string(key) + "."
		}
	}
	for _, one := range p.inOrder {
		if p.parks && pattern.CheckName("ID", place+one.id, perdure.PhaseConfirm.Of("")) != nil {
			return "", &perdure.Error{
				Code: perdure.CodeInvalid, Op: "run " + p.name,
				Message: "name, key and the ID of " + one.id +
					" are too long together for an operator",
			}
		}
	}
	return place, nil
}

// refused returns the errors of a definition that is not registered; nil if it can be used.
func (p *plan) refused() error {
	all := p.all()
	for _, i := range all {
		if i.Severity != definition.SeverityWarning && i.Severity != definition.SeverityInfo {
			return &definition.Error{Workflow: p.name, Issues: all}
		}
	}
	return nil
}
