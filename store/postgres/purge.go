package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// selectOver locks expired runs that have no entry in the outbox. It leaves out a run whose
// chain still has an open run if the run is the first of that chain or has not continued as
// new.
var selectOver = fmt.Sprintf(
	`select number from perdure.heads h where expires <= $1 and (select true from perdure.owed o where o.run = h.number limit 1) is null
and (select true from perdure.heads o where o.workflow_id = h.workflow_id and o.ended is null
    and (o.chain = h.number or o.chain = h.chain and h.chain > 0 and h.status <> %d)) is null
order by expires limit $2 for update skip locked`, journal.ContinuedAsNew)

const (
	vanish = `with gone as (delete from perdure.heads where number = any($1::bigint[]) returning number, inbox)
insert into perdure.gone (run, inbox) select number, inbox from gone returning run, coalesce(inbox, run)`

	selectGone = `select run, coalesce(inbox, run) from perdure.gone where run > 0 order by run limit $1 for update skip locked`

	// measure finds rows that are left of removed runs, by table: entries, messages,
	// attributes. The messages are those that the run has taken, and those of its inbox that
	// no run can take any more: the inbox of a continued run belongs to its successor. A row
	// that names a payload counts as two rows.
	measure = `select p.part, p.run, p.key, p.name, p.rows, p.bytes
from unnest($1::bigint[], $3::bigint[]) as k (run, inbox) cross join lateral (
    (select 0 as part, run, seq as key, null as name, 1 + (spill is not null)::int as rows, ` + sizeOf +
		` as bytes
    from perdure.entries e where run = k.run order by seq limit $2)
    union all
    (select 1, holder, number, null, 1 + (spill is not null)::int, ` + sizeOf +
		` from perdure.messages e
    where holder = k.run and taken is not null order by number limit $2)
    union all
    (select 1, holder, number, null, 1 + (spill is not null)::int, ` + sizeOf +
		` from perdure.messages e
    where holder = k.inbox and taken is null order by number limit $2)
    union all
    (select 2, run, 0, name, 1, 0 from perdure.attributes where run = k.run order by name limit $2)) p limit $2`

	sizeOf = `coalesce(octet_length(data), 0) + coalesce((select octet_length(s.data) from perdure.spilled s where s.id = e.spill), 0)`

	clearAttributes = `delete from perdure.attributes a using unnest($1::bigint[], $2::text[]) as k (run, name) where a.run = any(array[k.run]) and a.name = any(array[k.name])`

	// forgetGone ends the purge of runs of which no rows are left.
	forgetGone = `delete from perdure.gone g where run = any($1::bigint[])
and (select true from perdure.entries where run = g.run limit 1) is null
and (select true from perdure.messages where holder = g.run and taken is not null limit 1) is null
and (select true from perdure.messages where holder = coalesce(g.inbox, g.run) and taken is null limit 1) is null
and (select true from perdure.attributes where run = g.run limit 1) is null
returning run`

	selectExpired = `select number, 1 + (spill is not null)::int, ` + sizeOf +
		` from perdure.unrouted e where until <= $1 order by until limit $2 for update skip locked`

	purgeExpired = `with gone as (delete from perdure.unrouted where number = any($1::bigint[]) returning spill)
delete from perdure.spilled s using gone g where s.id = any(array[g.spill])
and (select true from perdure.entries e where e.spill = s.id limit 1) is null
and (select true from perdure.messages m where m.spill = s.id limit 1) is null
and (select true from perdure.unrouted u where u.spill = s.id and u.number <> all($1::bigint[]) limit 1) is null
returning s.id`

	// selectUnsaid locks runs that have ended without a retention.
	selectUnsaid = `select ` + headColumns +
		` from perdure.heads where retain = '' and ended is not null and workflow = any($1::text[]) limit $2 for update skip locked`
	sayRetention = `update perdure.heads h set retain = u.retain, expires = nullif(u.expires, -9223372036854775808)
from unnest($1::bigint[], $2::text[], $3::bigint[]) as u (number, retain, expires) where h.number = any(array[u.number])`
)

