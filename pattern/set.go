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

// A Set waits for futures of any types, which are added while it does, and gives them
// in the order in which they end. It belongs to workflow code, as a Future does, and to
// the goroutine that made it.
type Set struct {
	set    *kernel.Set
	in     map[any]Awaitable // by operation; those without one by themselves
	broken []Awaitable       // that never began
	err    error             // that Next gives from now on
}

// NewSet gives an empty set. Close it when it is not used any more.
func NewSet(ctx context.Context) (*Set, error) {
	set, err := kernel.Watch(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &Set{set: set, in: map[any]Awaitable{}}, nil
}

// Add has the set wait for one more. One that has ended comes after those in the set
// that have. One that is in it already counts once; one that Next has given is in it
// again. A future that never began, because its name or an option cannot be, has ended,
// and comes first.
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

// Len is how many are in the set that Next has not given.
func (s *Set) Len() int { return len(s.in) }

// Next waits for the next one that ends and takes it off the set; its Await does not
// wait any more. It gives nil where the set is empty. It fails where the run, or the
// context that the set was made with, ends first, and from then on.
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

// Close ends the waiting and empties the set. Nothing can be added from then on.
func (s *Set) Close() {
	s.set.Close()
	clear(s.in)
	s.broken, s.err = nil, &perdure.Error{
		Code: journal.CodeMisuse, Op: "set", Message: "the set is closed",
	}
}
