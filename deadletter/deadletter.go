// Package deadletter has dead letters: what is kept for an operator when a run has failed for
// good. Package admin lists and retries them.
package deadletter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Letter is a dead letter: a step has failed for good, and the run with it, and an
// operator is to look at that. It may also be about a failure elsewhere: admin.Client.AddDeadLetter
// adds such a letter.
type Letter struct {
	// of the letter: the same for all runs that retry one another
	ID         string `json:"id,omitempty"`
	Workflow   string `json:"workflow"`
	WorkflowID string `json:"workflow_id"`
	// the last one that has failed; empty for a letter that was added from outside
	RunID   string          `json:"run_id"`
	Pattern journal.Pattern `json:"pattern,omitempty"`
	// its path, with its key; empty where the code failed without a step
	Step string `json:"step,omitempty"`
	// of the run when the step failed, or that it ended with
	Status journal.Status `json:"status"`
	Error  string         `json:"error"`
	Code   journal.Code   `json:"code,omitempty"` // of a [journal.Error] in its chain
	// of the error: its registered name, else its Go type
	Type      string          `json:"type,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`     // of the run
	Retries   int             `json:"retries,omitempty"`   // how often it was retried
	CreatedAt time.Time       `json:"created_at,omitzero"` // when the step failed first
	RetriedAt time.Time       `json:"retried_at,omitzero"` // last
	HandledAt time.Time       `json:"handled_at,omitzero"` // when it was marked as handled
	Note      string          `json:"note,omitempty"`      // of that mark: by whom it was, or why
	// why a part of it cannot be read: then the rest is as far as it can; empty for a whole one
	Damaged string `json:"damaged,omitempty"`
}

// An Option is one of a branch, such as a perdure.Key.
type Option interface {
	ApplyToBranch(o *sealed.Operation) error
}

// At is an option of [Add]: the status of the run when the step failed, for a pattern that has
// set another one since.
type At journal.Status

func (a At) ApplyToBranch(o *sealed.Operation) error {
	o.Status = journal.Status(a)
	return nil
}

// Add keeps for an operator that a step of the run of ctx has failed for good
// with err: a pattern calls it in workflow code before the run fails. The letter is
// durable in the commit of the turn, and observers are told. It is open until it is deleted or
// marked as handled, or a run that retries this one comes past the step; one that fails at the
// same step again is in the same letter. A perdure.Key is that of the step.
//
// The run is kept for as long as Options.KeepDeadLettered says.
func Add(ctx context.Context, step string, err error, opts ...Option) error {
	o, e := sealed.Branch("dead-letter", step, opts)
	switch {
	case e != nil:
		return e
	case err == nil:
		return failure.Invalid("dead-letter "+step, "an error is needed")
	}
	return add(ctx, step, o.Key, step, o.Status, failure.Of(err))
}

// add writes a letter that is found as about that step. A status that is zero is the present
// one of the run.
func add(
	ctx context.Context, step, key, shown string, status journal.Status, f *journal.Failure,
) error {
	head, input, err := kernel.About(ctx)
	if err != nil {
		return err
	}
	l := Letter{
		Workflow: head.Workflow, WorkflowID: head.WorkflowID, RunID: string(head.ID),
		Pattern: head.Pattern, Status: cmp.Or(status, head.Status), Input: input,
	}
	if shown != "" {
		l.Step = kernel.Within(ctx) + journal.Op{Name: shown, Key: key}.String()
	}
	l.fail(f)
	if len(input) > 0 && !json.Valid(input) {
		l.Input, _ = json.Marshal(input) // a []byte always encodes
	}
	letter, err := l.Kernel()
	if err != nil {
		return err
	}
	letter.Step, letter.Key, letter.Failure = step, key, f
	err = kernel.AddDeadLetter(ctx, letter)
	if errors.Is(err, &journal.Error{Code: journal.CodeTooLarge}) {
		letter.Data = letter.Again // better without its input than not at all
		err = kernel.AddDeadLetter(ctx, letter)
	}
	return err
}

// Kernel returns the kernel's form of a letter. It is for package admin.
func (l Letter) Kernel() (kernel.DeadLetter, error) {
	data, err := payload.Encode(l)
	if err != nil {
		return kernel.DeadLetter{}, err
	}
	l.Input = nil
	again, err := payload.Encode(l)
	if err != nil {
		return kernel.DeadLetter{}, err
	}
	attributes := map[string]string{AttributeWorkflow: l.Workflow}
	if l.WorkflowID != "" {
		attributes[AttributeID] = l.WorkflowID
	}
	return kernel.DeadLetter{Data: data, Again: again, Attributes: attributes}, nil
}

// The search attributes of letters.
const (
	AttributeWorkflow = "perdure.workflow"
	AttributeID       = "perdure.workflow-id"
	AttributeHandled  = "perdure.handled" // "true" when it was marked as handled
)

// fail sets the fields that describe the error.
func (l *Letter) fail(f *journal.Failure) {
	if f != nil {
		l.Error, l.Code, l.Type = f.Message, f.CodeOf(), cmp.Or(f.Name, f.Type)
	}
}

// ForFailure writes the letter of a run that fails with f.
func ForFailure(ctx context.Context, f *journal.Failure) error {
	name, key := kernel.FailedBy(ctx, f)
	if name != "" {
		return add(ctx, name, key, name, 0, f)
	}
	head, _, err := kernel.About(ctx)
	if err != nil {
		return err
	}
	return add(ctx, head.Workflow, "", "", 0, f)
}

// Hear takes in what has become of what the letter is about. It reports whether that is
// settled.
func (l *Letter) Hear(n kernel.News) bool {
	switch {
	case n.Retried != nil:
		l.Retries++
		l.RetriedAt = n.Retried.At
	case n.Handled != nil:
		l.HandledAt, l.Note = n.Handled.At, n.Handled.Note
		return true
	case n.Ended != nil && n.Ended.Done:
		return true
	case n.Ended != nil:
		l.RunID = string(n.Ended.Run)
		l.Status, _ = journal.ParseStatus(n.Ended.Status)
		l.fail(n.Ended.Failure)
	case n.Failed != nil:
		again := Letter{}
		if json.Unmarshal(n.Failed, &again) == nil {
			l.RunID, l.Status, l.Error = again.RunID, again.Status, again.Error
			l.Code, l.Type = again.Code, again.Type
		}
	}
	return false
}

// Automatic is an option of a workflow: a run of it that FAILS writes one dead letter, about the
// step or child whose error the run failed with. If there is none, it is about the last one that
// has failed.
// Without it, or with false, the workflow's code writes its own by [Add].
type Automatic bool

func (d Automatic) ApplyToWorkflow(w *sealed.Workflow) error {
	w.DeadLetters = bool(d)
	return nil
}
