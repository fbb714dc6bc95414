package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// An Orchestrator handles the events of its instances. Its fields do not change once it has handled
// an event.
type Orchestrator struct {
	Source string // of the events that it emits: a URI reference
	// Initial are the types of events that create an instance.
	Initial []string
	// Handle is called with one event at a time for a subject. After a crash it may be called again
	// with an event: only one call has an effect on the state and the events. An error, or a panic,
	// marks the instance as broken, and is sent to the initiator.
	Handle func(ctx context.Context, t *Turn) error

	Memory Memory[Record]
	// Publish sends events, in order, at least once. It returns when they are durable elsewhere.
	Publish func(ctx context.Context, events []event.Event) error

	TTL      time.Duration // of locks; 0 means a minute
	Remember time.Duration // how long consumed events are known; 0 means 24 hours
	Log      *slog.Logger  // nil means slog.Default
}

// An Outcome is the result of the handling of an event.
type Outcome string

// The outcomes.
const (
	EventHandled   Outcome = "handled"   // the handler was called, and its result is stored
	EventDuplicate Outcome = "duplicate" // the event was consumed before
	EventIgnored   Outcome = "ignored"   // there is no such instance, or it has ended
	EventFailed    Outcome = "failed"    // the handler has returned an error, and that is stored
)

// A TransactionError is a failure to lock, read, write or publish. The event is not consumed for
// certain: it has to be delivered again, which is safe.
type TransactionError struct {
	Subject string
	Op      string // lock, read, write or publish; handle for a panic in one of them
	Err     error
}

// Error returns what has failed, for which subject, and why.
func (e *TransactionError) Error() string {
	return "orchestrator: " + e.Op + " of " + e.Subject + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *TransactionError) Unwrap() error { return e.Err }

// A Violation is the error of an event that will never be handled, because it breaks a contract.
// The state stays as it was.
type Violation struct {
	ID  string // of the event
	Err error  // names all defects
}

// Error returns the ID of the event and its defects.
func (v *Violation) Error() string { return "orchestrator: event " + v.ID + ": " + v.Err.Error() }

// Unwrap returns the defects.
func (v *Violation) Unwrap() error { return v.Err }

// ErrLocked is the reason of a [TransactionError] if another process handles an event of the
// subject.
var ErrLocked = errors.New("another process has the lock")

// A Turn is the part of an event's handling that the handler sees and decides.
type Turn struct {
	Event event.Event
	state json.RawMessage
	ends  bool
	emits []event.Event
}

// State decodes the state of the instance, and returns false if it has none yet.
func (t *Turn) State(v any) (bool, error) {
	if t.state == nil {
		return false, nil
	}
	return true, json.Unmarshal(t.state, v)
}

// Become sets the state that is stored when the handler returns.
func (t *Turn) Become(v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		t.state = data
	}
	return err
}

// Finish ends the instance: later events are ignored.
func (t *Turn) Finish() { t.ends = true }

// Emit sends an event when the handler has returned. Its ID follows from that of the event which is
// handled, its source is the orchestrator, and an empty subject means the same subject.
func (t *Turn) Emit(e event.Event) { t.emits = append(t.emits, e) }

// On handles an event that was delivered, in this order: lock, read, execute, write, clean up,
// publish, unlock. The write stores the state, the events that follow and the ID of the event. The
// error is a [TransactionError] if the event must be delivered again, and a [Violation] if it never
// will be handled.
func (o *Orchestrator) On(ctx context.Context, e event.Event) (Outcome, error) {
	err := e.Check()
	if e.Subject == "" {
		err = errors.Join(err, errors.New("subject is missing: it names the instance"))
	}
	if err != nil {
		return "", &Violation{e.ID, err}
	}
	h := handling{
		Orchestrator: o, ctx: ctx, of: &e,
		meta: &Metadata{Subject: e.Subject, Source: o.Source},
	}
	if o.Handle == nil || o.Memory == nil || o.Publish == nil {
		return "", h.fails("handle", errors.New("the orchestrator lacks Handle, Memory or Publish"))
	}
	h.memory = Insist(o.Memory)
	var out Outcome
	err = guard.Call(func() (err error) { out, err = h.do(); return err })
	if guard.AbortOf(err) != nil { // of the memory or the publisher: that of a handler is its error
		err = h.fails("handle", err)
	}
	return out, err
}

