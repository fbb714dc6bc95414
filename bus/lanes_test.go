package bus

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure/event"
)

// An event that was interrupted comes again: those of its subject after it are not handled before.
//
// spec: R-42
func TestNothingFollowsAnEventThatWasInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newLanes(ctx, 2)
	for _, id := range []string{"1", "2"} {
		l.add(&job{Message: Message{Event: event.Event{ID: id, Subject: "a"}}})
	}
	l.work(func(context.Context, *job) time.Duration {
		cancel()
		return -1
	})
	if first := l.first("a").Event.ID; first != "1" || len(l.ready) > 0 {
		t.Errorf("event %s is the next one, and %d subjects are ready", first, len(l.ready))
	}
}
