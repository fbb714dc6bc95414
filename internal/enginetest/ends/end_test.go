package ends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// busy begins three steps that last, in an order that their names do not show, and a branch, and
// calls end while they run.
func busy(end func(context.Context) (int, error)) func(context.Context, int) (int, error) {
	return func(ctx context.Context, _ int) (int, error) {
		perdure.Async(ctx, "c", world.Work("c", time.Hour, nil))
		perdure.Go(ctx, "br", func(ctx context.Context) (int, error) {
			return perdure.Step(ctx, "d", world.Work("d", time.Hour, nil))
		})
		perdure.Async(ctx, "a", world.Work("a", time.Hour, nil))
		if _, err := perdure.Step(ctx, "first", world.Work("first", time.Second, nil)); err != nil {
			return 0, err
		}
		perdure.Async(ctx, "b", world.Work("b", time.Hour, nil))
		if _, err := perdure.Step(ctx, "second", world.Work("second", time.Second,
			nil)); err != nil {
			return 0, err
		}
		return end(ctx)
	}
}

// spec: L-12, L-13, L-9, L-10, L-17, L-1
func TestWhatStillRunsIsCancelledFirst(t *testing.T) {
	lasts := func(ctx context.Context) (int, error) {
		return perdure.Step(ctx, "last", world.Work("last", 100*time.Hour, nil))
	}
	cases := []struct {
		name   string
		end    func(context.Context) (int, error)
		opts   []perdure.WorkflowOption
		status journal.Status
		kind   journal.Kind
		reason string
		last   bool // a sequential step runs too
		is     error
	}{
		{
			"return",
			func(context.Context) (int, error) { return 9, nil },
			nil,
			journal.Completed,
			journal.RunCompleted,
			"workflow completed",
			false,
			nil,
		},
		{"error", func(context.Context) (int, error) {
			return 9, world.ErrOdd
		}, nil, journal.Failed, journal.RunFailed, "workflow failed: odd", false, world.ErrOdd},
		{"fail", func(ctx context.Context) (int, error) {
			return 9, perdure.Fail(ctx, world.ErrOdd)
		}, nil, journal.Failed, journal.RunFailed, "workflow failed: odd", false, world.ErrOdd},
		{"swallowed fail", func(ctx context.Context) (int, error) {
			_ = perdure.Fail(ctx, world.ErrOdd)
			return 9, nil
		}, nil, journal.Failed, journal.RunFailed, "workflow failed: odd", false, world.ErrOdd},
		{
			"cancel",
			func(ctx context.Context) (int, error) { return 9, perdure.Cancel(ctx, "enough") },
			nil,
			journal.Cancelled,
			journal.RunCancelled,
			"workflow cancelled: enough",
			false,
			&perdure.Error{Code: journal.CodeCancelled},
		},
		{
			"cancel from outside", lasts, nil, journal.Cancelled, journal.RunCancelled,
			"workflow cancelled: enough", true, &perdure.Error{Code: journal.CodeCancelled},
		},
		{
			"timeout",
			lasts,
			[]perdure.WorkflowOption{perdure.Timeout(time.Minute)},
			journal.TimedOut,
			journal.RunTimedOut,
			"workflow timed out",
			true,
			&perdure.Error{Code: journal.CodeTimedOut},
		},
	}
	for _, crash := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s/crash=%v", c.name, crash), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					wf := perdure.Define("w", busy(c.end), c.opts...)
					w := world.New(t, wf)
					defer func() { w.End() }()
					run, err := wf.Start(context.Background(), w.Engine, 0)
					if err != nil {
						t.Fatal(err)
					}
					if crash {
						time.Sleep(1500 * time.Millisecond)
						w.Crash()
						if run, err = wf.Get(context.Background(), w.Engine, run.ID()); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(10 * time.Second)
					if c.name == "cancel from outside" {
						if err := w.Engine.Cancel(context.Background(), run.ID(),
							"enough"); err != nil {
							t.Fatal(err)
						}
					}
					out, err := run.Result(context.Background())
					if c.is == nil && (out != 9 || err != nil) ||
						c.is != nil && !errors.Is(err, c.is) {
						t.Fatal(out, err)
					}
					entries := w.History(run.ID())
					checkEnd(t, entries, c.kind, c.status, c.reason, c.last)
				})
			})
		}
	}
}

