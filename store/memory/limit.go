package memory

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A limits has the limits of a database and their slots.
type limits struct {
	byKey map[limitKey]*limit
	slots map[journal.Number]map[int64]*slot // by run and number
	asks  int64                              // counts slots
}

func newLimits() limits {
	return limits{byKey: map[limitKey]*limit{}, slots: map[journal.Number]map[int64]*slot{}}
}

// A limitKey identifies the slots or tokens of one key of a limit.
type limitKey struct{ name, key string }

// A limit has the slots of one key of a limit, or its bucket of tokens.
type limit struct {
	limitKey
	max  int
	held []*slot // in the order of their numbers of ask
	line []*slot // those that wait, in the order in which they get a slot

	every time.Duration
	burst int

	revision int64 // of the ask that made it, or of the last change
	// full is when the bucket is full again if no token is taken. It has a token at a time if it
	// would be full at most burst-1 tokens later.
	full   time.Time
	clock  time.Time // the latest time of an ask for a token
	tokens []*slot   // those that are not freed, in the order of their asks
}

// A slot is a slot that a run holds or waits for, or a token.
type slot struct {
	run      journal.Number
	number   int64
	of       *limit
	ask      int64 // counts asks; those in line change it with their places
	since    time.Time
	held     bool
	due      time.Time // of a token
	priority int
	share    string
	turn     int64 // the round in which its share gets a slot
	came     time.Time
}

// before orders those in line.
func (s *slot) before(o *slot) int {
	return cmp.Or(cmp.Compare(o.priority, s.priority), cmp.Compare(s.turn, o.turn),
		cmp.Compare(s.ask, o.ask))
}

// free frees the slots of a run that ends, except those that a successor inherits, and those that
// the change names.
func (tx *transaction) free(_ int, c *store.Change) error {
	if tx.sending == done || c.Run == 0 || c.Create {
		return nil
	}
	for _, number := range c.Frees {
		tx.freeSlot(c.Run, number)
	}
	if c.Head == nil || c.Head.Ended.IsZero() {
		return nil
	}
	continued := slices.ContainsFunc(tx.group.Changes, func(o store.Change) bool {
		return o.Create && o.From == c.Run
	})
	for _, s := range tx.data.limits.slotsOf(c.Run) {
		if !continued || s.number > 0 {
			tx.freeSlot(c.Run, s.number)
		}
	}
	return nil
}

// slotsOf returns the slots of a run by number.
func (d *limits) slotsOf(run journal.Number) []*slot {
	var all []*slot
	for _, s := range d.slots[run] {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *slot) int { return cmp.Compare(a.number, b.number) })
	return all
}

// freeSlot frees a slot or removes the run from the line. Whoever is first in line gets the slot
// once all slots of the group are freed.
func (tx *transaction) freeSlot(run journal.Number, number int64) {
	s := tx.data.limits.slots[run][number]
	if s == nil {
		return
	}
	tx.touchLimit(s.of)
	l := s.of
	is := func(o *slot) bool { return o == s }
	l.held, l.line = slices.DeleteFunc(l.held, is), slices.DeleteFunc(l.line, is)
	l.tokens = slices.DeleteFunc(l.tokens, is)
	tx.dropSlot(s)
}

func (tx *transaction) dropSlot(s *slot) {
	d := &tx.data.limits
	delete(d.slots[s.run], s.number)
	if len(d.slots[s.run]) == 0 {
		delete(d.slots, s.run)
	}
	tx.undo = append(tx.undo, func() { d.putSlot(s) })
}

func (d *limits) putSlot(s *slot) {
	if d.slots[s.run] == nil {
		d.slots[s.run] = map[int64]*slot{}
	}
	d.slots[s.run][s.number] = s
}

// touchLimit records the state of a limit before the group changes it.
func (tx *transaction) touchLimit(l *limit) {
	if tx.limits[l] {
		return
	}
	if tx.limits == nil {
		tx.limits = map[*limit]bool{}
	}
	tx.limits[l] = true
	before := *l
	before.held, before.line = slices.Clone(l.held), slices.Clone(l.line)
	before.tokens = slices.Clone(l.tokens)
	tx.undo = append(tx.undo, func() {
		*l = before
		tx.data.limits.byKey[l.limitKey] = l
	})
}

