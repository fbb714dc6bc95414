package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A group that was sent before with an unknown outcome is in the database either completely
// or not at all. First its old transaction must be over: the new one takes the same locks,
// and locks the engine's row exclusively. Then one new run or entry of the group that is
// there proves that all of the group is there. The only parts that are then missing are
// starts that had found another run, and they find it again. A missing entry proves that
// nothing of the group is there. Without either proof the group is written again, except for
// the messages that are there: a message like it may have come with another group, so
// messages prove nothing about the other parts.

const (
	// holdEngineAlone waits until every commit of the engine is over.
	holdEngineAlone = `select 1 / count(*) from (select from perdure.engines where id = $1 for update) e`

	// endSessions ends sessions, and returns when they have ended or are ending.
	endSessions = `select pg_terminate_backend(pid, 1000) from pg_stat_activity where pid = any($1::int[]) and usename = current_user`

	findEntries = `select e.run from unnest($1::bigint[], $2::bigint[]) as f (run, seq)
cross join lateral (select e.run from perdure.entries e where e.run = f.run and e.seq = f.seq offset 0) e`

	// ownMessages finds the messages that posts by workflow ID have become: in a run that has
	// or had the ID, or unrouted and waiting for such a run. It identifies them by their
	// sender's ID and their time.
	ownMessages = `select p.place, coalesce(o.run, 0), coalesce(o.number, w.number)
from unnest($1::text[], $2::text[], $3::bigint[]) with ordinality as p (workflow_id, id, at, place)
left join lateral (
    select h.number as run, m.number
    from (select * from perdure.heads where workflow_id = p.workflow_id and ended is null
        union all
        select * from perdure.heads where workflow_id = p.workflow_id and ended is not null) h
    cross join lateral (select * from perdure.messages where chain = coalesce(nullif(h.chain, 0), h.number) and id = p.id and at = p.at offset 0) m
    where m.holder = case when m.taken is null then coalesce(h.inbox, h.number) else h.number end
    order by h.number desc limit 1) o on true
left join lateral (
    select u.number from perdure.unrouted u
    where u.workflow_id = p.workflow_id and u.id = p.id and u.at = p.at order by u.number limit 1) w on o.run is null
where o.run is not null or w.number is not null`
)

// receivers returns the runs that messages are for, as they are now, and the messages with
// the same IDs that those runs have.
var receivers = `select p.place, (select k.number from perdure.messages k where k.chain = coalesce(nullif(h.chain, 0), h.number) and k.id = p.id), ` +
	of("h", headColumns) + `
from unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[]) with ordinality as p (run, follow, workflow_id, id, place)
cross join lateral (select * from perdure.heads r where r.number = case when p.run <> 0 and p.follow <> 0 then ` + followed("p") + `
    when p.run <> 0 then p.run else coalesce(
    (select o.number from perdure.heads o where o.workflow_id = p.workflow_id and o.ended is null),
    (select o.number from perdure.heads o where o.workflow_id = p.workflow_id and o.ended is not null order by o.ended desc, o.number desc limit 1)) end
offset 0) h`

// memories are the parts of a group that were found when the group was sent again.
type memories struct {
	group   *store.Group
	heads   map[journal.Number]journal.Head
	entries map[journal.Number]bool
	posts   []*store.Post
	post    map[*store.Post]*remembered
}

// remembered is the state of a post of such a group.
type remembered struct {
	own    bool           // its message is there, in the run or unrouted
	run    journal.Number // 0 if the message is unrouted
	number int64
	waits  bool         // the unrouted message that it moves is still there
	known  int64        // the number of a message with its ID in its receiver's chain
	to     journal.Head // the receiver as it is now
}

