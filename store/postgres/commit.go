package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// These are the statements of a commit, in the order in which they are sent. A test breaks
// some of them.
var (
	// holdEngine is the fence. It fails if the engine's row is gone, and it prevents the
	// removal of the row until the commit is over. It does not prevent updates of the row,
	// such as a renewal.
	holdEngine = `select 1 / count(*) from (select from perdure.engines where id = $1 for key share) e`

	// holdShared fails if a run is gone whose payloads a new run is to share. It prevents the
	// removal of such runs until the commit is over.
	holdShared = `select 1 / (count(*) = cardinality($1::bigint[]))::int from (select from perdure.heads where number = any($1::bigint[]) for key share) h`

	// reserveIDs delays starts of the workflow IDs that no open run has, until the
	// transaction ends. So a message that finds no run is kept either before a start looks
	// for such messages, or after the run is visible to everybody. It writes heads that
	// nobody ever sees, with negative numbers: through the index of open runs, others wait
	// for the transaction, even after freeIDs has removed those heads.
	reserveIDs = `insert into perdure.heads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, chain, parent, keep,
    mail, given, seen, claimed)
select -nextval('perdure.unrouted_number_seq'), i.id, '', 0, 0, -1, null, null, null, 0, '', 0, 0, 0, 0,
    0, 0, 0, false
from (select distinct n.id from unnest($1::text[]) as n (id)
    where (select true from perdure.heads h where h.workflow_id = n.id and h.ended is null) is null order by n.id) i
on conflict (workflow_id) where ended is null do nothing`

	freeIDs = `delete from perdure.heads where workflow_id = any($1::text[]) and ended is null and number < 0`

	// hurry limits how long a group waits for each lock.
	hurry = `select set_config('lock_timeout', '50ms', true)`

	// lockHeads locks the runs that a group posts to, unloads and ends, in order of their
	// numbers. It goes before the statements that read them, so those see the current state.
	lockHeads = `select from perdure.heads where number = any (array(
    select unnest($1::bigint[])
    union all
    select (select o.number from perdure.heads o
        where o.workflow_id = (select c.workflow_id from perdure.heads c where c.number = f.run) and o.ended is null)
    from unnest($2::bigint[]) as f (run)
    union all
    select (select o.number from perdure.heads o where o.workflow_id = i.id and o.ended is null) from unnest($3::text[]) as i (id)))
order by number for no key update`

	insertHeads = `insert into perdure.heads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, chain, parent, keep, retain, expires, error,
    mail, given, seen, claimed)
select number, workflow_id, workflow, pattern, status, owner, nullif(wake, -9223372036854775808), nullif(created, -9223372036854775808), nullif(ended, -9223372036854775808), last, coalesce(cause, ''), crashes, chain, parent, keep, retain, nullif(expires, -9223372036854775808), error,
    0, 0, 0, false
from unnest($1::bigint[], $2::text[], $3::text[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::bigint[], $11::text[], $12::int[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::bigint[], $19::text[])
    as n (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, chain, parent, keep, since, retain, expires, error)
where n.since is null or not exists (
    select from perdure.heads o where o.workflow_id = n.workflow_id and o.ended >= n.since and o.workflow = n.workflow)
on conflict (workflow_id) where ended is null do nothing
returning number`

	// lockOutbox makes the outbox entries of an engine numbered in the order of its commits,
	// also if several commits are in progress.
	lockOutbox = `select pg_advisory_xact_lock($1, $2)`

	deleteOutbox = `delete from perdure.owed where number = any($1::bigint[])`

	// tick never waits: another transaction that has locked the row stores a clock value as
	// well.
	tick = `with made as (
    insert into perdure.meta (key, value) select 'clock', $1::bigint::text
    where not exists (select from perdure.meta where key = 'clock') on conflict do nothing)
update perdure.meta m set value = $1::bigint::text
from (select key from perdure.meta where key = 'clock' and value::bigint < $1 for update skip locked) k where m.key = k.key`
)

