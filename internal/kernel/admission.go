package kernel

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Before the code of a run is called, the run is admitted: it gets the slots and tokens of the
// limits of its workflow. The engine that has the run computes what to ask for, from the input, so
// it does not matter who started the run. The store answers in the commit that carries the asks:
// mostly that of the start. If it grants all, the code is called. Otherwise the run is PENDING with
// the limit as the cause and leaves memory: a message wakes it when it gets its slot, or its wake
// time when its token is due. Then it asks again for everything. The store knows what the run has,
// so nothing is granted twice, whatever crashes in between.
//
// The slots of a run have numbers below 0. It has them until it ends; the run that continues it
// inherits them.

// A start may ask for a time before which its run is not admitted. Until then the run is PENDING,
// the time is the cause, and no engine has the run. If a message wakes it, it goes back.

// An admission has the state of a run that is not admitted.
//
// Invariants: while the run is asking, its code is not called. The mu of the run guards it.
type admission struct {
	run    *run
	asking bool
	asks   []store.Ask // what the run asks for
	then   func()      // calls the code; with the lock
	// closed when the run has met the open run of its key, or is the first; nil if no start waits
	met   chan struct{}
	into  journal.RunID // the run that this one has joined
	all   []store.Ask   // of a run that gathers: what it asks for after that
	isDue bool          // it has gathered long enough
	joins journal.RunID // of a child: the run that has its input
	given *gathering    // nil before it has gathered
	under *rules.Rules  // those by which the run begins or asks; nil once that is durable
}

// isAsking reports whether the run waits for the store's answer.
func (d *admission) isAsking() bool { return d.asking }

// due returns the time before which the run is not admitted; zero if its start asked for none.
func (d *admission) due() time.Time {
	if d.run.start == nil { // its journal is damaged
		return time.Time{}
	}
	return d.run.start.Due
}

// isEarly reports whether the code of a claimed run is not to be called, because a message has
// woken the run before its time. It carries out commands, and makes the run leave memory.
func (d *admission) isEarly() bool {
	r, due := d.run, d.due()
	if r.k.until(due) <= 0 {
		return false
	}
	r.commands()
	if !r.gone() && r.ending.as() == 0 {
		d.standInLine(beginsAt(due), due)
	}
	return r.gone()
}

// beginsAt is the cause of a run that waits for its time.
func beginsAt(due time.Time) string { return forTime + due.UTC().Format(time.RFC3339) }

// The beginnings of causes of heads.
const (
	forTime = "begins at "
	forSlot = "waits for a slot of "
)

// BeginsLater reports whether a run waits for the time that its start has asked for, or for what no
// engine has looked at yet.
func BeginsLater(h journal.Head) bool {
	return h.Status == journal.Pending && (h.Cause == "" || strings.HasPrefix(h.Cause, forTime))
}

// WaitsForSlot reports whether a run waits for a slot of a limit of its workflow.
func WaitsForSlot(h journal.Head) bool {
	return h.Status == journal.Pending && strings.HasPrefix(h.Cause, forSlot)
}

// limitsOf returns what a run with that input has to get before its code is called, and the rules
// that say so. It calls the application's code.
func (k *Kernel) limitsOf(
	def *Workflow, input []byte,
) (asks []store.Ask, under *rules.Rules, f *journal.Failure) {
	if def == nil {
		return nil, nil, nil
	}
	if def.Limits != nil {
		err := guard.Call(func() error {
			asks, f = def.Limits(input)
			return nil
		})
		if abort := guard.AbortOf(err); abort != nil {
			of := "the key or priority in a limit of workflow " + def.Name
			return nil, nil, abortFailure(of, abort)
		}
	}
	under = k.rules.Load()
	return under.Asks(def.limited(), asks), under, f
}

// ask makes the run ask for slots and tokens, and calls then when it has them.
func (d *admission) ask(asks []store.Ask, then func()) {
	d.asking, d.asks, d.then = true, asks, then
	for i := range asks {
		d.run.send(outgoing{ask: &asks[i]})
	}
}

