package operators_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// check returns one check of the doctor.
func check(t *testing.T, c interface {
	Doctor(context.Context, admin.DoctorOptions) ([]admin.Check, error)
}, name string) admin.Check {
	t.Helper()
	all, err := c.Doctor(t.Context(), admin.DoctorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q", name)
	return admin.Check{}
}

// is fails the test if a check has another result.
func is(t *testing.T, c admin.Check, want admin.Health, evidence string) {
	t.Helper()
	if c.Health != want || !strings.Contains(c.Evidence, evidence) {
		t.Errorf("%s: %s, %q; want %s, %q", c.Name, c.Health, c.Evidence, want, evidence)
	}
}

// An engine whose runs go on is healthy, but for the store in memory. The runs of an engine that
// was stopped are overdue, and those of one that hangs in a step are stale.
//
// spec: R-35, P-5
func TestTheDoctorFindsRunsThatStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", d, nil))
		})
		w := world.New(t, slow, perdure.Define("n", world.Nothing))
		defer func() { w.End() }()
		synctest.Wait()
		a := admin.New(w.Engine)
		all, err := a.Doctor(t.Context(), admin.DoctorOptions{})
		for _, c := range all {
			if c.Name != "settings" && c.Health != admin.Healthy {
				t.Errorf("%s: %s, %s", c.Name, c.Health, c.Evidence)
			}
		}
		if err != nil || len(all) != 17 {
			t.Errorf("%d checks, %v", len(all), err)
		}
		is(t, check(t, a, "settings"), admin.Failing, "a commit survives nothing")
		is(t, check(t, a, "loops"), admin.Healthy, "claims ")

		world.Start(w, slow, 3*time.Hour)
		time.Sleep(2 * time.Hour)
		c := check(t, a, "stale")
		is(t, c, admin.Failing, "1 run without a new entry for 1h0m0s: it executes s")
		if len(c.Mend) != 1 || c.Mend[0] != "why "+c.IDs[0] {
			t.Errorf("mend %q", c.Mend)
		}

		w.Kill()
		idle := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		if _, err := idle.Start(t.Context(), "n", []byte("1"), perdure.ID("due")); err != nil {
			t.Fatal(err)
		}
		a = admin.New(idle)
		is(t, check(t, a, "overdue"), admin.Healthy, "none")
		time.Sleep(2 * time.Minute)
		is(t, check(t, a, "overdue"), admin.Failing, "1 run due")
		is(t, check(t, a, "engines"), admin.Failing, "some that could")
		w.Begin()

		a = admin.New(w.Engine)
		for _, id := range []string{"b", "a"} {
			_, err := w.Engine.Start(t.Context(), "gone", []byte("1"), perdure.ID(id))
			world.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
		c = check(t, a, "overdue")
		is(t, c, admin.Failing, "2 runs due")
		if !strings.Contains(c.Evidence, "; no engine has workflow gone: engine ") ||
			strings.Count(c.Evidence, "no engine has workflow") != 1 {
			t.Errorf("evidence %q", c.Evidence)
		}
	})
}

