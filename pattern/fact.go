package pattern

import (
	"context"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Fact is something that a pattern records for observers and for readers of the journal: a step
// was skipped or compensated, or a phase began. It changes nothing by itself.
type Fact struct {
	// StepSkipped, CompensationStarted, StepCompensated, StepCompensationFailed, or one of a phase
	Kind    journal.Kind
	Name    string // the name of the step, participant or phase
	Key     string
	Phase   string
	Reason  string
	Attempt int
	Occ     int // the occurrence of the step; 0 for the first
	Err     error
}

// Record records a fact in the commit of the turn.
func Record(ctx context.Context, f Fact) error {
	switch f.Kind {
	case journal.StepSkipped, journal.CompensationStarted, journal.StepCompensated,
		journal.StepCompensationFailed,
		journal.PhaseStarted, journal.PhaseCompleted, journal.PhaseFailed:
	default:
		return failure.Invalid("record", "%v is not a fact of a pattern", f.Kind)
	}
	if !journal.ValidName(f.Name) {
		return failure.BadName("fact", f.Name)
	}
	d := &journal.Detail{Phase: f.Phase, Reason: f.Reason, Attempt: f.Attempt, Of: f.Occ}
	if f.Err != nil {
		d.Failure = failure.Of(f.Err)
	}
	_, err := record(ctx, kernel.Note{Kind: f.Kind, Name: f.Name, Key: f.Key, Detail: d})
	return err
}

// record records a note, or returns the recorded detail.
func record(ctx context.Context, n kernel.Note) (*journal.Detail, error) {
	out, err := kernel.TakeNote(ctx, n)
	if err == nil && out.Failure != nil {
		err = failure.Err(out.Failure)
	}
	return out.Detail, err
}

// A FactKind is the kind of a [Fact]. See [journal.Kind] for all kinds.
type FactKind = journal.Kind

// The facts that [Record] records.
const (
	StepSkipped            = journal.StepSkipped
	CompensationStarted    = journal.CompensationStarted
	StepCompensated        = journal.StepCompensated
	StepCompensationFailed = journal.StepCompensationFailed
	PhaseStarted           = journal.PhaseStarted
	PhaseCompleted         = journal.PhaseCompleted
	PhaseFailed            = journal.PhaseFailed
)

// ReasonDuplicate is the reason of a [StepSkipped] whose effect had already happened.
const ReasonDuplicate = journal.ReasonDuplicate
