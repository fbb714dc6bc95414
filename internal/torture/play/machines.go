package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/pattern"
)

// machines makes machines.
type machines struct{ *Env }

// machine returns a machine of which every step may lead to every other one: the deeds decide.
func (e machines) machine(f program.Declaration, version int,
	older ...*machine.Machine[Deeds]) *machine.Machine[Deeds] {
	m := machine.New[Deeds](f.Name, stepID(0), keep, brisk, perdure.Timeout(time.Hour)).
		Version(version, older...).Visits(program.Visits)
	var all []string
	for i := range f.Steps {
		all = append(all, stepID(i))
	}
	if f.Catches() {
		m.OnError(all[len(all)-1])
	}
	for i, n := range f.Steps {
		do := e.visit(i, n.Way == "route")
		if n.Way == "do" {
			do = machine.Do(e.plain(i))
		}
		s := machine.Add(m, all[i], do).To(all...).To(machine.End).Split(all...).
			Timeout(attemptTime).Slice(time.Millisecond).Form(noForm{})
		if n.Undo {
			s.Undo(e.unvisit(i)).UndoRetry(brisk).UndoTimeout(time.Minute)
		}
		switch n.Way {
		case "route", "do":
			s.Route(chosen(i)).Retry(brisk)
		case "caught":
			s.OnError(all[i+1])
		case "meant":
			s.OnError(all[i+1], ErrMeant)
		}
	}
	return m
}

// Received returns the input of the step of a machine: the output of a step, or those of branches.
func Received(raw json.RawMessage) (Deeds, error) {
	branches, err := pattern.Decode[map[string]json.RawMessage](raw)
	if _, is := branches["Instance"]; is || err != nil {
		d, e := pattern.Decode[Deeds](raw)
		return d, errors.Join(err, e)
	}
	var in Deeds
	var courses []program.Course
	for _, name := range slices.Sorted(maps.Keys(branches)) {
		d, err := Received(branches[name])
		if err != nil {
			return d, err
		}
		in, courses = d, append(courses, d.Course)
	}
	in.Course = program.Joined(courses...)
	return in, nil
}

// target returns the name of a target.
func target(i int) string {
	if i < 0 {
		return machine.End
	}
	return stepID(i)
}

// chosen returns the route of a step.
func chosen(i int) func(machine.Result) string {
	return func(r machine.Result) string {
		var d Deeds
		if r.Next != "" || r.Decode(&d) != nil {
			return r.Next
		}
		return target(d.Deeds[i].To(d.Course.Sum))
	}
}

// A visit is a call of a step of a machine.
type visit struct {
	*Env
	in     Deeds
	step   int
	routed bool // the step has a route
	label  string
	n      int // how many of its calls are over
}

// plain returns a step that only returns its output.
func (e machines) plain(i int) func(context.Context, json.RawMessage) (Deeds, error) {
	return func(ctx context.Context, raw json.RawMessage) (Deeds, error) {
		in, err := Received(raw)
		if err == nil {
			label := in.Course.Visit(in.Instance, i, in.Round, "do")
			in.Course.Number, err = e.call(ctx, label, "", 0)
		}
		in.Course = in.Course.Then(i, 0)
		return in, err
	}
}

// visit returns a step that does what the deeds say.
func (e machines) visit(i int, routed bool) func(context.Context, json.RawMessage) (machine.Action,
	error) {
	return func(ctx context.Context, raw json.RawMessage) (machine.Action, error) {
		in, err := Received(raw)
		if err != nil {
			return machine.Action{}, err
		}
		v := visit{Env: e.Env, in: in, step: i, routed: routed}
		v.label = in.Course.Visit(in.Instance, i, in.Round, "do")
		return v.once(ctx)
	}
}

// call is a call of the step.
func (v visit) once(ctx context.Context) (machine.Action, error) {
	d := v.in.Deeds[v.step]
	v.in.Course.Items = slices.Clone(v.in.Course.Items)
	n, err := perdure.Once(ctx, "kept", func() (int64, error) {
		return v.call(ctx, v.label, "", 0)
	})
	if err == nil {
		_, err = v.call(ctx, v.label, "", 0)
	}
	if err == nil {
		err = perdure.Emit(ctx, "called", v.step)
	}
	tries, _, e1 := perdure.Attempt(ctx)
	var e2 error
	v.n, _, e2 = machine.State[int](ctx)
	if err = errors.Join(err, e1, e2); err != nil {
		return machine.Action{}, err
	}
	if tries <= d.Fails {
		if d.Odd == "hang" {
			d.Odd = "error"
		}
		return machine.Action{}, goWrong(ctx, d.Odd)
	}
	if v.n < len(d.Calls) {
		return v.between(ctx, d.Calls[v.n], tries)
	}
	if err := v.take(ctx); err != nil {
		return machine.Action{}, err
	}
	v.in.Course = v.in.Course.Then(v.step, len(d.Calls))
	v.in.Course.Number = n
	return v.last(ctx, d)
}

