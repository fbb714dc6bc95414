package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find returns the heads that match a filter, newest first.
func (s *Store) Find(ctx context.Context, f store.Filter) (heads []journal.Head,
	next journal.Number, err error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	if f.Owner != 0 { // an engine looks for the runs that a claim gave it
		if err := s.endLost(ctx); err != nil {
			return nil, 0, s.finished(err)
		}
	}
	c := s.conditions(f)
	page := f.Page()
	var b batch
	b.add("select "+headColumns+" from perdure.heads"+c.where()+" order by number desc limit "+
		c.argument(page+1), c.args...).each(func(rows pgx.Rows) error {
		h, err := s.scanHead(rows)
		if len(heads) == page {
			next = heads[page-1].Number
			return err
		}
		heads = append(heads, h)
		return err
	})
	if err := b.send(ctx, s.pool); err != nil {
		return nil, 0, s.finished(err)
	}
	return heads, next, nil
}

const (
	// isNewest holds for the run that a workflow ID refers to. Each half uses an index.
	isNewest = `(ended is null or number = (select n.number from perdure.heads n where n.workflow_id = heads.workflow_id and n.ended is not null order by n.ended desc, n.number desc limit 1)
and not exists (select from perdure.heads n where n.workflow_id = heads.workflow_id and n.ended is null))`

	// isBusy searches workflow by workflow. So of the sleeping runs it reads only the due
	// runs.
	isBusy = `number in (select number from perdure.heads where owner > 0 and ended is null
union all
select number from (
    with recursive names (name) as (
        (select min(workflow) from perdure.heads where owner = 0 and ended is null)
        union all
        select (select min(workflow) from perdure.heads where owner = 0 and ended is null and workflow > name) from names where name is not null
    )
    select h.number from names n join perdure.heads h on h.owner = 0 and h.workflow = n.name and h.wake <= %s and h.ended is null
) due)`

	hasAttribute = `number in (select run from perdure.attributes where name = %s and value = %s)`
)

// conditions are the SQL conditions of a filter. Their text depends only on which fields are
// set, so few statements are ever prepared.
type conditions struct {
	terms []string
	args  []any
}

// argument adds an argument and returns its placeholder.
func (c *conditions) argument(value any) string {
	c.args = append(c.args, value)
	return fmt.Sprintf("$%d", len(c.args))
}

// add adds a term, in which each %s, or %[1]s, stands for an argument.
func (c *conditions) add(term string, values ...any) {
	names := make([]any, len(values))
	for i, v := range values {
		names[i] = c.argument(v)
	}
	c.terms = append(c.terms, fmt.Sprintf(term, names...))
}

func (c *conditions) where() string {
	if len(c.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(c.terms, " and ")
}

// conditions returns the SQL conditions of a filter.
func (s *Store) conditions(f store.Filter) *conditions {
	c := new(conditions)
	if f.Run != "" {
		c.add("number = %s", s.number(f.Run))
	}
	if len(f.Runs) > 0 {
		numbers := make([]int64, len(f.Runs))
		for i, id := range f.Runs {
			numbers[i] = s.number(id)
		}
		c.add("number = any(%s::bigint[])", numbers)
	}
	if f.After != 0 {
		c.add("number < %s", int64(f.After))
	}
	if ids := f.WorkflowIDs; len(ids) > 0 {
		c.add("(workflow_id = any(%[1]s::text[]) and ended is null or workflow_id = "+
			"any(%[1]s::text[]) and ended is not null)", ids)
	}
	if f.WorkflowID != "" {
		c.add("(workflow_id = %[1]s and ended is null or workflow_id = %[1]s and ended is "+
			"not null)", f.WorkflowID)
	}
	if f.Newest {
		c.terms = append(c.terms, isNewest)
	}
	if f.Workflow != "" {
		c.add("workflow = %s", f.Workflow)
	}
	if f.Without != "" {
		c.add("not starts_with(workflow, %s)", f.Without)
	}
	if f.Parent != 0 {
		c.add("parent = %s and parent > 0", int64(f.Parent))
	}
	if f.Owner != 0 {
		c.add("owner = %s and owner > 0 and ended is null", int64(f.Owner))
	}
	if f.Open {
		c.terms = append(c.terms, "ended is null")
	}
	if !f.Busy.IsZero() {
		c.add(isBusy, nanos(f.Busy))
	}
	if len(f.Statuses) > 0 {
		statuses := make([]int16, len(f.Statuses))
		for i, status := range f.Statuses {
			statuses[i] = int16(status)
		}
		c.add("status = any(%s::smallint[])", statuses)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		c.add(hasAttribute, name, attributeValue([]byte(f.Attributes[name])))
	}
	return c
}

// number returns the number of a run ID, or zero if the ID belongs to another database.
func (s *Store) number(id journal.RunID) int64 {
	n, _ := id.Number(s.database)
	return int64(n)
}
