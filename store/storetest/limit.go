package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// limitChecks are about the slots and tokens of limits.
func limitChecks() []check {
	return []check{
		{"limit/there are Max slots for each name and key, and who comes later waits", limitMax},
		{"limit/a slot that is freed goes to the first in line, who is told", limitFreed},
		{"limit/a slot that is freed wakes a run that has left memory", limitWakes},
		{"limit/the end of a run frees its slots", limitEnds},
		{"limit/who leaves the line or ends there is passed over", limitLeaves},
		{"limit/a run that asks again gets the same answer", limitAgain},
		{"limit/a run may ask for several slots in a group, and twice for one", limitSeveral},
		{"limit/a start that finds a run asks nothing", limitVoid},
		{"limit/after an ask for the run that is not granted no other is answered", limitFurther},
		{"limit/who waits is in order of priority, then by shares in turn", limitOrder},
		{"limit/who came first of a share is before those who asked first", limitCame},
		{"limit/runs free slots and take some in one group", limitTurnover},
		{"limit/a run that continues another has its slots", limitInherits},
		{"limit/more slots are given at once, and fewer take none away", limitAdjusts},
		{"limit/a limit that begins to count runs counts those that have begun", limitCounts},
		{"limit/a limit that begins to count runs does not count those in line", limitCountsNoLine},
		{"limit/a group that is refused changes no limit", limitRefused},
		{"limit/a group that is sent again changes no limit twice", limitSentAgain},
		{"limit/a run that gets a slot is not unloaded in the same group", limitUnload},
		{"limit/slots outlive the engine", limitOutlives},
		{"limit/a token is given for a time, in order", limitTokens},
		{"limit/the tokens of a limit that is changed are given anew", limitRefills},
		{"limit/a bucket that gets other numbers by an ask keeps its tokens and their order",
			limitRenumbers},
		{"limit/tokens are given anew in the order of the asks, also after the clock was put back",
			limitRefillOrder},
		{"limit/a token that is due after the last time there is waits", limitTooLate},
		{"limit/numbers of an older revision do not count, and the same ones give no token anew",
			limitRevisions},
		{"limit/a limit that nobody has or waits for is made anew by the next ask", limitGone},
		{"limit/a change of a limit comes before the asks of its group", limitFirstAsk},
		{"limit/the totals have all limits that are used", limitTotals},
		{"limit/only an engine asks, and asks well", limitMalformed},
		{"limit/keys of many bytes and any text are apart", limitKeys},
	}
}

// asking returns a change of an open run that asks for slot 1 of a limit.
func asking(run journal.Number, limit, key string, most int) store.Change {
	return store.Change{Run: run, Asks: []store.Ask{
		{Slot: 1, Limit: limit, Key: key, Max: most},
	}}
}

// limited returns new runs that ask for slot -1 of a limit.
func limited(w *world, n int, limit string, most int) []store.Change {
	w.Helper()
	var all []store.Change
	for range n {
		c := w.start("")
		c.Asks = []store.Ask{{Slot: -1, Limit: limit, Max: most}}
		all = append(all, c)
	}
	return all
}

// answered demands the answers to the first asks of changes: G granted, L in line, T later, - none.
func answered(w *world, changes []store.Change, want string) {
	w.Helper()
	got := ""
	for _, c := range changes {
		for _, a := range c.Asks {
			got += answerText(a)
		}
	}
	w.same("answers", got, want)
}

func answerText(a store.Ask) string { return []string{"-", "G", "L", "T"}[a.Answer] }

// slotsOf returns the slots that match a query, as text.
func slotsOf(w *world, q store.SlotQuery) string {
	w.Helper()
	slots, err := store.AbilitiesOf(w.s).SlotReader.Slots(w.Context(), q)
	w.ok(err)
	var all []string
	for _, s := range slots {
		all = append(all, slotText(s))
	}
	return strings.Join(all, " ")
}

// slotText shows a slot by the count of its run: name[key] run/slot, held or its place.
func slotText(s store.Slot) string {
	state := fmt.Sprint("waits ", s.Place)
	switch {
	case !s.Due.IsZero():
		state = "token"
	case s.Held:
		state = "holds"
	}
	return fmt.Sprintf("%s[%s] %d/%d %s of %d %d+%d;", s.Limit, s.Key, s.Run&0xffff, s.Slot, state,
		s.Max, s.Used, s.Line)
}

// holdsSlots demands the slots of all limits.
func holdsSlots(w *world, want ...string) {
	w.Helper()
	w.same("slots", slotsOf(w, store.SlotQuery{}), strings.Join(want, " "))
}

