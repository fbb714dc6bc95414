package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements for limits. Their logic is in functions of the database, because each answer
// depends on the one before it, and a group is one round trip.
const (
	// lockEnding locks the limits whose slots the runs that end may have.
	lockEnding = `select perdure.lock_ending($1, $2::bigint[])`

	lockLimits = `select perdure.lock_limits($1, $2, $3::bigint[], $4::text[], $5::text[], $6::text[])`

	// workLimits returns a row for each ask, or one without an ask if all are granted.
	workLimits = `select w.told, a.place, a.answer, a.wait from perdure.limit_work($1, $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
    $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::smallint,
    $14::int, $15::bigint[], $16::bigint[], $17::bigint[], $18::int[], $19::int[], $20::text[], $21::bigint[],
    $22::text[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::bigint[]) w
left join lateral unnest(w.answers, w.waits) with ordinality as a (answer, wait, place) on true`

	inheritSlots = `update perdure.slots s set run = n.number from unnest($1::bigint[], $2::bigint[]) as n (number, ended) where s.run = any(array[n.ended])`

	selectSlots = `select l.name, l.key, l.most, l.held, s.run, s.number, s.since, s.held, s.due,
    case when not s.held then 1 + (select count(*) from perdure.slots o where o.lim = s.lim and not o.held
        and (o.priority > s.priority or o.priority = s.priority and (o.turn, o.ask) < (s.turn, s.ask))) end,
    s.lim
from perdure.slots s `
	limitOf   = "join perdure.limits l on l.id = s.lim"
	limitEach = "cross join lateral (select * from perdure.limits m where m.id = s.lim offset 0) l"
	slotOrder = ` order by l.name collate "C", l.key collate "C", s.held desc, case when not s.held then -s.priority end, case when not s.held then s.turn end, s.ask limit `

	isLost = `(select h.ended is null from perdure.heads h where h.number = s.run) is not true`

	selectTotals = `select * from (select l.name, l.key, l.most,
    l.held + (select count(*) from perdure.slots s where s.lim = l.id and s.due is not null) as used,
    (select count(*) from perdure.slots s where s.lim = l.id and not s.held) as line
from perdure.limits l where l.name collate "C" > $1 and ($2::text is null or l.name = $2) and ($3::text is null or l.key = $3)) t
where used > 0 or line > 0 order by name collate "C", key collate "C" limit $4`

	selectLines = `select lim, count(*) from perdure.slots where lim = any($1::bigint[]) and not held group by lim`
)

// limitRows are what a group does with limits.
type limitRows struct {
	freeRun, freeNumber []int64
	ended, inherited    []int64

	name, workflow           []string
	most, every, burst, slot []int64
	revision                 []int64

	asks                  []*store.Ask
	askRuns               int32
	askUnsure             []int64 // runs that the group may not have made
	asking                map[journal.Number]bool
	askRun, askSlot       []int64
	askLimit, askPriority []int32 // the places in limits, from 1
	askShare              []string
	askCame               []pgtype.Int8
	limits                askedLimits
}

// askedLimits are the limits that a group asks for, each once, with the numbers of an ask and how
// many there are.
type askedLimits struct {
	place                 map[[2]string]int32
	name, key             []string
	most, revision, count []int64
	differ                bool // the asks of a limit must be looked at one by one
}

// add adds an ask, and returns the place of its limit.
func (l *askedLimits) add(name, key string, a *store.Ask) int32 {
	if l.place == nil {
		l.place = map[[2]string]int32{}
	}
	of := [2]string{name, key}
	at := l.place[of]
	if at == 0 {
		l.name, l.key = append(l.name, name), append(l.key, key)
		l.most, l.revision = append(l.most, int64(a.Max)), append(l.revision, a.Revision)
		l.count = append(l.count, 0)
		at = int32(len(l.name))
		l.place[of] = at
	}
	l.count[at-1]++
	l.differ = l.differ || a.Every > 0 || l.most[at-1] != int64(a.Max) ||
		l.revision[at-1] != a.Revision
	return at
}

