package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Claim makes a claim: it adds an engine, renews its lease, assigns runs to it, or removes
// it.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if err := s.writable(); err != nil {
		return store.Claimed{}, err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.Claimed{}, err
	}
	defer done()
	out, err := s.claim(ctx, c)
	if err != nil {
		return store.Claimed{}, s.finished(err)
	}
	return out, nil
}

func (s *Store) claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	switch c := c.(type) {
	case store.Join:
		return s.join(ctx, c)
	case store.ReserveID:
		return s.reserveID(ctx)
	case store.Renew:
		return s.renewal(ctx, c)
	case store.Leave:
		return store.Claimed{Engine: c.Engine}, s.quit(ctx, c)
	case store.TakeRun:
		return s.take(ctx, c.Engine, func(t *taking) error { return t.one(ctx, c.Run) })
	case store.TakeDue:
		seen, err := s.looks(ctx, c)
		if err != nil || seen.idle {
			return seen.Claimed, err
		}
		return s.take(ctx, c.Engine, func(t *taking) error {
			t.out.Settings, t.doomed = seen.Settings, seen.doomed
			return t.due(ctx, c)
		})
	case store.TakeOutbox:
		return s.outbox(ctx, c)
	}
	return store.Claimed{}, store.InvalidClaim(c)
}

const (
	// shorten ends the long lease of an engine that becomes the owner of a run, in the same
	// transaction. It is the beginning of a statement that makes the engine the owner.
	shorten = `with short as (
    update perdure.engines e set leased = now + $3::bigint * interval '1 microsecond'
    from clock_timestamp() now where e.id = $1 and e.leased > now + $3::bigint * interval '1 microsecond')
`

	// seeMail marks all messages of the engine's runs as given, and returns how many were
	// given before. It skips the runs that another transaction has locked. mailLeft reports
	// whether there are such runs.
	seeMail = `with unseen as (
    select number, given from perdure.heads where owner = $1 and mail > given and owner > 0 and ended is null
    order by number + 0 for no key update skip locked)
update perdure.heads h set given = h.mail from unseen u where h.number = any(array[u.number]) returning u.given, `

	mailLeft = `select exists (select from perdure.heads where owner = $1 and mail > given and owner > 0 and ended is null)`

	// selectDue locks due runs, up to the maximum for each workflow. It skips the runs that
	// another engine is about to take.
	selectDue = `select %[1]s from unnest($1::text[]) as w (name)
cross join lateral (
    select * from perdure.heads where %[2]s and workflow = w.name and wake <= $2
    order by wake, number limit $3 for no key update skip locked) h
order by h.wake, h.number limit $3`

	claimable = `owner = 0 and ended is null`

	// hasOrder hides from the planner that the runs are open and nobody's: the index of those
	// has all that are due.
	hasOrder = `ordered > 0 and case when ordered > 0 then owner = 0 and ended is null end`

	// isDoomed is for a run that is to be terminated although no engine has its workflow. Like
	// hasOrder, it hides from the planner that the runs are open and nobody's. The engine's own
	// workflows are in $2 and $3: without them it is for runs of these too.
	isDoomed = `h.ordered = 2 and case when h.ordered = 2 then h.owner = 0 and h.ended is null end
    and array_position($2::text[], h.workflow) is null and array_position($3::text[], h.workflow) is null
    and (select true from perdure.engines e where e.id <> $1 and (e.workflows is null or h.workflow = any(e.workflows)) limit 1) is null`

	// selectDoomed is like selectDue for such runs.
	selectDoomed = `select %s from perdure.heads h where ` + isDoomed + ` and h.wake <= $4
order by h.wake, h.number limit $5 for no key update of h skip locked`

	own = shorten +
		`update perdure.heads set owner = $1, given = mail, claimed = true where number = any($2::bigint[])`

	// look reads in one statement whether the engine lives, whether it has messages that it
	// was not given or a workflow that is paused has a run with an order, whether a run is
	// doomed, and when the next run is due.
	look = `select exists (select from perdure.engines where id = $1), (select coalesce(max(revision), 0) from perdure.settings),
    exists (select from perdure.heads where owner = $1 and mail > given and owner > 0 and ended is null)
    or exists (select from unnest($3::text[]) as w (name) cross join lateral (
        select from perdure.heads where ` + hasOrder + ` and workflow = w.name and wake is not null limit 1) o),
    exists (select from perdure.heads h where ` + isDoomed + ` and h.wake is not null limit 1),
    (select min(n.wake) from unnest($2::text[]) as w (name) cross join lateral (
        select h.wake from perdure.heads h where h.owner = 0 and h.workflow = w.name and h.wake is not null and h.ended is null
        order by h.wake, h.number limit 1) n)`

	// selectNext leaves out a due run that another engine is about to take: it would stay due
	// until that engine has taken it.
	selectNext = `select min(least(
    (select h.wake from perdure.heads h where %[1]s and h.workflow = w.name and h.wake > $2
    order by h.wake, h.number limit 1),
    (select h.wake from perdure.heads h where %[1]s and h.workflow = w.name and h.wake <= $2
    order by h.wake, h.number limit 1 for no key update skip locked))) from unnest($1::text[]) as w (name)`

	// selectNextDoomed is like selectNext for runs that are to be terminated.
	selectNextDoomed = `select least(
    (select h.wake from perdure.heads h where ` + isDoomed + ` and h.wake > $4
    order by h.wake, h.number limit 1),
    (select h.wake from perdure.heads h where ` + isDoomed + ` and h.wake <= $4
    order by h.wake, h.number limit 1 for no key update of h skip locked))`

	// ownOne hides from the planner that the run is open: the index of open runs is not
	// suitable for finding a run by its number.
	ownOne = shorten + `update perdure.heads set owner = $1, given = mail, claimed = true
where number = $2 and case when owner in (0, $1) then ended is null end returning `
)

