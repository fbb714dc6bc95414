package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A DeadLetterQuery selects dead letters. A zero field does not limit the selection.
type DeadLetterQuery struct {
	Workflow   string
	WorkflowID string
	// Handled selects the dead letters that were marked as handled, instead of the open ones.
	Handled bool
	After   journal.Cursor // the cursor that the last page returned
	Limit   int            // 0 means 100; at most 1,000
}

func (q DeadLetterQuery) filter() store.Filter {
	f := store.Filter{
		Workflow:   kernel.DeadLetterWorkflow,
		Open:       !q.Handled,
		After:      q.After,
		Limit:      q.Limit,
		Attributes: map[string]string{},
	}
	if q.Workflow != "" {
		f.Attributes[deadletter.AttributeWorkflow] = q.Workflow
	}
	if q.WorkflowID != "" {
		f.Attributes[deadletter.AttributeID] = q.WorkflowID
	}
	if q.Handled {
		f.Attributes[deadletter.AttributeHandled] = "true"
	}
	return f
}

func noLetter(op string) error {
	return &perdure.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no open dead letter has this ID",
	}
}

// DeadLetters returns the open dead letters that the query selects, or the handled ones, newest
// first. It also returns the cursor of the next page, which is zero if there is no next page. A
// page may have fewer dead letters than its limit. A dead letter that is damaged is in the list,
// with the damage in its field Damaged.
func (a *Client) DeadLetters(ctx context.Context, q DeadLetterQuery) ([]deadletter.Letter,
	journal.Cursor, error) {
	heads, next, err := a.client.FrontEnd.Heads(ctx, q.filter())
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	var out []deadletter.Letter
	for _, h := range heads {
		l, open, err := a.readLetter(ctx, h)
		if err != nil {
			return nil, journal.Cursor{}, err
		}
		if open != q.Handled {
			out = append(out, l)
		}
	}
	return out, next, nil
}

// CountDeadLetters returns the number of open dead letters that the query selects, or of the
// handled ones, whatever its cursor and limit. It stops at 10,000, and reports whether there may be
// more. It may still count a dead letter as open that was settled just now.
func (a *Client) CountDeadLetters(ctx context.Context, q DeadLetterQuery) (n int, more bool,
	err error) {
	f := q.filter()
	f.After = journal.Cursor{}
	for {
		f.Limit = min(store.MaxLimit, store.MaxCounted-n)
		heads, next, err := a.client.FrontEnd.Heads(ctx, f)
		n, f.After = n+len(heads), next
		if err != nil || next.IsZero() || n == store.MaxCounted {
			return n, !next.IsZero(), err
		}
	}
}

// DeadLetter returns an open dead letter by its ID. If there is none, it returns a [perdure.Error]
// of code not_found.
func (a *Client) DeadLetter(ctx context.Context, id string) (deadletter.Letter, error) {
	_, l, err := a.letter(ctx, "dead letter "+id, id)
	return l, err
}

// AddDeadLetter adds a dead letter about a failure that no run of this store has: in another
// system, or in a message that nobody could process. It is in the lists and counts of dead letters
// as any other, until it is marked as handled or deleted. If Options.DeadLetters is set, that gets
// it instead. AddDeadLetter returns the ID of the dead letter, which is durable then. Observers are
// not told.
//
// l has the Workflow that the failure belongs to, whatever that is in the other system, and the
// Error. It may have a WorkflowID, Pattern, Step, Status, Code, Type and Input. Zero Status means
// FAILED. The other fields are zero. While a dead letter that was added for the same Workflow,
// WorkflowID and Step is open, it gets the new Status, Error, Code and Type, and there is no second
// one, so a call may be repeated. Without a WorkflowID each call adds one.
func (a *Client) AddDeadLetter(ctx context.Context, l deadletter.Letter) (id string, err error) {
	if err := a.client.Outside(ctx, "add dead letter"); err != nil {
		return "", err
	}
	if err := checkAdded(&l); err != nil {
		return "", err
	}
	letter, err := l.Kernel()
	if err != nil {
		return "", err
	}
	about := ""
	if l.WorkflowID != "" {
		about = l.Workflow + " " + l.WorkflowID + " " + l.Step // none has a space
	}
	return a.client.FrontEnd.AddDeadLetter(ctx, about, letter)
}

