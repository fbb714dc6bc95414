package actor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// answer decides for a run, or cancels its timer, if it waits for that now.
func (x *dealing) answer(ctx context.Context, c *perdure.Client, m program.Message) error {
	d, err := c.Describe(ctx, m.To)
	if err != nil {
		return err
	}
	for _, w := range d.State.Waits {
		switch {
		case w.Op.Name != m.Name:
		case w.Kind == journal.WaitTimer:
			return c.CancelTimer(ctx, m.To, w.Path, Reason)
		case w.Kind == journal.WaitDecision:
			return x.decide(ctx, c, m, w)
		}
	}
	return nil
}

// decide makes a decision for a run, under its name or at its path. Before that it tries a name
// that nobody asks under, which must be refused.
func (x *dealing) decide(ctx context.Context, c *perdure.Client, m program.Message,
	w journal.Wait) error {
	data, err := json.Marshal(m.Value)
	if err != nil {
		return err
	}
	d := perdure.Decision{Choice: cmp.Or(m.Choice, "yes"), Data: data}
	if err := c.Decide(ctx, m.To, "nobody", d); err == nil {
		return wrong("a decision that nobody asks for is taken")
	} else if passing(err) {
		return err
	}
	if len(w.Choices) > 0 {
		if err := c.Decide(ctx, m.To, m.Name, perdure.Decision{
			Choice: "perhaps", Data: data,
		}); err == nil {
			return wrong("a choice that is none of its choices is taken")
		} else if passing(err) {
			return err
		}
	}
	if m.Choice == "retry" {
		if err := x.World.Mend(m.Mends); err != nil {
			return err
		}
	}
	err = c.Decide(ctx, m.To, []string{m.Name, w.Path}[x.rng.IntN(2)], d)
	if err == nil {
		x.count("decide-" + d.Choice)
	}
	return err
}

// meddle makes a call of an operator at any time.
func (x *dealing) meddle(ctx context.Context) error {
	if len(x.acts) == 0 || x.rng.IntN(3) > 0 {
		return nil
	}
	act := x.acts[0]
	x.acts = x.acts[1:]
	err := x.insist(ctx, act, func(c *perdure.Client) error { return x.act(ctx, c, act) })
	if is(err, journal.CodeWrongState) || is(err, journal.CodeNotFound) {
		return nil
	}
	return err
}

func (x *dealing) act(ctx context.Context, c *perdure.Client, act string) error {
	switch act {
	case "suspend":
		return c.Suspend(ctx, x.ID, Reason)
	case "cancel":
		if x.rng.IntN(2) == 0 {
			return c.Cancel(ctx, x.ID, Reason)
		}
		_, err := admin.New(c).Act(ctx, x.ID, admin.Order{
			Action: journal.ActionCancel, Compensate: true, By: operator, Reason: Reason,
		})
		return err
	case "terminate":
		_, err := admin.New(c).Act(ctx, x.ID, admin.Order{
			Action: journal.ActionTerminate, By: operator, Reason: Reason,
		})
		return err
	case "look":
		return x.read(ctx, c)
	case "purge":
		return x.leave(ctx)
	case "deliver":
		return x.deliver(ctx, c)
	case "signal":
		_, err := c.Send(ctx, x.ID, "nobody", []byte("1"), perdure.SendKey("nobody"))
		return err
	}
	return nil
}

