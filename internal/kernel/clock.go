package kernel

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/guard"
)

// A clock tells the time that is recorded, and that recorded times are compared with: the times of
// entries, messages and notices, when a timer or a retry is due, when a run began and ended. It is
// the clock of the application, or else that of the machine.
//
// What is measured does not ask it, but the monotonic clock of the machine: how long an attempt, a
// commit or a turn takes, how long a run is idle, when a lease ends. A lease keeps two processes
// apart, each of which stops by its own count of the time that has passed. With a clock that jumps,
// both could write.
type clock struct {
	app func() time.Time // nil for the clock of the machine
}

// Now returns the time.
func (c clock) Now() time.Time {
	if c.app == nil {
		return time.Now()
	}
	return c.ask()
}

// ask asks the clock of the application. If that panics, or returns the zero time, ask returns the
// time of the machine: the zero time means never.
func (c clock) ask() (now time.Time) {
	_ = guard.Try(func() error {
		now = c.app().Round(0)
		return nil
	})
	if now.IsZero() {
		return time.Now()
	}
	return now
}

// until returns how long it is until t; below 0 if t has passed.
func (c clock) until(t time.Time) time.Duration {
	if c.app == nil {
		return time.Until(t)
	}
	return t.Sub(c.ask())
}

// nextLook returns how long a timer of the machine waits before the clock is looked at again for
// that time: at most a sweep, since timers do not notice that the clock was put forward, or that
// the machine slept.
func (k *Kernel) nextLook(due time.Time) time.Duration {
	left := max(k.until(due), 0)
	if k.cfg.Sweep > 0 {
		left = min(left, k.cfg.Sweep)
	}
	return left
}

// Now returns the time by the clock of the engine that executes the workflow code or the step of
// ctx, and elsewhere the time of the machine. In workflow code the caller records it.
func Now(ctx context.Context) time.Time {
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		return v.run.k.Now()
	case *attempt:
		return v.op.run.k.Now()
	}
	return time.Now()
}
