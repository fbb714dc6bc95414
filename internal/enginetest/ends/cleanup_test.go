package ends

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
)

// spec: L-10, L-12, L-19
func TestCleanUpsRunLastPlannedFirst(t *testing.T) {
	cases := []struct {
		how    string
		status journal.Status
		all    bool
	}{
		{"returns", journal.Completed, false}, {"fails", journal.Failed, false},
		{"error", journal.Failed, false},
		{"cancels", journal.Cancelled, true}, {"is cancelled", journal.Cancelled, true},
		{"is asked", journal.Cancelled, true},
		{"times out", journal.TimedOut, true}, {"confirmed", journal.Confirmed, false},
		{"compensated", journal.Compensated, false},
	}
	for _, c := range cases {
		t.Run(c.how, func(t *testing.T) {
			l := world.NewLedger()
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				if err := l.Plans(ctx, "a", "f1", "b"); err != nil {
					return "", err
				}
				perdure.Async(ctx, "beside", world.Work("beside", 10*time.Hour, nil))
				b := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
					return 0, errors.Join(l.Plans(ctx, "c", "f2"), perdure.Sleep(ctx, 10*time.Hour))
				})
				if _, err := perdure.Step(ctx, "s", l.Effect("body", time.Minute)); err != nil {
					return "", err
				}
				switch c.how {
				case "returns":
					return "out", nil
				case "error":
					return "out", world.ErrOdd
				case "fails":
					return "out", perdure.Fail(ctx, world.ErrOdd)
				case "cancels":
					return "out", perdure.Cancel(ctx, "enough")
				case "confirmed":
					return "not this", pattern.End(ctx, journal.Confirmed, "out", nil)
				case "compensated":
					return "not this", pattern.End(ctx, journal.Compensated, "out", world.ErrOdd)
				}
				_, err := b.Await(ctx)
				return "not this", err
			}, perdure.Timeout(time.Hour))
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				ctx := context.Background()
				run, err := wf.Start(ctx, w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				switch c.how {
				case "is cancelled":
					err = w.Engine.Cancel(ctx, run.ID(), "enough")
				case "is asked":
					_, err = w.Engine.Send(ctx, run.ID(), "Cancel", nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				out, err := run.Result(ctx)
				if success := c.status.IsSuccess(); success != (err == nil) ||
					success != (out == "out") {
					t.Errorf("%q %v", out, err)
				}
				want := []string{"body", "f2", "c", "f1"} // the branch is cancelled
				if c.all {
					want = []string{"body", "f2", "c", "b", "f1", "a"}
				}
				if got := l.Did(); !slices.Equal(got, want) {
					t.Errorf("done: %v, want %v", got, want)
				}
				if s := w.Status(run.ID()); s != c.status {
					t.Errorf("it is %v, want %v", s, c.status)
				}
				entries := w.History(run.ID())
				first := slices.IndexFunc(entries, func(e journal.Entry) bool {
					return e.Kind == journal.StepCancelled
				})
				if names := world.Tail(entries[first:first+2],
					2); names[0] != "StepCancelled beside" ||
					names[1] != "ScopeCancelled branch" {
					t.Errorf("cancelled: %v", names)
				}
				for _, e := range entries[:first] {
					if e.Kind == journal.StepCompleted && e.Op.Scope != 0 {
						t.Errorf("%v is done before what runs is cancelled", e.Op)
					}
				}
			}, wf)
		})
	}
}