// recall looks for a group that was sent before. If done is true, all of the group is there
// and has its verdicts, as far as they can still be determined. Otherwise recall returns the
// parts that are there, with their verdicts.
func (s *Store) recall(ctx context.Context, g *store.Group) (there known, done bool, err error) {
	m := &memories{
		group:   g,
		heads:   map[journal.Number]journal.Head{},
		entries: map[journal.Number]bool{},
		post:    map[*store.Post]*remembered{},
	}
	if err := s.endLost(ctx); err != nil {
		return known{}, false, err
	}
	if err := s.settle(ctx, m.look(s), g.Engine); err != nil {
		return known{}, false, err
	}
	done, lost := m.proof()
	switch {
	case done:
		return known{}, true, s.retell(ctx, m)
	case lost:
		return known{}, false, nil
	}
	there = known{posts: map[*store.Post]bool{}, changes: map[*store.Change]bool{}}
	for _, p := range m.posts {
		if there.posts[p], err = s.remember(ctx, p, m.post[p]); err != nil {
			return known{}, false, err
		}
	}
	for i := range g.Changes {
		switch c := &g.Changes[i]; {
		case c.Create:
			if there.changes[c], err = s.had(ctx, m, c); err != nil {
				return known{}, false, err
			}
		case c.Unload && m.heads[c.Run].Owner != g.Engine: // only the engine of a run unloads it
			there.changes[c] = true
			c.Verdict, c.Found = store.Written, journal.Head{}
		}
	}
	return there, false, nil
}

// endLost ends the sessions whose connections were closed during a commit. Data sent to them
// may still be in transit, and arrive when another engine has the run. Behind a pooler the
// sessions are not known.
func (s *Store) endLost(ctx context.Context) error {
	s.mu.Lock()
	lost := slices.Clone(s.lost)
	s.mu.Unlock()
	if len(lost) == 0 {
		return nil
	}
	if _, err := s.keeper.Exec(ctx, endSessions, lost); err != nil {
		return err
	}
	s.mu.Lock()
	s.lost = slices.DeleteFunc(s.lost, func(pid int32) bool { return slices.Contains(lost, pid) })
	s.mu.Unlock()
	return nil
}

// patienceWithOwn is how long an engine waits for an earlier transaction of its own before it
// ends that session. The connection of that session is lost, and the server might wait for
// the rest of its data for hours. The transaction may also be the user's with a step in it.
const patienceWithOwn = time.Second

// settle sends a batch that waits for the old transaction of a group.
func (s *Store) settle(ctx context.Context, b *batch, engine journal.EngineID) error {
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		if engine == 0 {
			return b.send(ctx, c)
		}
		return s.clearly(ctx, c, b, patienceWithOwn)
	})
}

// known is the parts of a group that are there, where no proof exists for the other parts.
type known struct {
	posts   map[*store.Post]bool
	changes map[*store.Change]bool // a start that had found a run, an unload
}

// unsay resets the verdicts on messages that were not sent after all, because of the result
// of the start on which they depend. The messages with their IDs came from other groups.
func (k known) unsay(g *store.Group) {
	for i := range g.Changes {
		c := &g.Changes[i]
		if !c.Create {
			continue
		}
		var unsent []store.Post
		switch c.Verdict {
		case store.Taken:
			unsent = c.Posts
		case store.Written:
			unsent = c.Else
		}
		for j := range unsent {
			if p := &unsent[j]; k.posts[p] {
				p.Verdict, p.To, p.Number = store.Written, journal.Head{}, 0
			}
		}
	}
}