// Each of these counts, and names what mends it.
//
// spec: R-35
func TestTheDoctorFindsWhatWaitsForAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("no")
		asks := perdure.Define("asks", func(ctx context.Context, _ int) (string, error) {
			d, err := perdure.Park(ctx, "bank", "it is closed", "yes")
			return d.Choice, err
		})
		lost := perdure.Define("lost", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 0, bad), perdure.NoRetry)
		}, deadletter.Automatic(true))
		undone := saga.New[int]("undone").ParkOnUndoError()
		first := saga.Add(undone, "first", world.Nothing).Undo(
			func(context.Context, int, int) error { return bad })
		saga.Add(undone, "second", func(context.Context, int) (int, error) {
			return 0, perdure.Permanent(bad)
		}).After(first)
		w := world.New(t, asks, lost, undone)
		defer func() { w.End() }()
		world.StartAndSettle(w, asks, 0, perdure.ID("a1"))
		world.StartAndSettle(w, asks, 0, perdure.ID("a2"))
		world.StartAndSettle(w, lost, 0, perdure.ID("l1"))
		a := admin.New(w.Engine)
		c := check(t, a, "parked")
		is(t, c, admin.Warned, "2 runs waiting for an operator")
		if !slices.Equal(c.Mend, []string{"why a2", "why a1"}) {
			t.Errorf("mend %q", c.Mend)
		}
		c = check(t, a, "dead letters")
		is(t, c, admin.Warned, "1 dead letter open")
		id, _ := strings.CutPrefix(c.Mend[0], "dlq retry ")
		if _, err := a.DeadLetter(t.Context(), id); err != nil {
			t.Errorf("%q: %v", c.Mend, err)
		}
		world.Start(w, undone.Workflow, 0, perdure.ID("u1"))
		time.Sleep(time.Hour)
		c = check(t, a, "rollbacks")
		is(t, c, admin.Failing, "1 rollback incomplete")
		if !slices.Equal(c.Mend, []string{"runs resume u1"}) {
			t.Errorf("mend %q", c.Mend)
		}
		world.Must[perdure.Delivery](t)(perdure.NewSignal[int]("go").Send(t.Context(), w.Engine,
			"nobody", 1))
		is(t, check(t, a, "unrouted"), admin.Warned, "1 signal that found no run")
		world.NoError(t, a.PauseWorkflow(t.Context(), admin.AllWorkflows, admin.Note{}))
		c = check(t, a, "pauses")
		is(t, c, admin.Warned, "1 workflow paused")
		if !slices.Equal(c.Mend, []string{"workflows resume --all"}) {
			t.Errorf("mend %q", c.Mend)
		}
	})
}

// A sick store has other facts and slots.
type sick struct {
	store.Store
	info  func(*store.Info)
	slots []store.Slot
}

func (s *sick) Info(ctx context.Context) (store.Info, error) {
	info, err := s.Store.Info(ctx)
	s.info(&info)
	return info, err
}

func (s *sick) Slots(context.Context, store.SlotQuery) ([]store.Slot, error) { return s.slots, nil }

// spec: R-35
func TestTheDoctorReadsTheFactsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		s := &sick{Store: memory.New()}
		for name, c := range map[string]struct {
			info     store.Info
			slots    []store.Slot
			health   admin.Health
			evidence string
		}{
			"clock": {
				info:   store.Info{Now: now.Add(-time.Minute)},
				health: admin.Warned, evidence: "differs from the store's by 1m0s",
			},
			"engines": {
				info:   store.Info{Engines: []store.Engine{{ID: 1, Runs: 10, Slots: 10}}},
				health: admin.Warned, evidence: "1 engine full",
			},
			"builds": {
				info:   store.Info{Engines: []store.Engine{{Build: "a"}, {Build: "b"}}},
				health: admin.Warned, evidence: "2 builds of engines",
			},
			"unowned": {
				info:   store.Info{Engines: []store.Engine{{ID: 7, Runs: 12, Expired: true}}},
				health: admin.Failing, evidence: "12 runs of engines that have died",
			},
			"outbox": {
				info:   store.Info{Outbox: 12, Engines: []store.Engine{{ID: 7, Expired: true}}},
				health: admin.Warned, evidence: "12 entries to be told",
			},
			"limits": {
				slots:  []store.Slot{{Limit: "bill", Line: 3, Place: 1, Max: 2}},
				health: admin.Warned, evidence: "bill: 0 used, 3 waiting",
			},
			"store": {
				info:   store.Info{Driver: "sqlite", Runs: 10, Bytes: 12345},
				health: admin.Healthy, evidence: "10 runs, 12 KB",
			},
		} {
			s.slots = c.slots
			s.info = func(i *store.Info) { c.info.Database = i.Database; *i = c.info }
			a := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), s)))
			is(t, check(t, a, name), c.health, c.evidence)
		}
		a := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), s)))
		_, err := a.Doctor(t.Context(), admin.DoctorOptions{Stale: -1})
		world.CodeIs(t, err, journal.CodeInvalid)
	})
}

