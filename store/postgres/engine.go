package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

var (
	insertEngine = `insert into perdure.engines (host, pid, build, slots, since, workflows, seen, leased)
select $1, $2, $3, $4, $5, $6::text[], now, now + $7::bigint * interval '1 microsecond' from clock_timestamp() now returning id`

	nextEngine = `select nextval('perdure.engines_id_seq')`

	// renew reads no other table, so it also succeeds while another transaction has locked
	// those.
	renew = renewFor(`$2::bigint`)

	// renewIdle sets the long lease, $8, if the engine owns no run and has no entry in the
	// outbox.
	renewIdle = renewFor(`case
        when (select true from perdure.heads h where h.owner = $1 and h.owner > 0 and h.ended is null limit 1) then $2::bigint
        when (select true from perdure.owed o where o.teller = $1 limit 1) then $2::bigint
        else $8::bigint end`)

	// findDead returns the engines whose lease has passed, and the microseconds until the
	// next lease passes.
	findDead = `select coalesce(array_agg(id) filter (where leased <= clock_timestamp()), '{}'),
    ceil(extract(epoch from min(leased) filter (where leased > clock_timestamp()) - clock_timestamp()) * 1e6)::bigint,
    exists (select from perdure.fallen)
from perdure.engines where id <> $1`

	// takeOver removes the row of an engine if its lease has still passed, after it has
	// waited for the commits of that engine that have begun. It reads nothing of the engine's
	// runs: only statements that begin after it see the writes of the last of those commits.
	// Only one transaction at a time does it: if two waited for the same commit, each would
	// end the session of the other.
	takeOver = `with gone as (
    delete from perdure.engines where id = $1 and leased <= clock_timestamp() and pg_try_advisory_xact_lock($3, $1::int) returning id)
insert into perdure.fallen (id, now) select id, $2 from gone returning id`

	// whoami returns the process of the session. It also makes the server end the session if
	// its client goes silent.
	whoami = `select pg_backend_pid(), set_config('idle_in_transaction_session_timeout', '1s', true)`

	// endBlocking ends the sessions that block another session, because their engine was
	// stopped during a commit.
	endBlocking = `select pg_terminate_backend(b.pid) from unnest(pg_blocking_pids($1)) as b (pid) where b.pid <> pg_backend_pid()`

	// free takes runs from the engines in the table fallen, some at a time. It skips the runs
	// that another transaction has locked. If a run was executing, free counts a crash.
	free = `with taken as (
    select h.number, f.now, (h.status = $2 or h.claimed) as crashed,
        (select coalesce(max(e.seq), 0) from perdure.entries e where e.run = h.number and e.kind not in ($3, $4)) as last
    from perdure.fallen f cross join lateral (
        select * from perdure.heads h where h.owner = f.id and h.owner > 0 and h.ended is null
        order by h.number + 0 limit $1 for update skip locked) h
    limit $1)
update perdure.heads h set owner = 0, wake = t.now, claimed = false,
    crashes = case when not t.crashed then h.crashes when t.last > h.seen then 1 else h.crashes + 1 end,
    seen = case when t.crashed then t.last else h.seen end
from taken t where h.number = any(array[t.number])`

	// forget removes engines from the table fallen that own no run any more.
	forget = `with gone as (
    delete from perdure.fallen f where (select true from perdure.heads h where h.owner = f.id and h.owner > 0 and h.ended is null limit 1) is null
    returning 1)
select (select count(*) from perdure.fallen) > (select count(*) from gone)`

	// sweep looks at a page of payloads. It removes the payloads that no row names and that
	// no living engine may be about to name.
	sweep = `with page as materialized (
    select id from perdure.spilled where id > $1 order by id limit $2),
gone as (
    delete from perdure.spilled s where s.id = any (array(select id from page))
    and (select true from perdure.engines e where e.id = s.id >> 37) is null
    and (select true from perdure.entries e where e.spill = s.id limit 1) is null
    and (select true from perdure.messages m where m.spill = s.id limit 1) is null
    and (select true from perdure.unrouted u where u.spill = s.id limit 1) is null)
select coalesce(max(id), 0), count(*) = $2 from page`

	// If the clock was put back, runs that were due by the clock before are due now. If it
	// was not, no run is read.
	makeDue = `update perdure.heads h set wake = $1::bigint
where (select $1 < m.value::bigint from perdure.meta m where m.key = 'clock')
and h.owner = 0 and h.ended is null and h.wake > $1 and h.wake <= (select m.value::bigint + $2 from perdure.meta m where m.key = 'clock')`

	resetClock = `update perdure.meta set value = $1::bigint::text where key = 'clock' and $1 < value::bigint`

	releaseOwn = `with own as (select number from perdure.heads where owner = $1 and owner > 0 and ended is null order by number + 0 for no key update)
update perdure.heads h set owner = 0, wake = $2, claimed = false from own where h.number = any(array[own.number])`

	disown = `update perdure.owed set teller = 0 where teller = $1`

	deleteEngine = `with gone as (delete from perdure.engines where id = $1 returning 1)
select 1 / count(*) from gone`
)

