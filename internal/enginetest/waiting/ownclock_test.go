package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// An appClock is a clock of the application: that of the machine, and ahead of it by a time that a
// test changes, or one that stands still.
type appClock struct {
	ahead   atomic.Int64
	stopped atomic.Pointer[time.Time]
}

func (c *appClock) now() time.Time {
	if t := c.stopped.Load(); t != nil {
		return *t
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

var timed = perdure.Define("timed", func(ctx context.Context, _ int) (time.Time, error) {
	now, err := perdure.Now(ctx)
	if err != nil {
		return now, err
	}
	_, err = perdure.Step(ctx, "s", world.Work("s", time.Second, nil))
	if err == nil {
		err = perdure.Sleep(ctx, time.Minute)
	}
	return now, err
})

// spec: P-15
func TestTheTimeIsThatOfTheApplicationsClock(t *testing.T) {
	const ahead = time.Hour
	for _, from := range []string{"engine", "client"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &appClock{}
				clock.ahead.Store(int64(ahead))
				o := perdure.Options{Clock: clock.now}
				w := world.With(t, o, timed)
				defer w.End()
				caller := perdure.Caller(w.Engine)
				if from == "client" {
					caller = world.Must[*perdure.Client](t)(o.NewClient(t.Context(), w.DB))
				}
				began := time.Now()
				run, err := timed.Start(t.Context(), caller, 0, perdure.ID("x"))
				if err != nil {
					t.Fatal(err)
				}
				now, err := run.Result(t.Context())
				if took := time.Since(began); err != nil || took < time.Minute+time.Second ||
					took > 2*time.Minute {
					t.Errorf("it took %v: %v", took, err)
				}
				isAhead := func(what string, at time.Time) {
					if by := at.Sub(began); by < ahead || by > ahead+2*time.Minute {
						t.Errorf("%s is %v ahead", what, by)
					}
				}
				isAhead("Now", now)
				h := w.Describe("x").Head
				isAhead("Created", h.Created)
				isAhead("Ended", h.Ended)
				for _, e := range w.History("x") {
					isAhead(e.Kind.String(), e.At)
					if e.Kind == journal.TimerRegistered {
						if by := e.Detail.Due.Sub(e.At); by < time.Minute-time.Millisecond ||
							by > time.Minute {
							t.Errorf("the timer is due %v after its entry", by)
						}
					}
					if e.Kind == journal.StepCompleted && e.Took != time.Second {
						t.Errorf("the step took %v", e.Took)
					}
				}
				for _, n := range w.Told() {
					isAhead(string(n.Kind), n.At)
				}
			})
		})
	}
}

// spec: P-15
func TestWhatIsDueFollowsTheApplicationsClock(t *testing.T) {
	for name, idle := range map[string]time.Duration{"loaded": 1000 * time.Hour, "unloaded": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { followTheClock(t, idle) })
		})
	}
}

func followTheClock(t *testing.T, idle time.Duration) {
	c := &world.Cluster{TB: t, DB: memory.NewShared(world.Lease)}
	defer c.End()
	clock, at := &appClock{}, time.Now()
	set := func(to time.Time) { at = to; clock.stopped.Store(&to) }
	set(at)
	w := c.Node(timed)
	w.Options.Clock, w.Options.CleanUp, w.Options.IdleTimeout = clock.now, time.Minute, idle
	w.Options.Retention = perdure.Retention{Period: 24 * time.Hour}
	w.Begin()
	world.StartAndSettle(w, timed, 0, perdure.ID("x"))
	time.Sleep(10*time.Minute + 5*time.Second)
	if s := w.Status("x"); s.IsTerminal() {
		t.Fatalf("the clock stands still, and the run is %v", s)
	}
	set(at.Add(time.Minute))
	time.Sleep(31 * time.Second) // a sweep
	if s := w.Status("x"); s != journal.Completed {
		t.Fatalf("the timer is due, and the run is %v", s)
	}
	if ended := w.Describe("x").Head.Ended; !ended.Equal(at) {
		t.Errorf("it ended at %v, by a clock that shows %v", ended, at)
	}
	time.Sleep(48 * time.Hour)
	if s := w.Status("x"); s != journal.Completed {
		t.Errorf("the clock stands still, and the run is %v", s)
	}
	set(at.Add(1000 * time.Hour))
	time.Sleep(2 * time.Minute)
	if _, err := w.Engine.Describe(t.Context(), "x"); journal.CodeOf(err) != journal.CodeNotFound {
		t.Errorf("its retention is over, and the run is here: %v", err)
	}
	if lost := w.Seen(observe.LeaseLost); len(lost) > 0 {
		t.Errorf("the lease is measured, and not read from the clock: %+v", lost)
	}
}

// spec: P-15
func TestAClockThatFailsIsThatOfTheMachine(t *testing.T) {
	for name, clock := range map[string]func() time.Time{
		"panics":            func() time.Time { panic("odd") },
		"returns zero time": func() time.Time { return time.Time{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.With(t, perdure.Options{Clock: clock}, timed)
				defer w.End()
				began := time.Now()
				_, now, err := world.Result(w, timed, 0, perdure.ID("x"))
				if by := now.Sub(began); err != nil || by < 0 || by > time.Second {
					t.Errorf("it is now %v: %v", now, err)
				}
			})
		})
	}
}
