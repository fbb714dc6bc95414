// Package admin has the functions that operators and their tools need beside a client: for dead
// letters, for runs that wait for an operator, for runs that do not go on, and for the versions of
// code that open runs need.
package admin

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client reads and changes runs and dead letters for operators. [New] makes it. Many goroutines
// may call its methods.
type Client struct {
	client *sealed.Client
	caller retrier
}

// A retrier is an engine or a client.
type retrier interface {
	Retry(ctx context.Context, id string) (*perdure.Run[json.RawMessage], error)
}

// New returns a Client for an engine or a client.
func New(c interface {
	perdure.Caller
	retrier
}) *Client {
	return &Client{client: c.Sealed(), caller: c}
}

// A Parked is a run that waits for an operator.
type Parked struct {
	Head journal.Head
	// Why is the reason why the run was parked. It is the reason that was given to
	// [perdure.Client.Suspend] or [perdure.Park], or the defect that the engine found.
	Why string
	// Decisions are the questions that the run asks by [perdure.Park], with their choices. If there
	// is none, [perdure.Client.Resume] lets the run go on.
	Decisions []journal.Wait
}

// Parked returns the runs that wait for an operator, newest first. It also returns the cursor of
// the next page, which is zero if there is no next page. Zero limit means 100; the limit is at most
// 1,000.
func (a *Client) Parked(ctx context.Context, after journal.Cursor, limit int) ([]Parked,
	journal.Cursor, error) {
	heads, next, err := a.client.FrontEnd.Heads(ctx, store.Filter{
		Statuses: []journal.Status{journal.Suspended, journal.CompensationFailed},
		After:    after,
		Limit:    limit,
	})
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	var out []Parked
	for _, h := range heads {
		p := Parked{Head: h, Why: h.Cause}
		if h.Cause == "" {
			if p.Decisions, err = a.decisions(ctx, h); err != nil {
				if !failure.IsDamaged(err) {
					return nil, journal.Cursor{}, err
				}
				p.Why = err.Error()
			}
			for _, d := range p.Decisions {
				p.Why = d.Reason
			}
		}
		out = append(out, p)
	}
	return out, next, nil
}

func (a *Client) decisions(ctx context.Context, h journal.Head) ([]journal.Wait, error) {
	state, err := a.state(ctx, h)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(state.Waits, func(w journal.Wait) bool {
		return w.Kind != journal.WaitDecision
	}), nil
}

// state returns the fold of a run's journal.
func (a *Client) state(ctx context.Context, h journal.Head) (journal.Snapshot, error) {
	entries, err := a.client.FrontEnd.Read(ctx, h, store.Range{})
	if err != nil {
		return journal.Snapshot{}, err
	}
	f := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	for i := range entries {
		if err := f.Apply(entries[i]); err != nil {
			return journal.Snapshot{}, &perdure.Error{Code: journal.CodeCorrupt, Op: "read " +
				string(h.ID), Err: err}
		}
	}
	return f.Snapshot(), nil
}
