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

// A DeadLetterQuery says which dead letters are meant; zero fields do not limit.
type DeadLetterQuery struct {
	Workflow   string
	WorkflowID string
	After      journal.Number // the cursor that the page before gave
	Limit      int            // 0 for 100; at most 1,000
}

func (q DeadLetterQuery) filter() store.Filter {
	f := store.Filter{
		Workflow:   kernel.DeadLetterWorkflow,
		Open:       true,
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
	return f
}

func noLetter(op string) error {
	return &perdure.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no open dead letter has this ID",
	}
}

// DeadLetters returns the open dead letters by query, newest first, and the cursor of the
// next page; zero when there is none. A page may have fewer than it could. One that cannot
// be read whole is among them, and says so.
func (a *Client) DeadLetters(ctx context.Context, q DeadLetterQuery) ([]deadletter.Letter,
	journal.Number, error) {
	heads, next, err := a.client.FrontEnd.Heads(ctx, q.filter())
	if err != nil {
		return nil, 0, err
	}
	var out []deadletter.Letter
	for _, h := range heads {
		l, open, err := a.readLetter(ctx, h)
		if err != nil {
			return nil, 0, err
		}
		if open {
			out = append(out, l)
		}
	}
	return out, next, nil
}

// CountDeadLetters counts the open dead letters by query, whatever its cursor and limit.
// One that was settled just now may be counted still.
func (a *Client) CountDeadLetters(ctx context.Context, q DeadLetterQuery) (int, error) {
	f := q.filter()
	f.After, f.Limit = 0, store.MaxLimit
	for n := 0; ; {
		heads, next, err := a.client.FrontEnd.Heads(ctx, f)
		if n += len(heads); err != nil || next == 0 {
			return n, err
		}
		f.After = next
	}
}

// DeadLetter returns an open dead letter by its ID, and a [perdure.Error] of code not_found where
// there is none.
func (a *Client) DeadLetter(ctx context.Context, id string) (deadletter.Letter, error) {
	_, l, err := a.letter(ctx, "dead letter "+id, id)
	return l, err
}

// DeleteDeadLetter ends a dead letter. What it is about stays as it is.
func (a *Client) DeleteDeadLetter(ctx context.Context, id string) error {
	op := "delete dead letter " + id
	h, _, err := a.letter(ctx, op, id)
	if err != nil {
		return err
	}
	if err := a.client.Runs.Cancel(ctx, string(h.ID),
		"deleted"); journal.CodeOf(err) == journal.CodeWrongState {
		return noLetter(op) // it was settled meanwhile
	} else if err != nil {
		return err
	}
	return nil
}

// RetryDeadLetter retries the run that a dead letter is about from the failed step; see
// [perdure.Client.Retry]. In the same commit the letter counts that. It ends by itself when the
// new run comes past the step, and has the new error where that fails. Children are retried
// with it, and their letters are settled too. Several calls
// make one run, until that has failed. Of a run that is not here any more it returns an
// error of code not_found, and of a letter too damaged to name its run one of code corrupt.
func (a *Client) RetryDeadLetter(ctx context.Context, id string) (*perdure.Run[json.RawMessage],
	error) {
	op := "retry dead letter " + id
	_, l, err := a.letter(ctx, op, id)
	if err != nil {
		return nil, err
	}
	if l.RunID == "" {
		return nil, &perdure.Error{
			Code: journal.CodeCorrupt, Op: op, Message: l.Damaged,
			Hint: "retry the failed run by its own run ID, and delete the letter",
		}
	}
	run, err := a.caller.Retry(ctx, string(l.RunID))
	if errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}) {
		return nil, &perdure.Error{
			Code: journal.CodeNotFound, Op: op, Message: "run " + string(l.RunID) +
				" of workflow ID " + l.WorkflowID + " was removed when its retention was over",
			Hint: "start it anew with the input that the letter has, and delete the letter",
		}
	}
	return run, err
}

// letter returns an open dead letter and the head of its run.
func (a *Client) letter(ctx context.Context, op, id string) (journal.Head, deadletter.Letter,
	error) {
	if !journal.ValidWorkflowID(id) {
		return journal.Head{}, deadletter.Letter{}, failure.BadWorkflowID(id)
	}
	heads, _, err := a.client.FrontEnd.Heads(ctx, store.Filter{
		WorkflowID: id, Workflow: kernel.DeadLetterWorkflow, Open: true, Limit: 1,
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

// readLetter returns a letter with all that it has heard, also what it has not read yet,
// and whether it is open still. One that is damaged says so, and keeps nobody from reading
// of the others.
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
		case e.Op.Name == kernel.DeadLetterNews && e.Seq > last: // it may have been read meanwhile
			hear(e)
		}
	}
	return l, open, nil
}
