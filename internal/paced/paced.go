// Package paced has many things done a few at a time, as a limiter of package backpressure
// allows. It is workflow code, and the same on replay.
package paced

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
)

// A Limiter decides how many go on: see package backpressure.
type Limiter interface {
	Room(running int, now time.Time) (int, error)
	Ended(err error, now time.Time)
}

// An Awaitable is a future of any type.
type Awaitable interface {
	Operation() (*kernel.Operation, error)
}

// Things are what is done. Each has a name.
type Things[N any] struct {
	// Begin begins one, and returns what it waits for; nil where it has ended at once.
	// Alone reports that nothing else goes on until it has.
	Begin func(name N, alone bool) (Awaitable, error)
	// Ended is told of one when what it waited for has ended, and returns what it waits
	// for next, or nil; and of one that the limiter has refused, by refused.
	Ended func(name N, f Awaitable, refused error) (Awaitable, error)
	// Beside reports whether nobody waits for one: it counts as ended when it has begun.
	// Ended is told of it if it ends while others go on. Nil is none.
	Beside func(name N) bool
}

// A Pace is one use of a limiter. It belongs to the goroutine that made it.
type Pace[N any] struct {
	things  Things[N]
	ctx     context.Context
	limiter Limiter
	now     time.Time   // of what is known last
	set     *kernel.Set // nil while nothing was waited for
	waits   map[*kernel.Operation]waiting[N]
	broken  []waiting[N] // that never began
	running int          // that All waits for
	beside  int          // that nobody waits for
}

// A waiting is one of the things, and what it waits for.
type waiting[N any] struct {
	name N
	on   Awaitable
}

// New returns the pace of a limiter that begins now. Close it when it is not used any more.
func New[N any](ctx context.Context, l Limiter, now time.Time, things Things[N]) *Pace[N] {
	return &Pace[N]{
		things: things, ctx: ctx, limiter: l, now: now, waits: map[*kernel.Operation]waiting[N]{},
	}
}

// Close ends the waiting.
func (p *Pace[N]) Close() {
	if p.set != nil {
		p.set.Close()
	}
}

// All does the things of those names, and waits for all of them that are not beside. It
// fails if the run ends meanwhile.
func (p *Pace[N]) All(names []N) error {
	alone := len(names) == 1
	for len(names) > 0 || p.running > 0 {
		for len(names) > 0 {
			room, refused := p.limiter.Room(p.running, p.now)
			if refused == nil && room <= 0 && p.running > 0 {
				break
			}
			if err := p.begin(names[0], alone, refused); err != nil {
				return err
			}
			names = names[1:]
		}
		if p.running > 0 {
			if err := p.next(); err != nil {
				return err
			}
		}
		if err := kernel.Over(p.ctx); err != nil {
			return err
		}
	}
	return nil
}

// isBeside reports whether nobody waits for one.
func (p *Pace[N]) isBeside(name N) bool { return p.things.Beside != nil && p.things.Beside(name) }

// begin begins one, or tells that it is refused.
func (p *Pace[N]) begin(name N, alone bool, refused error) error {
	if refused != nil {
		_, _ = p.things.Ended(name, nil, refused)
		return kernel.Over(p.ctx)
	}
	beside := p.isBeside(name)
	f, err := p.things.Begin(name, alone && !beside && p.beside == 0)
	if f == nil || beside {
		p.limiter.Ended(err, p.now)
	}
	switch {
	case f == nil:
		return kernel.Over(p.ctx)
	case beside:
		p.beside++
	default:
		p.running++
	}
	return p.wait(waiting[N]{name, f})
}

// wait adds one to what is waited for.
func (p *Pace[N]) wait(w waiting[N]) error {
	op, err := w.on.Operation()
	if err != nil {
		p.broken = append(p.broken, w)
		return nil
	}
	if p.set == nil {
		if p.set, err = kernel.Watch(p.ctx, nil); err != nil {
			return err
		}
	}
	p.waits[op] = w
	return p.set.Add(op)
}

// next waits for the next one that ends.
func (p *Pace[N]) next() error {
	w, at, err := p.ended()
	if err != nil {
		return err
	}
	if at.After(p.now) {
		p.now = at
	}
	then, err := p.things.Ended(w.name, w.on, nil)
	switch {
	case then != nil:
		return p.wait(waiting[N]{w.name, then})
	case p.isBeside(w.name):
		p.beside--
	default:
		p.running--
		p.limiter.Ended(err, p.now)
	}
	return nil
}

// ended returns the next one whose wait is over, and when that ended as recorded.
func (p *Pace[N]) ended() (waiting[N], time.Time, error) {
	if len(p.broken) > 0 {
		w := p.broken[0]
		p.broken = p.broken[1:]
		return w, time.Time{}, nil
	}
	op, out, err := p.set.Next()
	if err != nil {
		return waiting[N]{}, time.Time{}, err
	}
	w, known := p.waits[op]
	if !known { // the context has ended
		return w, time.Time{}, failure.Err(out.Failure)
	}
	delete(p.waits, op)
	return w, out.At, nil
}
