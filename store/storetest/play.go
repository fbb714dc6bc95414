package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// chance returns true one time in n.
func (p *player) chance(n int) bool { return p.random.IntN(n) == 0 }

// id returns a random workflow ID out of a few.
func (p *player) id() string { return fmt.Sprint("order-", p.random.IntN(12)) }

// changes returns a start, or changes of an existing run: results, a head, an unload, the
// end, a successor, or an entry that it has already. A run that has ended gets results only,
// which no store checks.
func (p *player) changes() []store.Change {
	h, ok := p.some()
	if !ok || p.chance(3) {
		return []store.Change{p.begin()}
	}
	seq, over := p.last[h.Number]+1, p.over[h.Number]
	var c store.Change
	switch n := p.random.IntN(16); {
	case n == 0:
		c = p.result(h, 1)
	case n <= 2 && !over:
		c = ended(h, seq, p.now)
		c.Head.Keep = max(h.Keep, time.Duration(p.random.IntN(100))*time.Second)
		if p.chance(2) {
			c.Head.Status = []journal.Status{journal.Failed, journal.TimedOut}[p.random.IntN(2)]
			c.Head.Error = []string{"card declined", "É: 100 % Declined", ""}[p.random.IntN(3)]
		}
	case n == 3 && !over:
		both := p.continued(h, seq, p.now)
		both[1].Head.Owner = p.engine * journal.EngineID(p.random.IntN(2))
		return both
	case n <= 5 && !over:
		c = update(h, func(h *journal.Head) {
			h.Status, h.Owner, h.Wake = journal.Waiting, 0, at(p.now+p.random.IntN(20))
		})
	case n <= 8 && !over:
		c = unloading(h, p.seen[h.Number]-int64(p.random.IntN(8)/7), seq)
		c.Head.Cause = []string{"", "an operator"}[p.random.IntN(2)]
		c.Head.Wake = at(p.now + p.random.IntN(40))
	case n <= 12:
		c = p.reading(h, seq)
	default:
		c = p.result(h, seq)
	}
	for range p.random.IntN(3) {
		c.Posts = append(c.Posts, p.post())
	}
	p.limits(&c, h)
	return []store.Change{c}
}

// limits adds asks of a run to a change, and what it frees. A run asks for slots and tokens of few
// limits. A bucket gains a token more rarely than a test lasts, because the clock may be that of a
// database.
func (p *player) limits(c *store.Change, h journal.Head) {
	ends := c.Head != nil && !c.Head.Ended.IsZero()
	if p.chance(2) && !p.over[h.Number] && !ends {
		for range 1 + p.random.IntN(2) {
			a := store.Ask{
				Slot: int64(p.random.IntN(6) - 2), Limit: fmt.Sprint("limit-", p.random.IntN(2)),
				Key: fmt.Sprint("key-", p.random.IntN(2)), Max: p.random.IntN(4),
				Priority: p.random.IntN(2), Share: fmt.Sprint("share-", p.random.IntN(3)),
			}
			if a.Slot >= 0 {
				a.Slot++
			}
			if len(c.Asks) > 0 && c.Asks[0].Slot == a.Slot {
				continue
			}
			if p.chance(4) {
				a.Limit, a.Max, a.Every, a.Burst = "calls", 0, 1000*time.Hour, 1+p.random.IntN(3)
			}
			a.Revision = int64(p.random.IntN(3))
			c.Asks = append(c.Asks, a)
		}
	}
	if p.chance(4) {
		c.Frees = append(c.Frees, int64(1+p.random.IntN(4)), -2)
	}
	if p.chance(10) {
		a := store.Adjust{
			Limit: "limit-1", Max: p.random.IntN(5), Revision: int64(p.random.IntN(4)),
		}
		if p.chance(2) {
			a.Workflow, a.Slot = "w", -1
		}
		c.Adjusts = []store.Adjust{a}
	}
}

