package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

func isCode(err error, code journal.Code) bool { return errors.Is(err, &perdure.Error{Code: code}) }

func (p *player) nap(ctx context.Context, op *program.Op) error {
	d := time.Duration(1+op.ID%7) * time.Millisecond
	now, err := perdure.Now(ctx)
	if err != nil {
		return err
	}
	switch op.Way {
	case "sleep":
		err = perdure.Sleep(ctx, d)
	case "until":
		err = perdure.SleepUntil(ctx, now.Add(d))
	case "timer":
		_, err = perdure.Timer(ctx, op.Name(), d).Await(ctx)
	case "timerat":
		_, err = perdure.TimerUntil(ctx, op.Name(), now.Add(d)).Await(ctx)
	default:
		return p.cancelled(ctx, op)
	}
	if err != nil {
		return err
	}
	woke, err := perdure.Now(ctx)
	if err != nil {
		return err
	}
	if took := woke.Sub(now); took < d {
		p.fact(op, "early by %v", d-took)
		return nil
	}
	p.fact(op, "woke")
	return nil
}

// cancelled sets a timer that the code or the outside cancels.
func (p *player) cancelled(ctx context.Context, op *program.Op) error {
	f := perdure.Timer(ctx, op.Name(), 1000*time.Hour)
	if op.Way == "cancel" {
		if _, err := f.Cancel(ctx, "not wanted"); err != nil {
			return err
		}
	}
	_, err := f.Await(ctx)
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if !isCode(err, journal.CodeCancelled) {
		return fmt.Errorf("the timer gave %w", err)
	}
	p.fact(op, "cancelled")
	return nil
}

func (p *player) wait(ctx context.Context, op *program.Op) error {
	s := perdure.NewSignal[int](op.Signal(p.in.Round))
	var v int
	var err error
	switch op.Way {
	case "within":
		_, err = s.Wait(ctx, perdure.Within(5*time.Millisecond))
		return p.timedOut(ctx, op, err)
	case "before":
		now, e := perdure.Now(ctx)
		if e != nil {
			return e
		}
		_, err = s.Wait(ctx, perdure.Until(now.Add(5*time.Millisecond)))
		return p.timedOut(ctx, op, err)
	case "hurry":
		hurried, stop := context.WithTimeout(ctx, 5*time.Millisecond)
		defer stop()
		_, err = s.Wait(hurried)
		return p.timedOut(ctx, op, err)
	case "where":
		even := op.Payload(p.in.Round, 0)
		v, err = s.Wait(ctx, perdure.Where(func(v int) bool { return v == even }),
			perdure.Key("even"))
	case "where-odd":
		v, err = p.picky(ctx, op, s)
	case "future":
		v, err = s.Future(ctx).Await(ctx)
	case "inbox":
		v, err = p.take(ctx, s)
	case "latest":
		v, err = p.latest(ctx, s)
	default:
		v, err = s.Wait(ctx)
	}
	if err != nil {
		return err
	}
	p.fact(op, "got %d", v)
	return nil
}

// picky waits for a message by a condition that panics in each execution that did the step
// before it.
func (p *player) picky(ctx context.Context, op *program.Op, s perdure.Signal[int]) (int, error) {
	var did bool
	_, err := perdure.Step(ctx, op.Name()+".before", func(context.Context) (int, error) {
		did = true
		return 0, nil
	})
	if err != nil {
		return 0, err
	}
	even := op.Payload(p.in.Round, 0)
	return s.Wait(ctx, perdure.Where(func(v int) bool {
		if did {
			odd("where")
		}
		return v == even
	}))
}

func (p *player) timedOut(ctx context.Context, op *program.Op, err error) error {
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the wait gave %w", err)
	}
	p.fact(op, "timed out")
	return nil
}

// take looks at the inbox until a message is there, and takes it.
func (p *player) take(ctx context.Context, s perdure.Signal[int]) (int, error) {
	for nap := 3 * time.Millisecond; ; nap *= 2 {
		all, err := perdure.Inbox(ctx, s.Name())
		if err != nil {
			return 0, err
		}
		if len(all) == 0 {
			if err := perdure.Sleep(ctx, nap); err != nil {
				return 0, err
			}
			continue
		}
		if _, err := perdure.Take(ctx, all[0].Number); err != nil {
			return 0, err
		}
		return pattern.Decode[int](all[0].Data)
	}
}

// latest looks for a message before it waits for it.
func (p *player) latest(ctx context.Context, s perdure.Signal[int]) (int, error) {
	has, err := s.Has(ctx)
	if err != nil {
		return 0, err
	}
	last, found, err := s.Latest(ctx)
	if err != nil {
		return 0, err
	}
	all, err := s.All(ctx)
	if err != nil {
		return 0, err
	}
	v, err := s.Wait(ctx)
	if err == nil && (has && !found || found && (len(all) == 0 || last != v)) {
		err = fmt.Errorf("it was there: %v, as %d of %v, and %d came", has, last, all, v)
	}
	return v, err
}

