package journal_test

import (
	"testing"

	"github.com/perdure/perdure/journal"
)

// The fold has the phase of a participant, the current variables and keys, and one step for a step
// that was done again and undone.
//
// spec: F-1, F-3
func TestTheFoldOfWhatPatternsShare(t *testing.T) {
	s := fold(t, goldenShared()...).Snapshot()
	want := map[string]journal.StepStatus{
		"try:debit": journal.StepIsTried, "confirm:debit": journal.StepIsConfirmFailed,
		"cancel:debit": journal.StepIsCanceling,
	}
	for _, step := range s.Steps {
		if want[step.Path] != step.Status {
			t.Errorf("%s is %s, want %s", step.Path, step.Status, want[step.Path])
		}
		delete(want, step.Path)
	}
	if len(want) > 0 {
		t.Errorf("the fold has no %v", want)
	}
	if v := s.Variables; len(v) != 1 || v["hold"].Seq != 3 || v["hold"].Data != nil {
		t.Errorf("variables %v", v)
	}
	if len(s.Keys) != 1 || s.Keys[0] != "debit ☃" {
		t.Errorf("keys %q", s.Keys)
	}
}

// Several facts about a step belong to one step.
//
// spec: F-1, F-7
func TestFactsAreOfTheirStep(t *testing.T) {
	op := func(occ int) journal.Op { return journal.Op{Name: "charge", Key: "7", Occ: occ} }
	s := fold(t, numbered([]journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Running},
		{Kind: journal.StepCompleted, Op: op(1)},
		{
			Kind: journal.StepCompensationFailed, Op: op(2), Detail: &journal.Detail{
				Failure: &journal.Failure{Message: "no"},
			},
		},
		{Kind: journal.StepCompensated, Op: op(3)},
	})...).Snapshot()
	if len(s.Steps) != 1 || s.Steps[0].Status != journal.StepIsCompensated ||
		s.Steps[0].Failure == nil {
		t.Errorf("%+v", s.Steps)
	}
}