// clearParts are the statements that remove rows, given by their keys, of removed runs ($3),
// whose inboxes are $4. Payloads that only these rows name are removed before the rows.
var clearParts = [...]string{
	`with gone as (
    delete from perdure.entries e using unnest($1::bigint[], $2::bigint[]) as k (run, key) where e.run = any(array[k.run]) and e.seq = any(array[k.key]) returning e.spill)
delete from perdure.spilled s using gone g where s.id = any(array[g.spill])
` + unnamed,
	`with gone as (
    delete from perdure.messages e using unnest($1::bigint[], $2::bigint[]) as k (run, key) where e.holder = any(array[k.run]) and e.number = any(array[k.key]) returning e.spill)
delete from perdure.spilled s using gone g where s.id = any(array[g.spill])
` + unnamed,
}

const unnamed = `and (select true from perdure.entries e where e.spill = s.id and e.run <> all($3::bigint[]) limit 1) is null
and (select true from perdure.messages m where m.spill = s.id and m.holder <> all($4::bigint[]) limit 1) is null
and (select true from perdure.unrouted u where u.spill = s.id limit 1) is null
returning s.id`

// Purge removes data whose retention is over.
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if err := s.writable(); err != nil {
		return store.Purged{}, err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.Purged{}, err
	}
	defer done()
	var g purging
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		g = purging{ctx: ctx, tx: tx, store: s, purge: &p, left: p.Rows()}
		if p.Engine != 0 {
			var b batch
			b.add(holdEngine, int64(p.Engine)).or(store.ErrFenced)
			if err := b.send(ctx, tx); err != nil {
				return err
			}
		}
		if said, err := g.say(); err != nil || said {
			g.More = said
			return err
		}
		for _, step := range []func() error{g.vanish, g.clear, g.expire} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Purged{}, s.finished(err)
	}
	return g.Purged, nil
}

// A purging is a purge in progress.
type purging struct {
	store.Purged
	ctx   context.Context
	tx    pgx.Tx
	store *Store
	purge *store.Purge
	gone  []int64 // removed runs that still have rows
	inbox []int64 // holders of the untaken messages of each of them
	left  int     // number of rows that may still be removed
	bytes int64   // of removed payloads
}

// do executes one statement and reads its rows.
func (g *purging) do(read func(pgx.Rows) error, sql string, args ...any) error {
	var b batch
	b.add(sql, args...).each(read)
	return b.send(g.ctx, g.tx)
}

// numbers executes a statement that returns numbers.
func (g *purging) numbers(sql string, args ...any) ([]int64, error) {
	var out []int64
	err := g.do(func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		out = append(out, n)
		return err
	}, sql, args...)
	return out, err
}

// spend counts rows and bytes that are removed.
func (g *purging) spend(rows, bytes int64) {
	g.left, g.bytes = g.left-int(rows), g.bytes+bytes
}

// fits reports whether rows may be removed in addition to those that already are: at least
// one row may, with its payload.
func (g *purging) fits(rows, bytes int64) bool {
	return g.left == g.purge.Rows() || rows <= int64(g.left) && g.bytes+bytes < store.PurgeBytes
}

// say sets the retention of runs that have ended without one, and reports whether there were
// any. Later purges remove the data that has expired then.
func (g *purging) say() (bool, error) {
	var workflows, retain []string
	for workflow, r := range g.purge.Unsaid {
		if r != "" {
			workflows = append(workflows, workflow)
		}
	}
	if len(workflows) == 0 {
		return false, nil
	}
	var number, expires []int64
	err := g.do(func(rows pgx.Rows) error {
		h, err := g.store.scanHead(rows)
		h.Retain = g.purge.Unsaid[h.Workflow]
		number, retain, expires = append(number, int64(h.Number)), append(retain, string(h.Retain)),
			append(expires, instant(h.Expires()))
		return err
	}, selectUnsaid, workflows, g.purge.Rows())
	if err != nil || len(number) == 0 {
		return false, err
	}
	return true, g.do(nil, sayRetention, number, retain, expires)
}