// plainText returns a text as it is stored; an empty one stays empty.
func plainText(s string) string { return text(s).String }

// add adds what a change does with limits.
func (r *limitRows) add(c *store.Change) {
	for _, number := range c.Frees {
		r.freeRun, r.freeNumber = append(r.freeRun, int64(c.Run)), append(r.freeNumber, number)
	}
	if c.Head != nil && !c.Create && !c.Head.Ended.IsZero() {
		r.ended = append(r.ended, int64(c.Run))
	}
	if c.From != 0 {
		r.inherited = append(r.inherited, int64(c.From))
	}
	for i := range c.Adjusts {
		a := &c.Adjusts[i]
		r.name = append(r.name, plainText(a.Limit))
		r.workflow = append(r.workflow, plainText(a.Workflow))
		r.most, r.every = append(r.most, int64(a.Max)), append(r.every, int64(a.Every))
		r.burst, r.slot = append(r.burst, int64(a.Burst)), append(r.slot, a.Slot)
		r.revision = append(r.revision, a.Revision)
	}
	if len(c.Asks) > 0 {
		r.askRuns++
		r.limits.differ = r.limits.differ || r.asking[c.Run] // it may ask twice for the same
		if r.asking == nil {
			r.asking = map[journal.Number]bool{}
		}
		r.asking[c.Run] = true
		if !c.Create || c.Head.WorkflowID != string(c.Head.ID) { // others may have the ID
			r.askUnsure = append(r.askUnsure, int64(c.Run))
		}
	}
	for i := range c.Asks {
		a := &c.Asks[i]
		r.asks = append(r.asks, a)
		r.askRun, r.askSlot = append(r.askRun, int64(c.Run)), append(r.askSlot, a.Slot)
		r.askShare = append(r.askShare, plainText(a.Share))
		r.askPriority = append(r.askPriority, int32(a.Priority))
		r.askCame = append(r.askCame, nanos(stored(a.Came)))
		r.askLimit = append(r.askLimit, r.limits.add(plainText(a.Limit), plainText(a.Key), a))
	}
}

// onlyEnds reports whether the group does nothing with limits but end runs.
func (r *limitRows) onlyEnds() bool {
	return len(r.asks)+len(r.freeRun)+len(r.name) == 0
}

func (r *limitRows) empty() bool { return r.onlyEnds() && len(r.ended) == 0 }

// lock locks the limits, before the group locks anything else but its engine's row.
func (r *limitRows) lock(b *batch) {
	switch {
	case r.empty():
	case r.onlyEnds():
		b.add(lockEnding, int32(countingLock), r.ended)
	default:
		runs := append(append([]int64{}, r.ended...), r.freeRun...)
		counts := slices.ContainsFunc(r.workflow, func(w string) bool { return w != "" })
		b.add(lockLimits, int32(countingLock), counts, runs, r.limits.name, r.limits.key, r.name)
	}
}

// queue adds the work to the batch.
func (r *limitRows) queue(t *transaction) {
	if r.empty() {
		return
	}
	// a run of the group has a slot already if a limit has just begun to count it
	r.limits.differ = r.limits.differ || len(r.name) > 0
	var most, every, burst, revision []int64
	for _, a := range r.asks {
		if !r.limits.differ {
			break
		}
		most, revision = append(most, int64(a.Max)), append(revision, a.Revision)
		every, burst = append(every, int64(a.Every)), append(burst, int64(a.Burst))
	}
	l := r.limits
	t.batch.add(workLimits, nanos(t.group.Now), r.freeRun, r.freeNumber, r.ended, r.inherited,
		r.name, r.most, r.every, r.burst, r.revision, r.workflow, r.slot, int16(journal.Pending),
		r.askRuns, r.askUnsure, r.askRun, r.askSlot, r.askLimit, r.askPriority, r.askShare,
		r.askCame, l.name, l.key, l.most, l.revision, l.count,
		most, every, burst, revision).each(func(rows pgx.Rows) error {
		var place, answer, wait pgtype.Int8
		if err := rows.Scan(&t.group.Grants, &place, &answer, &wait); err != nil {
			return err
		}
		if place.Valid {
			a := r.asks[place.Int64-1]
			a.Answer, a.Wait = store.Answer(answer.Int64), time.Duration(wait.Int64)
			return nil
		}
		for _, a := range r.asks {
			a.Answer = store.Granted
		}
		return nil
	})
}