// spec: L-10
func TestRunThatCleansUpRecordsNothingElse(t *testing.T) {
	sig := perdure.NewSignal[int]("sig")
	child := perdure.Define("child", func(context.Context, int) (int, error) { return 0, nil })
	operations := map[string]func(context.Context) error{
		"step": func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "x", world.Work("x", 0, nil))
			return err
		},
		"async": func(ctx context.Context) error {
			_, err := perdure.Async(ctx, "x", world.Work("x", 0, nil)).Await(ctx)
			return err
		},
		"go": func(ctx context.Context) error {
			_, err := perdure.Go(ctx, "x", func(context.Context) (int, error) { return 0, nil }).
				Await(ctx)
			return err
		},
		"scope": func(ctx context.Context) error {
			_, err := perdure.Scope(ctx, "x")
			return err
		},
		"sleep":   func(ctx context.Context) error { return perdure.Sleep(ctx, time.Second) },
		"sleep 0": func(ctx context.Context) error { return perdure.Sleep(ctx, 0) },
		"timer": func(ctx context.Context) error {
			_, err := perdure.Timer(ctx, "x", 1).Await(ctx)
			return err
		},
		"signal": func(ctx context.Context) error { _, err := sig.Wait(ctx); return err },
		"child": func(ctx context.Context) error {
			_, err := child.Child(ctx, 0).Await(ctx)
			return err
		},
		"outcome": func(ctx context.Context) error {
			_, err := child.Child(ctx, 0).Outcome(ctx)
			return err
		},
		"value":   func(ctx context.Context) error { _, err := perdure.Now(ctx); return err },
		"payload": func(ctx context.Context) error { return perdure.SetPayload(ctx, 1) },
		"publish": func(ctx context.Context) error { return perdure.Publish(ctx, "x", 1) },
		"status": func(ctx context.Context) error {
			return pattern.SetStatus(ctx, journal.Trying)
		},
		"attr": func(ctx context.Context) error { return perdure.SetAttribute(ctx, "x", "1") },
		"version": func(ctx context.Context) error {
			_, err := perdure.Version(ctx, "x", 1)
			return err
		},
		"park": func(ctx context.Context) error {
			_, err := perdure.Park(ctx, "x", "")
			return err
		},
		"record": func(ctx context.Context) error {
			return pattern.Record(ctx, pattern.Fact{Kind: journal.StepSkipped, Name: "x"})
		},
		"plan": func(ctx context.Context) error {
			return perdure.Finally(ctx, "x", func(context.Context) error { return nil })
		},
		"fail":   func(ctx context.Context) error { return perdure.Fail(ctx, world.ErrOdd) },
		"cancel": func(ctx context.Context) error { return perdure.Cancel(ctx, "x") },
		"end": func(ctx context.Context) error {
			return pattern.End(ctx, journal.Confirmed, 1, nil)
		},
		"continue": func(ctx context.Context) error { return perdure.ContinueAsNew(ctx, 1) },
		"any": func(ctx context.Context) error {
			_, err := perdure.Any[int](ctx, nil)
			return err
		},
	}
	ends := map[string]func(context.Context) error{
		"fail":   func(ctx context.Context) error { return perdure.Fail(ctx, world.ErrOdd) },
		"cancel": func(ctx context.Context) error { return perdure.Cancel(ctx, "enough") },
		"end": func(ctx context.Context) error {
			return pattern.End(ctx, journal.Canceled, 1, nil)
		},
	}
	for end, call := range ends {
		for _, cleansUp := range []bool{false, true} {
			for _, place := range []string{"root", "branch", "scope", "deferred"} {
				t.Run(fmt.Sprintf("%s/%s/clean-up=%v", end, place, cleansUp), func(t *testing.T) {
					var wrong []string
					try := func(ctx context.Context) error {
						first := call(ctx)
						for name, operation := range operations {
							if err := operation(ctx); err != first || first == nil {
								wrong = append(wrong, fmt.Sprintf("%s gives %v, not %v", name, err,
									first))
							}
						}
						return nil
					}
					wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
						if cleansUp {
							if err := perdure.Finally(ctx, "f", func(ctx context.Context) error {
								return perdure.Sleep(ctx, time.Minute)
							}); err != nil {
								return 0, err
							}
						}
						switch place {
						case "branch":
							return perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
								return 1, try(ctx)
							}).Await(ctx)
						case "scope":
							in, err := perdure.Scope(ctx, "in")
							if err != nil {
								return 0, err
							}
							return 9, try(in)
						case "deferred":
							defer func() { _ = try(ctx) }()
							return 9, nil
						}
						return 9, try(ctx)
					})
					synctest.Test(t, func(t *testing.T) {
						w := world.New(t, wf, child)
						defer w.End()
						run, _, _ := world.Result(w, wf, 0)
						for _, bad := range wrong {
							t.Error(bad)
						}
						for _, e := range w.History(run.ID()) {
							if e.Op.Name == "x" {
								t.Errorf("%v %v is recorded", e.Kind, e.Op)
							}
						}
					})
				})
			}
		}
	}
}

