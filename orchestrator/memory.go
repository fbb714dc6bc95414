package orchestrator

import (
	"context"
	"errors"
	"time"
)

// A Memory keeps the states of instances, by subject. Each method tries once. Metadata may be nil,
// and a memory need not use it. An error other than [ErrConflict] and [ErrFenced] means that the
// memory has failed: the caller does not know whether the call had an effect.
//
// Methods are called by many goroutines, in many processes.
type Memory[T any] interface {
	// Read returns the state of a subject; nil if nothing is stored.
	Read(ctx context.Context, subject string, m *Metadata) (*State[T], error)
	// Write stores a state durably in place of the one before, or changes nothing. It returns
	// ErrFenced if the change's token is not that of the lock which is held now, and else
	// ErrConflict if the stored state is not the one before.
	Write(ctx context.Context, subject string, c Change[T], m *Metadata) error
	// Lock takes the lock of a subject until Unlock, or until the time to live has passed, which is
	// above 0. It returns 0 if somebody holds the lock. Each token of a subject is greater than the
	// tokens before it, also after a state was removed.
	Lock(ctx context.Context, subject string, ttl time.Duration, m *Metadata) (Token, error)
	// Unlock ends the lock of that token. It returns false if that lock is not held any more; then
	// it changes nothing.
	Unlock(ctx context.Context, subject string, t Token, m *Metadata) (bool, error)
}

// A Cleaner is a [Memory] that is told of ends. Cleanup is called with the arguments of the Write
// that has stored the final state of an instance, after it and under the same lock. After a crash
// it is called again, without the state before. It may change what is stored, but must keep the
// [Record.Rest] of a record: otherwise a crash loses events, and an event is consumed twice.
type Cleaner[T any] interface {
	Cleanup(ctx context.Context, subject string, c Change[T], m *Metadata) error
}

// A Family is a [Memory] that finds instances by their parents. It learns a parent from the
// metadata of a Write, and the parent of an instance never changes.
type Family interface {
	// Children returns the subjects of the instances of a parent that have a state, in the order of
	// their names.
	Children(ctx context.Context, parent string) ([]string, error)
}

var (
	// ErrConflict is returned by a Write if the stored state is not the one that was read.
	ErrConflict = errors.New("orchestrator: the stored state is not the one that was read")
	// ErrFenced is returned by a Write whose lock has passed or was never held.
	ErrFenced = errors.New("orchestrator: the lock is not held any more")
)

// A State is a value as it is stored.
type State[T any] struct {
	Value   T
	Version int64 // how often the state of the subject was written; 1 for the first time
}

// A Change is the argument of a Write.
type Change[T any] struct {
	Next T
	Prev *State[T] // as it was read; nil for the first state. Only its version is compared
	Lock Token
}

// before returns the version of the state before; 0 for none.
func (c *Change[T]) before() int64 {
	if c.Prev == nil {
		return 0
	}
	return c.Prev.Version
}

// A Token names one holding of a lock. The zero value is none.
type Token int64
