package saga_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/perdure/perdure/saga"
)

var policies = []saga.Policy{
	saga.StrictSequential, saga.GroupedParallel, saga.RetryWithBackoff, saga.CircuitBreaker,
	saga.BestEffortParallel,
}

// shapes are the shapes of the matrix.
func shapes() []shape {
	plain := func(id string, after ...string) unit { return unit{id: id, after: after, undo: -1} }
	clone := func(id, of string, after ...string) unit {
		return unit{id: id, of: of, after: after, undo: -1}
	}
	retried := unit{id: "b", after: []string{"a"}, extra: 2, undo: 1, critical: true}
	bare := unit{id: "c", after: []string{"b"}, noUndo: true, undo: -1}
	return []shape{
		{name: "chain", units: []unit{plain("a"), retried, bare, plain("d", "c")}},
		{
			name: "diamond",
			units: []unit{
				plain("a"), retried, plain("c", "a"), plain("d", "b", "c"), plain("e", "d"),
			},
		},
		{
			name: "wide",
			units: []unit{
				plain("a"), plain("b"), plain("c"), plain("d"), plain("e", "a", "b", "c", "d"),
			},
		},
		{
			name: "fan-out",
			units: []unit{
				plain("a"), clone("e[0]", "e", "a"), clone("e[1]", "e", "a"),
				clone("e[2]", "e", "a"),
				plain("z", "e"),
			},
		},
		{name: "named", units: []unit{clone("e[x]", "e"), clone("e[xy]", "e"), plain("z", "e")}},
	}
}

// faults returns a copy of the shape for each fault of the matrix.
func (s shape) faults() (out []shape) {
	with := func(handler string, fails, undoFail map[string]int) {
		c := s
		c.handler, c.fails, c.undoFail = handler, fails, undoFail
		out = append(out, c)
	}
	with("continue", nil, nil)
	last := s.units[len(s.units)-1].id
	for _, u := range s.units {
		with("continue", map[string]int{u.id: u.extra}, nil)
		with("continue", map[string]int{u.id: forever}, nil)
		if u.noUndo || u.id == last {
			continue
		}
		for _, n := range []int{1, 2, forever} {
			for _, handler := range slices.Sorted(maps.Keys(handlers)) {
				with(handler, map[string]int{last: forever}, map[string]int{u.id: n})
			}
		}
	}
	return out
}

// matrix returns every shape with each policy and each fault.
func matrix() (out []shape) {
	for _, s := range shapes() {
		for _, s.policy = range policies {
			out = append(out, s.faults()...)
		}
	}
	return out
}

// spec: F-28, F-29, F-30, F-31, F-32, F-33, F-34, F-9
func TestSagasDoWhatTheModelSays(t *testing.T) {
	for _, s := range matrix() {
		s.test(t)
		if t.Failed() {
			t.Fatalf("%v", s)
		}
	}
}

// spec: F-28, F-29, F-30, F-31, F-33
func TestSagasDoWhatTheModelSaysWhereverTheyCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	all := matrix()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all[:40] {
		t.Run(s.String(), func(t *testing.T) { s.crash(t, 6, seed|1) })
	}
}

// spec: F-29, F-30, F-31
func TestEachPolicyBearsACrashAtEveryCommit(t *testing.T) {
	for _, policy := range policies {
		for _, handler := range []string{"retry", "park"} {
			s := shapes()[1]
			s.policy, s.handler = policy, handler
			s.fails, s.undoFail = map[string]int{"b": 1, "e": forever},
				map[string]int{"b": 2, "c": 1}
			t.Run(fmt.Sprintf("%s, %s", policy, handler), func(t *testing.T) { s.crash(t, 0, 0) })
		}
	}
}
