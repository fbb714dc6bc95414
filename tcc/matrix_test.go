package tcc_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// three has the participants of most plots. They do not try in the order of their IDs.
func three() []part {
	return []part{
		{id: "b", order: 2, fails: map[string]int{}}, {id: "c", order: 3, fails: map[string]int{}},
		{id: "a", order: 1, fails: map[string]int{}},
	}
}

// withFaults returns three participants, some of which fail.
func withFaults(faults map[string]int, optional ...string) []part {
	all := three()
	for i := range all {
		for _, phase := range []string{"try", "confirm", "cancel"} {
			if n := faults[phase+":"+all[i].id]; n > 0 {
				all[i].fails[phase] = n
			}
		}
		for _, id := range optional {
			all[i].optional = all[i].optional || id == all[i].id
		}
	}
	return all
}

// faults returns the faults of participants.
func faults() []map[string]int {
	out := []map[string]int{{}}
	for _, id := range []string{"a", "b", "c"} {
		for _, phase := range []string{"try", "confirm"} {
			for _, n := range []int{1, attempts + 1, forever} {
				out = append(out, map[string]int{phase + ":" + id: n})
			}
		}
	}
	for _, id := range []string{"a", "b"} {
		for _, n := range []int{1, attempts + 1, forever} {
			out = append(out, map[string]int{"try:c": forever, "cancel:" + id: n},
				map[string]int{"confirm:b": forever, "cancel:" + id: n})
		}
	}
	return append(out,
		map[string]int{"confirm:a": forever, "confirm:c": forever},
		map[string]int{"confirm:a": forever, "cancel:a": forever, "cancel:c": forever},
		map[string]int{"try:a": 1, "confirm:b": 1, "confirm:c": forever, "cancel:b": 1})
}

// spec: F-36, F-37, F-38, F-40, F-41
func TestWhatATCCDoesWhereParticipantsFail(t *testing.T) {
	for _, f := range faults() {
		for _, optional := range [][]string{nil, {"a"}, {"b", "c"}} {
			t.Run(fmt.Sprint(f, optional), func(t *testing.T) {
				played(t, plot{parts: withFaults(f, optional...)}, optional == nil)
			})
		}
	}
}

// spec: F-9, F-38, F-40
func TestOperatorDecidesOfWhatFails(t *testing.T) {
	for _, decisions := range [][]string{
		{"skip"},
		{"handled"},
		{"retry", "skip"},
		{"retry", "retry", "handled"},
	} {
		for _, f := range faults() {
			t.Run(fmt.Sprint(decisions, f), func(t *testing.T) {
				played(t, plot{parts: withFaults(f), decisions: decisions}, len(decisions) == 2)
			})
		}
	}
}

// spec: F-9, F-40
func TestCallbackMakesASuccessOfAFailure(t *testing.T) {
	for _, f := range faults() {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			played(t, plot{parts: withFaults(f), suppress: true}, f["cancel:a"] == forever)
		})
	}
}

// spec: F-38
func TestTCCIsToldToEnd(t *testing.T) {
	for _, ends := range []string{"cancel", "timeout"} {
		for _, phase := range []string{"try", "confirm", "cancel"} {
			for _, id := range []string{"a", "b", "c"} {
				for _, f := range []map[string]int{
					{},
					{"confirm:b": forever},
					{"confirm:b": forever, "cancel:a": forever},
					{"cancel:a": 1, "cancel:b": forever},
				} {
					p := plot{parts: withFaults(f), ends: ends, when: phase + ":" + id}
					t.Run(fmt.Sprint(ends, " in ", p.when, " ", f), func(t *testing.T) {
						played(t, p, true)
					})
				}
			}
		}
	}
}

// spec: F-36, F-37, F-38, F-40, F-41
func TestRandomTCCs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 300 {
		p := randomPlot(rng)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if played(t, p, i%10 == 0); t.Failed() {
				t.Logf("seed %d: %+v", seed, p)
			}
		})
	}
}

func randomPlot(rng *rand.Rand) plot {
	p := plot{suppress: rng.IntN(4) == 0}
	for i := range 1 + rng.IntN(5) {
		one := part{
			id:       fmt.Sprint("p", i),
			order:    rng.IntN(3),
			optional: rng.IntN(3) == 0,
			fails:    map[string]int{},
		}
		for _, phase := range []string{"try", "confirm", "cancel"} {
			if rng.IntN(4) == 0 {
				one.fails[phase] = 1 + rng.IntN(2*attempts)
			}
		}
		p.parts = append(p.parts, one)
	}
	switch rng.IntN(3) {
	case 0:
		for range 1 + rng.IntN(3) {
			p.decisions = append(p.decisions, []string{"retry", "skip", "handled"}[rng.IntN(3)])
		}
		if n := len(p.decisions); p.decisions[n-1] == "retry" {
			p.decisions = append(p.decisions, "skip")
		}
	case 1:
		one := p.parts[rng.IntN(len(p.parts))]
		p.ends, p.when = []string{"cancel", "timeout"}[rng.IntN(2)],
			[]string{"try:", "confirm:", "cancel:"}[rng.IntN(3)]+one.id
	}
	return p
}