// spec: R-32
func limitMax(w *world) {
	w.join(0)
	answered(w, w.commit(limited(w, 3, "mail", 2)...), "GGL")
	run := w.written(w.start(""))[0].Number
	answered(w, w.commit(asking(run, "mail", "x", 1)), "G")
	answered(w, w.commit(asking(w.written(w.start(""))[0].Number, "mail", "x", 1)), "L")
	holdsSlots(w, "mail[] 1/-1 holds of 2 2+1;", "mail[] 2/-1 holds of 2 2+1;",
		"mail[] 3/-1 waits 1 of 2 2+1;", "mail[x] 4/1 holds of 1 1+1;",
		"mail[x] 5/1 waits 1 of 1 1+1;")
	x := "x"
	w.same("of a key", slotsOf(w, store.SlotQuery{Limit: "mail", Key: &x, Count: 1}),
		"mail[x] 4/1 holds of 1 1+1;")
	w.same("of a run", slotsOf(w, store.SlotQuery{Run: run}), "mail[x] 4/1 holds of 1 1+1;")
	w.same("of no limit", slotsOf(w, store.SlotQuery{Limit: "mai"}), "")
}

// spec: R-32
func limitFreed(w *world) {
	w.join(0)
	all := w.commit(limited(w, 3, "mail", 1)...)
	answered(w, all, "GLL")
	g := w.group(store.Change{Run: all[0].Run, Frees: []int64{-1, 7}})
	g.Now = at(20)
	w.ok(w.try(g))
	w.same("grants", g.Grants, 1)
	holdsSlots(w, "mail[] 2/-1 holds of 1 1+1;", "mail[] 3/-1 waits 1 of 1 1+1;")
	w.same("inbox", w.inbox(all[1].Run), []journal.Entry{{
		Run: all[1].Run, Seq: 1, Kind: journal.SlotGranted, At: at(20),
		Op: journal.Op{Name: store.SlotMessage, Key: "-1"},
	}})
	w.same("mail", labels(w.mail()[0].Inbox), []string{"1:" + store.SlotMessage})
	w.same("inbox of who waits", labels(w.inbox(all[2].Run)), []string{})
	g = w.group(step(all[0].Run, 2))
	w.ok(w.try(g))
	w.same("grants of nothing", g.Grants, 0)
}

// spec: R-32
func limitWakes(w *world) {
	w.join(0)
	all := w.commit(limited(w, 2, "mail", 1)...)
	rest := update(*all[1].Head, func(h *journal.Head) {
		h.Status, h.Owner, h.Wake, h.Cause = journal.Pending, 0, time.Time{}, "no slot"
	})
	rest.Unload = true
	w.verdict(w.commit(rest)[0], store.Written)
	w.same("due", len(w.take(90, 5).Runs), 0)
	g := w.group(store.Change{Run: all[0].Run, Frees: []int64{-1}})
	g.Now = at(20)
	w.ok(w.try(g))
	w.same("wake", w.head(all[1].Run).Wake, at(20))
	got := w.take(20, 5)
	w.same("claimed", len(got.Runs), 1)
	w.same("its inbox", labels(got.Runs[0].Inbox), []string{"1:" + store.SlotMessage})
}

// spec: R-32
func limitEnds(w *world) {
	w.join(0)
	all := w.commit(limited(w, 4, "mail", 2)...)
	answered(w, all, "GGLL")
	w.commit(ended(*all[1].Head, 2, 10), ended(*all[0].Head, 2, 10))
	holdsSlots(w, "mail[] 3/-1 holds of 2 2+0;", "mail[] 4/-1 holds of 2 2+0;")
	w.commit(ended(*all[2].Head, 2, 10))
	w.commit(ended(*all[3].Head, 2, 10))
	holdsSlots(w, "")
}

func limitLeaves(w *world) {
	w.join(0)
	all := w.commit(limited(w, 4, "mail", 1)...)
	w.commit(store.Change{Run: all[1].Run, Frees: []int64{-1}})
	// the run that is next in line ends with the one that has the slot
	w.commit(ended(*all[0].Head, 2, 10), ended(*all[2].Head, 2, 10))
	holdsSlots(w, "mail[] 4/-1 holds of 1 1+0;")
	w.same("inbox", labels(w.inbox(all[1].Run)), []string{})
}

func limitAgain(w *world) {
	w.join(0)
	all := w.commit(limited(w, 3, "mail", 1)...)
	again := make([]store.Change, 3)
	for i, c := range all {
		again[i] = store.Change{Run: c.Run, Asks: []store.Ask{
			{Slot: -1, Limit: "mail", Key: "another", Max: 1},
		}}
	}
	answered(w, w.commit(again[2], again[1], again[0]), "LLG")
	holdsSlots(w, "mail[] 1/-1 holds of 1 1+2;", "mail[] 2/-1 waits 1 of 1 1+2;",
		"mail[] 3/-1 waits 2 of 1 1+2;")
	again[2].Asks[0].Max = 3 // of another key
	answered(w, w.commit(again[2]), "L")
	// more slots by an ask: those before it in line get them first, and are told
	again[2].Asks[0].Key = ""
	answered(w, w.commit(again[2]), "G")
	holdsSlots(w, "mail[] 1/-1 holds of 3 3+0;", "mail[] 2/-1 holds of 3 3+0;",
		"mail[] 3/-1 holds of 3 3+0;")
	w.same("told", labels(w.inbox(all[1].Run)), []string{"1:" + store.SlotMessage})
	w.same("not told, but answered", labels(w.inbox(all[2].Run)), []string{})
}

