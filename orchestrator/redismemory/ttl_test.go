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
	const ttl = 300 * time.Millisecond
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
	time.Sleep(2 * ttl)
	if s, err := m.Read(t.Context(), "ended", nil); s != nil || err != nil {
		t.Errorf("after the time to live there is %+v, %v", s, err)
	}
	is(t, m, "again", "two", 2)
	is(t, m, "open", "one", 1)
	is(t, forever, "kept", "one", 1)
	if n, err := c.Exists(t.Context(), "orchestration:{kept}").Result(); n != 1 || err != nil {
		t.Errorf("the key does not begin with orchestration: %v", err)
	}
}
