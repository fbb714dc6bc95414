package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store"
)

// A counter counts the calls of a body.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) call() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// once is a workflow with a step beside it that runs at most once. Its result is "interrupted" if
// the step was interrupted.
func once(c *counter, takes time.Duration, after func(context.Context) error,
	opts ...perdure.StepOption) *perdure.Workflow[int, string] {
	return perdure.Define("once", func(ctx context.Context, _ int) (string, error) {
		f := perdure.Async(ctx, "s", func(ctx context.Context) (string, error) {
			c.call()
			world.Pause(ctx, takes)
			return "done", nil
		}, append(opts, effect.AtMostOnce)...)
		if after != nil {
			if err := after(ctx); err != nil {
				return "", err
			}
		}
		out, err := f.Await(ctx)
		if errors.Is(err, effect.ErrInterrupted) {
			return "interrupted", nil
		}
		return out, err
	})
}

// commitsSlowly returns a hook for which the commit with the start of a step takes a while. It
// calls then in the middle of that.
func commitsSlowly(then func()) *world.Hook {
	slow := false
	return &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
		for _, c := range g.Changes {
			for _, e := range c.Entries {
				if e.Kind == journal.StepStarted && e.Op.Name == "s" && !slow {
					slow = true
					time.Sleep(30 * time.Second)
					then()
					time.Sleep(5 * time.Second)
				}
			}
		}
		return do()
	}}
}

// spec: B-22
func TestAStepThatWasNotCalledIsNotInterrupted(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, c *counter) *world.World{
		"the run is suspended before the call": func(t *testing.T, c *counter) *world.World {
			var w *world.World
			wf := once(c, time.Minute, nil)
			w = world.Hooked(t, commitsSlowly(func() {
				other := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
				world.NoError(t, other.Suspend(t.Context(), "x", "look"))
			}), perdure.Options{IdleTimeout: -1, Sweep: time.Second}, wf)
			world.Start(w, wf, 0, perdure.ID("x"))
			time.Sleep(time.Hour)
			if w.Status("x") != journal.Suspended || c.n != 0 {
				t.Errorf("it is %v after %d calls", w.Status("x"), c.n)
			}
			w.Crash()
			world.NoError(t, w.Engine.Resume(t.Context(), "x"))
			return w
		},
		"the run is suspended before the call, while a step is in flight": func(t *testing.T,
			c *counter) *world.World {
			var w *world.World
			wf := perdure.Define("once", func(ctx context.Context, _ int) (string, error) {
				other := perdure.Async(ctx, "other", world.Work("other", 2*time.Minute, nil))
				if err := perdure.Sleep(ctx, time.Minute); err != nil {
					return "", err
				}
				s := perdure.Async(ctx, "s", func(context.Context) (string, error) {
					c.call()
					return "done", nil
				}, effect.AtMostOnce)
				if _, err := other.Await(ctx); err != nil {
					return "", err
				}
				return s.Await(ctx)
			})
			w = world.Hooked(t, commitsSlowly(func() {
				other := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
				world.NoError(t, other.Suspend(t.Context(), "x", "look"))
			}), perdure.Options{IdleTimeout: -1, Sweep: time.Second}, wf)
			world.Start(w, wf, 0, perdure.ID("x"))
			time.Sleep(time.Hour)
			if w.Status("x") != journal.Suspended || c.n != 0 {
				t.Errorf("it is %v after %d calls", w.Status("x"), c.n)
			}
			world.NoError(t, w.Engine.Resume(t.Context(), "x"))
			return w
		},
		"the engine stops before the call": func(t *testing.T, c *counter) *world.World {
			var w *world.World
			wf := once(c, time.Minute, nil)
			w = world.Hooked(t, commitsSlowly(func() { go w.Stop() }), perdure.Options{}, wf)
			world.Start(w, wf, 0, perdure.ID("x"))
			world.NoError(t, <-w.Done)
			if c.n != 0 {
				t.Errorf("%d calls", c.n)
			}
			w.Wrap = nil
			w.Begin()
			return w
		},
		"the code fails before the call": func(t *testing.T, c *counter) *world.World {
			failed := false
			wf := once(c, time.Minute, func(context.Context) error {
				if !failed {
					failed = true
					panic("at first")
				}
				return nil
			})
			w := world.New(t, wf)
			world.Start(w, wf, 0, perdure.ID("x"))
			return w
		},
		"it waits for a token": func(t *testing.T, c *counter) *world.World {
			wf := once(c, time.Minute, nil, limit.Control{
				Name: "calls", Rate: limit.Rate{Tokens: 1, Per: time.Hour},
			})
			w := world.New(t, wf)
			world.StartAndSettle(w, wf, 0, perdure.ID("first"))
			world.Start(w, wf, 0, perdure.ID("x"))
			time.Sleep(30 * time.Minute)
			w.Crash()
			c.n-- // of the first run
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &counter{}
				w := test(t, c)
				defer func() { w.End() }()
				wf := w.Workflows[0].(*perdure.Workflow[int, string])
				out, err := world.OutcomeOf(w, wf, "x")
				if out != "done" || err != nil || c.n != 1 {
					t.Errorf("it comes to %q, %v after %d calls\n%s", out, err, c.n,
						strings.Join(world.Tail(w.History("x"), 20), "\n"))
				}
			})
		})
	}
}

