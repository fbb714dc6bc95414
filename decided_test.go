package perdure_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// decides is a workflow that tries, decides to confirm, confirms, has an operator look at
// it and confirms again. Whatever is called off is undone.
func decides(l *ledger, opts ...perdure.WorkflowOption) *perdure.Workflow[int, string] {
	return perdure.Define("decides", func(ctx context.Context, _ int) (string, error) {
		if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "undo", l.effect("undone", time.Second))
			return err
		}); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "try", l.effect("tried", time.Minute)); err != nil {
			return "", err
		}
		if err := perdure.SetStatus(ctx, journal.Confirming); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "first", l.effect("first", time.Minute)); err != nil {
			return "", err
		}
		if _, err := perdure.Park(ctx, "look", "odd", "go on"); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "second", l.effect("second", time.Minute)); err != nil {
			return "", err
		}
		return "", perdure.End(ctx, journal.Confirmed, "out", nil)
	}, opts...)
}

var confirmed = []string{"tried", "first", "second"}

// The moments at which a run of decides can be told to end, from its start.
var moments = map[string]time.Duration{
	"confirming": 90 * time.Second, "looked at": 10 * time.Minute, "confirming again": time.Hour + 30*time.Second,
}

// spec: F-38, L-12
func TestNobodyEndsARunThatHasDecided(t *testing.T) {
	wrongState := &perdure.Error{Code: journal.CodeWrongState}
	asks := map[string]func(c *cluster, id string) (err, want error){
		"its engine": func(c *cluster, id string) (error, error) {
			return c.nodes[0].eng.Cancel(c.Context(), id, "enough"), wrongState
		},
		"another engine": func(c *cluster, id string) (error, error) {
			return c.nodes[1].eng.Cancel(c.Context(), id, "enough"), wrongState
		},
		"an engine that does not know it": func(c *cluster, id string) (error, error) {
			return c.nodes[2].eng.Cancel(c.Context(), id, "enough"), wrongState
		},
		"a client": func(c *cluster, id string) (error, error) {
			client, err := perdure.NewClient(c.Context(), c.db.Beside())
			if err != nil {
				return err, nil
			}
			return client.Cancel(c.Context(), id, "enough"), wrongState
		},
		"a signal": func(c *cluster, id string) (error, error) {
			_, err := c.nodes[1].eng.Send(c.Context(), id, "Cancel", nil)
			return err, nil
		},
		"its timeout": func(*cluster, string) (error, error) { return nil, nil },
	}
	for who, ask := range asks {
		for when, at := range moments {
			t.Run(who+"/"+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLedger()
					limit := perdure.Timeout(100 * time.Hour)
					if who == "its timeout" {
						limit = perdure.Timeout(at)
					}
					wf := decides(l, limit)
					c := newCluster(t, 1, wf)
					defer c.end()
					c.node(wf).begin()
					c.node(perdure.Define("other", func(context.Context, int) (int, error) { return 0, nil })).begin()
					run, err := wf.Start(c.Context(), c.nodes[0].eng, 0, perdure.ID("x"))
					if err != nil {
						t.Fatal(err)
					}
					decide := func() {
						if err := c.nodes[0].eng.Decide(c.Context(), "x", "look", perdure.Decision{Choice: "go on"}); err != nil {
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
						if s := c.nodes[0].statusOf("x"); s != journal.Suspended {
							t.Errorf("it is %v", s)
						}
						decide()
					}
					if out, err := run.Result(c.Context()); out != "out" || err != nil {
						t.Errorf("%q %v", out, err)
					}
					if got := l.did(); !slices.Equal(got, confirmed) {
						t.Errorf("done: %v", got)
					}
					c.nodes[0].history("x")
				})
			})
		}
	}
}

// spec: F-38
func TestParentDoesNotEndAChildThatHasDecided(t *testing.T) {
	for when, at := range moments {
		t.Run(when, func(t *testing.T) {
			l := newLedger()
			wf := decides(l)
			parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
				return wf.Child(ctx, 0, perdure.ID("x")).Await(ctx)
			})
			inBothModes(t, func(t *testing.T, w *world) {
				ctx := context.Background()
				run, err := parent.Start(ctx, w.eng, 0)
				if err != nil {
					t.Fatal(err)
				}
				decide := func() { codeless(t, w.eng.Decide(ctx, "x", "look", perdure.Decision{Choice: "go on"})) }
				if at > time.Hour {
					time.Sleep(time.Hour)
					decide()
					time.Sleep(at - time.Hour)
				} else {
					time.Sleep(at)
				}
				codeless(t, w.eng.Cancel(ctx, run.ID(), "enough"))
				time.Sleep(time.Hour)
				if at < time.Hour {
					decide()
				}
				time.Sleep(time.Hour)
				if s := w.statusOf("x"); s != journal.Confirmed {
					t.Errorf("the child is %v", s)
				}
				if got := l.did(); !slices.Equal(got, confirmed) {
					t.Errorf("done: %v", got)
				}
			}, wf, parent)
		})
	}
}

func codeless(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// What is decided is so after a crash too: whoever asks then, and whatever has passed.
//
// spec: F-38, L-12
func TestDecisionOutlastsEveryCrash(t *testing.T) {
	for _, how := range []string{"cancel", "message", "timeout"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			overCrashes(t, 4, func() tale {
				l := newLedger()
				limit, down := perdure.Timeout(100*time.Hour), time.Duration(0)
				if how == "timeout" {
					limit, down = perdure.Timeout(10*time.Minute), time.Hour
				}
				wf := decides(l, limit)
				ctx := context.Background()
				decided := false // as the store says, after the crash
				return tale{
					workflows: []perdure.Definition{wf},
					begin: func(w *world) error {
						if _, err := wf.Start(ctx, w.eng, 0, perdure.ID("x")); err != nil {
							return err
						}
						if w.statusOf("x").IsTerminal() {
							return nil
						}
						if h, err := w.eng.History(ctx, "x", 0, 0); err != nil || !slices.ContainsFunc(h, confirming) {
							return errors.Join(err, errors.New("it has not decided"))
						}
						switch decided = true; how {
						case "cancel":
							if err := w.eng.Cancel(ctx, "x", "enough"); !errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
								return errors.Join(err, errors.New("it takes a cancel"))
							}
						case "message":
							if _, err := w.eng.Send(ctx, "x", "Cancel", nil, perdure.SendKey("one")); err != nil {
								return err
							}
						}
						return w.eng.Decide(ctx, "x", "look", perdure.Decision{Choice: "go on"})
					},
					crashed: func(*world) { time.Sleep(down) },
					over:    func(w *world) bool { return w.statusOf("x").IsTerminal() },
					check: func(t *testing.T, w *world, crashes int) {
						s, got := w.statusOf("x"), l.did()
						if s == journal.TimedOut && !decided && how == "timeout" {
							return // it was down when it had not
						}
						if s != journal.Confirmed || !slices.Equal(got, confirmed) {
							t.Errorf("it is %v, done: %v", s, got)
						}
						w.history("x")
					},
				}
			})
		})
	}
}

func confirming(e journal.Entry) bool { return e.Status == journal.Confirming }