// spec: B-7
func limitSeveral(w *world) {
	w.join(0)
	twice := func(limit string, most int) []store.Change {
		c := w.start("")
		for _, slot := range []int64{1, 2} {
			c.Asks = append(c.Asks, store.Ask{Slot: slot, Limit: limit, Max: most})
		}
		return w.commit(c, store.Change{Run: c.Run, Asks: slices.Clone(c.Asks[:1])})
	}
	holds, waits := twice("mail", 2), twice("mail", 2)
	answered(w, holds, "GGG")
	answered(w, waits, "LLL")
	holdsSlots(w, "mail[] 1/1 holds of 2 2+2;", "mail[] 1/2 holds of 2 2+2;",
		"mail[] 2/1 waits 1 of 2 2+2;", "mail[] 2/2 waits 2 of 2 2+2;")
	g := w.group(store.Change{Run: holds[0].Run, Frees: []int64{1, 2}})
	w.ok(w.try(g))
	w.same("grants", g.Grants, 2)
	var told []string
	for _, e := range w.inbox(waits[0].Run) {
		told = append(told, fmt.Sprint(e.Seq, " ", e.Op.Key))
	}
	w.same("told", told, []string{"1 1", "2 2"})
	answered(w, twice("all", 0), "GGG")
	holdsSlots(w, "all[] 3/1 holds of 0 2+0;", "all[] 3/2 holds of 0 2+0;",
		"mail[] 2/1 holds of 2 2+0;", "mail[] 2/2 holds of 2 2+0;")

	first := tokenOf(w, "")
	first.Asks = append(first.Asks, first.Asks[0], first.Asks[0])
	first.Asks[1].Slot, first.Asks[2].Slot = 2, 3
	token := w.commit(first)[0]
	answered(w, []store.Change{token}, "GGT")
	again := store.Change{Run: token.Run, Asks: []store.Ask{{Slot: 3, Limit: "calls"}}}
	answered(w, w.commit(again), "T") // it is a token already
}

func limitVoid(w *world) {
	w.join(0)
	w.written(w.start("order-1"))
	c := w.start("order-1")
	c.Asks = []store.Ask{{Slot: -1, Limit: "mail", Max: 1}}
	w.commit(c)
	answered(w, []store.Change{c}, "-")
	holdsSlots(w, "")
}

func limitFurther(w *world) {
	w.join(0)
	answered(w, w.commit(limited(w, 1, "all", 1)...), "G")
	c := w.start("")
	c.Asks = []store.Ask{
		{Slot: -3, Limit: "other", Max: 1}, {Slot: -2, Limit: "all", Max: 1},
		{Slot: -1, Limit: "third", Max: 1},
	}
	answered(w, w.commit(c), "GL-")
	holdsSlots(w, "all[] 1/-1 holds of 1 1+1;", "all[] 2/-2 waits 1 of 1 1+1;",
		"other[] 2/-3 holds of 1 1+0;")
	answered(w, w.commit(store.Change{Run: c.Run, Asks: []store.Ask{
		{Slot: 5, Limit: "all", Max: 1}, {Slot: 6, Limit: "sixth", Max: 1},
		{Slot: 7, Limit: "all", Max: 1},
	}}), "LGL")
}

// spec: B-9
func limitOrder(w *world) {
	w.join(0)
	all := w.commit(limited(w, 1, "mail", 1)...)
	for _, a := range []store.Ask{
		{Share: "a"}, {Share: "a"}, {Share: "a"}, {Share: "b"}, {Share: "c", Priority: -1},
		{Share: "a", Priority: 2}, {Share: "b"}, {Share: "d"},
	} {
		c := w.start("")
		a.Slot, a.Limit, a.Max = -1, "mail", 1
		c.Asks = []store.Ask{a}
		all = append(all, w.commit(c)[0])
	}
	var order []int64
	for len(order) < 8 {
		slots, err := store.AbilitiesOf(w.s).SlotReader.Slots(w.Context(),
			store.SlotQuery{Limit: "mail"})
		w.ok(err)
		order = append(order, int64(slots[1].Run&0xffff))
		i := slices.IndexFunc(all, func(c store.Change) bool { return c.Run == slots[0].Run })
		w.commit(ended(*all[i].Head, 2, 10))
	}
	// d comes when a, b have had their first turn in line
	w.same("order", order, []int64{7, 2, 5, 9, 3, 8, 4, 6})
}