// look returns the batch that waits for the old transaction and looks for the parts of the
// group.
func (m *memories) look(s *Store) *batch {
	var b batch
	var runs, firstRuns, firstSeqs, to []int64
	var ids []string
	for i := range m.group.Changes {
		c := &m.group.Changes[i]
		if c.Create {
			ids = append(ids, c.Head.WorkflowID)
		}
		if c.Create || c.Unload {
			runs = append(runs, int64(c.Run))
		}
		if len(c.Entries) > 0 && !c.Create {
			firstRuns, firstSeqs = append(firstRuns, int64(c.Run)),
				append(firstSeqs, c.Entries[0].Seq)
		}
		for _, posts := range [][]store.Post{c.Posts, c.Else} {
			for j := range posts {
				p := &posts[j]
				m.posts = append(m.posts, p)
				if p.Run != 0 {
					to = append(to, int64(p.Run))
				} else {
					ids = append(ids, p.WorkflowID)
				}
			}
		}
	}
	if m.group.Engine != 0 {
		b.add(holdEngineAlone, int64(m.group.Engine)).or(store.ErrFenced)
	} else {
		b.add(lockHeads, to, []int64(nil), ids)
		b.add(reserveIDs, ids)
		b.add(freeIDs, ids)
	}
	b.add(selectHeads, runs).each(func(rows pgx.Rows) error {
		h, err := s.scanHead(rows)
		m.heads[h.Number] = h
		return err
	})
	b.add(findEntries, firstRuns, firstSeqs).each(func(rows pgx.Rows) error {
		var run int64
		err := rows.Scan(&run)
		m.entries[journal.Number(run)] = true
		return err
	})
	if len(m.posts) > 0 {
		m.lookForPosts(&b, s)
	}
	return &b
}

// lookForPosts adds the statements that look for messages and their receivers.
func (m *memories) lookForPosts(b *batch, s *Store) {
	var own []*store.Post
	var ownIDs, runIDs []string
	var at []pgtype.Int8
	var runs []int64
	var follow []int16
	var ids, ownMessageIDs []pgtype.Text
	for _, p := range m.posts {
		m.post[p] = new(remembered)
		var id string
		if d := p.Message.Detail; d != nil && p.Unrouted == 0 {
			id = d.Message
		}
		runs, follow = append(runs, int64(p.Run)), append(follow, int16(p.Follow))
		runIDs, ids = append(runIDs, p.WorkflowID), append(ids, text(id))
		if p.Run == 0 && id != "" {
			own, ownIDs = append(own, p), append(ownIDs, p.WorkflowID)
			ownMessageIDs, at = append(ownMessageIDs, text(id)), append(at, nanos(p.Message.At))
		}
	}
	b.add(ownMessages, ownIDs, ownMessageIDs, at).each(func(rows pgx.Rows) error {
		var place, run, number int64
		err := rows.Scan(&place, &run, &number)
		if err == nil {
			r := m.post[own[place-1]]
			r.own, r.run, r.number = true, journal.Number(run), number
		}
		return err
	})
	var unrouted []int64
	for _, p := range m.posts {
		unrouted = append(unrouted, p.Unrouted)
	}
	b.add(`select number from perdure.unrouted where number = any($1::bigint[])`, unrouted).
		each(func(rows pgx.Rows) error {
			var number int64
			err := rows.Scan(&number)
			for _, p := range m.posts {
				if p.Unrouted == number {
					m.post[p].waits = true
				}
			}
			return err
		})
	b.add(receivers, runs, follow, runIDs, ids).each(func(rows pgx.Rows) error {
		var place int64
		var known pgtype.Int8
		h, err := s.scanHead(rows, &place, &known)
		if err == nil {
			r := m.post[m.posts[place-1]]
			r.to, r.known = h, known.Int64
		}
		return err
	})
}

// proof reports whether something proves that the group is there (done), or that it is not
// (lost).
func (m *memories) proof() (done, lost bool) {
	for i := range m.group.Changes {
		c := &m.group.Changes[i]
		_, created := m.heads[c.Run]
		switch {
		case c.Create:
			done = done || created
		case len(c.Entries) > 0:
			done = done || m.entries[c.Run]
			lost = lost || !m.entries[c.Run]
		}
	}
	return done, lost && !done
}

// retell sets the verdicts of a group that is there.
func (s *Store) retell(ctx context.Context, m *memories) error {
	for i := range m.group.Changes {
		c := &m.group.Changes[i]
		c.Verdict, c.Found = store.Written, journal.Head{}
		h, there := m.heads[c.Run]
		switch {
		case c.Create && there:
			c.Found = h
		case c.Create:
			if err := s.findAgain(ctx, m, c); err != nil {
				return err
			}
		case c.Unload && h.Owner == m.group.Engine:
			c.Verdict, c.Found = store.Mail, h
		}
		if err := s.retellPosts(ctx, m, c); err != nil {
			return err
		}
	}
	return nil
}

