package play

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/tcc"
)

// Deeds are the input of a declaration: how each of its steps goes.
type Deeds struct {
	Instance string
	Deeds    []program.Deed
	Round    int
	Extra    map[string]string
	// Inputs of a member of a composition.
	From, Shared int64
	Who, Static  string
	Course       program.Course // in a machine
}

// brisk has more attempts than a program lets fail: on a busy machine some pass their timeout, and
// servers die.
var brisk = perdure.Retry{Attempts: 12, First: time.Millisecond, Factor: 1}

const attemptTime = 2 * time.Second

// do returns the function of the i-th step of a declaration.
func (e *Env) do(i int) func(context.Context, Deeds) (int64, error) {
	return func(ctx context.Context, in Deeds) (int64, error) {
		d := in.Deeds[i]
		if d.Bad {
			return 0, perdure.Permanent(ErrMeant)
		}
		n, err := e.call(ctx, program.Label(in.Instance, i, in.Round, "do"), "", 0)
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

// then returns the function that undoes, confirms or cancels the i-th step.
func (e *Env) then(i int, what string) func(context.Context, Deeds, int64) error {
	return func(ctx context.Context, in Deeds, n int64) error {
		if in.Deeds[i].UndoBad && what == "undo" {
			return perdure.Permanent(ErrMeant)
		}
		if n == 0 && what == "cancel" {
			return nil // it is not known to have tried
		}
		label := program.Label(in.Instance, i, in.Round, what)
		if stands, err := e.stands(ctx, in.Deeds[i].Stuck(what), label); err != nil || stands {
			return cmp.Or(err, perdure.Permanent(ErrMeant))
		}
		if in.Deeds[i].UndoBroken && what == "undo" {
			if mended, err := e.world.Mended(ctx, label); err != nil {
				return err
			} else if !mended {
				return perdure.Permanent(ErrBroken)
			}
		}
		_, err := e.call(ctx, label,
			program.Label(in.Instance, i, in.Round, "do"), n)
		return err
	}
}

// stands reports whether a phase fails now, about which an operator decides so; empty for one that
// does not fail.
func (e *Env) stands(ctx context.Context, decides, label string) (bool, error) {
	if decides != "retry" {
		return decides != "", nil
	}
	mended, err := e.world.Mended(ctx, label)
	return !mended, err
}

// reluctant returns a compensation, confirm or cancel that panics in its first attempt, after it
// has done its work.
func reluctant(do func(context.Context, Deeds, int64) error) func(context.Context, Deeds,
	int64) error {
	return func(ctx context.Context, in Deeds, n int64) error {
		err := do(ctx, in, n)
		if tries, _, e := perdure.Attempt(ctx); e == nil && tries == 1 && err == nil {
			odd("compensation")
		}
		return err
	}
}

// declare defines a workflow for each declaration.
func (e *Env) declare() {
	e.parts = e.declareParts()
	e.declared = map[string]perdure.Definition{}
	e.start = map[string]starter[Deeds]{}
	for _, f := range program.Declarations {
		switch f.Pattern {
		case "graph":
			e.graph(f)
		case "saga":
			s := e.saga(f)
			e.declared[f.Name], e.start[f.Name] = s, startOf(s.Start, s.StartAll)
		case "tcc":
			t := e.tcc(f)
			e.declared[f.Name], e.start[f.Name] = t, startOf(t.Start, t.StartAll)
		case "each":
			s := e.each(f)
			e.declared[f.Name], e.start[f.Name] = s, startOf(s.Start, s.StartAll)
		case "machine":
			own := machines{e}
			m := own.machine(f, 2, own.machine(f, 1))
			e.declared[f.Name], e.start[f.Name] = m, startOf(m.Start, m.StartAll)
		case "sagas":
			e.sagas(f)
		case "tccs":
			e.tccs(f)
		}
	}
}

var keep = perdure.Retention{Period: -1}

func stepID(i int) string { return fmt.Sprint("step", i) }

// calm returns callbacks, one of which panics: that changes nothing.
func calm() pattern.Callback {
	return pattern.Callback{Step: func(_ context.Context, step string) error {
		odd(step)
		return nil
	}}
}

func (e *Env) tcc(f program.Declaration) *tcc.TCC[Deeds] {
	t := tcc.New[Deeds](f.Name, append(limited(f), perdure.Timeout(time.Hour))...).Retry(brisk).
		AttemptTimeout(attemptTime).Publish("torture").On(calm())
	if f.Parks() {
		t.Park()
	}
	for i, n := range f.Steps {
		e.participant(t, i, n.Way)
	}
	return t
}

func (e *Env) participant(t *tcc.TCC[Deeds], i int, way string) {
	do := e.do(i)
	if way == "money" {
		do = e.hold(i)
	}
	p := tcc.Add(t, stepID(i), do).Retry(brisk).Order(i)
	switch way {
	case "with":
		tcc.ConfirmWith(p, e.tried("confirm"))
		tcc.CancelWith(p, e.tried("cancel")).Timeout(attemptTime, perdure.PhaseTry).
			Event(pattern.StepEvent{Topic: "torture", Type: "tried"})
		return
	case "optional":
		p.Optional()
	case "money":
		p.Confirm(e.settle(i, "confirm")).Cancel(e.settle(i, "cancel"))
		return
	}
	p.Confirm(reluctant(e.then(i, "confirm"))).Cancel(reluctant(e.then(i, "cancel")))
}

// A tried is the input of a function that confirms or cancels the first participant.
type tried struct {
	In  Deeds `perdure:"input"`
	Got int64 `perdure:"try=step0"`
}

func (e *Env) tried(what string) func(context.Context, tried) (int64, error) {
	return func(ctx context.Context, t tried) (int64, error) {
		return t.Got, e.then(0, what)(ctx, t.In, t.Got)
	}
}

// tccs returns a composition of TCCs of one participant each.
func (e *Env) tccs(f program.Declaration) {
	c := tcc.Compose[Deeds](f.Name, keep, perdure.Timeout(time.Hour)).Publish("torture").On(calm()).
		Backpressure(backpressure.Limit(2))
	var members []*tcc.Member
	for i, n := range f.Steps {
		t := tcc.New[Deeds](fmt.Sprint(f.Name, i)).Retry(brisk)
		if f.Parks() {
			t.Park()
		}
		e.participant(t, i, "")
		m := tcc.Include(c, fmt.Sprint("m", i), t, func(in Deeds) (Deeds, error) { return in, nil })
		if n.Way == "optional" {
			m.Optional()
		}
		for _, a := range n.After {
			m.After(members[a])
		}
		members = append(members, m)
	}
	e.declared[f.Name], e.start[f.Name] = c, startOf(c.Start, c.StartAll)
}

// Definition returns the workflow of the declaration with that name. Without such a declaration it
// is the workflow of code.
func (e *Env) Definition(name string) perdure.Definition {
	if i := slices.IndexFunc(program.Declarations, func(f program.Declaration) bool {
		return f.Name == name
	}); i < 0 {
		return e.code
	}
	return e.declared[name]
}

// Listeners returns listeners that report the ends of runs to the world. Each panics the first
// time, after it has reported.
func (e *Env) Listeners() []perdure.Listener {
	hear := func(ctx context.Context, end perdure.Ended) error {
		_, err := e.world.Call(ctx, Call{
			Label: "told/" + string(end.RunID), Run: string(end.RunID),
		})
		if err == nil && e.first("listener "+string(end.Status.String())) {
			odd("listener")
		}
		return err
	}
	return []perdure.Listener{
		{Statuses: []journal.Status{journal.Completed, journal.Confirmed}, Call: hear},
		{Statuses: []journal.Status{journal.Failed, journal.Compensated}, Call: hear},
		{Statuses: []journal.Status{journal.Cancelled, journal.Canceled}, Call: hear},
		{Statuses: []journal.Status{journal.TimedOut}, Call: hear},
	}
}