// askFirst does so. If the run is to gather starts, it asks for the slot of that first. If others
// may join it, it also asks for the slot that it has to its end. It comes to its limits when it is
// started, or at the time that the start asked for.
func (d *admission) askFirst(asks []store.Ask, then func()) {
	r := d.run
	for i := range asks {
		if asks[i].Slot != rules.OneSlot {
			asks[i].Came = d.from()
		}
	}
	switch {
	case asks[0].Slot != rules.OneSlot:
	case r.def.Gather != nil:
		d.all, asks = asks, asks[:1]
	case r.def.Singleton == singletonJoins:
		asks = slices.Insert(slices.Clone(asks), 1, d.carrier(r.number()))
	}
	d.ask(asks, then)
}

// askAnew computes what a claimed run has to ask for, and makes it ask. The key is computed by the
// application's code, which is called without the lock.
func (d *admission) askAnew(then func()) {
	r := d.run
	d.asking = true
	input, seq := r.values.startInput()
	turn := r.k.nextToAsk(cmp.Or(r.def.Limit, r.def.Name))
	r.inbox.hold()
	go func() {
		defer turn.pass()
		var err error
		if seq != 0 {
			input, err = r.k.fetch(r.number(), seq)
		}
		var asks []store.Ask
		var under *rules.Rules
		var f *journal.Failure
		if err == nil {
			asks, under, f = r.k.limitsOf(r.def, input)
		}
		turn.await(r.k.dead)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inbox.letGo()
		if r.gone() {
			return
		}
		if under != nil { // else it is not admitted by them
			d.under = under
		}
		if r.commands(); r.gone() {
			return
		}
		if r.ending.as() != 0 { // its code is called to clean up, which needs no slot
			d.then = then
			d.admit()
			return
		}
		switch {
		case err != nil:
			r.suspend(unreadable(err))
		case f != nil:
			d.asking = false
			r.finish(failedBy(f), true)
		default:
			if asks = d.still(asks); len(asks) == 0 {
				d.then = then
				d.admit()
				return
			}
			d.askFirst(asks, then)
			r.enlist()
		}
	}()
}

// still returns those asks that the run needs. A run that continues another does not begin anew, so
// it needs no token. Nor does it gather, as a run that retries another does not. A child whose
// input another run has waits for the end of that run only.
func (d *admission) still(asks []store.Ask) []store.Ask {
	r, m := d.run, d.run.memo
	if d.joined() != "" {
		return d.byCarrier()
	}
	return slices.DeleteFunc(asks, func(a store.Ask) bool {
		return m.continues() && a.Every > 0 ||
			a.Slot == rules.OneSlot && r.def.Gather != nil && (m.continued || m.retried)
	})
}

// answered takes the answers of the store. The commit by which a run begins may have asks of its
// code beside the ask for the slot that it has to its end. It is called with the lock.
func (d *admission) answered(asks []store.Ask) {
	r := d.run
	own := slices.IndexFunc(asks, func(a store.Ask) bool { return a.Slot < 0 }) >= 0
	for i := range asks {
		if r.gone() {
			return
		}
		if o := r.operations.asker(asks[i].Slot); asks[i].Slot > 0 && o != nil {
			o.answered(&asks[i])
		}
	}
	if !own || !d.asking || r.gone() {
		return
	}
	for i := range asks {
		switch a := &asks[i]; a.Answer {
		case store.Granted:
		case store.InLine:
			if d.gotSince(a) {
				return
			}
			switch a.Slot {
			case rules.OneSlot:
				d.meet(a)
			case rules.BySlot:
				d.waitFor(d.joined(), likeRun(d.joined()), time.Time{})
			default:
				d.standInLine(forSlot+limitName(a), time.Time{})
			}
			return
		case store.Later:
			d.standInLine("waits for a token of "+limitName(a), r.k.Now().Add(a.Wait).Round(0))
			return
		default: // the store had the group before and does not know the answer
			d.ask(d.asks, d.then)
			r.enlist()
			return
		}
	}
	d.first()
}

// limitName returns a limit and its key, as people see it.
func limitName(a *store.Ask) string {
	if a.Key == "" {
		return "limit " + rules.Shown(a.Limit)
	}
	return "limit " + rules.Shown(a.Limit) + "[" + a.Key + "]"
}

