package ends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

var errWrongState = &perdure.Error{Code: journal.CodeWrongState}

// A cancel of a decided run without clean-ups changes nothing: the run still reaches its operator.
//
// spec: F-38
func TestRunThatIsAskedInVainGoesOn(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := pattern.SetStatus(ctx, journal.Confirming); err != nil {
			return 0, err
		}
		_, err := perdure.Park(ctx, "look", "odd")
		return 7, err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		run, err := wf.Start(ctx, w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Minute)
			if err := w.Engine.Cancel(ctx, run.ID(), "enough"); !errors.Is(err, errWrongState) {
				t.Errorf("Cancel gives %v", err)
			}
		}
		world.NoError(t, w.Engine.Decide(ctx, run.ID(), "look", perdure.Decision{Choice: "go on"}))
		if out, err := run.Result(ctx); out != 7 || err != nil {
			t.Errorf("%d %v", out, err)
		}
	}, wf)
}

// A parked run stays parked after such a cancel, and is resumed into the phase that it was in.
//
// spec: F-38
func TestCancelDoesNotUnparkWhatHasDecided(t *testing.T) {
	for _, who := range []string{"its engine", "a message"} {
		t.Run(who, func(t *testing.T) {
			var mu sync.Mutex
			odd := true
			l := world.NewLedger()
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if err := l.Plans(ctx, "undone"); err != nil {
					return 0, err
				}
				if err := pattern.SetStatus(ctx, journal.Confirming); err != nil {
					return 0, err
				}
				if _, err := perdure.Step(ctx, "a", l.Effect("a", 0)); err != nil {
					return 0, err
				}
				mu.Lock()
				defer mu.Unlock()
				if odd {
					panic("odd")
				}
				return perdure.Step(ctx, "b", world.Work("b", time.Minute, nil))
			}, perdure.Replays{Attempts: 1})
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				mu.Lock()
				odd = true
				mu.Unlock()
				l.Did()
				ctx := context.Background()
				run, err := wf.Start(ctx, w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				mu.Lock()
				odd = false
				mu.Unlock()
				if who == "its engine" {
					if err := w.Engine.Cancel(ctx, run.ID(), "enough"); !errors.Is(err,
						errWrongState) {
						t.Errorf("Cancel gives %v", err)
					}
				} else if _, err := w.Engine.Send(ctx, run.ID(), "Cancel", nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if s := w.Status(run.ID()); s != journal.Suspended {
					t.Errorf("it is %v", s)
				}
				world.NoError(t, w.Engine.Resume(ctx, run.ID()))
				time.Sleep(30 * time.Second)
				if s := w.Status(run.ID()); s != journal.Confirming {
					t.Errorf("resumed, it is %v", s)
				}
				if _, err := run.Result(ctx); err != nil {
					t.Error(err)
				}
				if got := l.Did(); !slices.Equal(got, []string{"a"}) {
					t.Errorf("done: %v", got)
				}
				w.History(run.ID())
			}, wf)
		})
	}
}

// A run that is cancelled while its code is about to decide has not decided: nothing that follows
// the decision begins.
//
// spec: F-38
func TestDecisionComesTooLateForARunThatEnds(t *testing.T) {
	for _, s := range []journal.Status{
		journal.Confirming, journal.Canceling, journal.Compensating,
	} {
		world.OverCrashes(t, 3, func() world.Scenario {
			l := world.NewLedger()
			ctx := context.Background()
			var w *world.World
			var once sync.Once
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if err := l.Plans(ctx, "undone"); err != nil {
					return 0, err
				}
				if _, err := perdure.Step(ctx, "try", l.Effect("tried", time.Second)); err != nil {
					return 0, err
				}
				// it holds the turn
				once.Do(func() { _ = w.Current().Cancel(context.Background(), "x", "enough") })
				if err := pattern.SetStatus(ctx, s); err != nil {
					return 0, err
				}
				if _, err := perdure.Step(ctx, "confirm", l.Effect("confirmed", 0)); err != nil {
					return 0, err
				}
				return 0, pattern.End(ctx, journal.Confirmed, 0, nil)
			})
			asked := false
			return world.Scenario{
				Workflows: []perdure.Definition{wf},
				Begin: func(now *world.World) error {
					w = now
					_, err := wf.Start(ctx, w.Engine, 0, perdure.ID("x"))
					return err
				},
				Crashed: func(now *world.World) {
					d, err := now.Engine.History(ctx, "x", 0, 0)
					asked = err == nil && slices.ContainsFunc(d, func(e journal.Entry) bool {
						return e.Kind == journal.RunClosing
					})
				},
				Over: func(w *world.World) bool { return w.Status("x").IsTerminal() },
				Check: func(t *testing.T, w *world.World, crashes int) {
					got, h := l.Did(), w.History("x")
					switch end := w.Status("x"); {
					case end == journal.Confirmed && !asked: // the engine that was asked has died
					case end != journal.Cancelled ||
						!slices.Equal(got, []string{"tried", "undone"}):
						t.Errorf("%v: it is %v, done: %v", s, end, got)
					case slices.ContainsFunc(h, func(e journal.Entry) bool {
						return e.Status == s
					}):
						t.Errorf("%v is recorded: %v", s, world.Tail(h, 10))
					}
				},
			}
		})
	}
}

