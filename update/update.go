package update

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/reply"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// An Update is a message of type T that has a reply of type R. It is created once, usually as a
// package variable. Many goroutines may use it.
type Update[T, R any] struct {
	name     string
	validate func(T) error
}

// New returns the update of that name. validate returns an error to refuse a message, and must
// decide by its argument alone. A nil validate accepts all messages. The names that a signal cannot
// have are not valid; [Update.Send] and [Update.Wait] return the error.
func New[T, R any](name string, validate func(T) error) Update[T, R] {
	return Update[T, R]{name, validate}
}

// Name returns the update's name.
func (u Update[T, R]) Name() string { return u.name }

// check calls the validator. It returns an error that it panics with, too.
func (u Update[T, R]) check(v T) error {
	if u.validate == nil {
		return nil
	}
	return guard.Call(func() error { return u.validate(v) })
}

// message returns the message that sends v, if the validator accepts it.
func (u Update[T, R]) message(id, key string, v T) (reply.Message, error) {
	m := reply.Message{ID: id, Name: u.name, Key: key}
	if err := reply.ValidName(u.name); err != nil {
		return m, err
	}
	if err := u.check(v); err != nil {
		if guard.AbortOf(err) != nil {
			err = failure.Err(failure.Of(err))
		}
		return m, err
	}
	data, err := payload.Encode(v)
	if err != nil {
		return m, &perdure.Error{
			Code: journal.CodeEncode, Op: m.Op(), Message: "the message does not encode", Err: err,
		}
	}
	m.Data = data
	return m, nil
}

// Send sends v to the open run of a run ID or workflow ID and returns its reply. It waits until the
// reply is durable or ctx ends. A refusal is the error that the run, or the validator, refused the
// message with. See the package comment for the other errors. With the context of workflow code it
// returns an error of code misuse: send updates in a step.
func (u Update[T, R]) Send(ctx context.Context, c perdure.Caller, id string, v T,
	opts ...perdure.SendOption) (R, error) {
	var zero R
	op := "update " + u.name + " of " + id
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return zero, err
	}
	var sig kernel.Signal
	for _, opt := range opts {
		if opt == nil {
			return zero, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToSend(&sig); err != nil {
			return zero, failure.Within(op, err)
		}
	}
	m, err := u.message(id, sig.Key, v)
	if err != nil {
		return zero, err
	}
	data, err := reply.Send(ctx, client, m)
	return replyOf[R](op, data, err)
}

// SendWithStart sends v to the open run of a workflow ID, or starts a run if none is open, in one
// transaction, and returns the reply of that run. The Delivery shows which run it is, and whether
// it is new; it is valid if the run is known, whatever the error. A run that has ended does not
// count, however recently it ended, unless it is the last one of the workflow ID and has got the
// key: then no run is started, and the reply is that of then. opts must have the [perdure.ID], and
// may have a [perdure.SendKey]. See [Update.Send].
func SendWithStart[T, R, I, O any](ctx context.Context, c perdure.Caller, u Update[T, R], v T,
	w *perdure.Workflow[I, O], in I, opts ...perdure.StartOption) (R, perdure.Delivery, error) {
	var zero R
	op := "update " + u.name + " with start"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return zero, perdure.Delivery{}, err
	}
	var start sealed.Start
	for _, opt := range opts {
		if opt == nil {
			return zero, perdure.Delivery{}, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToStart(&start); err != nil {
			return zero, perdure.Delivery{}, failure.Within(op, err)
		}
	}
	m, err := u.message(start.ID, start.SendKey, v)
	if err != nil {
		return zero, perdure.Delivery{}, err
	}
	d, data, err := reply.SendWithStart(ctx, client, m, func(id string) (kernel.Delivery, error) {
		d, err := perdure.SendWithStart(ctx, c, perdure.NewSignal[T](u.name), v, w, in,
			append(opts[:len(opts):len(opts)], message(id))...)
		return kernel.Delivery(d), err
	})
	out, err := replyOf[R](op, data, err)
	return out, perdure.Delivery(d), err
}

// A message is an option of a start: the ID of the message that goes with it.
type message string

func (m message) ApplyToStart(s *sealed.Start) error {
	s.Message = string(m)
	return nil
}

func replyOf[R any](op string, data []byte, err error) (R, error) {
	var zero R
	if err != nil {
		return zero, err
	}
	v, err := payload.Decode[R](data)
	if err != nil {
		return zero, payload.DecodeError("reply of "+op, zero, err)
	}
	return v, nil
}