// limit returns the limit of that name and key, which it makes if there is none.
func (tx *transaction) limit(name, key string) *limit {
	d, at := &tx.data.limits, limitKey{name, key}
	l := d.byKey[at]
	if l == nil {
		l = &limit{limitKey: at}
		if was := tx.unused[at]; was != nil {
			l.max, l.every, l.burst, l.revision = was.max, was.every, was.burst, was.revision
		}
		d.byKey[at] = l
		tx.undo = append(tx.undo, func() { delete(d.byKey, at) })
	}
	tx.touchLimit(l)
	return l
}

// settleLimits hands out the slots that are free, and forgets limits that nobody uses.
func (tx *transaction) settleLimits() error {
	touched := make([]*limit, 0, len(tx.limits))
	for l := range tx.limits {
		touched = append(touched, l)
	}
	slices.SortFunc(touched, func(a, b *limit) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key, b.key))
	})
	for _, l := range touched {
		if err := tx.give(l, nil); err != nil {
			return err
		}
		if len(l.held)+len(l.line)+len(l.tokens) == 0 && !l.full.After(tx.group.Now) {
			delete(tx.data.limits.byKey, l.limitKey)
			if tx.unused == nil {
				tx.unused = map[limitKey]*limit{}
			}
			tx.unused[l.limitKey] = l
		}
	}
	return nil
}

