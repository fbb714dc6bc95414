package orchestrator

import (
	"context"
	"time"
)

// The tries of a memory that insists. A Read ends within readWithin.
const (
	tries      = 3
	firstPause = 50 * time.Millisecond // it doubles
	readWithin = 900 * time.Millisecond
)

// Insist returns a memory that tries again:
//
//   - Read up to three times if it fails, and in under a second;
//   - Lock up to three times if it fails or somebody holds the lock;
//   - Unlock up to three times. It returns false instead of an error: the time to live frees the
//     lock;
//   - Write once. Whoever reads the state again finds out what has become of it.
//
// It is a [Cleaner], whose Cleanup does nothing if m is none.
func Insist[T any](m Memory[T]) Memory[T] { return insisting[T]{m} }

type insisting[T any] struct{ Memory[T] }

func (i insisting[T]) Read(ctx context.Context, subject string, m *Metadata) (s *State[T],
	err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	err = try(ctx, func() (bool, error) {
		s, err = i.Memory.Read(ctx, subject, m)
		return true, err
	})
	return s, err
}

func (i insisting[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	m *Metadata) (t Token, err error) {
	err = try(ctx, func() (bool, error) {
		t, err = i.Memory.Lock(ctx, subject, ttl, m)
		return t != 0, err
	})
	return t, err
}

func (i insisting[T]) Unlock(ctx context.Context, subject string, t Token, m *Metadata) (ok bool,
	_ error) {
	err := try(ctx, func() (_ bool, err error) {
		ok, err = i.Memory.Unlock(ctx, subject, t, m)
		return true, err
	})
	return ok && err == nil, nil
}

func (i insisting[T]) Cleanup(ctx context.Context, subject string, c Change[T],
	m *Metadata) error {
	if cleaner, is := i.Memory.(Cleaner[T]); is {
		return cleaner.Cleanup(ctx, subject, c, m)
	}
	return nil
}

// try calls f until it is done without an error, at most three times. It returns the last error. It
// begins no further try when ctx has ended.
func try(ctx context.Context, f func() (done bool, err error)) error {
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		done, err := f()
		if done && err == nil || n == tries {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
