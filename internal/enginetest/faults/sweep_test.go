package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	torturejudge "github.com/perdure/perdure/internal/torture/judge"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A scenario is a workflow and the result that it must have, whatever fails.
type scenario struct {
	name    string
	code    func(l *world.Ledger) func(context.Context, int) (string, error)
	out     string
	is      error    // the error of the run
	effects []string // in any order
	cancel  bool     // from outside, after a while
}

var scenarios = []scenario{
	{name: "steps", out: "ship", effects: []string{"reserve", "charge", "ship"},
		code: func(l *world.Ledger) func(context.Context, int) (string, error) {
			return func(ctx context.Context, _ int) (string, error) {
				for _, name := range []string{"reserve", "charge"} {
					if _, err := perdure.Step(ctx, name,
						l.Effect(name, time.Millisecond)); err != nil {
						return "", err
					}
				}
				return perdure.Step(ctx, "ship", l.Effect("ship", time.Millisecond),
					pattern.Announced)
			}
		}},
	{name: "undo", is: world.ErrOdd, effects: []string{"reserve", "release"},
		code: func(l *world.Ledger) func(context.Context, int) (string, error) {
			return func(ctx context.Context, _ int) (string, error) {
				if _, err := perdure.Step(ctx, "reserve", l.Effect("reserve", 0)); err != nil {
					return "", err
				}
				_, err := perdure.Step(ctx, "charge", world.Work("charge", time.Millisecond,
					world.ErrOdd),
					perdure.Retry{Attempts: 3, First: time.Second})
				if err == nil {
					return "charged", nil
				}
				if _, err := perdure.Step(ctx, "release", l.Effect("release", 0)); err != nil {
					return "", err
				}
				return "", err
			}
		}},
	{name: "shared slice", out: "4", effects: []string{"ask0", "ask1", "ask2", "ask3", "book0",
		"book1", "book2", "book3"}, code: func(l *world.Ledger) func(
		context.Context, int,
	) (string, error) {
		return func(ctx context.Context, _ int) (string, error) {
			var found []string
			var fs []*perdure.Future[string]
			for i := range 4 {
				fs = append(fs, perdure.Go(ctx, "price", func(ctx context.Context) (string, error) {
					d := time.Duration((i*7)%4) * time.Millisecond
					if _, err := perdure.Step(ctx, "ask",
						l.Effect(fmt.Sprint("ask", i), d)); err != nil {
						return "", err
					}
					found = append(found, fmt.Sprint("book", i))
					return "", nil
				}))
			}
			for _, f := range fs {
				if _, err := f.Await(ctx); err != nil {
					return "", err
				}
			}
			for _, what := range found {
				if _, err := perdure.Step(ctx, "book", l.Effect(what, 0)); err != nil {
					return "", err
				}
			}
			return fmt.Sprint(len(found)), nil
		}
	}},
	{name: "any", out: "won", effects: []string{"fast", "slow", "after"},
		code: func(l *world.Ledger) func(context.Context, int) (string, error) {
			return func(ctx context.Context, _ int) (string, error) {
				slow := perdure.Async(ctx, "slow", l.Effect("slow", time.Second))
				fast := perdure.Async(ctx, "fast", l.Effect("fast", time.Millisecond))
				i, err := perdure.Any(ctx, nil, slow, fast)
				if err != nil || i < 0 {
					return "", err
				}
				if _, err := slow.Cancel(ctx, "lost"); err != nil {
					return "", err
				}
				if _, err := perdure.Step(ctx, "after", l.Effect("after", 0)); err != nil {
					return "", err
				}
				return "won", nil
			}
		}},
	{name: "large", out: "3000000", effects: []string{"big"}, code: func(l *world.Ledger) func(
		context.Context, int,
	) (string, error) {
		return func(ctx context.Context, _ int) (string, error) {
			data, err := perdure.Step(ctx, "big", func(ctx context.Context) ([]byte, error) {
				_, err := l.Effect("big", 0)(ctx)
				return make([]byte, 3_000_000), err
			})
			if err != nil {
				return "", err
			}
			n, err := perdure.Step(ctx, "count", func(ctx context.Context) (int, error) {
				return perdure.Once(ctx, "n", func() (int, error) { return len(data), nil })
			})
			return fmt.Sprint(n), err
		}
	}},
	{name: "cancelled", is: &perdure.Error{Code: journal.CodeCancelled},
		effects: []string{"a", "b"},
		cancel:  true, code: func(l *world.Ledger) func(context.Context, int) (string, error) {
			return func(ctx context.Context, _ int) (string, error) {
				perdure.Async(ctx, "a", l.Effect("a", time.Hour))
				return perdure.Step(ctx, "b", l.Effect("b", time.Hour))
			}
		}},
}

