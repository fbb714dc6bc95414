package perdure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Letter is a dead letter: a step has failed for good, and the run with it, and an
// operator is to look at that.
type Letter struct {
	ID         string          `json:"id,omitempty"` // of the letter: the same for all runs that retry one another
	Workflow   string          `json:"workflow"`
	WorkflowID string          `json:"workflow_id"`
	RunID      journal.RunID   `json:"run_id"` // the last one that has failed
	Pattern    journal.Pattern `json:"pattern,omitempty"`
	Step       string          `json:"step,omitempty"` // its path, with its key; empty where the code failed without a step
	Status     journal.Status  `json:"status"`         // of the run when the step was given up, or that it ended with
	Error      string          `json:"error"`
	Code       journal.Code    `json:"code,omitempty"`      // of an [Error] in its chain
	Type       string          `json:"type,omitempty"`      // of the error: its registered name, else its Go type
	Input      json.RawMessage `json:"input,omitempty"`     // of the run
	Retries    int             `json:"retries,omitempty"`   // how often it was retried
	CreatedAt  time.Time       `json:"created_at,omitzero"` // when the step failed first
	RetriedAt  time.Time       `json:"retried_at,omitzero"` // last
	Damaged    string          `json:"damaged,omitempty"`   // why a part of it cannot be read: then the rest is as far as it can; empty for a whole one
}

// DeadLetter keeps for an operator that a step of the run of ctx has failed for good
// with err: a pattern calls it in workflow code before the run fails. The letter is
// durable in the commit of the turn, and observers are told. It is open until it is
// deleted, or a run that retries this one comes past the step; one that fails at the
// same step again is in the same letter. A [Key] is that of the step.
//
// The run is kept for as long as Options.KeepDeadLettered says.
func DeadLetter(ctx context.Context, step string, err error, opts ...BranchOption) error {
	o, e := branchOptions("dead-letter", step, opts)
	switch {
	case e != nil:
		return e
	case err == nil:
		return invalid("dead-letter "+step, "an error is needed")
	}
	return deadLetter(ctx, step, o.key, step, toFailure(err))
}

// deadLetter writes a letter that is found as about that step.
func deadLetter(ctx context.Context, step, key, shown string, f *journal.Failure) error {
	head, input, err := kernel.About(ctx)
	if err != nil {
		return err
	}
	l := Letter{
		Workflow: head.Workflow, WorkflowID: head.WorkflowID, RunID: head.ID, Pattern: head.Pattern, Status: head.Status,
		Input: input,
	}
	if shown != "" {
		l.Step = kernel.Within(ctx) + journal.Op{Name: shown, Key: key}.String()
	}
	l.fail(f)
	if len(input) > 0 && !json.Valid(input) {
		l.Input, _ = json.Marshal(input) // a []byte always encodes
	}
	data, err := encode(l)
	if err != nil {
		return err
	}
	l.Input = nil
	again, err := encode(l)
	if err != nil {
		return err
	}
	letter := kernel.Letter{
		Step: step, Key: key, Failure: f, Data: data, Again: again,
		Attributes: map[string]string{letterOfWorkflow: l.Workflow, letterOfID: l.WorkflowID},
	}
	if err = kernel.DeadLetter(ctx, letter); errors.Is(err, &Error{Code: journal.CodeTooLarge}) {
		letter.Data = again // better without its input than not at all
		err = kernel.DeadLetter(ctx, letter)
	}
	return err
}

// The search attributes of letters.
const (
	letterOfWorkflow = "perdure.workflow"
	letterOfID       = "perdure.workflow-id"
)

// fail says what the error was.
func (l *Letter) fail(f *journal.Failure) {
	if f != nil {
		l.Error, l.Code, l.Type = f.Message, f.CodeOf(), cmp.Or(f.Name, f.Type)
	}
}

// DeadLetters is an option of a workflow: a run of it that FAILS writes one dead letter,
// for the step or child by whose error it does, else for the last one that has failed.
// Without it, or with false, the workflow's code writes its own by [DeadLetter].
type DeadLetters bool

func (d DeadLetters) workflow(w *workflow) error {
	w.letters = d
	return nil
}

// lettersKey is the key under which the context of a workflow says that its failure is
// dead-lettered.
type lettersKey struct{}

// around gives a body whose failure is dead-lettered, where that is wanted.
func (d DeadLetters) around(body func(context.Context, []byte) ([]byte, *journal.Failure)) func(context.Context, []byte) ([]byte, *journal.Failure) {
	if !d {
		return body
	}
	return func(ctx context.Context, input []byte) ([]byte, *journal.Failure) {
		ctx = context.WithValue(ctx, lettersKey{}, d)
		data, f := body(ctx, input)
		if f == nil {
			return data, f
		}
		if c := f.OwnClass(); c != nil && (c.Class == journal.ClassRetry || c.Class == journal.ClassPark) {
			return data, f // it goes on
		}
		_ = letterOf(ctx, f) // an error says that the run is over already, or not for long here
		return data, f
	}
}

// letterOf writes the letter of a run that fails with f.
func letterOf(ctx context.Context, f *journal.Failure) error {
	name, key := kernel.FailedBy(ctx, f)
	if name != "" {
		return deadLetter(ctx, name, key, name, f)
	}
	head, _, err := kernel.About(ctx)
	if err != nil {
		return err
	}
	return deadLetter(ctx, head.Workflow, "", "", f)
}

// handOver is how a letter gets to who takes it instead of the queue: as often as it
// takes.
var handOver = Retry{Attempts: math.MaxInt, First: time.Second, Factor: 2}

// letterWorkflow is what a letter does: it waits until it is settled. Where somebody
// else takes letters, it goes there.
func letterWorkflow(take func(context.Context, Letter) error) *Workflow[Letter, Letter] {
	return define(kernel.LetterWorkflow, func(ctx context.Context, l Letter) (Letter, error) {
		info, err := InfoOf(ctx)
		if err != nil {
			return l, err
		}
		l.ID, l.CreatedAt = info.WorkflowID, info.Started
		if take != nil {
			return Step(ctx, "hand-over", func(ctx context.Context) (Letter, error) { return l, take(ctx, l) }, handOver)
		}
		for settled := false; !settled; {
			out, err := kernel.Receive(ctx, kernel.Wait{Name: kernel.LetterNews})
			n, err := result[kernel.News]("dead letter", l.ID, out, err)
			if err != nil {
				return l, err
			}
			settled = l.hear(n)
		}
		return l, nil
	})
}

// hear takes in what has become of what the letter is about. It says whether that is
// settled.
func (l *Letter) hear(n kernel.News) bool {
	switch {
	case n.Retried != nil:
		l.Retries++
		l.RetriedAt = n.Retried.At
	case n.Ended != nil && n.Ended.Done:
		return true
	case n.Ended != nil:
		l.RunID = n.Ended.Run
		l.Status, _ = journal.ParseStatus(n.Ended.Status)
		l.fail(n.Ended.Failure)
	case n.Failed != nil:
		again := Letter{}
		if json.Unmarshal(n.Failed, &again) == nil {
			l.RunID, l.Status, l.Error, l.Code, l.Type = again.RunID, again.Status, again.Error, again.Code, again.Type
		}
	}
	return false
}