// An Ask is a message that workflow code has taken, and has to reply to. It belongs to workflow
// code.
type Ask[T, R any] struct {
	Value T

	op      string
	message string // its ID
	replied bool
}

// Wait waits for the next message of this update and takes it. A message that does not decode, or
// that the validator refuses, is refused, and Wait goes on waiting; [perdure.Within] counts from
// the beginning. See [perdure.Signal.Wait].
func (u Update[T, R]) Wait(ctx context.Context, opts ...perdure.WaitOption) (*Ask[T, R], error) {
	op := "wait for update " + u.name
	w := kernel.Wait{Name: u.name}
	if err := reply.ValidName(u.name); err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToWait(&w); err != nil {
			return nil, failure.Within(op, err)
		}
	}
	if w.Within > 0 {
		until, err := reply.Until(ctx, w.Within)
		if err != nil {
			return nil, err
		}
		if w.Within = 0; w.Until.IsZero() || until.Before(w.Until) {
			w.Until = until
		}
	}
	for {
		out, err := kernel.Receive(ctx, w)
		if err != nil {
			return nil, err
		}
		if out.Failure != nil {
			return nil, failure.Err(out.Failure)
		}
		ask := &Ask[T, R]{op: "update " + u.name, message: out.Detail.MessageID()}
		var refused *journal.Failure
		if ask.Value, refused, err = u.accept(ctx, ask.message, out.Data); err != nil {
			return nil, err
		}
		if refused == nil {
			return ask, nil
		}
		if err := reply.Give(ctx, ask.message, nil, refused); err != nil {
			return nil, err
		}
	}
}

// accept decodes a message and calls the validator. The verdict of the validator is recorded.
func (u Update[T, R]) accept(ctx context.Context, message string, data []byte) (T,
	*journal.Failure, error) {
	v, err := payload.Decode[T](data)
	if err != nil {
		return v, failure.Of(&perdure.Error{
			Code: journal.CodeInvalid, Op: "update " + u.name,
			Message: "the message does not decode", Err: payload.DecodeError("message", v, err),
		}), nil
	}
	if u.validate == nil {
		return v, nil, nil
	}
	refused, err := reply.Verdict(ctx, message, func() error { return u.check(v) })
	return v, refused, err
}

// Reply replies with v. The reply is recorded in the commit of the turn, and the sender gets it
// when it is durable. If v does not encode, Reply returns the error and the message has no reply
// yet. A second reply returns an error of code misuse.
func (a *Ask[T, R]) Reply(ctx context.Context, v R) error {
	data, err := payload.Encode(v)
	if err != nil {
		return &perdure.Error{
			Code: journal.CodeEncode, Op: a.op, Message: "the reply does not encode", Err: err,
		}
	}
	return a.give(ctx, data, nil)
}

// Refuse replies with an error, which [Update.Send] returns. A nil error is not valid. See
// [Ask.Reply].
func (a *Ask[T, R]) Refuse(ctx context.Context, why error) error {
	if why == nil {
		return failure.Invalid(a.op, "a refusal needs an error")
	}
	return a.give(ctx, nil, failure.Of(why))
}

func (a *Ask[T, R]) give(ctx context.Context, data []byte, f *journal.Failure) error {
	if a.replied {
		return &perdure.Error{
			Code: journal.CodeMisuse, Op: a.op, Message: "the message has its reply already",
		}
	}
	if err := reply.Give(ctx, a.message, data, f); err != nil {
		return err
	}
	a.replied = true
	return nil
}

// Serve begins a branch that replies to each message of this update, one after the other, until the
// run ends: with the value that handle returns, or with its error as a refusal. handle is workflow
// code. The branch has the name of the update, so names of operations in handle are relative to it.
// It does not keep the run from ending.
func (u Update[T, R]) Serve(ctx context.Context,
	handle func(ctx context.Context, v T) (R, error)) error {
	if handle == nil {
		return failure.Invalid("serve update "+u.name, "a function is missing")
	}
	if err := reply.ValidName(u.name); err != nil {
		return err
	}
	branch := perdure.Go(ctx, u.name, func(ctx context.Context) (int, error) {
		for {
			ask, err := u.Wait(ctx)
			if err != nil {
				return 0, err
			}
			out, why := handle(ctx, ask.Value)
			if why != nil {
				err = ask.Refuse(ctx, why)
			} else {
				err = ask.Reply(ctx, out)
			}
			if err != nil {
				return 0, err
			}
		}
	})
	_, err := branch.Operation()
	return err
}
