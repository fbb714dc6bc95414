package program

import "testing"

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
