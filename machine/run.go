package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/pattern"
)

// An execution is a machine in progress. Its state is a fold of the results of its visits, so that
// replay computes it again. Workflow code writes it, and the functions of steps read outcomes.
type execution struct {
	*plan
	rollback pattern.Rollback
	top      *path    // that of the run
	failure  *Failure // for which the run is undone, or has taken an error route
	children map[string]*perdure.Child[json.RawMessage]
	named    map[string]string // the workflow of each child

	mu       sync.RWMutex
	outcomes map[string]perdure.Outcome[json.RawMessage] // of children that have ended, by key
}

// run is the workflow.
func run(ctx context.Context, p *plan, in json.RawMessage) (json.RawMessage, error) {
	x := &execution{
		rollback: pattern.Rollback{Parks: true},
		children: map[string]*perdure.Child[json.RawMessage]{}, named: map[string]string{},
		outcomes: map[string]perdure.Outcome[json.RawMessage]{},
	}
	err := perdure.OnCancel(ctx, "compensate", x.cleanUp)
	if err == nil {
		x.plan, err = p.of(ctx)
	}
	if err != nil {
		return nil, err
	}
	out, err := x.main(ctx, in)
	var why *failed
	switch {
	case errors.As(err, &why):
		return nil, x.fail(ctx, why)
	case err != nil:
		return nil, err
	}
	back, err := pattern.RollsBack(ctx)
	if err != nil || !back {
		return out, err
	}
	return nil, x.undoCompleted(ctx)
}

// marker is the name of the marker that has the version of a run, and of the header that has that
// of its successor.
const marker = "machine"

// of returns the plan of the version that the run has begun with.
func (p *plan) of(ctx context.Context) (*plan, error) {
	if p.version == 0 && len(p.older) == 0 {
		return p, pattern.Unversioned(ctx, marker)
	}
	info, err := perdure.InfoOf(ctx)
	if err != nil {
		return nil, err
	}
	newest := p.version
	asked, by, _ := strings.Cut(info.Headers[marker], "@")
	if name, version, found := strings.Cut(asked, "="); found && name == p.name &&
		info.Predecessor != "" && by == info.Predecessor {
		if n, err := strconv.Atoi(version); err == nil {
			newest = n
		}
	}
	v, decide := 0, perdure.Version
	if p.versions[0] != nil && newest == p.version {
		decide = pattern.FirstVersion
	}
	if newest > 0 {
		if v, err = decide(ctx, marker, newest); err != nil {
			return nil, err
		}
	}
	own := p.versions[v]
	if own == nil {
		return nil, perdure.Parking(fmt.Errorf("the run began with version %d of machine %s, and "+
			"this program does not have it: pass it to Version, and resume the run", v, p.name))
	}
	return own, nil
}

// A failed is the failure of a step for good.
type failed struct {
	step  *step
	input json.RawMessage // of the step
	path  string          // of the visit, for people
	data  json.RawMessage // of a Fail; nil for other failures
	err   error           // as the journal has it
	tries int
}

func (f *failed) Error() string { return f.path + ": " + f.err.Error() }

func (f *failed) failure() *Failure {
	out := &Failure{Step: f.path, Reason: failure.Bare(f.err), Err: f.err}
	if string(f.data) != "null" { // it is that for a Fail without data
		out.Data = f.data
	}
	return out
}

// why returns the error that the run fails with.
func (f *failed) why() error {
	err := f.err
	if f.tries > 1 && f.data == nil {
		err = fmt.Errorf("after %d attempts: %w", f.tries, err)
	}
	return pattern.FailedStep(f.path, err)
}

// takes returns the step of the first route for an error; empty if there is none.
func takes(routes []errorRoute, err error) string {
	for _, r := range routes {
		if len(r.on) == 0 {
			return r.to
		}
		for _, on := range r.on {
			if failure.InClass(err, on) {
				return r.to
			}
		}
	}
	return ""
}

// route returns the step that goes on after a failure, by the routes of the machine.
func (x *execution) route(f *failed) string {
	to := takes(x.routes, f.err)
	if to == f.step.id || to != "" && x.top.isOver(to) {
		return ""
	}
	return to
}

// main walks from the first step to the end, also over failures that the machine has a route for.
func (x *execution) main(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
	p := &path{x: x, visits: map[string]int{}}
	x.top = p
	at := x.first
	for {
		out, err := p.walk(ctx, at, in)
		var f *failed
		if !errors.As(err, &f) {
			return out, err
		}
		if at = x.route(f); at == "" {
			return nil, f
		}
		p.failure, in = f.failure(), f.input
	}
}

// fail undoes what is done, and ends the run.
func (x *execution) fail(ctx context.Context, f *failed) error {
	x.failure = f.failure()
	if x.rollback.Open() == 0 {
		return perdure.Fail(ctx, f.why())
	}
	if err := x.rollback.Run(ctx); err != nil {
		return err
	}
	if left := x.rollback.Failed(); left != nil {
		return perdure.Fail(ctx, errors.Join(f.why(), left))
	}
	return pattern.End(ctx, perdure.StatusCompensated, nil, f.why())
}

// cleanUp undoes what is done, because the run times out or is cancelled with compensation.
func (x *execution) cleanUp(ctx context.Context) error {
	status, err := pattern.EndingAs(ctx)
	if err != nil {
		return err
	}
	if status == perdure.StatusCancelled {
		if undoes, err := pattern.Undoes(ctx); err != nil || !undoes {
			return err
		}
	}
	return x.rollback.Run(ctx)
}

// undoCompleted undoes a machine that has completed, because an operator has asked for it.
func (x *execution) undoCompleted(ctx context.Context) error {
	if err := x.rollback.Run(ctx); err != nil {
		return err
	}
	if left := x.rollback.Failed(); left != nil {
		return perdure.Fail(ctx, left)
	}
	return pattern.End(ctx, perdure.StatusCompensated, nil, nil)
}

// done puts a step on the undo stack. The output may come later. It returns the place for it.
func (p *path) done(s *step, key string, in, out json.RawMessage) *json.RawMessage {
	if s.undo == nil {
		return &out
	}
	x := p.x
	u := pattern.Undo{
		Name: s.id, Key: key, Retry: s.undoRetry, Timeout: s.undoTimeout,
		Call: func(ctx context.Context, _ pattern.Sources) (json.RawMessage, error) {
			c := &call{x: x, output: out, failure: x.failure}
			return nil, s.undo(context.WithValue(ctx, callKey{}, c), in)
		},
	}
	if u.Retry == nil {
		u.Retry = cmp.Or(s.retry, x.retry)
	}
	if p.above != nil {
		u.Of = p.ctx
	}
	x.rollback.Done(u)
	return &out
}
