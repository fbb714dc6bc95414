package kernel

import (
	"context"
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Find gives the head of a run by its run ID, or by its workflow ID: then the
// newest one.
func (k *Kernel) Find(ctx context.Context, id string) (journal.Head, error) {
	op := "find " + id
	if !journal.ValidName(id) {
		return journal.Head{}, invalidID(op, id)
	}
	for _, f := range []store.Filter{{Run: journal.RunID(id), Limit: 1}, {WorkflowID: id, Limit: 1}} {
		heads, _, err := k.store.Find(ctx, f)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return journal.Head{}, k.unavailable(op, err)
		}
		if len(heads) > 0 {
			return heads[0], nil
		}
	}
	return journal.Head{}, &journal.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no run has this run ID or workflow ID",
	}
}

func invalidID(op, id string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Op: op, Message: "not an ID: " + quote(id),
		Hint: "IDs and names are 1 to 255 of A-Z a-z 0-9 . _ : -",
	}
}

// History gives entries of a run's journal from a sequence on, with spilled
// payloads; limit 0 for all.
func (k *Kernel) History(ctx context.Context, id string, from int64, limit int) (journal.Head, []journal.Entry, error) {
	head, err := k.Find(ctx, id)
	if err != nil {
		return journal.Head{}, nil, err
	}
	entries, err := k.store.Load(ctx, head.Number, store.Range{From: from, Limit: limit, Payloads: true})
	if err != nil {
		var corrupt *journal.CorruptError
		if errors.As(err, &corrupt) {
			return head, entries, &journal.Error{Code: journal.CodeCorrupt, Op: "history " + id, Err: err}
		}
		return head, nil, k.unavailable("history "+id, err)
	}
	return head, entries, nil
}

// Live is what this engine knows of a run beyond its journal.
type Live struct {
	Resident  bool
	Running   []string // paths of steps whose attempts are being executed
	Abandoned []string // paths of steps that were given up and whose goroutines go on
}

// Live tells what the engine has of a run in memory.
func (k *Kernel) Live(n journal.Number) Live {
	var l Live
	k.mu.Lock()
	r := k.resident[n]
	for a := range k.abandoned {
		if a.op.run.head.Number == n {
			l.Abandoned = append(l.Abandoned, a.op.path())
		}
	}
	k.mu.Unlock()
	if r == nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Resident = true
	for _, o := range r.running() {
		if o.attempt != nil && !o.attempt.began.IsZero() {
			l.Running = append(l.Running, o.path())
		}
	}
	return l
}

// Cancel ends a run as CANCELLED and returns when that is durable. One that is
// cancelled already is left as it is; one that ended otherwise is an error that
// names its status.
func (k *Kernel) Cancel(ctx context.Context, id, reason string) error {
	op := "cancel " + id
	return k.command(ctx, op, id, func(h journal.Head) error {
		switch {
		case h.Status == journal.Cancelled:
			return nil
		case h.Status.IsTerminal():
			return wrongState(op, h, "it has ended")
		}
		return errOpen
	}, func(r *run) { r.cancel(reason) })
}

// Resume lets a parked run go on and returns when that is durable. Its panics
// in a row count anew.
func (k *Kernel) Resume(ctx context.Context, id string) error {
	op := "resume " + id
	resumed := false
	return k.command(ctx, op, id, func(h journal.Head) error {
		switch {
		case resumed:
			return nil
		case !h.Status.CanResume():
			return wrongState(op, h, "only a SUSPENDED run can be resumed")
		}
		return errOpen
	}, func(r *run) {
		resumed = true
		r.leaveHead(journal.Running, "", r.head.Created)
		r.append(journal.Entry{Kind: journal.RunResumed, Status: journal.Running})
		r.leave()
		r.seal(r.seq)
		r.whenDurable(effect{do: k.look})
	})
}

// errOpen says that a command has to be carried out.
var errOpen = errors.New("kernel: open")

func wrongState(op string, h journal.Head, why string) error {
	return &journal.Error{
		Code: journal.CodeWrongState, Op: op,
		Message: "run " + string(h.ID) + " is " + h.Status.String() + ": " + why,
	}
}

// command carries out what an operator asks of a run: on its residence here, or
// on one made for it. judge says whether there is anything to do: errOpen if
// there is. do appends to the run, whose lock is held, and ends the residence.
func (k *Kernel) command(ctx context.Context, op, id string, judge func(journal.Head) error, do func(*run)) error {
	if err := k.running(ctx, op); err != nil {
		return err
	}
	for {
		head, err := k.Find(ctx, id)
		if err != nil {
			return err
		}
		if err := judge(head); !errors.Is(err, errOpen) {
			return err
		}
		r, err := k.residence(head.Number, judge)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		r.mu.Lock()
		if !r.gone() && errors.Is(judge(r.head), errOpen) {
			do(r)
		}
		gone := r.gone()
		r.mu.Unlock()
		if !gone {
			continue
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return &journal.Error{Code: journal.CodeUnavailable, Op: op, Message: "the store has not answered: it may or may not be done", Err: context.Cause(ctx)}
		case <-k.dead:
			return k.err
		}
	}
}
