package world

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
)

// ErrOdd is an error of the application. It is registered, so it survives a crash.
var ErrOdd = errors.New("odd")

var _ = perdure.RegisterError("test.odd", ErrOdd)

// GoSignal is a signal that runs wait for.
var GoSignal = perdure.NewSignal[int]("go")

// Work returns the body of a step that takes a while. What it returns follows from its name.
func Work(name string, d time.Duration, err error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if d == 0 {
			return len(name) * 7, err
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		return len(name) * 7, err
	}
}

// Nothing is a workflow that does nothing.
func Nothing(context.Context, int) (int, error) { return 0, nil }

// PlainStep does a step that succeeds.
func PlainStep(ctx context.Context, name string) error {
	_, err := perdure.Step(ctx, name, func(context.Context) (int, error) { return 1, nil })
	return err
}

// Pause waits for a while, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A Span is when something began and ended, as the run has recorded it.
type Span struct{ Began, Ended time.Time }

// Took returns how long it took.
func (s Span) Took() time.Duration { return s.Ended.Sub(s.Began) }

// Timed returns a workflow that records how long its code took.
func Timed(
	name string, code func(context.Context) error, opts ...perdure.WorkflowOption,
) *perdure.Workflow[int, Span] {
	return perdure.Define(name, func(ctx context.Context, _ int) (Span, error) {
		began, err := perdure.Now(ctx)
		if err != nil {
			return Span{}, err
		}
		if err := code(ctx); err != nil {
			return Span{}, err
		}
		ended, err := perdure.Now(ctx)
		return Span{began, ended}, err
	}, opts...)
}
