package kernel

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client reads runs and sends them messages on a store that an engine uses, in
// this process or another one, or that none uses now. It executes nothing.
type Client struct {
	FrontEnd
}

// NewClient returns a client of a store. Of cfg it takes what a front end has.
func NewClient(ctx context.Context, s store.Store, cfg Config) (*Client, error) {
	info, err := store.Brief(ctx, s)
	if err != nil {
		return nil, unavailable("new client", err)
	}
	c := &Client{FrontEnd: newFrontEnd(s, &cfg)}
	c.numbers, c.writers = newClientNumbers(s), c
	c.db.Store(&info.Database)
	return c, nil
}

// open implements writers.
func (c *Client) open(context.Context, string) (writer, error) { return c, nil }

// number implements writer.
func (c *Client) number() (journal.Number, error) { return c.numbers.number() }

// spill implements writer.
func (c *Client) spill(what string, data *[]byte) (journal.Number, *journal.Failure) {
	return c.bring(what, *data, c.number)
}

// submit implements writer.
func (c *Client) submit(ctx context.Context, op string, cs []store.Change) ([]store.Change, error) {
	g := &store.Group{Changes: cs}
	wait := 10 * time.Millisecond
	for {
		g.Now = c.Now()
		err := c.store.Commit(ctx, g)
		switch {
		case err == nil:
			return g.Changes, nil
		case refusal(err):
			return nil, &journal.Error{
				Code: journal.CodeInvalid, Op: op, Message: "the store refuses it", Err: err,
			}
		case errors.Is(err, store.ErrClosed), refusedBy(err) != nil:
			return nil, unavailable(op, err)
		}
		g.Again = true
		t := time.NewTimer(wait)
		wait = min(2*wait, time.Second)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, unavailable(op, err)
		}
	}
}

// Start makes a run durable for an engine to claim, or finds the run that its ID stands for.
func (c *Client) Start(ctx context.Context, s Start) (Started, error) {
	return c.Begin(ctx, s)
}

// Cancel asks a run to end and returns when that is durable. In a damaged journal, the entries
// before the damage count.
func (c *Client) Cancel(ctx context.Context, id string, why Why) error {
	if why.Mode == journal.ActionTerminate {
		return c.ask(ctx, "terminate "+id, journal.CancelAsked, id, why, c.mayTerminate(ctx))
	}
	return c.ask(ctx, "cancel "+id, journal.CancelAsked, id, why, func(
		op string, h journal.Head,
	) error {
		if h.Status == journal.Suspended { // its journal has its decision
			entries, err := c.Read(ctx, h, store.Range{})
			if err != nil && journal.CodeOf(err) != journal.CodeCorrupt {
				return err
			}
			if phase := newMemo(entries, "").phase; phase.IsDecided() {
				h.Status = phase
			}
		}
		return mayCancel(op, h)
	})
}

// Suspend asks for a run to be parked and returns when that is durable.
func (c *Client) Suspend(ctx context.Context, id string, why Why) error {
	return c.ask(ctx, "suspend "+id, journal.SuspendAsked, id, why, maySuspend(why.Reason))
}

// Resume asks for a parked run to go on and returns when that is durable.
func (c *Client) Resume(ctx context.Context, id string, why Why) error {
	return c.ask(ctx, "resume "+id, journal.ResumeAsked, id, why, func(
		op string, h journal.Head,
	) error {
		if err := mayResume(op, h); !errors.Is(err, errOpen) || h.Status != journal.Waiting {
			return err
		}
		return cmp.Or(hasSuspended(ctx, &c.FrontEnd, op, h), errOpen)
	})
}

// ask sends a message of the engine's own, if there is something to do.
func (c *Client) ask(
	ctx context.Context, op string, kind journal.Kind, id string, why Why, judge judge,
) error {
	h, err := c.Find(ctx, id)
	if err == nil {
		err = judge(op, h)
	}
	if !errors.Is(err, errOpen) {
		return err
	}
	return c.FrontEnd.ask(ctx, op, kind, h, why)
}

// Wait waits for a run to end and returns its head and its outcome. If the run continues as new,
// these are of the last run of the chain. It asks the store now and then.
func (c *Client) Wait(ctx context.Context, s Started) (journal.Head, Outcome, error) {
	id := string(s.Head.ID)
	wait := 10 * time.Millisecond
	for {
		head, err := c.Find(ctx, id)
		if err != nil {
			return journal.Head{}, Outcome{}, err
		}
		if head.Status.IsTerminal() {
			out, err := c.outcome(ctx, head)
			if err != nil || head.Status != journal.ContinuedAsNew {
				return head, out, err
			}
			id = string(out.Detail.Other)
			continue
		}
		t := time.NewTimer(wait)
		wait = min(2*wait, time.Second)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return journal.Head{}, Outcome{}, waited(ctx, head)
		}
	}
}