// thorough is a workflow whose clean-ups do everything that workflow code may do.
func thorough(l *world.Ledger) *perdure.Workflow[int, int] {
	ready := perdure.NewSignal[int]("ready")
	return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.Finally(ctx, "close", func(ctx context.Context) error {
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			_, err := perdure.Step(ctx, "s", l.Effect("closed", time.Second))
			return err
		}); err != nil {
			return 0, err
		}
		if _, err := perdure.Step(ctx, "s", l.Effect("opened", time.Second)); err != nil {
			return 0, err
		}
		if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
			b := perdure.Go(ctx, "s", func(ctx context.Context) (int, error) {
				_, err := perdure.Step(ctx, "s", l.Effect("undone in a branch", time.Second),
					pattern.Announced)
				return 0, err
			})
			n, err := ready.Wait(ctx, perdure.Within(time.Hour))
			if err != nil {
				return err
			}
			if _, err := perdure.Step(ctx, "s",
				l.Effect(fmt.Sprint("undone ", n), time.Second)); err != nil {
				return err
			}
			if _, err := b.Await(ctx); err != nil {
				return err
			}
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			perdure.Async(ctx, "beside", world.Work("beside", time.Hour, nil))
			_, err = perdure.Step(ctx, "last", l.Effect("undone at last", time.Second))
			return err
		}); err != nil {
			return 0, err
		}
		return 0, perdure.Sleep(ctx, 100*time.Hour)
	}, perdure.Timeout(5*time.Minute))
}

// spec: L-10, L-12, L-13
func TestCleanUpGoesOnAfterACrash(t *testing.T) {
	for _, how := range []string{"engine", "message", "timeout"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			world.OverCrashes(t, 8, func() world.Scenario {
				l := world.NewLedger()
				wf := thorough(l)
				ctx := context.Background()
				want := journal.Cancelled
				if how == "timeout" {
					want = journal.TimedOut
				}
				return world.Scenario{
					Workflows: []perdure.Definition{wf},
					Begin: func(w *world.World) error {
						_, err := wf.Start(ctx, w.Engine, 0, perdure.ID("x"))
						if err != nil {
							return err
						}
						time.Sleep(time.Minute)
						switch how {
						case "engine":
							err = w.Engine.Cancel(ctx, "x", "enough")
						case "message":
							_, err = w.Engine.Send(ctx, "x", "Cancel", nil, perdure.SendKey("one"))
						}
						if err == nil {
							_, err = w.Engine.Send(ctx, "x", "ready", []byte("5"),
								perdure.SendKey("ready"))
						}
						return err
					},
					Over: func(w *world.World) bool { return w.Status("x").IsTerminal() },
					Check: func(t *testing.T, w *world.World, crashes int) {
						for key, n := range l.Calls() {
							if n > 1+crashes {
								t.Errorf("%s was made %d times", key, n)
							}
						}
						got := l.Did()
						if len(got) == 5 && got[1] == "undone 5" { // beside the branch
							got[1], got[2] = got[2], got[1]
						}
						if want := []string{
							"opened", "undone in a branch", "undone 5", "undone at last", "closed",
						}; !slices.Equal(got, want) {
							t.Errorf("done: %v", got)
						}
						if s := w.Status("x"); s != want {
							t.Errorf("it is %v", s)
						}
						entries := w.History("x")
						if got := world.Tail(entries, 2); got[0] != "StepCancelled beside" {
							t.Errorf("it ends %v", got)
						}
					},
				}
			})
		})
	}
}

