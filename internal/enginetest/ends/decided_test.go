package ends

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// decides is a workflow that tries, decides to confirm, confirms, waits for an operator's decision
// and confirms again. Whatever is called off is undone.
func decides(l *world.Ledger, opts ...perdure.WorkflowOption) *perdure.Workflow[int, string] {
	return perdure.Define("decides", func(ctx context.Context, _ int) (string, error) {
		if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "undo", l.Effect("undone", time.Second))
			return err
		}); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "try", l.Effect("tried", time.Minute)); err != nil {
			return "", err
		}
		if err := pattern.SetStatus(ctx, journal.Confirming); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "first", l.Effect("first", time.Minute)); err != nil {
			return "", err
		}
		if _, err := perdure.Park(ctx, "look", "odd", "go on"); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "second", l.Effect("second", time.Minute)); err != nil {
			return "", err
		}
		return "", pattern.End(ctx, journal.Confirmed, "out", nil)
	}, opts...)
}

var confirmed = []string{"tried", "first", "second"}

// moments are the moments at which a run of decides can be told to end, from its start.
var moments = map[string]time.Duration{
	"confirming": 90 * time.Second, "looked at": 10 * time.Minute, "confirming again": time.Hour +
		30*time.Second,
}

// spec: F-38, L-12
func TestNobodyEndsARunThatHasDecided(t *testing.T) {
	wrongState := &perdure.Error{Code: journal.CodeWrongState}
	asks := map[string]func(c *world.Cluster, id string) (err, want error){
		"its engine": func(c *world.Cluster, id string) (error, error) {
			return c.Nodes[0].Engine.Cancel(c.Context(), id, "enough"), wrongState
		},
		"another engine": func(c *world.Cluster, id string) (error, error) {
			return c.Nodes[1].Engine.Cancel(c.Context(), id, "enough"), wrongState
		},
		"an engine that does not know it": func(c *world.Cluster, id string) (error, error) {
			return c.Nodes[2].Engine.Cancel(c.Context(), id, "enough"), wrongState
		},
		"a client": func(c *world.Cluster, id string) (error, error) {
			client, err := perdure.NewClient(c.Context(), c.DB.Beside())
			if err != nil {
				return err, nil
			}
			return client.Cancel(c.Context(), id, "enough"), wrongState
		},
		"a signal": func(c *world.Cluster, id string) (error, error) {
			_, err := c.Nodes[1].Engine.Send(c.Context(), id, "Cancel", nil)
			return err, nil
		},
		"its timeout": func(*world.Cluster, string) (error, error) { return nil, nil },
	}
	for who, ask := range asks {
		for when, at := range moments {
			t.Run(who+"/"+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := world.NewLedger()
					limit := perdure.Timeout(100 * time.Hour)
					if who == "its timeout" {
						limit = perdure.Timeout(at)
					}
					wf := decides(l, limit)
					c := world.NewCluster(t, 1, wf)
					defer c.End()
					c.Node(wf).Begin()
					c.Node(perdure.Define("other", func(context.Context, int) (int, error) {
						return 0, nil
					})).Begin()
					run, err := wf.Start(c.Context(), c.Nodes[0].Engine, 0, perdure.ID("x"))
					if err != nil {
						t.Fatal(err)
					}
					decide := func() {
						if err := c.Nodes[0].Engine.Decide(c.Context(), "x", "look",
							perdure.Decision{Choice: "go on"}); err != nil {
							t.Fatal(err)
						}
					}
					if at > time.Hour {
						time.Sleep(time.Hour)
						decide()
						time.Sleep(at - time.Hour)
					} else {
						time.Sleep(at)
					}
					err, want := ask(c, "x")
					if !errors.Is(err, want) && err != want {
						t.Errorf("asked, it gives %v, want %v", err, want)
					}
					if at < time.Hour {
						time.Sleep(time.Hour)
						if s := c.Nodes[0].Status("x"); s != journal.Suspended {
							t.Errorf("it is %v", s)
						}
						decide()
					}
					if out, err := run.Result(c.Context()); out != "out" || err != nil {
						t.Errorf("%q %v", out, err)
					}
					if got := l.Did(); !slices.Equal(got, confirmed) {
						t.Errorf("done: %v", got)
					}
					c.Nodes[0].History("x")
				})
			})
		}
	}
}

