package orchestrator

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// A Notice reports how the handling of an event, or a clean-up, has ended.
type Notice struct {
	Event   event.Event
	CleanUp bool    // it is about the clean-up after the instance's last event
	Outcome Outcome // empty if there is an error
	Err     error
}

// notify calls the observer. A panic of it stops nothing.
func (o *Orchestrator) notify(ctx context.Context, n Notice) {
	if o.Observe != nil {
		_ = guard.Call(func() error { o.Observe(ctx, n); return nil })
	}
}

// A Counter counts how events went. Its method Count is an observer. The zero value is ready.
type Counter struct {
	mu     sync.Mutex
	counts map[string]int64
}

// The names of what a [Counter] counts, beside the outcomes.
const (
	CountViolations = "violations"        // events that break a contract
	CountErrors     = "errors"            // events that have to be delivered again
	CountCleanUps   = "clean-ups"         // that worked
	CountUnclean    = "clean-ups, failed" // that did not
)

// Count counts a notice.
func (c *Counter) Count(_ context.Context, n Notice) {
	name := string(n.Outcome)
	var v *Violation
	var failed *TransactionError
	switch {
	case n.CleanUp && n.Err != nil:
		name = CountUnclean
	case n.CleanUp:
		name = CountCleanUps
	case errors.As(n.Err, &v) && !errors.As(n.Err, &failed):
		name = CountViolations
	case n.Err != nil:
		name = CountErrors
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int64{}
	}
	c.counts[name]++
}

// Counts returns the counts by outcome or name.
func (c *Counter) Counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