// spec: F-38, L-10
func TestRunCanBeEndedWhenItsDecisionIsCarriedOut(t *testing.T) {
	for _, how := range []string{"cancel", "timeout", "timeout meanwhile"} {
		t.Run(how, func(t *testing.T) {
			world.OverCrashes(t, 3, func() world.Scenario {
				l := world.NewLedger()
				limit := perdure.Timeout(100 * time.Hour)
				switch how {
				case "timeout":
					limit = perdure.Timeout(time.Hour)
				case "timeout meanwhile":
					limit = perdure.Timeout(time.Minute)
				}
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					if err := pattern.SetStatus(ctx, journal.Confirming); err != nil {
						return 0, err
					}
					if _, err := perdure.Step(ctx, "a", l.Effect("a", 2*time.Minute)); err != nil {
						return 0, err
					}
					if err := pattern.SetStatus(ctx, journal.Running); err != nil {
						return 0, err
					}
					_, err := perdure.Step(ctx, "b", world.Work("b", 1000*time.Hour, nil))
					return 0, err
				}, limit)
				ctx := context.Background()
				want := journal.TimedOut
				if how == "cancel" {
					want = journal.Cancelled
				}
				return world.Scenario{
					Workflows: []perdure.Definition{wf},
					Begin: func(w *world.World) error {
						_, err := wf.Start(ctx, w.Engine, 0, perdure.ID("x"))
						if err != nil || how != "cancel" {
							return err
						}
						time.Sleep(3 * time.Minute)
						return w.Engine.Cancel(ctx, "x", "enough")
					},
					Over: func(w *world.World) bool { return w.Status("x").IsTerminal() },
					Check: func(t *testing.T, w *world.World, crashes int) {
						if s, got := w.Status("x"), l.Did(); s != want ||
							!slices.Equal(got, []string{"a"}) {
							t.Errorf("it is %v, done: %v", s, got)
						}
					},
				}
			})
		})
	}
}

// A wait does not hide the phase that the run's code has set, in the store either.
//
// spec: F-1, F-38
func TestPhaseIsKeptWhileAnOperatorIsWaitedFor(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		b := perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
			d, err := perdure.Park(ctx, "look", "odd")
			return d.Choice, err
		})
		if _, err := perdure.Step(ctx, "a", world.Work("a", time.Minute, nil)); err != nil {
			return 0, err
		}
		if err := pattern.SetStatus(ctx, journal.Confirming); err != nil {
			return 0, err
		}
		_, err := b.Await(ctx)
		return 7, err
	}, perdure.Timeout(time.Hour))
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(10 * time.Minute)
		w.Crash()
		time.Sleep(2 * time.Hour)
		if s := w.Status("x"); s != journal.Suspended {
			t.Errorf("it is %v", s)
		}
		if err := w.Engine.Cancel(ctx, "x", "enough"); !errors.Is(err, errWrongState) {
			t.Errorf("Cancel gives %v", err)
		}
		world.NoError(t, w.Engine.Decide(ctx, "x", "look", perdure.Decision{Choice: "go on"}))
		run, err := wf.Get(ctx, w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(ctx); out != 7 || err != nil {
			t.Errorf("%d %v", out, err)
		}
	}, wf)
}

// trying is a TCC written by hand: its clean-up is not recorded.
func trying(l *world.Ledger) *perdure.Workflow[int, int] {
	return perdure.Define("trying", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
			if _, err := perdure.Step(ctx, "p", l.Effect("cancelled", time.Second),
				perdure.PhaseCancel); err != nil {
				return err
			}
			return pattern.End(ctx, journal.Canceled, 5, pattern.EndingBy(ctx))
		}); err != nil {
			return 0, err
		}
		if _, err := perdure.Step(ctx, "p", l.Effect("tried", time.Second),
			perdure.PhaseTry); err != nil {
			return 0, err
		}
		return 0, perdure.Sleep(ctx, 20*time.Hour)
	}, pattern.TCC, pattern.CleansUp, perdure.Timeout(10*time.Hour))
}

