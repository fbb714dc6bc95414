package play

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// A PartInput is the input of a saga or a TCC that is part of a program's code.
type PartInput struct {
	Instance string
	ID       int
	Round    int
	Part     string
	Bad      bool // its second step fails for good
	// what an operator decides about the phase that fails for good; empty for none
	Stuck string
}

func (in PartInput) label(what string) string {
	return program.Label(in.Instance, in.ID, in.Round, in.Part+what)
}

// parts are the sagas and TCCs that are part of programs' code.
type parts struct {
	plain, keyed *saga.Saga[PartInput]
	tcc, parked  *tcc.TCC[PartInput]
}

func (e *Env) partStep(what string, mayFail bool) func(context.Context, PartInput) (int64, error) {
	return func(ctx context.Context, in PartInput) (int64, error) {
		if mayFail && in.Bad {
			return 0, perdure.Permanent(ErrMeant)
		}
		return e.call(ctx, in.label(what), "", 0)
	}
}

// back undoes, confirms or cancels a step.
func (e *Env) back(what string) func(context.Context, PartInput, int64) error {
	return func(ctx context.Context, in PartInput, n int64) error {
		if n == 0 {
			return nil // it has not tried
		}
		if what == "second-confirm" || what == "first-cancel" && in.Bad {
			if stands, err := e.stands(ctx, in.Stuck, in.label(what)); err != nil || stands {
				return cmp.Or(err, perdure.Permanent(ErrMeant))
			}
		}
		_, err := e.call(ctx, in.label(what), in.label(first(what)), n)
		return err
	}
}

// first returns the name of the step that first-undo, for example, is about.
func first(what string) string {
	for i := range what {
		if what[i] == '-' {
			return what[:i]
		}
	}
	return what
}

func (e *Env) declareParts() *parts {
	one := func(name, key string) *saga.Saga[PartInput] {
		s := saga.New[PartInput](name)
		a := saga.Add(s, "first", e.partStep("first", false)).Undo(e.back("first-undo")).
			Retry(brisk)
		if key != "" {
			a = a.Key(key)
		}
		saga.Add(s, "second", e.partStep("second", true)).Undo(e.back("second-undo")).After(a).
			Retry(brisk)
		return s
	}
	two := func(name string) *tcc.TCC[PartInput] {
		t := tcc.New[PartInput](name).Retry(brisk)
		tcc.Add(t, "first", e.partStep("first", false)).Confirm(e.back("first-confirm")).
			Cancel(e.back("first-cancel"))
		tcc.Add(t, "second", e.partStep("second", true)).Confirm(e.back("second-confirm")).
			Cancel(e.back("second-cancel"))
		return t
	}
	return &parts{
		plain: one("part", ""), keyed: one("part-keyed", "pay"), tcc: two("part-tcc"),
		parked: two("part-tcc-park").Park(),
	}
}

// part runs sagas and TCCs as parts of the code.
func (p *player) part(ctx context.Context, op *program.Op) error {
	in := PartInput{
		Instance: p.in.Instance, ID: op.ID, Round: p.in.Round, Part: "a",
		Bad: strings.Contains(op.Way, "-bad"),
	}
	other := in
	other.Part = "b"
	within, err := perdure.Scope(ctx, op.Name())
	if err != nil {
		return err
	}
	switch op.Way {
	case "saga":
		err = p.sequence(within, in, other)
	case "saga-keyed":
		err = p.beside(within, in, other)
	case "saga-bad", "saga-undone":
		err = p.undone(within, op, in)
	default:
		err = p.tccPart(within, op, in)
	}
	if err == nil {
		p.fact(op, "%s", op.Way)
	}
	return err
}

// sequence runs a saga after another one, in a context of the author's own that does not end.
func (p *player) sequence(ctx context.Context, all ...PartInput) error {
	bounded, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return pattern.Enclose(bounded, "bounded", func(ctx context.Context) error {
		for _, in := range all {
			part, err := p.parts.plain.Inline(ctx, "pay", in)
			if err == nil {
				err = part.Err()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// beside runs a saga with an idempotency key in each of two branches.
func (p *player) beside(ctx context.Context, all ...PartInput) error {
	var branches []*perdure.Future[int]
	for _, in := range all {
		branches = append(branches, perdure.Go(ctx, "branch-"+in.Part,
			func(ctx context.Context) (int, error) {
				part, err := p.parts.keyed.Inline(ctx, "pay", in)
				if err == nil {
					err = part.Err()
				}
				return 0, err
			}))
	}
	for _, f := range branches {
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) undone(ctx context.Context, op *program.Op, in PartInput) error {
	part, err := p.parts.plain.Inline(ctx, "pay", in)
	if err != nil {
		return err
	}
	want := 0
	if in.Bad {
		want = 1
	}
	if (part.Err() != nil) != in.Bad || len(part.FailedSteps()) != want {
		p.fact(op, "failed: %v, %v", part.FailedSteps(), part.Err())
	}
	if err := part.Undo(ctx); err != nil {
		return err
	}
	if got := len(part.CompensatedSteps()); got != 2-want {
		p.fact(op, "%d steps are undone", got)
	}
	return nil
}

func (p *player) tccPart(ctx context.Context, op *program.Op, in PartInput) error {
	t := p.parts.tcc
	if strings.HasSuffix(op.Way, "-park") {
		t, in.Stuck = p.parts.parked, op.Decision()
	}
	end, err := t.Inline(ctx, in, perdure.Key(fmt.Sprint(op.ID)))
	if err != nil {
		return err
	}
	want := journal.Confirmed
	switch {
	case in.Bad && in.Stuck == "skip":
		want = journal.Failed
	case in.Bad || in.Stuck == "skip":
		want = journal.Canceled
	}
	if end.Status != want {
		p.fact(op, "the TCC is %v: %v", end.Status, end.Err)
	}
	return nil
}
