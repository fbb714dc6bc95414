package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// hours returns a span of so many hours: longer than a test lasts, whose clock may be that of a
// database.
func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

// inHours returns a span in hours, rounded up.
func inHours(d time.Duration) int64 { return int64((d + time.Hour - 1) / time.Hour) }

// historyChecks demand that random histories of limits are as the reference says. The seeds are
// fixed, so that a failure comes again.
func historyChecks() (all []check) {
	for seed := range uint64(2) {
		all = append(all, check{
			fmt.Sprint("limit/a random history is as the reference says, seed ", seed),
			func(w *world) { playLimits(w, seed, 60) },
		})
	}
	return all
}

// playLimits plays the history of a seed, and demands after each step that the store and the
// reference have the same slots, waits and tokens, and have told the same runs.
func playLimits(w *world, seed uint64, steps int) {
	w.Helper()
	h := &limitHistory{
		world: w, random: rand.New(rand.NewPCG(seed, 2)), seed: seed,
		rules: map[string][]rule{
			"calls": {{every: 2, burst: 2}}, "rare": {{every: 4, burst: 2}}, "mail": {{most: 2}},
			"lock": {{most: 1}},
		},
		heads: map[journal.Number]journal.Head{},
	}
	w.join(0)
	h.anchor()
	for range steps {
		h.step()
		h.compare()
	}
}

// A rule has the numbers of a limit. Those of revision n are the n-th that were set.
type rule struct {
	most  int
	every float64
	burst int
}

// A limitHistory is a random history of limits.
type limitHistory struct {
	*world
	random *rand.Rand
	seed   uint64
	model  reference
	rules  map[string][]rule // of each limit, by revision
	heads  map[journal.Number]journal.Head
	events []string
}

func (h *limitHistory) chance(n int) bool { return h.random.IntN(n) == 0 }

func (h *limitHistory) note(format string, args ...any) {
	h.events = append(h.events, fmt.Sprintf("hour %v: ", h.model.now)+fmt.Sprintf(format, args...))
}

// demand demands that the store has said what the reference says.
func (h *limitHistory) demand(what string, got, want any) {
	h.Helper()
	if g, v := fmt.Sprint(got), fmt.Sprint(want); g != v {
		h.Fatalf("seed %d, step %d: %s of the store:\n%s\nand of the reference:\n%s\nafter\n%s",
			h.seed, len(h.events), what, g, v, strings.Join(h.events, "\n"))
	}
}

// anchor starts the run that keeps the buckets of "calls": whether a change reaches a bucket that
// is full and that nobody uses is open.
func (h *limitHistory) anchor() {
	c := h.begin()
	c.Head.Workflow = "anchor"
	for i, key := range keys {
		a := store.Ask{Slot: int64(100 + i), Limit: "calls", Key: key}
		c.Asks = append(c.Asks, h.numbered(a, false))
	}
	h.send(false, c)
}

var keys = []string{"", "x"}

// step makes one step of the history.
func (h *limitHistory) step() {
	switch n := h.random.IntN(20); {
	case n < 4:
		h.pass()
	case n < 5:
		h.crash()
	case n < 8:
		if c := h.change(); !h.chance(6) { // otherwise an engine asks before it is carried out
			h.send(false, c)
		}
	case n < 9:
		h.refuse()
	default:
		all := h.some()
		if h.chance(6) { // asks of a limit that is changed by the same group
			all = append(all, h.change())
		}
		h.send(h.chance(5), all...)
	}
}

// pass moves the clock, seldom back: not behind the time when a bucket may have been forgotten.
func (h *limitHistory) pass() {
	by := float64(h.random.IntN(4))
	if h.chance(4) {
		by = max(-3, h.model.forgot-h.model.now)
	}
	h.note("the clock moves by %v hours", by)
	if h.model.now += by; h.db.Pass != nil {
		h.ok(h.db.Pass(hours(by)))
	}
}

// crash lets the engine die. Another one takes its runs, which have what they had.
func (h *limitHistory) crash() {
	h.note("crash")
	h.die(int(h.model.now) * 3600)
	for _, r := range h.model.runs {
		h.one(r.number)
	}
}

