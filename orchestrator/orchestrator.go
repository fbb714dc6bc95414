package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// An Orchestrator handles the events of its instances. Its fields do not change once it has handled
// an event.
type Orchestrator struct {
	Source   string    // of the events that it emits: a URI reference
	Versions []Version // the newest last

	Memory Memory[Record]
	// Publish sends events, in order, at least once. It returns when they are durable elsewhere.
	Publish func(ctx context.Context, events []event.Event) error

	TTL      time.Duration // of locks; 0 means a minute
	Remember time.Duration // how long consumed events are known; 0 means 24 hours
	// Around is called around the handling of each event: for traces and limits. It calls handle
	// with the event, which it may give other extensions, and returns what handle returns. Nil
	// means none.
	Around func(ctx context.Context, e event.Event,
		handle func(context.Context, event.Event) (Outcome, error)) (Outcome, error)
	// Observe is told how each event went, and how each clean-up did. Nil means that nobody is.
	Observe func(ctx context.Context, n Notice)
	Log     *slog.Logger // nil means slog.Default
}

// Check returns all defects of the orchestrator's versions, joined; nil if it has none.
func (o *Orchestrator) Check() error {
	var source error
	if o.Source == "" {
		source = errors.New("the source is missing")
	}
	if err := errors.Join(source, versions(o.Versions).defects()); err != nil {
		return fmt.Errorf("orchestrator %s: %w", o.Source, err)
	}
	return nil
}

// A TransactionError is a failure to lock, read, write or publish. The event is not consumed for
// certain: it has to be delivered again, which is safe.
type TransactionError struct {
	Subject string
	// Op is lock, read, write or publish; deliver, of a [Durable]; or handle, if the context has
	// ended, the handler asks for the event [Again], or one of the others has panicked.
	Op  string
	Err error
}

// Error returns what has failed, for which subject, and why.
func (e *TransactionError) Error() string {
	return "orchestrator: " + e.Op + " of " + e.Subject + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *TransactionError) Unwrap() error { return e.Err }

// Rejects returns false, by which consumers of a bus see that another try may work.
func (e *TransactionError) Rejects() bool { return false }

// ErrLocked is the reason of a [TransactionError] if another process handles an event of the
// subject.
var ErrLocked = errors.New("another process has the lock")

// On handles an event that was delivered, in this order: lock, read, execute, write, clean up,
// publish, unlock. The write stores the state, the events that follow and the ID of the event. The
// error is a [TransactionError] if the event must be delivered again, and a [Violation] if it never
// will be handled.
func (o *Orchestrator) On(ctx context.Context, e event.Event) (Outcome, error) {
	return o.around(ctx, e, func(ctx context.Context, e event.Event) (out Outcome, err error) {
		if err := valid(&e); err != nil {
			return "", err
		}
		h := handling{
			Orchestrator: o, ctx: ctx, of: &e,
			meta: &Metadata{Subject: e.Subject, Source: o.Source},
		}
		if o.Memory == nil || o.Publish == nil {
			return "", h.fails("handle", errors.New("the orchestrator lacks Memory or Publish"))
		}
		h.memory = Insist(o.Memory)
		err = guard.Call(func() (err error) { out, err = h.do(); return err })
		if guard.AbortOf(err) != nil { // of the memory or the publisher
			err = h.fails("handle", err)
		}
		return out, err
	})
}

// around calls handle as the orchestrator's Around has it, and tells Observe of the end.
func (o *Orchestrator) around(ctx context.Context, e event.Event,
	handle func(context.Context, event.Event) (Outcome, error)) (out Outcome, err error) {
	if o.Around == nil {
		out, err = handle(ctx, e)
	} else {
		out, err = o.Around(ctx, e, handle)
	}
	o.notify(ctx, Notice{Event: e, Outcome: out, Err: err})
	return out, err
}

// A handling is the handling of one event over a memory.
type handling struct {
	*Orchestrator
	memory Memory[Record]
	ctx    context.Context
	of     *event.Event
	meta   *Metadata
	token  Token
	last   *State[Record] // as it is stored
	prev   *State[Record] // before this event; nil if there was none, or if it is not known
}

func (h *handling) fails(op string, err error) error {
	return &TransactionError{h.of.Subject, op, err}
}

// do handles the event under the lock.
func (h *handling) do() (out Outcome, err error) {
	ttl := h.TTL
	if ttl == 0 {
		ttl = time.Minute
	}
	subject := h.of.Subject
	if h.token, err = h.memory.Lock(h.ctx, subject, ttl, h.meta); h.token == 0 && err == nil {
		err = ErrLocked
	}
	if err != nil {
		return "", h.fails("lock", err)
	}
	defer func() { // if it fails, the time to live frees the lock
		_, _ = h.memory.Unlock(context.WithoutCancel(h.ctx), subject, h.token, h.meta)
	}()
	if h.last, err = h.memory.Read(h.ctx, subject, h.meta); err != nil {
		return "", h.fails("read", err)
	}
	var last *Record
	about := begun(h.of)
	if h.last != nil {
		last = &h.last.Value
		about = *last
	}
	h.meta = &Metadata{subject, To(about.Parent), To(about.Initiator), h.Source}
	d, err := h.decide(h.ctx, last, h.of, time.Now().UTC())
	if v := (*Violation)(nil); errors.As(err, &v) {
		_ = h.settle() // what earlier events have left; the next event sees to it otherwise
		return "", err
	}
	if err != nil {
		return "", h.fails("handle", err)
	}
	if d.Outcome == EventHandled || d.Outcome == EventFailed {
		h.prev = h.last
		if err := h.write(d.next); err != nil {
			return "", h.fails("write", err)
		}
	}
	return d.Outcome, h.settle()
}

// write stores a record.
func (h *handling) write(next Record) error {
	c := Change[Record]{Next: next, Prev: h.last, Lock: h.token}
	if err := h.memory.Write(h.ctx, h.of.Subject, c, h.meta); err != nil {
		return err
	}
	h.last = &State[Record]{next, c.before() + 1}
	return nil
}

// cleanUp lets the memory clean up after the final state. Its error stops nothing.
func (h *handling) cleanUp() {
	cleaner, is := h.Memory.(Cleaner[Record])
	if !is {
		return
	}
	c := Change[Record]{Next: h.last.Value, Prev: h.prev, Lock: h.token}
	err := guard.Call(func() error { return cleaner.Cleanup(h.ctx, h.of.Subject, c, h.meta) })
	if err == nil { // the memory may have written the record
		h.last, err = h.memory.Read(h.ctx, h.of.Subject, h.meta)
	}
	if err != nil {
		log := h.Log
		if log == nil {
			log = slog.Default()
		}
		log.WarnContext(h.ctx, "orchestrator: clean-up failed", "subject", h.of.Subject,
			"error", err)
	}
	h.notify(h.ctx, Notice{Event: *h.of, CleanUp: true, Err: err})
}

// settle cleans up and publishes the outbox, and then stores that this is done. If only that fails,
// both are done once more later: the events under the same IDs.
func (h *handling) settle() error {
	if h.last == nil || len(h.last.Value.Outbox) == 0 && !h.last.Value.Unclean {
		return nil
	}
	outbox := h.last.Value.Outbox
	if h.last.Value.Unclean {
		h.cleanUp()
	}
	if len(outbox) > 0 {
		if err := h.Publish(h.ctx, outbox); err != nil {
			return h.fails("publish", err)
		}
	}
	if h.last != nil { // else the memory has removed it
		next := h.last.Value
		next.Outbox, next.Unclean = nil, false
		_ = h.write(next)
	}
	return nil
}
