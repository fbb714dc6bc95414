package perduretest

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A fake is a test that may fail.
type fake struct {
	testing.TB
	mu     sync.Mutex
	said   []string
	logged []string // the log
}

func (f *fake) say(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, s)
}

func (f *fake) Helper()                      {}
func (f *fake) Error(args ...any)            { f.say(fmt.Sprint(args...)) }
func (f *fake) Errorf(s string, a ...any)    { f.say(fmt.Sprintf(s, a...)) }
func (f *fake) Fatal(args ...any)            { f.Error(args...); runtime.Goexit() }
func (f *fake) Fatalf(s string, a ...any)    { f.Errorf(s, a...); runtime.Goexit() }
func (f *fake) Logf(format string, a ...any) {}

// Failed reports whether the fake has failed.
func (f *fake) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.said) > 0
}

// FakeTest runs a test as Test does, and returns its messages if it failed.
func FakeTest(t *testing.T, s Setup, test func(*Env)) string {
	t.Helper()
	f := &fake{}
	bubble(t, f, func(tb testing.TB) { s.run(tb, nil, test) })
	return strings.Join(f.said, "\n")
}

// FakeCrashEverywhere does the same as CrashEverywhere, and returns the messages.
func FakeCrashEverywhere(t *testing.T, s Setup, scenario func(*Env) any) (said string,
	bubbles int) {
	t.Helper()
	all := &fake{TB: t}
	s.crashes(all, scenario, func(name string, test func(testing.TB)) bool {
		bubbles++
		f := &fake{}
		bubble(t, f, test)
		for _, s := range f.said {
			all.say(name + ": " + s)
		}
		return !f.Failed()
	})
	return strings.Join(all.said, "\n"), bubbles
}

// bubble runs a test that may fail in a bubble.
func bubble(t *testing.T, f *fake, test func(testing.TB)) {
	synctest.Test(t, func(t *testing.T) {
		f.TB = t
		done := make(chan struct{})
		go func() { // its own goroutine, which Fatal ends
			defer close(done)
			test(f)
		}()
		<-done
	})
}

// FakeFits returns the messages of Fits if it fails.
func FakeFits(r *Replayed, accepted ...string) string {
	own := *r
	f := &fake{TB: r.t}
	own.t = f
	own.Fits(accepted...)
	return strings.Join(f.said, "\n")
}

// Log ignores its arguments.
func (f *fake) Log(...any) {}

// Output returns a writer to the log.
func (f *fake) Output() io.Writer { return logging{f} }

// A logging is a writer to the log of a fake.
type logging struct{ f *fake }

func (s logging) Write(p []byte) (int, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.logged = append(s.f.logged, string(p))
	return len(p), nil
}

// FakeLog runs a test as Test does, and returns its log.
func FakeLog(t *testing.T, s Setup, test func(*Env)) string {
	t.Helper()
	f := &fake{}
	bubble(t, f, func(tb testing.TB) { s.run(tb, nil, test) })
	return strings.Join(f.logged, "")
}
