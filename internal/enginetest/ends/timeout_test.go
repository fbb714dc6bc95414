package ends

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// endOf returns how long after its start a run ended, and its status.
func endOf(t *testing.T, w *world.World, id string) (time.Duration, journal.Status) {
	t.Helper()
	d := w.Describe(id)
	return d.Head.Ended.Sub(d.Head.Created), d.Head.Status
}

// stalls are ways in which a run does nothing for longer than its timeout.
var stalls = map[string]func(context.Context) error{
	"asleep": func(ctx context.Context) error {
		return perdure.Sleep(ctx, 5*time.Hour)
	},
	"asleep in a branch": func(ctx context.Context) error { return asleepInBranch(ctx) },
	"waiting": func(ctx context.Context) error {
		_, err := world.GoSignal.Wait(ctx)
		return err
	},
	"parked": func(ctx context.Context) error {
		_, err := perdure.Park(ctx, "ask", "why")
		return err
	},
	"in a step": func(ctx context.Context) error {
		_, err := perdure.Step(ctx, "s", world.Work("s", 5*time.Hour, nil))
		return err
	},
	"between attempts": func(ctx context.Context) error {
		_, err := perdure.Step(ctx, "s", world.Work("s", 0, world.ErrOdd),
			perdure.Retry{First: 5 * time.Hour, Cap: 5 * time.Hour})
		return err
	},
	"replayed later": func(ctx context.Context) error {
		return perdure.RetryAfter(0, world.ErrOdd)
	},
}

func asleepInBranch(ctx context.Context) error {
	_, err := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
		return 0, perdure.Sleep(ctx, 5*time.Hour)
	}).Await(ctx)
	return err
}

// The overall timeout of a run applies whatever the run does and whatever is done to it. It counts
// from the start and comes at its instant, or when an engine is there again; and planned clean-ups
// are done first.
//
// spec: L-19, R-12
func TestOverallTimeout(t *testing.T) {
	const limit = 2 * time.Hour
	meanwhile := map[string]struct {
		do    func(t *testing.T, w *world.World)
		after time.Duration
	}{
		"nothing": {func(*testing.T, *world.World) {}, limit},
		"suspended": {func(t *testing.T, w *world.World) {
			if err := w.Engine.Suspend(context.Background(), "x", "look"); err != nil {
				// one that asks an operator is SUSPENDED
				world.CodeIs(t, err, journal.CodeWrongState)
			}
		}, limit},
		"suspended and resumed": {func(t *testing.T, w *world.World) {
			if err := w.Engine.Suspend(context.Background(), "x", "look"); err != nil {
				t.Error(err)
			}
			time.Sleep(30 * time.Minute)
			if err := w.Engine.Resume(context.Background(), "x"); err != nil {
				t.Error(err)
			}
		}, limit},
		"crashed":             {func(_ *testing.T, w *world.World) { w.Crash() }, limit},
		"stopped and started": {func(_ *testing.T, w *world.World) { w.End(); w.Begin() }, limit},
		"down": {func(_ *testing.T, w *world.World) {
			w.Kill()
			time.Sleep(4 * time.Hour)
			w.Begin()
		}, 5 * time.Hour},
	}
	for stall, wait := range stalls {
		for name, m := range meanwhile {
			for _, cleanup := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/cleanup=%v", stall, name, cleanup), func(t *testing.T) {
					world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
						wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
							if cleanup {
								err := perdure.OnCancel(ctx, "undo",
									func(ctx context.Context) error {
										_, err := perdure.Step(ctx, "undone",
											world.Work("undone", time.Second, nil))
										return err
									})
								if err != nil {
									return 0, err
								}
							}
							return 7, wait(ctx)
						}, perdure.Timeout(limit), perdure.Replays{
							First: 5 * time.Hour, Cap: 5 * time.Hour,
						})
						o.Drain = -1
						w := world.With(t, o, wf)
						defer func() { w.End() }()
						world.StartAndSettle(w, wf, 0, perdure.ID("x"))
						time.Sleep(time.Hour)
						m.do(t, w)
						_, err := world.OutcomeOf(w, wf, "x")
						world.CodeIs(t, err, journal.CodeTimedOut)
						want := m.after
						if cleanup {
							want += time.Second
						}
						if after, status := endOf(t, w, "x"); after != want ||
							status != journal.TimedOut {
							t.Errorf("it ended %v after %v, want %v", status, after, want)
						}
						undone := 0
						for _, e := range w.History("x") {
							if e.Kind == journal.StepCompleted && e.Op.Name == "undone" {
								undone++
							}
						}
						if cleanup != (undone == 1) || undone > 1 {
							t.Errorf("undone %d times: %v", undone, world.Tail(w.History("x"), 8))
						}
					})
				})
			}
		}
	}
}

