package patterntest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
)

// ErrBroken is what [Ledger.Book] fails with, for good.
var ErrBroken = errors.New("broken")

// A Ledger has what took effect, once for each idempotency key. It is safe for
// concurrent use.
type Ledger struct {
	mu   sync.Mutex
	keys map[string]string // what took effect under a key
	bad  []string
	ran  []string // since it was said last what is broken
}

// Reset empties it, and says what is broken.
func (l *Ledger) Reset(broken ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = nil
	l.bad, l.ran = broken, nil
}

// Break says what is broken from now on.
func (l *Ledger) Break(broken ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad, l.ran = broken, nil
}

// Ran returns the names of what was tried since it was said last what is broken, sorted.
func (l *Ledger) Ran() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(l.ran)), ", ")
}

// Book takes effect in the body of a step, under its idempotency key. It fails for what
// is broken, and for a key under which something else has taken effect.
func (l *Ledger) Book(ctx context.Context, what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran = append(l.ran, what)
	if slices.Contains(l.bad, what) {
		return perdure.Permanent(fmt.Errorf("%s: %w", what, ErrBroken))
	}
	key := perdure.IdempotencyKey(ctx)
	if was, known := l.keys[key]; known && was != what {
		return perdure.Permanent(fmt.Errorf("the key of %s is that of %s", what, was))
	}
	if l.keys == nil {
		l.keys = map[string]string{}
	}
	l.keys[key] = what
	return nil
}

// String tells how often each took effect, by name: "a 1, b 2".
func (l *Ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[string]int{}
	for _, what := range l.keys {
		count[what]++
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprint(what, " ", count[what]))
	}
	return strings.Join(out, ", ")
}
