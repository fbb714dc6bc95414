package play

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// Deeds are the input of a declared flow: how each of its steps goes.
type Deeds struct {
	Instance string
	Deeds    []program.Deed
}

var brisk = perdure.Retry{Attempts: 4, First: time.Millisecond, Factor: 1}

const attemptTime = 2 * time.Second

// do is the function of the i-th step of a flow.
func (e *Env) do(i int) func(context.Context, Deeds) (int64, error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		d := in.Deeds[i]
		if d.Bad {
			return 0, perdure.Permanent(ErrMeant)
		}
		n, err := e.call(ctx, program.Label(in.Instance, i, 0, "do"), "", 0)
		if err != nil {
			return 0, err
		}
		if tries, _, err := perdure.Attempt(ctx); err != nil || tries <= d.Fails {
			if d.Odd == "hang" {
				d.Odd = "error"
			}
			return 0, goWrong(ctx, d.Odd)
		}
		return n, nil
	}
}

// then is what undoes, confirms or cancels the i-th step.
func (e *Env) then(i int, what string) func(context.Context, Deeds, int64) error {
	return func(ctx context.Context, in Deeds, n int64) error {
		if in.Deeds[i].UndoBad && what == "undo" {
			return perdure.Permanent(ErrMeant)
		}
		if n == 0 && what == "cancel" {
			return nil // it is not known to have tried
		}
		_, err := e.call(ctx, program.Label(in.Instance, i, 0, what), program.Label(in.Instance, i, 0, "do"), n)
		return err
	}
}

// declare makes the declared flows.
func (e *Env) declare() {
	e.parts = e.declareParts()
	e.flows = map[string]perdure.Definition{}
	e.start = map[string]starter[Deeds]{}
	for _, f := range program.Flows {
		switch f.Pattern {
		case "graph":
			e.graph(f)
		case "saga":
			s := e.saga(f)
			e.flows[f.Name], e.start[f.Name] = s, startOf(s.Start, s.StartTx)
		case "tcc":
			t := e.tcc(f)
			e.flows[f.Name], e.start[f.Name] = t, startOf(t.Start, t.StartTx)
		case "sagas":
			e.sagas(f)
		case "tccs":
			e.tccs(f)
		}
	}
}

var keep = perdure.Retention{Period: -1}

func stepID(i int) string { return fmt.Sprint("step", i) }

// calm are callbacks, of which one panics: that changes nothing.
func calm() perdure.Callback {
	return perdure.Callback{Step: func(_ context.Context, step string) error {
		odd(step)
		return nil
	}}
}

func (e *Env) graph(f program.Flow) {
	g := dag.New[Deeds](f.Name, keep, brisk).Mode(dag.Async).PublishEvents().On(calm()).Pressure(perdure.AtMost(2))
	var steps []dag.Dependency
	for i, n := range f.Steps {
		var after []dag.Dependency
		for _, a := range n.After {
			after = append(after, steps[a])
		}
		if n.Way == "child" {
			s := dag.AddChild(g, stepID(i), e.brief, func(in Deeds) string { return program.Label(in.Instance, i, 0, "do") })
			s.After(after...)
			s.Undo(func(ctx context.Context, in Deeds, _ dag.ChildResult[string]) error {
				_, err := e.call(ctx, program.Label(in.Instance, i, 0, "undo"), "", 0)
				return err
			})
			steps = append(steps, s)
			continue
		}
		s := e.node(g, i, n)
		s.After(after...).Order(len(f.Steps) - i)
		steps = append(steps, s)
	}
	g.Output(steps[len(steps)-1])
	e.flows[f.Name], e.start[f.Name] = g, startOf(g.Start, g.StartTx)
}

func (e *Env) node(g *dag.Graph[Deeds], i int, n program.Node) *dag.Step[Deeds, int64] {
	add := dag.Add[Deeds, Deeds, int64]
	do := e.do(i)
	if n.Way == "branch" {
		add = dag.AddBranch[Deeds, Deeds, int64]
		do = func(ctx context.Context, in Deeds) (int64, error) {
			return perdure.Step(ctx, "inside", func(ctx context.Context) (int64, error) { return e.do(i)(ctx, in) })
		}
	}
	s := add(g, stepID(i), do).Event(perdure.StepEvent{Topic: "torture", Type: "done"})
	if n.Way != "branch" {
		s.Timeout(attemptTime).Retry(brisk)
	}
	if n.Undo {
		s.Undo(e.then(i, "undo"))
	}
	switch n.Way {
	case "variable":
		s.Variable(stepID(i))
	case "timer":
		s.WaitTimer("cool", 2*time.Millisecond)
	case "signal":
		s.WaitSignal("go", 0)
	case "when":
		s.When(perdure.If(func(context.Context, perdure.Known) (bool, error) { return false, nil }))
	}
	return s
}

