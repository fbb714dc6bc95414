package kernel

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client reads runs and sends them messages on a store that an engine uses, in
// this process or another one, or that none uses now. It executes nothing.
type Client struct {
	Desk
	maxPayload, spillOver int

	mu      sync.Mutex
	visitor journal.EngineID // whose numbers it gives out; 0 before the first
	count   int64
}

// NewClient gives a client of a store.
func NewClient(ctx context.Context, s store.Store, build string, maxPayload, spillOver int, keep time.Duration) (*Client, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, unavailable("new client", err)
	}
	c := &Client{maxPayload: maxPayload, spillOver: spillOver}
	c.Desk = Desk{store: s, build: build, keep: keep, house: c}
	c.db.Store(&info.Database)
	return c, nil
}

// open implements house.
func (c *Client) open(context.Context, string) (office, error) { return c, nil }

// number implements office.
func (c *Client) number() (journal.Number, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.visitor == 0 {
		claimed, err := c.store.Claim(context.Background(), store.Claim{Visit: true, Now: time.Now()})
		if err != nil {
			return 0, err
		}
		c.visitor = claimed.Engine
	}
	c.count++
	return journal.MakeNumber(c.visitor, c.count)
}

// spill implements office. The payload goes with what names it: one that was
// there before could be swept.
func (c *Client) spill(what string, data *[]byte) (journal.Number, *journal.Failure) {
	if f := tooLarge(what, *data, c.maxPayload); f != nil {
		return 0, f
	}
	if len(*data) <= c.spillOver {
		return 0, nil
	}
	n, err := c.number()
	if err != nil {
		return 0, &journal.Failure{Code: journal.CodeUnavailable, Message: what + " could not be stored: " + err.Error()}
	}
	return n, nil
}

// submit implements office.
func (c *Client) submit(ctx context.Context, op string, cs []store.Change) ([]store.Change, error) {
	g := &store.Group{Changes: cs}
	wait := 10 * time.Millisecond
	for {
		g.Now = time.Now()
		err := c.store.Commit(ctx, g)
		switch {
		case err == nil:
			return g.Changes, nil
		case refusal(err):
			return nil, &journal.Error{Code: journal.CodeInvalid, Op: op, Message: "the store refuses it", Err: err}
		case errors.Is(err, store.ErrClosed):
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

// Start makes a run durable that an engine takes up, or finds the one that its ID
// stands for.
func (c *Client) Start(ctx context.Context, s Start) (Started, error) {
	op := "start " + s.Workflow
	change, err := c.start(c, op, s)
	if err != nil {
		return Started{}, err
	}
	cs, err := c.submit(ctx, op, []store.Change{*change})
	if err != nil {
		return Started{}, err
	}
	switch cs[0].Verdict {
	case store.Taken:
		return Started{}, taken(op, s.ID, cs[0].Found)
	case store.Exists:
		return Started{Head: cs[0].Found}, nil
	}
	return Started{Head: *change.Head, New: true}, nil
}

// Cancel asks a run to end and returns when that is durable.
func (c *Client) Cancel(ctx context.Context, id, reason string) error {
	return c.ask(ctx, "cancel "+id, journal.CancelAsked, id, reason, mayCancel)
}

// Suspend asks for a run to be parked and returns when that is durable.
func (c *Client) Suspend(ctx context.Context, id, reason string) error {
	return c.ask(ctx, "suspend "+id, journal.SuspendAsked, id, reason, maySuspend)
}

// Resume asks for a parked run to go on and returns when that is durable.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.ask(ctx, "resume "+id, journal.ResumeAsked, id, "", mayResume)
}

// ask sends a message of the engine's own, where there is something to do.
func (c *Client) ask(ctx context.Context, op string, kind journal.Kind, id, reason string, judge judge) error {
	h, err := c.Find(ctx, id)
	if err == nil {
		err = judge(op, h)
	}
	if !errors.Is(err, errOpen) {
		return err
	}
	return c.Desk.ask(ctx, op, kind, h, reason)
}

// Wait waits for a run to end and gives its head and how it ended; of one that
// continues as new, the last run of the chain. It asks the store now and then.
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