// A run whose clean-up has no record is cleaned up whichever engine is told to end it, and however
// it began.
//
// spec: F-38, L-10
func TestCleanUpWithoutARecordIsDone(t *testing.T) {
	for _, begun := range []string{"here", "by a client", "as a child"} {
		for _, by := range []string{
			"its engine", "one that does not know it", "a client", "its timeout",
		} {
			t.Run(begun+"/"+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := world.NewLedger()
					wf := trying(l)
					parent := perdure.Define("parent", func(ctx context.Context, _ int) (int,
						error) {
						return wf.Child(ctx, 0, perdure.ID("x")).Await(ctx)
					})
					c := world.NewCluster(t, 1, wf, parent)
					defer c.End()
					c.Node(perdure.Define("other", func(context.Context, int) (int, error) {
						return 0, nil
					})).Begin()
					ctx := c.Context()
					client, err := perdure.NewClient(ctx, c.DB.Beside())
					if err != nil {
						t.Fatal(err)
					}
					switch begun {
					case "here":
						_, err = wf.Start(ctx, c.Nodes[0].Engine, 0, perdure.ID("x"))
					case "by a client":
						_, err = wf.Start(ctx, client, 0, perdure.ID("x"))
					default:
						_, err = parent.Start(ctx, c.Nodes[0].Engine, 0)
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					if s := c.Nodes[0].Status("x"); s != journal.Trying {
						t.Errorf("it is %v", s)
					}
					switch by {
					case "its engine":
						err = c.Nodes[0].Engine.Cancel(ctx, "x", "enough")
					case "a client":
						err = client.Cancel(ctx, "x", "enough")
					case "one that does not know it":
						err = c.Nodes[1].Engine.Cancel(ctx, "x", "enough")
					}
					world.NoError(t, err)
					time.Sleep(10 * time.Hour)
					if s, got := c.Nodes[0].Status("x"), l.Did(); s != journal.Canceled ||
						!slices.Equal(got, []string{"tried", "cancelled"}) {
						t.Errorf("it is %v, done: %v", s, got)
					}
					c.Nodes[0].History("x")
				})
			})
		}
	}
}

// An option that is new in another build changes nothing for existing runs.
//
// spec: L-10
func TestCleanUpOutlivesItsOption(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := world.NewLedger()
				plain := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return 0, errors.Join(l.Plans(ctx, "undone"), perdure.Sleep(ctx, time.Hour))
				})
				quiet := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return 0, errors.Join(l.Plans(ctx, "undone"), perdure.Sleep(ctx, time.Hour))
				}, pattern.CleansUp)
				wf, then := plain, quiet
				if before {
					wf, then = then, wf
				}
				w := world.New(t, wf)
				ctx := context.Background()
				world.Start(w, wf, 0, perdure.ID("x"))
				time.Sleep(time.Minute)
				w.Workflows = []perdure.Definition{then}
				w.Crash()
				defer func() { w.End() }()
				time.Sleep(time.Minute)
				world.NoError(t, w.Engine.Cancel(ctx, "x", "enough"))
				time.Sleep(time.Minute)
				if s, got := w.Status("x"), l.Did(); s != journal.Cancelled ||
					!slices.Equal(got, []string{"undone"}) {
					t.Errorf("it is %v, done: %v", s, got)
				}
			})
		})
	}
}

