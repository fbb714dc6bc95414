package play

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/steplog"
)

// big is above the spill threshold.
var big = strings.Repeat("x", 150_000)

var aside = perdure.NewSignal[int]("aside")

func (p *player) step(ctx context.Context, op *program.Op) error {
	label := p.label(op, "do")
	after, number := p.after()
	var opts []perdure.StepOption
	switch op.Way {
	case "odd":
		opts = append(opts, brisk)
		if op.Odd == "hang" {
			opts = append(opts, perdure.Timeout(30*time.Millisecond))
		}
	case "late":
		opts = append(opts, perdure.Timeout(time.Minute))
	case "announced":
		opts = append(opts, pattern.Announced)
	case "at-most-once":
		opts = append(opts, effect.AtMostOnce)
	case "says":
		opts = append(opts, brisk, steplog.Keep{Attempt: LogLimit})
	case "undo":
		opts = append(opts, effect.Undo(func(ctx context.Context, n int64) error {
			_, err := p.call(ctx, p.label(op, "do-undo"), label, n)
			return err
		}, brisk))
	case "unencodable":
		_, err := perdure.Step(ctx, op.Name(), func(context.Context) (Mute, error) {
			return Mute{op.ID}, nil
		})
		return p.caught(ctx, op, err)
	}
	name := op.Name()
	if op.Way == "around" {
		name += hemmed
	}
	n, err := perdure.Step(ctx, name, func(ctx context.Context) (int64, error) {
		n, err := p.call(ctx, label, after, number)
		if err != nil {
			return 0, err
		}
		return n, p.within(ctx, op, label, n)
	}, opts...)
	done := "done"
	if op.Way == "at-most-once" {
		done = "tried"
	}
	switch {
	case op.Way == "caught":
		return p.caught(ctx, op, err)
	case errors.Is(err, effect.ErrInterrupted):
		p.fact(op, "%s", done)
		return nil
	case err != nil:
		return err
	}
	p.did(label, n)
	p.fact(op, "%s", done)
	return nil
}

// within does the special part of a step's body.
func (p *player) within(ctx context.Context, op *program.Op, label string, n int64) error {
	switch op.Way {
	case "odd":
		if tries, _, err := perdure.Attempt(ctx); err != nil || tries <= op.N {
			return errors.Join(err, goWrong(ctx, op.Odd))
		}
	case "caught":
		return perdure.Permanent(fmt.Errorf("for good: %w", codedError{op.ID}))
	case "parking":
		if mended, err := p.world.Mended(ctx, label); err != nil || !mended {
			return errors.Join(err, perdure.Parking(ErrBroken))
		}
	case "big":
		return errors.Join(perdure.SetVariable(ctx, op.Name(), big), perdure.Emit(ctx, "big", big))
	case "once":
		return once(ctx, op, n)
	case "says":
		return say(ctx, p, op)
	}
	return nil
}