// refuse sends a group that is refused because of its last change, a run that continues none: the
// limits come before it.
func (h *limitHistory) refuse() {
	h.note("a group is refused")
	last := h.start("")
	last.From = h.number()
	h.refused(h.timed(append(h.some(),
		store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 9, Revision: 1000}}}, last)))
}

func (h *limitHistory) timed(changes []store.Change) *store.Group {
	g := h.group(changes...)
	g.Now = at(int(h.model.now) * 3600)
	return g
}

// some returns starts, and asks, frees and ends of open runs.
func (h *limitHistory) some() (all []store.Change) {
	for range 1 + h.random.IntN(3) {
		if len(h.model.runs) < 14 && h.chance(2) {
			c := h.begin()
			h.asks(&c, -3, 2, -2, -1)
			all = append(all, c)
			continue
		}
		i := h.random.IntN(len(h.model.runs))
		run := h.model.runs[i].number
		if slices.ContainsFunc(all, func(c store.Change) bool { return c.Run == run }) {
			continue
		}
		c := store.Change{Run: run}
		switch n := h.random.IntN(6); {
		case n == 0 && i > 0:
			c = ended(h.heads[run], 2, 1)
		case n == 1 && i > 0:
			both := h.continued(h.heads[run], 2, 1)
			both[1].Head.Workflow = h.heads[run].Workflow
			all = append(all, both...)
			continue
		case n == 2:
			c.Frees = []int64{1 + h.random.Int64N(3), -1 - h.random.Int64N(3)}
		default:
			h.asks(&c, 1, 2, 3, 4)
		}
		all = append(all, c)
	}
	return all
}

// begin returns a start, of a run that has begun or waits.
func (h *limitHistory) begin() store.Change {
	c := h.start("")
	c.Head.Workflow = []string{"v", "w"}[h.random.IntN(2)]
	if h.chance(3) {
		c.Head.Status = journal.Pending
	}
	return c
}

// asks adds asks with some of the numbers.
func (h *limitHistory) asks(c *store.Change, slots ...int64) {
	isBehind := h.chance(4)
	for _, slot := range slots {
		if h.chance(2) {
			continue
		}
		a := store.Ask{
			Slot: slot, Limit: limitOf[slot], Key: keys[h.random.IntN(2)],
			Priority: h.random.IntN(6) / 5, Share: []string{"a", "b", "c"}[h.random.IntN(3)],
		}
		if !h.chance(3) {
			a.Came = at(3600 * h.random.IntN(9))
		}
		c.Asks = append(c.Asks, h.numbered(a, isBehind))
	}
}

// limitOf are the limits that runs ask for, by the numbers of the asks.
var limitOf = map[int64]string{
	-3: "calls", -2: "mail", -1: "mail", 1: "lock", 2: "lock", 3: "calls", 4: "rare",
}

// numbered sets the numbers of an ask to those of the last revision, or to others if its code is
// newer. An engine that is behind has those of the revision before.
func (h *limitHistory) numbered(a store.Ask, isBehind bool) store.Ask {
	all := h.rules[a.Limit]
	if isBehind && len(all) > 1 {
		all = all[:len(all)-1]
	}
	a.Revision = int64(len(all) - 1)
	r := all[a.Revision]
	if a.Limit != "rare" && h.chance(6) {
		r = h.rule(a.Limit)
	}
	a.Max, a.Every, a.Burst = r.most, hours(r.every), r.burst
	return a
}

func (h *limitHistory) rule(limit string) rule {
	if limit == "calls" {
		return rule{every: float64(int(1) << h.random.IntN(3)), burst: 1 + h.random.IntN(3)}
	}
	return rule{most: h.random.IntN(5)}
}