func (e *Env) saga(f program.Flow) *saga.Saga[Deeds] {
	s := saga.New[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Policy(policies[len(f.Steps)%len(policies)]).Publish("torture").On(calm())
	var steps []*saga.Step[Deeds, int64]
	for i, n := range f.Steps {
		step := saga.Add(s, stepID(i), e.do(i)).Retry(brisk).Timeout(attemptTime)
		for _, a := range n.After {
			step.After(steps[a])
		}
		if n.Undo {
			step.Undo(e.then(i, "undo")).UndoRetry(brisk).UndoTimeout(attemptTime)
		}
		switch n.Way {
		case "variable":
			step.Variable(stepID(i))
		case "key":
			step.Key("pay")
		}
		steps = append(steps, step)
	}
	s.Output(steps[len(steps)-1])
	return s.OnUndoError(saga.OneOf(saga.ContinueHandler))
}

var policies = []saga.Policy{saga.StrictSequential, saga.GroupedParallel, saga.RetryWithBackoff}

func (e *Env) tcc(f program.Flow) *tcc.TCC[Deeds] {
	t := tcc.New[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Retry(brisk).AttemptTimeout(attemptTime).Publish("torture").On(calm())
	for i := range f.Steps {
		e.participant(t, i)
	}
	return t
}

func (e *Env) participant(t *tcc.TCC[Deeds], i int) {
	tcc.Add(t, stepID(i), e.do(i)).Confirm(e.then(i, "confirm")).Cancel(e.then(i, "cancel")).Retry(brisk).Order(i)
}

// sagas is a composition of sagas of one step each.
func (e *Env) sagas(f program.Flow) {
	c := saga.Compose[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Publish("torture")
	var members []*saga.Member
	for i, n := range f.Steps {
		s := saga.New[Deeds](fmt.Sprint(f.Name, i))
		saga.Add(s, "only", e.do(i)).Retry(brisk).Undo(e.then(i, "undo"))
		m := saga.Join(c, fmt.Sprint("m", i), s)
		for _, a := range n.After {
			m.After(members[a])
		}
		members = append(members, m)
	}
	e.flows[f.Name], e.start[f.Name] = c, startOf(c.Start, c.StartTx)
}

// tccs is a composition of TCCs of one participant each.
func (e *Env) tccs(f program.Flow) {
	c := tcc.Compose[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Publish("torture")
	var members []*tcc.Member
	for i, n := range f.Steps {
		t := tcc.New[Deeds](fmt.Sprint(f.Name, i)).Retry(brisk)
		e.participant(t, i)
		m := tcc.Include(c, fmt.Sprint("m", i), t, func(in Deeds) (Deeds, error) { return in, nil })
		for _, a := range n.After {
			m.After(members[a])
		}
		members = append(members, m)
	}
	e.flows[f.Name], e.start[f.Name] = c, startOf(c.Start, c.StartTx)
}

// Flow is the definition of a declared flow.
func (e *Env) Flow(name string) perdure.Definition {
	if i := slices.IndexFunc(program.Flows, func(f program.Flow) bool { return f.Name == name }); i < 0 {
		return e.code
	}
	return e.flows[name]
}

// Listeners hear how runs end, and tell the world. Each panics the first time, when
// it has told that.
func (e *Env) Listeners() []perdure.Listener {
	hear := func(ctx context.Context, end perdure.Ended) error {
		_, err := e.world.Call(ctx, Call{Label: "told/" + string(end.RunID), Run: string(end.RunID)})
		if err == nil && e.first("listener "+string(end.Status.String())) {
			odd("listener")
		}
		return err
	}
	return []perdure.Listener{perdure.OnSuccess(hear), perdure.OnFailure(hear), perdure.OnCancellation(hear), perdure.OnTimeout(hear)}
}
