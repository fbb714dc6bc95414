package races

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A sent is a call that sent a message, whose payload is its own number.
type sent struct {
	id           int
	name, key    string
	to           string // a run ID or a workflow ID
	call         int    // of the start that goes with it; 0 for none
	decision     bool
	began, ended time.Time
	got          perdure.Delivery
	err          error
}

// A launch is a call that started a run.
type launch struct {
	call  int
	id    string
	began time.Time
	run   journal.RunID
	isNew bool
	err   error
}

// An order is a call of an operator on a run.
type order struct {
	what, to     string
	atOnce       bool // on an engine
	began, ended time.Time
	err          error
}

// A chapter is a run as the store has it.
type chapter struct {
	head    journal.Head
	in      racing
	entries []journal.Entry
	unread  []journal.Entry
	state   journal.Snapshot
	saw     []report
	err     error
}

// chapters returns all runs by number.
func (h *history) chapters() []*chapter {
	ctx := context.Background()
	heads, _, err := h.other.Find(ctx, store.Filter{Limit: store.MaxLimit})
	if err != nil {
		panic(err)
	}
	slices.SortFunc(heads, func(a, b journal.Head) int { return cmp.Compare(a.Number, b.Number) })
	var out []*chapter
	for _, head := range heads {
		c := &chapter{head: head}
		c.entries, c.err = h.other.Load(ctx, head.Number, store.Range{Payloads: true})
		if c.err == nil {
			c.unread, c.err = h.other.Load(ctx, head.Number, store.Range{
				Inbox: true, Payloads: true,
			})
		}
		a := journal.NewAggregate(head.ID, head.WorkflowID, head.Workflow, head.Pattern)
		for _, e := range c.entries {
			if c.err == nil {
				c.err = a.Apply(e)
			}
			var r report
			switch {
			case e.Kind == journal.StatePublished && json.Unmarshal(e.Data, &r) == nil:
				c.saw = append(c.saw, r)
			case e.Kind == journal.RunStarted:
				_ = json.Unmarshal(e.Data, &c.in)
			}
		}
		c.state = a.Snapshot()
		out = append(out, c)
	}
	return out
}

// stuck returns the runs that do not wait for something that is still to come, at a time at which
// nothing goes on by itself (G3, T1, T6, D4).
func (h *history) stuck() []string {
	var bad []string
	all := h.chapters()
	byID := map[journal.RunID]*chapter{}
	for _, c := range all {
		byID[c.head.ID] = c
	}
	for _, c := range all {
		if c.head.Status.IsTerminal() {
			bad = append(bad, c.orphans(byID)...)
			continue
		}
		d, err := h.near.Describe(context.Background(), string(c.head.ID))
		if err != nil || d.Why == "" {
			bad = append(bad, fmt.Sprintf("nobody says why run %s is %v: %v", c.head.ID,
				c.head.Status, err))
		}
		for _, what := range c.stuck(byID) {
			bad = append(bad,
				fmt.Sprintf("run %s is stuck: %s; %v", c.head.ID, what, world.Tail(c.entries, 8)))
		}
	}
	for _, m := range h.unrouted() {
		for _, c := range all {
			if c.head.WorkflowID == m.Detail.To && !c.head.Status.IsTerminal() {
				bad = append(bad, fmt.Sprintf("message %s is unrouted, and run %s is open", m.Data,
					c.head.ID))
			}
		}
	}
	return bad
}