// once calls in the body of a step what only bodies may call.
func once(ctx context.Context, op *program.Op, n int64) error {
	kept, err := perdure.Once(ctx, "kept", func() (int64, error) {
		if tries, _, _ := perdure.Attempt(ctx); tries == 1 {
			odd("checkpoint")
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	if kept > n {
		return perdure.Permanent(fmt.Errorf("the checkpoint is %d, and the call was %d", kept, n))
	}
	if err := perdure.Progress(ctx, "half"); err != nil {
		return err
	}
	if _, err := report.Of(ctx); err != nil {
		return err
	}
	if _, err := aside.Has(ctx); err != nil {
		return err
	}
	_, err = pattern.AddKey(ctx, op.Name())
	return err
}

// caught records an expected failure, and goes on.
func (p *player) caught(ctx context.Context, op *program.Op, err error) error {
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	if err == nil {
		p.fact(op, "succeeded")
		return nil
	}
	var coded codedError
	if op.Way == "caught" && (!errors.As(err, &coded) || coded.Number != op.ID) {
		p.fact(op, "failed with another error: %v", err)
		return nil
	}
	_ = report.Stack(err)
	p.fact(op, "failed")
	return nil
}

// loop runs steps of one name, which differ by a key or by their occurrence.
func (p *player) loop(ctx context.Context, op *program.Op) error {
	if op.Way == "each" || op.Way == "batched" {
		return p.each(ctx, op)
	}
	var all []*perdure.Future[int64]
	for i := range op.N {
		label := p.label(op, fmt.Sprint("do", i))
		opts := []perdure.StepOption{
			perdure.Retry{Attempts: brisk.Attempts, First: time.Millisecond, Factor: 1, On: []error{
				ErrMeant,
			}},
		}
		if op.Way != "counted" {
			opts = append(opts, perdure.Key(fmt.Sprint("item-", i)))
		}
		if op.Way == "spread" {
			all = append(all, perdure.Async(ctx, op.Name(), p.effect(label), opts...))
			continue
		}
		n, err := perdure.Step(ctx, op.Name(), p.effect(label), opts...)
		if err != nil {
			return err
		}
		p.did(label, n)
	}
	for i, f := range all {
		n, err := f.Await(ctx)
		if err != nil {
			return err
		}
		p.did(p.label(op, fmt.Sprint("do", i)), n)
	}
	p.fact(op, "%d", op.N)
	return nil
}

// each does the same for the items of a list; in batches there is one more, which fails.
func (p *player) each(ctx context.Context, op *program.Op) error {
	how := backpressure.Each[string]{Policy: backpressure.Limit(2)}
	var items []string
	for i := range op.N {
		items = append(items, fmt.Sprint("do", i))
	}
	if op.Way == "batched" {
		items = append([]string{"bad"}, items...)
		how = backpressure.Each[string]{
			Policy: backpressure.Batched{Size: 2}, Failures: 1, Key: func(item string) string {
				return item
			},
		}
	}
	out, err := backpressure.ForEach(ctx, op.Name(), items, how,
		func(ctx context.Context, item string) (int64, error) {
			n, err := p.call(ctx, p.label(op, item), "", 0)
			if err == nil && item == "bad" {
				err = perdure.Permanent(codedError{op.ID})
			}
			return n, err
		}, brisk)
	if err != nil {
		return err
	}
	for i, n := range out.Values() {
		if items[i] != "bad" {
			p.did(p.label(op, items[i]), n)
		}
	}
	for _, i := range out.Failed() {
		var coded codedError
		if items[i] != "bad" || !errors.As(out[i].Err, &coded) || coded.Number != op.ID {
			p.fact(op, "%s failed: %v", items[i], out[i].Err)
		}
	}
	p.fact(op, "%d", op.N)
	return nil
}

func (p *player) async(ctx context.Context, op *program.Op) error {
	label := p.label(op, "do")
	f := perdure.Async(ctx, op.Name(), func(ctx context.Context) (int64, error) {
		n, err := p.call(ctx, label, "", 0)
		if err == nil && op.Way == "caught" {
			err = perdure.Permanent(codedError{op.ID})
		}
		return n, err
	})
	switch op.Way {
	case "cancel":
		if _, err := f.Cancel(ctx, "not wanted"); err != nil {
			return err
		}
		if _, err := f.Await(ctx); pattern.EndedBy(ctx) != nil {
			return err
		}
		p.fact(op, "over")
		return nil
	case "state":
		if status, n, err := f.State(); err == nil && status == report.StepIsDone {
			p.did(label, n)
		}
	}
	n, err := f.Await(ctx)
	if op.Way == "caught" {
		return p.caught(ctx, op, err)
	}
	if err != nil {
		return err
	}
	if f.Attempts() < 1 {
		p.fact(op, "ended without an attempt")
	}
	p.did(label, n)
	p.fact(op, "done")
	return nil
}

// tx runs a step in a transaction that moves money between accounts.
func (p *player) tx(ctx context.Context, op *program.Op) error {
	label := p.label(op, "do")
	after, number := p.after()
	child := op.ChildID(p.in.ID, p.in.Round)
	n, err := perdure.StepTx(ctx, op.Name(), p.money, func(ctx context.Context, tx *sql.Tx) (int64,
		error) {
		began := time.Now()
		if op.Way == "locks" { // takes SQLite's only lock from the beginning
			if _, err := tx.ExecContext(
				ctx, `delete from torture_money where label = ''`); err != nil {
				return 0, err
			}
		}
		n, err := p.callIn(ctx, began, label, after, number)
		if err != nil {
			return 0, err
		}
		if op.Way == "barrier" {
			return barrier.Do(ctx, tx, func(ctx context.Context, tx *sql.Tx) (int64, error) {
				return n, move(ctx, tx, label, n)
			})
		}
		if err := move(ctx, tx, label, n); err != nil {
			return 0, err
		}
		switch op.Way {
		case "big":
			err = errors.Join(perdure.SetVariable(ctx, op.Name(), big),
				perdure.Emit(ctx, "big", big))
		case "fails", "panics":
			if tries, _, _ := perdure.Attempt(ctx); tries == 1 && op.Way == "panics" {
				odd("transaction")
			} else if tries == 1 {
				err = fmt.Errorf("it is rolled back: %w", ErrMeant)
			}
		}
		return n, err
	})
	if err != nil {
		return err
	}
	if err := p.outbox(ctx, op, child); err != nil {
		return err
	}
	p.did(label, n)
	p.fact(op, "done")
	return nil
}

// outbox starts or signals a run in a transaction.
func (p *player) outbox(ctx context.Context, op *program.Op, child string) error {
	label := p.label(op, "child")
	if op.Way != "start" && op.Way != "send" {
		return nil
	}
	_, err := perdure.StepTx(ctx, op.Name()+".out", p.money,
		func(ctx context.Context, tx *sql.Tx) (bool, error) {
			if op.Way == "start" {
				r, err := p.brief.Start(ctx, p.caller().In(tx), label, perdure.ID(child))
				return err == nil && r.New(), err
			}
			d, err := aside.Send(ctx, p.caller().In(tx), p.in.ID, op.ID, perdure.SendKey(op.Name()))
			return d.Duplicate, err
		})
	return err
}

// DDL makes the table of accounts.
const DDL = `create table if not exists torture_money (label text not null, number bigint not null, amount bigint not null)`

// move takes from one account and gives to another one.
func move(ctx context.Context, tx *sql.Tx, label string, number int64) error {
	for _, amount := range []int{-1, 1} {
		if _,
			err := tx.ExecContext(
			ctx, `insert into torture_money (label, number, amount) values ($1, $2, $3)`, label,
			number, amount); err != nil {
			return err
		}
	}
	return nil
}

// broken fails the run until an operator has mended it and retries the run.
func (p *player) broken(ctx context.Context, op *program.Op) error {
	label := p.label(op, "do")
	body := func(ctx context.Context) (int64, error) {
		if op.Way == "skip" || op.Way == "input" && !p.in.Mended {
			return 0, perdure.Permanent(ErrBroken)
		}
		if mended, err := p.world.Mended(ctx, label); err != nil || !mended {
			if err != nil {
				return 0, err
			}
			return 0, perdure.Permanent(ErrBroken)
		}
		return p.call(ctx, label, "", 0)
	}
	if op.Way == "child" {
		in := p.in
		in.ID = op.ChildID(p.in.ID, p.in.Round)
		tail := &program.Op{ID: op.ID, Kind: program.Broken, Way: "plain"}
		in.Program = &program.Program{
			Workflow: "code", End: "returns",
			Body: append(op.Bodies[0][:len(op.Bodies[0]):len(op.Bodies[0])], tail),
		}
		in.Round = p.in.Round
		out, err := p.Env.code.Child(ctx, in, perdure.ID(in.ID), perdure.Key(op.Name())).Await(ctx)
		if err != nil {
			return err
		}
		p.facts = append(p.facts, out.Facts...)
		for label, n := range out.Numbers {
			p.did(label, n)
		}
		return nil
	}
	n, err := perdure.Step(ctx, op.Name(), body)
	if err != nil {
		return err
	}
	if op.Way == "skip" {
		p.fact(op, "skipped %d", n)
		return nil
	}
	p.did(label, n)
	p.fact(op, "mended")
	return nil
}

// code makes the code of the workflow itself go wrong, in each execution that did the step before
// it. One that finds the step's result in the journal goes on: in whichever process it is, its
// result is the recorded one.
func (p *player) code(ctx context.Context, op *program.Op) error {
	label := p.label(op, "do")
	n, did, err := p.live(ctx, op.Name(), label)
	if err != nil {
		return err
	}
	if did {
		if op.Way == "panics" {
			odd("code")
		}
		return perdure.RetryAfter(0, ErrMeant)
	}
	p.did(label, n)
	p.fact(op, "done")
	return nil
}

// live does a step, and reports whether this execution did it. An execution that finds its result
// in the journal did not.
func (p *player) live(ctx context.Context, name, label string) (n int64, did bool, err error) {
	var here atomic.Bool
	n, err = perdure.Step(ctx, name, func(ctx context.Context) (int64, error) {
		here.Store(true)
		return p.call(ctx, label, "", 0)
	})
	return n, here.Load(), err
}

// state sets values that the run shows, and reads them back.
func (p *player) state(ctx context.Context, op *program.Op) error {
	name := op.Name()
	var err error
	switch op.Way {
	case "variable":
		err = p.variable(ctx, name, op.ID)
	case "key":
		var had, isNew bool
		if had, err = pattern.HasKey(ctx, name); err == nil {
			isNew, err = pattern.AddKey(ctx, name)
		}
		if err == nil && had == isNew {
			p.fact(op, "the key was there: %v, and is new: %v", had, isNew)
		}
	case "attribute":
		err = perdure.SetAttribute(ctx, "torture", "yes")
	case "payload":
		var was json.RawMessage
		if was, err = perdure.Payload[json.RawMessage](ctx); err == nil && len(was) > 0 {
			err = perdure.SetPayload(ctx, was)
		}
	case "publish":
		err = perdure.Publish(ctx, name, op.ID)
	case "status":
		if err = pattern.SetStatus(ctx, journal.Compensating); err == nil {
			err = pattern.SetStatus(ctx, journal.Running)
		}
	case "record":
		err = pattern.Record(ctx, pattern.Fact{
			Kind: pattern.StepSkipped, Name: name, Reason: pattern.ReasonDuplicate,
		})
	case "emit":
		err = errors.Join(perdure.Emit(ctx, "told", op.ID), pattern.EmitEvent(
			ctx, perdure.Event{Type: "told", Topic: "torture", Data: []byte("1")}))
	case "letter":
		err = deadletter.Add(ctx, name, pattern.FailedStep(name, ErrMeant))
	}
	if err == nil {
		p.fact(op, "ok")
	}
	return err
}

// variable sets, reads and removes a variable of that name.
func (p *player) variable(ctx context.Context, name string, n int) error {
	if err := perdure.SetVariable(ctx, name, n); err != nil {
		return err
	}
	got, found, err := perdure.Variable[int](ctx, name)
	if err != nil {
		return err
	}
	all, err := pattern.Variables(ctx)
	if err == nil && (!found || got != n || len(all) == 0) {
		err = fmt.Errorf("variable %s is %d, not %d", name, got, n)
	}
	if err != nil {
		return err
	}
	return errors.Join(header(ctx, name, fmt.Sprint(n)), perdure.RemoveVariable(ctx, name))
}

// header sets, reads and removes a header of that name.
func header(ctx context.Context, name, value string) error {
	if err := (perdure.Headers{name: value}).Set(ctx); err != nil {
		return err
	}
	i, err := perdure.InfoOf(ctx)
	if got := i.Headers[name]; err == nil && got != value {
		err = fmt.Errorf("header %s is %q, not %q", name, got, value)
	}
	return errors.Join(err, (perdure.Headers{name: ""}).Set(ctx))
}