// spec: R-35
func TestTheDoctorWarnsOfOptionsThatEndangerData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{
			CleanUp: -1, KeepUnrouted: -1, Sweep: -1, KeepDeadLettered: -1,
		})
		defer func() { w.End() }()
		for _, text := range []string{"CleanUp", "KeepUnrouted", "Sweep", "KeepDeadLettered"} {
			is(t, check(t, admin.New(w.Engine), "settings"), admin.Failing, text+" is off")
		}
		is(t, check(t, admin.New(w.Engine), "settings"), admin.Failing, "sweeps never")
	})
}

// The doctor of an engine shows the settings in force.
//
// spec: R-35
func TestTheDoctorShowsTheSettingsOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{
			Capacity: 7, Sweep: 2 * time.Second, CleanUp: 3 * time.Hour,
			KeepDeadLettered: 5 * time.Hour, KeepUnrouted: 6 * time.Hour,
			Retention: perdure.Retention{Period: 4 * time.Hour},
		})
		defer func() { w.End() }()
		for _, text := range []string{
			"at most 7 runs in memory", "sweeps every 2s", "cleans up every 3h, ",
			"keeps ended runs 4h, ", "a dead letter 5h and", "found no run 6h, ",
		} {
			is(t, check(t, admin.New(w.Engine), "settings"), admin.Failing, text)
		}
	})
}

// A faulty store panics when it is to purge, and ends its watch too soon.
type faulty struct {
	store.Store
	bad           *atomic.Bool
	purges, looks *atomic.Int32
}

func (f *faulty) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if f.bad.Load() {
		panic("no disk")
	}
	f.purges.Add(1)
	return f.Store.Purge(ctx, p)
}

func (f *faulty) Watch(ctx context.Context, _ func()) {
	f.looks.Add(1)
	if !f.bad.Load() {
		<-ctx.Done()
	}
}

// A loop that has stopped is shown with the reason, to other processes too, and begins again by an
// order.
//
// spec: R-35
func TestAStoppedLoopIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Bool
		var purges, looks atomic.Int32
		bad.Store(true)
		w := world.New(t)
		defer func() { w.End() }()
		synctest.Wait()
		w.Kill()
		w.Wrap = func(s store.Store) store.Store { return &faulty{s, &bad, &purges, &looks} }
		w.Begin()
		time.Sleep(90 * time.Minute)
		other := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB)))
		c := check(t, other, "loops")
		is(t, c, admin.Failing, "watch of engine 2 has stopped at 2000-01-01T00:00:00Z: it has")
		is(t, c, admin.Failing,
			"retention of engine 2 has stopped at 2000-01-01T01:00:00Z: panic: no disk")
		if !slices.Equal(c.Mend, []string{"doctor start 2 watch", "doctor start 2 retention"}) {
			t.Errorf("mend %q", c.Mend)
		}
		for _, l := range world.Must[[]admin.Loop](t)(other.Loops(t.Context())) {
			stopped := l.Name == "watch" || l.Name == "retention"
			if l.MayStart != stopped || (l.Reason != "") != stopped {
				t.Errorf("loop %+v", l)
			}
		}
		if seen := w.Seen(observe.LoopStopped); len(seen) != 2 || seen[1].Reason != "retention" {
			t.Errorf("observers see %v", seen)
		}
		if c := check(t, admin.New(w.Engine), "loops"); c.Count != 2 {
			t.Errorf("in its process %d have stopped: %s", c.Count, c.Evidence)
		}
		bad.Store(false)
		time.Sleep(4 * time.Hour)
		if purges.Load() != 0 || looks.Load() != 1 {
			t.Errorf("%d purges, %d watches before the order", purges.Load(), looks.Load())
		}
		for _, loop := range []string{"watch", "retention"} {
			world.NoError(t, other.StartLoop(t.Context(), 2, loop, admin.Note{By: "ada"}))
			world.CodeIs(t, other.StartLoop(t.Context(), 2, loop, admin.Note{}),
				journal.CodeNotFound)
		}
		is(t, check(t, other, "loops"), admin.Healthy, "none has stopped")
		time.Sleep(90 * time.Minute)
		if purges.Load() != 1 || looks.Load() != 2 {
			t.Errorf("%d purges, %d watches after it", purges.Load(), looks.Load())
		}
		is(t, check(t, other, "loops"), admin.Healthy, "none has stopped")
		is(t, check(t, admin.New(w.Engine), "loops"), admin.Healthy, "retention ")
	})
}