func (c *chapter) stuck(byID map[journal.RunID]*chapter) []string {
	var bad []string
	for _, m := range c.unread {
		if m.Kind == journal.CancelAsked || m.Kind == journal.ResumeAsked &&
			c.head.Status == journal.Suspended {
			bad = append(bad, fmt.Sprintf("it has not read %v", m.Kind))
		}
	}
	switch status := c.head.Status; {
	case status == journal.Suspended && c.head.Cause != "":
		if c.head.Cause != suspendedByRace {
			bad = append(bad, "it is parked because of "+c.head.Cause)
		}
		return bad
	case status != journal.Suspended && status != journal.Waiting:
		return append(bad, fmt.Sprintf("it is %v", status))
	case c.head.Cause != "":
		return append(bad, "its code failed with "+c.head.Cause)
	case len(c.state.Waits) == 0:
		return append(bad, "it waits for nothing")
	}
	for _, w := range c.state.Waits {
		if !w.Due.IsZero() && !w.Due.After(time.Now()) {
			bad = append(bad, fmt.Sprintf("%s was due %v ago", w.Path, time.Since(w.Due)))
		}
		if m := c.fitting(w); m != nil {
			bad = append(bad, fmt.Sprintf("%s has not taken message %d, %s", w.Path, m.Seq, m.Data))
		}
		if w.Kind == journal.WaitChild {
			if child := byID[w.Child]; child == nil || child.last(byID).head.Status.IsTerminal() {
				bad = append(bad, "it waits for child "+string(w.Child)+
					", which has ended or never was")
			}
		}
	}
	return bad
}

// fitting returns an unread message that a wait should have taken; nil for none.
func (c *chapter) fitting(w journal.Wait) *journal.Entry {
	for i := range c.unread {
		m := &c.unread[i]
		switch {
		case w.Kind == journal.WaitSignal && m.Kind == journal.SignalReceived &&
			m.Op.Name == w.Op.Name && fits(w.Op.Key, idOf(m.Data)),
			w.Kind == journal.WaitDecision && m.Kind == journal.DecisionMade && m.Op == w.Op,
			w.Kind == journal.WaitChild && m.Kind == journal.ChildCompleted &&
				m.Op.Key == string(w.Child):
			return m
		}
	}
	return nil
}

// last returns the last run of the chain.
func (c *chapter) last(byID map[journal.RunID]*chapter) *chapter {
	for c.state.Successor != "" && byID[c.state.Successor] != nil {
		c = byID[c.state.Successor]
	}
	return c
}

// orphans returns the children of an ended run that should have been cancelled with it.
func (c *chapter) orphans(byID map[journal.RunID]*chapter) []string {
	var bad []string
	for _, e := range c.entries {
		if e.Kind != journal.ChildStarted {
			continue
		}
		policy := perdure.ChildPolicy(e.Detail.Policy)
		goes := policy == perdure.ChildEnds || policy == "" && c.head.Status == journal.Cancelled
		child := byID[e.Detail.Other]
		if goes && child != nil && !child.last(byID).head.Status.IsTerminal() {
			bad = append(bad, fmt.Sprintf("run %s is %v, and its child %s goes on", c.head.ID,
				c.head.Status, child.head.ID))
		}
	}
	return bad
}

func (h *history) unrouted() []journal.Entry {
	all, err := h.other.Load(context.Background(), 0, store.Range{Inbox: true, Payloads: true})
	if err != nil {
		panic(err)
	}
	return all
}

// idOf returns the number in a payload; 0 for none.
func idOf(data []byte) int {
	var n int
	if json.Unmarshal(data, &n) != nil {
		return 0
	}
	return n
}

// A found is a place in which a message is at the end.
type found struct {
	chain    journal.Number // 0 among the unrouted
	number   int64
	consumed bool
}

// A judgement compares the answers to callers with the final state of the store.
type judgement struct {
	*history
	all    []*chapter
	byID   map[journal.RunID]*chapter
	sentBy map[int]*sent
	places map[int][]found                     // by message
	keyed  map[journal.Number]map[string][]int // by chain and key the messages
	bad    []string
}

func (j *judgement) fail(format string, args ...any) {
	j.bad = append(j.bad, fmt.Sprintf(format, args...))
}

