package approval

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Query selects open asks. A zero field selects all.
type Query struct {
	Role     string // asks that this role may decide now
	Workflow string
	ID       string // a run ID or a workflow ID
	Reminds  bool   // asks with reminders
	After    Cursor // the cursor that the last page returned
	Limit    int    // the longest page; 0 means 100; at most 1,000
}

func (q *Query) selects(p *Pending) bool {
	return (q.Role == "" || p.Roles == nil || slices.Contains(p.Roles, q.Role)) &&
		(!q.Reminds || p.Remind > 0) && (q.After.IsZero() || p.Cursor().compare(q.After) > 0)
}

// A Pending is an open ask of a run.
type Pending struct {
	RunID      string
	WorkflowID string
	Workflow   string
	State
	Roles []string // that may decide now; nil for everybody
	Age   time.Duration
}

// Cursor returns the position of the ask: the page after it begins with the next ask.
func (p *Pending) Cursor() Cursor { return Cursor{p.Asked, p.RunID, p.Key} }

// List returns open asks, the oldest first, and the cursor of the next page, which is zero if there
// is none. It reads the journals of all runs that have open asks, for each page.
func List(ctx context.Context, c perdure.Caller, q Query) ([]Pending, Cursor, error) {
	const op = "list approvals"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, Cursor{}, err
	}
	if q.Limit < 0 || q.Limit > store.MaxLimit {
		return nil, Cursor{}, failure.Invalid(op, "limit %d is not valid: allowed are 0 to %d",
			q.Limit, store.MaxLimit)
	}
	limit := cmp.Or(q.Limit, store.DefaultLimit)
	f := store.Filter{
		Open: true, Workflow: q.Workflow, Attributes: map[string]string{attribute: isOpen},
		Limit: store.MaxLimit,
	}
	if q.ID != "" {
		h, err := client.FrontEnd.Find(ctx, q.ID)
		if err != nil {
			return nil, Cursor{}, failure.Within(op, err)
		}
		f.Run = h.ID
	}
	if q.Reminds {
		f.Attributes = map[string]string{reminding: isOpen}
	}
	var all []Pending
	now := client.FrontEnd.Now()
	for {
		heads, next, err := client.FrontEnd.Heads(ctx, f)
		if err != nil {
			return nil, Cursor{}, err
		}
		for _, h := range heads {
			some, err := openOf(ctx, client.FrontEnd, h, now)
			gone := journal.CodeOf(err) == journal.CodeNotFound
			if err != nil && !gone && !failure.IsDamaged(err) {
				return nil, Cursor{}, err
			}
			for _, p := range some {
				if q.selects(&p) {
					all = append(all, p)
				}
			}
			if len(all) > 2*limit {
				all = oldest(all, limit+1)
			}
		}
		if f.After = next; next.IsZero() {
			break
		}
	}
	if all = oldest(all, limit+1); len(all) > limit {
		all = all[:limit]
		return all, all[limit-1].Cursor(), nil
	}
	return all, Cursor{}, nil
}

// oldest returns the first n asks of a list, in order.
func oldest(all []Pending, n int) []Pending {
	slices.SortFunc(all, func(a, b Pending) int { return a.Cursor().compare(b.Cursor()) })
	return slices.Clone(all[:min(n, len(all))])
}

// openOf returns the open asks of a run.
func openOf(ctx context.Context, f *kernel.FrontEnd, h journal.Head, now time.Time) ([]Pending,
	error) {
	v, err := readView(ctx, f, h)
	if err != nil {
		return nil, err
	}
	var out []Pending
	for _, s := range v.open() {
		out = append(out, Pending{
			RunID: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow, State: s,
			Roles: s.RolesAt(now), Age: now.Sub(s.Asked),
		})
	}
	return out, nil
}

// States returns all asks of a run, by run ID or workflow ID, in the order of their keys: the last
// ask of each key, with its decisions.
func States(ctx context.Context, c perdure.Caller, id string) ([]State, error) {
	const op = "read approvals"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	h, err := client.FrontEnd.Find(ctx, id)
	if err != nil {
		return nil, failure.Within(op, err)
	}
	v, err := readView(ctx, client.FrontEnd, h)
	if err != nil {
		return nil, err
	}
	var out []State
	for _, s := range v.states {
		if s.Status == Open && (h.Status.IsTerminal() || !v.isAsked(s.Key)) {
			s.Status = Withdrawn
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}
