package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Count returns how many runs match a filter by status.
//
// If an index shows that few runs can match, Count reads these, as Find does. Otherwise it walks an
// index for each kind of runs, as far as the bound.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Count, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	f.After = journal.Cursor{}
	q := search{ctx: ctx, store: s, filter: f}
	counts, err := q.counts()
	if err != nil {
		return nil, s.finished(err)
	}
	return counts, nil
}

func (q *search) counts() (all []store.Count, err error) {
	f := &q.filter
	if f.IsEmpty() {
		return nil, nil
	}
	few, err := q.few()
	if err != nil {
		return nil, err
	}
	if few != nil {
		part := new(conditions)
		few(part)
		found, _, err := q.tally(part, "offset 0", true)
		return store.CountsOf(journal.Statuses(), found, false), err
	}
	for kind, statuses := range f.Kinds() {
		if len(statuses) == 0 {
			continue
		}
		found, looks, err := q.walkKind(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, store.CountsOf(statuses, found, looks == f.Counted())...)
	}
	store.SortCounts(all)
	return all, nil
}

// walkKind walks the index of a kind up to the bound. It returns how many of these runs match, by
// status, and the number of all runs that it has looked at.
func (q *search) walkKind(kind int) (map[journal.Status]int, int, error) {
	f, part, order := q.filter, new(conditions), newestFirst
	if kind == store.KindOpen {
		part.add("ended is null")
		order = " order by workflow_id " // that of the index
	} else {
		if kind == store.KindFailed {
			f.Statuses = []journal.Status{journal.Failed}
		} else {
			f.Statuses = nil
		}
		part.walk(&f)
		part.between(oldest(&f), newest(&f))
	}
	limit := part.argument(f.Counted())
	return q.tally(part, order+"limit "+limit, kind == store.KindOpen)
}

// tally returns how many runs of a part match, by status, and the number of the runs of the part.
// The part is a query of its own, which ends with bound. If it is not in the order of the list,
// it is to be limited to the range of the list here.
func (q *search) tally(part *conditions, bound string, limit bool) (
	found map[journal.Status]int, looks int, err error,
) {
	from := " from (select * from perdure.heads" + part.where() + " " + bound + ") heads"
	part.terms = nil
	match(part, &q.filter)
	if limit {
		part.between(oldest(&q.filter), newest(&q.filter))
	}
	matches := "count(*)"
	if len(part.terms) > 0 {
		matches += " filter (where " + strings.Join(part.terms, " and ") + ")"
	}
	found = map[journal.Status]int{}
	err = q.query("select status, "+matches+", count(*)"+from+" group by status", part.args,
		func(rows pgx.Rows) error {
			var status int16
			var n, all int
			if err := rows.Scan(&status, &n, &all); err != nil {
				return err
			}
			found[journal.Status(status)] += n
			looks += all
			return nil
		})
	return found, looks, err
}
