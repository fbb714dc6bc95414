package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/program"
)

// spec: B-22
func TestJudgeSeesAStepThatTakesPlaceTwiceAndMayNot(t *testing.T) {
	for _, twice := range []bool{false, true} {
		e := good(t)
		e.Cases[0].Want.Once = []string{"p/1.0/do"}
		if twice {
			again := e.Calls[0]
			again.Gave, again.Began = 6, again.Began.Add(-time.Millisecond)
			e.Calls = append(e.Calls, again)
		}
		bad := Judge(e)
		if slices.ContainsFunc(bad, func(s string) bool {
			return strings.Contains(s, "took place 2 times, and may once at most")
		}) != twice || !twice && len(bad) > 0 {
			t.Errorf("twice: %v: %q", twice, bad)
		}
	}
}

// Only an end without success undoes, and one of the last round must.
//
// spec: B-25
func TestTheUndoOfAStepIsForeseen(t *testing.T) {
	for end, want := range map[string]string{
		"returns": "none", "fails": "must", "errs": "must", "cancels": "must", "ends": "must",
	} {
		for _, rounds := range []int{0, 1} {
			got := program.Foresee(&program.Program{
				Workflow: "code", End: end, Rounds: rounds,
				Body: program.Block{{ID: 1, Kind: program.Step, Way: "undo"}},
			}, "p")
			label := program.Label("p", 1, rounds, "do-undo")
			must, known := got.Effects[label]
			if is := map[bool]string{false: "none", true: "must"}[known && must]; is != want {
				t.Errorf("%s after %d rounds: %s, want %s", end, rounds, is, want)
			}
			if rounds == 1 && got.Effects[program.Label("p", 1, 0, "do-undo")] {
				t.Errorf("%s: the first round must be undone", end)
			}
		}
	}
}
