package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find returns the heads that match the filter, newest first. There is an index for each status, so
// Find looks for each status separately.
func (s *Store) Find(ctx context.Context, f store.Filter) (heads []journal.Head,
	next journal.Number, err error) {
	page := f.Page()
	err = s.read(ctx, func(c *conn) error {
		heads = nil
		if len(f.Statuses) < 2 {
			return s.find(c, f, &heads)
		}
		// All queries see the same state.
		if err := c.script("begin"); err != nil {
			return err
		}
		for _, status := range f.Statuses {
			one := f
			one.Statuses = []journal.Status{status}
			if err := s.find(c, one, &heads); err != nil {
				return errors.Join(err, c.script("rollback"))
			}
		}
		return c.script("commit")
	})
	if err != nil {
		return nil, 0, err
	}
	if len(f.Statuses) > 1 {
		slices.SortFunc(heads, func(a, b journal.Head) int {
			return cmp.Compare(b.Number, a.Number)
		})
		// a status that was named twice
		heads = slices.CompactFunc(heads, func(a, b journal.Head) bool {
			return a.Number == b.Number
		})
	}
	if len(heads) > page {
		heads, next = heads[:page], heads[page-1].Number
	}
	return heads, next, nil
}

// find appends the newest heads that match a filter, one more than a page has.
func (s *Store) find(c *conn, f store.Filter, heads *[]journal.Head) error {
	where, args := s.conditions(f)
	return c.query(func(row []driver.Value) error {
		*heads = append(*heads, s.head(row))
		return nil
	}, "select "+headColumns+" from perdure_heads"+where+" order by number desc limit ? + 0",
		append(args, int64(f.Page())+1)...)
}

const (
	// isNewest is true for the run that a workflow ID stands for. Each half has an index.
	isNewest = `(ended is null or number = (select n.number from perdure_heads n where n.workflow_id = perdure_heads.workflow_id and n.ended is not null order by n.ended desc, n.number desc limit 1)
and not exists (select 1 from perdure_heads n where n.workflow_id = perdure_heads.workflow_id and n.ended is null))`

	// isBusy looks at each workflow separately. So it reads only those sleeping runs that are due.
	isBusy = `number in (select number from perdure_heads where owner > 0 and ended is null
union all
select number from (
    with recursive names (name) as (
        select (select min(workflow) from perdure_heads where owner = 0 and ended is null)
        union all
        select (select min(workflow) from perdure_heads where owner = 0 and ended is null and workflow > name) from names where name is not null
    )
    select number from names join perdure_heads on owner = 0 and workflow = name and wake <= ? and ended is null
))`

	hasAttribute = `number in (select run from perdure_attributes where name = ? and value = ?)`
)

// A condition is the part of a query that comes from a filter. Its text depends only on which
// fields are set, so few different statements are prepared.
type condition struct {
	terms []string
	args  []driver.Value
}

func (c *condition) add(term string, values ...driver.Value) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, values...)
}

// conditions returns a filter as SQL.
func (s *Store) conditions(f store.Filter) (where string, args []driver.Value) {
	var c condition
	if f.Run != "" {
		c.add("number = ?", s.number(f.Run))
	}
	if len(f.Runs) > 0 {
		c.add("number "+list(len(f.Runs)), padded(f.Runs, s.number)...)
	}
	if f.After != 0 {
		c.add("number < ?", int64(f.After))
	}
	if f.WorkflowID != "" {
		// Each half has an index, and SQLite uses both.
		c.add("(workflow_id = ? and ended is null or workflow_id = ? and ended is not null)",
			f.WorkflowID, f.WorkflowID)
	}
	if n := len(f.WorkflowIDs); n > 0 {
		ids := padded(f.WorkflowIDs, func(id string) driver.Value { return id })
		c.add("(workflow_id "+list(n)+" and ended is null or workflow_id "+list(n)+
			" and ended is not null)", append(ids, ids...)...)
	}
	if f.Newest {
		c.add(isNewest)
	}
	if f.Workflow != "" {
		c.add("workflow = ?", f.Workflow)
	}
	if f.Without != "" {
		c.add("substr(workflow, 1, ?) <> ?", int64(len(f.Without)), f.Without)
	}
	if f.Parent != 0 {
		c.add("parent = ? and parent > 0", int64(f.Parent))
	}
	if f.Owner != 0 {
		c.add("owner = ? and ended is null", int64(f.Owner))
	}
	if f.Open {
		c.add("ended is null")
	}
	if !f.Busy.IsZero() {
		c.add(isBusy, nanos(f.Busy))
	}
	if len(f.Statuses) > 0 {
		c.add("status = ?"+among(f.Statuses[0]), int64(f.Statuses[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		c.add(hasAttribute, name, f.Attributes[name])
	}
	if len(c.terms) == 0 {
		return "", nil
	}
	return " where " + strings.Join(c.terms, " and "), c.args
}

// among returns the condition of the index that has a status: the index of ended runs, or the index
// of open runs that are neither pending, running nor waiting. Of the other statuses there are many
// runs.
func among(s journal.Status) string {
	switch {
	case s.IsTerminal():
		return " and ended is not null"
	case s > journal.Waiting:
		return " and status > 3 and ended is null"
	}
	return ""
}

// number returns the number of a run ID; zero if the ID is from another database.
func (s *Store) number(id journal.RunID) driver.Value {
	n, _ := id.Number(s.database)
	return int64(n)
}

// list returns the SQL of a list of n values. The number of values is rounded up to a power of two;
// the last value is repeated.
func list(n int) string { return "in (?" + strings.Repeat(", ?", room(n)-1) + ")" }

func padded[V any](values []V, convert func(V) driver.Value) []driver.Value {
	out := make([]driver.Value, 0, 2*room(len(values)))
	for _, v := range values {
		out = append(out, convert(v))
	}
	for len(out) < room(len(values)) {
		out = append(out, out[len(out)-1])
	}
	return out
}

// room returns the least power of two that is n or more.
func room(n int) int {
	r := 1
	for r < n {
		r *= 2
	}
	return r
}
