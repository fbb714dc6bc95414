package howto

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

// A Shelf is a memory of one process: what a memory on any other store looks like.
type Shelf[T any] struct {
	mu sync.Mutex
	m  map[string]*box[T]
}

type box[T any] struct {
	state *orchestrator.State[T]
	token orchestrator.Token
	until time.Time
}

// in calls f with the box of a subject, as one step of the store.
func (s *Shelf[T]) in(ctx context.Context, subject string, f func(*box[T]) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]*box[T]{}
	}
	if s.m[subject] == nil {
		s.m[subject] = &box[T]{}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(s.m[subject])
}

func (b *box[T]) holds(t orchestrator.Token) bool {
	return t != 0 && t == b.token && time.Now().Before(b.until)
}

// Read returns the state of a subject.
func (s *Shelf[T]) Read(ctx context.Context, subject string, _ *orchestrator.Metadata) (
	state *orchestrator.State[T], err error) {
	err = s.in(ctx, subject, func(b *box[T]) error { state = b.state; return nil })
	return state, err
}

// Write stores a state under the lock, in place of the one before.
func (s *Shelf[T]) Write(ctx context.Context, subject string, c orchestrator.Change[T],
	_ *orchestrator.Metadata) error {
	return s.in(ctx, subject, func(b *box[T]) error {
		switch {
		case !b.holds(c.Lock):
			return orchestrator.ErrFenced
		case versionOf(b.state) != versionOf(c.Prev):
			return orchestrator.ErrConflict
		}
		b.state = &orchestrator.State[T]{Value: c.Next, Version: versionOf(c.Prev) + 1}
		return nil
	})
}

func versionOf[T any](s *orchestrator.State[T]) int64 {
	if s == nil {
		return 0
	}
	return s.Version
}

// Lock takes the lock of a subject.
func (s *Shelf[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *orchestrator.Metadata) (t orchestrator.Token, err error) {
	err = s.in(ctx, subject, func(b *box[T]) error {
		if !b.holds(b.token) {
			b.token, b.until = b.token+1, time.Now().Add(ttl)
			t = b.token
		}
		return nil
	})
	return t, err
}

// Unlock frees the lock of a token.
func (s *Shelf[T]) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	_ *orchestrator.Metadata) (freed bool, err error) {
	err = s.in(ctx, subject, func(b *box[T]) error {
		if freed = b.holds(t); freed {
			b.until = time.Time{}
		}
		return nil
	})
	return freed, err
}