// spec: L-10, L-16
func TestCleanUpThatFailsKeepsNoOtherFromRunning(t *testing.T) {
	l := world.NewLedger()
	var panics atomic.Int32
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := l.Plans(ctx, "a"); err != nil {
			return 0, err
		}
		if err := perdure.Finally(ctx, "panics", func(ctx context.Context) error {
			if _, err := perdure.Step(ctx, "s", l.Effect("before", time.Second)); err != nil {
				return err
			}
			if panics.Add(1) < 3 {
				panic("not yet")
			}
			_, err := perdure.Step(ctx, "t", l.Effect("after", time.Second))
			return err
		}); err != nil {
			return 0, err
		}
		if err := l.Plans(ctx, "b"); err != nil {
			return 0, err
		}
		if err := perdure.OnCancel(ctx, "fails", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "s", world.Work("s", 0, world.ErrOdd),
				perdure.Retry{Attempts: 2, First: time.Second})
			return err
		}); err != nil {
			return 0, err
		}
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		panics.Store(0)
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := w.Engine.Cancel(context.Background(), run.ID(), "enough"); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(context.Background())
		world.CodeIs(t, err, journal.CodeCancelled)
		synctest.Wait()
		if calls := l.Calls(); len(calls) != 4 {
			t.Errorf("calls: %v", calls)
		}
		if got := l.Did(); !slices.Equal(got, []string{"b", "before", "after", "a"}) {
			t.Errorf("done: %v", got)
		}
		failed := w.Seen(observe.CleanupFailed)
		if len(failed) == 0 || failed[0].Step != "fails" || failed[0].Err != "odd" ||
			failed[0].Run != run.RunID() {
			t.Errorf("told: %+v", failed)
		}
		w.History(run.ID())
	}, wf)
}

// spec: L-10
func TestCancelDuringACleanUp(t *testing.T) {
	l := world.NewLedger()
	wf := perdure.Define("w", func(ctx context.Context, how string) (int, error) {
		if err := perdure.Finally(ctx, "slow", func(ctx context.Context) error {
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return err
			}
			_, err := perdure.Step(ctx, "s", l.Effect("cleaned", time.Second))
			return err
		}); err != nil {
			return 0, err
		}
		switch how {
		case "returns":
			return 1, nil
		case "fails":
			return 0, world.ErrOdd
		}
		return 0, perdure.Sleep(ctx, 100*time.Hour)
	})
	for how, status := range map[string]journal.Status{
		"returns":   journal.Completed,
		"fails":     journal.Failed,
		"cancelled": journal.Cancelled,
	} {
		t.Run(how, func(t *testing.T) {
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				ctx := context.Background()
				run, err := wf.Start(ctx, w.Engine, how)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if how == "cancelled" {
					if err := w.Engine.Cancel(ctx, run.ID(), "first"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				err = w.Engine.Cancel(ctx, run.ID(), "second")
				if how == "cancelled" {
					if err != nil {
						t.Error("cancelling what is being cancelled:", err)
					}
				} else {
					world.CodeIs(t, err, journal.CodeWrongState)
					if err != nil && !strings.Contains(err.Error(), status.String()) {
						t.Error(err)
					}
				}
				if _, err := w.Engine.Send(ctx, run.ID(), "Cancel", nil); err != nil {
					t.Error(err)
				}
				_, err = run.Result(ctx)
				if how == "cancelled" &&
					(err == nil || err.Error() != "workflow cancelled: first") {
					t.Error(err)
				}
				if s := w.Status(run.ID()); s != status {
					t.Errorf("it is %v, want %v", s, status)
				}
				if got := l.Did(); !slices.Equal(got, []string{"cleaned"}) {
					t.Errorf("done: %v", got)
				}
				w.History(run.ID())
			}, wf)
		})
	}
}

