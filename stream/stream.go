package stream

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// MaxChunk limits a chunk in bytes, as it is encoded.
const MaxChunk = journal.MaxChunk

// A Stream is a stream whose chunks are values of type T. It is created once, usually as a package
// variable. Many goroutines may use it.
type Stream[T any] struct{ name string }

// New returns the stream of that name. Each run has its own. With json.RawMessage as T it reads a
// stream of any type.
func New[T any](name string) Stream[T] { return Stream[T]{name} }

// Name returns the stream's name.
func (s Stream[T]) Name() string { return s.name }

// Append appends a chunk to the stream of the run, and returns when it is durable. It is called in
// the body of a step, with the body's context. Once the attempt is over or was given up, it returns
// an error of code cancelled.
func (s Stream[T]) Append(ctx context.Context, v T) error { return s.put(ctx, v, true) }

// Push is [Stream.Append] without waiting. It waits only if the store does not keep up. A crash may
// lose the chunk; then the attempt is lost too.
func (s Stream[T]) Push(ctx context.Context, v T) error { return s.put(ctx, v, false) }

func (s Stream[T]) put(ctx context.Context, v T, wait bool) error {
	op := "put into stream " + s.name
	step, err := kernel.StepOf(ctx, op)
	if err != nil {
		return err
	}
	if !journal.ValidName(s.name) {
		return failure.BadName("stream", s.name)
	}
	data, err := payload.Encode(v)
	if err != nil {
		return &perdure.Error{
			Code: journal.CodeEncode, Op: op, Message: "the chunk does not encode", Err: err,
		}
	}
	return step.Put(s.name, data, wait)
}
