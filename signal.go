package perdure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Signal is a message of one type that runs wait for and anybody may send. It is created once,
// usually as a package variable.
type Signal[T any] struct{ name string }

// NewSignal returns the signal of that name. Names that begin with "perdure:" are reserved for
// the engine. So are Cancel and CancelWorkflow, which cancel the run, and names that begin with
// "Approve:", which decide approvals.
func NewSignal[T any](name string) Signal[T] { return Signal[T]{name} }

// Name returns the signal's name.
func (s Signal[T]) Name() string { return s.name }

// A WaitOption is an option of a wait, which sets the message that is waited for, and for how
// long: [Within], [Until], [Where], [Key], [RenamedFrom] or [Added].
type WaitOption interface{ ApplyToWait(*kernel.Wait) error }

// Within limits how long a wait lasts. The time counts from the beginning of the wait, also across
// crashes. It must be above 0. If no message has come in that time, the wait returns an [Error] of
// code timed_out, which is also a context.DeadlineExceeded.
type Within time.Duration

func (d Within) ApplyToWait(w *kernel.Wait) error {
	if d <= 0 {
		return failure.Invalid("Within", "%v is not valid: it must be above 0", time.Duration(d))
	}
	w.Within = time.Duration(d)
	return nil
}

// Until ends a wait at that instant, as [Within] does after a duration. A message that has come
// by then is taken, even if the instant has passed when the wait begins. If a wait has several
// limits, the first applies. The year is from 1 to 9999.
type Until time.Time

func (t Until) ApplyToWait(w *kernel.Wait) error {
	if err := instant("Until", time.Time(t)); err != nil {
		return err
	}
	if w.Until.IsZero() || time.Time(t).Before(w.Until) {
		w.Until = time.Time(t)
	}
	return nil
}

// Where makes a wait take the first message that match accepts; other messages stay. match is
// workflow code and must decide by its argument alone. A payload that does not decode into T does
// not match.
func Where[T any](match func(T) bool) WaitOption { return where[T](match) }

type where[T any] func(T) bool

func (m where[T]) ApplyToWait(w *kernel.Wait) error {
	if m == nil {
		return failure.Invalid("Where", "a function is missing")
	}
	w.Match = func(data []byte) bool {
		v, err := payload.Decode[T](data)
		return err == nil && m(v)
	}
	return nil
}

func (k Key) ApplyToWait(w *kernel.Wait) error {
	var o sealed.Operation
	err := k.ApplyToStep(&o)
	w.Key = o.Key
	return err
}

func (w RenamedFrom) ApplyToWait(to *kernel.Wait) error {
	var o sealed.Operation
	err := w.ApplyToStep(&o)
	to.Was = o.Change.Was
	return err
}

func (s Signal[T]) spec(opts []WaitOption) (kernel.Wait, error) {
	w := kernel.Wait{Name: s.name}
	if err := signalName(s.name); err != nil {
		return w, err
	}
	if s.name == "Cancel" || s.name == "CancelWorkflow" {
		return w, failure.Invalid("wait for "+s.name, "a signal of this name cancels the run, "+
			"and no wait gets it: OnCancel plans what is done then")
	}
	for _, opt := range opts {
		if opt == nil {
			return w, failure.Invalid("wait for "+s.name, "a nil option")
		}
		if err := opt.ApplyToWait(&w); err != nil {
			return w, failure.Within("wait for "+s.name, err)
		}
	}
	return w, nil
}

func signalName(name string) error {
	if !journal.ValidName(name) {
		return failure.BadName("signal", name)
	}
	if strings.HasPrefix(name, "perdure:") {
		return failure.Reserved("signal", name)
	}
	if strings.HasPrefix(name, sealed.DecisionName) {
		return &Error{
			Code: journal.CodeInvalid, Op: "signal " + name,
			Message: "a decision about an approval is no plain signal",
			Hint: "perdure approvals approve, or approval.Decide, says who decides, and in " +
				"which role; approval.Wait waits for it",
		}
	}
	return nil
}

// Wait waits for the next message of this signal and takes it: no other wait gets it. A message
// that came before the wait counts. If several waits want a message, the wait that began first
// gets it. While it waits, the run may be unloaded. If ctx was made by the workflow and ends
// first, nothing is taken.
func (s Signal[T]) Wait(ctx context.Context, opts ...WaitOption) (T, error) {
	w, err := s.spec(opts)
	if err != nil {
		var zero T
		return zero, err
	}
	out, err := kernel.Receive(ctx, w)
	return result[T]("signal", s.name, out, err)
}

// Future begins to wait for the next message of this signal, beside the workflow. The future
// takes the message even if nobody awaits the future. [Future.Cancel] ends the wait.
func (s Signal[T]) Future(ctx context.Context, opts ...WaitOption) *Future[T] {
	f := &Future[T]{name: s.name}
	w, err := s.spec(opts)
	if err != nil {
		f.err = err
		return f
	}
	f.op, f.err = kernel.WaitFor(ctx, w)
	return f
}

