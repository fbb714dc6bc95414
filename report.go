package perdure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Parked is a run that waits for an operator.
type Parked struct {
	Head journal.Head
	// Why is what parked it: the reason that was given to [Client.Suspend], what
	// the engine found, or what [Park] asks for.
	Why string
	// Decisions are what it asks for by [Park], with the choices; without one
	// [Client.Resume] lets it go on.
	Decisions []journal.Wait
}

// Parked gives the runs that wait for an operator, newest first, and the cursor of
// the next page; zero when there is none. Limit 0 is 100, and at most 1,000.
func (c *Client) Parked(ctx context.Context, after journal.Number, limit int) ([]Parked, journal.Number, error) {
	heads, next, err := c.desk.Heads(ctx, store.Filter{Statuses: []journal.Status{journal.Suspended, journal.CompensationFailed}, After: after, Limit: limit})
	if err != nil {
		return nil, 0, err
	}
	var out []Parked
	for _, h := range heads {
		p := Parked{Head: h, Why: h.Cause}
		if h.Cause == "" {
			if p.Decisions, err = c.decisions(ctx, h); err != nil {
				if !isDamaged(err) {
					return nil, 0, err
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

func (c *Client) decisions(ctx context.Context, h journal.Head) ([]journal.Wait, error) {
	state, err := c.state(ctx, h)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(state.Waits, func(w journal.Wait) bool { return w.Kind != journal.WaitDecision }), nil
}

// state gives the fold of a run's journal.
func (c *Client) state(ctx context.Context, h journal.Head) (journal.Snapshot, error) {
	entries, err := c.desk.Read(ctx, h, store.Range{})
	if err != nil {
		return journal.Snapshot{}, err
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return journal.Snapshot{}, &Error{Code: journal.CodeCorrupt, Op: "read " + string(h.ID), Err: err}
		}
	}
	return a.Snapshot(), nil
}

// isDamaged reports whether err is about a journal of which a part cannot be read or is
// missing: one such run keeps nobody from reading of the others.
func isDamaged(err error) bool { return journal.CodeOf(err) == journal.CodeCorrupt }

// A Stale is a run that should have gone on and did not.
type Stale struct {
	Head journal.Head
	Last time.Time // when its journal got its last entry
	Why  string
}

const defaultStale = time.Hour

// Stale gives the open runs that an engine has or that are due, and whose journals
// have got no entry for so long; 0 is an hour. Runs that wait for a time, a signal,
// a child, a slot or an operator are never among them.
func (c *Client) Stale(ctx context.Context, after time.Duration) ([]Stale, error) {
	if after < 0 {
		return nil, invalid("stale", "%v is negative", after)
	}
	now := time.Now()
	since := now.Add(-or(after, defaultStale))
	info, err := c.desk.Info(ctx)
	if err != nil {
		return nil, err
	}
	var out []Stale
	f := store.Filter{Busy: now, Limit: store.MaxLimit}
	for {
		heads, next, err := c.desk.Heads(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			why := c.stale(h, since, living(info))
			if why == "" {
				continue
			}
			last, err := c.desk.Read(ctx, h, store.Range{Tail: true, Limit: 1})
			if err != nil && !isDamaged(err) {
				return nil, err
			}
			if len(last) == 0 || last[0].At.After(since) {
				continue
			}
			waits, err := c.waits(ctx, h)
			if isDamaged(err) {
				why, err = err.Error(), nil
			}
			if err != nil {
				return nil, err
			}
			if !waits {
				out = append(out, Stale{h, last[0].At, why})
			}
		}
		if f.After = next; next == 0 {
			return out, nil
		}
	}
}

// living says whether an engine has the store.
func living(info store.Info) bool {
	return slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return !e.Fallen })
}

// stale says why a run would be stale if its last entry is old; empty where it
// waits for something.
func (c *Client) stale(h journal.Head, since time.Time, engines bool) string {
	switch {
	case h.Status == journal.Suspended, h.Status == journal.CompensationFailed:
		return ""
	case h.Owner != 0 && !engines:
		return fmt.Sprintf("engine %d executed it and has died, and no other has the store", h.Owner)
	case h.Owner != 0 && h.Status == journal.Waiting:
		return ""
	case h.Owner != 0:
		if c.k != nil {
			if live := c.k.Live(h.Number); len(live.Running) > 0 {
				return "it executes " + strings.Join(live.Running, ", ")
			}
		}
		return fmt.Sprintf("engine %d executes it, and it records nothing", h.Owner)
	case h.Wake.After(since):
		return ""
	case !engines:
		return "no engine has the store"
	case c.k != nil && c.k.Lookup(h.Workflow) == nil:
		return "no engine here knows workflow " + h.Workflow
	case h.Status == journal.Pending:
		return ""
	}
	return "it has been due since " + h.Wake.UTC().Format(time.RFC3339) + ", and no engine took it up"
}

// waits says whether a run that an engine has waits for something, where its status
// does not tell: one of a pattern stays while it waits.
func (c *Client) waits(ctx context.Context, h journal.Head) (bool, error) {
	if h.Owner == 0 || h.Status == journal.Running || c.k != nil && len(c.k.Live(h.Number).Running) > 0 {
		return false, nil
	}
	state, err := c.state(ctx, h)
	retries := slices.ContainsFunc(state.Steps, func(s journal.Step) bool { return s.Status == journal.StepIsRetrying })
	return retries || len(state.Waits) > 0, err
}

// A Marker is what a [Version] has decided for open runs.
type Marker struct {
	Change  string
	Version int
	Runs    []journal.RunID // that need it; newest first
}

// Versions gives the markers that open runs of a workflow need, of every one where
// the name is empty, by change and version: the code of a change that no marker
// names, or only its newest version, need not be kept. It reads the journals of all
// open runs, of a damaged one up to the damage.
func (c *Client) Versions(ctx context.Context, workflow string) ([]Marker, error) {
	var out []Marker
	f := store.Filter{Open: true, Workflow: workflow, Without: kernel.OwnPrefix, Limit: store.MaxLimit}
	for {
		heads, next, err := c.desk.Heads(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			entries, err := c.desk.Read(ctx, h, store.Range{})
			if err != nil && !isDamaged(err) {
				return nil, err
			}
			for _, e := range entries {
				if e.Kind == journal.VersionMarked {
					out = need(out, e.Op.Name, e.Detail.Version, h.ID)
				}
			}
		}
		if f.After = next; next == 0 {
			return out, nil
		}
	}
}

// need adds a run to a marker, keeping the order.
func need(all []Marker, change string, version int, run journal.RunID) []Marker {
	at, known := slices.BinarySearchFunc(all, Marker{Change: change, Version: version}, func(a, b Marker) int {
		if n := strings.Compare(a.Change, b.Change); n != 0 {
			return n
		}
		return a.Version - b.Version
	})
	if !known {
		all = slices.Insert(all, at, Marker{Change: change, Version: version})
	}
	all[at].Runs = append(all[at].Runs, run)
	return all
}