// checkAdded refuses a dead letter that cannot be added from outside, and completes it.
func checkAdded(l *deadletter.Letter) error {
	const op = "add dead letter"
	set := l.ID != "" || l.RunID != "" || l.Retries != 0 || l.Note != "" || l.Damaged != "" ||
		!l.CreatedAt.IsZero() || !l.RetriedAt.IsZero() || !l.HandledAt.IsZero()
	switch {
	case set:
		return failure.Invalid(op, "ID, RunID, Retries, Note, Damaged and the times are not zero")
	case !journal.ValidName(l.Workflow):
		return failure.BadName("workflow", l.Workflow)
	case l.WorkflowID != "" && !journal.ValidWorkflowID(l.WorkflowID):
		return failure.BadWorkflowID(l.WorkflowID)
	case l.Step != "" && !journal.ValidWorkflowID(l.Step): // it is shown with its path
		return failure.Invalid(op, "step %s is not valid: allowed are 1 to 255 bytes of printable "+
			"UTF-8 without spaces", failure.Quoted(l.Step))
	case !l.Pattern.Valid():
		return failure.Invalid(op, "pattern %d is not valid", l.Pattern)
	case l.Status != 0 && !l.Status.Valid():
		return failure.Invalid(op, "status %d is not valid", l.Status)
	case l.Error == "":
		return failure.Invalid(op, "an error is needed")
	case len(l.Input) > 0 && !json.Valid(l.Input):
		return failure.Invalid(op, "the input is not JSON")
	}
	l.Status = cmp.Or(l.Status, journal.Failed)
	l.Error, l.Type = failure.Clip(l.Error), failure.Clip(l.Type)
	l.Code = journal.Code(failure.Clip(string(l.Code)))
	return nil
}

// MarkHandled marks an open dead letter as handled: somebody has dealt with the failure, and there
// is nothing to retry. note is kept with it: by whom or why. The run that it is about stays as it
// is. From then on the dead letter is not open; a query with Handled finds it as soon as an engine
// has read the mark, for as long as the engine keeps runs that have ended. If the run is retried
// later and fails again, there is a new dead letter. If no open dead letter has the ID, MarkHandled
// returns a [perdure.Error] of code not_found. A dead letter that is too damaged to be read cannot
// be marked, and the error has the code corrupt.
func (a *Client) MarkHandled(ctx context.Context, id, note string) error {
	op := "handle dead letter " + id
	if err := a.client.Outside(ctx, op); err != nil {
		return err
	}
	_, l, err := a.letter(ctx, op, id)
	if err != nil {
		return err
	}
	if l.Damaged != "" {
		return &perdure.Error{
			Code: journal.CodeCorrupt, Op: op, Message: l.Damaged, Hint: "delete the dead letter",
		}
	}
	err = a.client.FrontEnd.HandleDeadLetter(ctx, id, failure.Clip(note))
	if code := journal.CodeOf(err); code == journal.CodeWrongState || code == journal.CodeNotFound {
		return noLetter(op) // it was settled meanwhile
	}
	return err
}

// DeleteDeadLetter ends a dead letter. The run that it is about stays as it is. The journal of the
// dead letter records by whom and why.
func (a *Client) DeleteDeadLetter(ctx context.Context, id string, by Note) error {
	op := "delete dead letter " + id
	if err := a.client.Outside(ctx, op); err != nil {
		return err
	}
	if err := by.check(op); err != nil {
		return err
	}
	h, _, err := a.letter(ctx, op, id)
	if err != nil {
		return err
	}
	if err := a.client.Runs.Cancel(ctx, string(h.ID), kernel.Why{
		By: by.By, Reason: cmp.Or(by.Reason, "deleted"),
	}); journal.CodeOf(err) == journal.CodeWrongState {
		return noLetter(op) // it was settled meanwhile
	} else if err != nil {
		return err
	}
	return nil
}

// RetryDeadLetter retries the run of a dead letter from the failed step; see
// [perdure.Client.Retry]. The same commit counts the retry in the dead letter. The dead letter ends
// by itself when the new run has passed the step, and gets the new error if the new run fails
// there. Children are retried with the run, and their dead letters are settled too. Several calls
// make one run, until that run has failed. If the run does not exist any more, RetryDeadLetter
// returns an error of code not_found. If the dead letter is too damaged to name its run, it returns
// an error of code corrupt. If it was added from outside, it has no run, and the error has the code
// wrong_state.
func (a *Client) RetryDeadLetter(ctx context.Context, id string) (*perdure.Run[json.RawMessage],
	error) {
	op := "retry dead letter " + id
	l, err := a.letterOfRun(ctx, op, id)
	if err != nil {
		return nil, err
	}
	run, err := a.caller.Retry(ctx, l.RunID)
	return run, purged(op, l, err)
}