// forgetAnswers removes the answers of an earlier sending.
func forgetAnswers(g *store.Group) {
	g.Grants = 0
	for i := range g.Changes {
		for j := range g.Changes[i].Asks {
			a := &g.Changes[i].Asks[j]
			a.Answer, a.Wait = store.NotAnswered, 0
		}
	}
}

// A slotReader shows slots.
type slotReader struct{ store *Store }

// Slots implements [store.SlotReader].
func (r slotReader) Slots(ctx context.Context, q store.SlotQuery) (out []store.Slot, err error) {
	s := r.store
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if q.Totals {
		return r.totals(ctx, q)
	}
	var c conditions
	from := limitOf
	if q.Run != 0 { // it has few
		from = limitEach
		c.add("s.run = %s", int64(q.Run))
	}
	if q.Limit != "" {
		c.add("l.name = %s", plainText(q.Limit))
	}
	if q.Key != nil {
		c.add("l.key = %s", plainText(*q.Key))
	}
	if q.Lost {
		c.add(isLost)
	}
	most := c.argument(int64(q.Page()))
	rows, err := s.pool.Query(ctx, selectSlots+from+c.where()+slotOrder+most, c.args...)
	if err != nil {
		return nil, s.finished(err)
	}
	var of []int64
	for rows.Next() {
		var name, key pgtype.Text
		var slot store.Slot
		var run, most, lim int64
		var since, due, place pgtype.Int8
		if err := rows.Scan(&name, &key, &most, &slot.Used, &run, &slot.Slot, &since, &slot.Held,
			&due, &place, &lim); err != nil {
			return nil, s.finished(err)
		}
		slot.Limit, slot.Key, slot.Run = legal(name), legal(key), journal.Number(run)
		slot.Max, slot.Since, slot.Due = int(most), moment(since), moment(due)
		slot.Place = place.Int64
		out, of = append(out, slot), append(of, lim)
	}
	if err := rows.Err(); err != nil {
		return nil, s.finished(err)
	}
	rows, err = s.pool.Query(ctx, selectLines, of)
	if err != nil {
		return nil, s.finished(err)
	}
	lines := map[int64]int64{}
	for rows.Next() {
		var lim, n int64
		if err := rows.Scan(&lim, &n); err != nil {
			return nil, s.finished(err)
		}
		lines[lim] = n
	}
	for i, lim := range of {
		out[i].Line = lines[lim]
	}
	return out, s.finished(rows.Err())
}

// totals returns what is used of each limit.
func (r slotReader) totals(ctx context.Context, q store.SlotQuery) (out []store.Slot, err error) {
	s, of := r.store, pgtype.Text{}
	if q.Key != nil {
		of = pgtype.Text{String: plainText(*q.Key), Valid: true}
	}
	rows, err := s.pool.Query(ctx, selectTotals, plainText(q.After), text(q.Limit), of,
		int64(q.Page()))
	if err != nil {
		return nil, s.finished(err)
	}
	for rows.Next() {
		var name, key pgtype.Text
		var most int64
		var t store.Slot
		if err := rows.Scan(&name, &key, &most, &t.Used, &t.Line); err != nil {
			return nil, s.finished(err)
		}
		t.Limit, t.Key, t.Max = legal(name), legal(key), int(most)
		out = append(out, t)
	}
	return out, s.finished(rows.Err())
}
