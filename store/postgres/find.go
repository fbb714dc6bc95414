package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find returns the heads that match a filter, newest first.
//
// If an index shows that few runs can match, Find reads these and sorts them. Otherwise it walks
// one index in the order of the list, and filters. First it finds the position at which a walk of
// bounded length ends, in the index alone.
func (s *Store) Find(ctx context.Context, f store.Filter) (heads []journal.Head,
	next journal.Cursor, err error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, next, err
	}
	defer done()
	if f.Owner != 0 { // an engine looks for the runs that a claim gave it
		if err := s.endLost(ctx); err != nil {
			return nil, next, s.finished(err)
		}
	}
	q := search{ctx: ctx, store: s, filter: f}
	if heads, next, err = q.page(); err != nil {
		return nil, journal.Cursor{}, s.finished(err)
	}
	return heads, next, nil
}

// A search finds one page of heads.
type search struct {
	ctx    context.Context
	store  *Store
	filter store.Filter
	heads  []journal.Head
}

// firstLooks is the length of the first part of a walk. It mostly fills a page.
const firstLooks = 1000

func (q *search) page() ([]journal.Head, journal.Cursor, error) {
	f := &q.filter
	if f.IsEmpty() {
		return nil, journal.Cursor{}, nil
	}
	from, after := oldest(f), newest(f)
	few, err := q.few()
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	if few != nil {
		part := new(conditions)
		few(part)
		if err := q.read(part, "offset 0", from, after); err != nil {
			return nil, journal.Cursor{}, err
		}
		heads, next, _ := q.cut()
		return heads, next, nil
	}
	for _, looks := range []int{min(f.Look(), firstLooks), f.Look() - firstLooks} {
		if looks <= 0 {
			break
		}
		end, err := q.end(from, after, looks)
		if err != nil {
			return nil, journal.Cursor{}, err
		}
		part := new(conditions)
		part.walk(f)
		bound := newestFirst + "offset 0"
		if end.IsZero() { // the walk ends before that many looks, unless runs have come meanwhile
			part.between(from, after)
			bound = newestFirst + "limit " + strconv.Itoa(2*store.MaxLooks)
		} else {
			part.between(end, after)
		}
		if err := q.read(part, bound, journal.Cursor{}, journal.Cursor{}); err != nil {
			return nil, journal.Cursor{}, err
		}
		if heads, next, full := q.cut(); full || end.IsZero() {
			return heads, next, nil
		}
		after = end
	}
	return q.heads, after, nil
}

// newest returns the position that the list begins after; zero for the newest run of all. No run
// has a negative number.
func newest(f *store.Filter) journal.Cursor {
	to := journal.Cursor{Created: nanos(f.CreatedTo).Int64, Number: -1}
	if f.CreatedTo.IsZero() || !f.After.IsZero() && f.After.Compare(to) < 0 {
		return f.After
	}
	return to
}

// oldest returns the position that the list ends with; zero for the oldest run of all.
func oldest(f *store.Filter) journal.Cursor {
	if f.CreatedFrom.IsZero() {
		return journal.Cursor{}
	}
	return journal.Cursor{Created: nanos(f.CreatedFrom).Int64, Number: -1}
}

// cut returns the heads that were read, at most a page, and the cursor of the next page. It reports
// whether there are more heads than the page has.
func (q *search) cut() ([]journal.Head, journal.Cursor, bool) {
	page := q.filter.Page()
	if len(q.heads) <= page {
		return q.heads, journal.Cursor{}, false
	}
	return q.heads[:page], q.heads[page-1].Cursor(), true
}

// query makes one query.
func (q *search) query(sql string, args []any, each func(pgx.Rows) error) error {
	var b batch
	b.add(sql, args...).each(each)
	return b.send(q.ctx, q.store.pool)
}

// newestFirst is the order of a list.
const newestFirst = " order by created desc, number desc "

