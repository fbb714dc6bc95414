package pattern

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// An Awaitable is a [perdure.Future] or a [perdure.Child] of any type.
type Awaitable interface {
	Operation() (*kernel.Operation, error)
}

// A Set waits for futures of any types, and returns them in the order in which they end. Futures
// may be added while it waits. It belongs to workflow code, as a Future does, and to the goroutine
// that made it.
type Set struct {
	set    *kernel.Set
	in     map[any]Awaitable // by operation; a future without an operation by itself
	broken []Awaitable       // futures that never began
	err    error             // returned by Next from now on
}

// NewSet returns an empty set. Close it when it is not used any more.
func NewSet(ctx context.Context) (*Set, error) {
	set, err := kernel.Watch(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &Set{set: set, in: map[any]Awaitable{}}, nil
}

// Add adds a future to the set. A future that has ended comes after the ended futures that are in
// the set already. A future that is in the set already counts once. A future that Next has returned
// is in the set again. A future that never began, because its name or an option is not valid,
// counts as ended and comes first.
func (s *Set) Add(f Awaitable) error {
	if s.err != nil {
		return s.err
	}
	if f == nil {
		return failure.Invalid("add to set", "a nil future")
	}
	op, err := f.Operation()
	switch {
	case err != nil && s.in[f] == nil:
		s.broken = append(s.broken, f)
		s.in[f] = f
	case err == nil && s.in[op] == nil:
		if err := s.set.Add(op); err != nil {
			return err
		}
		s.in[op] = f
	}
	return nil
}

// Len returns the number of futures in the set that Next has not returned.
func (s *Set) Len() int { return len(s.in) }

// Next waits for the next future that ends and removes it from the set. Await of this future does
// not wait any more. Next returns nil if the set is empty. It fails if the run, or the context that
// the set was made with, ends first, and on every later call.
func (s *Set) Next() (Awaitable, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.in) == 0:
		return nil, nil
	case len(s.broken) > 0:
		f := s.broken[0]
		s.broken = s.broken[1:]
		delete(s.in, f)
		return f, nil
	}
	op, out, err := s.set.Next()
	if err != nil {
		return nil, err
	}
	f := s.in[op]
	if f == nil { // the context ended
		s.err = failure.Err(out.Failure)
		return nil, s.err
	}
	delete(s.in, op)
	return f, nil
}

// Close ends the waiting and empties the set. No future can be added afterwards.
func (s *Set) Close() {
	s.set.Close()
	clear(s.in)
	s.broken, s.err = nil, &perdure.Error{
		Code: journal.CodeMisuse, Op: "set", Message: "the set is closed",
	}
}
