package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/pattern"
)

// The limits of programs. The judge knows them.
var (
	// Region and Single are semaphores around a part of the code.
	Region = limit.Semaphore{Name: "region", Slots: 2}
	Single = limit.Semaphore{Name: "single"}
	// Calls is the rate of some steps.
	Calls = limit.Control{
		Name: "calls", Rate: limit.Rate{Tokens: 200, Per: time.Second, Burst: 3},
	}
	// Narrows is the limit of the runs of the workflow narrow.
	Narrows = limit.Control{
		Name: "narrow", Concurrency: 2, PerKey: 1, Fair: true,
		Rate: limit.Rate{Tokens: 100, Per: time.Second, Burst: 3},
	}
	// Declared is the limit that some declarations share.
	Declared = limit.Control{Name: "declared", Concurrency: 3}
)

// limited returns the options of a declaration. Some are limited, and one of these is first.
func limited(f program.Declaration) []perdure.WorkflowOption {
	opts := []perdure.WorkflowOption{keep}
	if !f.IsLimited() {
		return opts
	}
	c := Declared
	if f.IsAgain() {
		c.Priority = 7
	}
	return append(opts, c)
}

// A Narrow is the input of a run that is limited.
type Narrow struct{ Label, Key string }

// defineNarrow returns a workflow whose runs are few at a time.
func (e *Env) defineNarrow() *perdure.Workflow[Narrow, int64] {
	c := Narrows
	c.Key = limit.By(func(in Narrow) string { return in.Key })
	c.Rank = limit.RankBy(func(in Narrow) int { return len(in.Label) % 3 })
	return perdure.Define("narrow", func(ctx context.Context, in Narrow) (int64, error) {
		n, err := perdure.Step(ctx, "do", e.effect(in.Label), brisk)
		if err == nil {
			err = perdure.Sleep(ctx, 2*time.Millisecond)
		}
		return n, err
	}, keep, c)
}

// The suffixes of the steps at the beginning and at the end of what a semaphore guards.
const (
	stepIn = ".enter"
	// StepOut is that of the last step.
	StepOut = ".leave"
)

// held waits for a slot or a token of a limit.
func (p *player) held(ctx context.Context, op *program.Op) error {
	var err error
	guarded := func(ctx context.Context) error { return region(ctx, p, op) }
	switch op.Way {
	case "do":
		s := Region
		s.Key, s.Priority = fmt.Sprint(op.ID%2), op.N
		err = s.Do(ctx, guarded)
	case "acquire":
		err = acquire(ctx, Single, guarded)
	case "within":
		s := Single
		s.Within = 5 * time.Millisecond
		err = acquire(ctx, s, guarded)
		if isCode(err, journal.CodeTimedOut) && pattern.EndedBy(ctx) == nil {
			err = nil
		}
	case "rate":
		err = rated(ctx, p, op)
	case "child":
		label := p.label(op, "do")
		in := Narrow{label, fmt.Sprint("key", op.ID%3)}
		var n int64
		n, err = p.narrow.Child(ctx, in, perdure.ID(op.ChildID(p.in.ID, p.in.Round)),
			perdure.Key(op.Name())).Await(ctx)
		if err == nil {
			p.did(label, n)
		}
	}
	if err == nil {
		p.fact(op, "ok")
	}
	return err
}

// acquire does something with a slot, and releases it twice.
func acquire(ctx context.Context, s limit.Semaphore, do func(context.Context) error) error {
	h, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx), h.Release(ctx), h.Release(ctx))
}

// region is the part of the code that a semaphore guards.
func region(ctx context.Context, p *player, op *program.Op) error {
	for _, what := range []string{stepIn, StepOut} {
		label := p.label(op, what[1:])
		n, err := perdure.Step(ctx, op.Name()+what, p.effect(label), brisk)
		if err == nil {
			p.did(label, n)
			err = perdure.Sleep(ctx, time.Duration(op.N)*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CallKey returns the key of the rate of an operation's steps.
func CallKey(name string) string { return fmt.Sprint("key", len(name)) }

// rated does steps at a rate. Of every other one the first attempt fails.
func rated(ctx context.Context, p *player, op *program.Op) error {
	c := Calls
	c.Key = limit.Is(CallKey(op.Name()))
	for i := range op.N {
		label := p.label(op, fmt.Sprint("do", i))
		n, err := perdure.Step(ctx, op.Name(), func(ctx context.Context) (int64, error) {
			n, err := p.call(ctx, label, "", 0)
			if tries, _, e := perdure.Attempt(ctx); e == nil && tries == 1 && i%2 == 1 {
				return 0, errors.Join(err, ErrMeant)
			}
			return n, err
		}, brisk, c, perdure.Key(fmt.Sprint("item-", i)))
		if err != nil {
			return err
		}
		p.did(label, n)
	}
	return nil
}
