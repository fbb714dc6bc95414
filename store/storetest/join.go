package storetest

import (
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// joinChecks are about engines that join and leave.
func joinChecks() []check {
	return []check{
		{"join/an engine's ID is never used again", joinIDs},
		{"join/a second engine is told who has the store", joinLocked},
		{"join/the runs of a dead engine are due now and nobody's", joinTakesOver},
		{"join/runs that have ended or are nobody's stay as they are", joinLeavesAlone},
		{"join/what was due by a clock that has been put back is due now", joinPutBack},
		{"leave/the runs of an engine are due now and nobody's", leaveReleases},
		{"renew/the store shows that an engine drains", renewDrains},
		{"renew/the store shows which workflows an engine has", renewTells},
		{"renew/the store shows the loops of an engine", renewLoops},
		{"leave/an engine that was taken over cannot claim or leave", leaveFenced},
	}
}

// crashChecks are about the number of engines in a row that died with a run.
func crashChecks() []check {
	return []check{
		{"crash/a run that was executing counts one", crashCounted},
		{"crash/a run that waited or had not begun counts none", crashNotCounted},
		{"crash/engines that die in a row add up", crashInARow},
		{"crash/what a step has put out is no progress", crashAfterOutput},
		{"crash/what was recorded since makes the count begin anew", crashAnew},
		{"crash/a leave counts none", crashLeave},
		{"crash/a run that was claimed and not written since counts one", crashClaimed},
		{"crash/a run that was written since it was claimed counts by its status", crashWritten},
	}
}

func joinPutBack(w *world) {
	const day = 24 * 60 * 60
	w.join(0)
	due, asleep := w.written(w.free("due", day))[0].Number,
		w.written(w.free("asleep", 2*day))[0].Number
	g := w.group(w.free("", 3*day))
	g.Now = at(day)
	w.ok(w.try(g))
	w.die(60)
	var runs []journal.Number
	for _, r := range w.take(61, 10).Runs {
		runs = append(runs, r.Head.Number)
	}
	w.same("due", runs, []journal.Number{due})
	w.same("wake of what sleeps", w.head(asleep).Wake, at(2*day))
	w.die(50) // by the present clock, no more runs are due
	w.same("due", len(w.take(51, 10).Runs), 1)
}

// spec: R-35
func renewDrains(w *world) {
	w.join(0)
	reader := w
	if w.db.Lapse != nil { // the store is for many
		reader = &world{T: w.T, db: w.db}
		reader.open()
		w.besides = append(w.besides, reader.s)
	}
	drain := store.Drain{Until: at(30), Runs: 3, Steps: 2}
	for _, d := range []store.Drain{{}, drain, {Until: at(30), Runs: 1}, {}} {
		w.claim(store.Renew{Engine: w.engine, Now: at(1), Drain: d})
		drains(reader, d)
	}
	w.claim(store.Renew{Engine: w.engine, Now: at(2), Drain: drain})
	w.die(3)
	drains(w, store.Drain{})
}

// drains fails the check unless the one engine drains like that, also by Brief.
func drains(w *world, want store.Drain) {
	w.Helper()
	for _, e := range engine(w) {
		got := e.Drain
		w.same("drains until", moment(got.Until), moment(want.Until))
		w.same("held", []int{got.Runs, got.Steps}, []int{want.Runs, want.Steps})
	}
}

// engine returns the one engine that there is, as Info and as Brief show it.
func engine(w *world) []store.Engine {
	w.Helper()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	brief, err := store.Brief(w.Context(), w.s)
	w.ok(err)
	w.same("engines", len(info.Engines)+len(brief.Engines), 2)
	return append(info.Engines, brief.Engines...)
}

// spec: B-7
func renewTells(w *world) {
	w.join(0)
	odd := []string{"a,b", `"c"`, "{d}", "é", ""}
	for _, c := range []struct{ told, want []string }{
		{nil, []string{"v", "w"}}, {[]string{"x"}, []string{"x"}}, {nil, []string{"x"}},
		{odd, odd}, {[]string{}, []string{}},
	} {
		w.claim(store.Renew{Engine: w.engine, Now: at(1), Workflows: c.told})
		tells(w, c.want)
	}
	w.reopen()
	_, err := w.s.Claim(w.Context(), store.Join{Now: at(2)})
	w.ok(err)
	tells(w, nil)
}

// tells fails the check unless the one engine has these workflows, also by Brief.
func tells(w *world, want []string) {
	w.Helper()
	for _, e := range engine(w) {
		w.same("workflows", e.Workflows, want)
	}
}

// spec: R-35
func renewLoops(w *world) {
	w.join(0)
	odd := []store.Loop{
		{Name: "claims", Age: 3*time.Second + 1, Every: 30 * time.Second}, {Name: `"é,`},
		{Name: "watch", Age: 9000 * time.Hour},
	}
	looped(w, nil)
	for i, loops := range [][]store.Loop{odd, odd[:1], nil, odd} {
		w.claim(store.Renew{Engine: w.engine, Now: at(i + 1), Loops: loops})
		looped(w, loops)
		info, err := w.s.Info(w.Context())
		w.ok(err)
		if info.Now.IsZero() {
			w.same("seen", moment(info.Engines[0].Seen), moment(at(i+1)))
		}
	}
	w.die(9)
	looped(w, nil)
}

// looped fails the check unless the one engine has said this of its loops, also by Brief.
func looped(w *world, want []store.Loop) {
	w.Helper()
	for _, e := range engine(w) {
		w.same("loops", e.Loops, want)
	}
}

func joinIDs(w *world) {
	seen := map[journal.EngineID]bool{}
	for i := range 6 {
		w.join(i)
		if w.engine <= 0 || seen[w.engine] {
			w.Fatalf("engine ID %d after %v", w.engine, seen)
		}
		seen[w.engine] = true
		if i%2 == 0 {
			w.claim(store.Leave{Engine: w.engine, Now: at(i)})
		}
		w.reopen()
	}
}

func joinLocked(w *world) {
	if w.db.Lapse != nil {
		w.Skipf("the store is for many engines")
	}
	w.join(0)
	head := w.written(w.start(""))[0]
	_, err := w.s.Claim(w.Context(), store.Join{
		Self: store.Engine{Host: "other", PID: 43},
		Now:  at(1),
	})
	w.is(err, store.ErrLocked)
	for _, word := range []string{"host", "42", "2026"} {
		if !strings.Contains(err.Error(), word) {
			w.Errorf("the error does not say %s: %v", word, err)
		}
	}
	w.same("head", w.head(head.Number), head)
	w.commit(step(head.Number, 2))
	w.claim(store.Leave{Engine: w.engine, Now: at(2)})
	w.join(3)
}

func joinTakesOver(w *world) {
	w.join(0)
	a, b := w.start(""), w.start("")
	b.Head.Status, b.Head.Wake = journal.Waiting, time.Time{}
	heads := w.written(a, b)
	old := w.engine
	living, err := w.s.Info(w.Context())
	w.ok(err)
	w.reopen()
	dead, err := w.s.Info(w.Context())
	w.ok(err)
	if len(living.Engines) != 1 || living.Engines[0].Expired || len(dead.Engines) != 1 ||
		!dead.Engines[0].Expired {
		w.Fatalf("the engines are %v while one lives, and %v when it is dead", living.Engines,
			dead.Engines)
	}
	w.same("owner while nobody joined", w.head(a.Run).Owner, old)
	w.join(50)
	for i, want := range heads {
		want.Owner, want.Wake = 0, at(50)
		want.Crashes = w.head(want.Number).Crashes // the count has checks of its own
		w.same("head", w.head(heads[i].Number), want)
	}
	w.same("claimed", numbers(w.take(50, 10)), []journal.Number{a.Run, b.Run})
	info, err := w.s.Info(w.Context())
	w.ok(err)
	if len(info.Engines) != 1 || info.Engines[0].ID != w.engine || info.Engines[0].Expired {
		w.Fatalf("the engines are %v, want %d alone", info.Engines, w.engine)
	}
}

func joinLeavesAlone(w *world) {
	w.join(0)
	a, b, c := w.start(""), w.free("", 70), w.free("", 0)
	c.Head.Wake, c.Head.Status = time.Time{}, journal.Suspended
	heads := w.written(a, b, c)
	w.commit(ended(heads[0], 2, 5))
	want := []journal.Head{w.head(a.Run), w.head(b.Run), w.head(c.Run)}
	w.die(50)
	w.same("heads", []journal.Head{w.head(a.Run), w.head(b.Run), w.head(c.Run)}, want)
}

func leaveReleases(w *world) {
	w.join(0)
	a, b := w.start(""), w.free("", 90)
	heads := w.written(a, b)
	w.claim(store.Leave{Engine: w.engine, Now: at(50)})
	heads[0].Owner, heads[0].Wake = 0, at(50)
	w.same("heads", []journal.Head{w.head(a.Run), w.head(b.Run)}, heads)
	info, err := w.s.Info(w.Context())
	w.ok(err)
	w.same("engines", len(info.Engines), 0)
	w.join(60)
	w.same("claimed", numbers(w.take(60, 10)), []journal.Number{a.Run})
}

func leaveFenced(w *world) {
	w.join(0)
	old, run := w.engine, w.written(w.start(""))[0].Number
	w.die(10)
	for _, c := range []store.Claim{
		store.Leave{Engine: old, Now: at(11)},
		store.TakeRun{Engine: old, Run: run},
		store.TakeDue{Engine: old, Workflows: []string{"w"}, Max: 1, Now: at(11)},
	} {
		_, err := w.s.Claim(w.Context(), c)
		w.is(err, store.ErrFenced)
	}
	w.same("wake", moment(w.head(run).Wake), moment(at(10)))
	w.same("claimed", numbers(w.take(11, 1)), []journal.Number{run})
}

func (w *world) crashes(run journal.Number, want int) {
	w.Helper()
	if got := w.head(run).Crashes; got != want {
		w.Fatalf("%d crashes are counted, want %d", got, want)
	}
}

func crashCounted(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	w.die(10)
	w.crashes(run, 1)
	got := w.take(10, 1).Runs
	w.same("crashes as claimed", got[0].Head.Crashes, 1)
	w.commit(step(run, 2))
	w.crashes(run, 1)
}

func crashNotCounted(w *world) {
	w.join(0)
	a, b := w.start(""), w.start("")
	a.Head.Status, b.Head.Status = journal.Waiting, journal.Pending
	free := w.start("")
	free.Head.Owner = 0
	w.written(a, b, free)
	w.die(10)
	w.crashes(a.Run, 0)
	w.crashes(b.Run, 0)
	w.crashes(free.Run, 0)
}

func crashInARow(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for i := range 5 {
		w.die(10 * i)
		w.crashes(run, i+1)
		w.die(10*i + 5) // no engine had claimed the run
		w.crashes(run, i+1)
		w.same("claimed", numbers(w.take(10*i+5, 1)), []journal.Number{run})
	}
}

// spec: B-11, B-24
func crashAfterOutput(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for i, kind := range []journal.Kind{journal.StepOutput, journal.StepLogged} {
		c := step(run, int64(i+2))
		c.Entries[0].Kind = kind
		w.commit(c)
		w.die(10 * i)
		w.crashes(run, i+1)
		w.take(10*i, 1)
	}
}

func crashAnew(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	for i := range 3 {
		w.die(10 * i)
		w.take(10*i, 1)
	}
	w.crashes(run, 3)
	w.commit(step(run, 2))
	w.die(40)
	w.crashes(run, 1)
	w.take(40, 1)
	w.die(50)
	w.crashes(run, 2)
}

func crashLeave(w *world) {
	w.join(0)
	run := w.written(w.start(""))[0].Number
	w.claim(store.Leave{Engine: w.engine, Now: at(1)})
	w.die(10)
	w.crashes(run, 0)
}

// spec: P-5
func crashClaimed(w *world) {
	w.join(0)
	a, b := w.free("", 1), w.free("", 2)
	b.Head.Status = journal.Waiting
	w.written(a, b)
	w.take(5, 1)
	w.claim(store.TakeRun{Engine: w.engine, Run: b.Run})
	w.commit(step(a.Run, 2)) // an entry is not a head
	w.clientPosts(6, toRun(b.Run, signal("x", "1")))
	w.die(10)
	w.crashes(a.Run, 1)
	w.crashes(b.Run, 1)
	w.die(20) // no engine had claimed the runs
	w.crashes(a.Run, 1)
	w.crashes(b.Run, 1)
}

func crashWritten(w *world) {
	w.join(0)
	a, b, c := w.free("", 1), w.free("", 1), w.free("", 1)
	w.written(a, b, c)
	w.take(5, 3)
	waits := update(*a.Head, func(h *journal.Head) {
		h.Status, h.Owner = journal.Waiting, w.engine
	})
	runs := update(*b.Head, func(h *journal.Head) { h.Status, h.Owner = journal.Running, w.engine })
	w.clientPosts(6, toRun(c.Run, signal("x", "1")))
	mail := unloading(*c.Head, 0, 2)
	w.commit(waits, runs, mail)
	w.die(10)
	w.crashes(a.Run, 0)
	w.crashes(b.Run, 1)
	w.crashes(c.Run, 0)
	w.take(15, 3)
	w.claim(store.Leave{Engine: w.engine, Now: at(16)})
	w.die(20)
	w.crashes(a.Run, 0)
}