// A run that is PENDING times out, because its timeout counts from the start.
//
// spec: L-19
func TestTimeoutOfARunThatWaitsForASlot(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		o.Capacity = 1
		busy := perdure.Define("busy", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", 5*time.Hour, nil))
		})
		wf := perdure.Define("w", world.Nothing, perdure.Timeout(time.Hour))
		w := world.With(t, o, busy, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, busy, 0)
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		_, err := world.OutcomeOf(w, wf, "x")
		world.CodeIs(t, err, journal.CodeTimedOut)
		if _, status := endOf(t, w, "x"); status != journal.TimedOut {
			t.Error(status)
		}
	})
}

// A run without a timeout is never timed out, and neither is one that ends in time.
//
// spec: L-19
func TestRunInTimeIsNotTimedOut(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		sleep := func(ctx context.Context) error { return perdure.Sleep(ctx, 10*24*time.Hour) }
		none, zero := world.Timed("none", sleep), world.Timed("zero", sleep, perdure.Timeout(0))
		just := world.Timed("just", sleep, perdure.Timeout(10*24*time.Hour+1))
		w := world.With(t, o, none, zero, just)
		defer func() { w.End() }()
		for _, wf := range []*perdure.Workflow[int, world.Span]{none, zero, just} {
			world.StartAndSettle(w, wf, 0, perdure.ID(wf.Name()))
		}
		time.Sleep(24 * time.Hour)
		w.Crash()
		for _, wf := range []*perdure.Workflow[int, world.Span]{none, zero, just} {
			if got, err := world.OutcomeOf(w, wf, wf.Name()); err != nil ||
				got.Took() != 10*24*time.Hour {
				t.Errorf("%s: %v %v", wf.Name(), got.Took(), err)
			}
		}
	})
}

// The timeout of a run that continues another one counts from its own start.
//
// spec: L-19, R-25
func TestTimeoutOfASuccessorIsAnew(t *testing.T) {
	for _, down := range []bool{false, true} {
		world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
			wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
				if n == 3 {
					return n, perdure.Sleep(ctx, 5*time.Hour)
				}
				if err := perdure.Sleep(ctx, 90*time.Minute); err != nil {
					return n, err
				}
				return n, perdure.ContinueAsNew(ctx, n+1)
			}, perdure.Timeout(2*time.Hour))
			w := world.With(t, o, wf)
			defer func() { w.End() }()
			began := time.Now()
			first := world.StartAndSettle(w, wf, 0, perdure.ID("x"))
			time.Sleep(4*time.Hour + 45*time.Minute) // in the fourth
			if down {
				w.Crash()
			}
			_, err := world.OutcomeOf(w, wf, first.RunID())
			world.CodeIs(t, err, journal.CodeTimedOut)
			if d := w.Describe("x"); d.Head.Status != journal.TimedOut ||
				d.Head.Ended.Sub(began).Round(time.Millisecond) != 6*time.Hour+30*time.Minute {
				t.Errorf("%v after %v", d.Head.Status, d.Head.Ended.Sub(began))
			}
		})
	}
}

