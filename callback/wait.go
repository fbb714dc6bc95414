package callback

import (
	"context"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
)

// purpose is the purpose of the tokens of this package.
const purpose = "callback"

// A Wait is a wait for an answer of type T. It belongs to workflow code, as a [perdure.Future]
// does, but for [Wait.Token].
type Wait[T any] struct {
	name   string
	path   string // of its scope in the run, without the slash at the end
	run    journal.RunID
	opened int64 // the entry that opened the scope
	op     *kernel.Operation
	due    time.Time // the limit that the last heartbeat has set; zero before the first
}

// New begins a wait, in workflow code. The options are those of a wait for a signal, but for
// [perdure.Where]. A loop gives each wait a [perdure.Key]. Whoever has the token may answer from
// the moment on at which a step has it, also before the code awaits the answer.
func New[T any](ctx context.Context, name string, opts ...perdure.WaitOption) (*Wait[T], error) {
	op := "callback " + name
	if !journal.ValidName(name) {
		return nil, failure.BadName("callback", name)
	}
	var limits kernel.Wait
	for _, opt := range opts {
		if opt == nil {
			return nil, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToWait(&limits); err != nil {
			return nil, failure.Within(op, err)
		}
	}
	if limits.Match != nil {
		return nil, failure.Invalid(op, "Where is for signals: the first answer ends a callback")
	}
	scope, err := kernel.Open(ctx, kernel.Naming{
		Name: name, Key: limits.Key, Change: limits.Change,
	})
	if err != nil {
		return nil, err
	}
	w := &Wait[T]{name: name}
	w.op, err = kernel.WaitFor(scope, kernel.Wait{
		Name: journal.CallbackName, Within: limits.Within, Until: limits.Until,
	})
	if err != nil {
		return nil, err
	}
	w.run, w.path, w.opened = w.op.Place()
	return w, nil
}

// Token returns the text that lets its holder answer. It is called in the body of a step of the
// same run, and the result is for outside: what the body returns is recorded, so it should not be
// the token.
func (w *Wait[T]) Token(ctx context.Context) (string, error) {
	op := "token of callback " + w.path
	s, err := kernel.StepOf(ctx, op)
	if err != nil {
		return "", err
	}
	if s.Run().ID != w.run {
		return "", &perdure.Error{
			Code: journal.CodeMisuse, Op: op, Message: "called in a step of another run",
		}
	}
	text, err := token.MakeInStep(ctx, token.Claims{
		Purpose: purpose, Run: string(w.run), Subject: w.path,
		Detail: strconv.FormatInt(w.opened, 10),
	})
	return text, failure.Within(op, err)
}

// Await waits until the wait is over and returns the payload of the answer. If the caller has
// failed it, the error is [ErrFailed] with the reason of the caller, of code failed. If the time
// has passed, it has the code timed_out and is also a context.DeadlineExceeded. The end of ctx ends
// only the waiting.
func (w *Wait[T]) Await(ctx context.Context) (T, error) {
	for {
		op := w.op
		out, err := op.Await(ctx)
		if err != nil {
			var zero T
			return zero, err
		}
		d := out.Detail
		if out.Failure != nil || d == nil || d.Due.IsZero() {
			return payload.Result[T]("callback", w.name, out.Data, out.Failure)
		}
		if w.op != op { // another branch has taken the heartbeat
			continue
		}
		if d.Due.After(w.due) {
			w.due = d.Due
		}
		own, _ := kernel.Own(ctx)
		next, err := kernel.WaitFor(own, kernel.Wait{
			Name: journal.CallbackName, Key: w.path, Until: w.due,
		})
		if err != nil {
			var zero T
			return zero, err
		}
		w.op = next
	}
}