// retellPosts sets the verdicts on the messages of a change.
func (s *Store) retellPosts(ctx context.Context, m *memories, c *store.Change) error {
	for _, part := range []struct {
		posts []store.Post
		sent  bool
	}{{c.Posts, c.Verdict != store.Taken}, {c.Else, c.Create && c.Verdict != store.Written}} {
		for i := range part.posts {
			p := &part.posts[i]
			p.Verdict, p.To, p.Number = store.Written, journal.Head{}, 0
			if !part.sent {
				continue
			}
			if err := s.retellPost(ctx, m, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// retellPost sets the verdict on a message. The message is there, or its receiver's state
// decides.
func (s *Store) retellPost(ctx context.Context, m *memories, p *store.Post) error {
	r := m.post[p]
	if there, err := s.remember(ctx, p, r); err != nil || there {
		return err
	}
	p.Verdict, p.To, p.Number = store.Nobody, journal.Head{}, 0
	exists := r.to.Number != 0
	switch {
	case exists && (r.to.Ended.IsZero() || p.Unrouted != 0):
		p.Verdict, p.To = store.Delivered, r.to
	case exists && p.Run != 0:
		p.Verdict, p.To = store.Closed, r.to
	case p.Run == 0 && !p.Until.IsZero():
		p.Verdict = store.Unrouted
	}
	return nil
}

// remember sets the verdict of a post if its message is there, and reports whether it is.
func (s *Store) remember(ctx context.Context, p *store.Post, r *remembered) (bool, error) {
	switch {
	case r.own && r.run == 0:
		p.Verdict, p.To, p.Number = store.Unrouted, journal.Head{}, r.number
	case r.own:
		h, err := s.headOf(ctx, r.run)
		if err != nil {
			return false, err
		}
		p.Verdict, p.To, p.Number = store.Delivered, h, r.number
	case r.known != 0:
		p.Verdict, p.To, p.Number = store.Delivered, r.to, r.known
	case p.Unrouted != 0 && !r.waits && r.to.Number != 0: // the group itself has moved the message
		p.Verdict, p.To, p.Number = store.Delivered, r.to, 0
	default:
		return false, nil
	}
	return true, nil
}

// findAgain sets the run that a start had found: a run that has got one of its messages, else
// the open run, else the run that ended last.
func (s *Store) findAgain(ctx context.Context, m *memories, c *store.Change) error {
	if found, err := s.had(ctx, m, c); err != nil || found {
		return err
	}
	c.Verdict = store.Taken // by a run of another workflow, which has ended by now
	var b batch
	window := []pgtype.Int8{nanos(time.Unix(0, 1))}
	b.add(findHeads, []int64{int64(c.Run)}, []string{c.Head.WorkflowID}, []string{c.Head.Workflow},
		window, true).each(func(rows pgx.Rows) error {
		var n int64
		h, err := s.scanHead(rows, &n, nil)
		if err == nil && h.Number != 0 {
			found(c, h)
		}
		return err
	})
	return b.send(ctx, s.pool)
}

// had sets the run that a start had found, if that run has got one of its messages, and
// reports whether it has.
func (s *Store) had(ctx context.Context, m *memories, c *store.Change) (bool, error) {
	for _, posts := range [][]store.Post{c.Posts, c.Else} {
		for i := range posts {
			p := &posts[i]
			if r := m.post[p]; r.own && r.run != 0 && p.WorkflowID == c.Head.WorkflowID {
				h, err := s.headOf(ctx, r.run)
				if err == nil {
					found(c, h)
				}
				return err == nil, err
			}
		}
	}
	return false, nil
}

// headOf reads a head. It returns the zero head if there is none.
func (s *Store) headOf(ctx context.Context, n journal.Number) (h journal.Head, err error) {
	var b batch
	b.add(selectHeads, []int64{int64(n)}).each(func(rows pgx.Rows) (err error) {
		h, err = s.scanHead(rows)
		return err
	})
	return h, b.send(ctx, s.pool)
}