// judge returns the errors at the end. It knows only the answers to callers, and the journals and
// inboxes that are left.
func (h *history) judge() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &judgement{
		history: h, all: h.chapters(), byID: map[journal.RunID]*chapter{}, sentBy: map[int]*sent{},
		places: map[int][]found{}, keyed: map[journal.Number]map[string][]int{}, bad: h.returned,
	}
	for _, s := range h.sends {
		j.sentBy[s.id] = s
	}
	chains := map[journal.Number][]*chapter{}
	for _, c := range j.all {
		j.byID[c.head.ID] = c
		chains[c.head.Chain] = append(chains[c.head.Chain], c)
		j.chapter(c)
	}
	for _, c := range chains {
		slices.SortFunc(c, func(a, b *chapter) int { return a.in.Round - b.in.Round })
		j.chain(c)
	}
	for _, m := range h.unrouted() {
		j.place(idOf(m.Data), found{number: m.Seq})
		h.sum.Unrouted++
	}
	for _, s := range h.sends {
		j.sent(s)
	}
	j.begun()
	j.children()
	j.orders()
	h.sum.Histories, h.sum.Runs, h.sum.Calls = 1, len(j.all), len(h.sends)+len(h.starts)+
		len(h.orders)
	return j.bad
}

// chapter judges one run by itself.
func (j *judgement) chapter(c *chapter) {
	id := c.head.ID
	if c.err != nil {
		j.fail("run %s cannot be read: %v", id, c.err)
	}
	for _, bad := range world.Audit(perdure.Description{Head: c.head, State: c.state}, c.entries) {
		j.fail("run %s: %s", id, bad)
	}
	if !c.head.Status.IsTerminal() {
		j.fail("run %s is %v and cannot be brought to its end: %+v, %v", id, c.head.Status,
			c.state.Waits,
			world.Tail(c.entries, 8))
	}
	due, ends := map[journal.Op]time.Time{}, map[journal.Op]int{}
	for _, e := range c.entries {
		switch e.Kind {
		case journal.WaitStarted, journal.TimerRegistered:
			due[e.Op] = dueOf(&e)
		case journal.SignalConsumed, journal.WaitEnded, journal.TimerFired, journal.TimerCancelled,
			journal.ChildCompleted:
			if ends[e.Op]++; ends[e.Op] > 1 { // T3, T4, D2
				j.fail("run %s: %v of %v ended twice", id, e.Kind, e.Op)
			}
		case journal.RunSuspended:
			if e.Detail.Reason != suspendedByRace {
				j.fail("run %s was parked: %s", id, e.Detail.Reason)
			}
		case journal.RunRetrying:
			j.fail("the code of run %s failed: %v", id, e.Detail.Failure)
		}
		timedOut := e.Kind == journal.WaitEnded && e.Detail.Failure != nil &&
			e.Detail.Failure.Code == journal.CodeTimedOut && e.Detail.ByWait
		if (timedOut || e.Kind == journal.TimerFired) && e.At.Before(due[e.Op]) { // T2
			j.fail("run %s: %v of %v came %v early", id, e.Kind, e.Op, due[e.Op].Sub(e.At))
		}
		if c.head.Owner != 0 || e.Kind == journal.StatusChanged && e.Status == journal.Waiting {
			j.sum.Unloads++
		}
	}
	for _, r := range c.saw {
		if r.What == "time" && r.Took < r.Asked { // T2
			j.fail("run %s waited %v instead of %v", id, r.Took, r.Asked)
		}
	}
}