// The timeout of an attempt counts from its start, also over a crash. An attempt that passes it has
// failed, and the next one has all its time.
//
// spec: L-19, R-12, L-4
func TestTimeoutOfAnAttemptHoldsOverACrash(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Duration // of the crash
		down time.Duration
		want []string // the attempts, and when they began and were given up
		is   journal.Code
	}{
		"no crash": {
			0,
			0,
			[]string{"1 00:00 00:10", "2 00:11 00:21"},
			journal.CodeTimedOut,
		},
		"a short one": {
			4 * time.Minute,
			time.Minute,
			[]string{"1 00:05 00:10", "2 00:11 00:21"},
			journal.CodeTimedOut,
		},
		"a long one": {
			4 * time.Minute,
			time.Hour,
			[]string{"2 01:05 01:15"},
			journal.CodeTimedOut,
		},
		"in the pause": {
			10*time.Minute + 30*time.Second,
			0,
			[]string{"1 00:00 00:10", "2 00:11 00:21"},
			journal.CodeTimedOut,
		},
		"a long pause": {
			10*time.Minute + 30*time.Second,
			time.Hour,
			[]string{"1 00:00 00:10", "2 01:10 01:20"},
			journal.CodeTimedOut,
		},
		"in the second": {
			15 * time.Minute,
			time.Minute,
			[]string{"1 00:00 00:10", "2 00:16 00:21"},
			journal.CodeTimedOut,
		},
		"all of the second": {
			15 * time.Minute,
			time.Hour,
			[]string{"1 00:00 00:10"},
			journal.CodeTimedOut,
		},
		"at its very end": {
			10 * time.Minute,
			0,
			[]string{"1 00:00 00:10", "2 00:11 00:21"},
			journal.CodeTimedOut,
		},
		"two hours after it": {
			3 * time.Hour,
			0,
			[]string{"1 00:00 00:10", "2 00:11 00:21"},
			journal.CodeTimedOut,
		},
	} {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/async=%v", name, async), func(t *testing.T) {
				world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
					var mu sync.Mutex
					var got []string
					body := func(ctx context.Context) (int, error) {
						n, _, _ := perdure.Attempt(ctx)
						began := time.Now()
						<-ctx.Done()
						mu.Lock()
						defer mu.Unlock()
						if context.Cause(ctx) != context.Canceled && journalled(ctx) {
							got = append(got, fmt.Sprint(n, began.UTC().Format(" 15:04 "),
								time.Now().UTC().Format("15:04")))
						}
						return 0, ctx.Err()
					}
					opts := []perdure.StepOption{
						perdure.Timeout(10 * time.Minute),
						perdure.Retry{Attempts: 2, First: time.Minute},
					}
					wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
						if async {
							return perdure.Async(ctx, "s", body, opts...).Await(ctx)
						}
						return perdure.Step(ctx, "s", body, opts...)
					})
					o.Drain = -1
					w := world.With(t, o, wf)
					defer func() { w.End() }()
					world.StartAndSettle(w, wf, 0, perdure.ID("x"))
					if c.at > 0 {
						time.Sleep(c.at)
						w.Kill()
						time.Sleep(c.down)
						w.Begin()
					}
					_, err := world.OutcomeOf(w, wf, "x")
					world.CodeIs(t, err, c.is)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					slices.Sort(got)
					want := c.want
					if c.at == 10*time.Minute && len(got) == 1 {
						// the crash came first: the attempt was not there to see its end
						want = want[1:]
					}
					if !slices.Equal(got, want) {
						t.Errorf("attempts %v, want %v", got, want)
					}
					retries, ends := 0, 0
					for _, e := range w.History("x") {
						switch e.Kind {
						case journal.StepRetrying:
							retries++
						case journal.StepTimedOut:
							ends++
						}
					}
					if retries != 1 || ends != 1 {
						t.Errorf("%d failed attempts that were tried again, %d that were not: %v",
							retries, ends,
							world.Tail(w.History("x"), 9))
					}
				})
			})
		}
	}
}

// journalled reports whether an attempt ended because of its timeout, and not with its engine.
func journalled(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && cause != kernel.ErrUnloaded && ctx.Err() == context.DeadlineExceeded
}

// If the time of a sleep and the timeout of its run come at one instant, or have both passed while
// no engine was there, the run ends once, and the journal records how.
//
// spec: L-19, L-1
func TestTimeoutAndTimerAtOneInstant(t *testing.T) {
	for _, down := range []bool{false, true} {
		world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
			var undone atomic.Int32
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				err := perdure.OnCancel(ctx, "undo", func(context.Context) error {
					undone.Add(1)
					return nil
				})
				if err != nil {
					return 0, err
				}
				return 5, perdure.Sleep(ctx, time.Hour)
			}, perdure.Timeout(time.Hour))
			w := world.With(t, o, wf)
			defer func() { w.End() }()
			world.StartAndSettle(w, wf, 0, perdure.ID("x"))
			if down {
				time.Sleep(time.Minute)
				w.Kill()
				time.Sleep(3 * time.Hour)
				w.Begin()
			}
			out, err := world.OutcomeOf(w, wf, "x")
			_, status := endOf(t, w, "x")
			switch {
			case status == journal.Completed && (out != 5 || err != nil || undone.Load() > 0):
				t.Error(out, err, undone.Load())
			case status == journal.TimedOut && (journal.CodeOf(err) != journal.CodeTimedOut ||
				undone.Load() != 1):
				t.Error(out, err, undone.Load())
			case status != journal.Completed && status != journal.TimedOut ||
				down && status != journal.TimedOut:
				t.Error(status, out, err)
			}
			w.History("x")
		})
	}
}

// spec: L-19, R-12
func TestARunWhoseTimeIsOverWhenItIsClaimedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		executed := 0
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			executed++
			_, err := perdure.NewSignal[int]("never").Wait(ctx)
			return 0, err
		}, perdure.Timeout(time.Hour))
		c := world.NewCluster(t, 0)
		defer c.End()
		a := c.Node(wf)
		a.Options.IdleTimeout = time.Hour // it is claimed, and not due by its timeout alone
		a.Begin()
		if _, err := wf.Start(t.Context(), a.Engine, 1, perdure.ID("run")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.Kill(a)
		time.Sleep(2 * time.Hour)
		before := executed
		b := c.Node(wf)
		b.Begin()
		time.Sleep(time.Second)
		d, err := b.Engine.Describe(t.Context(), "run")
		if err != nil || d.Head.Status != journal.TimedOut {
			t.Errorf("the run is %v, %v", d.Head.Status, err)
		}
		if before != 1 || executed != before {
			t.Errorf("its code was executed %d times, and %d times before its time was over",
				executed, before)
		}
	})
}