// between does an action that is not the last one.
func (v visit) between(ctx context.Context, call string, tries int) (machine.Action, error) {
	label, name := program.Of(v.label, v.n)
	next := machine.Yield(v.n + 1)
	switch call {
	case "yield":
		_ = machine.ShouldYield(ctx)
	case "sleep":
		return machine.Sleep(3 * time.Millisecond).Keep(v.n + 1), nil
	case "late":
		if !machine.Late(ctx) {
			return machine.Suspend().Within(5*time.Millisecond, "").Keep(v.n), nil
		}
	case "wake":
		if all, err := perdure.NewSignal[int](name).All(ctx); err != nil || len(all) == 0 {
			return machine.Suspend().Keep(v.n), err
		}
	case "take":
		if has, err := items.Has(ctx); err != nil || !has && !machine.Late(ctx) {
			return machine.Suspend().Within(10*time.Millisecond, "").Keep(v.n), err
		}
	case "child":
		out, ended, err := machine.OutcomeOf[string](ctx, name)
		switch {
		case err != nil:
			return machine.Action{}, err
		case ended && (out.Status != perdure.StatusCompleted || out.Output != label):
			why := fmt.Sprintf("the child is %v: %s", out.Status, out.Output)
			return machine.Fail(why, nil), nil
		case !ended && v.step%2 == 0:
			child := machine.ChildNamed(v.brief.Name(), name, label)
			return machine.StartChild(child).Keep(v.n), nil
		case !ended:
			return machine.StartChild(machine.ChildOf(v.brief, name, label)).Keep(v.n), nil
		}
	case "ask":
		out, over := machine.DecisionOf(ctx, name)
		switch {
		case !over:
			return machine.WaitForApproval(approval.Ask{
				Key: name, Within: 5 * time.Millisecond,
			}).Keep(v.n), nil
		case out.Status != approval.Expired:
			return machine.Fail("nobody has decided, and it is "+string(out.Status), nil), nil
		}
	case "decide":
		out, over := machine.DecisionOf(ctx, name)
		if !over {
			return machine.WaitForApproval(approval.Ask{Key: name, Role: Boss}).Keep(v.n), nil
		}
		if !out.IsApproved() {
			return machine.Fail("it is "+string(out.Status), nil), nil
		}
	case "retry":
		if tries <= v.in.Deeds[v.step].Fails+1 {
			return machine.Retry(brisk, ErrMeant), nil
		}
	}
	return next, nil
}

var items = perdure.NewSignal[int](program.Item)

// take reads the signals that the visit takes with its last action. What it waited for is still
// there.
func (v *visit) take(ctx context.Context) error {
	for i, call := range v.in.Deeds[v.step].Calls {
		_, name := program.Of(v.label, i)
		if call != "wake" {
			continue
		}
		if all, err := perdure.NewSignal[int](name).All(ctx); err != nil || len(all) != 1 {
			return errors.Join(err, perdure.Permanent(fmt.Errorf("of signal %s there are %v", name,
				all)))
		}
	}
	if !slices.Contains(v.in.Deeds[v.step].Calls, "take") {
		return nil
	}
	all, err := items.All(ctx)
	v.in.Course.Items = append(v.in.Course.Items, all...)
	return err
}

// last does the last action.
func (v visit) last(ctx context.Context, d program.Deed) (machine.Action, error) {
	if f, is := machine.FailureOf(ctx); is && (f.Reason == "" || f.Step == "") {
		return machine.Fail("the failure before has no reason", f), nil
	}
	switch out := v.in; {
	case d.Last == "fail":
		return machine.Fail("it is meant to fail", out.Course), nil
	case d.Last == "error":
		return machine.Action{}, perdure.Permanent(ErrMeant)
	case d.Last == "late":
		return machine.Suspend().Within(3*time.Millisecond, target(v.step+1)), nil
	case d.Ends(out.Round, out.Course):
		out.Round, out.Course = 1, program.Course{Items: out.Course.Items}
		return machine.ContinueAsNew(out).SameVersion(), nil
	case d.Last == "split":
		var all []machine.Branch
		for i, at := range d.Branches {
			b := out
			if b.Course = out.Course.Branch(i); i == 0 {
				b.Course.Items = out.Course.Items // once
			}
			all = append(all, machine.BranchOf(program.BranchName(i), stepID(at), b))
		}
		return machine.Split(all...).To(target(d.To(0))), nil
	}
	a := machine.Complete(v.in).Emit("completed", v.step)
	if v.routed {
		return a, nil
	}
	return a.To(target(d.To(v.in.Course.Sum))), nil
}

// unvisit returns the compensation of a step.
func (e machines) unvisit(i int) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, raw json.RawMessage) error {
		in, err := Received(raw)
		if err != nil {
			return err
		}
		label := in.Course.Visit(in.Instance, i, in.Round, "undo")
		if in.Deeds[i].UndoBroken {
			if mended, err := e.world.Mended(ctx, label); err != nil {
				return err
			} else if !mended {
				return perdure.Permanent(ErrBroken)
			}
		}
		after, number := "", int64(0)
		if out, _, err := machine.OutputOf[Deeds](ctx); err == nil && out.Instance != "" {
			after, number = in.Course.Visit(in.Instance, i, in.Round, "do"), out.Course.Number
		}
		_, err = e.call(ctx, label, after, number)
		return err
	}
}
