package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements for limits and their slots.
const (
	limitColumns = `id, name, key, most, held, asks, every, burst, full, clock, revision`

	selectLimit  = `select ` + limitColumns + ` from perdure_limits where name = ? and key = ?`
	selectByID   = `select ` + limitColumns + ` from perdure_limits where id = ?`
	selectByName = `select ` + limitColumns + ` from perdure_limits where name = ? order by key`

	insertLimit = `insert into perdure_limits (name, key, most, held, asks) values (?, ?, 0, 0, 0) returning ` +
		limitColumns
	updateLimit = `update perdure_limits set most = ?, held = ?, asks = ?, every = ?, burst = ?, full = ?, clock = ?, revision = ? where id = ?`
	deleteLimit = `delete from perdure_limits where id = ?`

	// selectStale finds buckets that are full, the first that have been, so that a key that nobody
	// uses any more does not stay.
	selectStale = `select ` + limitColumns + ` from perdure_limits where full <= ? order by full limit 8`

	selectUsed = `select exists (select 1 from perdure_slots where lim = ?1 and due is not null) or exists (select 1 from perdure_slots where lim = ?1 and held = 0)`

	selectSlot = `select lim, held, due from perdure_slots where run = ? and number = ?`
	insertSlot = `insert into perdure_slots (run, number, lim, ask, since, held, due, priority, share, turn, came) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// The successor inherits the slots of the run itself.
	deleteSlot  = `delete from perdure_slots where run = ? and number = ? returning lim, held, due`
	deleteSlots = `delete from perdure_slots where run = ? and (number > 0 or ?) returning lim, held, due`

	inheritSlots = `update perdure_slots set run = ? where run = ?`

	selectFirst = `select run, number from perdure_slots where lim = ? and held = 0 order by priority desc, turn, ask limit 1`
	holdSlot    = `update perdure_slots set held = 1 where run = ? and number = ?`

	// selectTurn returns the round of a share, after those that it waits for already and not before
	// the round that is served, and the time of the last in line of the share.
	selectTurn = `select max(coalesce(turn + 1, 1),
    coalesce((select turn from perdure_slots where lim = ?1 and held = 0 and priority = ?2 order by turn limit 1), 1)), came
from (select 1) left join (select turn, came from perdure_slots
    where lim = ?1 and held = 0 and priority = ?2 and share = ?3 order by came desc, turn desc limit 1)`

	// selectLater returns those of a share that came later than a time, the last one first.
	selectLater = `select run, number, turn, ask from perdure_slots
where lim = ? and held = 0 and priority = ? and share = ? and came > ? order by came desc, turn desc`
	moveSlot = `update perdure_slots set turn = ?, ask = ? where run = ? and number = ?`

	selectTokens = `select run, number from perdure_slots where lim = ? and due > ? order by ask`
	updateToken  = `update perdure_slots set due = ? where run = ? and number = ?`

	// selectBegun returns the open runs of a workflow that have begun and have no such slot. A run
	// that stands in line has not begun, even if its head does not say so yet.
	selectBegun = `select number from perdure_heads where workflow = ? and ended is null and status <> ?
and not exists (select 1 from perdure_slots where run = perdure_heads.number and (number = ? or number < 0 and held = 0)) order by number`
)

// A limit is a row of the limits that a group changes.
type limit struct {
	id           int64
	name, key    string
	most, held   int64
	asks         int64
	every, burst int64
	full, clock  time.Time
	revision     int64 // of the ask that made it, or of the last change
}

func readLimit(row []driver.Value) *limit {
	return &limit{
		id: integer(row[0]), name: str(row[1]), key: str(row[2]), most: integer(row[3]),
		held: integer(row[4]), asks: integer(row[5]), every: integer(row[6]),
		burst: integer(row[7]), full: moment(row[8]), clock: moment(row[9]),
		revision: integer(row[10]),
	}
}

// A limiting does the part of a group that is about limits.
type limiting struct {
	*transaction
	limits map[int64]*limit // those that the group changes, by id
	named  map[[2]string]*limit
	counts bool // the group gives slots to runs that do not ask, also to new ones
}

// work frees slots, changes limits, gives what is free to those in line, and answers asks.
func (tx *limiting) work() error {
	if tx.forgetAnswers(); tx.there != nil { // whatever the group does with limits is done
		tx.group.Grants = 1
		return nil
	}
	for _, step := range []func() error{
		tx.free, tx.each(tx.adjust, nil), tx.giveAll, tx.each(tx.ask, nil), tx.keepLimits,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// loadLimits returns the limits that a statement finds, each once for the group.
func (tx *limiting) loadLimits(sql string, args ...driver.Value) (found []*limit, err error) {
	err = tx.query(func(row []driver.Value) error {
		l := readLimit(row)
		if known := tx.limits[l.id]; known != nil {
			l = known
		}
		found = append(found, l)
		return nil
	}, sql, args...)
	if tx.limits == nil && len(found) > 0 {
		tx.limits = map[int64]*limit{}
	}
	for _, l := range found {
		tx.limits[l.id] = l
	}
	return found, err
}

// limitOf returns the limit of a name and key, which it makes if there is none.
func (tx *limiting) limitOf(name, key string) (*limit, error) {
	at := [2]string{name, key}
	if l := tx.named[at]; l != nil {
		return l, nil
	}
	found, err := tx.loadLimits(selectLimit, name, key)
	if err == nil && len(found) == 0 {
		found, err = tx.loadLimits(insertLimit, name, key)
	}
	if err != nil {
		return nil, err
	}
	if tx.named == nil {
		tx.named = map[[2]string]*limit{}
	}
	tx.named[at] = found[0]
	return found[0], nil
}

// limitByID returns the limit of a slot.
func (tx *limiting) limitByID(id int64) (*limit, error) {
	if l := tx.limits[id]; l != nil {
		return l, nil
	}
	found, err := tx.loadLimits(selectByID, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("limit %d is not there", id)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// forgetAnswers removes the answers of an earlier sending.
func (tx *limiting) forgetAnswers() {
	tx.group.Grants = 0
	for i := range tx.group.Changes {
		c := &tx.group.Changes[i]
		for j := range c.Asks {
			c.Asks[j].Answer, c.Asks[j].Wait = store.NotAnswered, 0
		}
	}
}

// free frees the slots of runs that end, except those that successors inherit, and those that
// changes name.
func (tx *limiting) free() error {
	ended, continued := ends(tx.group)
	for i := range tx.group.Changes {
		c := &tx.group.Changes[i]
		if c.Create {
			continue
		}
		for _, number := range c.Frees {
			if err := tx.freeSlots(deleteSlot, int64(c.Run), number); err != nil {
				return err
			}
		}
		if ended[c.Run] {
			err := tx.freeSlots(deleteSlots, int64(c.Run), !continued[c.Run])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// freeSlots deletes slots. Whoever is first in line gets them once all of the group are freed.
func (tx *limiting) freeSlots(sql string, args ...driver.Value) error {
	type freed struct {
		limit int64
		held  bool
	}
	var all []freed
	err := tx.query(func(row []driver.Value) error {
		all = append(all, freed{integer(row[0]), integer(row[1]) == 1 && row[2] == nil})
		return nil
	}, sql, args...)
	for _, f := range all {
		var l *limit
		if l, err = tx.limitByID(f.limit); err != nil {
			return err
		}
		if f.held {
			l.held--
		}
	}
	return err
}

// giveAll hands the slots that are free to those in line, limit by limit.
func (tx *limiting) giveAll() error {
	for _, l := range tx.touched() {
		if err := tx.give(l, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

func (tx *limiting) touched() []*limit {
	all := make([]*limit, 0, len(tx.limits))
	for _, l := range tx.limits {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *limit) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key, b.key))
	})
	return all
}

// give hands out the free slots of a limit. All but the slot that is asked for just now get a
// message.
func (tx *limiting) give(l *limit, run journal.Number, slot int64) error {
	for l.most == 0 || l.held < l.most {
		var first []driver.Value
		err := tx.query(func(row []driver.Value) error {
			first = slices.Clone(row)
			return nil
		}, selectFirst, l.id)
		if err != nil || first == nil {
			return err
		}
		if _, err := tx.exec(holdSlot, first[0], first[1]); err != nil {
			return err
		}
		l.held++
		to, number := journal.Number(integer(first[0])), integer(first[1])
		if to == run && number == slot {
			continue
		}
		if err := tx.grant(to, number); err != nil {
			return err
		}
	}
	return nil
}

// grant sends a run the message that it has a slot. The message counts as not given to its engine,
// also if that is the engine of the group.
func (tx *limiting) grant(run journal.Number, slot int64) error {
	if tx.receivers == nil {
		tx.receivers = map[journal.Number]*receiver{}
	}
	r := tx.receivers[run]
	if r == nil {
		var err error
		if r, err = tx.receiverOf(selectReceiver, int64(run)); err != nil {
			return err
		}
	}
	if !r.isOpen() {
		return nil
	}
	p := store.Post{Run: run, Force: true, Message: journal.Entry{
		Kind: journal.SlotGranted, At: tx.group.Now,
		Op: journal.Op{Name: store.SlotMessage, Key: strconv.FormatInt(slot, 10)},
	}}
	values, err := messageValues(&p.Message)
	if err != nil {
		return err
	}
	values[0], values[1], values[2] = r.inbox, r.Mail+1, r.chain()
	if _, err := tx.exec(insertMessage, values...); err != nil {
		return err
	}
	tx.count(&p, r)
	tx.group.Grants++
	return nil
}

// ask answers the asks of a run, one after the other, until one is not granted.
func (tx *limiting) ask(c *store.Change) error {
	if len(c.Asks) == 0 || c.Verdict != store.Written {
		return nil
	}
	refused := false
	isNew := c.Create && !tx.resent && !tx.counts
	for i := range c.Asks {
		a := &c.Asks[i]
		if refused && a.Slot < 0 {
			continue
		}
		if err := tx.answer(c.Run, isNew, a); err != nil {
			return err
		}
		refused = refused || a.Slot < 0 && a.Answer != store.Granted
	}
	return nil
}

func (tx *limiting) answer(run journal.Number, isNew bool, a *store.Ask) error {
	now := stored(tx.group.Now)
	var l *limit
	var held bool
	var due time.Time
	var err error
	if !isNew {
		if l, held, due, err = tx.slot(run, a.Slot); err != nil {
			return err
		}
	}
	if l == nil {
		if l, held, due, err = tx.add(run, a); err != nil {
			return err
		}
	}
	if !due.IsZero() {
		a.Answer, a.Wait = store.Granted, max(due.Sub(now), 0)
		if a.Wait > 0 {
			a.Answer = store.Later
		}
		return nil
	}
	raised := false
	if l.name == a.Limit && l.key == a.Key && a.Revision >= l.revision {
		raised = a.Max == 0 || int64(a.Max) > l.most
		l.most = int64(a.Max)
	}
	if raised || !held {
		if err := tx.give(l, run, a.Slot); err != nil {
			return err
		}
	}
	if !held {
		if _, held, _, err = tx.slot(run, a.Slot); err != nil {
			return err
		}
	}
	a.Answer = store.InLine
	if held {
		a.Answer = store.Granted
	}
	return nil
}

// add adds the slot or token of a new ask. It holds the slot at once if one is free: then nobody
// waits, as whatever is free is given to those in line.
func (tx *limiting) add(run journal.Number, a *store.Ask) (l *limit, held bool, due time.Time,
	err error) {
	now := stored(tx.group.Now)
	if l, err = tx.limitOf(a.Limit, a.Key); err != nil {
		return nil, false, due, err
	}
	if l.asks == 0 {
		l.revision = a.Revision
	}
	p, most := place{ask: l.asks + 1}, int64(a.Max)
	if a.Revision < l.revision {
		most = l.most
	}
	switch {
	case a.Every > 0:
		if l.every == 0 {
			l.every, l.burst = int64(a.Every), int64(a.Burst)
		}
		l.advance(now)
		if a.Revision >= l.revision {
			l.renumber(int64(a.Every), int64(a.Burst))
		}
		held, due = true, l.token()
		if _, err := tx.loadLimits(selectStale, nanos(now)); err != nil {
			return nil, false, due, err
		}
	case l.asks == 0 || l.most == most && (l.most == 0 || l.held < l.most):
		l.most, held = most, true
		l.held++
	default:
		if p, err = tx.place(l, a); err != nil {
			return nil, false, due, err
		}
	}
	l.asks++
	_, err = tx.exec(insertSlot, int64(run), a.Slot, l.id, p.ask, nanos(now), held, nanos(due),
		int64(a.Priority), a.Share, p.turn, p.came)
	return l, held, due, err
}

// A place is a place in line.
type place struct {
	turn, ask int64
	came      int64 // of the run that has it
}

// place returns the place in line of a new ask. Those of its share that came later move on.
func (tx *limiting) place(l *limit, a *store.Ask) (p place, err error) {
	p.ask, p.came = l.asks+1, math.MinInt64
	if came := nanos(stored(a.Came)); came != nil {
		p.came = integer(came)
	}
	last := p.came
	err = tx.query(func(row []driver.Value) error {
		p.turn = integer(row[0])
		if row[1] != nil {
			last = integer(row[1])
		}
		return nil
	}, selectTurn, l.id, int64(a.Priority), a.Share)
	if a.Came.IsZero() {
		p.came = last
	}
	if err != nil || last <= p.came {
		return p, err
	}
	var later [][]driver.Value
	err = tx.query(func(row []driver.Value) error {
		later = append(later, slices.Clone(row))
		return nil
	}, selectLater, l.id, int64(a.Priority), a.Share, p.came)
	for _, row := range later {
		if err == nil {
			_, err = tx.exec(moveSlot, p.turn, p.ask, row[0], row[1])
		}
		p.turn, p.ask = integer(row[2]), integer(row[3])
	}
	return p, err
}

// slot returns the limit of a slot; nil if the run has none of that number.
func (tx *limiting) slot(run journal.Number, number int64) (l *limit, held bool, due time.Time,
	err error) {
	of := int64(0)
	err = tx.query(func(row []driver.Value) error {
		of, held, due = integer(row[0]), integer(row[1]) == 1, moment(row[2])
		return nil
	}, selectSlot, int64(run), number)
	if err == nil && of != 0 {
		l, err = tx.limitByID(of)
	}
	return l, held, due, err
}

// advance sets the clock of the bucket. A clock that was put back takes the bucket along.
func (l *limit) advance(now time.Time) {
	if now.Before(l.clock) {
		l.full = l.full.Add(now.Sub(l.clock))
	}
	l.clock = now
	if l.full.Before(now) {
		l.full = now
	}
}

// renumber sets other numbers for the bucket. It keeps its tokens, as far as it may have them, or
// the time of the last token that was given for later.
func (l *limit) renumber(every, burst int64) {
	if every == l.every && burst == l.burst {
		return
	}
	empty := l.full.Add(-time.Duration(l.burst * l.every))
	if has := int64(l.clock.Sub(empty)); has > 0 {
		gained := burst * every
		if tokens := has / l.every; tokens < burst {
			// the part of a token, rounded down
			high, low := bits.Mul64(uint64(has%l.every), uint64(every))
			part, _ := bits.Div64(high, low, uint64(l.every))
			gained = tokens*every + int64(part)
		}
		empty = l.clock.Add(-time.Duration(gained))
	}
	l.every, l.burst, l.full = every, burst, empty.Add(time.Duration(burst*every))
}

// token takes a token out of the bucket, and returns the time for which it is given.
func (l *limit) token() (due time.Time) {
	due = l.full.Add(-time.Duration((l.burst - 1) * l.every))
	if due.Before(l.clock) {
		due = l.clock
	}
	l.full = l.full.Add(time.Duration(l.every))
	return due
}

// adjust changes limits.
func (tx *limiting) adjust(c *store.Change) error {
	for i := range c.Adjusts {
		a := &c.Adjusts[i]
		if a.Workflow != "" {
			if err := tx.countIn(a); err != nil {
				return err
			}
		}
		found, err := tx.loadLimits(selectByName, a.Limit)
		if err != nil {
			return err
		}
		for _, l := range found {
			if a.Revision < l.revision {
				continue
			}
			same := a.Revision == l.revision
			l.most, l.revision = int64(a.Max), a.Revision
			if a.Every == 0 || same {
				continue
			}
			if err := tx.refill(l, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends returns the runs that end with the group, and those of them that other runs continue.
func ends(g *store.Group) (ended, continued map[journal.Number]bool) {
	ended, continued = map[journal.Number]bool{}, map[journal.Number]bool{}
	for i := range g.Changes {
		c := &g.Changes[i]
		if c.From != 0 {
			continued[c.From] = true
		}
		if !c.Create && c.Head != nil && !c.Head.Ended.IsZero() {
			ended[c.Run] = true
		}
	}
	return ended, continued
}

// countIn adds slots for the runs of a workflow that have begun, above the limit too. A run that
// ends with the group gets one only if another run continues it, which inherits the slot.
func (tx *limiting) countIn(a *store.Adjust) error {
	tx.counts = true
	var runs []int64
	err := tx.query(func(row []driver.Value) error {
		runs = append(runs, integer(row[0]))
		return nil
	}, selectBegun, a.Workflow, int64(journal.Pending), a.Slot)
	if err != nil || len(runs) == 0 {
		return err
	}
	l, err := tx.limitOf(a.Limit, "")
	if err != nil || a.Revision < l.revision {
		return err
	}
	ended, continued := ends(tx.group)
	for _, run := range runs {
		if n := journal.Number(run); ended[n] && !continued[n] {
			continue
		}
		l.asks++
		if _, err := tx.exec(insertSlot, run, a.Slot, l.id, l.asks, nanos(tx.group.Now), true, nil,
			int64(0), "", int64(0), int64(0)); err != nil {
			return err
		}
		l.held++
	}
	return nil
}

// refill sets other bounds of a bucket, and the tokens that wait for their times other times. The
// bucket is empty then, and gains its next token after those that wait.
func (tx *limiting) refill(l *limit, a *store.Adjust) error {
	now := stored(tx.group.Now)
	var waiting [][]driver.Value
	err := tx.query(func(row []driver.Value) error {
		waiting = append(waiting, slices.Clone(row))
		return nil
	}, selectTokens, l.id, nanos(now))
	if err != nil {
		return err
	}
	l.every, l.burst, l.clock = int64(a.Every), int64(a.Burst), now
	for i, row := range waiting {
		due := now.Add(time.Duration(i+1) * a.Every)
		if _, err := tx.exec(updateToken, nanos(due), row[0], row[1]); err != nil {
			return err
		}
		if err := tx.grant(journal.Number(integer(row[0])), integer(row[1])); err != nil {
			return err
		}
	}
	l.full = now.Add(time.Duration(len(waiting)+a.Burst) * a.Every)
	return nil
}

// keepLimits writes the limits that the group has changed, and deletes those that nobody uses. It
// also writes the heads of runs that have got slots.
func (tx *limiting) keepLimits() error {
	for _, l := range tx.touched() {
		used := driver.Value(int64(1))
		if l.held == 0 && !l.full.After(tx.group.Now) {
			var err error
			if used, err = tx.value(selectUsed, l.id); err != nil {
				return err
			}
		}
		var err error
		if integer(used) == 0 {
			_, err = tx.exec(deleteLimit, l.id)
		} else {
			_, err = tx.exec(updateLimit, l.most, l.held, l.asks, orNull(l.every), orNull(l.burst),
				nanos(l.full), nanos(l.clock), l.revision, l.id)
		}
		if err != nil {
			return err
		}
	}
	if len(tx.posted) == 0 {
		return nil
	}
	return tx.part()
}

const (
	selectSlots = `select s.lim, l.name, l.key, l.most, l.held, s.run, s.number, s.since, s.held, s.due,
    case when s.held = 0 then 1 + (select count(*) from perdure_slots o where o.lim = s.lim and o.held = 0
        and (o.priority > s.priority or o.priority = s.priority and (o.turn, o.ask) < (s.turn, s.ask))) end
from perdure_slots s join perdure_limits l on l.id = s.lim`
	slotOrder = ` order by l.name, l.key, s.held desc, case when s.held = 0 then -s.priority end, case when s.held = 0 then s.turn end, s.ask limit ?`

	isLost = `not exists (select 1 from perdure_heads h where h.number = s.run and h.ended is null)`

	selectLine = `select count(*) from perdure_slots where lim = ? and held = 0`

	selectTotals = `select * from (select l.name, l.key, l.most,
    l.held + (select count(*) from perdure_slots s where s.lim = l.id and s.due is not null) as used,
    (select count(*) from perdure_slots s where s.lim = l.id and s.held = 0) as line
from perdure_limits l where l.name > ?1 and (?2 is null or l.name = ?2) and (?3 is null or l.key = ?3))
where used > 0 or line > 0 order by name, key limit ?4`
)

// A slotReader shows slots.
type slotReader struct{ store *Store }

// Slots implements [store.SlotReader].
func (r slotReader) Slots(ctx context.Context, q store.SlotQuery) (out []store.Slot, err error) {
	if q.Totals {
		return r.totals(ctx, q)
	}
	var where condition
	if q.Run != 0 {
		where.add("s.run = ?", int64(q.Run))
	}
	if q.Limit != "" {
		where.add("l.name = ?", q.Limit)
	}
	if q.Key != nil {
		where.add("l.key = ?", *q.Key)
	}
	if q.Lost {
		where.add(isLost)
	}
	sql := selectSlots
	if len(where.terms) > 0 {
		sql += " where " + strings.Join(where.terms, " and ")
	}
	err = r.store.read(ctx, func(c *conn) error {
		out = nil
		var of []int64
		err := c.query(func(row []driver.Value) error {
			of = append(of, integer(row[0]))
			out = append(out, store.Slot{
				Limit: str(row[1]), Key: str(row[2]), Max: int(integer(row[3])),
				Used: integer(row[4]), Run: journal.Number(integer(row[5])), Slot: integer(row[6]),
				Since: moment(row[7]), Held: integer(row[8]) == 1, Due: moment(row[9]),
				Place: integer(row[10]),
			})
			return nil
		}, sql+slotOrder, append(where.args, int64(q.Page()))...)
		lines := map[int64]int64{}
		for i, id := range of {
			if err != nil {
				return err
			}
			if _, known := lines[id]; !known {
				var v driver.Value
				v, err = c.value(selectLine, id)
				lines[id] = integer(v)
			}
			out[i].Line = lines[id]
		}
		return err
	})
	return out, err
}

// totals returns what is used of each limit.
func (r slotReader) totals(ctx context.Context, q store.SlotQuery) (out []store.Slot, err error) {
	var name, key driver.Value
	if q.Limit != "" {
		name = q.Limit
	}
	if q.Key != nil {
		key = *q.Key
	}
	err = r.store.read(ctx, func(c *conn) error {
		out = nil
		return c.query(func(row []driver.Value) error {
			out = append(out, store.Slot{
				Limit: str(row[0]), Key: str(row[1]), Max: int(integer(row[2])),
				Used: integer(row[3]), Line: integer(row[4]),
			})
			return nil
		}, selectTotals, q.After, name, key, int64(q.Page()))
	})
	return out, err
}