func checkEnd(t *testing.T, entries []journal.Entry, kind journal.Kind, status journal.Status,
	reason string, last bool) {
	t.Helper()
	want := []string{
		"StepCancelled c", "ScopeCancelled br", "StepCancelled a", "StepCancelled d",
		"StepCancelled b",
	}
	if last {
		want = append(want, "StepCancelled last")
	}
	want = append(want, kind.String())
	if got := world.Tail(entries, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for _, e := range entries {
		if e.Kind == journal.StepCancelled && e.Detail.Reason != reason {
			t.Errorf("%v: reason %q, want %q", e.Op, e.Detail.Reason, reason)
		}
	}
	if e := entries[len(entries)-1]; e.Status != status {
		t.Errorf("ended %v, want %v", e.Status, status)
	}
}

// spec: L-9
func TestFailureIsTheErrorItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, wrapped bool) (int, error) {
			if wrapped {
				return 0, fmt.Errorf("order 5: %w", world.ErrOdd)
			}
			return 0, perdure.Fail(ctx, world.ErrOdd)
		})
		w := world.New(t, wf)
		defer w.End()
		for wrapped, message := range map[bool]string{false: "odd", true: "order 5: odd"} {
			run, _, err := world.Result(w, wf, wrapped)
			if err == nil || err.Error() != message || !errors.Is(err, world.ErrOdd) {
				t.Errorf("result: %v", err)
			}
			d, err := w.Engine.Describe(context.Background(), run.ID())
			if err != nil || d.State.Failure.Message != message || d.Head.Status != journal.Failed {
				t.Errorf("recorded: %+v %v", d.State.Failure, err)
			}
		}
	})
}

// spec: L-10
func TestRunThatIsOverRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []error
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			f := perdure.Async(ctx, "f", world.Work("f", time.Hour, nil))
			first := perdure.Cancel(ctx, "stop")
			_, e1 := perdure.Step(ctx, "s", world.Work("s", 0, nil))
			_, e2 := f.Await(ctx)
			_, e3 := perdure.Async(ctx, "g", world.Work("g", 0, nil)).Await(ctx)
			_, e4 := perdure.Go(ctx, "h", func(context.Context) (int, error) { return 0, nil }).
				Await(ctx)
			_, e5 := perdure.Scope(ctx, "i")
			e6 := perdure.Fail(ctx, world.ErrOdd)
			seen = []error{first, e1, e2, e3, e4, e5, e6}
			return 5, nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, _, err := world.Result(w, wf, 0)
		world.CodeIs(t, err, journal.CodeCancelled)
		synctest.Wait()
		for i, e := range seen {
			if e != seen[0] || e == nil {
				t.Errorf("operation %d gave %v, want %v", i, e, seen[0])
			}
		}
		if got := world.Tail(w.History(run.ID()), 3); !slices.Equal(got,
			[]string{"StepStarted f", "StepCancelled f", "RunCancelled"}) {
			t.Error(got)
		}
		if err := w.Engine.Cancel(context.Background(), run.ID(), "again"); err != nil {
			t.Error("cancelling what is cancelled:", err)
		}
		if len(w.History(run.ID())) != 4 {
			t.Error("cancelling twice wrote something")
		}
	})
}

// spec: L-10
func TestCancelOfARunThatEndedNamesItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { return 0, nil })
		w := world.New(t, wf)
		defer w.End()
		run, _, err := world.Result(w, wf, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Engine.Cancel(context.Background(), run.ID(), "late")
		world.CodeIs(t, err, journal.CodeWrongState)
		if !strings.Contains(err.Error(), "COMPLETED") {
			t.Error(err)
		}
		world.CodeIs(t, w.Engine.Cancel(context.Background(), "no-such-run", ""),
			journal.CodeNotFound)
		world.CodeIs(t, w.Engine.Cancel(context.Background(), "no such run", ""),
			journal.CodeInvalid)
	})
}

// spec: L-16
func TestPanicIsRetriedAndKeepsFinishedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		executed, entered := 0, []time.Time{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			entered = append(entered, time.Now())
			v, err := perdure.Step(ctx, "s", func(context.Context) (int, error) {
				executed++
				return executed, nil
			})
			if err != nil {
				return 0, err
			}
			switch len(entered) {
			case 1, 2:
				panic("not yet")
			case 3:
				return 0, perdure.RetryAfter(0, errors.New("still not"))
			}
			return v, nil
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(2 * time.Second)
		d, err := w.Engine.Describe(context.Background(), "x")
		if err != nil || d.Head.Status != journal.Waiting || d.State.Failures != 2 ||
			!strings.Contains(d.State.Failure.Message, "not yet") ||
			d.State.Failure.StackOf() == "" {
			t.Fatalf("%+v %v", d, err)
		}
		w.Crash() // it is retried again after a restart
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Result(context.Background())
		if out != 1 || err != nil || executed != 1 {
			t.Fatal(out, err, executed)
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if got := entered[i+1].Sub(entered[i]); got != want {
				t.Errorf("back-off %d: %v, want %v", i+1, got, want)
			}
		}
		w.History("x")
	})
}

