package saga

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/pattern"
)

// A compositionRun is a composition in progress. Its state is a fold of the results of its
// operations, so that replay computes it again.
type compositionRun struct {
	*compositionPlan
	input  json.RawMessage
	calls  *pattern.Calls
	begun  []*Part          // in order
	parts  map[string]*Part // by alias
	layer  map[string]int   // of members that have begun
	done   []*Part          // in the order of their ends
	failed []failure
	undoes int   // number of members that are being undone, the whole composition included
	abort  error // the error of a compensation whose handler has answered FailSaga
	back   bool  // an operator has asked to undo the completed composition

	// These are for conditions.
	headers map[string]string
	results map[string]json.RawMessage // of members that are done, by alias
	unread  []*Part                    // members that are done but not yet in results
}

// run is the workflow.
func (c *compositionPlan) run(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	return nil, c.play(ctx, input)
}

func (c *compositionPlan) play(ctx context.Context, input json.RawMessage) error {
	if err := c.events.Begin(ctx); err != nil {
		return err
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return err
	}
	x := &compositionRun{
		compositionPlan: c, input: input, calls: c.calls.Begin(), parts: map[string]*Part{},
		layer:   map[string]int{},
		headers: info.Headers, results: map[string]json.RawMessage{},
	}
	if x.back, err = pattern.RollsBack(ctx); err != nil {
		return err
	}
	if err := perdure.OnCancel(ctx, "compensate", x.cleanUp); err != nil {
		return err
	}
	if err := x.tell(ctx, pattern.PhaseStarted, nil); err != nil {
		return err
	}
	if err := x.forward(ctx); err != nil {
		return err
	}
	var why error
	if len(x.failed) > 0 {
		var over error
		if why, over = x.backward(ctx); over != nil {
			return over
		}
	}
	if err := x.calls.Wait(ctx); err != nil {
		return err
	}
	if why == nil {
		if err := x.tell(ctx, pattern.PhaseCompleted, nil); err != nil || !x.back {
			return err
		}
		return x.rollBack(ctx)
	}
	if err := x.tell(ctx, pattern.PhaseFailed, why); err != nil {
		return err
	}
	return perdure.Fail(ctx, why)
}

// tell records for observers that the composition has begun or ended.
func (x *compositionRun) tell(ctx context.Context, what pattern.FactKind, why error) error {
	return pattern.Record(ctx, pattern.Fact{
		Kind: what, Name: "composition", Phase: string(perdure.PhaseComposition), Err: why,
	})
}

// forward runs the members.
func (x *compositionRun) forward(ctx context.Context) error {
	for i, layer := range x.layers {
		for _, alias := range layer {
			x.layer[alias] = i
		}
	}
	return pattern.Walk{
		Layers: x.layers,
		More:   func() bool { return len(x.failed) == 0 },
		Begin: func(alias string, _ bool) (pattern.Awaitable, error) {
			return x.begin(ctx, x.byAlias[alias])
		},
		Ended: func(alias string, f pattern.Awaitable, _ error) (pattern.Awaitable, error) {
			_, err := f.(*perdure.Future[struct{}]).Await(ctx)
			return nil, x.settle(ctx, x.byAlias[alias], err)
		},
	}.Run(ctx)
}

// begin begins a member, unless its condition does not hold.
func (x *compositionRun) begin(ctx context.Context, m *member) (pattern.Awaitable, error) {
	is, err := x.holds(ctx, m)
	var input json.RawMessage
	if err == nil && is {
		input, err = x.inputOf(ctx, m)
	}
	switch {
	case pattern.EndedBy(ctx) != nil:
		return nil, pattern.EndedBy(ctx)
	case err != nil:
		return nil, x.refuse(ctx, m, err)
	case !is:
		return nil, pattern.Record(ctx, pattern.Fact{
			Kind: pattern.StepSkipped, Name: m.alias, Reason: "its condition does not hold",
		})
	}
	return perdure.Go(ctx, m.alias, func(ctx context.Context) (struct{}, error) {
		part, err := x.plans[m.alias].part(ctx, m.alias, input)
		if err != nil {
			return struct{}{}, err
		}
		part.x.whole, part.x.optional, part.x.back = x, m.optional, x.back
		x.parts[m.alias], x.begun = part, append(x.begun, part)
		return struct{}{}, part.run(ctx)
	}), nil
}

// refuse fails a member that cannot begin, and records the failure in a step named after it.
func (x *compositionRun) refuse(ctx context.Context, m *member, why error) error {
	_, err := pattern.Task{
		Name: m.alias,
		Call: func(context.Context, pattern.Sources) (json.RawMessage, error) {
			return nil, perdure.Permanent(why)
		},
	}.Run(ctx, pattern.Sources{})
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if err := deadletter.Add(ctx, m.alias, err); err != nil {
		return err
	}
	return x.fail(m, err)
}

// fail notes that a member has failed.
func (x *compositionRun) fail(m *member, err error) error {
	if !m.optional {
		x.failed = append(x.failed, failure{step: m.alias, clone: clone{id: m.alias}, err: err})
	}
	return err
}

