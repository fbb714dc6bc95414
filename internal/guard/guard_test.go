package guard_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/guard"
)

var errPlain = errors.New("plain")

func TestCallReturnsWhateverTheCodeDoes(t *testing.T) {
	for name, c := range map[string]struct {
		f    func() error
		says string
	}{
		"an error":         {func() error { return errPlain }, "plain"},
		"a panic":          {func() error { panic("odd") }, "panic: odd"},
		"a nil panic":      {func() error { panic(nil) }, "panic: panic called with nil argument"},
		"an error's panic": {func() error { panic(errPlain) }, "panic: plain"},
		"an exit": {
			func() error { runtime.Goexit(); return nil },
			"it called runtime.Goexit",
		},
		"a panic of a bad error": {
			func() error {
				panic(&bad{})
			}, "panic: an error of type *guard_test.bad whose Error method does not return",
		},
		"a panic of what cannot be shown": {
			func() error { panic(mute{}) },
			"panic: a value of type guard_test.mute",
		},
	} {
		err := guard.Call(c.f)
		if err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
		if a, is := err.(*guard.Abort); is && !strings.Contains(a.Stack(), "TestCallReturns") {
			t.Errorf("%s: the stack does not show where:\n%s", name, a.Stack())
		}
	}
	if err := guard.Call(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestTryStaysOnTheGoroutine(t *testing.T) {
	if err := guard.Try(func() error { return errPlain }); err != errPlain {
		t.Error(err)
	}
	if err := guard.Try(func() error { panic("odd") }); err == nil || err.Error() != "panic: odd" {
		t.Error(err)
	}
	ended := make(chan string, 1)
	go func() {
		defer close(ended)
		_ = guard.Try(func() error { runtime.Goexit(); return nil })
		ended <- "it went on"
	}()
	if s, ok := <-ended; ok {
		t.Error(s)
	}
}

func TestRunCallsThenOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic(1) },
		"exit":   runtime.Goexit,
	} {
		calls := 0
		done := make(chan bool)
		go func() {
			defer close(done)
			guard.Run(f, func(a *guard.Abort) {
				calls++
				if (a == nil) != (name == "return") || a != nil && a.Exited != (name == "exit") {
					t.Errorf("%s: %+v", name, a)
				}
			})
		}()
		if <-done; calls != 1 {
			t.Errorf("%s: then was called %d times", name, calls)
		}
	}
}

type bad struct{ _ int }

func (e *bad) Error() string { panic(e) }

type exits struct{}

func (exits) Error() string { runtime.Goexit(); return "" }

type mute struct{}

func (mute) String() string { runtime.Goexit(); return "" }

type pointed struct{ text string }

func (e *pointed) Error() string { return e.text }

func TestTextOfAnyError(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
	}{
		{errPlain, "plain"},
		{(*pointed)(nil), "a nil *guard_test.pointed was returned as an error"},
		{&bad{}, "an error of type *guard_test.bad whose Error method does not return"},
		{exits{}, "an error of type guard_test.exits whose Error method does not return"},
	} {
		if got := guard.Text(c.err); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
	}
}
