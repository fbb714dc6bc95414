package perdure

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// StartAll starts a run for each input, as [Workflow.Start] does, in one call. The starts share
// commits, so many of them take a small part of the time of as many calls of Start. opts returns
// the options of the start of inputs[i], such as its [ID]. It may be called more than once for an
// input. A nil opts means no options.
//
// Both results have an element for each input, in the order of inputs: a run and no error, or no
// run and an error. An input that fails does not stop the others. errors.Join of the errors is nil
// if none has failed. If ctx ends, no further run is started. To find out which runs were started,
// call StartAll again with the same IDs.
//
// In a transaction of the application ([Client.In]), too, an input that does not encode, an option
// that is not valid or an ID that is taken does not stop the others. After any other error the
// transaction can only be rolled back, and all further inputs have the same error.
func (w *Workflow[I, O]) StartAll(ctx context.Context, c Caller, inputs []I,
	opts func(i int) []StartOption) ([]*Run[O], []error) {
	runs, errs := make([]*Run[O], len(inputs)), make([]error, len(inputs))
	client, err := clientOf("start "+w.def.Name, c)
	if err != nil {
		return runs, repeated(errs, err)
	}
	client.startAll(ctx, w.def.Name, len(inputs), func(i int) (kernel.Start, error) {
		data, err := w.input(client, inputs[i])
		if err != nil {
			return kernel.Start{}, err
		}
		var own []StartOption
		if opts != nil {
			own = opts(i)
		}
		return client.specOf(w.def.Name, &w.def, data, own)
	}, func(i int, s kernel.Started, err error) {
		if errs[i] = err; err == nil {
			runs[i] = &Run[O]{client, s}
		}
	})
	return runs, errs
}

// StartAll starts a run of a workflow by name for each input, as [Client.Start] does, in one call.
// [Workflow.StartAll] is the typed form, and has the same results.
func (c *Client) StartAll(ctx context.Context, workflow string, inputs [][]byte,
	opts func(i int) []StartOption) ([]*Run[json.RawMessage], []error) {
	runs, errs := make([]*Run[json.RawMessage], len(inputs)), make([]error, len(inputs))
	def, err := c.named(workflow)
	if err != nil {
		return runs, repeated(errs, err)
	}
	c.startAll(ctx, workflow, len(inputs), func(i int) (kernel.Start, error) {
		if def != nil {
			if err := def.Decodes(inputs[i]); err != nil {
				return kernel.Start{}, err
			}
		}
		var own []StartOption
		if opts != nil {
			own = opts(i)
		}
		return c.specOf(workflow, def, append([]byte{}, inputs[i]...), unwaited(own))
	}, func(i int, s kernel.Started, err error) {
		if errs[i] = err; err == nil {
			runs[i] = &Run[json.RawMessage]{c, s}
		}
	})
	return runs, errs
}

// repeated sets all errors to err.
func repeated(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// specOf returns the kernel's form of a start.
func (c *Client) specOf(workflow string, def *sealed.Workflow, input []byte,
	opts []StartOption) (kernel.Start, error) {
	o, err := c.startOptionsOf(workflow, def, opts)
	if err == nil && o.SendKey != "" {
		err = &Error{
			Code: journal.CodeInvalid, Op: "start " + workflow,
			Message: "the option SendKey is not valid: a start sends no signal",
			Hint:    "an ID makes a start happen once; SendKey belongs to SendWithStart",
		}
	}
	if err == nil {
		err = accepts(def, input)
	}
	if err == nil && o.ID == "" && c.newID != nil {
		o.Dedup = 0 // as without an ID
		err = failure.Within("start "+workflow, c.nameStart(&o))
	}
	if err != nil {
		return kernel.Start{}, err
	}
	return o.Spec(workflow, def, input), nil
}

// nameStart sets the ID of a start to one of the application's [Options].NewID.
func (c *Client) nameStart(o *sealed.Start) error {
	var id string
	if err := guard.Call(func() error { id = c.newID(); return nil }); err != nil {
		return &Error{
			Code: journal.CodePanic, Message: "Options.NewID has not returned: " + err.Error(),
			Err: err,
		}
	}
	err := ID(id).ApplyToStart(o)
	return failure.Within("the ID of Options.NewID", err)
}

// startAll does n starts of a workflow. spec returns the start of an item, and done takes its
// result.
func (c *Client) startAll(ctx context.Context, workflow string, n int,
	spec func(i int) (kernel.Start, error), done func(i int, s kernel.Started, err error)) {
	op := "start " + workflow
	err := kernel.Outside(ctx, op)
	if err == nil && c.tx == nil {
		c.sealed.Runs.StartAll(ctx, n, spec, done)
		return
	}
	var frontEnd *kernel.FrontEnd
	if err == nil {
		frontEnd, err = c.frontEnd(ctx, op)
	}
	if err == nil {
		frontEnd.BeginAll(ctx, n, spec, done)
		return
	}
	for i := range n {
		done(i, kernel.Started{}, err)
	}
}

// SendAll sends a signal for each value, as [Signal.Send] does, in one call. The signals share
// commits, so many of them take a small part of the time of as many calls of Send. to returns the
// run ID or workflow ID that values[i] is sent to, and the options, such as its [SendKey]. It may
// be called more than once for a value. Signals to one run come in the order of values.
//
// Both results have an element for each value, in the order of values: a [Delivery] and no error,
// or an error. A value that fails does not stop the others. errors.Join of the errors is nil if
// none has failed. If ctx ends, no further signal is sent. To find out which signals were sent,
// call SendAll again with the same keys.
//
// In a transaction of the application ([Client.In]), too, a value that does not encode, or an ID
// or an option that is not valid, does not stop the others. After any other error the transaction
// can only be rolled back, and all further values have the same error.
func (s Signal[T]) SendAll(ctx context.Context, c Caller, values []T,
	to func(i int) (id string, opts []SendOption)) ([]Delivery, []error) {
	client, err := clientOf("signal "+s.name, c)
	if err == nil && to == nil {
		err = &Error{
			Code: journal.CodeInvalid, Op: "signal " + s.name, Message: "a nil to is not valid",
			Hint: "pass the function that returns the ID that a value is sent to",
		}
	}
	if err != nil {
		return make([]Delivery, len(values)), repeated(make([]error, len(values)), err)
	}
	return client.sendAll(ctx, s.name, len(values), func(i int) (kernel.Signal, error) {
		id, opts := to(i)
		return s.message(id, values[i], opts)
	})
}

// SendAll sends a signal by name for each payload, as [Client.Send] does, in one call.
// [Signal.SendAll] is the typed form, and has the same results.
func (c *Client) SendAll(ctx context.Context, name string, payloads [][]byte,
	to func(i int) (id string, opts []SendOption)) ([]Delivery, []error) {
	return c.sendAll(ctx, name, len(payloads), func(i int) (kernel.Signal, error) {
		id, opts := to(i)
		return rawSignal(id, name, payloads[i], opts)
	})
}

// sendAll sends n signals.
func (c *Client) sendAll(ctx context.Context, name string, n int,
	message func(i int) (kernel.Signal, error)) ([]Delivery, []error) {
	out, errs := make([]Delivery, n), make([]error, n)
	op := "signal " + name
	err := kernel.Outside(ctx, op)
	var frontEnd *kernel.FrontEnd
	if err == nil {
		frontEnd, err = c.frontEnd(ctx, op)
	}
	if err != nil {
		return out, repeated(errs, err)
	}
	frontEnd.SignalAll(ctx, n, message, func(i int, d kernel.Delivery, err error) {
		out[i], errs[i] = Delivery(d), err
	})
	return out, errs
}
