package dag_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/memory"
)

// refuses reports whether err means that a mode does not allow the start.
func refuses(err error) bool {
	return journal.CodeOf(err) == journal.CodeInvalid &&
		strings.Contains(err.Error(), "its mode is")
}

// A graph's mode holds for every way of starting it, by every client that knows the graph. A client
// that does not know the graph starts it in any mode. A workflow without a mode is started in any
// mode.
//
// spec: F-15
func TestTheModeHoldsForStartsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTrio()
		all, modes := o.all(), map[string]dag.Mode{
			"graph": dag.Sync,
			"code":  dag.Both,
			"saga":  dag.Both,
			"tcc":   dag.Both,
		}
		for _, m := range []dag.Mode{dag.Sync, dag.Async, dag.Both} {
			g := dag.New[int](string(m)).Mode(m)
			dag.Add(g, "step", lasts(time.Hour))
			all, modes[g.Name()] = append(all, g), m
		}
		db := memory.New()
		eng, end := running(t, db, nil, all...)
		defer end()
		unaware, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		friend, err := perdure.NewClient(t.Context(), db, all...)
		if err != nil {
			t.Fatal(err)
		}
		for who, c := range map[string]*perdure.Client{
			"engine":  eng.Client,
			"friend":  friend,
			"unaware": unaware,
		} {
			for name, m := range modes {
				for how, asks := range byName {
					want := c != unaware && m != dag.Both && m != asks.mode
					if err := asks.start(t.Context(), c, name); refuses(err) != want ||
						!want && err != nil {
						t.Errorf("%s: %s of %s gives %v", who, how, name, err)
					}
				}
			}
		}
		if _, err := eng.Start(t.Context(), "BOTH", []byte("1"),
			dag.Both); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("a start that asks for both gives %v", err)
		}
		for name, m := range modes {
			// starts by the engine, by the client that knows the graphs and by the one that does
			// not
			want := map[dag.Mode]int{dag.Sync: 3 + 3 + 5, dag.Async: 2 + 2 + 5, dag.Both: 5 + 5 +
				5}[m]
			heads, _, err := eng.List(t.Context(), perdure.Query{Workflow: name})
			if err != nil || len(heads) != want {
				t.Errorf("%s has %d runs, want %d, %v", name, len(heads), want, err)
			}
		}
	})
}

// byName has the ways to start a run by name, and the mode that each asks for.
var byName = map[string]struct {
	mode  dag.Mode
	start func(context.Context, *perdure.Client, string) error
}{
	"Start": {dag.Async, func(ctx context.Context, c *perdure.Client, name string) error {
		_, err := c.Start(ctx, name, []byte("1"))
		return err
	}},
	"Start and wait": {dag.Sync, func(ctx context.Context, c *perdure.Client, name string) error {
		run, err := c.Start(ctx, name, []byte("1"), pattern.ModeSync)
		if err == nil {
			_, err = run.Final(ctx)
		}
		return err
	}},
	"Execute": {dag.Sync, func(ctx context.Context, c *perdure.Client, name string) error {
		r, err := c.Execute(ctx, name, []byte("1"))
		if err == nil && !r.Success() {
			err = fmt.Errorf("the run is %v: %v", r.Status, r)
		}
		return err
	}},
	"Start in a transaction": {dag.Async, func(ctx context.Context, c *perdure.Client,
		name string) error {
		_, err := c.In(nil).Start(ctx, name, []byte("1"))
		return err
	}},
	"Start in a transaction and wait": {dag.Sync, func(ctx context.Context, c *perdure.Client,
		name string) error {
		_, err := c.In(nil).Start(ctx, name, []byte("1"), pattern.ModeSync)
		return err
	}},
}

// spec: F-15
func TestTheModeHoldsForStartsByTheGraph(t *testing.T) {
	for _, m := range []dag.Mode{dag.Sync, dag.Async, dag.Both} {
		g := dag.New[int]("g").Mode(m)
		g.Output(dag.Add(g, "a", lasts(time.Hour)))
		perduretest.Test(t, func(env *perduretest.Env) {
			_, asks := g.Start(env.Context(), env.Engine(), 1, dag.Sync)
			_, inTx := g.Start(env.Context(), env.Engine().In(nil), 1)
			_, asksInTx := g.Start(env.Context(), env.Engine().In(nil), 1, dag.Sync)
			_, many := g.StartAll(env.Context(), env.Engine(), []int{1}, nil)
			_, asksMany := g.StartAll(env.Context(), env.Engine(), []int{1},
				func(int) []perdure.StartOption { return []perdure.StartOption{dag.Sync} })
			_, signal := perdure.SendWithStart(env.Context(), env.Engine(),
				perdure.NewSignal[int]("go"), 1, g.Workflow, 1, perdure.ID("x"), dag.Async)
			for _, err := range []error{asks, asksInTx, asksMany[0]} {
				if refuses(err) != (m == dag.Async) {
					env.Errorf("mode %s: a start that waits gives %v", m, err)
				}
			}
			for _, err := range []error{inTx, signal, many[0]} {
				if refuses(err) != (m == dag.Sync) {
					env.Errorf("mode %s: a start that does not wait gives %v", m, err)
				}
			}
			if _, err := g.Execute(env.Context(), env.Engine(), 1,
				dag.Async); refuses(err) != (m == dag.Async) {
				env.Errorf("mode %s: Execute gives %v", m, err)
			}
		}, g)
	}
}

// spec: F-15, F-26
func TestAStartByNameReturnsTheFinalState(t *testing.T) {
	g := dag.New[int]("g")
	count := dag.Add(g, "count", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	g.Output(count).Again(func(k pattern.View) (int, bool) {
		n, _ := pattern.Decode[int](k.Results["count"])
		return n, n < 4
	})
	fails := dag.New[int]("fails", perdure.NoRetry)
	dag.Add(fails, "a", func(context.Context, int) (int, error) { return 0, errDown })
	perduretest.Test(t, func(env *perduretest.Env) {
		r, err := env.Engine().Execute(env.Context(), "g", []byte("1"), perdure.ID("x"),
			perdure.TriggeredBy("the desk"))
		if n, _, _ := count.Of(dag.Result{Run: r}); n != 4 || err != nil ||
			r.Status != journal.Completed || r.WorkflowID != "x" {
			env.Errorf("the last run of the chain gives %d, %+v, %v", n, r, err)
		}
		r, err = env.Engine().Execute(env.Context(), "fails", []byte("1"))
		if err != nil || r.Status != journal.Failed || r.Err == nil {
			env.Errorf("a run that fails gives %+v, %v", r, err)
		}
		ctx, stop := context.WithCancel(env.Context())
		stop()
		if r, err := env.Engine().Execute(ctx, "g", []byte("1")); err == nil {
			env.Errorf("with a context that has ended it gives %+v", r)
		}
	}, g, fails)
}