// spec: L-10, F-21
func TestSuspendDuringACleanUpHoldsIt(t *testing.T) {
	for _, how := range []string{"returns", "cancelled", "times out"} {
		t.Run(how, func(t *testing.T) {
			l := world.NewLedger()
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if err := perdure.Finally(ctx, "slow", func(ctx context.Context) error {
					if _, err := perdure.Step(ctx, "s", l.Effect("one", time.Second)); err != nil {
						return err
					}
					if err := perdure.Sleep(ctx, time.Minute); err != nil {
						return err
					}
					_, err := perdure.Step(ctx, "s", l.Effect("two", time.Second))
					return err
				}); err != nil {
					return 0, err
				}
				if how == "returns" {
					return 1, nil
				}
				return 0, perdure.Sleep(ctx, 100*time.Hour)
			}, perdure.Timeout(10*time.Minute))
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				ctx := context.Background()
				run, err := wf.Start(ctx, w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				switch how {
				case "cancelled":
					time.Sleep(time.Minute)
					if err := w.Engine.Cancel(ctx, run.ID(), "enough"); err != nil {
						t.Fatal(err)
					}
				case "times out":
					time.Sleep(10 * time.Minute)
				}
				time.Sleep(30 * time.Second)
				if err := w.Engine.Suspend(ctx, run.ID(), "look"); err != nil {
					t.Fatal(err)
				}
				// it ends already
				if _, err := w.Engine.Send(ctx, run.ID(), "Cancel", nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				if s, got := w.Status(run.ID()), l.Did(); s != journal.Suspended ||
					!slices.Equal(got, []string{"one"}) {
					t.Errorf("while it is suspended it is %v and has done %v", s, got)
				}
				if err := w.Engine.Resume(ctx, run.ID()); err != nil {
					t.Fatal(err)
				}
				_, err = run.Result(ctx)
				want := map[string]journal.Status{
					"returns":   journal.Completed,
					"cancelled": journal.Cancelled,
					"times out": journal.TimedOut,
				}[how]
				if s := w.Status(run.ID()); s != want {
					t.Errorf("it is %v: %v", s, err)
				}
				if got := l.Did(); !slices.Equal(got, []string{"two"}) {
					t.Errorf("done: %v", got)
				}
				w.History(run.ID())
			}, wf)
		})
	}
}

// spec: L-19
func TestTimeoutThatPassesDuringACleanUpChangesNothing(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.Finally(ctx, "slow", func(ctx context.Context) error {
			return perdure.Sleep(ctx, time.Hour)
		}); err != nil {
			return 0, err
		}
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		return 7, nil
	}, perdure.Timeout(10*time.Minute))
	for _, crash := range []bool{false, true} {
		world.InBothModes(t, func(t *testing.T, w *world.World) {
			_, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
			if err != nil {
				t.Fatal(err)
			}
			if crash {
				time.Sleep(20 * time.Minute)
				w.Crash()
			}
			run, err := wf.Get(context.Background(), w.Engine, "x")
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run.Result(context.Background()); out != 7 || err != nil {
				t.Error(out, err)
			}
		}, wf)
	}
}

// spec: L-10
func TestCleanUpOfARunThatWasParked(t *testing.T) {
	l := world.NewLedger()
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		if err := l.Plans(ctx, "a"); err != nil {
			return 0, err
		}
		return 0, perdure.Sleep(ctx, 100*time.Hour)
	}, perdure.Timeout(10*time.Hour))
	for _, planned := range []bool{false, true} {
		for _, how := range []string{"engine", "client", "timeout"} {
			t.Run(fmt.Sprintf("%s/planned=%v", how, planned), func(t *testing.T) {
				world.InBothModes(t, func(t *testing.T, w *world.World) {
					ctx := context.Background()
					run, err := wf.Start(ctx, w.Engine, 0)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(30 * time.Second)
					if planned {
						time.Sleep(time.Minute)
					}
					if err := w.Engine.Suspend(ctx, run.ID(), "look"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					want := journal.Cancelled
					switch how {
					case "engine":
						err = w.Engine.Cancel(ctx, run.ID(), "enough")
					case "client":
						var c *perdure.Client
						if c, err = perdure.NewClient(ctx, w.DB); err == nil {
							err = c.Cancel(ctx, run.ID(), "enough")
						}
					case "timeout":
						want = journal.TimedOut
					}
					if err != nil {
						t.Fatal(err)
					}
					_, err = run.Result(ctx)
					if s := w.Status(run.ID()); s != want {
						t.Errorf("it is %v: %v", s, err)
					}
					if got := l.Did(); planned != slices.Equal(got, []string{"a"}) {
						t.Errorf("done: %v", got)
					}
					w.History(run.ID())
				}, wf)
			})
		}
	}
}