// chain judges the messages of a chain of runs: their numbers have no gap, each
// was taken once (G1), by the first wait that it fits, in their order (G4), and no
// wait was given up while one was there.
func (j *judgement) chain(cs []*chapter) {
	last := cs[len(cs)-1]
	inbox := map[int64]journal.Entry{} // what there was, as far as it is known
	takers := map[int64]int{}          // the position of the entry that took it, in the chain
	saw := map[int]int{}
	told := map[int64]int{}
	for _, c := range cs {
		for _, r := range c.saw {
			switch r.What {
			case "take":
				told[r.Number] = r.ID
			case "wait", "decision":
				if saw[r.ID]++; saw[r.ID] > 1 {
					j.fail("the code of run %s was given message %d twice", c.head.ID, r.ID)
				}
			}
		}
	}
	at := 0
	for _, c := range cs {
		for _, e := range c.entries {
			if at++; e.Detail == nil || e.Detail.Mail == 0 || e.Kind.IsMessage() &&
				e.Kind != journal.TimerCancelled && e.Kind != journal.ChildCompleted {
				continue
			}
			n := e.Detail.Mail
			if takers[n] != 0 {
				j.fail("run %s took message %d of its chain again", c.head.ID, n)
			}
			takers[n], inbox[n] = at, e
			switch {
			case e.Kind == journal.SignalConsumed:
				j.place(idOf(e.Data), found{last.head.Chain, n, true})
			case told[n] != 0:
				j.place(told[n], found{last.head.Chain, n, true})
			}
		}
		if c != last && len(c.unread) > 0 {
			j.fail("run %s has left %d messages behind", c.head.ID, len(c.unread))
		}
	}
	for _, m := range last.unread {
		if takers[m.Seq] != 0 {
			j.fail("run %s has taken message %d and has it still", last.head.ID, m.Seq)
		}
		takers[m.Seq], inbox[m.Seq] = 1<<30, m
		if m.Kind == journal.SignalReceived || m.Kind == journal.DecisionMade {
			j.place(idOf(m.Data), found{last.head.Chain, m.Seq, false})
			j.sum.Unread++
		}
	}
	for n := int64(1); n <= last.head.Mail; n++ {
		if takers[n] == 0 {
			j.fail("message %d of run %s is neither taken nor there", n, last.head.ID)
		}
	}
	if len(takers) > int(last.head.Mail) {
		j.fail("run %s has %d messages, and was sent %d", last.head.ID, len(takers), last.head.Mail)
	}
	j.waits(cs, inbox, takers)
	j.seen(cs, saw)
}

// waits judges which message each wait of a chain took, or that it took none.
func (j *judgement) waits(cs []*chapter, inbox map[int64]journal.Entry, takers map[int64]int) {
	at := 0
	for _, c := range cs {
		due := map[journal.Op]time.Time{}
		for _, e := range c.entries {
			at++
			if e.Kind == journal.WaitStarted {
				due[e.Op] = dueOf(&e)
			}
			timedOut := e.Kind == journal.WaitEnded && e.Detail.Failure != nil &&
				e.Detail.Failure.Code == journal.CodeTimedOut && e.Detail.ByWait
			if e.Kind != journal.SignalConsumed && !timedOut {
				continue
			}
			for n, m := range inbox {
				s := j.sentBy[idOf(m.Data)]
				if takers[n] <= at || s == nil || s.name != e.Op.Name || !fits(e.Op.Key, s.id) ||
					m.Op.Occ != 0 && m.Op != e.Op { // a decision for another question
					continue
				}
				if !timedOut && n < e.Detail.Mail {
					j.fail("run %s: %v took message %d and left message %d before it", c.head.ID,
						e.Op, e.Detail.Mail, n)
				}
				if timedOut && s.got.Number == n && !s.got.Unrouted && s.err == nil &&
					s.ended.Before(due[e.Op]) {
					j.fail("run %s: %v timed out, and message %d was there %v before", c.head.ID,
						e.Op, n, due[e.Op].Sub(s.ended))
				}
			}
		}
	}
}

// seen judges what code got: messages that were consumed, and in a completed run all of them.
func (j *judgement) seen(cs []*chapter, saw map[int]int) {
	for _, c := range cs {
		consumed := map[int]bool{}
		for _, e := range c.entries {
			if e.Kind != journal.SignalConsumed {
				continue
			}
			j.sum.Consumed++
			id := idOf(e.Data)
			consumed[id] = true
			if c.head.Status == journal.Completed && saw[id] == 0 &&
				!strings.HasPrefix(e.Op.Key, "loose") {
				j.fail("run %s consumed message %d, and its code never saw it", c.head.ID, id)
			}
		}
		for _, r := range c.saw {
			if (r.What == "wait" || r.What == "decision") && !consumed[r.ID] {
				j.fail("the code of run %s saw message %d, which the run has not consumed",
					c.head.ID, r.ID)
			}
		}
	}
}

