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

// ErrBroken is the permanent error of [Ledger.Book] for a broken name.
var ErrBroken = errors.New("broken")

// A Ledger keeps the names that took effect, once for each idempotency key. It is safe for
// concurrent use.
type Ledger struct {
	mu   sync.Mutex
	keys map[string]string // the name that took effect, by key
	by   map[string]string // the run whose keys the name had that took effect last, by name
	bad  []string
	ran  []string // names tried since the last Reset or Break
}

// Reset empties the ledger, and sets the names that are broken.
func (l *Ledger) Reset(broken ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys, l.by = nil, nil
	l.bad, l.ran = broken, nil
}

// Break sets the names that are broken from now on.
func (l *Ledger) Break(broken ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad, l.ran = broken, nil
}

// Ran returns the names that were tried since the last [Ledger.Reset] or [Ledger.Break], sorted.
func (l *Ledger) Ran() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(l.ran)), ", ")
}

// Book makes a name take effect in the body of a step, under the step's idempotency key. It fails
// for a broken name, for a key under which another name has taken effect, and for "undo x" if its
// keys are of another run than those of x.
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
		l.keys, l.by = map[string]string{}, map[string]string{}
	}
	info, _ := perdure.StepOf(ctx)
	done, isUndo := strings.CutPrefix(what, "undo ")
	if by := l.by[done]; isUndo && by != "" && by != info.Keys {
		return perdure.Permanent(fmt.Errorf("%s has the keys of %s, and %s those of %s", what,
			info.Keys, done, by))
	}
	l.keys[key], l.by[what] = what, info.Keys
	return nil
}

// String returns how often each name took effect, sorted by name: "a 1, b 2".
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