// spec: R-32
func limitCame(w *world) {
	w.join(0)
	w.commit(limited(w, 1, "mail", 1)...) // run 1
	// came adds runs that ask at one time, each with the second at which it came; 0 for none
	came := func(share string, seconds ...int) {
		changes := limited(w, len(seconds), "mail", 1)
		for i, s := range seconds {
			a := &changes[i].Asks[0]
			if a.Share = share; s != 0 {
				a.Came = at(s)
			}
		}
		w.commit(changes...)
	}
	waiting := func(want ...int64) {
		slots, err := store.AbilitiesOf(w.s).SlotReader.Slots(w.Context(),
			store.SlotQuery{Limit: "mail"})
		w.ok(err)
		var order []int64
		for _, s := range slots[1:] {
			order = append(order, int64(s.Run&0xffff))
		}
		w.same("order", order, want)
	}
	came("a", 50, 60)     // 2, 3
	came("b", 55)         // 4, behind 2: it is in the first round, too
	came("a", 40, 60, 45) // 5 6 7
	waiting(5, 4, 7, 2, 3, 6)
	came("a", 55) // 8
	waiting(5, 4, 7, 2, 8, 3, 6)
	came("a", 0, 10) // 9 has the time of the last, and 10 is the first
	waiting(10, 4, 5, 7, 2, 8, 3, 6, 9)
	came("b", 0, 20) // 11, 12
	waiting(10, 12, 5, 4, 7, 11, 2, 8, 3, 6, 9)
	came("b", 70, 0, 65) // 13, 14 has the time of 13, 15
	waiting(10, 12, 5, 4, 7, 11, 2, 15, 8, 13, 3, 14, 6, 9)
}

// spec: R-32
func limitTurnover(w *world) {
	w.join(0)
	begin := func(changes ...store.Change) journal.Head {
		c := limited(w, 1, "mail", 4)[0]
		changes = w.commit(append(changes, c)...)
		answered(w, changes, "G")
		return *c.Head
	}
	first, second := begin(), begin()
	begin(ended(first, 2, 10)) // 3
	holdsSlots(w, "mail[] 2/-1 holds of 4 2+0;", "mail[] 3/-1 holds of 4 2+0;")
	begin(store.Change{Run: second.Number, Frees: []int64{-1}}) // 4
	holdsSlots(w, "mail[] 3/-1 holds of 4 2+0;", "mail[] 4/-1 holds of 4 2+0;")

	other := limited(w, 1, "mail", 4)[0] // 5
	other.Asks = append(other.Asks, store.Ask{Slot: 1, Limit: "zoo", Max: 2})
	other.Asks = append(other.Asks, store.Ask{Slot: 2, Limit: "lock", Max: 2})
	answered(w, w.commit(other), "GGG")
	answered(w, w.commit(asking(second.Number, "zoo", "", 2)), "G")
	answered(w, w.commit(asking(second.Number, "lock", "", 2)), "G") // it has that number
	begin(ended(*other.Head, 2, 20))                                 // 6
	holdsSlots(w, "mail[] 3/-1 holds of 4 3+0;", "mail[] 4/-1 holds of 4 3+0;",
		"mail[] 6/-1 holds of 4 3+0;", "zoo[] 2/1 holds of 2 1+0;")

	w.commit(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 4, Revision: 3}}})
	late := limited(w, 1, "mail", 9) // 7, of an engine that has not heard of the change
	answered(w, w.commit(late...), "G")
	holdsSlots(w, "mail[] 3/-1 holds of 4 4+0;", "mail[] 4/-1 holds of 4 4+0;",
		"mail[] 6/-1 holds of 4 4+0;", "mail[] 7/-1 holds of 4 4+0;", "zoo[] 2/1 holds of 2 1+0;")
}

// spec: R-32
func limitGone(w *world) {
	w.join(0)
	begin := func(revision int64, n, most int) []store.Change {
		changes := limited(w, n, "mail", most)
		for i := range changes {
			changes[i].Asks[0].Revision = revision
		}
		return w.commit(changes...)
	}
	first := begin(9, 1, 1)
	w.commit(ended(*first[0].Head, 2, 10))
	second := begin(3, 2, 2) // an older revision counts for a limit that is new
	answered(w, second, "GG")
	w.commit(ended(*second[0].Head, 2, 20), store.Change{Run: second[1].Run, Frees: []int64{-1}})
	answered(w, begin(2, 3, 3), "GGG")

	// an ask that was answered before makes no limit of another name
	again := asking(second[1].Run, "lock", "", 1)
	answered(w, w.commit(again), "G")
	again.Asks[0].Limit, again.Asks[0].Revision = "other", 9
	answered(w, w.commit(again), "G")
	others := limited(w, 2, "other", 2)
	others[0].Asks[0].Revision, others[1].Asks[0].Revision = 3, 3
	answered(w, w.commit(others...), "GG")
}