// settled is called with the lock when a commit is durable, and its answers are taken. If the run
// has begun by it, or got an answer to what it asked for, the engine compares its rules with the
// newest. A run that waits for an answer, or is to stand in line, has not begun: before the commit
// that says so, the store would count it.
func (d *admission) settled(c *store.Change) {
	stands := d.asking || d.run.status() == journal.Pending
	if d.under == nil || stands && !c.Unload {
		return
	}
	begun := c.Unload || c.Create || slices.ContainsFunc(c.Entries, func(e journal.Entry) bool {
		return e.Status != 0 && e.Status != journal.Pending
	})
	if begun || len(c.Asks) > 0 {
		d.run.k.outrun(d.under)
	}
	if begun {
		d.under = nil
	}
}

// admit calls the code of the run.
func (d *admission) admit() {
	d.asking = false
	d.isMet()
	d.then()
	d.run.dispatch()
}

// standInLine makes the run leave memory until it gets its slot or until its token is due.
func (d *admission) standInLine(cause string, due time.Time) {
	d.waitFor("", cause, due)
}

// waitFor does so for a run that is to end like another one, if it is not empty.
func (d *admission) waitFor(other journal.RunID, cause string, due time.Time) {
	r := d.run
	d.asking = false
	d.isMet()
	r.leaveHead(journal.Pending, cause, earlier(due, r.due()))
	r.append(journal.Entry{
		Kind: journal.StatusChanged, Status: journal.Pending,
		Detail: d.takeGrant(&journal.Detail{Reason: cause, Due: due, Other: other}),
	})
	r.unloadHead(r.inbox.known())
	r.writeHead()
	r.leave()
	r.seal()
	if wake := r.head().Wake; !wake.IsZero() {
		r.whenDurable(effect{do: func() { r.k.wakeBy(wake) }})
	}
}

// gotSince reports whether the run has got a slot since the store answered that it is in line for
// it. If so, it asks again. A run that took the message and stood in line would not be woken.
func (d *admission) gotSince(a *store.Ask) bool {
	r := d.run
	if r.inbox.find(func(e *journal.Entry) bool { return isGrant(e, a.Slot) }) == nil {
		return false
	}
	r.append(journal.Entry{
		Kind: journal.StatusChanged, Status: r.status(), Detail: d.takeGrant(&journal.Detail{}),
	})
	d.ask(d.asks, d.then)
	r.seal()
	return true
}

// takeGrant adds the message by which the run got a slot to the detail of the entry that is
// appended next. If there are several, the others have entries of their own.
func (d *admission) takeGrant(detail *journal.Detail) *journal.Detail {
	r := d.run
	for {
		e := r.inbox.find(func(e *journal.Entry) bool {
			number, err := strconv.ParseInt(e.Op.Key, 10, 64)
			return e.Kind == journal.SlotGranted && err == nil && number < 0
		})
		switch {
		case e == nil:
			return detail
		case detail.Mail == 0:
			detail.Mail = e.Seq
		default:
			r.outside(journal.Entry{
				Kind: journal.StatusChanged, Status: r.status(),
				Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: detail.Mail}},
			})
			detail.Mail = e.Seq
		}
		r.inbox.remove(e.Seq, r.last()+1)
	}
}

// A Singleton is the way in which a run meets the open run of its key.
type Singleton uint8

// The values are those of package limit.
const (
	noSingleton Singleton = iota
	singletonJoins
	singletonReplaces
)

// The runs of a singleton have one slot for each key. A run that has to wait for it looks for the
// run that has it. If the run is to join, it ends as continued by that run. The slot tells which
// run was open in the commit of the ask, so it does not matter if that run ends meanwhile. A parent
// would not hear of the end of a run that is not its child, so a child stays, and ends like the run
// that it has joined: that run has a slot of its own number to its end, and then the child gets it.
//
// If the run is to replace the other one, it cancels that, and those before it in line, in the
// commit by which it stands in line.