// give hands the slots that are free to those in line. All but the run that asks get a message.
func (tx *transaction) give(l *limit, asks *slot) error {
	for len(l.line) > 0 && (l.max == 0 || len(l.held) < l.max) {
		s := l.line[0]
		l.line = l.line[1:]
		l.held = append(l.held, s)
		tx.undo = append(tx.undo, func() { s.held = false })
		s.held = true
		if s != asks {
			if err := tx.grant(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// grant sends a run the message that it has a slot.
func (tx *transaction) grant(s *slot) error {
	row, err := tx.newRow(journal.Entry{
		Kind: journal.SlotGranted, At: tx.group.Now,
		Op: journal.Op{Name: store.SlotMessage, Key: strconv.FormatInt(s.number, 10)},
	})
	if err != nil {
		return err
	}
	if r := tx.data.runs[s.run]; r != nil && r.isOpen() {
		tx.deliver(r, "", row, true)
		tx.group.Grants++
	}
	return nil
}

// ask answers the asks of a run, one after the other, until one is not granted.
func (tx *transaction) ask(i int, c *store.Change) error {
	if i == 0 { // everything is freed and adjusted
		if err := tx.settleLimits(); err != nil {
			return err
		}
	}
	for j := range c.Asks {
		c.Asks[j].Answer, c.Asks[j].Wait = store.NotAnswered, 0
	}
	if len(c.Asks) == 0 || tx.sending == done || c.Create && c.Verdict != store.Written ||
		tx.data.runs[c.Run] == nil {
		return nil
	}
	refused := false
	for j := range c.Asks {
		a := &c.Asks[j]
		if refused && a.Slot < 0 {
			continue
		}
		if err := tx.answer(c.Run, a); err != nil {
			return err
		}
		refused = refused || a.Slot < 0 && a.Answer != store.Granted
	}
	return nil
}

func (tx *transaction) answer(run journal.Number, a *store.Ask) error {
	d := &tx.data.limits
	s := d.slots[run][a.Slot]
	if s == nil {
		at := limitKey{a.Limit, a.Key}
		isNew := d.byKey[at] == nil && tx.unused[at] == nil
		l := tx.limit(a.Limit, a.Key)
		if isNew {
			l.revision = a.Revision
		}
		d.asks++
		s = &slot{
			run: run, number: a.Slot, of: l, ask: d.asks, since: stored(tx.group.Now),
			priority: a.Priority, share: a.Share, came: stored(a.Came),
		}
		d.putSlot(s)
		tx.undo = append(tx.undo, func() {
			if delete(d.slots[run], a.Slot); len(d.slots[run]) == 0 {
				delete(d.slots, run)
			}
		})
		if a.Every > 0 {
			if l.every == 0 {
				l.every, l.burst = a.Every, a.Burst
			}
			l.advance(tx.group.Now)
			if a.Revision >= l.revision {
				l.renumber(a.Every, a.Burst)
			}
			l.token(s)
			tx.forget()
		} else {
			tx.queue(l, s)
		}
	}
	if !s.due.IsZero() {
		a.Answer, a.Wait = store.Granted, max(s.due.Sub(stored(tx.group.Now)), 0)
		if a.Wait > 0 {
			a.Answer = store.Later
		}
		return nil
	}
	tx.touchLimit(s.of)
	if s.of.limitKey == (limitKey{a.Limit, a.Key}) && a.Revision >= s.of.revision {
		s.of.max = a.Max
	}
	if err := tx.give(s.of, s); err != nil {
		return err
	}
	a.Answer = store.InLine
	if s.held {
		a.Answer = store.Granted
	}
	return nil
}

// forgetEvery is the number of asks after which limits are forgotten that nobody uses.
const forgetEvery = 1000

// forget forgets buckets that are full and that nobody uses.
func (tx *transaction) forget() {
	if tx.data.limits.asks%forgetEvery != 0 {
		return
	}
	for at, l := range tx.data.limits.byKey {
		if len(l.held)+len(l.line)+len(l.tokens) == 0 && !l.full.After(tx.group.Now) {
			delete(tx.data.limits.byKey, at)
			tx.undo = append(tx.undo, func() { tx.data.limits.byKey[at] = l })
		}
	}
}

// queue puts a slot into the line. Its share gets a slot for it after those that it waits for
// already, and not before the round that is served. Those of the share that came later move on.
func (tx *transaction) queue(l *limit, s *slot) {
	s.turn = 1
	var share []*slot
	for i := len(l.line) - 1; i >= 0; i-- {
		if o := l.line[i]; o.priority == s.priority {
			s.turn = o.turn
			if o.share == s.share {
				share = append(share, o)
			}
		}
	}
	if len(share) > 0 {
		s.turn = max(s.turn, share[0].turn+1)
		if s.came.IsZero() {
			s.came = share[0].came
		}
	}
	l.line = append(l.line, s)
	for _, o := range share {
		if !o.came.After(s.came) {
			break
		}
		turn, ask := o.turn, o.ask
		tx.undo = append(tx.undo, func() { o.turn, o.ask = turn, ask })
		o.turn, o.ask, s.turn, s.ask = s.turn, s.ask, turn, ask
	}
	slices.SortFunc(l.line, (*slot).before)
}

// advance sets the clock of the bucket. A clock that was put back takes the bucket along.
func (l *limit) advance(now time.Time) {
	now = stored(now)
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
func (l *limit) renumber(every time.Duration, burst int) {
	if every == l.every && burst == l.burst {
		return
	}
	empty := l.full.Add(-time.Duration(l.burst) * l.every)
	if has := l.clock.Sub(empty); has > 0 {
		gained := time.Duration(burst) * every
		if tokens := has / l.every; tokens < time.Duration(burst) {
			// the part of a token, rounded down
			high, low := bits.Mul64(uint64(has%l.every), uint64(every))
			part, _ := bits.Div64(high, low, uint64(l.every))
			gained = tokens*every + time.Duration(part)
		}
		empty = l.clock.Add(-gained)
	}
	l.every, l.burst, l.full = every, burst, empty.Add(time.Duration(burst)*every)
}

// token sets, for a slot, the time at which the bucket has a token for it.
func (l *limit) token(s *slot) {
	s.held, s.due = true, l.full.Add(-time.Duration(l.burst-1)*l.every)
	if s.due.Before(l.clock) {
		s.due = l.clock
	}
	l.full = l.full.Add(l.every)
	l.tokens = append(l.tokens, s)
}

// adjust changes limits.
func (tx *transaction) adjust(_ int, c *store.Change) error {
	if tx.sending == done {
		return nil
	}
	for _, a := range c.Adjusts {
		if a.Workflow != "" {
			tx.countIn(a)
		}
		var of []*limit
		for at, l := range tx.data.limits.byKey {
			if at.name == a.Limit {
				of = append(of, l)
			}
		}
		slices.SortFunc(of, func(a, b *limit) int { return strings.Compare(a.key, b.key) })
		for _, l := range of {
			if a.Revision < l.revision {
				continue
			}
			tx.touchLimit(l)
			if l.max = a.Max; a.Every == 0 || a.Revision == l.revision {
				l.revision = a.Revision
				continue
			}
			l.revision = a.Revision
			if err := tx.refill(l, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaves reports whether a run ends with the group, and no run continues it.
func (tx *transaction) leaves(run journal.Number) bool {
	ends := false
	for i := range tx.group.Changes {
		c := &tx.group.Changes[i]
		if c.From == run {
			return false
		}
		ends = ends || c.Run == run && !c.Create && c.Head != nil && !c.Head.Ended.IsZero()
	}
	return ends
}

// standsInLine reports whether a run waits for a slot that it has to its end: it has not begun,
// even if its head does not say so yet.
func (d *limits) standsInLine(run journal.Number) bool {
	for number, s := range d.slots[run] {
		if number < 0 && !s.held {
			return true
		}
	}
	return false
}

// countIn adds slots for the runs of a workflow that have begun, above the limit too.
func (tx *transaction) countIn(a store.Adjust) {
	d := &tx.data.limits
	for _, r := range tx.data.byNumber {
		if r.head.Workflow != a.Workflow || !r.isOpen() || r.head.Status == journal.Pending ||
			d.slots[r.head.Number][a.Slot] != nil || d.standsInLine(r.head.Number) ||
			tx.leaves(r.head.Number) {
			continue
		}
		l := tx.limit(a.Limit, "")
		if a.Revision < l.revision {
			return
		}
		d.asks++
		s := &slot{
			run: r.head.Number, number: a.Slot, of: l, ask: d.asks, since: stored(tx.group.Now),
			held: true,
		}
		l.held = append(l.held, s)
		d.putSlot(s)
		tx.undo = append(tx.undo, func() { delete(d.slots[s.run], s.number) })
	}
}

// refill sets other bounds of a bucket, and the tokens that wait for their times other times.
func (tx *transaction) refill(l *limit, a store.Adjust) error {
	now := stored(tx.group.Now)
	later := slices.DeleteFunc(slices.Clone(l.tokens), func(s *slot) bool {
		return !s.due.After(now)
	})
	l.every, l.burst, l.clock = a.Every, a.Burst, now
	for i, s := range later {
		due := s.due
		tx.undo = append(tx.undo, func() { s.due = due })
		s.due = now.Add(time.Duration(i+1) * a.Every)
		if err := tx.grant(s); err != nil {
			return err
		}
	}
	// the bucket is empty now, and gains its next token after those that wait
	l.full = now.Add(time.Duration(len(later)+a.Burst) * a.Every)
	return nil
}

// inherit moves the slots of a run to the run that continues it.
func (tx *transaction) inherit(from, to journal.Number) {
	d := &tx.data.limits
	for _, s := range d.slotsOf(from) {
		tx.touchLimit(s.of)
		delete(d.slots[from], s.number)
		s.run = to
		d.putSlot(s)
		tx.undo = append(tx.undo, func() {
			delete(d.slots[to], s.number)
			s.run = from
			d.putSlot(s)
		})
	}
	delete(d.slots, from)
}

// Slots implements [store.SlotReader].
func (s *Store) Slots(_ context.Context, q store.SlotQuery) ([]store.Slot, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	isOpen := func(run journal.Number) bool {
		r := s.data.runs[run]
		return r != nil && r.isOpen()
	}
	var of []*limit
	for at, l := range s.data.limits.byKey {
		if (q.Limit == "" || at.name == q.Limit) && (q.Key == nil || at.key == *q.Key) &&
			(!q.Totals || at.name > q.After) {
			of = append(of, l)
		}
	}
	slices.SortFunc(of, func(a, b *limit) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key, b.key))
	})
	var out []store.Slot
	if q.Totals {
		for _, l := range of {
			t := store.Slot{
				Limit: l.name, Key: l.key, Max: l.max, Used: int64(len(l.held) + len(l.tokens)),
				Line: int64(len(l.line)),
			}
			if t.Used+t.Line > 0 && len(out) < q.Page() {
				out = append(out, t)
			}
		}
		return out, nil
	}
	for _, l := range of {
		held := slices.Concat(l.held, l.tokens)
		slices.SortFunc(held, func(a, b *slot) int { return cmp.Compare(a.ask, b.ask) })
		for i, s := range slices.Concat(held, l.line) {
			if q.Run != 0 && s.run != q.Run || q.Lost && isOpen(s.run) {
				continue
			}
			if len(out) == q.Page() {
				return out, nil
			}
			place := int64(0)
			if !s.held {
				place = int64(i - len(held) + 1)
			}
			out = append(out, store.Slot{
				Run: s.run, Slot: s.number, Limit: l.name, Key: l.key, Since: s.since,
				Held: s.held, Place: place, Due: s.due, Max: l.max, Used: int64(len(l.held)),
				Line: int64(len(l.line)),
			})
		}
	}
	return out, nil
}
