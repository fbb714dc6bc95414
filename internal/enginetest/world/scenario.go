package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A Scenario is a series of operations on a world, with the result that it must have whatever
// crashes.
type Scenario struct {
	Workflows []perdure.Definition
	// Begin starts the operations. It is called again until it returns nil.
	Begin func(w *World) error
	// Over reports whether nothing more will happen.
	Over func(w *World) bool
	// Check judges the result.
	Check func(t *testing.T, w *World, crashes int)
	// Crashed is called before the engine that follows a crash; it may be nil.
	Crashed func(w *World)
}

// OverCrashes plays a scenario with a crash after its first commit, then anew with one after
// its second, and so on to its last, in both modes. It fails the test if there are fewer
// than least commits.
func OverCrashes(t *testing.T, least int, make func() Scenario) {
	t.Helper()
	for name, idle := range IdleTimeouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for reached := true; reached && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) { reached = play(t, make(), idle, n+1) })
			}
			if n-1 < least {
				t.Errorf("it crashed after %d commits, which is less than %d", n-1, least)
			}
		})
	}
}

// play plays a scenario with a crash after a commit, and reports whether it came to that.
func play(t *testing.T, s Scenario, idle time.Duration, commit int) (reached bool) {
	t.Helper()
	var faulty *storetest.Faulty
	w := &World{T: t, DB: memory.New(), Workflows: s.Workflows}
	w.Options.Build, w.Options.IdleTimeout = "test", idle
	w.Wrap = func(below store.Store) store.Store {
		faulty = storetest.NewFaulty(below, storetest.Plan{
			Method: storetest.Commit, Call: commit, Fault: storetest.CrashAfter,
		})
		return faulty
	}
	w.Begin()
	defer func() { w.End() }()
	first, crashes, begun := faulty, 0, false
	w.Wrap = nil
	for i := 0; !begun || !s.Over(w); i++ {
		if crashes == 0 && len(first.Injected()) > 0 {
			crashes++
			if s.Crashed != nil {
				s.Crashed(w)
			}
			w.Crash()
		}
		begun = begun || s.Begin(w) == nil
		time.Sleep(time.Duration(1+min(i/20, 9)) * time.Second)
		if i == 10_000 {
			t.Fatalf("crash after commit %d: it does not end", commit)
		}
	}
	if crashes == 0 && len(first.Injected()) > 0 {
		crashes++
		w.Crash()
	}
	s.Check(t, w, crashes)
	if t.Failed() {
		t.Logf("crash after commit %d", commit)
	}
	return crashes > 0
}
