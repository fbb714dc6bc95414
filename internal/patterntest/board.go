// Package patterntest has helpers that the tests of the declared patterns share.
package patterntest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/perdure/perdure"
)

// A Board keeps the events that were published, each event ID once. The zero value is empty. A
// Board is safe for concurrent use.
type Board struct {
	mu   sync.Mutex
	seen map[string]bool
	all  []perdure.Event
}

// Publish adds an event.
func (b *Board) Publish(_ context.Context, e perdure.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	if !b.seen[e.ID] {
		b.seen[e.ID] = true
		b.all = append(b.all, e)
	}
	return nil
}

// Reset removes all events.
func (b *Board) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.all = nil, nil
}

// String returns a line for each event: its kind, the status of the run, topic/type/key, the step,
// and the payload. The key is "id" if it is the workflow ID.
func (b *Board) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.all {
		key := e.Key
		if key == e.WorkflowID {
			key = "id"
		}
		out = append(out, fmt.Sprintf("%s %s %s/%s/%s %s", e.Kind, e.Status, e.Topic, e.Type, key,
			strings.TrimSpace(e.Step+" "+string(e.Data))))
	}
	return strings.Join(out, "\n")
}