// isMet lets a start go on that waits to hear which run stands for it.
func (d *admission) isMet() {
	if d.met != nil {
		close(d.met)
		d.met = nil
	}
}

// stands returns the run that stands for a start, if the run of the start has joined it; else the
// empty ID. It takes the lock.
func (d *admission) stands() journal.RunID {
	d.run.mu.Lock()
	defer d.run.mu.Unlock()
	return d.into
}

// look calls f with what the store returns, with the lock, unless the run is over or is to end
// meanwhile.
func (d *admission) look(ask func() error, f func()) {
	r := d.run
	r.inbox.hold()
	go func() {
		err := r.k.persist(ask)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inbox.letGo()
		switch {
		case err != nil && !isCorrupt(err): // the engine is over, as its next claim will report
			r.k.look()
			return
		case r.gone():
			return
		case isCorrupt(err):
			r.suspend(unreadable(err))
			return
		}
		if r.commands(); r.gone() {
			return
		}
		f()
		if !r.gone() {
			r.dispatch()
		}
	}()
}

// meet is called for a run that waits for the slot of a singleton.
func (d *admission) meet(a *store.Ask) {
	r := d.run
	most := 1
	if r.def.Singleton == singletonReplaces {
		most = store.MaxLimit
	}
	var line []store.Slot
	d.look(func() (err error) {
		line, err = d.line(a, most)
		return err
	}, func() {
		if d.follows() || d.gotSince(a) {
			return
		}
		var holder store.Slot
		if len(line) > 0 && line[0].Held {
			holder = line[0]
		}
		id := journal.MakeRunID(r.k.database(), holder.Run)
		switch {
		case holder.Run == r.number(): // the other run has ended since
			d.ask(d.asks, d.then)
			r.enlist()
		case holder.Run == 0: // the store shows no slots
			d.standInLine(forSlot+limitName(a), time.Time{})
		case r.def.Singleton == singletonReplaces:
			for _, s := range line {
				if s.Run == r.number() {
					break
				}
				r.send(outgoing{post: replaces(r, s.Run)})
			}
			d.standInLine("replaces run "+string(id), time.Time{})
		case r.def.Gather != nil:
			d.waitToBeGathered(a, holder, id)
		case r.memo != nil && (r.memo.continued || r.memo.retried):
			d.standInLine("waits for the end of run "+string(id), time.Time{})
		case r.head().Parent != 0:
			d.stays(id, 0)
			d.follows()
		default:
			d.asking, d.into = false, id
			r.finish(joined(id, 0), true)
		}
	})
}

// joined returns the end of a run that is continued by the open run of its key.
func joined(id journal.RunID, mail int64) termination {
	why := "joins run " + string(id)
	detail := &journal.Detail{
		Other: id, Reason: why, MessageDetail: journal.MessageDetail{Mail: mail},
	}
	return termination{
		last: journal.Entry{
			Kind: journal.RunContinued, Status: journal.ContinuedAsNew, Detail: detail,
		},
		why: why, out: Outcome{Detail: detail},
		end: &journal.Error{Code: journal.CodeCompleted, Message: "the run " + why},
	}
}

// replaces returns the message by which a run cancels another one. A run gets it once.
func replaces(by *run, n journal.Number) *store.Post {
	id := journal.MakeRunID(by.k.database(), n)
	p := asksCancel(by.k.Now(), by.id(), id, n, "replaced by run "+string(by.id()), "")
	p.Message.Detail.Message = "replaced/" + string(id)
	return p
}

// first admits a run that has all that it has asked for, unless it gathers starts first, or is to
// end like another run.
func (d *admission) first() {
	r := d.run
	a := &d.asks[0]
	switch {
	case a.Slot == rules.BySlot:
		d.endLike(d.joined())
	case d.follows():
	case a.Slot == rules.OneSlot && r.def.Gather != nil:
		d.gather(a)
	default:
		d.admit()
	}
}