// read reads the heads of a part of the runs that match and are in a range of the list, until there
// is one more than the page has. The part is a query of its own, which ends with bound, so that no
// other condition decides which index is read.
func (q *search) read(c *conditions, bound string, from, after journal.Cursor) error {
	part := c.where()
	c.terms = nil
	match(c, &q.filter)
	c.between(from, after)
	limit := c.argument(q.filter.Page() + 1 - len(q.heads))
	return q.query("select "+headColumns+" from (select * from perdure.heads"+part+" "+
		bound+") heads"+c.where()+newestFirst+"limit "+limit, c.args, func(rows pgx.Rows) error {
		h, err := q.store.scanHead(rows)
		q.heads = append(q.heads, h)
		return err
	})
}

// end returns the position of the last run that a walk of that many looks reaches; zero if the walk
// ends before.
func (q *search) end(from, after journal.Cursor, looks int) (end journal.Cursor, err error) {
	c := new(conditions)
	c.walk(&q.filter)
	c.between(from, after)
	offset := c.argument(looks - 1)
	err = q.query("select created, number from perdure.heads"+c.where()+
		newestFirst+"limit 1 offset "+offset, c.args,
		func(rows pgx.Rows) error { return rows.Scan(&end.Created, &end.Number) })
	return end, err
}

// few returns what adds the condition of a set of runs that has all runs which match, if it is
// small; nil if there is none.
func (q *search) few() (func(*conditions), error) {
	f := &q.filter
	if f.Run != "" || len(f.Runs) > 0 {
		return func(c *conditions) { q.store.runs(c, f) }, nil
	}
	if ids := f.IDs(); f.Newest && len(ids) > 0 {
		return func(c *conditions) { c.add(stands, ids) }, nil
	}
	few := f.Look()
	for _, s := range candidates(f) {
		c := new(conditions)
		c.add(s.sql, s.args...)
		n := 0
		limit := c.argument(few)
		err := q.query("select count(*) from (select from ("+c.terms[0]+") s limit "+limit+") c",
			c.args, func(rows pgx.Rows) error { return rows.Scan(&n) })
		if err != nil {
			return nil, err
		}
		if n < few {
			return func(c *conditions) {
				c.add(fmt.Sprintf("number = any(array(select number from (%s) s limit %d))", s.sql,
					2*store.MaxLooks), s.args...) // some may have come meanwhile
			}, nil
		}
	}
	return nil, nil
}

// A set is a query for numbers of runs, in the form of conditions.add.
type set struct {
	sql  string
	args []any
}

// candidates returns the sets that have all runs which match and may be small. Each is read from
// one index.
func candidates(f *store.Filter) (sets []set) {
	add := func(sql string, args ...any) { sets = append(sets, set{sql, args}) }
	const heads = "select number from perdure.heads "
	if ids := f.IDs(); ids != nil {
		add(heads+"where workflow_id = any(%[1]s::text[]) and ended is null union all "+heads+
			"where workflow_id = any(%[1]s::text[]) and ended is not null", ids)
	}
	if f.Parent != 0 {
		add(heads+"where parent = %s and parent > 0", int64(f.Parent))
	}
	if f.Owner != 0 {
		add(heads+"where owner = %s and owner > 0 and ended is null", int64(f.Owner))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		add("select run as number from perdure.attributes where name = %s and value = %s", name,
			attributeValue([]byte(f.Attributes[name])))
	}
	if !f.Busy.IsZero() {
		add(selectBusy, nanos(f.Busy))
	}
	if f.Open || !f.Stale.IsZero() || all(f.Statuses, journal.Status.IsOpen) {
		add(heads + "where ended is null")
	}
	if names := f.Names(); names != nil {
		add(heads+"where workflow = any(%s::text[])", names)
	}
	return sets
}

// all reports whether there are statuses and each of them is such a status.
func all(statuses []journal.Status, such func(journal.Status) bool) bool {
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(s journal.Status) bool {
		return !such(s)
	})
}