// spec: R-33
func limitFirstAsk(w *world) {
	w.join(0)
	first := tokenOf(w, "")
	first.Asks[0].Revision = 1
	adjust := store.Adjust{Limit: "calls", Every: time.Hour, Burst: 2, Revision: 1}
	all := w.commit(store.Change{Adjusts: []store.Adjust{adjust}}, first)
	answered(w, all, "G") // there was no bucket to change
	second := tokenOf(w, "")
	second.Asks[0].Revision, adjust.Revision = 2, 2
	answered(w, w.commit(store.Change{Adjusts: []store.Adjust{adjust}}, second), "T") // it is empty
}

// spec
func limitInherits(w *world) {
	w.join(0)
	c := w.start("order-1")
	c.Asks = []store.Ask{
		{Slot: -1, Limit: "mail", Max: 1}, {Slot: 5, Limit: "lock", Max: 1},
	}
	answered(w, w.commit(c), "GG")
	answered(w, w.commit(limited(w, 1, "mail", 1)...), "L")
	answered(w, w.commit(asking(w.written(w.start(""))[0].Number, "lock", "", 1)), "L")
	both := w.commit(w.continued(*c.Head, 2, 10)...)
	w.verdict(both[1], store.Written)
	holdsSlots(w, "lock[] 3/1 holds of 1 1+0;", "mail[] 4/-1 holds of 1 1+1;",
		"mail[] 2/-1 waits 1 of 1 1+1;")
	answered(w, w.commit(store.Change{
		Run: both[1].Run, Asks: []store.Ask{{Slot: -1, Limit: "mail", Max: 1}},
	}), "G")
	w.commit(ended(*both[1].Head, 2, 20))
	holdsSlots(w, "lock[] 3/1 holds of 1 1+0;", "mail[] 2/-1 holds of 1 1+0;")
}

func limitAdjusts(w *world) {
	w.join(0)
	all := w.commit(limited(w, 6, "mail", 1)...)
	g := w.group(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 3}}})
	w.ok(w.try(g))
	w.same("grants", g.Grants, 2)
	w.same("told", labels(w.inbox(all[2].Run)), []string{"1:" + store.SlotMessage})
	w.commit(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 1}, {Limit: "x", Max: 1}}})
	w.commit(ended(*all[0].Head, 2, 10))
	holdsSlots(w, "mail[] 2/-1 holds of 1 2+3;", "mail[] 3/-1 holds of 1 2+3;",
		"mail[] 4/-1 waits 1 of 1 2+3;", "mail[] 5/-1 waits 2 of 1 2+3;",
		"mail[] 6/-1 waits 3 of 1 2+3;")
	w.commit(store.Change{Adjusts: []store.Adjust{{Limit: "mail"}}})
	holdsSlots(w, "mail[] 2/-1 holds of 0 5+0;", "mail[] 3/-1 holds of 0 5+0;",
		"mail[] 4/-1 holds of 0 5+0;", "mail[] 5/-1 holds of 0 5+0;",
		"mail[] 6/-1 holds of 0 5+0;")
}

func limitCounts(w *world) {
	w.join(0)
	runs := w.written(w.start(""), w.start(""), w.free("", 9), w.start(""))
	w.commit(ended(runs[3], 2, 10))
	other := w.start("")
	other.Head.Workflow = "v"
	w.written(other)
	count := store.Adjust{Limit: "mail", Max: 1, Workflow: "w", Slot: -1}
	last := w.written(w.start(""), w.start("order-1"))
	changes := append(w.continued(last[1], 2, 10), ended(last[0], 2, 10))
	w.commit(append(changes, store.Change{Adjusts: []store.Adjust{count}})...)
	w.commit(store.Change{Adjusts: []store.Adjust{count}})
	holdsSlots(w, "mail[] 1/-1 holds of 1 3+0;", "mail[] 2/-1 holds of 1 3+0;",
		"mail[] 8/-1 holds of 1 3+0;")
	begun := w.start("") // it asks in the group that counts it
	begun.Asks = []store.Ask{{Slot: -1, Limit: "mail", Max: 1}}
	answered(w, w.commit(begun, store.Change{Adjusts: []store.Adjust{count}})[:1], "G")
}

// The heads of the runs say that they go on: it is not written yet that they stand in line.
func limitCountsNoLine(w *world) {
	w.join(0)
	key := func(c store.Change) store.Change {
		c.Asks = []store.Ask{{Slot: -2, Limit: "mail:key", Key: "k", Max: 1}}
		return c
	}
	holder, first := key(w.start("")), key(w.start(""))
	answered(w, w.commit(holder, first), "GL")
	count := store.Adjust{Limit: "mail", Max: 1, Workflow: "w", Slot: -1}
	w.commit(store.Change{Adjusts: []store.Adjust{count}})
	w.same("counted", slotsOf(w, store.SlotQuery{Limit: "mail"}), "mail[] 1/-1 holds of 1 1+0;")
}

