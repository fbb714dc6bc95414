package perdure_test

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

// A ledger is the outside world: it writes down every call it gets.
type ledger struct {
	mu    sync.Mutex
	made  map[string]int // calls, by idempotency key and attempt
	names []string       // of the effects, each key once
	keys  map[string]bool
}

func newLedger() *ledger { return &ledger{made: map[string]int{}, keys: map[string]bool{}} }

func (l *ledger) effect(what string, d time.Duration) func(context.Context) (string, error) {
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
		_, err := work(what, d, nil)(ctx)
		return what, err
	}
}

// order returns the effects in their order, each once.
func (l *ledger) order() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

// calls counts the calls, by idempotency key and attempt.
func (l *ledger) calls() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.made)
}

// did gives what was done so far, each thing once, and forgets it.
func (l *ledger) did() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.names
	l.names, l.made, l.keys = nil, map[string]int{}, map[string]bool{}
	return out
}

// plans plans clean-ups: those named "f…" always, others for a cancel or timeout.
// Each does a step of the same name, with that effect.
func (l *ledger) plans(ctx context.Context, names ...string) error {
	for _, name := range names {
		plan := perdure.OnCancel
		if strings.HasPrefix(name, "f") {
			plan = perdure.Finally
		}
		if err := plan(ctx, "clean-up", func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "s", l.effect(name, time.Second))
			return err
		}, perdure.Key(name)); err != nil {
			return err
		}
	}
	return nil
}