// The engine whose loop has stopped dies. The next one removes what the store has of that.
//
// spec: R-35
func TestTheNextEngineForgetsTheLoopsOfOneThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Bool
		var purges, looks atomic.Int32
		bad.Store(true)
		w := world.New(t)
		defer func() { w.End() }()
		synctest.Wait()
		w.Kill()
		w.Wrap = func(s store.Store) store.Store { return &faulty{s, &bad, &purges, &looks} }
		w.Begin()
		time.Sleep(90 * time.Minute)
		is(t, check(t, admin.New(w.Engine), "loops"), admin.Failing, "watch of engine 2")
		bad.Store(false)
		w.Crash()
		time.Sleep(time.Second)
		other := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB)))
		for _, loop := range []string{"watch", "retention"} {
			world.CodeIs(t, other.StartLoop(t.Context(), 2, loop, admin.Note{}),
				journal.CodeNotFound)
		}
		is(t, check(t, other, "loops"), admin.Healthy, "none has stopped")
	})
}

// Anybody may choose a workflow ID. In a command that mends, it is one word for a shell, and no
// flag.
//
// spec: R-35
func TestTheCommandsOfTheDoctorCanBePasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := perdure.Define("asks", func(ctx context.Context, _ int) (string, error) {
			d, err := perdure.Park(ctx, "bank", "it is closed", "yes")
			return d.Choice, err
		})
		w := world.New(t, asks)
		defer func() { w.End() }()
		for id, want := range map[string]string{
			"x;rm":           "'x;rm'",
			"$(touch${IFS})": "'$(touch${IFS})'",
			"a'b":            `'a'\''b'`,
			"ä":              "'ä'",
			"ord-1:a/b":      "ord-1:a/b",
			"--help":         "", // its run ID
		} {
			world.StartAndSettle(w, asks, 0, perdure.ID(id))
			c := check(t, admin.New(w.Engine), "parked")
			if want == "" {
				want = string(w.Describe(id).Head.ID)
			}
			if len(c.Mend) == 0 || c.Mend[0] != "why "+want || c.IDs[0] != id {
				t.Errorf("%q: %q", id, c.Mend)
			}
			time.Sleep(time.Second)
		}
	})
}

// A dead letter that was added from outside has no run: it is handled, and not retried.
//
// spec: R-35, P-4
func TestTheDoctorDoesNotRetryADeadLetterWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, perdure.Define("n", world.Nothing))
		defer func() { w.End() }()
		a := admin.New(w.Engine)
		id := world.Must[string](t)(a.AddDeadLetter(t.Context(), deadletter.Letter{
			Workflow: "mail", WorkflowID: "m-1", Error: "the mailbox is full",
		}))
		c := check(t, a, "dead letters")
		is(t, c, admin.Warned, "1 dead letter open")
		if !slices.Equal(c.Mend, []string{"dlq handle " + id}) {
			t.Errorf("mend %q", c.Mend)
		}
	})
}
