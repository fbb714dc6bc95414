package replay

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A meter records the bytes that the process had allocated each time that workflow code passed it,
// which is every stride steps.
type meter []uint64

const stride = 20

func (m *meter) pass() {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	*m = append(*m, s.TotalAlloc)
}

// atEnd returns how many bytes were allocated from one passing to the next, the median of the last
// 40: occasional growth, by doubling, does not show, and a copy in each step does.
func (m meter) atEnd() uint64 {
	m = m[len(m)-41:]
	var between []uint64
	for i := range m[1:] {
		between = append(between, m[i+1]-m[i])
	}
	slices.Sort(between)
	return between[len(between)/2]
}

// A step costs at the end of a long run what it costs at the end of a short one, when it is
// executed and when it is replayed: as much memory, one commit, and no read of the store, which
// returns a journal once along with the run.
//
// spec: B-3
func TestCostOfAStepDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates, too")
	}
	for what, nameOf := range map[string]func(int) string{
		"one name":   func(int) string { return "s" },
		"many names": func(i int) string { return fmt.Sprint("s", i) },
	} {
		t.Run(what, func(t *testing.T) {
			var short, long [2]uint64
			synctest.Test(t, func(t *testing.T) { short = liveTwice(t, 1_000, nameOf) })
			synctest.Test(t, func(t *testing.T) { long = liveTwice(t, 20_000, nameOf) })
			for i, life := range []string{"executed", "replayed"} {
				if long[i] > short[i]+short[i]/4 {
					t.Errorf("%d steps that are %s allocate %d bytes in a short run and %d in a "+
						"long one", stride, life, short[i], long[i])
				}
			}
		})
	}
}

// liveTwice executes a run of that many steps and then replays it, and returns what its last steps
// allocate each time.
func liveTwice(t *testing.T, steps int, nameOf func(int) string) (allocated [2]uint64) {
	var passed meter
	lives := 0
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		lives++
		life := lives
		passed = make(meter, 0, steps/stride)
		for i := range steps {
			if i%stride == 0 {
				passed.pass()
			}
			if _, err := perdure.Step(ctx, nameOf(i), func(context.Context) (int, error) {
				return i, nil
			}); err != nil {
				return 0, err
			}
		}
		return perdure.Step(ctx, "last", func(ctx context.Context) (int, error) {
			if life == 1 {
				<-ctx.Done()
			}
			return life, nil
		})
	})
	var calls *storetest.Faulty // counts them
	w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
	w.Options.Build = "test"
	w.Wrap = func(below store.Store) store.Store {
		calls = storetest.NewFaulty(below)
		return calls
	}
	judge := func(commits int) {
		t.Helper()
		if n := calls.Calls(storetest.Commit); n > commits {
			t.Errorf("life %d: %d commits, want %d at most", lives, n, commits)
		}
		// to join, to read the outbox, and for runs when it begins and is told to
		if n := calls.Calls(storetest.Claim); n > 4 {
			t.Errorf("life %d: %d claims", lives, n)
		}
		if n := calls.Calls(storetest.Load) + calls.Calls(storetest.Find); n > 0 {
			t.Errorf("life %d: the store was read %d times", lives, n)
		}
	}
	w.Begin()
	if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
		perdure.ID("x")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	allocated[0] = passed.atEnd()
	judge(steps + 1)
	w.Crash()
	defer w.End()
	synctest.Wait()
	allocated[1] = passed.atEnd()
	judge(2)
	entries := w.History("x")
	if n := len(entries); lives != 2 || n != steps+3 || entries[n-1].Kind != journal.RunCompleted {
		t.Errorf("%d lives, %d entries, the last of them %v", lives, n, world.Tail(entries, 2))
	}
	return allocated
}

// A condition costs what it reads: however many variables the run has, one that reads none or one
// of them allocates as much.
//
// spec: B-3, F-16
func TestConditionCostsWhatItReads(t *testing.T) {
	for what, judged := range map[string]func(m *meter) perdure.Definition{
		"a graph": func(m *meter) perdure.Definition {
			g := dag.New[int]("w")
			before := dag.Add(g, "first", setVariables)
			for i := range conditions {
				before = dag.Add(g, fmt.Sprint("s", i), setVariables).When(m.condition(i)).
					After(before)
			}
			return g
		},
		"a composition": func(m *meter) perdure.Definition {
			first := saga.New[int]("first")
			saga.Add(first, "set", setVariables)
			other := saga.New[int]("other")
			saga.Add(other, "none", setVariables)
			c := saga.Compose[int]("w")
			before := saga.Include(c, "first", first)
			for i := range conditions {
				before = saga.Include(c, fmt.Sprint("s", i), other).When(m.condition(i)).
					After(before)
			}
			return c
		},
	} {
		t.Run(what, func(t *testing.T) {
			var few, many uint64
			for n, allocated := range map[int]*uint64{10: &few, 3_000: &many} {
				synctest.Test(t, func(t *testing.T) {
					var m meter
					w := world.With(t, perdure.Options{}, judged(&m))
					defer w.End()
					if _, err := w.Engine.Start(context.Background(), "w", fmt.Append(nil, n),
						perdure.ID("x"),
						pattern.ModeSync); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if len(m) != conditions {
						t.Fatalf("%d of %d conditions were asked: %v", len(m), conditions,
							world.Tail(w.History("x"), 2))
					}
					*allocated = m.atEnd()
				})
			}
			if many > few+few/2 {
				t.Errorf("a condition allocates %d bytes with 10 variables and %d with 3,000", few,
					many)
			}
		})
	}
}

const conditions = 60

// setVariables sets so many variables.
func setVariables(ctx context.Context, n int) (int, error) {
	for i := range n {
		if err := perdure.SetVariable(ctx, fmt.Sprint("v", i), i); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// condition never holds; every other one is text.
func (m *meter) condition(i int) pattern.Condition {
	text := expr.When(`variables.v7 == 8`)
	return pattern.If(func(ctx context.Context, k pattern.View) (bool, error) {
		m.pass()
		if i%2 == 0 {
			return text.Holds(ctx, k)
		}
		v, err := k.Variables("v7", "none")
		return len(v) != 1 || string(v["v7"]) != "7", err
	})
}
