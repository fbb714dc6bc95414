package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A recorder is a T that records failures instead of failing. Like those of a T, its methods may be
// called on many goroutines, and some may still go on when the check has ended.
type recorder struct {
	ctx      context.Context
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }

// failures runs a check and returns its failures.
func (c check) failures(ctx context.Context, db Database) []string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.try(r, db)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// Catches reports whether a row of the contract, chosen by its name, fails with a driver that
// was broken on purpose. Because a race may succeed by chance, it runs the row up to tries
// times, each on a database of its own.
func Catches(t *testing.T, name string, tries int, fresh func() Database) bool {
	t.Helper()
	for _, c := range checks() {
		if c.name != name {
			continue
		}
		for range tries {
			if failures := c.failures(t.Context(), fresh()); len(failures) > 0 {
				t.Logf("caught: %s", failures[0])
				return true
			}
		}
		return false
	}
	t.Fatalf("there is no check %q", name)
	return false
}
