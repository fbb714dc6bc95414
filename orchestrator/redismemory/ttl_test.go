package redismemory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/redismemory"
)

// What has ended is kept for the time to live, unless it is written again. By default it has none.
//
// spec: P-13
func TestWhatHasEndedIsKeptForTheTimeToLive(t *testing.T) {
	c := to(t, testserver.Redis(t))
	const ttl = time.Hour
	m := redismemory.New[value](c, redismemory.Options{Prefix: "ttl:", TTL: ttl})
	forever := redismemory.New[value](c, redismemory.Options{})
	one := change{Next: value{Text: "one"}}
	for subject, m := range map[string]*memory{"ended": m, "again": m, "open": m, "kept": forever} {
		one.Lock = holds(t, m, subject)
		if err := m.Write(t.Context(), subject, one, nil); err != nil {
			t.Fatal(err)
		}
		if subject == "open" {
			continue
		}
		if err := m.Cleanup(t.Context(), subject, one, nil); err != nil {
			t.Fatal(err)
		}
		if subject == "again" {
			before := &state{Value: one.Next, Version: 1}
			next := change{Next: value{Text: "two"}, Prev: before, Lock: one.Lock}
			if err := m.Write(t.Context(), subject, next, nil); err != nil {
				t.Fatal(err)
			}
			late := change{Next: value{Text: "two"}, Lock: one.Lock + 1}
			err := m.Cleanup(t.Context(), subject, late, nil)
			if !errors.Is(err, orchestrator.ErrFenced) {
				t.Errorf("a clean-up without the lock returns %v", err)
			}
		}
	}
	is(t, m, "ended", "one", 1)
	is(t, m, "again", "two", 2)
	const none = -1 // a key without an expiry
	for key, want := range map[string]time.Duration{
		"ttl:{ended}": ttl, "ttl:{again}": none, "ttl:{open}": none, "orchestration:{kept}": none,
	} {
		left, err := c.PTTL(t.Context(), key).Result()
		if err != nil || left != want && (want == none || left <= 0 || left > want) {
			t.Errorf("%s is kept for %v, want %v: %v", key, left, want, err)
		}
	}
}