// A clean-up may change how the run ends, except to ContinueAsNew.
//
// spec: L-10
func TestCleanUpMakesAnotherEnd(t *testing.T) {
	cases := map[string]struct {
		end    func(context.Context) error
		status journal.Status
		out    int
		err    string
	}{
		"end": {func(ctx context.Context) error {
			return pattern.End(ctx, journal.Confirmed, 9, nil)
		}, journal.Confirmed, 9, "<nil>"},
		"error": {func(ctx context.Context) error {
			return pattern.End(ctx, journal.Canceled, 9, world.ErrOdd)
		}, journal.Canceled, 0, world.ErrOdd.Error()},
		"fail": {func(ctx context.Context) error {
			return perdure.Fail(ctx, world.ErrOdd)
		}, journal.Failed, 0, world.ErrOdd.Error()},
		"continue": {
			func(ctx context.Context) error { return perdure.ContinueAsNew(ctx, 1) },
			journal.Cancelled,
			0,
			"workflow cancelled: enough",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			world.OverCrashes(t, 4, func() world.Scenario {
				l := world.NewLedger()
				ctx := context.Background()
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					if err := l.Plans(ctx, "first"); err != nil {
						return 0, err
					}
					if err := perdure.OnCancel(ctx, "end", func(ctx context.Context) error {
						_, err := perdure.Step(ctx, "end", l.Effect("end", time.Second))
						if err != nil {
							return err
						}
						return c.end(ctx)
					}); err != nil {
						return 0, err
					}
					return 0, perdure.Sleep(ctx, 100*time.Hour)
				})
				parent := perdure.Define("parent", func(ctx context.Context, _ int) (string,
					error) {
					o, err := wf.Child(ctx, 0, perdure.ID("x")).Outcome(ctx)
					return fmt.Sprintf("%v %v %v", o.Status, o.Output, o.Err), err
				})
				return world.Scenario{
					Workflows: []perdure.Definition{wf, parent},
					Begin: func(w *world.World) error {
						if _, err := parent.Start(ctx, w.Engine, 0,
							perdure.ID("parent")); err != nil {
							return err
						}
						time.Sleep(time.Minute) // it has planned by then
						if err := w.Engine.Cancel(ctx, "x", "enough"); err != nil &&
							!errors.Is(err, errWrongState) {
							return err
						}
						return nil
					},
					Over: func(w *world.World) bool { return w.Status("parent").IsTerminal() },
					Check: func(t *testing.T, w *world.World, crashes int) {
						if s, got := w.Status("x"), l.Did(); s != c.status ||
							!slices.Equal(got, []string{"end", "first"}) {
							t.Errorf("it is %v, done: %v", s, got)
						}
						run, err := parent.Get(ctx, w.Engine, "parent")
						if err != nil {
							t.Fatal(err)
						}
						want := fmt.Sprintf("%v %v %v", c.status, c.out, c.err)
						if got, err := run.Result(ctx); got != want || err != nil {
							t.Errorf("the parent was told %q %v, want %q", got, err, want)
						}
						w.History("x")
					},
				}
			})
		})
	}
}

// The phases of one step have one idempotency key, and one name of that step: in the code, on
// replay, and in a clean-up, whose scope stands for the step's.
//
// spec: F-38, F-43
func TestPhaseIsOneThingAlsoInACleanUp(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		t.Run(fmt.Sprint(quiet), func(t *testing.T) {
			var mu sync.Mutex
			keys, ofs, steps := map[string]int{}, map[string]int{}, map[string]int{}
			body := func(ctx context.Context) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				s, _ := perdure.StepOf(ctx)
				keys[string(s.Run.ID)+"|"+perdure.IdempotencyKey(ctx)]++
				ofs[s.Of]++
				steps[s.Step]++
				return 0, nil
			}
			both := func(ctx context.Context) error {
				for range 2 {
					for _, phase := range []perdure.Phase{perdure.PhaseTry, perdure.PhaseCancel} {
						if _, err := perdure.Step(ctx, "p", body, phase,
							perdure.Key("k")); err != nil {
							return err
						}
					}
				}
				return nil
			}
			var of context.Context
			nested := func(ctx context.Context, opts ...perdure.BranchOption) error {
				if err := both(ctx); err != nil {
					return err
				}
				in, err := perdure.Scope(ctx, "in", append(opts, perdure.Key("k"))...)
				if err != nil {
					return err
				}
				of = in
				return both(in)
			}
			var opts []perdure.WorkflowOption
			if quiet {
				opts = append(opts, pattern.CleansUp)
			}
			wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
					return nested(ctx, pattern.StandsFor(of))
				}); err != nil {
					return 0, err
				}
				if err := nested(ctx); err != nil {
					return 0, err
				}
				return 0, perdure.Sleep(ctx, time.Hour)
			}, opts...)
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				clear(keys)
				clear(ofs)
				clear(steps)
				run, err := wf.Start(context.Background(), w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				world.NoError(t, w.Engine.Cancel(context.Background(), run.ID(), "enough"))
				time.Sleep(time.Minute)
				synctest.Wait()
				id := run.RunID()
				want := map[string]int{}
				for _, path := range []string{
					"try:p[k]", "cancel:p[k]", "in[k]/try:p[k]", "in[k]/cancel:p[k]",
				} {
					want[id+"|"+id+"/"+path] = 4
				}
				if fmt.Sprint(keys) != fmt.Sprint(want) {
					t.Errorf("keys: %v\nwant: %v", keys, want)
				}
				if want := (map[string]int{
					"p[k]":       8,
					"in[k]/p[k]": 8,
				}); fmt.Sprint(ofs) != fmt.Sprint(want) {
					t.Errorf("of: %v", ofs)
				}
				if len(steps) != 16 {
					t.Errorf("steps: %v", steps)
				}
				w.History(run.ID())
			}, wf)
		})
	}
}