// endLike ends a child like the run that it has joined.
func (d *admission) endLike(id journal.RunID) {
	r := d.run
	var head journal.Head
	var out Outcome
	var spill journal.Number
	var failure *journal.Failure
	d.look(func() (err error) {
		head, out, err = r.k.lastOf(context.Background(), id)
		if err == nil && len(out.Data) > 0 {
			spill, failure = r.k.persistPayload("the output", &out.Data)
		}
		return err
	}, func() {
		switch {
		case failure != nil:
			d.asking = false
			r.finish(failedBy(failure), true)
		case !head.Status.IsTerminal():
			d.asking = false
			r.finish(failedBy(&journal.Failure{
				Code:    journal.CodeNotFound,
				Message: "run " + string(id) + ", which has its input, is not kept any more",
			}), true)
		default:
			d.asking = false
			r.finish(endedAs(head.Status, out.Data, spill, out.Failure), true)
		}
	})
}

// lastOf returns the head and the outcome of the last run of a chain. The head is zero if the run
// is not kept any more.
func (k *Kernel) lastOf(ctx context.Context, id journal.RunID) (journal.Head, Outcome, error) {
	for {
		head, err := k.Find(ctx, string(id))
		if journal.CodeOf(err) == journal.CodeNotFound {
			return journal.Head{}, Outcome{}, nil
		}
		if err != nil || !head.Status.IsTerminal() {
			return head, Outcome{}, err
		}
		out, err := k.outcome(ctx, head)
		if err != nil || head.Status != journal.ContinuedAsNew {
			return head, out, err
		}
		id = out.Detail.Other
	}
}

// line returns the slot of a limit, and those in line for it.
func (d *admission) line(a *store.Ask, most int) ([]store.Slot, error) {
	return d.run.k.Slots(context.Background(), store.SlotQuery{
		Limit: a.Limit, Key: &a.Key, Count: most,
	})
}

// gather is called for a run that has the slot. It makes the run leave memory until it is due, or
// begin.
func (d *admission) gather(a *store.Ask) {
	r, g := d.run, d.run.def.Gather
	if r.memo == nil { // it was started just now
		d.gatherUntil(g.due(d.from(), d.from()))
		return
	}
	if d.isDue {
		d.take(a)
		return
	}
	var line []store.Slot
	d.look(func() (err error) {
		line, err = d.line(a, g.Most)
		return err
	}, func() {
		if d.follows() {
			return
		}
		last := d.from()
		for _, s := range line {
			last = later(last, s.Since)
		}
		due := g.due(d.from(), last)
		if len(line) < g.Most && r.k.until(due) > 0 {
			d.gatherUntil(due)
			return
		}
		d.isDue = true
		if len(d.all) == 1 {
			d.take(a)
			return
		}
		d.ask(d.all, d.then)
		r.enlist()
	})
}

func (d *admission) gatherUntil(due time.Time) {
	if d.run.memo != nil {
		for _, a := range d.all[1:] { // another start has come while it had to wait for these
			d.run.send(outgoing{free: a.Slot})
		}
	}
	d.standInLine("gathers starts until "+due.UTC().Format(time.RFC3339Nano), due)
}

// take gathers, unless a run that had the slot before has the input of this one: the message that
// says so came with the slot, and may not have been heard of.
func (d *admission) take(a *store.Ask) {
	r := d.run
	r.ask(store.Range{Name: controlName}, func(messages []journal.Entry) {
		r.inbox.merge(messages)
		if r.commands(); !r.gone() && !d.follows() {
			d.takeLine(a)
		}
	})
}

// takeLine reads the runs in line and their inputs, and admits the run.
func (d *admission) takeLine(a *store.Ask) {
	r, g := d.run, d.run.def.Gather
	own, seq := r.values.startInput()
	given := &gathering{slot: *a}
	var wrong *journal.Failure
	d.look(func() error {
		line, err := d.line(a, g.Most)
		if err != nil {
			return err
		}
		given.runs = nil
		for _, s := range line {
			if !s.Held {
				given.runs = append(given.runs, s.Run)
			}
		}
		if len(given.runs) > 0 {
			wrong, err = given.read(r, own, seq)
		}
		return err
	}, func() {
		switch {
		case d.follows():
			return
		case wrong != nil:
			d.asking = false
			r.finish(failedBy(wrong), true)
			return
		}
		if d.given = given; len(given.runs) > 0 {
			r.values.give(given.input)
		}
		d.admit()
	})
}

