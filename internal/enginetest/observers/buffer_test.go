package observers

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// many is above the number of pending calls that one listener, or the subscriber, holds.
const many = 1500

func started(t *testing.T, w *world.World, wf *perdure.Workflow[int, string], n int) {
	t.Helper()
	for i := range n {
		world.Start(w, wf, i, perdure.ID(fmt.Sprint(wf.Name(), i)))
	}
	time.Sleep(time.Minute)
}

func outboxIsEmpty(t *testing.T, w *world.World) {
	t.Helper()
	if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != 0 {
		t.Errorf("%d entries are in the outbox still, %v", info.Outbox, err)
	}
}

func once(t *testing.T, who string, times map[string]int, want int) {
	t.Helper()
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s heard of %s %d times", who, id, n)
		}
	}
	if len(times) != want {
		t.Errorf("%s heard of %d runs, want %d", who, len(times), want)
	}
}

// spec: R-29, L-18
func TestASilentBrokerSilencesNoListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ears
		var s world.Subscriber
		let := make(chan struct{})
		s.Do = func(context.Context, int, perdure.Event) error { <-let; return nil }
		hears := perdure.Listener{Call: e.hear}
		noisy := perdure.Define("noisy", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "s", emits(nil, "a", "b"))
		}, hears)
		quiet := perdure.Define("quiet", func(context.Context, int) (string, error) {
			return "", nil
		}, hears)
		w := world.With(t, perdure.Options{Publisher: s.Take}, noisy, quiet)
		defer func() { w.End() }()
		started(t, w, noisy, many)
		started(t, w, quiet, many)
		once(t, "the listener", e.times(), many)
		close(let)
		time.Sleep(time.Hour)
		once(t, "the listener", e.times(), 2*many)
		if n := len(s.Types()); n != 2*many {
			t.Errorf("the broker has %d events, want %d", n, 2*many)
		}
		last := map[string]string{}
		for _, ev := range s.Told {
			if ev.Type <= last[ev.WorkflowID] {
				t.Errorf("of %s it got %s after %s", ev.WorkflowID, ev.Type, last[ev.WorkflowID])
			}
			last[ev.WorkflowID] = ev.Type
		}
		outboxIsEmpty(t, w)
	})
}

// A listener that does not return does not hold up another listener or the broker, and uses no
// more memory than its limit. This holds where runs only end, and where their events are
// delivered before.
//
// spec: L-18
func TestASilentListenerSilencesNeitherOthersNorTheBroker(t *testing.T) {
	for name, events := range map[string][]string{"ends": nil, "events and ends": {"a"}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && len(events) == 0 {
				t.Skip("the other one has ends too")
			}
			synctest.Test(t, func(t *testing.T) {
				var other ears
				var s world.Subscriber
				slow := stuck{let: make(chan struct{})}
				wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
					return perdure.Step(ctx, "s", emits(nil, events...))
				}, perdure.Listener{Call: slow.hear}, perdure.Listener{Call: other.hear})
				w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
				defer func() { w.End() }()
				started(t, w, wf, 3*many)
				once(t, "the other listener", other.times(), 3*many)
				if n, want := len(s.Types()), len(events)*3*many; n != want {
					t.Errorf("the broker has %d events, want %d", n, want)
				}
				if n := runtime.NumGoroutine(); n > 2*many {
					t.Errorf("%d goroutines while one listener is silent", n)
				}
				close(slow.let)
				time.Sleep(time.Hour)
				once(t, "the slow listener", slow.times(), 3*many)
				once(t, "the other listener", other.times(), 3*many)
				if slow.most != 16 {
					t.Errorf("%d calls at a time, want 16", slow.most)
				}
				outboxIsEmpty(t, w)
				w.End()
				w.Begin()
				time.Sleep(time.Hour)
				once(t, "the other listener", other.times(), 3*many)
			})
		})
	}
}