// spec: F-38
func TestParentDoesNotEndAChildThatHasDecided(t *testing.T) {
	for when, at := range moments {
		t.Run(when, func(t *testing.T) {
			l := world.NewLedger()
			wf := decides(l)
			parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
				return wf.Child(ctx, 0, perdure.ID("x")).Await(ctx)
			})
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				ctx := context.Background()
				run, err := parent.Start(ctx, w.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				decide := func() {
					world.NoError(
						t, w.Engine.Decide(ctx, "x", "look", perdure.Decision{Choice: "go on"}))
				}
				if at > time.Hour {
					time.Sleep(time.Hour)
					decide()
					time.Sleep(at - time.Hour)
				} else {
					time.Sleep(at)
				}
				world.NoError(t, w.Engine.Cancel(ctx, run.ID(), "enough"))
				time.Sleep(time.Hour)
				if at < time.Hour {
					decide()
				}
				time.Sleep(time.Hour)
				if s := w.Status("x"); s != journal.Confirmed {
					t.Errorf("the child is %v", s)
				}
				if got := l.Did(); !slices.Equal(got, confirmed) {
					t.Errorf("done: %v", got)
				}
			}, wf, parent)
		})
	}
}

// A decision holds after a crash, too, whoever cancels then, and whatever has passed.
//
// spec: F-38, L-12
func TestDecisionOutlastsEveryCrash(t *testing.T) {
	for _, how := range []string{"cancel", "message", "timeout"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			world.OverCrashes(t, 4, func() world.Scenario {
				l := world.NewLedger()
				limit, down := perdure.Timeout(100*time.Hour), time.Duration(0)
				if how == "timeout" {
					limit, down = perdure.Timeout(10*time.Minute), time.Hour
				}
				wf := decides(l, limit)
				ctx := context.Background()
				decided := false // as the store says, after the crash
				return world.Scenario{
					Workflows: []perdure.Definition{wf},
					Begin: func(w *world.World) error {
						if _, err := wf.Start(ctx, w.Engine, 0, perdure.ID("x")); err != nil {
							return err
						}
						if w.Status("x").IsTerminal() {
							return nil
						}
						if h, err := w.Engine.History(ctx, "x", 0, 0); err != nil ||
							!slices.ContainsFunc(h, confirming) {
							return errors.Join(err, errors.New("it has not decided"))
						}
						switch decided = true; how {
						case "cancel":
							if err := w.Engine.Cancel(ctx, "x", "enough"); !errors.Is(err,
								&perdure.Error{Code: journal.CodeWrongState}) {
								return errors.Join(err, errors.New("it takes a cancel"))
							}
						case "message":
							if _, err := w.Engine.Send(ctx, "x", "Cancel", nil,
								perdure.SendKey("one")); err != nil {
								return err
							}
						}
						return w.Engine.Decide(ctx, "x", "look", perdure.Decision{Choice: "go on"})
					},
					Crashed: func(*world.World) { time.Sleep(down) },
					Over:    func(w *world.World) bool { return w.Status("x").IsTerminal() },
					Check: func(t *testing.T, w *world.World, crashes int) {
						s, got := w.Status("x"), l.Did()
						if s == journal.TimedOut && !decided && how == "timeout" {
							return // it was down when it had not
						}
						if s != journal.Confirmed || !slices.Equal(got, confirmed) {
							t.Errorf("it is %v, done: %v", s, got)
						}
						w.History("x")
					},
				}
			})
		})
	}
}

func confirming(e journal.Entry) bool { return e.Status == journal.Confirming }
