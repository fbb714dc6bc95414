package approval

import (
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
	Limit    int    // the oldest so many; 0 means 100; at most 1,000
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

// maxRuns is how many runs with open asks List looks at.
const maxRuns = 10_000

// List returns open asks, the oldest first, and whether there are more. It reads the journals of
// the runs that have open asks, of at most 10,000 of them, the newest.
func List(ctx context.Context, c perdure.Caller, q Query) (all []Pending, more bool, err error) {
	const op = "list approvals"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, false, err
	}
	if q.Limit < 0 || q.Limit > store.MaxLimit {
		return nil, false, failure.Invalid(op, "limit %d is not valid: allowed are 0 to %d",
			q.Limit, store.MaxLimit)
	}
	f := store.Filter{
		Open: true, Workflow: q.Workflow, Attributes: map[string]string{attribute: isOpen},
		Limit: store.MaxLimit,
	}
	if q.ID != "" {
		h, err := client.FrontEnd.Find(ctx, q.ID)
		if err != nil {
			return nil, false, failure.Within(op, err)
		}
		f.Run = h.ID
	}
	if q.Reminds {
		f.Attributes = map[string]string{reminding: isOpen}
	}
	now := client.FrontEnd.Now()
	for looked := 0; ; {
		heads, next, err := client.FrontEnd.Heads(ctx, f)
		if err != nil {
			return nil, false, err
		}
		for _, h := range heads {
			some, err := openOf(ctx, client.FrontEnd, h, now)
			if err != nil && !failure.IsDamaged(err) {
				return nil, false, err
			}
			for _, p := range some {
				if (q.Role == "" || p.Roles == nil || slices.Contains(p.Roles, q.Role)) &&
					(!q.Reminds || p.Remind > 0) {
					all = append(all, p)
				}
			}
		}
		looked += len(heads)
		if f.After = next; next.IsZero() {
			break
		}
		if looked >= maxRuns {
			more = true
			break
		}
	}
	slices.SortStableFunc(all, func(a, b Pending) int { return a.Asked.Compare(b.Asked) })
	limit := q.Limit
	if limit == 0 {
		limit = store.DefaultLimit
	}
	if len(all) > limit {
		all, more = all[:limit], true
	}
	return all, more, nil
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
