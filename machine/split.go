package machine

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
)

// split runs the branches, joins their outputs and leaves the step for the next one.
func (v *visit) split(ctx context.Context, r record) (next string, out json.RawMessage, err error) {
	own := v.p.done(v.s, v.key, v.in, nil)
	outputs, err := v.branches(ctx, r.Branches)
	if err != nil {
		return "", nil, err
	}
	if out, err = joined(outputs); err == nil {
		*own = out
		next, err = v.s.next(v.last.Next, out)
	}
	if err != nil {
		return "", nil, v.fails(err)
	}
	return next, out, nil
}

// branches runs the branches to their ends, and returns their outputs. If one fails, the others go
// on to their ends too, and then the first failure is returned. If the machine has a route for the
// failure, they go only to the ends of the calls that they are in.
func (v *visit) branches(ctx context.Context, all []Branch) (map[string]json.RawMessage, error) {
	p := v.p
	set, err := pattern.NewSet(ctx)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	byFuture := map[pattern.Awaitable]*path{}
	names := map[*path]string{}
	outputs := map[string]json.RawMessage{}
	defer func() { p.open = nil }()
	for _, b := range all {
		q := p.branch(ctx, v, b)
		p.open, byFuture[q.future], names[q] = append(p.open, q), q, b.Name
		if err := set.Add(q.future); err != nil {
			return nil, err
		}
	}
	var first *failed
	for set.Len() > 0 {
		f, err := set.Next()
		if err != nil {
			return nil, err
		}
		q := byFuture[f]
		out, err := q.future.Await(ctx)
		switch {
		case pattern.EndedBy(ctx) != nil:
			return nil, pattern.EndedBy(ctx)
		case q.failed == nil && err == nil:
			outputs[names[q]] = out
		case q.failed == nil && !q.stopped: // the branch could not begin
			q.failed = v.fails(err).(*failed) //nolint:errorlint,forcetypeassert // made just now
		}
		if q.failed == nil || first != nil {
			continue
		}
		if first = q.failed; p.x.route(first) == "" {
			continue
		}
		if err := p.stop(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case first != nil:
		return nil, first
	case p.stopped:
		return nil, stop{}
	}
	return outputs, nil
}

// branch begins a branch.
func (p *path) branch(ctx context.Context, v *visit, b Branch) *path {
	name := "split." + v.s.id
	q := &path{
		x: p.x, above: p, prefix: p.prefix + name + "[" + b.Name + "]/", visits: map[string]int{},
		stopped: p.stopped, failure: p.failure,
	}
	q.future = perdure.Go(ctx, name, func(ctx context.Context) (json.RawMessage, error) {
		q.ctx = ctx
		if q.stopped {
			return nil, nil
		}
		out, err := q.walk(ctx, b.Step, b.Input)
		if f, is := err.(*failed); is { //nolint:errorlint // made by this package, never wrapped
			q.failed = f
			return nil, nil
		}
		if _, is := err.(stop); is { //nolint:errorlint // the same
			return nil, nil
		}
		return out, err
	}, perdure.Key(b.Name))
	return q
}

// stop stops the branches of the path, and theirs: those that wait are cancelled, also if they wait
// to try a step again. The others end with the call that they are in.
func (p *path) stop(ctx context.Context) error {
	const why = "another branch of the split has failed"
	for _, q := range p.open {
		q.stopped = true
		if err := q.stop(ctx); err != nil {
			return err
		}
		var err error
		if q.waits {
			_, err = q.future.Cancel(ctx, why)
		} else {
			_, err = pattern.CancelWaiting(ctx, q.future, why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