// change returns a change of a limit: a new one, the last one again, or an older one.
func (h *limitHistory) change() store.Change {
	limit := []string{"calls", "mail", "lock"}[h.random.IntN(3)]
	revision := int64(len(h.rules[limit]))
	r := h.rule(limit)
	if old := h.random.Int64N(6); old < 2 && revision > old {
		revision -= 1 + old
		r = h.rules[limit][revision]
	} else {
		h.rules[limit] = append(h.rules[limit], r)
	}
	a := store.Adjust{
		Limit: limit, Max: r.most, Every: hours(r.every), Burst: r.burst, Revision: revision,
	}
	if limit == "mail" && h.chance(3) {
		a.Workflow, a.Slot = "w", -1
	}
	return store.Change{Adjusts: []store.Adjust{a}}
}

// send commits a group here and in the reference, and demands the same answers. A group that is
// sent again answers nothing.
func (h *limitHistory) send(again bool, changes ...store.Change) {
	h.Helper()
	for _, c := range changes {
		h.note("%s", describe(c))
	}
	g := h.timed(changes)
	same := copied(changes)
	h.ok(h.try(g))
	grants := h.model.commit(same)
	h.demand("answers", answers(changes), answers(same))
	h.demand("grants", g.Grants, grants)
	isKnown := false // by a new run or an entry
	for _, c := range changes {
		if isKnown = isKnown || len(c.Entries) > 0; c.Create {
			h.heads[c.Run] = *c.Head
		}
	}
	if again && isKnown {
		h.note("it is sent again")
		g.Again = true
		h.ok(h.try(g))
		h.demand("answers", strings.Trim(answers(changes), "-"), "")
	}
}

// copied returns changes for the reference: a driver may change those that it gets.
func copied(changes []store.Change) []store.Change {
	all := slices.Clone(changes)
	for i, c := range all {
		all[i].Asks, all[i].Frees = slices.Clone(c.Asks), slices.Clone(c.Frees)
		all[i].Adjusts = slices.Clone(c.Adjusts)
	}
	return all
}

func describe(c store.Change) string {
	s := fmt.Sprint("run ", c.Run&0xffff)
	switch {
	case c.From != 0:
		s += fmt.Sprint(" continues ", c.From&0xffff)
	case c.Create:
		s += fmt.Sprintf(" of %s starts, %v", c.Head.Workflow, c.Head.Status)
	case c.Head != nil:
		s += " ends"
	}
	for _, a := range c.Asks {
		s += fmt.Sprintf("; ask %+v", a)
	}
	return s + fmt.Sprintf("; frees %v, adjusts %+v", c.Frees, c.Adjusts)
}

// answers returns the answers to the asks, with the hours until the times of tokens.
func answers(changes []store.Change) (s string) {
	for _, c := range changes {
		for _, a := range c.Asks {
			s += answerText(a)
			if a.Answer == store.Later {
				s += fmt.Sprint(inHours(a.Wait))
			}
		}
	}
	return s
}

// compare demands that the store has what the reference has: slots, waits, the times of tokens,
// and messages.
func (h *limitHistory) compare() {
	h.Helper()
	slots, err := store.AbilitiesOf(h.s).SlotReader.Slots(h.Context(),
		store.SlotQuery{Count: store.MaxLimit})
	h.ok(err)
	var got []string
	for _, s := range slots {
		since := s.Since.Sub(epoch).Round(time.Second)
		got = append(got, fmt.Sprint(slotText(s), " since ", inHours(since)))
	}
	slices.Sort(got)
	h.demand("slots", strings.Join(got, "\n"), strings.Join(h.model.text(), "\n"))
	for _, r := range h.model.runs {
		var told []string
		for _, m := range h.inbox(r.number) {
			told = append(told, m.Op.Key)
		}
		want := strings.Fields(strings.Trim(fmt.Sprint(r.told), "[]"))
		slices.Sort(want)
		slices.Sort(told)
		h.demand(fmt.Sprint("the messages of run ", r.number&0xffff), told, want)
	}
	var all []store.Change
	for _, p := range h.model.places {
		if p.isToken {
			all = append(all, store.Change{Run: p.run, Asks: []store.Ask{{
				Slot: p.slot, Limit: p.of.name, Key: p.of.key, Every: 1, Burst: 1,
			}}})
		}
	}
	same := copied(all)
	h.ok(h.try(h.timed(all)))
	h.model.commit(same)
	h.demand("times of the tokens", answers(all), answers(same))
}