// vanish removes the heads of expired runs, unless rows of runs removed before are left.
func (g *purging) vanish() error {
	if err := g.leftBy(selectGone, g.left); err != nil || len(g.gone) > 0 {
		g.More = true // nothing has looked for expired runs yet
		return err
	}
	most := g.purge.Heads()
	over, err := g.numbers(selectOver, nanos(g.purge.Now), most+1)
	if err != nil || len(over) == 0 {
		return err
	}
	if len(over) > most {
		over, g.More = over[:most], true
	}
	g.Runs, g.Rows = len(over), len(over)
	g.spend(int64(len(over)), 0)
	return g.leftBy(vanish, over)
}

// leftBy adds the removed runs that a statement returns, of which rows are left.
func (g *purging) leftBy(sql string, args ...any) error {
	return g.do(func(rows pgx.Rows) error {
		var run, inbox int64
		err := rows.Scan(&run, &inbox)
		g.gone, g.inbox = append(g.gone, run), append(g.inbox, inbox)
		return err
	}, sql, args...)
}

// leftovers are rows of removed runs, by table.
type leftovers struct {
	run, key [len(clearParts) + 1][]int64
	name     []string
}

// clear removes rows of runs whose heads were removed before.
func (g *purging) clear() error {
	if len(g.gone) == 0 {
		return nil
	}
	var rest leftovers
	full := false
	err := g.do(func(rows pgx.Rows) error {
		var part int
		var run, key, count, bytes int64
		var name *string
		if err := rows.Scan(&part, &run, &key, &name, &count, &bytes); err != nil {
			return err
		}
		if full = full || !g.fits(count, bytes); full {
			return nil
		}
		g.spend(count, bytes)
		rest.run[part], rest.key[part] = append(rest.run[part], run), append(rest.key[part], key)
		if name != nil {
			rest.name = append(rest.name, *name)
		}
		return nil
	}, measure, g.gone, max(g.left, 1), g.inbox)
	if err != nil {
		return err
	}
	if err := g.remove(&rest); err != nil {
		return err
	}
	done, err := g.numbers(forgetGone, g.gone)
	g.More = g.More || len(done) < len(g.gone)
	return err
}

// remove removes rows of removed runs, and the payloads that only those rows name.
func (g *purging) remove(rest *leftovers) error {
	for part, sql := range clearParts {
		if len(rest.run[part]) == 0 {
			continue
		}
		payloads, err := g.numbers(sql, rest.run[part], rest.key[part], g.gone, g.inbox)
		if err != nil {
			return err
		}
		g.Rows += len(rest.run[part]) + len(payloads)
	}
	g.Rows += len(rest.name)
	if len(rest.name) == 0 {
		return nil
	}
	return g.do(nil, clearAttributes, rest.run[len(clearParts)], rest.name)
}

// expire removes unrouted messages that have expired.
func (g *purging) expire() error {
	var expired []int64
	full := false
	err := g.do(func(rows pgx.Rows) error {
		var number, count, bytes int64
		if err := rows.Scan(&number, &count, &bytes); err != nil {
			return err
		}
		if full = full || !g.fits(count, bytes); full {
			g.More = true
			return nil
		}
		g.spend(count, bytes)
		expired = append(expired, number)
		return nil
	}, selectExpired, nanos(g.purge.Now), max(g.left, 0)+1)
	if err != nil || len(expired) == 0 {
		return err
	}
	payloads, err := g.numbers(purgeExpired, expired)
	g.Unrouted = len(expired)
	g.Rows += len(expired) + len(payloads)
	return err
}
