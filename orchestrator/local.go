package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Local is a [Memory] within one process, for tests and for states that need not outlive it. The
// zero value is empty. A state is kept as JSON, so nobody shares it with the memory.
type Local[T any] struct {
	mu       sync.Mutex
	subjects map[string]*kept
}

// A kept is the part of a Local that is about one subject.
type kept struct {
	data    []byte
	version int64
	parent  string
	token   Token     // of the last lock
	until   time.Time // when that lock ends; zero if it has ended
}

// holds reports whether the lock of that token is held.
func (k *kept) holds(t Token) bool {
	return t != 0 && t == k.token && time.Now().Before(k.until)
}

// of returns what there is of a subject. It is called with the lock of the Local.
func (l *Local[T]) of(subject string) *kept {
	k := l.subjects[subject]
	if k == nil {
		k = &kept{}
		if l.subjects == nil {
			l.subjects = map[string]*kept{}
		}
		l.subjects[subject] = k
	}
	return k
}

// Read returns the state of a subject.
func (l *Local[T]) Read(ctx context.Context, subject string, _ *Metadata) (*State[T], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.subjects[subject]
	if err := ctx.Err(); err != nil || k == nil || k.version == 0 {
		return nil, err
	}
	s := &State[T]{Version: k.version}
	if err := json.Unmarshal(k.data, &s.Value); err != nil {
		return nil, fmt.Errorf("orchestrator: read %s: %w", subject, err)
	}
	return s, nil
}

// Write stores a state.
func (l *Local[T]) Write(ctx context.Context, subject string, c Change[T], m *Metadata) error {
	data, err := json.Marshal(c.Next)
	if err != nil {
		return fmt.Errorf("orchestrator: write %s: %w", subject, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(subject)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !k.holds(c.Lock):
		return ErrFenced
	case k.version != c.before():
		return ErrConflict
	}
	k.data, k.version = data, k.version+1
	if m != nil {
		k.parent, _ = m.Parent.Name()
	}
	return nil
}

// Children returns the subjects of the instances of a parent.
func (l *Local[T]) Children(ctx context.Context, parent string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for subject, k := range l.subjects {
		if k.version > 0 && k.parent == parent && parent != "" {
			all = append(all, subject)
		}
	}
	slices.Sort(all)
	return all, ctx.Err()
}

// Lock takes the lock of a subject.
func (l *Local[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *Metadata) (Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(subject)
	if err := ctx.Err(); err != nil || k.holds(k.token) {
		return 0, err
	}
	k.token++
	k.until = time.Now().Add(ttl)
	return k.token, nil
}

// Unlock ends a lock.
func (l *Local[T]) Unlock(ctx context.Context, subject string, t Token, _ *Metadata) (bool,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(subject)
	if err := ctx.Err(); err != nil || !k.holds(t) {
		return false, err
	}
	k.until = time.Time{}
	return true, nil
}
