package saga_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/perduretest"
)

// random returns a random saga and its faults.
func random(rng *rand.Rand) shape {
	s := shape{
		name: "random", policy: policies[rng.IntN(len(policies))], fails: map[string]int{},
		undoFail: map[string]int{},
		handler:  slices.Sorted(maps.Keys(handlers))[rng.IntN(len(handlers))],
	}
	var steps []string
	for i := range 1 + rng.IntN(7) {
		u := unit{
			id: fmt.Sprintf("s%d", i), noUndo: rng.IntN(5) == 0, critical: rng.IntN(3) == 0,
			extra: rng.IntN(3), undo: rng.IntN(4) - 1,
		}
		for _, before := range steps {
			if rng.IntN(3) == 0 {
				u.after = append(u.after, before)
			}
		}
		steps = append(steps, u.id)
		if rng.IntN(4) > 0 {
			s.units = append(s.units, u)
			continue
		}
		named := []string{"", "x"}[rng.IntN(2)]
		u.of = u.id
		for clone := range 1 + rng.IntN(4) {
			u.id = fmt.Sprintf("%s[%s%d]", u.of, named, clone)
			s.units = append(s.units, u)
		}
	}
	for _, u := range s.units {
		if rng.IntN(6) == 0 {
			s.fails[u.id] = []int{1, 2, forever}[rng.IntN(3)]
		}
		if rng.IntN(4) == 0 {
			s.undoFail[u.id] = []int{1, 2, 5, forever}[rng.IntN(4)]
		}
	}
	return s
}

// spec: F-28, F-29, F-30, F-31, F-33, F-34
func TestRandomSagasDoWhatTheModelSays(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		s := random(rand.New(rand.NewPCG(seed, 0)))
		s.test(t)
		if t.Failed() {
			t.Fatalf("seed %d: %v of %+v", seed, s, s.units)
		}
	}
}

// spec: F-29, F-30, F-31
func TestRandomSagasDoWhatTheModelSaysWhereverTheyCrash(t *testing.T) {
	for range 15 {
		seed := rand.Uint64()
		s := random(rand.New(rand.NewPCG(seed, 0)))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { s.crash(t, 8, seed|1) })
	}
}

// spec: F-29, L-10
func TestRandomSagasThatAreCancelledAreUndone(t *testing.T) {
	for range 150 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		s, w := random(rng), &world{}
		if s.handler == "park" {
			s.handler = "robust"
		}
		after := time.Duration(rng.Int64N(int64(2 * took(s, s.units[0].id))))
		def := w.build(s)
		perduretest.Test(t, func(env *perduretest.Env) {
			w.stop(env, s, def, cancelAfter(env, after))
		}, def)
		if t.Failed() {
			t.Fatalf("seed %d: %v of %+v, cancelled after %v", seed, s, s.units, after)
		}
	}
}