const (
	// isNewest holds for the run that a workflow ID refers to. Each half uses an index.
	isNewest = `number = coalesce(
    (select n.number from perdure.heads n where n.workflow_id = heads.workflow_id and n.ended is null),
    (select n.number from perdure.heads n where n.workflow_id = heads.workflow_id and n.ended is not null order by n.ended desc, n.number desc limit 1))`

	// stands holds for the runs that workflow IDs refer to.
	stands = `number = any(array(select coalesce(
    (select n.number from perdure.heads n where n.workflow_id = i.id and n.ended is null),
    (select n.number from perdure.heads n where n.workflow_id = i.id and n.ended is not null order by n.ended desc, n.number desc limit 1))
from unnest(%s::text[]) as i (id)))`

	// selectBusy searches workflow by workflow. So of the sleeping runs it reads only the due
	// runs.
	selectBusy = `select number from perdure.heads where owner > 0 and ended is null
union all
select number from (
    with recursive names (name) as (
        (select min(workflow) from perdure.heads where owner = 0 and ended is null)
        union all
        select (select min(workflow) from perdure.heads where owner = 0 and ended is null and workflow > name) from names where name is not null
    )
    select h.number from names n cross join lateral (
        select number from perdure.heads where owner = 0 and workflow = n.name and wake <= %s and ended is null offset 0) h
) due`

	isStale = `ended is null and coalesce((select e.at from perdure.entries e where e.run = heads.number order by e.seq desc limit 1), created) < %s`

	hasAttribute = `(select a.value from perdure.attributes a where a.run = heads.number and a.name = %s) = %s`
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

// walk adds the condition of the part of an index that a search walks in the order of the list.
// Each such index has that order.
func (c *conditions) walk(f *store.Filter) {
	names := f.Names()
	switch {
	case f.Error != "" || all(f.Statuses, journal.Status.IsFailure):
		c.add("error is not null")
	case len(names) == 1:
		c.add("workflow = %s", names[0])
	}
}

// between adds a part of the list: behind after, and up to from.
func (c *conditions) between(from, after journal.Cursor) {
	if !after.IsZero() {
		c.add("(created, number) < (%s, %s)", after.Created, int64(after.Number))
	}
	if !from.IsZero() {
		c.add("(created, number) >= (%s, %s)", from.Created, int64(from.Number))
	}
}

func (c *conditions) where() string {
	if len(c.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(c.terms, " and ")
}

// runs adds the conditions for the numbers of runs.
func (s *Store) runs(c *conditions, f *store.Filter) {
	if f.Run != "" {
		c.add("number = %s", number(f.Run, s.database))
	}
	if len(f.Runs) > 0 {
		numbers := make([]int64, len(f.Runs))
		for i, id := range f.Runs {
			numbers[i] = number(id, s.database)
		}
		c.add("number = any(%s::bigint[])", numbers)
	}
}

// match adds the conditions of a filter, without the numbers of runs, the times of creation, the
// position and the page.
func match(c *conditions, f *store.Filter) {
	if ids := f.IDs(); ids != nil {
		c.add("workflow_id = any(%s::text[])", ids)
	}
	if f.Newest {
		c.terms = append(c.terms, isNewest)
	}
	if names := f.Names(); names != nil {
		c.add("workflow = any(%s::text[])", names)
	}
	if f.Without != "" {
		c.add("not starts_with(workflow, %s)", f.Without)
	}
	if len(f.Patterns) > 0 {
		c.add("pattern = any(%s::smallint[])", smallInts(f.Patterns))
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
		c.add("ended is null and (owner > 0 or wake <= %s)", nanos(f.Busy))
	}
	if len(f.Statuses) > 0 {
		c.add("status = any(%s::smallint[])", smallInts(f.Statuses))
	}
	if f.Error != "" {
		c.add(`strpos(lower(error collate "C"), %s) > 0`, text(store.Lower(f.Error)).String)
	}
	c.times(f)
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		c.add(hasAttribute, name, attributeValue([]byte(f.Attributes[name])))
	}
}

// times adds the conditions for times.
func (c *conditions) times(f *store.Filter) {
	for _, t := range []struct {
		term string
		at   time.Time
	}{
		{isStale, f.Stale}, {"ended >= %s", f.EndedFrom}, {"ended < %s", f.EndedTo},
	} {
		if !t.at.IsZero() {
			c.add(t.term, nanos(t.at))
		}
	}
}

func smallInts[E ~uint8](values []E) []int16 {
	out := make([]int16, len(values))
	for i, v := range values {
		out[i] = int16(v)
	}
	return out
}

// number returns the number of a run ID, or zero if the ID belongs to another database.
func number(id journal.RunID, database string) int64 {
	n, _ := id.Number(database)
	return int64(n)
}