// handOver writes to the runs whose inputs the run has gathered, in the commit of its claim.
func (d *admission) handOver() {
	r, g := d.run, d.given
	if g == nil {
		return
	}
	d.given = nil
	r.send(outgoing{free: g.slot.Slot})
	for _, n := range g.runs {
		r.send(outgoing{post: asksJoin(r.k.Now(), r.id(), n)})
	}
	if len(g.runs) > 0 {
		a := d.carrier(r.number())
		r.send(outgoing{ask: &a})
	}
}

// asksJoin returns the message that a run is continued by another one.
func asksJoin(now time.Time, by journal.RunID, n journal.Number) *store.Post {
	return &store.Post{Run: n, Force: true, Message: journal.Entry{
		Kind: journal.CancelAsked, At: now, Op: journal.Op{Name: controlName},
		Detail: &journal.Detail{Other: by, MessageDetail: journal.MessageDetail{
			Message: "join/" + string(by), Mode: journal.ActionJoin,
		}},
	}}
}

// carrier returns the ask for the slot that a run has to its end if others may end like it.
func (d *admission) carrier(n journal.Number) store.Ask {
	return store.Ask{
		Slot: rules.BySlot, Limit: d.run.head().Workflow + rules.ByLimit,
		Key: strconv.FormatInt(int64(n), 10), Max: 1,
	}
}

// waitToBeGathered is called for a run in line. The run that makes the line long enough wakes the
// run that gathers.
func (d *admission) waitToBeGathered(a *store.Ask, holder store.Slot, id journal.RunID) {
	r := d.run
	if holder.Line+1 >= int64(r.def.Gather.Most) {
		r.send(outgoing{post: &store.Post{Run: holder.Run, Force: true, Message: journal.Entry{
			Kind: journal.SlotGranted, At: r.k.Now(),
			Op: journal.Op{Name: store.SlotMessage, Key: slotKey(rules.OneSlot)},
			Detail: &journal.Detail{MessageDetail: journal.MessageDetail{
				Message: "full/" + string(r.id()),
			}},
		}}})
	}
	d.standInLine("waits to be gathered by run "+string(id), time.Time{})
}

// join ends a run that has not begun as continued by another one. If it is a child, it stays, to
// end like that run. It reports whether an entry has taken the message.
func (d *admission) join(id journal.RunID, mail int64) bool {
	r := d.run
	switch {
	case r.ending.as() != 0, r.memo != nil && r.memo.admitted, r.root.state != isNew:
		return false
	case r.head().Parent == 0:
		d.asking = false
		r.finish(joined(id, mail), true)
		return true
	}
	d.stays(id, mail)
	return true
}

// stays records that a child is to end like another run, and makes it leave the line.
func (d *admission) stays(id journal.RunID, mail int64) {
	r := d.run
	d.joins = id
	r.append(journal.Entry{
		Kind: journal.StatusChanged, Status: r.status(),
		Detail: &journal.Detail{
			Other: id, MessageDetail: journal.MessageDetail{Mail: mail},
		},
	})
	r.send(outgoing{free: rules.OneSlot})
	r.seal()
}

// joined returns the run that a child is to end like; empty for none.
func (d *admission) joined() journal.RunID {
	if d.joins == "" && d.run.memo != nil {
		return d.run.memo.joins
	}
	return d.joins
}

// follows reports whether the run is a child that is to end like another run. It asks for the slot
// of that run then.
func (d *admission) follows() bool {
	if d.joined() == "" {
		return false
	}
	d.ask(d.byCarrier(), d.then)
	d.run.enlist()
	return true
}

// byCarrier returns the ask of a child for the slot of the run that has its input.
func (d *admission) byCarrier() []store.Ask {
	n, _ := d.joined().Number(d.run.k.database())
	return []store.Ask{d.carrier(n)}
}

func likeRun(id journal.RunID) string { return "waits to end like run " + string(id) }

// from returns the time from which on the run gathers.
func (d *admission) from() time.Time { return later(d.run.created(), d.due()) }
