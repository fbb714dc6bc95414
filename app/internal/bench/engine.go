package bench

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// An engine is a running engine.
type engine struct {
	*perdure.Engine
	cancel context.CancelCauseFunc
	ctx    context.Context // ends when the engine ends, with the cause
	ran    chan error
}

// startEngine runs an engine that does not wait for steps when it is stopped.
func startEngine(ctx context.Context, s store.Store, w perdure.Definition,
	observers ...observe.Observer) (*engine, error) {
	inner, err := perdure.New(s, perdure.Options{Build: "bench", Drain: -1, Observers: observers})
	if err != nil {
		return nil, err
	}
	if err := inner.Register(w); err != nil {
		return nil, err
	}
	e := &engine{Engine: inner, ran: make(chan error, 1)}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	go func() {
		err := inner.Run(e.ctx)
		e.cancel(err)
		e.ran <- err
	}()
	return e, nil
}

// stop stops the engine and waits for it.
func (e *engine) stop() error {
	e.cancel(errors.New("the engine was stopped"))
	return <-e.ran
}
