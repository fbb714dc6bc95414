package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	// selectOver locks runs that a rule names, of one status, those that ended first.
	// One that stands for its workflow ID still is none of them, and none of which an
	// entry is owed, or that is the first of a chain that goes on.
	selectOver = `select number from perdure.heads h where ended is not null and status = $1 and ended <= $2
and case when $3 <> '' then workflow = $3 else workflow <> all($4::text[]) end
and (keep = 0 or ended::numeric + keep < $5::bigint) and not exists (select from perdure.owed o where o.run = h.number)
and not exists (select from perdure.heads o where o.workflow_id = h.workflow_id and o.ended is null and o.chain = h.number)
order by ended limit $6 for update skip locked`

	selectExpired = `select number from perdure.unrouted where until <= $1 order by until limit $2 for update skip locked`

	purgeExpired = `with gone as (delete from perdure.unrouted where number = any($1::bigint[]) returning spill)
delete from perdure.spilled s using gone g where s.id = g.spill
and not exists (select from perdure.entries e where e.spill = s.id)
and not exists (select from perdure.messages m where m.spill = s.id)
and not exists (select from perdure.unrouted u where u.spill = s.id and u.number <> all($1::bigint[]))`
)

// purgeRuns removes runs, in this order: payloads that nothing else names come first.
var purgeRuns = []string{
	`delete from perdure.spilled s where s.id in (
    select spill from perdure.entries where run = any($1::bigint[]) and spill is not null
    union all
    select spill from perdure.messages where run = any($1::bigint[]) and spill is not null)
and not exists (select from perdure.entries e where e.spill = s.id and e.run <> all($1::bigint[]))
and not exists (select from perdure.messages m where m.spill = s.id and m.run <> all($1::bigint[]))
and not exists (select from perdure.unrouted u where u.spill = s.id)`,
	"delete from perdure.entries where run = any($1::bigint[])",
	"delete from perdure.messages where run = any($1::bigint[])",
	"delete from perdure.attributes where run = any($1::bigint[])",
	"delete from perdure.heads where number = any($1::bigint[])",
}

// expiredAtATime bounds how many messages that found no run a purge removes.
const expiredAtATime = 10_000

// Purge removes what is kept no longer.
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if err := s.writable(); err != nil {
		return store.Purged{}, err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.Purged{}, err
	}
	defer done()
	if p.Limit <= 0 {
		p.Limit = store.DefaultLimit
	}
	var out store.Purged
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		out = store.Purged{}
		if p.Engine != 0 {
			var b batch
			b.add(holdEngine, int64(p.Engine)).or(store.ErrFenced)
			if err := b.send(ctx, tx); err != nil {
				return err
			}
		}
		if err := removeRuns(ctx, tx, p, &out); err != nil {
			return err
		}
		return removeUnrouted(ctx, tx, p, &out)
	})
	if err != nil {
		return store.Purged{}, s.finished(err)
	}
	return out, nil
}

func removeRuns(ctx context.Context, tx pgx.Tx, p store.Purge, out *store.Purged) error {
	over, err := overdue(ctx, tx, p)
	if err != nil || len(over) == 0 {
		return err
	}
	if len(over) > p.Limit {
		over, out.More = over[:p.Limit], true
	}
	out.Runs = len(over)
	var b batch
	for _, sql := range purgeRuns {
		b.add(sql, over)
	}
	return b.send(ctx, tx)
}

// overdue gives the runs that the rules name, one more than may go at a time if there
// are so many.
func overdue(ctx context.Context, tx pgx.Tx, p store.Purge) ([]int64, error) {
	named := []string{} // workflows that have rules of their own
	for _, r := range p.Rules {
		if r.Workflow != "" {
			named = append(named, r.Workflow)
		}
	}
	seen := map[int64]bool{}
	var over []int64
	for _, r := range p.Rules {
		statuses := r.Statuses
		if len(statuses) == 0 {
			statuses = journal.Statuses() // of open ones there is none
		}
		for _, status := range statuses {
			var b batch
			b.add(selectOver, int16(status), nanos(r.Before), r.Workflow, named, nanos(p.Now), p.Limit+1).each(func(rows pgx.Rows) error {
				var n int64
				err := rows.Scan(&n)
				if !seen[n] {
					over = append(over, n)
				}
				seen[n] = true
				return err
			})
			if err := b.send(ctx, tx); err != nil || len(over) > p.Limit {
				return over, err
			}
		}
	}
	return over, nil
}

func removeUnrouted(ctx context.Context, tx pgx.Tx, p store.Purge, out *store.Purged) error {
	var expired []int64
	var b batch
	b.add(selectExpired, nanos(p.Now), expiredAtATime+1).each(func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		expired = append(expired, n)
		return err
	})
	if err := b.send(ctx, tx); err != nil || len(expired) == 0 {
		return err
	}
	if len(expired) > expiredAtATime {
		expired, out.More = expired[:expiredAtATime], true
	}
	out.Unrouted = len(expired)
	_, err := tx.Exec(ctx, purgeExpired, expired)
	return err
}