// spec: L-16
func TestPanicsInARowParkTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, fixed := 0, false
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			entered++
			f := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				if !fixed {
					panic("in a branch")
				}
				return 3, nil
			})
			return f.Await(ctx)
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		began := time.Now()
		for d := (perdure.Description{}); d.Head.Status != journal.Suspended; {
			time.Sleep(time.Second)
			var err error
			if d, err = w.Engine.Describe(context.Background(), "x"); err != nil {
				t.Fatal(err)
			}
			if d.Head.Status == journal.Suspended && (d.State.Failures != 10 || entered != 10 ||
				!strings.Contains(d.Why, "in a branch") || d.State.Failure.StackOf() == "") {
				t.Errorf("parked after %d failures: %s", entered, d.Why)
			}
		}
		// 1+2+4+8+16+32+64+128+256 s, none above the cap
		if d := time.Since(began); d < 511*time.Second || d > 513*time.Second {
			t.Errorf("parked after %v", d)
		}
		w.Crash()
		time.Sleep(24 * time.Hour)
		if entered != 10 {
			t.Error("a parked run was executed")
		}
		if err := w.Engine.Resume(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if d, err := w.Engine.Describe(context.Background(), "x"); err != nil ||
			d.Head.Status != journal.Waiting || d.State.Failures < 2 || d.State.Failures > 7 {
			t.Errorf("resumed: %v, %d failures in a row, %v", d.Head.Status, d.State.Failures, err)
		}
		fixed = true
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 3 || err != nil {
			t.Fatal(out, err)
		}
		world.CodeIs(t, w.Engine.Resume(context.Background(), "x"), journal.CodeWrongState)
		w.History("x")
	})
}

// spec: L-14
func TestStepThatIgnoresItsContextDoesNotHoldTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "deaf", func(ctx context.Context) (int, error) {
				<-release
				return 5, nil
			})
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := w.Engine.Cancel(context.Background(), run.ID(), "no"); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(context.Background())
		world.CodeIs(t, err, journal.CodeCancelled)
		n := len(w.History(run.ID()))
		close(release)
		synctest.Wait()
		if len(w.Seen(observe.LateResult)) != 1 || len(w.History(run.ID())) != n {
			t.Error("the late result was not discarded in sight")
		}
	})
}

// spec: L-14
func TestEngineStopsAtItsDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Duration
		wf := perdure.Define("w", func(ctx context.Context, d time.Duration) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				began := time.Now()
				v, err := world.Work("s", d, nil)(ctx)
				ends = append(ends, time.Since(began))
				return v, err
			})
		})
		w := world.New(t, wf)
		for _, d := range []time.Duration{5 * time.Second, time.Hour} {
			world.Start(w, wf, d, perdure.ID(d.String()))
		}
		time.Sleep(time.Second)
		w.End()
		synctest.Wait()
		if !slices.Equal(ends, []time.Duration{5 * time.Second, 11 * time.Second}) {
			t.Error("steps ended after", ends)
		}
		w.Begin() // what was recorded is there, the other step runs again
		short, err := wf.Get(context.Background(), w.Engine, "5s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := short.Result(context.Background()); err != nil || len(ends) > 2 {
			t.Error(err, ends)
		}
		long, err := wf.Get(context.Background(), w.Engine, "1h0m0s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := long.Result(context.Background()); err != nil {
			t.Error(err)
		}
		w.End()
	})
}

// A run that no engine executes can be cancelled, too: its started steps get their records.
//
// spec: L-10, L-13
func TestCancelOfARunThatIsNotInMemory(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func() error
		status journal.Status
	}{
		{"parked", func() error { return perdure.Parking(world.ErrOdd) }, journal.Suspended},
		{"waiting for a replay", func() error { panic("odd") }, journal.Waiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					perdure.Async(ctx, "a", world.Work("a", 1000*time.Hour, nil))
					perdure.Async(ctx, "b", world.Work("b", time.Second, world.ErrOdd),
						perdure.Retry{First: time.Hour})
					if _, err := perdure.Step(ctx, "s", world.Work("s", 10*time.Second,
						nil)); err != nil {
						return 0, err
					}
					return 0, c.end()
				}, perdure.Replays{First: 100 * time.Hour, Cap: 100 * time.Hour})
				w := world.New(t, wf)
				defer w.End()
				run, err := wf.Start(context.Background(), w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if d, err := w.Engine.Describe(context.Background(), run.ID()); err != nil ||
					d.Head.Status != c.status {
					t.Fatal(d.Head.Status, err)
				}
				if err := w.Engine.Cancel(context.Background(), run.ID(), "enough"); err != nil {
					t.Fatal(err)
				}
				_, err = run.Result(context.Background())
				world.CodeIs(t, err, journal.CodeCancelled)
				if got := world.Tail(w.History(run.ID()), 3); !slices.Equal(got,
					[]string{"StepCancelled a", "StepCancelled b", "RunCancelled"}) {
					t.Error(got)
				}
			})
		})
	}
}

// The overall timeout passes while the run waits for the replay of its code.
func TestTimeoutEndsAWaitingRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) { panic("odd") },
			perdure.Replays{First: 100 * time.Hour, Cap: 100 * time.Hour},
			perdure.Timeout(time.Hour))
		w := world.New(t, wf)
		defer w.End()
		began := time.Now()
		run, _, err := world.Result(w, wf, 0)
		world.CodeIs(t, err, journal.CodeTimedOut)
		if d := time.Since(began); d != time.Hour {
			t.Error("timed out after", d)
		}
		w.History(run.ID())
	})
}
