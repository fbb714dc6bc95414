package limit

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
)

// A Semaphore is a number of slots that runs take around a part of their work. Who has waited
// longest gets the next one that is free. A run has its slot over waits and crashes, until it
// releases it or ends. With one slot it is a lock.
//
// Two runs that wait for each other's locks wait until an operator ends one of them, or until
// Within is over: take several always in the same order.
type Semaphore struct {
	Name  string
	Key   string // each key has Slots of its own
	Slots int    // 0 for one
	// Priority is compared if runs wait: a run with a higher one is first. It has 32 bits.
	Priority int
	// Within is how long to wait; 0 for without a limit. Then the error has code timed_out.
	Within time.Duration
}

func (s Semaphore) lock(op string) (kernel.Lock, error) {
	switch {
	case !journal.ValidName(s.Name) || len(s.Name) > rules.LongestLimit:
		return kernel.Lock{}, failure.Invalid(op,
			"the name of a semaphore is not valid: allowed are names of at most %d bytes",
			rules.LongestLimit)
	case s.Slots < 0:
		return kernel.Lock{}, failure.Invalid(op,
			"%d slots are not valid: allowed are 0, for one, and above", s.Slots)
	case s.Within < 0:
		return kernel.Lock{}, failure.Invalid(op,
			"Within %v is not valid: allowed are 0, for no limit, and above", s.Within)
	case !isPriority(s.Priority):
		return kernel.Lock{}, failure.Invalid(op,
			"Priority %d is not valid: allowed are 32 bits", s.Priority)
	}
	return kernel.Lock{
		Name: s.Name, Limit: s.Name + rules.LockLimit, Key: keptKey(s.Key), Max: max(s.Slots, 1),
		Priority: s.Priority, Within: s.Within,
	}, nil
}

// A Held is a slot of a semaphore that a run has.
type Held struct {
	lock kernel.Lock
	slot int64
}

// Acquire waits, in workflow code, for a slot of the semaphore. It is durable: after a crash the
// run is where it was in line.
func (s Semaphore) Acquire(ctx context.Context) (*Held, error) {
	l, err := s.lock("acquire " + s.Name)
	if err != nil {
		return nil, err
	}
	slot, err := kernel.Acquire(ctx, l)
	if err != nil {
		return nil, err
	}
	return &Held{l, slot}, nil
}

// Release frees the slot, in the commit of the turn. Who is first in line gets it then. To
// release it twice does nothing.
func (h *Held) Release(ctx context.Context) error {
	return kernel.Free(ctx, h.lock, h.slot)
}

// Do calls fn with a slot of the semaphore, and gives the slot back when fn has returned. If the
// slot cannot be given back because the run has ended, its end does so.
func (s Semaphore) Do(ctx context.Context, fn func(context.Context) error) error {
	h, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	err = fn(ctx)
	if released := h.Release(ctx); err == nil {
		err = released
	}
	return err
}