// soonAgain is the delay before the next attempt at runs that another transaction has locked.
const soonAgain = 100 * time.Millisecond

// freeAtATime is the number of runs that one statement takes from expired engines.
const freeAtATime = 1000

// join adds an engine, and takes over expired engines.
func (s *Store) join(ctx context.Context, c store.Join) (store.Claimed, error) {
	var b batch
	b.add(makeDue, nanos(c.Now), int64(clockEvery))
	b.add(resetClock, nanos(c.Now))
	var id int64
	b.add(insertEngine, c.Self.Host, int32(c.Self.PID), c.Self.Build, int32(c.Self.Slots),
		nanos(c.Self.Since), c.Self.Workflows, s.options.Lease.Microseconds()).
		each(func(rows pgx.Rows) error { return rows.Scan(&id) })
	if err := b.send(ctx, s.pool); err != nil {
		return store.Claimed{}, err
	}
	s.mu.Lock()
	s.clock = time.Time{}
	s.mu.Unlock()
	out := store.Claimed{Engine: journal.EngineID(id), Lease: s.options.Lease}
	if err := s.succession(ctx, c.Now, &out); err != nil {
		return store.Claimed{}, err
	}
	if last, more := s.sweep(ctx, 0); more {
		go func() { // in the background: the new lease is already running
			for more {
				last, more = s.sweep(s.life, last)
			}
		}()
	}
	return out, nil
}

// sweepAtATime is the number of payloads in a page of a sweep. There may be millions of
// payloads.
const sweepAtATime = 1000

// sweep looks at the page of payloads after a given payload, and returns the last payload of
// the page and whether there may be more. If it fails, the next join removes the rest.
func (s *Store) sweep(ctx context.Context, after int64) (last int64, more bool) {
	if err := s.pool.QueryRow(ctx, sweep, after, sweepAtATime).Scan(&last, &more); err != nil {
		return after, false
	}
	return last, more
}

// renewFor returns the statement that renews the lease of an engine. It updates a column that
// is no key. So it does not wait for commits, which lock the row, and they do not wait for
// it.
func renewFor(lease string) string {
	return `with renewed as (
    update perdure.engines set seen = now, leased = now + i.lease * interval '1 microsecond',
        drains = $3, held_runs = $4, held_steps = $5, workflows = coalesce($6::text[], workflows),
        loops = $7::jsonb
    from clock_timestamp() now, (select ` + lease + ` as lease) i
    where id = $1 returning i.lease)
select 1 / count(*), max(lease) from renewed`
}

// renewal renews the lease of an engine, and takes over expired engines.
func (s *Store) renewal(ctx context.Context, c store.Renew) (store.Claimed, error) {
	loops, err := json.Marshal(c.Loops)
	if err != nil {
		return store.Claimed{}, err
	}
	var b batch
	lease, statement, args := s.options.Lease, renew, []any{
		int64(c.Engine), s.options.Lease.Microseconds(), nanos(c.Drain.Until),
		int32(c.Drain.Runs), int32(c.Drain.Steps), c.Workflows, string(loops),
	}
	if c.Idle {
		statement, args = renewIdle, append(args, (store.IdleLeases*lease).Microseconds())
	}
	b.add(statement, args...).or(store.ErrFenced).each(func(rows pgx.Rows) error {
		var micros int64
		err := rows.Scan(nil, &micros)
		lease = time.Duration(micros) * time.Microsecond
		return err
	})
	if err := b.send(ctx, s.keeper); err != nil {
		return store.Claimed{}, err
	}
	out := store.Claimed{Engine: c.Engine, Lease: lease}
	// An error is ignored: the lease is renewed, and the next renewal goes on.
	_ = s.succession(ctx, c.Now, &out)
	return out, nil
}