// A handling is the handling of one event.
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
	next := begun(h.of)
	if h.last != nil {
		next = h.last.Value
	}
	h.meta = &Metadata{subject, To(next.Parent), To(next.Initiator), h.Source}
	if p := h.of.Extensions[event.ExtParent]; p != "" && p != next.Parent {
		return "", &Violation{h.of.ID, fmt.Errorf("%s is %.100q, and the instance has %q",
			event.ExtParent, p, next.Parent)}
	}
	switch {
	case next.has(h.of):
		out = EventDuplicate
	case next.Ended != "", h.last == nil && !slices.Contains(h.Initial, h.of.Type):
		out = EventIgnored
	default:
		out, next = h.execute(next)
		h.prev = h.last
		if err := h.write(next); err != nil {
			return "", h.fails("write", err)
		}
	}
	return out, h.settle()
}

// cleanUp lets the memory clean up after the final state. Its error stops nothing.
func (h *handling) cleanUp() {
	cleaner, is := h.memory.(Cleaner[Record])
	if !is {
		return
	}
	c := Change[Record]{Next: h.last.Value, Prev: h.prev, Lock: h.token}
	err := cleaner.Cleanup(h.ctx, h.of.Subject, c, h.meta)
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
}

// execute calls the handler, and returns the record that follows.
func (h *handling) execute(r Record) (Outcome, Record) {
	t := &Turn{Event: *h.of, state: r.State}
	err := h.call(t)
	remember := h.Remember
	if remember == 0 {
		remember = 24 * time.Hour
	}
	next := r.consumes(h.of, time.Now().UTC(), remember)
	if err != nil {
		next.Ended = InstanceBroken
		next.Outbox = append(slices.Clone(r.Outbox), h.named(1, systemError(next.Initiator, err)))
		return EventFailed, next
	}
	next.State, next.Outbox = t.state, slices.Clone(r.Outbox)
	for i, e := range t.emits {
		next.Outbox = append(next.Outbox, h.named(i+1, e))
	}
	if t.ends {
		next.Ended, next.Unclean = InstanceFinished, true
	}
	return EventHandled, next
}

// call calls the handler. It returns also the defects of the events that the handler emits.
func (h *handling) call(t *Turn) error {
	if err := guard.Call(func() error { return h.Handle(h.ctx, t) }); err != nil {
		return err
	}
	for i, e := range t.emits {
		e = h.named(i+1, e)
		if err := e.Check(); err != nil {
			return fmt.Errorf("event %d of the handler, %.100q: %w", i+1, e.Type, err)
		}
	}
	return nil
}

// named returns the n-th event of the handler with its own attributes.
func (h *handling) named(n int, e event.Event) event.Event {
	e.ID = h.id(n)
	e.Source = h.Source
	if e.Subject == "" {
		e.Subject = h.of.Subject
	}
	ext := map[string]string{event.ExtCause: h.of.ID}
	if v := h.of.Extensions[event.ExtTrace]; v != "" {
		ext[event.ExtTrace] = v
	}
	maps.Copy(ext, e.Extensions)
	e.Extensions = ext
	return e
}

// id returns the ID of the n-th event that follows from this one: always the same.
func (h *handling) id(n int) string {
	sum := sha256.New()
	for _, s := range []string{h.of.Source, h.of.ID, h.of.Subject, h.Source} {
		fmt.Fprintf(sum, "%d %s ", len(s), s)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]) + "-" + strconv.Itoa(n)
}

// SystemError is the type of the event by which an initiator hears of a broken instance. Its data
// is an object with "error".
const SystemError = "sys.orchestrator.error"

func systemError(to string, err error) event.Event {
	data, _ := json.Marshal(map[string]string{"error": err.Error()}) //nolint:errchkjson // texts
	return event.Event{
		Type: SystemError, Data: data, Extensions: map[string]string{event.ExtReplyTo: to},
	}
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
