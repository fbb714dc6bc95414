package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// A shape is a machine for a test. A step adds 1 to its input in each call, so the output shows the
// way that a run has gone.
type shape struct {
	steps   []state
	onError string
	visits  int
}

// A state is a step of a shape.
type state struct {
	id       string
	calls    []string // the actions before the last one of a visit
	last     string   // done, fail, error, or split
	to       []string // the input chooses one of them
	branches []string // of a split: the steps that its branches begin with
	undo     bool
	stuck    int // attempts of its compensation that fail
	onError  string
}

// next returns the target that an output chooses; empty for the end.
func (s state) next(out int) string {
	if len(s.to) == 0 {
		return ""
	}
	return s.to[out%len(s.to)]
}

// A tally is the list of the effects of a run of a shape, by the paths of steps.
type tally struct {
	done   []string // each effect once
	undone []string // in order
	failed []string // steps that have failed for good; the first of a split may be any of it
}

// expect is the model: what a run of the shape comes to. It returns the output or the failure.
func (s shape) expect(at, prefix string, in int, did *tally) (out int, failed string) {
	byID, visits := map[string]state{}, map[string]int{}
	for _, t := range s.steps {
		byID[t.id] = t
	}
	for {
		t := byID[at]
		visits[at]++
		path := prefix + at
		if n := visits[at]; n > 1 {
			path += "[" + strconv.Itoa(n) + "]"
		}
		if visits[at] > s.visits {
			failed = path + " limit"
		} else {
			did.done = append(did.done, path)
			out, failed = in+1+len(t.calls), ""
			if t.last == "split" {
				out = 0
				if t.undo {
					did.undone = append(did.undone, path)
				}
				for i, b := range t.branches {
					within := fmt.Sprintf("%ssplit.%s[b%d]/", prefix, at, i)
					part, why := s.expect(b, within, in+i, did)
					if out += part; failed == "" {
						failed = why
					}
				}
			} else if t.last != "done" {
				failed = path + " " + t.last
			} else if t.undo {
				did.undone = append(did.undone, path)
			}
		}
		if failed != "" {
			did.failed = append(did.failed, strings.Fields(failed)[0])
		}
		switch {
		case failed == "" && t.next(out) == "":
			return out, ""
		case failed == "":
			at, in = t.next(out), out
		case strings.HasPrefix(failed, path+" ") && t.onError != "" && t.onError != at &&
			visits[t.onError] <= s.visits:
			at = t.onError
		default:
			return 0, failed
		}
	}
}

// A world is the outside of the runs of a shape.
type world struct {
	shape
	mu     sync.Mutex
	done   map[string]int // calls by path
	undone []string
	stuck  map[string]int
	stalls int // rollbacks that stood still and went on
}

var errStuck = errors.New("stuck")

func newWorld(s shape) *world { return &world{shape: s, done: map[string]int{}} }

// reset forgets what was done.
func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.undone, w.stuck = map[string]int{}, nil, map[string]int{}
}

// path returns the path that an idempotency key names.
func path(ctx context.Context) string {
	_, path, _ := strings.Cut(perdure.IdempotencyKey(ctx), "/")
	return path
}

var (
	wake = perdure.NewSignal[int]("wake")
	kid  = perdure.Define("kid", func(ctx context.Context, n int) (int, error) {
		return perdure.Step(ctx, "twice", func(context.Context) (int, error) { return 2 * n, nil })
	})
)

func (w *world) machine(name string, opts ...perdure.WorkflowOption) *machine.Machine[int] {
	m := machine.New[int](name, w.steps[0].id, opts...).Visits(w.visits)
	for _, t := range w.steps {
		s := machine.Add(m, t.id, w.call(t)).To(t.to...).Split(t.branches...)
		s.Retry(perdure.Retry{Attempts: 2})
		if t.undo {
			s.Undo(w.undo(t)).UndoRetry(perdure.NoRetry)
		}
		if t.onError != "" {
			s.OnError(t.onError)
		}
	}
	if w.onError != "" {
		m.OnError(w.onError)
	}
	return m
}

// call makes the function of a step. A visit counts its calls in its state.
func (w *world) call(t state) func(context.Context, json.RawMessage) (machine.Action, error) {
	return func(ctx context.Context, raw json.RawMessage) (machine.Action, error) {
		in, err := sum(raw)
		if err != nil {
			return machine.Action{}, err
		}
		w.mu.Lock()
		w.done[path(ctx)]++
		w.mu.Unlock()
		n, _, err := machine.State[int](ctx)
		if err != nil {
			return machine.Action{}, err
		}
		if n < len(t.calls) {
			return w.action(ctx, t.calls[n], n+1, in)
		}
		return t.end(in + 1 + n)
	}
}

// sum returns a number, or the sum of the numbers that the branches of a split have returned.
func sum(raw json.RawMessage) (n int, err error) {
	if json.Unmarshal(raw, &n) == nil {
		return n, nil
	}
	var all map[string]json.RawMessage
	err = json.Unmarshal(raw, &all)
	for _, one := range all {
		v, e := sum(one)
		n, err = n+v, errors.Join(err, e)
	}
	return n, err
}