// begin returns a start, with messages for both outcomes.
func (p *player) begin() store.Change {
	c := p.start(p.id())
	c.Head.Workflow = []string{"v", "w"}[p.random.IntN(2)]
	c.Head.Created = at(p.now - p.random.IntN(3)*p.random.IntN(60))
	c.Head.Pattern = journal.Pattern(p.random.IntN(3))
	if p.chance(2) {
		c.Since = at(p.now - p.random.IntN(200))
	}
	if p.chance(2) {
		c.Head.Owner, c.Head.Status, c.Head.Wake = 0, journal.Pending, at(p.now+p.random.IntN(20))
	}
	if p.chance(3) {
		c.Entries[0].Detail = &journal.Detail{
			StartDetail: journal.StartDetail{Attributes: map[string]string{"tier": p.word()}},
		}
	}
	if h, ok := p.some(); ok && p.chance(3) {
		c.Head.Parent = h.Number
		c.Posts = []store.Post{toID(c.Head.WorkflowID, p.message())}
		c.Else = []store.Post{toRun(h.Number, p.message())}
	}
	if h, ok := p.some(); ok && p.chance(4) {
		c.Shares = h.Number // that run may be gone
	}
	if p.chance(5) {
		c.Head.Keep = time.Duration(p.random.IntN(100)) * time.Second
	}
	p.limits(&c, *c.Head)
	c.Head.Retain = []journal.Retention{
		"0s", "0s COMPLETED=1m0s", "50s", "ever", "",
	}[p.random.IntN(5)]
	return c
}

// word returns a random value out of a few.
func (p *player) word() string { return fmt.Sprint("value-", p.random.IntN(3)) }

// result returns a change with an entry: a step's result, an attribute, or an outbox entry.
func (p *player) result(h journal.Head, seq int64) store.Change {
	c := step(h.Number, seq)
	e := &c.Entries[0]
	e.Took = time.Duration(p.random.Int64())
	e.Data = []byte{byte(p.random.IntN(256))}[:p.random.IntN(2)]
	switch p.random.IntN(6) {
	case 0:
		e.Op.Key = fmt.Sprint(p.random.IntN(9))
		e.Detail = &journal.Detail{Attempt: 2, Due: at(p.now)}
	case 1:
		c = setting(h.Number, seq, "tier", []byte(p.word()))
		if p.chance(4) {
			c.Entries[0].Data = nil
		}
	case 2:
		e.Detail = &journal.Detail{Tell: true}
	case 3:
		e.Data, e.Spill = []byte("large"), p.number()
	}
	if len(p.due) > 0 && p.chance(3) {
		c.Told = []int64{p.due[p.random.IntN(len(p.due))]}
	}
	return c
}

// reading returns a change that takes a message, sometimes a message that is not there.
func (p *player) reading(h journal.Head, seq int64) store.Change {
	inbox := p.load(h.Number, store.Range{Inbox: true})
	if p.chance(30) {
		return taking(h.Number, seq, int64(p.random.IntN(9)+1), signal("x", ""))
	}
	if len(inbox) == 0 {
		return p.result(h, seq)
	}
	m := inbox[p.random.IntN(len(inbox))]
	return taking(h.Number, seq, m.Seq, m)
}

// message returns a signal, with one of a few names and IDs.
func (p *player) message() journal.Entry {
	m := signal(fmt.Sprint("x", p.random.IntN(3)), fmt.Sprint(p.random.IntN(40)))
	if p.chance(4) {
		m.Detail = nil
	}
	if p.chance(8) {
		m.Spill = p.number()
	}
	if p.chance(6) {
		m.Kind = journal.CancelAsked
		if p.chance(2) {
			m.Detail = terminates(0).Message.Detail
		}
	}
	return m
}

// post returns a message to a run, a message to a workflow ID, or a move of an unrouted
// message.
func (p *player) post() store.Post {
	h, ok := p.some()
	var post store.Post
	switch n := p.random.IntN(8); {
	case n == 0 && ok && len(p.kept) > 0:
		post = store.Post{Run: h.Number, Unrouted: p.kept[p.random.IntN(len(p.kept))]}
	case n < 4 && ok:
		post = toRun(h.Number, p.message())
	case n < 7:
		post = toID(p.id(), p.message())
		post.Until = at(p.now + p.random.IntN(100))
	default:
		post = toID(p.id(), p.message())
	}
	post.Force = p.chance(3)
	return post
}

func (p *player) takeSome() string {
	names := []string{"v", "w", "none"}[p.random.IntN(2):]
	c := store.TakeDue{
		Engine: p.engine, Workflows: names, Paused: []string{"w", "v", "none"}[p.random.IntN(4):],
		Max: p.random.IntN(5), Now: at(p.now),
	}
	c.Paused = slices.DeleteFunc(c.Paused, func(s string) bool { return slices.Contains(names, s) })
	got := p.claim(c)
	slices.SortFunc(got.Mail, byRun)
	s := "mail"
	for _, r := range got.Mail {
		s += text(r.Head) + text(r.Inbox) + fmt.Sprint(r.More)
	}
	for _, r := range slices.Concat(got.Mail, got.Runs) {
		p.learnMail(r.Head)
	}
	if c.Max == 0 {
		return s
	}
	return fmt.Sprintf("%s runs %s more %v next %s", s, text(got.Runs), got.More, moment(got.Next))
}

