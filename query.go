package perdure

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Query selects runs. A zero field selects all. Of a range of time, From is in it and To is not.
type Query struct {
	WorkflowID string
	Workflow   string
	Workflows  []string // any of these; at most 1,000
	Patterns   []journal.Pattern
	Parent     string // that started the runs; also if another run retries it
	Open       bool   // runs that have not ended
	Statuses   []RunStatus

	CreatedFrom, CreatedTo time.Time
	EndedFrom, EndedTo     time.Time // of runs that have ended
	// Stale selects open runs whose journals have got no entry since then. admin.Client.Stale also
	// leaves out those that wait for something.
	Stale time.Time
	// Error is a part of the text of the failure that runs ended with (journal.Head.Error). Upper
	// and lower case of A to Z are the same.
	Error      string
	Attributes map[string]string // search attributes, all of which must match

	After journal.Cursor // the cursor that the previous page returned
	Limit int            // zero means 100; at most 1,000
}

// List returns the runs that match a query, and the cursor of the next page, which is zero if there
// is none. The run that was created last comes first. Runs of the engine's own workflows, such as
// dead letters, are found only by the name of that workflow.
//
// A page looks at a bounded number of runs. So it may have fewer runs than the limit, or none, and
// yet have a cursor: only a zero cursor means the end. A query that is not valid is refused with an
// [Error] of code invalid.
func (c *Client) List(ctx context.Context, q Query) ([]journal.Head, journal.Cursor, error) {
	f, err := c.filter(ctx, q)
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	return c.sealed.FrontEnd.Heads(ctx, f)
}

// Count returns how many runs match a query, by status, whatever its cursor and limit. It looks at
// up to 10,000 open runs, and at as many of the newest that have failed, and of the newest of all.
// If there are more, it returns the statuses whose runs may be more than were counted.
func (c *Client) Count(ctx context.Context, q Query) (runs map[RunStatus]int, more []RunStatus,
	err error) {
	f, err := c.filter(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	counts, err := c.sealed.FrontEnd.Count(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	runs = make(map[RunStatus]int, len(counts))
	for _, n := range counts {
		runs[n.Status] = n.Runs
		if n.More {
			more = append(more, n.Status)
		}
	}
	return runs, more, nil
}

// filter returns the filter of a query.
func (c *Client) filter(ctx context.Context, q Query) (store.Filter, error) {
	if err := q.check(); err != nil {
		return store.Filter{}, err
	}
	f := store.Filter{
		WorkflowID: q.WorkflowID, Workflow: q.Workflow, Workflows: q.Workflows,
		Patterns: q.Patterns, Open: q.Open, Statuses: q.Statuses, CreatedFrom: q.CreatedFrom,
		CreatedTo: q.CreatedTo, EndedFrom: q.EndedFrom, EndedTo: q.EndedTo, Stale: q.Stale,
		Error: q.Error, Attributes: q.Attributes, After: q.After, Limit: q.Limit,
	}
	if f.Names() == nil {
		f.Without = kernel.OwnPrefix
	}
	if q.Parent != "" {
		h, err := c.sealed.FrontEnd.Find(ctx, string(q.Parent))
		if err != nil {
			return store.Filter{}, err
		}
		f.Parent = h.Number
	}
	return f, nil
}

// check returns an error if a field has a value that no run can have.
func (q *Query) check() error {
	const op = "list"
	if q.Limit < 0 || q.Limit > store.MaxLimit {
		return failure.Invalid(op, "limit %d is not valid: allowed are 0 to %d", q.Limit,
			store.MaxLimit)
	}
	if len(q.Workflows) > store.MaxLimit {
		return failure.Invalid(op, "%d workflows are not valid: at most %d", len(q.Workflows),
			store.MaxLimit)
	}
	if q.WorkflowID != "" && !journal.ValidWorkflowID(q.WorkflowID) {
		return failure.BadWorkflowID(q.WorkflowID)
	}
	for i, name := range append([]string{q.Workflow}, q.Workflows...) {
		if (i > 0 || name != "") && !journal.ValidName(name) {
			return failure.BadName("workflow", name)
		}
	}
	for name := range q.Attributes {
		if !journal.ValidName(name) {
			return failure.BadName("attribute", name)
		}
	}
	for _, s := range q.Statuses {
		if !s.Valid() {
			return failure.Invalid(op, "%v is not valid: allowed are the statuses that "+
				"journal.Statuses returns", s)
		}
	}
	for _, p := range q.Patterns {
		if !p.Valid() {
			return failure.Invalid(op, "%v is not valid: allowed are WORKFLOW, SAGA, TCC, "+
				"MACHINE and ORCHESTRATOR", p)
		}
	}
	switch {
	case !utf8.ValidString(q.Error) || strings.ContainsRune(q.Error, 0):
		return failure.Invalid(op, "error %s is not valid: allowed is UTF-8 without zero bytes",
			strconv.QuoteToASCII(q.Error))
	case q.After.Number < 0:
		return failure.Invalid(op, "cursor %v is not valid: allowed are cursors that a list "+
			"returned", q.After)
	}
	return nil
}