// updateHeads writes heads. A run that is to be unloaded stays with its engine if it was sent
// more messages than the engine has seen.
var updateHeads = `with written as (
    update perdure.heads h set
        status = u.status, ended = nullif(u.ended, -9223372036854775808), last = u.last, cause = coalesce(u.cause, ''), keep = u.keep, retain = u.retain, pattern = u.pattern, error = u.error,
        expires = nullif(u.expires, -9223372036854775808), claimed = false,
        owner = case when u.unload and h.mail <> u.mail then h.owner else u.owner end,
        ordered = case when u.unload and h.mail <> u.mail or u.owner <> 0 then h.ordered else 0 end,
        wake = case when u.unload and h.mail <> u.mail then h.wake else nullif(u.wake, -9223372036854775808) end
    from (select * from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::boolean[], $9::bigint[], $10::bigint[],
            $11::text[], $12::bigint[], $13::smallint[], $14::text[])
        as u (number, status, owner, wake, ended, last, cause, unload, mail, keep, retain, expires, pattern, error) order by number) u
    where h.number = any(array[u.number]) and (not u.unload or h.owner = $16)
    returning u.unload and h.mail <> u.mail as stays, h.*)
select coalesce(w.stays, false), ` + of("w", headColumns) + `, 1 / (n.count = $15)::int
from (select count(*) from unnest($1::bigint[]) as n (number) where (select true from perdure.heads h where h.number = n.number)) n left join written w on w.stays`

// findHeads returns the run that the workflow ID of a new run refers to, if the new run was
// not written: the open run, unless the group starts that run later, or the run that ended
// last within the window.
var findHeads = `select n.number, 1 / (f.number is not null or $5)::int, ` + of("f", headColumns) +
	`
from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) with ordinality as n (number, workflow_id, workflow, since, place)
left join lateral (
    (select o.* from perdure.heads o where o.workflow_id = n.workflow_id and o.ended is null
    and coalesce(array_position($1::bigint[], o.number), 0) < n.place)
    union all
    (select o.* from perdure.heads o where o.workflow_id = n.workflow_id and o.ended >= n.since and o.workflow = n.workflow
    order by o.ended desc, o.number desc limit 1)
    limit 1) f on true
where (select true from perdure.heads h where h.number = n.number) is null`

// outboxLocks is the class of the advisory locks on the outbox entries of engines.
// successionLocks is the class of the advisory locks on expired engines.
// settingLock is the class of the advisory lock on the settings.
// countingLock is the class of the advisory lock on the counts of runs that limits begin with.
const (
	outboxLocks     = migrationLock + 1
	successionLocks = migrationLock + 2
	settingLock     = migrationLock + 3
	countingLock    = migrationLock + 4
)

// clockEvery is the shortest time between two writes of the clock by a store.
const clockEvery = 10 * time.Second

// raceTries limits how often a commit is repeated because of conflicts with others.
const raceTries = 10

// Commit writes a group in one transaction and one round trip. A group that is sent again
// needs another round trip, to look for what was written before.
func (s *Store) Commit(ctx context.Context, g *store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	ctx, done, err := s.call(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer done()
	forgetAnswers(g)
	var there known
	if g.Again {
		var all bool
		if there, all, err = s.recall(ctx, g); err != nil || all {
			g.Grants = 1
			return s.finished(err)
		}
	}
	if err := s.write(ctx, g, there); err != nil {
		return s.finished(err)
	}
	there.unsay(g)
	return nil
}

// write sends a group, without the parts that are there already. It repeats that while the
// commit loses a race, up to raceTries times.
func (s *Store) write(ctx context.Context, g *store.Group, there known) error {
	for tries := 1; ; tries++ {
		t := transaction{store: s, group: g, there: there}
		if err := t.prepare(); err != nil {
			return err
		}
		err := s.use(ctx, func(c *pgxpool.Conn) error { return t.batch.send(ctx, c) })
		switch {
		case err == nil:
			s.ticked(g.Now)
			s.busy.Add(1)
			s.notices.tell(g)
			return nil
		case isData(err):
			return &store.DataError{Err: err}
		case t.waits() && code(err) == lockTimeout:
			return store.ErrHeld
		case !isRace(err) || tries == raceTries:
			return err
		}
		if err := pause(ctx, tries); err != nil {
			return err
		}
	}
}

// use calls f with a connection. If the connection was closed because of an error, use
// remembers its session: see endLost.
func (s *Store) use(ctx context.Context, f func(*pgxpool.Conn) error) error {
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		err := f(c)
		if c.Conn().IsClosed() && !s.options.Pooler { // behind a pooler the session is unknown
			s.mu.Lock()
			s.lost = append(s.lost, int32(c.Conn().PgConn().PID()))
			s.mu.Unlock()
		}
		return err
	})
}

