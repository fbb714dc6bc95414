package play

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/pattern"
)

func (e *Env) graph(f program.Declaration) {
	g := dag.New[Deeds](f.Name, append(limited(f), brisk)...).Mode(dag.Async).PublishEvents().
		On(calm())
	if len(f.Steps) > 3 {
		g.Concurrency(2)
	} else {
		g.Backpressure(atOnce(f))
	}
	if f.IsAgain() {
		g.Again(again)
	}
	var steps []dag.Dependency
	for i, n := range f.Steps {
		var after []dag.Dependency
		for _, a := range n.After {
			after = append(after, steps[a])
		}
		if s := e.childNode(g, i, n, after); s != nil {
			steps = append(steps, s)
			continue
		}
		s := e.node(g, i, n, after)
		s.After(after...).Order(len(f.Steps) - i)
		steps = append(steps, s)
	}
	g.Output(steps[len(steps)-1])
	e.declared[f.Name], e.start[f.Name] = g, startOf(g.Start, g.StartAll)
}

// again makes a graph continue as new once.
func again(k pattern.View) (Deeds, bool) {
	in, err := pattern.Decode[Deeds](k.Input)
	in.Round++
	return in, err == nil && in.Round == 1
}

// childNode adds a step that is a run of its own; nil for another one.
func (e *Env) childNode(g *dag.Graph[Deeds], i int, n program.Node,
	after []dag.Dependency) dag.Dependency {
	label := func(in Deeds) string { return program.Label(in.Instance, i, in.Round, "do") }
	switch n.Way {
	case "child":
		s := dag.AddChild(g, stepID(i), e.brief, label)
		s.After(after...)
		s.Undo(func(ctx context.Context, in Deeds, _ dag.ChildResult[string]) error {
			_, err := e.call(ctx, program.Label(in.Instance, i, in.Round, "undo"), "", 0)
			return err
		})
		return s
	case "detached":
		s := dag.AddChild(g, stepID(i), e.brief, label).Detached()
		s.After(after...)
		return s
	case "failing":
		s := dag.AddChild(g, stepID(i), e.failing, label).AnyOutcome()
		s.After(after...)
		return s
	}
	return nil
}

func (e *Env) node(g *dag.Graph[Deeds], i int, n program.Node,
	after []dag.Dependency) *dag.Step[Deeds, int64] {
	add := dag.Add[Deeds, Deeds, int64]
	do := e.do(i)
	switch n.Way {
	case "branch":
		add = dag.AddBranch[Deeds, Deeds, int64]
		do = func(ctx context.Context, in Deeds) (int64, error) {
			return perdure.Step(ctx, "inside", func(ctx context.Context) (int64, error) {
				return e.do(i)(ctx, in)
			})
		}
	case "output":
		do = e.having(i, n.After[0], after[0].(*dag.Step[Deeds, int64]))
	}
	s := add(g, stepID(i), do).Event(pattern.StepEvent{Topic: "torture", Type: "done"})
	if n.Way != "branch" {
		s.Timeout(attemptTime).Retry(brisk)
	}
	if n.Undo && n.Way == "with" {
		dag.UndoWith(s, func(ctx context.Context, u undoing) (int64, error) {
			return u.Got, e.then(i, "undo")(ctx, u.In, u.Got)
		})
	} else if n.Undo {
		s.Undo(reluctant(e.then(i, "undo")))
	}
	switch n.Way {
	case "variable":
		s.Variable(stepID(i))
	case "timer":
		s.WaitTimer("cool", 2*time.Millisecond)
	case "signal":
		s.WaitSignal("go", 0)
	case "any":
		s.WaitAny(0, dag.Signal("any"), dag.Timer("soon", 2*time.Millisecond))
	case "all":
		s.WaitAll(0, dag.Signal("all"), dag.Timer("calm", time.Millisecond))
	case "async":
		s.Async()
	case "when":
		s.When(pattern.If(func(context.Context, pattern.View) (bool, error) { return false, nil }))
	}
	return s
}

// An undoing is the input of a function that undoes a step of a graph.
type undoing struct {
	In  Deeds `perdure:"input"`
	Got int64 `perdure:"step=result"`
}

// having returns the function of a step that reads the result of the one before it.
func (e *Env) having(i, dep int, before *dag.Step[Deeds, int64]) func(context.Context,
	Deeds) (int64, error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		n, there, err := before.Output(ctx)
		if err != nil {
			return 0, err
		}
		same, found, err := pattern.Output[int64](ctx, stepID(dep))
		if err != nil {
			return 0, err
		}
		if !there || !found || n != same {
			return 0, perdure.Permanent(fmt.Errorf("the result before is %d (%v), and %d (%v)", n,
				there, same, found))
		}
		if in.Deeds[i].Bad {
			return e.do(i)(ctx, in)
		}
		if _, err := e.call(ctx, program.Label(in.Instance, i, in.Round, "do"),
			program.Label(in.Instance, dep, in.Round, "do"), n); err != nil {
			return 0, err
		}
		return e.do(i)(ctx, in)
	}
}
