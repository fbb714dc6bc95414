package kernel

import (
	"context"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A submission is a source for code outside of runs: it makes messages, new runs and
// acknowledgements durable with the group that forms.
type submission struct {
	k       *Kernel
	changes []store.Change
	err     error
	done    chan struct{}
}

// take implements source.
func (l *submission) take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	n, size := 0, 0
	for i := range l.changes {
		c := &l.changes[i]
		n += 1 + len(c.Entries) + len(c.Posts)
		size += sizeOf(c.Entries)
		for j := range c.Posts {
			size += c.Posts[j].Message.Size()
		}
	}
	if !first && (n > *rows || size > *bytes) {
		return cs, false
	}
	*rows -= n
	*bytes -= size
	return append(cs, l.changes...), true
}

// committed implements source.
func (l *submission) committed(cs []store.Change, resent bool) {
	l.changes = append([]store.Change(nil), cs...)
	l.k.tellMade(cs)
	for i := range cs {
		if cs[i].Create && cs[i].Verdict == store.Written || len(cs[i].Settings) > 0 {
			l.k.look()
		}
	}
	l.k.sent(cs, resent)
	close(l.done)
}

// refused implements source.
func (l *submission) refused(_ []store.Change, err error) {
	l.err = err
	close(l.done)
}

// open implements writers.
func (k *Kernel) open(
	ctx context.Context, op string,
) (writer, error) {
	return k, k.running(ctx, op)
}

// submit implements writer.
func (k *Kernel) submit(ctx context.Context, op string, cs []store.Change) ([]store.Change, error) {
	if err := k.running(ctx, op); err != nil {
		return nil, err
	}
	if err := k.admitted(ctx, op); err != nil {
		return nil, err
	}
	l := &submission{k: k, changes: cs, done: make(chan struct{})}
	k.lanes.any().push(l)
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, &journal.Error{
			Code: journal.CodeUnavailable, Op: op,
			Message: "the store has not answered: it may or may not be done",
			Err:     context.Cause(ctx),
		}
	case <-k.dead:
		return nil, k.stopped(op, "it may or may not be done", "")
	}
	switch {
	case l.err == nil:
		return l.changes, nil
	case refusal(l.err):
		return nil, &journal.Error{
			Code: journal.CodeInvalid, Op: op, Message: "the store refuses it", Err: l.err,
		}
	case over(l.err):
		return nil, k.stopped(op, "it may or may not be done", "")
	}
	return nil, unavailable(op, l.err)
}

// spill implements writer.
func (k *Kernel) spill(what string, data *[]byte) (journal.Number, *journal.Failure) {
	n, f := k.persistPayload(what, data)
	if n != 0 {
		*data = nil
	}
	return n, f
}