func (j *judgement) place(id int, at found) {
	s := j.sentBy[id]
	if s == nil {
		j.fail("nobody has sent message %d, which is at %+v", id, at)
		return
	}
	// A message by workflow ID that is sent again, since its answer was lost, is known
	// again only where the ID stands for the same chain still.
	again := j.loses() && slices.Contains(raceIDs, s.to) &&
		s.ended.Sub(s.began) >= 10*time.Millisecond
	if len(j.places[id]) > 0 && (!again || j.places[id][0].chain == at.chain) { // G1
		j.fail("message %d is at %+v and at %+v", id, j.places[id][0], at)
	}
	j.places[id] = append(j.places[id], at)
	if s.key == "" || at.chain == 0 {
		return
	}
	keys := j.keyed[at.chain]
	if keys == nil {
		keys = map[string][]int{}
		j.keyed[at.chain] = keys
	}
	if keys[s.key] = append(keys[s.key], id); len(keys[s.key]) > 1 { // G2
		j.fail("messages %v have the same key %s in one chain", keys[s.key], s.key)
	}
}

// sent judges the fate of one message.
func (j *judgement) sent(s *sent) {
	places, told := j.places[s.id], s.fate()
	what := fmt.Sprintf("message %d to %s, %s (%+v, %v)", s.id, s.to, told, s.got, s.err)
	switch {
	case told == unknown:
		j.sum.Unknown++
	case told == refused:
		// G6; what was sent again after its answer was lost may be told the state of then
		if len(places) > 0 && !j.loses() {
			j.fail("%s, is at %+v", what, places[0])
		}
		if s.call != 0 && journal.CodeOf(s.err) != journal.CodeConflict { // G5
			j.fail("%s: a start goes with it", what)
		}
		//
		if slices.Contains(raceIDs, s.to) && !s.decision &&
			journal.CodeOf(s.err) != journal.CodeConflict {
			j.fail("%s: it is to be kept for a run", what)
		}
	case s.got.Duplicate:
		if s.key == "" || len(places) > 0 {
			j.fail("%s, was no duplicate: it is at %+v", what, places)
		}
	case len(places) == 0:
		if s.key == "" || !j.hasKey(s) { // G1
			j.fail("%s, is lost", what)
		}
	case s.decision || s.got.Unrouted:
	default:
		c := j.byID[journal.RunID(s.got.RunID)]
		if c == nil || !slices.ContainsFunc(places, func(at found) bool {
			return at.chain == c.head.Chain && at.number == s.got.Number
		}) {
			j.fail("%s, is at %+v", what, places)
		}
	}
	if s.got.Unrouted && len(places) == 1 && places[0].chain == 0 {
		for _, b := range j.starts {
			if b.id == s.to && b.isNew && b.began.After(s.ended) {
				j.fail("%s, is unrouted, and run %s was started %v later", what, b.run,
					b.began.Sub(s.ended))
			}
		}
	}
}

// loses reports whether answers of the store may have got lost.
func (h *history) loses() bool { return h.lossy || h.chaos > 0 }

// hasKey reports whether another message with the key reached the receiver of this one, which was
// dropped for that reason: an unrouted one when it was delivered, or one whose first answer was
// lost.
func (j *judgement) hasKey(s *sent) bool {
	if c := j.byID[journal.RunID(s.got.RunID)]; c != nil {
		return len(j.keyed[c.head.Chain][s.key]) > 0 && j.loses()
	}
	for _, other := range j.sends {
		if other.key == s.key && len(j.places[other.id]) > 0 {
			return true
		}
	}
	return false
}

// begun judges the starts: each made at most one run, exactly the one that the answer named, and
// one that came with a message has it (G5).
func (j *judgement) begun() {
	made := map[int]*chapter{}
	for _, c := range j.all {
		if c.in.Depth > 0 || c.in.Round > 0 {
			continue
		}
		if made[c.in.Call] != nil {
			j.fail("call %d has made runs %s and %s", c.in.Call, made[c.in.Call].head.ID, c.head.ID)
		}
		made[c.in.Call] = c
	}
	check := func(call int, told string, isNew bool, run journal.RunID) {
		c := made[call]
		switch {
		case told == unknown:
		case (told == acked && isNew) != (c != nil), c != nil && c.head.ID != run:
			j.fail("call %d to start a run was %s, as new: %v, with run %s; it has made %+v", call,
				told, isNew, run, c)
		case told == acked && j.byID[run] == nil:
			j.fail("call %d was told of run %s, which is not there", call, run)
		}
	}
	for _, b := range j.starts {
		check(b.call, fate(b.err), b.isNew, b.run)
	}
	for _, s := range j.sends {
		if s.call == 0 {
			continue
		}
		check(s.call, s.fate(), s.got.New, journal.RunID(s.got.RunID))
		if c := made[s.call]; c != nil {
			if at := j.places[s.id]; len(at) == 0 &&
				(s.key == "" || len(j.keyed[c.head.Chain][s.key]) == 0) {
				j.fail("run %s was started with message %d and has it not", c.head.ID, s.id)
			}
		}
	}
}

