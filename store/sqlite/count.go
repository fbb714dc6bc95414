package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Count returns how many runs match the filter by status.
//
// If an index shows that few runs can match, Count reads these, as Find does. Otherwise it walks an
// index for each kind of runs, as far as the bound.
func (s *Store) Count(ctx context.Context, f store.Filter) (counts []store.Count, err error) {
	f.After = journal.Cursor{}
	err = s.read(ctx, func(c *conn) (err error) {
		q := search{conn: c, store: s, filter: f}
		counts, err = q.counts()
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

func (q *search) counts() (all []store.Count, err error) {
	f := &q.filter
	if f.IsEmpty() {
		return nil, nil
	}
	set, args, err := q.few()
	if err != nil {
		return nil, err
	}
	match := q.store.conditions(f)
	if set != "" {
		match.add(set, args...)
		match = match.between(oldest(f), newest(f))
		found, _, err := q.tally("select status, count(*), 0 from perdure_heads not indexed"+
			match.where()+" group by status", match.args)
		return store.CountsOf(journal.Statuses(), found, false), err
	}
	for kind, statuses := range f.Kinds() {
		if len(statuses) == 0 {
			continue
		}
		found, looks, err := q.walkKind(kind, match)
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
func (q *search) walkKind(kind int, match *condition) (map[journal.Status]int, int, error) {
	f := q.filter
	index, walk, order := "perdure_heads_open", new(condition), ""
	if kind == store.KindOpen { // the index is in the order of the workflow IDs
		walk.add("ended is null")
		match = match.between(oldest(&f), newest(&f))
	} else {
		if kind == store.KindFailed {
			f.Statuses = []journal.Status{journal.Failed}
		} else {
			f.Statuses = nil
		}
		index, walk = walkOf(&f)
		walk = walk.between(oldest(&f), newest(&f))
		order = " order by created desc, number desc"
	}
	matches := "count(*)"
	if len(match.terms) > 0 {
		matches = "count(case when " + match.where()[len(" where "):] + " then 1 end)"
	}
	return q.tally("select status, "+matches+", count(*) from (select * from perdure_heads "+
		"indexed by "+index+walk.where()+order+" limit ? + 0) perdure_heads group by status",
		append(slices.Concat(match.args, walk.args), int64(f.Counted())))
}

// tally makes a query for statuses with their numbers of runs that match and of runs looked at.
func (q *search) tally(sql string, args []driver.Value) (found map[journal.Status]int, looks int,
	err error) {
	found = map[journal.Status]int{}
	err = q.query(func(row []driver.Value) error {
		found[journal.Status(integer(row[0]))] += int(integer(row[1]))
		looks += int(integer(row[2]))
		return nil
	}, sql, args...)
	return found, looks, err
}