// play runs a scenario against a store that fails once as planned, and starts engines until the run
// has ended. It returns false if the plan was not reached.
func play(t *testing.T, s scenario, plan storetest.Plan) (reached bool) {
	t.Helper()
	l := world.NewLedger()
	wf := perdure.Define("w", s.code(l))
	var faulty *storetest.Faulty
	w := &world.World{T: t, Workflows: []perdure.Definition{wf}}
	w.Wrap = func(below store.Store) store.Store {
		faulty = storetest.NewFaulty(&wakeful{below, t}, plan)
		return faulty
	}
	w.DB = memory.New()
	w.Begin()
	first := faulty
	w.Wrap = nil
	crashes := 0
	var run *perdure.Run[string]
	for run == nil || !ended(w, run) {
		if died := plan.Fault >= storetest.CrashBefore && len(first.Injected()) > 0; crashes == 0 &&
			(died || w.Stopped()) {
			crashes++
			w.Crash()
		}
		if r, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x")); err == nil {
			run = r
		}
		if s.cancel && run != nil {
			time.Sleep(time.Second)
			_ = w.Engine.Cancel(context.Background(), "x", "enough")
		}
		time.Sleep(10 * time.Second)
	}
	w.Crash() // what is left is read through a store that does not fail
	defer w.End()
	run, err := wf.Get(context.Background(), w.Engine, "x")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Result(context.Background())
	if s.is == nil && (out != s.out || err != nil) || s.is != nil && !errors.Is(err, s.is) {
		t.Errorf("%+v: got %q, %v", plan, out, err)
	}
	w.History("x")
	checkEffects(t, l, s, plan, crashes)
	return len(first.Injected()) > 0
}

// A wakeful store checks after each commit that something wakes every open run.
type wakeful struct {
	store.Store
	t *testing.T
}

func (w *wakeful) Commit(ctx context.Context, g *store.Group) error {
	err := w.Store.Commit(ctx, g)
	orphans, e := torturejudge.Orphans(ctx, w.Store)
	if e != nil && !errors.Is(e, store.ErrClosed) {
		w.t.Error(e)
	}
	for _, o := range orphans {
		w.t.Errorf("nothing wakes %s", o)
	}
	return err
}

func ended(w *world.World, run *perdure.Run[string]) bool {
	d, err := w.Engine.Describe(context.Background(), run.RunID())
	return err == nil && d.Head.Status.IsTerminal()
}

// checkEffects checks the calls that the outside world got.
func checkEffects(t *testing.T, l *world.Ledger, s scenario, plan storetest.Plan, crashes int) {
	t.Helper()
	got := slices.Sorted(slices.Values(l.Order()))
	if want := slices.Sorted(slices.Values(s.effects)); !slices.Equal(got, want) {
		t.Errorf("%+v: effects %v, want %v", plan, got, want)
	}
	for attempt, n := range l.Calls() {
		if n > 1+crashes {
			t.Errorf("%+v: %s was made %d times over %d crashes", plan, attempt, n, crashes)
		}
	}
}

// Each store call of each scenario fails before it is done, fails after, and is the last call of
// its process. The result of the run is the same, nothing is recorded twice, and an attempt is made
// again only if a process died. After each commit, something wakes every open run.
//
// spec: B-27
func TestFaultSweep(t *testing.T) {
	faults := map[string]storetest.Fault{
		"fail before": storetest.FailBefore, "fail after": storetest.FailAfter,
		"crash before": storetest.CrashBefore, "crash after": storetest.CrashAfter,
	}
	for _, s := range scenarios {
		for name, fault := range faults {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				n := 0
				for call := 1; ; call++ {
					reached := false
					synctest.Test(t, func(t *testing.T) {
						reached = play(t, s, storetest.Plan{Call: call, Fault: fault})
					})
					if !reached || t.Failed() {
						break
					}
					n++
				}
				if n < 5 {
					t.Errorf("only %d faults were injected", n)
				}
			})
		}
	}
}