// read reads everything of the run that can be read.
func (x *dealing) read(ctx context.Context, c *perdure.Client) error {
	_, e1 := c.Describe(ctx, x.ID)
	_, e2 := c.History(ctx, x.ID, 0, 0)
	_, e3 := c.Report(ctx, x.ID)
	_, _, e4 := c.List(ctx, perdure.Query{WorkflowID: x.ID})
	_, _, e5 := admin.New(c).Parked(ctx, journal.Cursor{}, 10)
	_, e6 := c.Unrouted(ctx, 0, 10)
	_, e7 := admin.New(c).Stale(ctx, time.Hour)
	_, _, e15 := admin.New(c).FirstStale(ctx, time.Hour)
	_, _, e8 := admin.New(c).CountDeadLetters(ctx, admin.DeadLetterQuery{WorkflowID: x.ID})
	_, e9 := c.Get(ctx, x.ID)
	_, e10 := admin.New(c).Versions(ctx, "")
	_, _, e11 := c.List(ctx, perdure.Query{Statuses: journal.Statuses(), Limit: 3})
	_, e13 := admin.New(c).Doctor(ctx, admin.DoctorOptions{})
	e14 := admin.New(c).StartLoop(ctx, 1, "watch", admin.Note{By: operator, Reason: Reason})
	if is(e14, journal.CodeNotFound) { // it has not stopped
		e14 = nil
	}
	_, e16 := admin.New(c).Held()
	if is(e16, journal.CodeMisuse) { // there is no engine in this process
		e16 = nil
	}
	_, e17 := admin.New(c).Loops(ctx)
	_, _, e18 := c.Count(ctx, perdure.Query{Statuses: journal.Statuses()})
	env, c := x.Now()
	var e12 error
	if x.Program.Workflow == "code" {
		e12 = env.Look(ctx, c, x.ID)
	}
	return errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, e15, e16, e17,
		e18)
}

// wrong returns the error of a wrong result: a retry does not help.
func wrong(message string) error {
	return &perdure.Error{Code: journal.CodeMisuse, Message: message}
}

// deliver sends a signal to nobody, and moves it to the run.
func (x *dealing) deliver(ctx context.Context, c *perdure.Client) error {
	d, err := c.Send(ctx, x.ID+".nowhere", "nobody", []byte("1"), perdure.SendKey("nobody"))
	if err != nil || !d.Unrouted {
		return err
	}
	_, err = c.Deliver(ctx, d.Number, x.ID)
	return err
}

// settle deletes the dead letters of a case that has ended, or marks them as handled, in cases in
// which operators do that.
func (x *dealing) settle(ctx context.Context) error {
	if !slices.Contains(x.Program.Acts, "letters") {
		return nil
	}
	err := x.insist(ctx, "letters", func(c *perdure.Client) error {
		if err := x.outside(ctx, c); err != nil {
			return err
		}
		letters, _, err := admin.New(c).DeadLetters(ctx, admin.DeadLetterQuery{WorkflowID: x.ID})
		for _, l := range letters {
			if _, e := admin.New(c).DeadLetter(ctx, l.ID); e != nil {
				return e
			}
			end := func(ctx context.Context, id string) error {
				return admin.New(c).DeleteDeadLetter(ctx, id, admin.Note{Reason: Reason})
			}
			if x.Program.Seed%2 == 0 {
				end = func(ctx context.Context, id string) error {
					return admin.New(c).MarkHandled(ctx, id, Reason)
				}
			}
			if e := end(ctx, l.ID); e != nil {
				return e
			}
		}
		return err
	})
	if is(err, journal.CodeNotFound) {
		return nil // it was deleted, and the answer lost
	}
	return err
}

// outside adds a dead letter about something outside that has failed, which is there twice.
func (x *dealing) outside(ctx context.Context, c *perdure.Client) error {
	var ids [2]string
	for i := range ids {
		id, err := admin.New(c).AddDeadLetter(ctx, deadletter.Letter{
			Workflow: "outside", WorkflowID: x.ID, Error: Reason,
		})
		if err != nil {
			return err
		}
		ids[i] = id
	}
	if ids[0] != ids[1] {
		return wrong("one failure outside has two dead letters")
	}
	return nil
}

// leave starts a run with a retention of zero. The case has ended when a purge has removed it.
func (x *dealing) leave(ctx context.Context) error {
	env, c := x.Now()
	id := x.ID + ".fleeting"
	err := env.StartFleeting(ctx, c, id)
	if err == nil && !slices.Contains(x.beside, id) {
		x.beside = append(x.beside, id)
	}
	return err
}