func (p *player) takeOne() string {
	h, _ := p.some()
	return text(p.claim(store.TakeRun{Engine: p.engine, Run: max(h.Number, 1)}).Runs)
}

func (p *player) outboxSome() string {
	got := p.claim(store.TakeOutbox{Engine: p.engine, Workflows: []string{"v", "w"}, Limit: 50}).
		Outbox
	s := "outbox"
	p.due = nil
	for _, o := range got {
		p.due = append(p.due, o.Number)
		s += text(o.Head) + text(o.Entry)
	}
	return s
}

func (p *player) findSome() string {
	f := store.Filter{Limit: 1 + p.random.IntN(10), Newest: p.chance(4), Open: p.chance(4)}
	h, _ := p.some()
	g, _ := p.some()
	for _, set := range []func(){
		func() { f.WorkflowID = p.id() },
		func() { f.WorkflowIDs = []string{p.id(), p.id()} },
		func() { f.Runs = []journal.RunID{h.ID, g.ID} },
		func() { f.Workflow = "w" },
		func() { f.Statuses = []journal.Status{journal.Completed, journal.Running} },
		func() { f.After = h.Cursor() },
		func() { f.Parent = h.Parent },
		func() { f.Owner = p.engine },
		func() { f.Busy = at(p.now) },
		func() { f.Attributes = map[string]string{"tier": p.word()} },
		func() { f.Workflows = []string{"v", "none", "w"}[p.random.IntN(3):] },
		func() { f.Patterns = []journal.Pattern{journal.PatternSaga, h.Pattern} },
		func() { f.Statuses = []journal.Status{journal.Failed, journal.TimedOut} },
		func() { f.Statuses = []journal.Status{journal.Suspended, journal.Waiting} },
		func() { f.Stale = at(p.now - p.random.IntN(50)) },
		func() { f.CreatedFrom = at(p.now - p.random.IntN(100)) },
		func() { f.CreatedTo = at(p.now - p.random.IntN(100)) },
		func() { f.EndedFrom = at(p.now - p.random.IntN(100)) },
		func() { f.EndedTo = at(p.now - p.random.IntN(100)) },
		func() { f.Error = []string{"card", "DECLINED", "%", "É"}[p.random.IntN(4)] },
		func() { f.Looks = 1 + p.random.IntN(20) },
	} {
		if p.chance(7) {
			set()
		}
	}
	if p.chance(3) {
		f.Looks = 0 // with a bound, stores may find other runs
		counts, err := store.CountRuns(p.Context(), p.s, f)
		return text(counts) + show(err)
	}
	var all []journal.Head
	for {
		heads, next, err := p.s.Find(p.Context(), f)
		if len(heads) > f.Limit {
			p.Errorf("%d heads on a page of %d", len(heads), f.Limit)
		}
		all = append(all, heads...)
		if f.After = next; err != nil || next.IsZero() {
			return text(all) + show(err)
		}
	}
}

func (p *player) loadSome() string {
	r := store.Range{
		From: int64(p.random.IntN(4)), Limit: p.random.IntN(4), Tail: p.chance(3),
		Payloads: p.chance(2),
	}
	h, ok := p.some()
	switch {
	case !ok || p.chance(3):
		r.From = 0 // the numbers depend on the driver
		return p.unroutedText(r)
	case p.chance(2):
		r.Inbox, r.Name = true, []string{"", "x1"}[p.random.IntN(2)]
	}
	return text(p.load(h.Number, r))
}

// purgeSome removes runs. The player does not send removed runs again.
func (p *player) purgeSome() string {
	got := p.purge(p.now-p.random.IntN(100), 50)
	p.sent = nil
	left := map[journal.Number]bool{}
	for _, h := range p.all() {
		left[h.Number] = true
	}
	p.heads = slices.DeleteFunc(p.heads, func(h journal.Head) bool { return !left[h.Number] })
	return fmt.Sprintf("%+v", got)
}
