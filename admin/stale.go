package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Stale is a run that should have gone on and did not.
type Stale struct {
	Head journal.Head
	Last time.Time // the time of the last entry of its journal
	Why  string
}

const defaultStale = time.Hour

// Stale returns the open runs that are loaded or due and whose journals have got no entry for a
// time of after. Zero means 1 h. Runs that wait for a time, a signal, a child, a slot or an
// operator are never in the list.
func (a *Client) Stale(ctx context.Context, after time.Duration) ([]Stale, error) {
	if after < 0 {
		return nil, failure.Invalid("stale", "%v is not valid: at least 0", after)
	}
	out, _, err := a.someStale(ctx, after, math.MaxInt)
	return out, err
}

// FirstStale is [Client.Stale] for the newest runs that are loaded or due, at most 1,000.
// It reports whether there are more.
func (a *Client) FirstStale(ctx context.Context, after time.Duration) ([]Stale, bool, error) {
	if after < 0 {
		return nil, false, failure.Invalid("stale", "%v is not valid: at least 0", after)
	}
	return a.someStale(ctx, after, 1)
}

// someStale returns the stale runs that the first pages of busy runs have. It reports whether there
// are further pages.
func (a *Client) someStale(ctx context.Context, after time.Duration, pages int) (out []Stale,
	more bool, err error) {
	now := a.client.FrontEnd.Now()
	since := now.Add(-cmp.Or(after, defaultStale))
	info, err := a.client.FrontEnd.Info(ctx)
	if err != nil {
		return nil, false, err
	}
	f := store.Filter{Busy: now, Stale: since, Limit: store.MaxLimit}
	for ; pages > 0; pages-- {
		heads, next, err := a.client.FrontEnd.Heads(ctx, f)
		if err != nil {
			return nil, false, err
		}
		for _, h := range heads {
			why := a.stale(h, since, info)
			if why == "" {
				continue
			}
			last, err := a.client.FrontEnd.Read(ctx, h, store.Range{Tail: true, Limit: 1})
			if err != nil && !failure.IsDamaged(err) {
				return nil, false, err
			}
			if len(last) == 0 || last[0].At.After(since) {
				continue
			}
			waits, err := a.waits(ctx, h)
			if failure.IsDamaged(err) {
				why, err = err.Error(), nil
			}
			if err != nil {
				return nil, false, err
			}
			if !waits {
				out = append(out, Stale{h, last[0].At, why})
			}
		}
		if f.After = next; next.IsZero() {
			return out, false, nil
		}
	}
	return out, true, nil
}

// stale returns the reason why a run is stale if its last entry is old; empty if the run waits for
// something.
func (a *Client) stale(h journal.Head, since time.Time, info store.Info) string {
	engines := sealed.Living(info)
	switch {
	case h.Status == journal.Suspended, h.Status == journal.CompensationFailed:
		return ""
	case h.Owner != 0 && !engines:
		return fmt.Sprintf("engine %d executed it and has died, and no other has the store",
			h.Owner)
	case h.Owner != 0 && h.Status == journal.Waiting:
		return ""
	case h.Owner != 0:
		if a.client.Live != nil {
			if live := a.client.Live.Live(h.Number); len(live.Running) > 0 {
				return "it executes " + strings.Join(live.Running, ", ")
			}
		}
		return fmt.Sprintf("engine %d executes it, and it records nothing", h.Owner)
	case h.Wake.After(since):
		return ""
	case !engines:
		return "no engine has the store"
	}
	lacking := sealed.Lacking(info, h.Workflow)
	if lacking != "" || h.Status == journal.Pending {
		return lacking
	}
	return "it has been due since " + h.Wake.UTC().Format(time.RFC3339) +
		", and no engine took it up"
}

// waits reports whether a loaded run waits for something when its status does not show it: a run of
// a pattern keeps its status while it waits.
func (a *Client) waits(ctx context.Context, h journal.Head) (bool, error) {
	if h.Owner == 0 || h.Status == journal.Running || a.client.Live != nil && len(
		a.client.Live.Live(h.Number).Running) > 0 {
		return false, nil
	}
	state, err := a.state(ctx, h)
	retries := slices.ContainsFunc(state.Steps, func(s journal.Step) bool {
		return s.Status == journal.StepIsRetrying
	})
	return retries || len(state.Waits) > 0, err
}
