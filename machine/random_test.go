package machine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// random returns a machine of up to six steps.
func random(rng *rand.Rand) shape {
	n := 2 + rng.IntN(5)
	s := shape{visits: 3}
	id := func(i int) string { return fmt.Sprintf("s%d", i) }
	actions := []string{"yield", "sleep", "late", "signal", "child", "retry", "error"}
	noSplit := rng.IntN(2) == 0
	for i := range n {
		t := state{id: id(i), last: "done", undo: rng.IntN(2) == 0}
		for range rng.IntN(3) {
			t.calls = append(t.calls, actions[rng.IntN(len(actions))])
		}
		for range rng.IntN(3) {
			if i+1 < n && noSplit {
				t.to = append(t.to, id(1+rng.IntN(n-1))) // also back
			} else if i+1 < n {
				t.to = append(t.to, id(i+1+rng.IntN(n-i-1)))
			}
		}
		switch rng.IntN(8) {
		case 0:
			t.last = "fail"
		case 1:
			t.last = "error"
		case 2:
			if i+1 < n && !noSplit {
				t.last = "split"
				for range rng.IntN(3) {
					t.branches = append(t.branches, id(i+1+rng.IntN(n-i-1)))
				}
				t.to = t.to[:min(len(t.to), 1)]
			}
		}
		if rng.IntN(4) == 0 {
			t.onError = id(min(i+1+rng.IntN(n), n-1))
		}
		s.steps = append(s.steps, t)
	}
	return s
}

// spec
func TestRandomMachinesDoWhatTheModelSays(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(random(rand.New(rand.NewPCG(seed, 16))))
		m := w.machine("m")
		perduretest.Test(t, func(env *perduretest.Env) {
			if d := w.differ(w.play(env, m, 1), 1); d != "" {
				t.Errorf("seed %d: %s", seed, d)
			}
		}, m, kid)
		if t.Failed() {
			return
		}
	}
}

// spec
func TestRandomMachinesDoWhatTheModelSaysWhereverTheyCrash(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(random(rand.New(rand.NewPCG(seed, 17))))
		m := w.machine("m")
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			perduretest.Setup{
				Workflows: []perdure.Definition{m, kid}, Crashes: 6, Seed: seed + 1,
			}.CrashEverywhere(t, func(env *perduretest.Env) any {
				got := w.play(env, m, 1)
				if d := w.differ(got, 1); d != "" {
					t.Error(d)
				}
				got.Err = ""
				return got
			})
		})
		if t.Failed() {
			return
		}
	}
}