func limitRefused(w *world) {
	w.join(0)
	all := w.commit(limited(w, 3, "mail", 1)...)
	before := slotsOf(w, store.SlotQuery{})
	more := limited(w, 1, "mail", 5)[0]
	w.refused(w.group(
		ended(*all[0].Head, 2, 10), store.Change{Run: all[2].Run, Frees: []int64{-1}}, more,
		store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 9}}},
		step(w.number(), 1)))
	w.same("slots", slotsOf(w, store.SlotQuery{}), before)
	w.same("inbox", labels(w.inbox(all[1].Run)), []string{})
}

func limitSentAgain(w *world) {
	w.join(0)
	all := w.commit(limited(w, 3, "mail", 1)...)
	end, begin := ended(*all[0].Head, 2, 10), limited(w, 1, "mail", 1)[0]
	w.commit(end, begin)
	before := slotsOf(w, store.SlotQuery{})
	answered(w, w.again(end, begin), "-")
	w.same("slots", slotsOf(w, store.SlotQuery{}), before)
	w.same("inbox", labels(w.inbox(all[1].Run)), []string{"1:" + store.SlotMessage})
	answered(w, w.commit(store.Change{Run: begin.Run, Asks: begin.Asks}), "L")
}

func limitUnload(w *world) {
	w.join(0)
	all := w.commit(limited(w, 2, "mail", 1)...)
	rest := unloading(*all[1].Head, 0, 2)
	w.commit(rest, ended(*all[0].Head, 2, 10))
	w.same("head", w.head(all[1].Run).Owner, w.engine)
	w.same("mail", labels(w.mail()[0].Inbox), []string{"1:" + store.SlotMessage})
}

// spec: R-32
func limitOutlives(w *world) {
	w.join(0)
	all := w.commit(limited(w, 2, "mail", 1)...)
	w.die(50)
	holdsSlots(w, "mail[] 1/-1 holds of 1 1+1;", "mail[] 2/-1 waits 1 of 1 1+1;")
	for i, want := range []string{"G", "L"} {
		w.one(all[i].Run)
		answered(w, w.commit(store.Change{Run: all[i].Run, Asks: all[i].Asks}), want)
	}
	w.commit(ended(w.head(all[0].Run), 2, 60))
	holdsSlots(w, "mail[] 2/-1 holds of 1 1+0;")
}

// tokenOf returns a change of a new run that asks for a token of a bucket that gains one in an
// hour: longer than a check lasts, whose clock may be that of a database.
func tokenOf(w *world, key string) store.Change {
	w.Helper()
	c := w.start("")
	c.Asks = []store.Ask{{Slot: -1, Limit: "calls", Key: key, Every: time.Hour, Burst: 2}}
	return c
}

// waitsFor demands that a token is given some hours from now, or somewhat sooner.
func waitsFor(w *world, a store.Ask, hours int) {
	w.Helper()
	most := time.Duration(hours) * time.Hour
	if a.Answer != store.Later || a.Wait > most || a.Wait < most-10*time.Minute {
		w.Fatalf("the answer is %d and the wait %v, want %v or somewhat less", a.Answer, a.Wait,
			most)
	}
}

// spec: R-33
func limitTokens(w *world) {
	w.join(0)
	all := []store.Change{
		tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, "x"),
	}
	all[3].Asks = append(all[3].Asks, store.Ask{Slot: -2, Limit: "mail", Max: 1})
	answered(w, w.commit(all...), "GGTT-G")
	waitsFor(w, all[2].Asks[0], 1)
	waitsFor(w, all[3].Asks[0], 2)
	again := w.commit(store.Change{Run: all[3].Run, Asks: all[3].Asks})
	waitsFor(w, again[0].Asks[0], 2)
	// a token that is freed is spent
	w.commit(store.Change{Run: all[2].Run, Frees: []int64{-1}})
	next := w.commit(tokenOf(w, ""))[0]
	waitsFor(w, next.Asks[0], 3)
	w.same("tokens", slotsOf(w, store.SlotQuery{Run: next.Run}), "calls[] 6/-1 token of 0 0+0;")
	for i := range all {
		w.commit(ended(*all[i].Head, 2, 10))
	}
	waitsFor(w, w.commit(tokenOf(w, ""))[0].Asks[0], 4)
}

// spec: R-33
func limitTooLate(w *world) {
	w.join(0)
	token := func(burst int) store.Change {
		c := tokenOf(w, "")
		c.Asks[0].Every, c.Asks[0].Burst = store.MaxFill/3, burst
		return c
	}
	var line []store.Change
	for range 12 { // 400 years
		line = append(line, token(1))
	}
	answered(w, w.commit(line...), "G"+strings.Repeat("T", 11))
	answered(w, w.commit(token(3), token(3)), "TT")
	w.commit(store.Change{Adjusts: []store.Adjust{
		{Limit: "calls", Every: store.MaxFill / 2, Burst: 2, Revision: 1},
	}})
	c := token(1)
	c.Asks[0].Revision = 1
	answered(w, w.commit(c), "T")
}