// claimBytes limits the size of the journals that one claim returns.
const claimBytes = 32 << 20

// take calls do in a transaction of an engine. do assigns runs and messages to the engine.
func (s *Store) take(ctx context.Context, engine journal.EngineID,
	do func(*taking) error) (store.Claimed, error) {
	var out store.Claimed
	err := s.use(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			out = store.Claimed{Engine: engine}
			return do(&taking{store: s, tx: tx, engine: engine, out: &out})
		})
	})
	if len(out.Runs) > 0 || len(out.Mail) > 0 {
		s.busy.Add(1)
	}
	return out, err
}

// A glance is the result of a look for runs.
type glance struct {
	store.Claimed
	idle   bool // there is nothing to take now
	doomed bool // there are runs to be terminated that no engine has the workflow of
}

// looks reports whether there is nothing to take now, which is the usual case.
func (s *Store) looks(ctx context.Context, c store.TakeDue) (out glance, err error) {
	var alive, mail bool
	var revision int64
	var next pgtype.Int8
	names, paused := c.Workflows, c.Paused
	if c.Max <= 0 {
		names, paused = nil, nil
	}
	if err := s.pool.QueryRow(ctx, look, int64(c.Engine), names, paused).Scan(&alive,
		&revision, &mail, &out.doomed, &next); err != nil {
		return out, err
	}
	if !alive {
		return out, store.ErrFenced
	}
	out.Claimed = store.Claimed{Engine: c.Engine, Next: moment(next), Settings: revision}
	out.doomed = out.doomed && c.Max > 0 // without names, the engine's own runs were counted
	out.idle = !mail && !out.doomed && (out.Next.IsZero() || out.Next.After(c.Now))
	return out, nil
}

// A taking is a claim of runs in progress. It reads a run before it makes the engine its
// owner: a run that is too large to return now stays unchanged.
type taking struct {
	store  *Store
	tx     pgx.Tx
	engine journal.EngineID
	doomed bool // see glance
	out    *store.Claimed
}

// one takes a run by its number, if it is open and no other engine owns it.
func (t *taking) one(ctx context.Context, run journal.Number) error {
	var b batch
	var taken []journal.Head
	b.add(holdEngine, int64(t.engine)).or(store.ErrFenced)
	b.add(ownOne+headColumns, int64(t.engine), int64(run), t.store.options.Lease.Microseconds()).
		each(t.heads(&taken))
	if err := b.send(ctx, t.tx); err != nil || len(taken) == 0 {
		return err
	}
	r := reading{store: t.store, from: t.tx}
	runs, err := r.read(ctx, taken)
	t.out.Runs, t.out.Lease = runs, t.store.options.Lease
	return err
}

// heads returns a function that appends the heads it reads.
func (t *taking) heads(into *[]journal.Head) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		h, err := t.store.scanHead(rows)
		*into = append(*into, h)
		return err
	}
}

// due takes the runs that are due, and returns the messages that the engine's own runs have
// got and the engine was not given.
func (t *taking) due(ctx context.Context, c store.TakeDue) error {
	var b batch
	var due []journal.Head
	var given []int64
	b.add(holdEngine, int64(t.engine)).or(store.ErrFenced)
	b.add(seeMail+of("h", headColumns), int64(t.engine)).each(func(rows pgx.Rows) error {
		var before int64
		h, err := t.store.scanHead(rows, &before)
		given, t.out.Mail = append(given, before), append(t.out.Mail, store.Run{Head: h})
		return err
	})
	var left bool
	b.add(mailLeft, int64(t.engine)).each(func(rows pgx.Rows) error { return rows.Scan(&left) })
	if c.Max > 0 {
		if len(c.Paused) > 0 {
			b.add(orderedHeads, c.Paused, nanos(c.Now), c.Max+1).each(t.heads(&due))
		}
		if t.doomed {
			b.add(doomedHeads, int64(t.engine), c.Workflows, c.Paused, nanos(c.Now), c.Max+1).
				each(t.heads(&due))
		}
		b.add(dueHeads, c.Workflows, nanos(c.Now), c.Max+1).each(t.heads(&due))
		t.next(&b, c)
	}
	if err := b.send(ctx, t.tx); err != nil {
		return err
	}
	r := reading{store: t.store, from: t.tx}
	for i := range t.out.Mail {
		if err := r.inbox(ctx, &t.out.Mail[i], given[i]); err != nil {
			return err
		}
	}
	if len(due) > 0 {
		runs, err := r.read(ctx, due[:min(len(due), c.Max)])
		if err != nil {
			return err
		}
		t.out.More = len(due) > len(runs)
		if err := t.own(ctx, runs, c); err != nil {
			return err
		}
	}
	if again := c.Now.Add(soonAgain); left && (t.out.Next.IsZero() || t.out.Next.After(again)) {
		t.out.Next = again
	}
	return nil
}

