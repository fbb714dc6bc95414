package program

import (
	"slices"
	"strconv"
	"testing"
)

// The steps that a saga may undo when it gives up, and those that it must.
func TestASagaThatGivesUpUndoesUpToTheFailure(t *testing.T) {
	undo := func(deeds ...Deed) (allowed, must bool) {
		want := Foresee(&Program{Workflow: "saga-fast", Deeds: deeds}, "x")
		must, allowed = want.Effects[Label("x", 1, 0, "undo")]
		return allowed, must
	}
	if allowed, _ := undo(Deed{UndoBad: true}, Deed{}, Deed{}); allowed {
		t.Error("a saga that succeeds may be undone")
	}
	if _, must := undo(Deed{UndoBad: true}, Deed{}, Deed{Bad: true}); !must {
		t.Error("what is undone before the failure may be left")
	}
}

// What a TCC does when operators decide about its confirms and cancels.
func TestATCCGoesOnAsAnOperatorDecides(t *testing.T) {
	for name, c := range map[string]struct {
		workflow string
		deeds    []Deed
		end      string
		does     []string // beside the tries
		asks     []string
	}{
		"again": {
			"tcc-park", []Deed{{Confirm: "retry"}, {}, {Cancel: "skip"}}, "CONFIRMED",
			[]string{"0 confirm", "1 confirm", "2 confirm"}, []string{"confirm:step0"},
		},
		"by hand": {
			"tcc-park", []Deed{{Confirm: "handled"}, {}, {}}, "CONFIRMED",
			[]string{"1 confirm", "2 confirm"}, []string{"confirm:step0"},
		},
		"cancelled": {
			"tcc-park", []Deed{{}, {Confirm: "skip"}, {Cancel: "handled"}}, "CANCELED",
			[]string{"0 confirm", "2 confirm", "0 cancel", "1 cancel"},
			[]string{"confirm:step1", "cancel:step2"},
		},
		"left": {
			"tcc-park", []Deed{{Cancel: "skip"}, {}, {Bad: true}}, "FAILED",
			[]string{"1 cancel"}, []string{"cancel:step0"},
		},
		"a composition": {
			"tccs-park", []Deed{{Cancel: "retry"}, {Confirm: "skip"}, {}}, "CANCELED",
			[]string{"0 confirm", "0 cancel", "1 cancel"},
			[]string{"confirm:m1.step1", "cancel:m0.step0"},
		},
	} {
		want := Foresee(&Program{Workflow: c.workflow, Deeds: c.deeds}, "x")
		var does, asks []string
		for i := range c.deeds {
			for _, what := range []string{"confirm", "cancel"} {
				if want.Effects[Label("x", i, 0, what)] {
					does = append(does, strconv.Itoa(i)+" "+what)
				}
			}
		}
		for _, a := range want.Asked {
			asks = append(asks, a[1])
		}
		slices.Sort(does)
		slices.Sort(asks)
		slices.Sort(c.does)
		slices.Sort(c.asks)
		if !slices.Equal(want.Ends, []string{c.end}) || !slices.Equal(does, c.does) ||
			!slices.Equal(asks, c.asks) {
			t.Errorf("%s: it ends %v, does %v and asks %v", name, want.Ends, does, asks)
		}
	}
	want := Foresee(&Program{
		Workflow: "tccs-park", Deeds: []Deed{{Confirm: "skip"}, {}, {}},
	}, "x")
	if want.Effects[Label("x", 1, 0, "do")] {
		t.Error("a member begins after one that could not confirm")
	}
}
