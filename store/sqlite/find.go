package sqlite

import (
	"context"
	"database/sql/driver"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find returns the heads that match the filter, newest first.
//
// If an index shows that few runs can match, Find reads these and sorts them. Otherwise it walks
// one index in the order of the list, and filters. First it finds the position at which a walk of
// bounded length ends, in the index alone.
func (s *Store) Find(ctx context.Context, f store.Filter) (heads []journal.Head,
	next journal.Cursor, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		q := search{conn: c, store: s, filter: f}
		heads, next, err = q.page()
		return err
	})
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	return heads, next, nil
}

// A search finds one page of heads.
type search struct {
	*conn
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
	match, from, after := q.store.conditions(f), oldest(f), newest(f)
	set, args, err := q.few()
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	if set != "" {
		match.add(set, args...)
		if err := q.read("not indexed", match.between(from, after)); err != nil {
			return nil, journal.Cursor{}, err
		}
		heads, next, _ := q.cut()
		return heads, next, nil
	}
	index, walk := walkOf(f)
	for _, looks := range []int{min(f.Look(), firstLooks), f.Look() - firstLooks} {
		if looks <= 0 {
			break
		}
		end, err := q.end(index, walk.between(from, after), looks)
		if err != nil {
			return nil, journal.Cursor{}, err
		}
		part := match.and(walk).between(from, after)
		if !end.IsZero() {
			part = match.and(walk).between(end, after)
		}
		if err := q.read("indexed by "+index, part); err != nil {
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
	to := journal.Cursor{Created: age(f.CreatedTo), Number: -1}
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
	return journal.Cursor{Created: age(f.CreatedFrom), Number: -1}
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

// read reads heads until there is one more than the page has.
func (q *search) read(hint string, c *condition) error {
	return q.query(func(row []driver.Value) error {
		q.heads = append(q.heads, q.store.head(row))
		return nil
	}, "select "+headColumns+" from perdure_heads "+hint+c.where()+
		" order by created desc, number desc limit ? + 0",
		append(slices.Clip(c.args), int64(q.filter.Page()+1-len(q.heads)))...)
}

// end returns the position of the last run that a walk of that many looks reaches; zero if the walk
// ends before.
func (q *search) end(index string, walk *condition, looks int) (end journal.Cursor, err error) {
	err = q.query(func(row []driver.Value) error {
		end = journal.Cursor{Created: integer(row[0]), Number: journal.Number(integer(row[1]))}
		return nil
	}, "select created, number from perdure_heads indexed by "+index+walk.where()+
		" order by created desc, number desc limit 1 offset ? + 0",
		append(walk.args, int64(looks-1))...)
	return end, err
}

// walkOf returns the index that a search walks in the order of the list, and the condition for the
// part of the index to walk.
func walkOf(f *store.Filter) (index string, walk *condition) {
	index, walk = "perdure_heads_by_age", new(condition)
	names := f.Names()
	switch {
	case f.Error != "" || all(f.Statuses, journal.Status.IsFailure):
		index = "perdure_heads_by_failure"
		walk.add("error is not null")
	case len(names) == 1:
		index = "perdure_heads_by_workflow"
		walk.add("workflow = ?", names[0])
	}
	return index, walk
}

// all reports whether there are statuses and each of them is such a status.
func all(statuses []journal.Status, such func(journal.Status) bool) bool {
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(s journal.Status) bool {
		return !such(s)
	})
}

// few returns the condition of a set of runs that has all runs which match, if it is small; an
// empty text if there is none.
func (q *search) few() (string, []driver.Value, error) {
	f := &q.filter
	if f.Run != "" || len(f.Runs) > 0 {
		return "true", nil, nil
	}
	few := f.Look()
	if ids := f.IDs(); f.Newest && len(ids) > 0 {
		return "number in (" + standing(len(ids)) + ")", padded(ids, textOf), nil
	}
	for _, set := range candidates(f) {
		n, err := q.value("select count(*) from (select 1 from ("+set.sql+") limit ? + 0)",
			append(slices.Clip(set.args), int64(few))...)
		if err != nil {
			return "", nil, err
		}
		if integer(n) < int64(few) {
			return "number in (" + set.sql + ")", set.args, nil
		}
	}
	return "", nil, nil
}

// A set is a query for numbers of runs.
type set struct {
	sql  string
	args []driver.Value
}

// candidates returns the sets that have all runs which match and may be small. Each is read from
// one index.
func candidates(f *store.Filter) (sets []set) {
	add := func(sql string, args ...driver.Value) { sets = append(sets, set{sql, args}) }
	const heads = "select number from perdure_heads "
	if ids := f.IDs(); ids != nil {
		in, args := list(len(ids)), padded(ids, textOf)
		add(heads+"where workflow_id "+in+" and ended is null union all "+heads+
			"where workflow_id "+in+" and ended is not null", append(args, args...)...)
	}
	if f.Parent != 0 {
		add(heads+"where parent = ? and parent > 0", int64(f.Parent))
	}
	if f.Owner != 0 {
		add(heads+"where owner = ? and ended is null", int64(f.Owner))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		add("select run from perdure_attributes where name = ? and value = ?", name,
			f.Attributes[name])
	}
	if all(f.Statuses, isRare) {
		add(heads+"indexed by perdure_heads_by_status where status "+list(len(f.Statuses))+
			" and status > 3 and ended is null", padded(f.Statuses, statusOf)...)
	}
	if !f.Busy.IsZero() {
		add(selectBusy, nanos(f.Busy))
	}
	if f.Open || !f.Stale.IsZero() || all(f.Statuses, journal.Status.IsOpen) {
		add(heads + "indexed by perdure_heads_open where ended is null")
	}
	if names := f.Names(); names != nil {
		add(heads+"indexed by perdure_heads_by_workflow where workflow "+list(len(names)),
			padded(names, textOf)...)
	}
	return sets
}

// isRare reports whether open runs with this status have an index of their own.
func isRare(s journal.Status) bool { return s.IsOpen() && s > journal.Waiting }

func textOf(s string) driver.Value             { return s }
func statusOf(s journal.Status) driver.Value   { return int64(s) }
func patternOf(p journal.Pattern) driver.Value { return int64(p) }

// standing returns the query for the runs that n workflow IDs stand for.
func standing(n int) string {
	return `select coalesce(
    (select n.number from perdure_heads n where n.workflow_id = column1 and n.ended is null),
    (select n.number from perdure_heads n where n.workflow_id = column1 and n.ended is not null order by n.ended desc, n.number desc limit 1))
from (values (?)` + strings.Repeat(", (?)", room(n)-1) + `)`
}

const (
	// isNewest is true for the run that a workflow ID stands for. Each half has an index.
	isNewest = `number = coalesce(
    (select n.number from perdure_heads n where n.workflow_id = perdure_heads.workflow_id and n.ended is null),
    (select n.number from perdure_heads n where n.workflow_id = perdure_heads.workflow_id and n.ended is not null order by n.ended desc, n.number desc limit 1))`

	// selectBusy looks at each workflow separately. So it reads only those sleeping runs that are
	// due.
	selectBusy = `select number from perdure_heads where owner > 0 and ended is null
union all
select number from (
    with recursive names (name) as (
        select (select min(workflow) from perdure_heads where owner = 0 and ended is null)
        union all
        select (select min(workflow) from perdure_heads where owner = 0 and ended is null and workflow > name) from names where name is not null
    )
    select h.number from names n join perdure_heads h on h.owner = 0 and h.workflow = n.name and h.wake <= ? and h.ended is null
)`

	isBusy = `ended is null and (owner > 0 or wake <= ?)`

	isStaleRun = `ended is null and coalesce((select e.at from perdure_entries e where e.run = number order by e.seq desc limit 1), created) < ?`

	hasAttribute = `(select a.value from perdure_attributes a where a.run = number and a.name = ?) = ?`
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

// and returns a new condition for both.
func (c *condition) and(d *condition) *condition {
	return &condition{slices.Concat(c.terms, d.terms), slices.Concat(c.args, d.args)}
}

// between returns a new condition with a part of the list: behind after, and up to from.
func (c *condition) between(from, after journal.Cursor) *condition {
	c = c.and(new(condition))
	if !after.IsZero() {
		c.add("created <= ? and (created, number) < (?, ?)", after.Created, after.Created,
			int64(after.Number))
	}
	if !from.IsZero() {
		c.add("created >= ? and (created, number) >= (?, ?)", from.Created, from.Created,
			int64(from.Number))
	}
	return c
}

func (c *condition) where() string {
	if len(c.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(c.terms, " and ")
}

// conditions returns a filter as SQL, without the times of creation, the position and the page.
func (s *Store) conditions(f *store.Filter) *condition {
	c := new(condition)
	if f.Run != "" {
		c.add("number = ?", number(f.Run, s.database))
	}
	if len(f.Runs) > 0 {
		c.add("number "+list(len(f.Runs)), padded(f.Runs, func(id journal.RunID) driver.Value {
			return number(id, s.database)
		})...)
	}
	if ids := f.IDs(); ids != nil {
		c.add("workflow_id "+list(len(ids)), padded(ids, textOf)...)
	}
	if f.Newest {
		c.add(isNewest)
	}
	if names := f.Names(); names != nil {
		c.add("workflow "+list(len(names)), padded(names, textOf)...)
	}
	if f.Without != "" {
		c.add("substr(workflow, 1, ?) <> ?", int64(utf8.RuneCountInString(f.Without)), f.Without)
	}
	if len(f.Patterns) > 0 {
		c.add("pattern "+list(len(f.Patterns)), padded(f.Patterns, patternOf)...)
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
	if !f.Stale.IsZero() {
		c.add(isStaleRun, nanos(f.Stale))
	}
	if len(f.Statuses) > 0 {
		c.add("status "+list(len(f.Statuses)), padded(f.Statuses, statusOf)...)
	}
	if !f.EndedFrom.IsZero() {
		c.add("ended >= ?", nanos(f.EndedFrom))
	}
	if !f.EndedTo.IsZero() {
		c.add("ended < ?", nanos(f.EndedTo))
	}
	if f.Error != "" {
		c.add("instr(lower(error), ?) > 0", store.Lower(f.Error))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		c.add(hasAttribute, name, f.Attributes[name])
	}
	return c
}

// age returns a time as created has it.
func age(t time.Time) int64 {
	n, ok := nanos(t).(int64)
	if !ok {
		return math.MinInt64
	}
	return n
}

// number returns the number of a run ID; zero if the ID is from another database.
func number(id journal.RunID, database string) driver.Value {
	n, _ := id.Number(database)
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