// gather runs several branches that wait for messages of one signal.
func (p *player) gather(ctx context.Context, op *program.Op) error {
	s := perdure.NewSignal[int](op.Signal(p.in.Round))
	sum := 0
	var all []*perdure.Future[int]
	for i := range op.N + 1 {
		all = append(all, perdure.Go(ctx, op.Name()+"-"+strconv.Itoa(i),
			func(ctx context.Context) (int, error) {
				v, err := s.Wait(ctx)
				sum += v
				return v, err
			}))
	}
	for _, f := range all {
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	p.fact(op, "sum %d", sum)
	return nil
}

func (p *player) child(ctx context.Context, op *program.Op) error {
	in := p.in
	in.ID = op.ChildID(p.in.ID, p.in.Round)
	in.Program = &program.Program{Workflow: "code", End: "returns", Body: op.Bodies[0]}
	opts := []perdure.ChildOption{
		perdure.ID(in.ID), perdure.Key("child"), pattern.WithVariables(),
	}
	switch op.Way {
	case "detached":
		opts = append(opts, perdure.ChildDetached)
	case "ends":
		opts = append(opts, perdure.ChildEnds)
	}
	c := p.Env.code.Child(ctx, in, opts...)
	switch op.Way {
	case "await":
		out, err := c.Await(ctx)
		if err != nil {
			return err
		}
		return p.grown(op, out)
	case "outcome":
		out, err := c.Outcome(ctx)
		if err != nil {
			return err
		}
		if out.Err != nil {
			return fmt.Errorf("child %s ended %v: %w", c.RunID(), out.Status, out.Err)
		}
		return p.grown(op, out.Output)
	case "cancel":
		if err := c.Cancel(ctx, "not wanted"); err != nil {
			return err
		}
		if _, err := c.Outcome(ctx); err != nil {
			return err
		}
	}
	p.fact(op, "%s", op.Way)
	return nil
}

// grown records the result of a child.
func (p *player) grown(op *program.Op, out Output) error {
	slices.Sort(out.Facts)
	mine := ""
	for i, f := range out.Facts {
		if i > 0 {
			mine += "; "
		}
		mine += f
	}
	for label, n := range out.Numbers {
		p.did(label, n)
	}
	p.fact(op, "child {%s}", mine)
	return nil
}

func (p *player) park(ctx context.Context, op *program.Op) error {
	var d perdure.Decision
	var err error
	if name := op.Asks(p.in.Round); op.Way == "choices" {
		d, err = pattern.Park(ctx, name, "item", "what now?", "yes", "no")
	} else {
		d, err = perdure.Park(ctx, name, "what now?")
	}
	if err != nil {
		return err
	}
	var v int
	if err := json.Unmarshal(d.Data, &v); err != nil {
		return err
	}
	p.fact(op, "decided %d", v)
	return nil
}

// read reads values that are recorded when they are read.
func (p *player) read(ctx context.Context, op *program.Op) error {
	var err error
	switch op.Way {
	case "value", "value-odd":
		_, err = perdure.SideEffect(ctx, op.Name(), func() (int64, error) {
			// that records nothing
			if op.Way == "value-odd" && p.first(p.label(op, "value")) {
				odd("value")
			}
			return time.Now().UnixNano(), nil
		})
	case "now":
		_, err = perdure.Now(ctx)
	case "random":
		r, e := perdure.Random(ctx)
		if e != nil {
			return e
		}
		n := r.Int64()
		var got int64
		got, err = perdure.Step(ctx, op.Name(), func(context.Context) (int64, error) {
			return n, nil
		})
		if err == nil && got != n {
			p.fact(op, "another random number")
		}
	case "version":
		if _, err = perdure.Version(ctx, op.Name(), 2); err == nil {
			_, err = perdure.Version(ctx, op.Name()+".patch", 1)
		}
	case "info":
		info, e := perdure.InfoOf(ctx)
		if err = e; err == nil && info.WorkflowID == "" {
			p.fact(op, "a run without an ID")
		}
	case "ask":
		yes := pattern.If(func(context.Context, pattern.View) (bool, error) { return true, nil })
		odd := pattern.If(func(context.Context, pattern.View) (bool, error) {
			odd("condition")
			return true, nil
		})
		var holds bool
		if holds, err = pattern.Evaluate(ctx, yes, pattern.View{}); err == nil && !holds {
			p.fact(op, "the condition does not hold")
		}
		if _, e := pattern.Evaluate(ctx, odd, pattern.View{}); e == nil {
			p.fact(op, "a condition that panics holds")
		}
	case "errors":
		for _, e := range []error{
			pattern.FailedStep("a", ErrMeant), pattern.FailedUndo("a", ErrMeant),
			pattern.FailedPhase(perdure.PhaseTry, "a", ErrMeant),
		} {
			if !errors.Is(e, ErrMeant) {
				p.fact(op, "%T hides what it wraps", e)
			}
		}
	}
	if err == nil {
		p.fact(op, "ok")
	}
	return err
}
