package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/kernel"
)

// An Awaitable is a [Future] or a [Child] of any type.
type Awaitable interface {
	operation() (*kernel.Operation, error)
}

func (f *Future[T]) operation() (*kernel.Operation, error) { return f.op, f.err }

// endedAt is when it ended, as recorded; zero where that is not.
func endedAt(f Awaitable) time.Time {
	op, err := f.operation()
	if err != nil {
		return time.Time{}
	}
	out, _ := op.State()
	return out.At
}

// A Set waits for futures of any types, which are added while it does, and gives them
// in the order in which they end. It belongs to workflow code, as a Future does.
type Set struct {
	set    *kernel.Set
	byOp   map[*kernel.Operation]Awaitable
	broken []Awaitable // that never began
}

// NewSet gives an empty set. Close it when it is not used any more.
func NewSet(ctx context.Context) (*Set, error) {
	set, err := kernel.Watch(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &Set{set: set, byOp: map[*kernel.Operation]Awaitable{}}, nil
}

// Add has the set wait for one more. One that is in it already counts once.
func (s *Set) Add(f Awaitable) error {
	op, err := f.operation()
	if err != nil {
		s.broken = append(s.broken, f)
		return nil
	}
	if s.byOp[op] != nil {
		return nil
	}
	if err := s.set.Add(op); err != nil {
		return err
	}
	s.byOp[op] = f
	return nil
}

// Len is how many are in the set that Next has not given.
func (s *Set) Len() int { return len(s.byOp) + len(s.broken) }

// Next waits for the next one that ends and takes it off the set; its Await does not
// wait any more. It gives nil where the set is empty. It fails where the run, or the
// context that the set was made with, ends first.
func (s *Set) Next() (Awaitable, error) {
	if len(s.broken) > 0 {
		f := s.broken[0]
		s.broken = s.broken[1:]
		return f, nil
	}
	if len(s.byOp) == 0 {
		return nil, nil
	}
	op, out, err := s.set.Next()
	if err != nil {
		return nil, err
	}
	f, known := s.byOp[op]
	if !known {
		return nil, fromFailure(out.Failure) // the context ended
	}
	delete(s.byOp, op)
	return f, nil
}

// Close ends the waiting.
func (s *Set) Close() { s.set.Close() }