// spec
func limitTotals(w *world) {
	w.join(0)
	w.commit(limited(w, 3, "mail", 2)...)
	w.commit(asking(w.written(w.start(""))[0].Number, "mail", "x", 0))
	w.commit(asking(w.written(w.start(""))[0].Number, "Z", "", 1))
	all := w.commit(tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""))
	last := w.commit(tokenOf(w, "gone"))[0]
	w.commit(store.Change{Run: last.Run, Frees: []int64{-1}})
	w.commit(store.Change{Run: all[0].Run, Frees: []int64{-1}})
	w.same("totals", slotsOf(w, store.SlotQuery{Totals: true}), "Z[] 0/0 waits 0 of 1 1+0; "+
		"calls[] 0/0 waits 0 of 0 2+0; mail[] 0/0 waits 0 of 2 2+1; mail[x] 0/0 waits 0 of 0 1+0;")
	w.same("after one", slotsOf(w, store.SlotQuery{Totals: true, After: "Z", Count: 2}),
		"calls[] 0/0 waits 0 of 0 2+0; mail[] 0/0 waits 0 of 2 2+1;")
	x := "x"
	w.same("of one", slotsOf(w, store.SlotQuery{Totals: true, Limit: "mail", Key: &x}),
		"mail[x] 0/0 waits 0 of 0 1+0;")
	w.same("after the last", slotsOf(w, store.SlotQuery{Totals: true, After: "mail"}), "")
	w.same("lost", slotsOf(w, store.SlotQuery{Lost: true}), "")
}

// spec: R-33
func limitRefills(w *world) {
	w.join(0)
	all := w.commit(tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""))
	answered(w, all, "GGTT")
	g := w.group(store.Change{Adjusts: []store.Adjust{
		{Limit: "calls", Every: 10 * time.Hour, Burst: 1, Revision: 1},
	}})
	w.ok(w.try(g))
	w.same("grants", g.Grants, 2)
	w.same("told", labels(w.inbox(all[3].Run)), []string{"1:" + store.SlotMessage})
	for i, hours := range []int{10, 20} {
		again := store.Change{Run: all[i+2].Run, Asks: all[i+2].Asks}
		waitsFor(w, w.commit(again)[0].Asks[0], hours)
	}
	c := tokenOf(w, "")
	c.Asks[0].Every, c.Asks[0].Burst, c.Asks[0].Revision = 10*time.Hour, 1, 1
	waitsFor(w, w.commit(c)[0].Asks[0], 30)
}

// spec: R-33
func limitRenumbers(w *world) {
	w.join(0)
	token := func(key string, every, burst int) store.Change {
		c := tokenOf(w, key)
		c.Asks[0].Every, c.Asks[0].Burst = time.Duration(every)*time.Hour, burst
		return c
	}
	all := w.commit(token("", 1, 2), token("", 1, 2), token("", 10, 2), token("", 1, 5),
		token("", 1, 5))
	answered(w, all, "GGTTT")
	for i, hours := range []int{10, 11, 12} { // the bucket was empty, and then its tokens taken
		waitsFor(w, all[i+2].Asks[0], hours)
	}
	all = w.commit(token("x", 1, 5), token("x", 1, 2), token("x", 4, 3), token("x", 4, 3),
		token("x", 4, 3))
	answered(w, all, "GGGTT") // of 4 tokens it kept 2
	waitsFor(w, all[4].Asks[0], 8)
}

// spec: R-33
func limitRefillOrder(w *world) {
	w.join(0)
	hour := 10
	send := func(changes ...store.Change) []store.Change {
		g := w.group(changes...)
		g.Now = at(hour * 3600)
		w.ok(w.try(g))
		return changes
	}
	all := send(tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""), tokenOf(w, ""))
	answered(w, all, "GGTT")
	send(store.Change{Run: all[0].Run, Frees: []int64{-1}},
		store.Change{Run: all[1].Run, Frees: []int64{-1}})
	if hour = 0; w.db.Pass != nil {
		w.ok(w.db.Pass(-10 * time.Hour))
	}
	all = append(all, send(tokenOf(w, ""))...)
	waitsFor(w, all[4].Asks[0], 3) // the bucket goes back with the clock
	send(store.Change{Adjusts: []store.Adjust{
		{Limit: "calls", Every: 2 * time.Hour, Burst: 1, Revision: 1},
	}})
	for i, hours := range []int{2, 4, 6} {
		waitsFor(w, send(store.Change{Run: all[i+2].Run, Asks: all[i+2].Asks})[0].Asks[0], hours)
	}
}