// ActOnDeadLetter retries the run of a dead letter as [Client.RetryDeadLetter] does, or skips the
// failed step, or forks the run. The journal records by whom and why.
func (a *Client) ActOnDeadLetter(ctx context.Context, id string, do Order) (Acted, error) {
	op := string(do.Action) + " dead letter " + id
	if !do.Action.GoesOn() || do.Action == journal.ActionCompensate {
		return Acted{}, failure.Invalid(op, "action %s is not valid: allowed are retry, skip, fork",
			failure.Quoted(string(do.Action)))
	}
	l, err := a.letterOfRun(ctx, op, id)
	if err != nil {
		return Acted{}, err
	}
	if _, err := a.client.FrontEnd.Find(ctx, l.RunID); err != nil {
		return Acted{}, purged(op, l, err)
	}
	return a.Act(ctx, l.RunID, do)
}

// letterOfRun returns an open dead letter that a run has written.
func (a *Client) letterOfRun(ctx context.Context, op, id string) (deadletter.Letter, error) {
	_, l, err := a.letter(ctx, op, id)
	switch {
	case err != nil:
		return l, err
	case l.RunID == "" && l.Damaged == "":
		return l, &perdure.Error{
			Code: journal.CodeWrongState, Op: op,
			Message: "it was added from outside: there is no run to retry",
			Hint:    "repeat the work where it has failed, and mark the dead letter as handled",
		}
	case l.RunID == "":
		return l, &perdure.Error{
			Code: journal.CodeCorrupt, Op: op, Message: l.Damaged,
			Hint: "retry the failed run by its own run ID, and delete the letter",
		}
	}
	return l, nil
}

// purged returns the error of an action on the run of a dead letter. It explains that the run is
// gone.
func purged(op string, l deadletter.Letter, err error) error {
	if !errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}) {
		return err
	}
	return &perdure.Error{
		Code: journal.CodeNotFound, Op: op, Message: "run " + string(l.RunID) +
			" of workflow ID " + l.WorkflowID + " was removed when its retention was over",
		Hint: "start it anew with the input that the letter has, and delete the letter",
	}
}

// letter returns an open dead letter and the head of its run.
func (a *Client) letter(ctx context.Context, op, id string) (journal.Head, deadletter.Letter,
	error) {
	if !journal.ValidWorkflowID(id) {
		return journal.Head{}, deadletter.Letter{}, failure.BadWorkflowID(id)
	}
	heads, _, err := a.client.FrontEnd.Heads(ctx, store.Filter{
		WorkflowIDs: []string{id}, Newest: true, Workflow: kernel.DeadLetterWorkflow, Open: true,
		Limit: 1,
	})
	if err != nil {
		return journal.Head{}, deadletter.Letter{}, err
	}
	for _, h := range heads {
		l, open, err := a.readLetter(ctx, h)
		if err != nil || open {
			return h, l, err
		}
	}
	return journal.Head{}, deadletter.Letter{}, noLetter(op)
}

// readLetter returns a dead letter with all its news, also the news that it has not read yet, and
// reports whether it is still open. A damaged dead letter has the damage in its field Damaged, so
// that the other dead letters can be read.
func (a *Client) readLetter(ctx context.Context, h journal.Head) (deadletter.Letter, bool, error) {
	var l deadletter.Letter
	damage := func(err error) error {
		if !failure.IsDamaged(err) {
			return err
		}
		l.Damaged = err.Error()
		return nil
	}
	inbox, err := a.client.FrontEnd.Read(ctx, h, store.Range{Inbox: true, Payloads: true})
	if err = damage(err); err != nil {
		return deadletter.Letter{}, false, err
	}
	entries, err := a.client.FrontEnd.Read(ctx, h, store.Range{Payloads: true})
	if err = damage(err); err != nil || len(entries) == 0 && l.Damaged == "" {
		return deadletter.Letter{}, false, err
	}
	if len(entries) > 0 && entries[0].Seq == 1 {
		read, err := payload.Decode[deadletter.Letter](entries[0].Data)
		if err != nil {
			read.Damaged = payload.DecodeError("dead letter "+h.WorkflowID, read, err).Error()
		}
		read.Damaged = cmp.Or(l.Damaged, read.Damaged)
		l = read
	}
	l.ID, l.CreatedAt = h.WorkflowID, h.Created
	open, last := true, int64(0)
	hear := func(e *journal.Entry) {
		n, err := payload.Decode[kernel.News](e.Data)
		open = open && (err != nil || !l.Hear(n))
	}
	for i := range entries {
		e := &entries[i]
		if e.Kind == journal.SignalConsumed && e.Op.Name == kernel.DeadLetterNews &&
			e.Detail != nil {
			hear(e)
			last = e.Detail.Mail
		}
		open = open && !e.Kind.EndsRun()
	}
	for i := range inbox {
		switch e := &inbox[i]; {
		case e.Kind == journal.CancelAsked:
			open = false
		case e.Op.Name == kernel.DeadLetterNews && e.Seq > last: // not in entries yet
			hear(e)
		}
	}
	return l, open, nil
}
