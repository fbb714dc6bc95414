package play

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/saga"
)

func newSaga(f program.Declaration) *saga.Saga[Deeds] {
	s := saga.New[Deeds](f.Name, append(limited(f), perdure.Timeout(time.Hour))...).
		Publish("torture").On(calm()).Backpressure(atOnce(f))
	if n := len(f.Steps) % (len(policies) + 1); n < len(policies) {
		s.Policy(policies[n])
	}
	return s
}

// atOnce limits how many steps go on at once: by a number, or as the engine has it.
func atOnce(f program.Declaration) backpressure.Policy {
	if len(f.Steps)%2 == 0 {
		return backpressure.Default
	}
	return backpressure.Limit(2)
}

var policies = []saga.Policy{saga.StrictSequential, saga.GroupedParallel, saga.RetryWithBackoff}

func (e *Env) saga(f program.Declaration) *saga.Saga[Deeds] {
	s := newSaga(f)
	var steps []*saga.Step[Deeds, int64]
	for i, n := range f.Steps {
		do := e.do(i)
		if n.Way == "output" {
			do = e.knowing(i, steps[n.After[0]])
		}
		step := saga.Add(s, stepID(i), do).Retry(brisk).Timeout(attemptTime).Order(i).Critical().
			Event(pattern.StepEvent{Topic: "torture", Type: "done"})
		for _, a := range n.After {
			step.After(steps[a])
		}
		if n.Undo && n.Way == "with" {
			saga.UndoWith(step, e.undone)
		} else if n.Undo {
			// Some policies try once, while processes are stopped and servers are away.
			step.Undo(e.then(i, "undo")).UndoRetry(brisk).UndoTimeout(time.Minute)
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
	if f.Parks() {
		return s.ParkOnUndoError()
	}
	return s.OnUndoError(handlers[f.Name])
}

// handlers are those of sagas with a handler that does not simply continue.
var handlers = map[string]saga.Handler{
	"saga-robust": saga.OneOf(saga.ContinueHandler, saga.Robust), "saga-fast": saga.FailFast,
	"saga-insistent": saga.RetryThenFail,
	// a panic means to continue
	"saga-chain": func(u saga.UndoError) saga.Action { odd(u.Step); return saga.FailSaga },
	"saga-wide":  saga.ContinueHandler,
}

// An undoneStep is the input of a function that undoes the first step of a saga.
type undoneStep struct {
	In  Deeds `perdure:"input"`
	Got int64 `perdure:"step=step0"`
}

func (e *Env) undone(ctx context.Context, u undoneStep) (int64, error) {
	return u.Got, e.then(0, "undo")(ctx, u.In, u.Got)
}

// knowing returns the function of a step that reads the result of the one before it.
func (e *Env) knowing(i int, before *saga.Step[Deeds, int64]) func(context.Context, Deeds) (int64,
	error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		if _, there, err := before.Output(ctx); err != nil || !there {
			return 0, perdure.Permanent(fmt.Errorf("there is no result before: %w", err))
		}
		return e.do(i)(ctx, in)
	}
}

// An item is an element of the list that a step of a saga is done for.
type item struct {
	Instance string
	Number   int
}

func (it item) label(what string) string {
	return program.Label(it.Instance, 0, 0, fmt.Sprint(what, it.Number))
}

// each returns a saga whose first step is done for each item of a list.
func (e *Env) each(f program.Declaration) *saga.Saga[Deeds] {
	s := newSaga(f)
	items := func(in Deeds) []item { return []item{{in.Instance, 0}, {in.Instance, 1}} }
	each := saga.AddEach(s, stepID(0), items, func(ctx context.Context, it item) (int64, error) {
		return e.call(ctx, it.label("do"), "", 0)
	})
	each.Named(func(it item) string { return fmt.Sprint("of", it.Number) }).Retry(brisk)
	each.Undo(func(ctx context.Context, it item, n int64) error {
		_, err := e.call(ctx, it.label("undo"), it.label("do"), n)
		return err
	})
	sum := saga.Add(s, stepID(1), func(ctx context.Context, in Deeds) (int64, error) {
		if all, err := each.Outputs(ctx); err != nil || len(all) != 2 {
			return 0, perdure.Permanent(fmt.Errorf("there are %d results: %w", len(all), err))
		}
		return e.do(1)(ctx, in)
	}).After(each).Retry(brisk).Undo(e.then(1, "undo"))
	last := saga.Add(s, stepID(2), e.knowing(2, sum)).After(sum).Retry(brisk)
	return s.Output(last)
}

// sagas returns a composition of sagas of one step each.
func (e *Env) sagas(f program.Declaration) {
	c := saga.Compose[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Publish("torture").
		On(calm()).Policy(saga.GroupedParallel)
	var members []*saga.Member
	var first *saga.Step[Deeds, int64]
	for i, n := range f.Steps {
		do := e.do(i)
		if n.Way == "mapped" {
			do = e.mapped(i)
		}
		s := saga.New[Deeds](fmt.Sprint(f.Name, i))
		step := saga.Add(s, "only", do).Retry(brisk).Undo(e.then(i, "undo"))
		m := saga.Include(c, fmt.Sprint("m", i), s)
		for _, a := range n.After {
			m.After(members[a])
		}
		switch n.Way {
		case "shared":
			first = step.Variable("shared")
		case "mapped":
			m.Map("From", saga.FromStep(members[0], first)).
				Map("Shared", saga.FromVariable("shared"))
			m.Map("Who", saga.FromInput("Extra").Field("who")).
				With(map[string]string{"Static": "yes"})
		case "optional":
			m.Optional()
		case "when":
			m.When(pattern.If(func(context.Context, pattern.View) (bool, error) {
				return false, nil
			}))
		}
		members = append(members, m)
	}
	e.declared[f.Name], e.start[f.Name] = c, startOf(c.Start, c.StartAll)
}

// mapped returns the function of a step whose input comes from other members in part.
func (e *Env) mapped(i int) func(context.Context, Deeds) (int64, error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		if in.From == 0 || in.From != in.Shared || in.Who != in.Instance || in.Static != "yes" {
			return 0, perdure.Permanent(fmt.Errorf("its input is %+v", in))
		}
		return e.do(i)(ctx, in)
	}
}
