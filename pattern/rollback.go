package pattern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// An Undo is the compensation of something that a run has done.
type Undo struct {
	Name, Key string // of the step; the operation is undo:NAME[KEY]
	Call      TaskFunc
	Given     Sources
	Retry     *perdure.Retry // nil means one attempt
	Default   bool           // without Retry, the policy of the workflow decides
	Timeout   time.Duration  // of an attempt; 0 means five minutes
	Occ       int            // the occurrence of the step; 0 for the first
	Parks     bool           // as [Rollback.Parks], for this one
	// Of is the context of the branch or scope whose step it was. Nil means that of the rollback.
	Of context.Context
}

// A Rollback undoes what a run has done, the last first, in the order of completion. The zero value
// has nothing to undo. It is a part of workflow code: a replay makes it anew.
type Rollback struct {
	// Parks reports what follows when a compensation has failed for good: it waits for an operator,
	// who chooses retry, skip or handled; else it is passed over.
	Parks bool

	open   []*Undo // in the order of completion
	mu     sync.RWMutex
	undone map[string]json.RawMessage // by the name and key of the step
	failed map[string]error
}

// Done adds what the run has done last.
func (r *Rollback) Done(u Undo) { r.open = append(r.open, &u) }

// Open returns the number of compensations that have not been undone. A compensation that was
// passed over is one of them.
func (r *Rollback) Open() int { return len(r.open) }

// Run undoes one after the other, and records the verdict of each. Meanwhile the run is
// COMPENSATING, and neither a cancel nor its timeout ends it. Only what is undone, or what an
// operator has handled, is removed. If Run is called again, it tries the rest. If nothing is open,
// it does nothing. It fails only if the run ends meanwhile. The status stays COMPENSATING. It is
// workflow code.
func (r *Rollback) Run(ctx context.Context) error {
	if len(r.open) == 0 {
		return nil
	}
	if err := SetStatus(ctx, perdure.StatusCompensating); err != nil {
		return err
	}
	if err := Record(ctx, Fact{
		Kind: CompensationStarted, Name: "compensation", Reason: "BEST_EFFORT_SEQUENTIAL",
	}); err != nil {
		return err
	}
	for _, u := range slices.Backward(slices.Clone(r.open)) {
		if err := r.undo(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// Failed returns the error of the first compensation that could not be undone, made by
// [FailedUndo]. It returns nil if everything is undone. The first is the first that the run has
// done.
func (r *Rollback) Failed() error {
	if len(r.open) == 0 {
		return nil
	}
	u := r.open[0]
	err := r.errorOf(u.id())
	if err == nil {
		err = errors.New("its compensation was not tried")
	}
	return FailedUndo(u.id(), err)
}

// undo undoes one step and records the verdict, for the scope that the step was in.
func (r *Rollback) undo(ctx context.Context, u *Undo) error {
	if u.Of != nil {
		var err error
		if ctx, err = perdure.Scope(ctx, "undo", StandsFor(u.Of)); err != nil {
			return err
		}
	}
	fact := Fact{Kind: StepCompensated, Name: u.Name, Key: u.Key, Occ: u.Occ}
	out, err := r.try(ctx, u)
	for err != nil && (r.Parks || u.Parks) && fact.Reason == "" {
		d, e := ParkUndo(ctx, u.Name, u.Key, len(r.open), FailedUndo(u.id(), err))
		switch {
		case e != nil:
			return e
		case d.Choice == ChoiceHandled:
			fact.Reason = "handled by an operator: " + d.Reason
		case d.Choice == ChoiceSkip:
			fact.Kind, fact.Reason = StepCompensationFailed, "skipped by an operator: "+d.Reason
		default:
			out, err = r.try(ctx, u)
		}
	}
	if over := EndedBy(ctx); over != nil {
		return over
	}
	if err != nil && fact.Reason == "" {
		fact.Kind = StepCompensationFailed
	}
	r.mu.Lock()
	if r.failed == nil {
		r.failed, r.undone = map[string]error{}, map[string]json.RawMessage{}
	}
	r.failed[u.id()] = err
	if fact.Kind == StepCompensated {
		r.undone[u.id()] = out
		r.open = slices.DeleteFunc(r.open, func(o *Undo) bool { return o == u })
	}
	r.mu.Unlock()
	fact.Err = err
	return Record(ctx, fact)
}

// try runs the compensation as a step. Its argument can be made of what was undone before.
func (r *Rollback) try(ctx context.Context, u *Undo) (json.RawMessage, error) {
	t := Task{
		Name: u.Name, Key: u.Key, Phase: perdure.PhaseUndo, Call: u.Call, Retry: u.Retry,
		Timeout: u.Timeout, Occ: u.Occ,
	}
	if t.Retry == nil && !u.Default {
		t.Retry = &perdure.NoRetry
	}
	given := u.Given
	if given.Undone == nil {
		given.Undone = func(id string) (json.RawMessage, bool) {
			r.mu.RLock()
			defer r.mu.RUnlock()
			out, found := r.undone[id]
			return out, found
		}
	}
	if given.UndoError == nil {
		given.UndoError = r.errorOf
	}
	return t.Run(ctx, given)
}

func (r *Rollback) errorOf(id string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.failed[id]
}

// id returns the text that stands for the step in errors and sources.
func (u *Undo) id() string {
	return journal.Op{Name: u.Name, Key: u.Key, Occ: max(u.Occ, 1)}.String()
}

// The choices of an operator for a compensation that has failed for good.
const (
	ChoiceRetry   = "retry"   // try it again
	ChoiceSkip    = "skip"    // leave it as it is, and undo the rest
	ChoiceHandled = "handled" // it counts as undone
)

// ParkUndo waits for an operator to decide about the compensation of the step name[key], which has
// failed for good. err is an error of [FailedUndo]. open is the number of compensations that are
// not undone, with this one. Meanwhile the run is COMPENSATION_FAILED.
func ParkUndo(ctx context.Context, name, key string, open int, err error) (perdure.Decision,
	error) {
	if over := EndedBy(ctx); over != nil {
		return perdure.Decision{}, over
	}
	reason := fmt.Sprintf("rollback incomplete: %d not yet undone: %v", open, err)
	return Park(ctx, perdure.PhaseUndo.Of(name), key, reason, ChoiceRetry, ChoiceSkip,
		ChoiceHandled)
}