// action returns an action after which the step is called again.
func (w *world) action(ctx context.Context, name string, n, in int) (machine.Action, error) {
	attempt, _, err := perdure.Attempt(ctx)
	if err != nil {
		return machine.Action{}, err
	}
	switch name {
	case "yield":
		return machine.Yield(n), nil
	case "sleep":
		return machine.Sleep(time.Minute).Keep(n), nil
	case "late":
		return machine.Suspend().Within(time.Minute, "").Keep(n), nil
	case "signal":
		return machine.Suspend().Keep(n), nil
	case "child":
		out, ended, err := machine.OutcomeOf[int](ctx, "kid")
		if err != nil || ended && out.Output%2 == 1 {
			return machine.Fail("the child is wrong", nil), err
		}
		return machine.StartChild(machine.ChildOf(kid, "kid", in)).Keep(n), nil
	case "retry":
		if attempt < 3 {
			return machine.Retry(perdure.Retry{Attempts: 3}, errStuck), nil
		}
		return machine.Yield(n), nil
	case "error":
		if attempt < 2 {
			return machine.Action{}, errStuck
		}
		return machine.Yield(n), nil
	}
	return machine.Action{}, errors.New("no action " + name)
}

// end returns the last action of a visit.
func (s state) end(out int) (machine.Action, error) {
	switch s.last {
	case "fail":
		return machine.Fail("it fails", out), nil
	case "error":
		return machine.Action{}, perdure.Permanent(errStuck)
	case "split":
		var all []machine.Branch
		for i, b := range s.branches {
			all = append(all, machine.BranchOf("b"+strconv.Itoa(i), b, out-1-len(s.calls)+i))
		}
		a := machine.Split(all...)
		if len(s.to) > 1 {
			a = a.To(s.to[0])
		}
		return a, nil
	}
	a := machine.Complete(out)
	if len(s.to) > 1 {
		a = a.To(s.next(out))
	}
	return a, nil
}

func (w *world) undo(t state) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		of := strings.Replace(path(ctx), "undo:", "", 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.stuck[of] < t.stuck {
			w.stuck[of]++
			return errStuck
		}
		if !slices.Contains(w.undone, of) {
			w.undone = append(w.undone, of)
		}
		return nil
	}
}

// An outcome is the end of a run, with its effects.
type outcome struct {
	Status perdure.RunStatus
	Output string
	Err    string
	Done   []string // sorted
	Undone []string // sorted
}

// failsBy reports whether an error names one of the steps.
func failsBy(err string, steps []string) bool {
	return slices.ContainsFunc(steps, func(s string) bool {
		return strings.HasPrefix(err, "step "+s+" failed")
	})
}

// play starts a run and lets it come to its end.
func (w *world) play(env *perduretest.Env, m *machine.Machine[int], in int) outcome {
	w.reset()
	return w.finish(env, perduretest.Start(env, m.Workflow, in, perdure.ID("x")))
}

// finish lets a run come to its end. It may wait for a signal, and its rollback may stall.
func (w *world) finish(env *perduretest.Env, run *perduretest.Run[json.RawMessage]) outcome {
	for i := 0; !run.Report().Status.IsTerminal() && i < 100; i++ {
		if run.Report().Status == journal.CompensationFailed {
			w.stalls++
			act(env, "x", admin.Order{Action: journal.ActionResume})
		}
		env.Sleep(2 * time.Minute)
		perduretest.Send(env, wake, "x", i, perdure.SendKey("k"+strconv.Itoa(i)))
	}
	out, err := run.Result()
	return w.judge(run.Report().Status, out, err)
}

func (w *world) judge(status perdure.RunStatus, out json.RawMessage, err error) outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := outcome{
		Status: status, Done: slices.Sorted(maps.Keys(w.done)),
		Undone: slices.Sorted(slices.Values(w.undone)),
	}
	if err != nil {
		o.Err = err.Error()
	} else if n, err := sum(out); err == nil {
		o.Output = strconv.Itoa(n)
	}
	return o
}

// want is the outcome that the model says, for an error of the run.
func (w *world) want(in int, err string) outcome {
	var did tally
	out, failed := w.expect(w.steps[0].id, "", in, &did)
	slices.Sort(did.done)
	did.done = slices.Compact(did.done)
	o := outcome{Status: perdure.StatusCompleted, Done: did.done}
	if failed == "" {
		o.Output = strconv.Itoa(out)
		return o
	}
	if o.Status = perdure.StatusFailed; len(did.undone) > 0 {
		o.Status = perdure.StatusCompensated
		slices.Sort(did.undone)
		o.Undone = did.undone
	}
	if o.Err = "one of " + strings.Join(did.failed, ", "); failsBy(err, did.failed) {
		o.Err = err
	}
	return o
}

// differ returns how an outcome differs from the one that the model says; empty if it does not.
func (w *world) differ(got outcome, in int) string {
	want := w.want(in, got.Err)
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return ""
	}
	return fmt.Sprintf("\n got %+v\nwant %+v\n of %+v", got, want, w.shape)
}