// own makes the engine the owner of runs that it has locked.
func (t *taking) own(ctx context.Context, runs []store.Run, c store.TakeDue) error {
	numbers := make([]int64, len(runs))
	for i := range runs {
		numbers[i] = int64(runs[i].Head.Number)
		runs[i].Head.Owner = t.engine
	}
	t.out.Runs, t.out.Lease = runs, t.store.options.Lease
	var b batch
	b.add(own, int64(t.engine), numbers, t.store.options.Lease.Microseconds())
	t.next(&b, c)
	return b.send(ctx, t.tx)
}

// next adds the statements that read when the next run is due.
func (t *taking) next(b *batch, c store.TakeDue) {
	t.out.Next = time.Time{}
	earliest := func(rows pgx.Rows) error {
		var next pgtype.Int8
		err := rows.Scan(&next)
		if at := moment(next); !at.IsZero() && (t.out.Next.IsZero() || at.Before(t.out.Next)) {
			t.out.Next = at
		}
		return err
	}
	b.add(nextDue, c.Workflows, nanos(c.Now)).each(earliest)
	if len(c.Paused) > 0 {
		b.add(nextOrdered, c.Paused, nanos(c.Now)).each(earliest)
	}
	if t.doomed {
		b.add(selectNextDoomed, int64(t.engine), c.Workflows, c.Paused, nanos(c.Now)).
			each(earliest)
	}
}

// selectOutbox returns the outbox entries that the engine has to deliver: its own, above a
// number, and those left by engines that are gone.
var selectOutbox = `with mine as (
    select number, run, seq from perdure.owed
    where workflow = any($2::text[]) and (teller = 0 or teller = $1 and number > $3)
    order by number limit $4 for no key update skip locked),
taken as (
    update perdure.owed o set teller = $1 from mine m where o.number = any(array[m.number]) and o.teller = 0)
select m.number, m.run, ` + of("h", headColumns) + `, ` + of("e", entryColumns) + `, s.data
from mine m
left join lateral (select * from perdure.heads where number = m.run offset 0) h on true
left join lateral (select * from perdure.entries where run = m.run and seq = m.seq offset 0) e on true
left join lateral (select data from perdure.spilled where id = e.spill offset 0) s on true
order by m.number`

// outbox returns entries of the outbox. It leaves out an unreadable entry: reading the
// journal reports the reason.
func (s *Store) outbox(ctx context.Context, c store.TakeOutbox) (store.Claimed, error) {
	out := store.Claimed{Engine: c.Engine}
	size := 0
	for {
		out.More = false
		found := 0
		var b batch
		b.add(holdEngine, int64(c.Engine)).or(store.ErrFenced)
		b.add(selectOutbox, int64(c.Engine), c.Workflows, c.After, c.Limit-len(out.Outbox)+1).
			each(func(rows pgx.Rows) error {
				found++
				o, err := s.outboxEntry(rows)
				switch {
				case isCorrupt(err):
					err = nil
				case err == nil && (len(out.Outbox) == c.Limit || size > claimBytes):
					out.More = true
					return nil
				case err == nil:
					size += o.Entry.Size()
					out.Outbox = append(out.Outbox, o)
				}
				c.After = max(c.After, o.Number)
				return err
			})
		want := c.Limit - len(out.Outbox) + 1
		if err := b.send(ctx, s.pool); err != nil {
			return store.Claimed{}, err
		}
		if out.More || found < want {
			return out, nil
		}
	}
}

// outboxEntry reads an outbox entry.
func (s *Store) outboxEntry(rows pgx.Rows) (store.OutboxEntry, error) {
	var o store.OutboxEntry
	var run int64
	var h headRow
	var e entryRow
	var seq pgtype.Int8
	entry := e.into()
	entry[0] = &seq
	if err := rows.Scan(append(append(append([]any{&o.Number, &run}, h.into()...), entry...),
		&e.payload)...); err != nil {
		return o, err
	}
	e.seq = seq.Int64
	o.Head = s.head(&h)
	var err error
	o.Entry, err = e.entry(journal.Number(run))
	if err == nil {
		err = e.spilled(&o.Entry)
	}
	return o, err
}

func isCorrupt(err error) bool {
	var corrupt *journal.CorruptError
	return errors.As(err, &corrupt)
}