// A body that an engine leaves behind may be called no second time: not in the next engine, and not
// in the same one when the code of the run is called again.
//
// spec: B-22
func TestAStepThatWasCalledIsNotCalledAgain(t *testing.T) {
	fail := perdure.NewSignal[int]("fail")
	for name, test := range map[string]func(t *testing.T, w *world.World){
		"the engine dies": func(t *testing.T, w *world.World) { w.Crash() },
		"the engine stops, and the body goes on": func(t *testing.T, w *world.World) {
			w.End()
			w.Begin()
		},
		"the code fails": func(t *testing.T, w *world.World) {
			_, err := fail.Send(t.Context(), w.Engine, "x", 0)
			world.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, failed := &counter{}, false
				wf := once(c, time.Hour, func(ctx context.Context) error {
					if name != "the code fails" {
						return nil
					}
					if _, err := fail.Wait(ctx); err != nil || failed {
						return err
					}
					failed = true
					panic("at first")
				})
				w := world.New(t, wf)
				defer func() { w.End() }()
				world.Start(w, wf, 0, perdure.ID("x"))
				time.Sleep(time.Minute)
				test(t, w)
				out, err := world.OutcomeOf(w, wf, "x")
				if out != "interrupted" || err != nil || c.n != 1 {
					t.Errorf("it comes to %q, %v after %d calls\n%s", out, err, c.n,
						strings.Join(world.Tail(w.History("x"), 20), "\n"))
				}
				d := w.Describe("x")
				r := world.Must[report.Run](t)(w.Engine.Report(t.Context(), "x"))
				s, _ := r.Step("s")
				if s.Status != report.StepIsFailed || !errors.Is(s.Err, effect.ErrInterrupted) ||
					!strings.Contains(s.Err.Error(), "Its effect may have taken place or not") {
					t.Errorf("the step is %+v in %v", s, d.Head.Status)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// spec: B-22
func TestAnEngineThatHasLostItsLeaseInterruptsItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &counter{}
		wf := once(n, time.Hour, nil)
		c := world.NewCluster(t, 2, wf)
		defer c.End()
		a, b := c.Nodes[0], c.Nodes[1]
		world.Start(a, wf, 0, perdure.ID("x"))
		time.Sleep(time.Second)
		c.Kill(a)
		time.Sleep(3 * world.Lease)
		out, err := world.OutcomeOf(b, wf, "x")
		if out != "interrupted" || err != nil || n.n != 1 {
			t.Errorf("it comes to %q, %v after %d calls", out, err, n.n)
		}
		time.Sleep(2 * time.Hour)
	})
}

// Failures are as of any other step, and there is one attempt.
//
// spec: B-22
func TestAStepThatRunsAtMostOnceFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errBusy := errors.New("busy")
		calls := map[string]int{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			var out []string
			for name, err := range map[string]error{
				"error": errBusy, "retry": perdure.RetryAfter(time.Second, errBusy),
				"park": perdure.Parking(errBusy),
			} {
				got := perdure.Do(ctx, name, func(ctx context.Context) error {
					calls[name]++
					if n, last, err := perdure.Attempt(ctx); n != 1 || !last || err != nil {
						t.Errorf("attempt %d, last %v, %v", n, last, err)
					}
					return err
				}, effect.AtMostOnce)
				if got == nil || errors.Is(got, effect.ErrInterrupted) {
					out = append(out, fmt.Sprint(name, got))
				}
			}
			for name, fn := range map[string]func(context.Context) error{
				"panic": func(context.Context) error { panic("now") },
				"late":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			} {
				got := perdure.Do(ctx, name, func(ctx context.Context) error {
					calls[name]++
					return fn(ctx)
				}, effect.AtMostOnce, perdure.Timeout(time.Minute))
				if got == nil || errors.Is(got, effect.ErrInterrupted) {
					out = append(out, fmt.Sprint(name, got))
				}
			}
			return strings.Join(out, "; "), nil
		}, perdure.Retry{Attempts: 5})
		w := world.New(t, wf)
		defer w.End()
		_, out, err := world.Result(w, wf, 0)
		if out != "" || err != nil || len(calls) != 5 {
			t.Errorf("%q, %v, %v", out, err, calls)
		}
		for name, n := range calls {
			if n != 1 {
				t.Errorf("%s was called %d times", name, n)
			}
		}
	})
}

// An operator who retries the run decides that the step is done again: under a start of its own,
// and with the same key.
//
// spec: B-22, R-15
func TestAnOperatorsRetryDoesAnInterruptedStepAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
				keys = append(keys, perdure.IdempotencyKey(ctx))
				if len(keys) == 1 {
					world.Pause(ctx, time.Hour)
				}
				return "done", nil
			}, effect.AtMostOnce)
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Second)
		w.Crash()
		if _, err := world.OutcomeOf(w, wf, "x"); !errors.Is(err, effect.ErrInterrupted) {
			t.Fatal(err)
		}
		_, err := w.Engine.Retry(t.Context(), "x")
		world.NoError(t, err)
		out, err := world.OutcomeOf(w, wf, "x")
		if out != "done" || err != nil || len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("%q, %v, %q", out, err, keys)
		}
		started := 0
		for _, e := range w.History("x") {
			if e.Kind == journal.StepStarted && e.Detail.AtMostOnce {
				started++
			}
		}
		if started != 1 {
			t.Errorf("the retry has %d starts", started)
		}
	})
}