// pause waits a short random time before a retry, longer after each try.
func pause(ctx context.Context, tries int) error {
	t := time.NewTimer(rand.N(time.Duration(tries) * 5 * time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A transaction is a group while it is sent to the database.
type transaction struct {
	store *Store
	group *store.Group
	there known
	inTx  bool // it is part of a transaction of the user's
	batch batch

	created   map[journal.Number]*store.Change // new runs that continue no other
	starts    headRows
	entries   entryRows
	posts     postRows
	updates   updateRows
	unloads   map[journal.Number]*store.Change
	limits    limitRows
	settings  []store.Setting
	told      []int64
	shared    []int64 // runs whose payloads new runs share, each once
	continued []*store.Change
}

// prepare makes the batch, in the order that [store.Group] has.
func (t *transaction) prepare() error {
	g, b := t.group, &t.batch
	for i := range g.Changes {
		if err := t.add(&g.Changes[i]); err != nil {
			return err
		}
	}
	if g.Engine != 0 {
		b.add(holdEngine, int64(g.Engine)).or(store.ErrFenced)
	}
	if t.waits() {
		b.add(hurry)
	}
	t.tick()
	t.lockSettings()
	t.limits.lock(b)
	t.lock()
	if len(t.shared) > 0 {
		b.add(holdShared, t.shared).or(refused("a run has payloads of one that is not there"))
	}
	t.start()
	t.entries.queue(b, t.group.Engine)
	if len(t.told) > 0 {
		b.add(deleteOutbox, t.told)
	}
	t.set()
	t.limits.queue(t)
	t.posts.queue(t)
	t.update()
	return t.succeed()
}

// waits reports whether the group may have to wait for a transaction of the user's and the
// engine must know soon, because its other runs would wait too.
func (t *transaction) waits() bool {
	return t.group.Engine != 0 && !t.group.Again && !t.inTx &&
		(len(t.starts.number) > 0 || !t.posts.empty() || len(t.updates.number) > 0 ||
			len(t.continued) > 0 || !t.limits.empty())
}

// add adds a change.
func (t *transaction) add(c *store.Change) error {
	t.told = append(t.told, c.Told...)
	t.limits.add(c)
	t.settings = append(t.settings, c.Settings...)
	if t.there.changes[c] {
		return t.post(c)
	}
	c.Verdict, c.Found = store.Written, journal.Head{}
	switch {
	case c.Create:
		if n, ok := c.Head.ID.Number(t.store.database); !ok || n != c.Run {
			return refused("%q is not the ID of run %d in this database", c.Head.ID, c.Run)
		}
		c.Found = t.newHead(c)
		if n := int64(c.Shares); n != 0 && !slices.Contains(t.shared, n) {
			t.shared = append(t.shared, n)
		}
		if c.From != 0 {
			t.continued = append(t.continued, c)
			break
		}
		if t.created == nil {
			t.created = map[journal.Number]*store.Change{}
		}
		t.created[c.Run] = c
		t.starts.add(&c.Found, c.Since)
	case c.Head != nil:
		t.updates.add(c.Head, c.Unload)
		if c.Unload {
			if t.unloads == nil {
				t.unloads = map[journal.Number]*store.Change{}
			}
			t.unloads[c.Run] = c
		}
	}
	if c.From == 0 {
		if err := t.entries.add(c); err != nil {
			return err
		}
	}
	return t.post(c)
}

// newHead returns the head of a new run as it is stored. A group without an engine owns no
// run.
func (t *transaction) newHead(c *store.Change) journal.Head {
	h := *c.Head
	if t.group.Engine == 0 {
		h.Owner = 0
	}
	h.Mail = 0
	h.Wake, h.Created, h.Ended = stored(h.Wake), stored(h.Created), stored(h.Ended)
	return h
}

// tick adds a write of the clock, if the last write was at least clockEvery ago.
func (t *transaction) tick() {
	if t.inTx {
		return
	}
	s := t.store
	s.mu.Lock()
	due := !t.group.Now.Before(s.clock.Add(clockEvery))
	s.mu.Unlock()
	if due {
		t.batch.add(tick, nanos(t.group.Now))
	}
}

// ticked remembers the clock value that was written.
func (s *Store) ticked(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.clock.Add(clockEvery)) {
		s.clock = now
	}
}

// lock takes the locks that are necessary before anything is read.
func (t *transaction) lock() {
	if len(t.entries.outboxRun) > 0 {
		t.batch.add(lockOutbox, int32(outboxLocks), int32(t.group.Engine))
	}
	var windows []string
	for i, id := range t.starts.workflowID {
		if t.starts.since[i].Valid {
			windows = append(windows, id)
		}
	}
	if t.posts.empty() && windows == nil {
		return
	}
	runs := slices.Concat(t.posts.toRun, t.updates.number)
	t.batch.add(lockHeads, runs, t.posts.follows, append(windows, t.posts.byID...))
}

// ownID reports whether the workflow ID of a new run is its own run ID.
func (t *transaction) ownID(i int) bool {
	return t.starts.workflowID[i] == string(
		journal.MakeRunID(t.store.database, journal.Number(t.starts.number[i])))
}

// start creates the runs that continue no other run.
func (t *transaction) start() {
	r := &t.starts
	if len(r.number) == 0 {
		return
	}
	written := make(map[journal.Number]bool, len(r.number))
	t.batch.add(insertHeads, r.args()...).each(func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		written[journal.Number(n)] = true
		return err
	})
	var others headRows
	for i := range r.number {
		if !t.ownID(i) {
			others.number, others.workflowID = append(others.number, r.number[i]),
				append(others.workflowID, r.workflowID[i])
			others.workflow, others.since = append(others.workflow, r.workflow[i]),
				append(others.since, r.since[i])
		}
	}
	if len(others.number) == 0 {
		return
	}
	t.batch.add(findHeads, others.number, others.workflowID, others.workflow, others.since, false).
		or(errLostRace).each(func(rows pgx.Rows) error {
		var n int64
		h, err := t.store.scanHead(rows, &n, nil)
		if c := t.created[journal.Number(n)]; err == nil && c != nil && !written[c.Run] {
			found(c, h)
		}
		return err
	})
	t.deliver(t.created, others.number)
}

// found sets the verdict of a start that has found an existing run.
func found(c *store.Change, h journal.Head) {
	c.Verdict, c.Found = store.Exists, h
	if h.Workflow != c.Head.Workflow {
		c.Verdict = store.Taken
	}
}

// update writes heads, and unloads runs.
func (t *transaction) update() {
	u := &t.updates
	if len(u.number) == 0 {
		return
	}
	t.batch.add(updateHeads, append(u.args(), len(u.number), int64(t.group.Engine))...).
		or(refused("a head is of a run that is not there")).each(func(rows pgx.Rows) error {
		var stays bool
		var r headRow
		if err := rows.Scan(append(append([]any{&stays}, r.into()...), nil)...); err != nil ||
			!stays {
			return err
		}
		if c := t.unloads[journal.Number(r.number.Int64)]; c != nil {
			c.Verdict, c.Found = store.Mail, t.store.head(&r)
		}
		return nil
	})
}
