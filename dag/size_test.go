package dag_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A slowStore takes a millisecond for a commit, and counts the commits.
type slowStore struct {
	store.Store
	commits atomic.Int64
}

func (s *slowStore) Commit(ctx context.Context, g *store.Group) error {
	time.Sleep(time.Millisecond)
	s.commits.Add(1)
	return s.Store.Commit(ctx, g)
}

// layered returns a graph of layers of instant steps.
func layered(layers, width int) *dag.Graph[int] {
	g := dag.New[int]("layered")
	var before []dag.Dependency
	for l := range layers {
		var layer []dag.Dependency
		for n := range width {
			layer = append(layer, dag.Add(g, fmt.Sprintf("s%d-%d", l, n), does(n, nil)).
				After(before...))
		}
		before = layer
	}
	return g
}

// A layer costs one commit, however wide it is. Sometimes the engine commits a result before the
// others are there, so the best of some runs counts.
//
// spec: F-2
func TestALayerCostsOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &slowStore{Store: memory.New()}
		eng, err := perdure.New(db, perdure.Options{CleanUp: -1, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		g := layered(10, 10)
		if err := eng.Register(g); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- eng.Run(ctx) }()
		least := int64(1000)
		for range 5 {
			before := db.commits.Load()
			r, err := g.Execute(t.Context(), eng, 1)
			if err != nil || r.Status != journal.Completed {
				t.Errorf("it is %v, %v", r.Status, err)
			}
			least = min(least, db.commits.Load()-before)
		}
		if least > 12 {
			t.Errorf("%d commits: a start, the first layer begins, 10 times the results of a layer",
				least)
		}
		stop()
		<-done
	})
}

// spec: F-2
func TestManyStepsInALayerAndInAChain(t *testing.T) {
	for name, g := range map[string]*dag.Graph[int]{
		"a layer": layered(1, 10_000),
		"a chain": layered(10_000, 1),
	} {
		t.Run(name, func(t *testing.T) {
			perduretest.Setup{Workflows: []perdure.Definition{g}}.Test(
				t, func(env *perduretest.Env) {
					r := execute(env, g, 1)
					if r.Status != journal.Completed || len(r.Completed()) != 10_000 {
						env.Errorf("it is %v with %d steps", r.Status, len(r.Completed()))
					}
				})
		})
	}
}

// BenchmarkBuild builds graphs in layers of ten steps and registers them. Each step comes after all
// ten steps of the layer before.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				eng, err := perdure.New(memory.New(), perdure.Options{})
				if err == nil {
					err = eng.Register(layered(n/10, 10))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
