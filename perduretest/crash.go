package perduretest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
)

// CrashEverywhere runs a scenario once without a crash, and then again for every commit that the
// engine makes in it, each time with a store and a clock of its own: the process dies right after
// that commit, and the next one goes on. There are two runs for each commit. In one, the process
// still does everything that it can do without the store, so a step can take effect and lose its
// result. In the other, the process never learns that the commit was made. Each run is a subtest.
//
// The scenario returns its outcome: everything that must be the same wherever a crash comes, such
// as results and effects on the outside world. An outcome that differs, compared by
// [reflect.DeepEqual], fails the test. Outcomes are only compared: if every run fails in the same
// way, the test passes. So assert the result in the scenario too, for example with [Run.Returns].
//
// The functions of this package tolerate crashes. Other calls to an engine must be made in
// [Env.Do].
func CrashEverywhere(t *testing.T, scenario func(env *Env) any, workflows ...perdure.Definition) {
	t.Helper()
	Setup{Workflows: workflows}.CrashEverywhere(t, scenario)
}

// CrashEverywhere is the function [CrashEverywhere] with the settings of the Setup.
func (s Setup) CrashEverywhere(t *testing.T, scenario func(env *Env) any) {
	t.Helper()
	s.crashes(t, scenario, func(name string, test func(testing.TB)) bool {
		return t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t) })
		})
	})
}

// crashes implements CrashEverywhere. Function bubble runs a test in a bubble and returns whether
// it passed.
func (s Setup) crashes(t testing.TB, scenario func(*Env) any,
	bubble func(string, func(testing.TB)) bool) {
	t.Helper()
	var want any
	whole := &crash{}
	if !bubble("without a crash", func(t testing.TB) {
		s.run(t, whole, func(env *Env) { want = scenario(env) })
	}) {
		return
	}
	happened := 0
	for _, plan := range s.plans(t, whole.commits) {
		bubble(plan.String(), func(t testing.TB) {
			s.run(t, plan, func(env *Env) {
				if got := scenario(env); !reflect.DeepEqual(got, want) {
					env.Errorf("with a crash %v the outcome is\n\t%+v\nwithout a crash\n\t%+v",
						plan, got, want)
				}
			})
		})
		if plan.happened {
			happened++
		}
	}
	if happened == 0 {
		t.Error("perduretest: no crash has happened: the scenario commits nothing")
	}
}

// plans returns the crashes to try for a scenario with that number of commits.
func (s Setup) plans(t testing.TB, commits int) []*crash {
	t.Helper()
	var all []*crash
	for n := range commits {
		all = append(all, &crash{after: n + 1}, &crash{after: n + 1, lost: true})
	}
	if s.Crashes <= 0 || len(all) <= s.Crashes {
		return all
	}
	seed := s.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d of %d crashes, chosen by seed %d", s.Crashes, len(all), seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:s.Crashes]
	slices.SortStableFunc(all, func(a, b *crash) int { return a.after - b.after })
	return all
}

// String describes the crash.
func (c *crash) String() string {
	if c.lost {
		return fmt.Sprintf("after commit %d, the answer lost", c.after)
	}
	return fmt.Sprintf("after commit %d", c.after)
}
