package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// A Ledger is the outside world: it records every call.
type Ledger struct {
	mu    sync.Mutex
	made  map[string]int // calls, by idempotency key and attempt
	names []string       // of the effects, each key once
	keys  map[string]bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{made: map[string]int{}, keys: map[string]bool{}} }

// Effect returns the body of a step that takes a while and is recorded.
func (l *Ledger) Effect(what string, d time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		key := perdure.IdempotencyKey(ctx)
		n, _, _ := perdure.Attempt(ctx)
		l.mu.Lock()
		l.made[fmt.Sprintf("%s attempt %d", key, n)]++
		if !l.keys[key] {
			l.keys[key] = true
			l.names = append(l.names, what)
		}
		l.mu.Unlock()
		_, err := Work(what, d, nil)(ctx)
		return what, err
	}
}

// Order returns the effects in their order, each once.
func (l *Ledger) Order() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

// Calls counts the calls, by idempotency key and attempt.
func (l *Ledger) Calls() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.made)
}

// Did returns the effects in their order, each once, and forgets them.
func (l *Ledger) Did() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.names
	l.names, l.made, l.keys = nil, map[string]int{}, map[string]bool{}
	return out
}

// Plans plans clean-ups: those named "f…" always, others for a cancel or timeout.
// Each does a step of the same name, with that effect.
func (l *Ledger) Plans(ctx context.Context, names ...string) error {
	for _, name := range names {
		plan := perdure.OnCancel
		if strings.HasPrefix(name, "f") {
			plan = perdure.Finally
		}
		if err := plan(ctx, "clean-up", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "s", l.Effect(name, time.Second))
			return err
		}, perdure.Key(name)); err != nil {
			return err
		}
	}
	return nil
}