// spec: L-10, R-23, L-8
func TestCleanUpMayDoWhatWorkflowCodeMay(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		return n, perdure.Sleep(ctx, time.Minute)
	})
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		mine := child.Child(ctx, 1)
		if err := perdure.OnCancel(ctx, "ask", func(ctx context.Context) error {
			refund, err := child.Child(ctx, 2).Await(ctx)
			if err != nil {
				return err
			}
			d, err := perdure.Park(ctx, "refund", "how much", "all", "none")
			if err != nil {
				return err
			}
			_, err = perdure.Timer(ctx, "later", time.Hour).Await(ctx)
			v, ve := perdure.Version(ctx, "new", 3)
			return errors.Join(err, ve,
				perdure.Publish(ctx, "refund", fmt.Sprint(d.Choice, refund, v)),
				perdure.SetAttribute(ctx, "refunded", "yes"),
				perdure.SetPayload(ctx, "last"))
		}); err != nil {
			return 0, err
		}
		_, err := mine.Await(ctx)
		return 0, errors.Join(err, perdure.Sleep(ctx, 100*time.Hour))
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		run, err := wf.Start(ctx, w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if err := w.Engine.Cancel(ctx, "x", "enough"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if s := w.Status("x"); s != journal.Suspended {
			t.Errorf("it waits for a decision and is %v", s)
		}
		w.Crash()
		if err := w.Engine.Decide(ctx, "x", "refund", perdure.Decision{Choice: "all"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if run, err = wf.Get(ctx, w.Engine, run.ID()); err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(ctx)
		world.CodeIs(t, err, journal.CodeCancelled)
		d, err := w.Engine.Describe(ctx, "x")
		if err != nil || string(d.State.Published["refund"].Data) != `"all2 3"` ||
			d.State.Attributes["refunded"] != "yes" || string(d.State.Payload) != `"last"` {
			t.Errorf("%s %v %s %v", d.State.Published["refund"].Data, d.State.Attributes,
				d.State.Payload, err)
		}
		heads := w.Children("x")
		if len(heads) != 2 || heads[0].Status != journal.Cancelled ||
			heads[1].Status != journal.Completed {
			t.Errorf("children: %+v", heads)
		}
		w.History("x")
	}, wf, child)
}

// A branch that was begun inside another one, in a context made by the author, ends with that one
// and not with the run.
//
// spec: L-11
func TestWhatABoundedBranchEnclosesEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		began := time.Now()
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			short, stop := context.WithTimeout(ctx, 10*time.Hour)
			defer stop()
			f := perdure.Go(short, "b", func(ctx context.Context) (int, error) {
				return 0, pattern.Enclose(ctx, "e", func(ctx context.Context) error {
					context.AfterFunc(ctx, func() { ended <- time.Now() })
					return perdure.Sleep(ctx, 5*time.Hour)
				})
			})
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			if _, err := f.Cancel(ctx, "enough"); err != nil {
				return 0, err
			}
			// which keeps the run in memory
			return perdure.Step(ctx, "long", world.Work("s", 4*time.Hour, nil))
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		select {
		case at := <-ended:
			if at.Sub(began) > 2*time.Minute {
				t.Errorf("it ends after %v", at.Sub(began))
			}
		case <-time.After(3 * time.Hour):
			t.Error("it does not end")
		}
	})
}

// Code that panics while its run is to end is called again: nothing of the activation before is
// left.
//
// spec: L-16
func TestCodeThatPanicsWhileItsRunIsToEndLeavesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world.World
		calls, l := 0, world.NewLedger()
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			if err := l.Plans(ctx, "a"); err != nil {
				return "", err
			}
			beside := perdure.Go(ctx, "beside", func(ctx context.Context) (int, error) {
				<-ctx.Done() // its turn is lent
				return 0, context.Cause(ctx)
			})
			if _, err := perdure.Step(ctx, "s", world.Work("s", time.Second, nil)); err != nil {
				return "", err
			}
			if calls++; calls == 1 {
				go func() {
					world.NoError(t, w.Current().Cancel(context.Background(), "one", ""))
				}()
				for !slices.ContainsFunc(w.History("one"), func(e journal.Entry) bool {
					return e.Kind == journal.RunClosing
				}) {
					runtime.Gosched() // it keeps the turn
				}
				panic("boom")
			}
			_, err := beside.Await(ctx)
			return "", err
		})
		w = world.New(t, wf)
		run := world.StartAndSettle(w, wf, 0, perdure.ID("one"))
		world.Pause(t.Context(), time.Hour)
		d, err := w.Engine.Describe(t.Context(), run.RunID())
		if err != nil || d.Head.Status != journal.Cancelled || calls != 2 {
			t.Errorf("%v after %d calls; %v", d.Head.Status, calls, err)
		}
		w.End() // a goroutine that is left would be reported
	})
}