// children judges that each child has one parent, which heard how it ended (D1,
// D2, D3).
func (j *judgement) children() {
	parents := map[journal.RunID]int{}
	for _, c := range j.all {
		for _, e := range c.entries {
			if e.Kind == journal.ChildStarted {
				parents[e.Detail.Other]++
			}
		}
		for _, r := range c.saw {
			if r.What != "child" || r.Status == 0 {
				continue
			}
			child := j.byID[r.Child]
			if child == nil && r.Status != journal.Failed || child != nil && child.last(j.byID).
				head.Status != r.Status {
				j.fail("run %s heard that its child %s is %v", c.head.ID, r.Child, r.Status)
			}
		}
	}
	for _, c := range j.all {
		if c.in.Depth > 0 && c.in.Round == 0 && parents[c.head.ID] != 1 {
			j.fail("child %s has %d parents", c.head.ID, parents[c.head.ID])
		}
	}
}

// orders judges the answers to operators.
func (j *judgement) orders() {
	for _, o := range j.history.orders {
		c := j.byID[journal.RunID(o.to)]
		if o.err != nil || c == nil || o.what != "cancel" {
			continue
		}
		if o.atOnce && c.head.Status != journal.Cancelled {
			j.fail("run %s was cancelled and is %v", o.to, c.head.Status)
		}
	}
}

func dueOf(e *journal.Entry) time.Time {
	if e.Detail == nil {
		return time.Time{}
	}
	return e.Detail.Due
}

// dump returns the history as the store and the callers have it.
func (h *history) dump() string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "lossy %v, chaos %d, watched %v, %+v\n", h.lossy, h.chaos, h.watched != nil,
		h.world.Options)
	for _, c := range h.chapters() {
		fmt.Fprintf(out, "run %s of %s, chain %d, %v, cause %q, owner %d, mail %d, wake %s\n",
			c.head.ID, c.head.WorkflowID, c.head.Chain, c.head.Status, c.head.Cause, c.head.Owner,
			c.head.Mail, clock(c.head.Wake))
		for _, e := range c.entries {
			fmt.Fprintf(out, "  %s %3d %v %v scope %d %s", clock(e.At), e.Seq, e.Kind, e.Op,
				e.Op.Scope, e.Data)
			if e.Detail != nil {
				fmt.Fprintf(out, " mail %d due %s %s %v", e.Detail.Mail, clock(e.Detail.Due),
					e.Detail.Reason, e.Detail.Failure)
			}
			fmt.Fprintln(out)
		}
		for _, o := range h.owners[c.head.Number] {
			fmt.Fprintln(out, " ", o)
		}
		if c.err != nil {
			fmt.Fprintf(out, "  it cannot be read: %v\n", c.err)
		}
		for _, m := range c.unread {
			fmt.Fprintf(out, "  unread %d %v %v %s\n", m.Seq, m.Kind, m.Op, m.Data)
		}
	}
	for _, s := range h.sends {
		fmt.Fprintf(out, "message %d %s to %s key %q from %s to %s: %+v %v\n", s.id, s.name, s.to,
			s.key, clock(s.began), clock(s.ended), s.got, s.err)
	}
	for _, o := range h.orders {
		fmt.Fprintf(out, "%s %s from %s to %s: %v\n", o.what, o.to, clock(o.began), clock(o.ended),
			o.err)
	}
	return out.String()
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("04:05.000000")
}