// settle notes that a member has ended.
func (x *compositionRun) settle(ctx context.Context, m *member, over error) error {
	if pattern.EndedBy(ctx) != nil {
		return over
	}
	part := x.parts[m.alias]
	switch {
	case over != nil:
		return x.fail(m, over)
	case part.err != nil:
		return x.fail(m, part.err)
	}
	x.done, x.unread = append(x.done, part), append(x.unread, part)
	return x.calls.StepEnded(ctx, m.alias)
}

// backward undoes the members that are done. It returns the error of the composition; nil if a
// callback suppresses it.
func (x *compositionRun) backward(ctx context.Context) (why, over error) {
	if err := x.undoAll(ctx, x.done); err != nil {
		return nil, err
	}
	first := x.failed[0]
	if why = pattern.FailedStep(first.id, first.err); x.abort != nil {
		why = x.abort
	}
	var all []pattern.Failing
	for _, f := range x.failed {
		all = append(all, pattern.Failing{Err: f.err, IDs: []string{f.id}})
	}
	suppressed, err := x.calls.Failed(ctx, why, all...)
	if suppressed {
		why = nil
	}
	return why, err
}

// rollBack undoes a composition that has completed, because an operator has asked for it, and ends
// the run.
func (x *compositionRun) rollBack(ctx context.Context) error {
	if err := x.undoAll(ctx, x.done); err != nil {
		return err
	}
	why := x.abort
	for _, p := range x.done {
		if left := p.x.notUndone(); why == nil && left != nil {
			why = pattern.FailedStep(p.name, left)
		}
	}
	if why != nil {
		return perdure.Fail(ctx, why)
	}
	return pattern.End(ctx, perdure.StatusCompensated, nil, nil)
}

// cleanUp undoes everything that members have done, because the run ends before they do.
func (x *compositionRun) cleanUp(ctx context.Context) error {
	parts := slices.DeleteFunc(slices.Clone(x.begun), func(p *Part) bool {
		return slices.Contains(x.done, p)
	})
	if err := x.undoAll(ctx, slices.Concat(x.done, parts)); err != nil {
		return err
	}
	return errors.Join(x.abort, x.tell(ctx, pattern.PhaseFailed, pattern.EndingBy(ctx)))
}

// undoAll undoes members by the policy, beginning with the last.
func (x *compositionRun) undoAll(ctx context.Context, parts []*Part) error {
	if !slices.ContainsFunc(parts, (*Part).leaves) {
		return nil
	}
	if err := x.compensating(ctx, true); err != nil { // never reverted
		return err
	}
	if err := pattern.Record(ctx, pattern.Fact{
		Kind: pattern.CompensationStarted, Name: "compensation", Reason: string(x.policy),
	}); err != nil {
		return err
	}
	for _, group := range x.groups(parts) {
		if err := x.undoGroup(ctx, group); err != nil {
			return err
		}
		if x.abort != nil {
			return nil
		}
	}
	return nil
}

// compensating sets the status of the run to COMPENSATING while something is undone.
func (x *compositionRun) compensating(ctx context.Context, begins bool) error {
	if begins {
		if x.undoes++; x.undoes > 1 {
			return nil
		}
		return pattern.SetStatus(ctx, perdure.StatusCompensating)
	}
	if x.undoes--; x.undoes > 0 {
		return nil
	}
	return pattern.SetStatus(ctx, perdure.StatusRunning)
}

// leaves reports whether the part may have something to undo.
func (p *Part) leaves() bool {
	return len(p.x.groups()) > 0 || slices.ContainsFunc(p.x.begun, func(u *unit) bool {
		return !u.ended && u.undo != nil
	})
}

// groups returns groups of members: each group is undone at once, one group after the other.
func (x *compositionRun) groups(parts []*Part) [][]*Part {
	var groups [][]*Part
	last := -1
	for i, p := range slices.Backward(parts) {
		at := i
		switch x.policy {
		case BestEffortParallel:
			at = 0
		case GroupedParallel:
			at = x.layer[p.name]
		}
		if at != last {
			groups = append(groups, nil)
		}
		last = at
		groups[len(groups)-1] = append(groups[len(groups)-1], p)
	}
	return groups
}

// undoGroup undoes the members of a group at once.
func (x *compositionRun) undoGroup(ctx context.Context, group []*Part) error {
	if len(group) == 1 {
		return x.undone(ctx, group[0], group[0].Undo(ctx))
	}
	futures := make([]*perdure.Future[struct{}], len(group))
	for i, p := range group {
		futures[i] = perdure.Go(ctx, undone(p.name), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, x.undone(ctx, p, p.x.cleanUp(ctx))
		}, pattern.StandsFor(p.in))
	}
	for _, f := range futures {
		if _, err := f.Await(ctx); err != nil && pattern.EndedBy(ctx) != nil {
			return err
		}
	}
	return nil
}

// undone notes the outcome of undoing a member. It returns an error if the run ends meanwhile.
func (x *compositionRun) undone(ctx context.Context, p *Part, err error) error {
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if err != nil && x.abort == nil {
		x.abort = pattern.FailedStep(p.name, err)
	}
	return nil
}