// Has reports whether a message of this signal has come that nobody has taken. It takes nothing,
// and returns the same on replay. Call it in workflow code or in the body of a step.
func (s Signal[T]) Has(ctx context.Context) (bool, error) {
	first, err := kernel.Peek(ctx, kernel.Look{Name: s.name, Limit: 1})
	return len(first) > 0, err
}

// All returns the payloads of all messages of this signal that nobody has taken, in order, however
// many there are. In workflow code it records them, so together they may be as large as one
// payload. If they are larger, the error has the code too_large. See [Inbox].
func (s Signal[T]) All(ctx context.Context) ([]T, error) {
	return s.look(ctx, kernel.Look{Name: s.name})
}

// look returns the payloads of the messages in the inbox that l selects.
func (s Signal[T]) look(ctx context.Context, l kernel.Look) ([]T, error) {
	entries, err := kernel.Peek(ctx, l)
	if err != nil {
		return nil, err
	}
	var out []T
	for i := range entries {
		v, err := payload.Decode[T](entries[i].Data)
		if err != nil {
			return nil, payload.DecodeError("signal "+s.name, v, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Latest returns the payload of the last message of this signal that nobody has taken, or false
// if there is none. See [Inbox].
func (s Signal[T]) Latest(ctx context.Context) (T, bool, error) {
	last, err := s.look(ctx, kernel.Look{Name: s.name, Last: true})
	if err != nil || len(last) == 0 {
		var zero T
		return zero, false, err
	}
	return last[len(last)-1], true, nil
}

// A Message is one message of an inbox.
type Message struct {
	// The number in its inbox, by which [Take] takes it; or the number among the unrouted
	// signals.
	Number int64
	Name   string // of the signal
	ID     string // set by the sender
	To     string // the workflow ID that an unrouted signal was sent to
	Data   []byte
	Sent   time.Time
	Until  time.Time // when an unrouted signal expires
}

func messagesOf(entries []journal.Entry) []Message {
	var out []Message
	for _, e := range entries {
		m := Message{Number: e.Seq, Name: e.Op.Name, Data: e.Data, Sent: e.At}
		if d := e.Detail; d != nil {
			m.ID, m.To, m.Until = d.Message, d.To, d.Due
		}
		out = append(out, m)
	}
	return out
}

// Inbox returns the first 1,000 signals that have come to the run of ctx and that nobody has
// taken, in order. If name is not empty, it returns only signals of that name. It takes nothing:
// [Take] does, and later messages then move up among the first. In workflow code it returns the
// same on replay.
func Inbox(ctx context.Context, name string) ([]Message, error) {
	entries, err := kernel.Peek(ctx, kernel.Look{Name: name, Limit: 1000})
	return messagesOf(entries), err
}

// Take takes messages that [Inbox] has returned out of the inbox of the run of ctx, in workflow
// code: no wait gets them any more. It returns the numbers that nobody had taken before.
func Take(ctx context.Context, numbers ...int64) ([]int64, error) {
	var taken []int64
	for _, n := range numbers {
		ok, err := kernel.TakeMessage(ctx, n)
		if err != nil {
			return taken, err
		}
		if ok {
			taken = append(taken, n)
		}
	}
	return taken, nil
}

// A SendOption is an option of the sending of a signal: [SendKey].
type SendOption interface{ ApplyToSend(*kernel.Signal) error }

// SendKey is an idempotency key. A signal with the same key to the same run, or to the runs that it
// continues as, is delivered once, however often it is sent, and by any client.
type SendKey string

func (k SendKey) ApplyToSend(s *kernel.Signal) error {
	if !journal.ValidName(string(k)) {
		return failure.BadName("key", string(k))
	}
	s.Key = string(k)
	return nil
}

func (k SendKey) ApplyToStart(o *sealed.Start) error {
	o.SendKey = string(k)
	return k.ApplyToSend(&kernel.Signal{})
}

// A Delivery is the result of sending a signal. There are three results: a run has the signal, it
// is kept as Unrouted, or it is NotDelivered.
type Delivery struct {
	RunID     string // the run that has it; empty if there is none yet
	Number    int64  // in its inbox, or among the unrouted signals
	Duplicate bool   // the key was used before: nothing was done
	Unrouted  bool   // no open run has the workflow ID: the signal is kept for one
	New       bool   // [SendWithStart] has started the run

	NotDelivered bool      // there is no such run, or it has ended: nothing was done
	Status       RunStatus // of a run that has ended; else 0
}

// Send sends the signal to a run, by run ID or workflow ID. If an open run gets it, the message is
// durable: one wait takes it, or it is listed as unread when the run ends. If no open run has the
// workflow ID, the signal is kept as unrouted for a run that will have it, for
// [Options.KeepUnrouted]. If the run ID is not known, or its run has ended, the signal is not
// delivered. None of these cases is an error: read the Delivery.
func (s Signal[T]) Send(ctx context.Context, c Caller, id string, v T,
	opts ...SendOption) (Delivery, error) {
	client, err := clientOf("signal "+s.name+" to "+id, c)
	if err != nil {
		return Delivery{}, err
	}
	sig, err := s.message(id, v, opts)
	if err != nil {
		return Delivery{}, err
	}
	return client.signal(ctx, sig)
}

// SendWithStart sends the signal to the open run of a workflow ID, or starts a run if none is
// open, in one transaction. [Delivery] shows which. A run that has ended does not count, however
// recently it ended. opts must have the [ID], and may have a [SendKey].
func SendWithStart[T, I, O any](ctx context.Context, c Caller, s Signal[T], v T, w *Workflow[I, O],
	in I, opts ...StartOption) (Delivery, error) {
	if w == nil {
		return Delivery{}, failure.Invalid("signal "+s.name+" with start", "the workflow is nil")
	}
	client, err := clientOf("signal "+s.name+" with start of "+w.def.Name, c)
	if err != nil {
		return Delivery{}, err
	}
	sig, spec, err := withStart(client, s, v, w, in, opts)
	if err != nil {
		return Delivery{}, err
	}
	op := "signal " + sig.Name + " with start of " + spec.ID
	if err := kernel.Outside(ctx, op); err != nil {
		return Delivery{}, err
	}
	frontEnd, err := client.frontEnd(ctx, op)
	if err != nil {
		return Delivery{}, err
	}
	d, err := frontEnd.SignalWithStart(ctx, sig, spec)
	return Delivery(d), err
}

// withStart returns the kernel's form of a signal with a start.
func withStart[T, I, O any](c *Client, s Signal[T], v T, w *Workflow[I, O], in I,
	opts []StartOption) (kernel.Signal, kernel.Start, error) {
	data, err := w.input(c, in)
	if err != nil {
		return kernel.Signal{}, kernel.Start{}, err
	}
	o, err := c.startOptionsOf(w.def.Name, &w.def, opts)
	if err != nil {
		return kernel.Signal{}, kernel.Start{}, err
	}
	if o.ID == "" {
		return kernel.Signal{}, kernel.Start{}, failure.Invalid("signal with start of "+w.def.Name,
			"a workflow ID is needed")
	}
	sig, err := s.message(o.ID, v, nil)
	sig.Key, sig.Message = o.SendKey, o.Message
	return sig, o.Spec(w.def.Name, &w.def, data), err
}

func (s Signal[T]) message(id string, v T, opts []SendOption) (kernel.Signal, error) {
	sig := kernel.Signal{ID: id, Name: s.name}
	if err := signalName(s.name); err != nil {
		return sig, err
	}
	data, err := payload.Encode(v)
	if err != nil {
		return sig, &Error{
			Code: journal.CodeEncode, Op: "signal " + s.name,
			Message: "its payload does not encode", Err: err,
		}
	}
	sig.Data = data
	for _, opt := range opts {
		if opt == nil {
			return sig, failure.Invalid("signal "+s.name, "a nil option")
		}
		if err := opt.ApplyToSend(&sig); err != nil {
			return sig, err
		}
	}
	return sig, nil
}

// Send sends a signal by name with the bytes of its payload. [Signal.Send] is the typed form.
func (c *Client) Send(ctx context.Context, id, name string, payload []byte,
	opts ...SendOption) (Delivery, error) {
	sig, err := rawSignal(id, name, payload, opts)
	if err != nil {
		return Delivery{}, err
	}
	return c.signal(ctx, sig)
}

func rawSignal(id, name string, payload []byte, opts []SendOption) (kernel.Signal, error) {
	sig := kernel.Signal{ID: id, Name: name, Data: append([]byte{}, payload...)}
	if err := signalName(name); err != nil {
		return sig, err
	}
	for _, opt := range opts {
		if opt == nil {
			return sig, failure.Invalid("signal "+name, "a nil option")
		}
		if err := opt.ApplyToSend(&sig); err != nil {
			return sig, err
		}
	}
	return sig, nil
}

// Unrouted returns signals that were sent to workflow IDs that no open run had, and that wait for
// such a run. It returns at most limit signals, from the number from on.
func (c *Client) Unrouted(ctx context.Context, from int64, limit int) ([]Message, error) {
	entries, err := c.sealed.FrontEnd.Unread(ctx, "", from, limit)
	return messagesOf(kernel.Signals(entries)), err
}

// Deliver moves an unrouted signal, by its number, to a run.
func (c *Client) Deliver(ctx context.Context, number int64, id string) (Delivery, error) {
	if err := c.outside(ctx, fmt.Sprint("deliver ", number)); err != nil {
		return Delivery{}, err
	}
	d, err := c.sealed.FrontEnd.Deliver(ctx, number, id)
	return Delivery(d), err
}