// succession takes over expired engines, and frees the runs of all engines in the table
// fallen. An engine that began to free them may have died itself.
func (s *Store) succession(ctx context.Context, now time.Time, out *store.Claimed) error {
	var dead []int64
	var lapse pgtype.Int8
	var expired bool
	if err := s.keeper.QueryRow(ctx, findDead, int64(out.Engine)).Scan(&dead, &lapse,
		&expired); err != nil {
		return err
	}
	if lapse.Valid {
		out.Lapse = time.Duration(lapse.Int64) * time.Microsecond
	}
	others := 0 // how many expired engines others are taking over
	for _, id := range dead {
		gone, err := s.takeOver(ctx, id, now)
		if err != nil {
			return err
		}
		if gone {
			out.Expired++
		} else {
			others++
		}
		expired = true
	}
	for expired {
		tag, err := s.keeper.Exec(ctx, free, freeAtATime, int16(journal.Running),
			int16(journal.StepOutput), int16(journal.StepLogged))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			break
		}
		out.Freed += tag.RowsAffected()
	}
	if expired {
		if err := s.keeper.QueryRow(ctx, forget).Scan(&expired); err != nil {
			return err
		}
	}
	if (expired || others > 0) && (out.Lapse == 0 || out.Lapse > soonAgain) {
		out.Lapse = soonAgain
	}
	if out.Expired > 0 || out.Freed > 0 {
		s.notices.say()
	}
	return nil
}

// patience is how long a take-over waits for the commits of an expired engine before it ends
// their sessions.
const patience = 200 * time.Millisecond

// takeOver removes the row of an expired engine, and reports whether this call removed it.
func (s *Store) takeOver(ctx context.Context, id int64, now time.Time) (gone bool, err error) {
	err = s.keeper.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		var b batch
		b.add(takeOver, id, nanos(now), int32(successionLocks)).each(func(pgx.Rows) error {
			gone = true
			return nil
		})
		b.add(disown, id)
		return s.clearly(ctx, c, &b, patience)
	})
	return gone && err == nil, err
}

// clearly sends a batch that may wait for a session whose connection is lost. Behind a pooler
// the process of a session is only known within a transaction.
func (s *Store) clearly(ctx context.Context, c *pgxpool.Conn, b *batch,
	patience time.Duration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		var pid int32
		if err := tx.QueryRow(ctx, whoami).Scan(&pid, nil); err != nil {
			return err
		}
		over := make(chan struct{})
		go s.clear(ctx, pid, patience, over)
		defer close(over)
		return b.send(ctx, tx)
	})
}

// clear ends the sessions that block the session pid for longer than patience.
func (s *Store) clear(ctx context.Context, pid int32, patience time.Duration,
	over <-chan struct{}) {
	t := time.NewTicker(patience)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			// If this fails, the blocked batch fails by itself.
			_, _ = s.keeper.Exec(ctx, endBlocking, pid)
		case <-over:
			return
		}
	}
}

// reserveID returns an engine ID that no other engine or client ever gets.
func (s *Store) reserveID(ctx context.Context) (store.Claimed, error) {
	var id int64
	err := s.pool.QueryRow(ctx, nextEngine).Scan(&id)
	return store.Claimed{Engine: journal.EngineID(id)}, err
}

// quit releases the runs and the outbox entries of an engine, and removes its row.
func (s *Store) quit(ctx context.Context, c store.Leave) error {
	var b batch
	b.add(holdEngineAlone, int64(c.Engine)).or(store.ErrFenced)
	b.add(releaseOwn, int64(c.Engine), nanos(c.Now))
	b.add(disown, int64(c.Engine))
	b.add(tick, nanos(c.Now))
	b.add(deleteEngine, int64(c.Engine)).or(store.ErrFenced)
	if err := b.send(ctx, s.pool); err != nil {
		return err
	}
	s.notices.say()
	return nil
}