// An engine that joins writes the numbers that hold already, and one that is behind writes older
// ones.
//
// spec: R-33, B-9
func limitRevisions(w *world) {
	w.join(0)
	token := func(revision int64) store.Change {
		c := tokenOf(w, "")
		c.Asks[0].Revision = revision
		return c
	}
	all := w.commit(token(2), token(2), token(2))
	answered(w, all, "GGT")
	for _, revision := range []int64{1, 2} {
		g := w.group(store.Change{Adjusts: []store.Adjust{
			{Limit: "calls", Every: 10 * time.Hour, Burst: 1, Revision: revision},
		}})
		w.ok(w.try(g))
		w.same("grants", g.Grants, 0)
	}
	waitsFor(w, w.commit(token(2))[0].Asks[0], 2)
	old := token(1) // it does not change what a token takes
	old.Asks[0].Every, old.Asks[0].Burst = 100*time.Hour, 2
	waitsFor(w, w.commit(old)[0].Asks[0], 3)
	waitsFor(w, w.commit(token(2))[0].Asks[0], 4)

	mail := limited(w, 4, "mail", 1)
	for i, revision := range []int64{3, 3, 2, 3} {
		mail[i].Asks[0].Revision, mail[i].Asks[0].Max = revision, int(4-revision)
	}
	answered(w, w.commit(mail...), "GLLL")
	for _, a := range []store.Adjust{
		{Limit: "mail", Max: 4, Revision: 2},
		{Limit: "mail", Max: 5, Workflow: "w", Slot: -5, Revision: 2},
	} {
		w.commit(store.Change{Adjusts: []store.Adjust{a}})
		w.same("slots of an older change", used(w, "mail"), "1/1+3")
	}
	w.commit(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 2, Revision: 3}}})
	w.same("slots of the same one", used(w, "mail"), "2/2+2")
	w.commit(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: 3, Revision: 4}}})
	w.same("slots of the next one", used(w, "mail"), "3/3+1")
	w.commit(asking(mail[0].Head.Number, "mail", "", 1)) // of none
	w.same("slots after an ask of an older one", used(w, "mail"), "3/3+2")
}

// used returns the slots that are held, those that there are, and those in line.
func used(w *world, limit string) string {
	w.Helper()
	s, err := store.AbilitiesOf(w.s).SlotReader.Slots(w.Context(), store.SlotQuery{Limit: limit})
	w.ok(err)
	if len(s) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d/%d+%d", s[0].Used, s[0].Max, s[0].Line)
}

func limitMalformed(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for _, a := range []store.Ask{
		{Limit: "mail", Max: 1}, {Slot: 1, Max: 1}, {Slot: 1, Limit: "mail", Max: -1},
		{Slot: 1, Limit: "mail", Every: -1}, {Slot: 1, Limit: "mail", Every: 1},
		{Slot: 1, Limit: "mail", Revision: -1},
		{Slot: 1, Limit: strings.Repeat("x", store.MaxLimitName+1)},
		{Slot: 1, Limit: "mail", Key: strings.Repeat("x", store.MaxLimitKey+1)},
		{Slot: 1, Limit: "mail", Share: strings.Repeat("x", store.MaxLimitKey+1)},
	} {
		w.refused(w.group(store.Change{Run: run, Asks: []store.Ask{a}}))
	}
	w.refused(w.group(store.Change{Asks: []store.Ask{{Slot: 1, Limit: "mail"}}}))
	end := ended(w.head(run), 2, 10)
	end.Asks = []store.Ask{{Slot: 1, Limit: "mail"}}
	w.refused(w.group(end))
	w.refused(w.group(store.Change{Run: run, Asks: []store.Ask{
		{Slot: 1, Limit: "mail"}, {Slot: 1, Limit: "post"},
	}}))
	w.refused(w.group(store.Change{Adjusts: []store.Adjust{{Limit: "mail", Max: -1}}}))
	w.refused(w.group(store.Change{
		Adjusts: []store.Adjust{{Limit: "mail", Workflow: "w", Slot: 1}},
	}))
	for _, c := range []store.Change{
		asking(run, "mail", "", 1), {Run: run, Frees: []int64{1}},
		{Adjusts: []store.Adjust{{Limit: "mail", Max: 1}}},
	} {
		g := w.group(c)
		g.Engine = 0
		w.refused(g)
	}
}

func limitKeys(w *world) {
	w.join(0)
	keys := []string{
		strings.Repeat("k", store.MaxLimitKey), "☃ '\"", "a\x00b", "\xff\xfe", `\xff`, "A", "a",
	}
	for _, key := range keys {
		runs := w.written(w.start(""), w.start(""))
		answered(w, w.commit(asking(runs[0].Number, "mail", key, 1)), "G")
		answered(w, w.commit(asking(runs[1].Number, "mail", key, 1)), "L")
		shown := strings.Split(slotsOf(w, store.SlotQuery{Key: &key}), " ")
		w.same("of the key "+key, len(shown) > 1, true)
	}
}
