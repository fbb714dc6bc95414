// Package guard calls code of the application: step bodies, listeners, observers, the methods of
// its errors. Such code may return, panic or call [runtime.Goexit]; none of these ends more than
// the call. [Run] is the one place that handles this; the other functions are Run in the forms that
// callers need.
//
// Workflow code runs on the goroutine that has its run's turn. There, runtime.Goexit cannot be
// undone: it ends the goroutine, and the goroutine's own Run handles that. All other code that the
// engine waits for runs on a goroutine of its own.
package guard

import (
	"fmt"
	"reflect"
	"runtime/debug"
)

// An Abort is the end of code that did not return. It is an error.
type Abort struct {
	Value  any  // the value of the panic; nil if the code called runtime.Goexit
	Exited bool // the code called runtime.Goexit
	stack  string
}

// AbortOf returns err if it is an *Abort, and nil if it is not. It does not unwrap err: that would
// call methods of the application's errors.
func AbortOf(err error) *Abort {
	a, _ := err.(*Abort) //nolint:errorlint // as above
	return a
}

// Stack returns the stack at which the code ended. The function then of [Run] must call it: later,
// the stack of runtime.Goexit is gone.
func (a *Abort) Stack() string {
	if a.stack == "" {
		a.stack = string(debug.Stack())
	}
	return a.stack
}

// Error states how the code ended, without the stack.
func (a *Abort) Error() string {
	if a.Exited {
		return "it called runtime.Goexit"
	}
	return "panic: " + a.Text()
}

// Text returns the value of the panic as text.
func (a *Abort) Text() string {
	if err, is := a.Value.(error); is {
		return Text(err)
	}
	text := fmt.Sprintf("a value of type %T", a.Value)
	_ = Call(func() error {
		text = fmt.Sprint(a.Value)
		return nil
	})
	return text
}

// Run calls f on the goroutine of the caller, and then calls then: with nil if f has
// returned. A panic goes no further. After runtime.Goexit the goroutine ends as soon as
// then has returned.
func Run(f func(), then func(*Abort)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		a := &Abort{Value: recover()}
		if a.Exited = a.Value == nil; !a.Exited { // panic(nil) has a value, too
			_ = a.Stack()
		}
		then(a)
	}()
	f()
	returned = true
	then(nil)
}

// Call calls f on a goroutine of its own and waits for it. It returns the error of f,
// or an *Abort.
func Call(f func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		Run(func() { err = f() }, func(a *Abort) {
			if a != nil {
				_ = a.Stack()
				err = a
			}
			done <- err
		})
	}()
	return <-done
}

// Try is Call on the goroutine of the caller, for workflow code. A panic is an *Abort;
// runtime.Goexit ends the goroutine.
func Try(f func() error) (err error) {
	Run(func() { err = f() }, func(a *Abort) {
		if a != nil {
			err = a
		}
	})
	return err
}

// Text returns err.Error(), even if that panics. A nil pointer in an error is the usual reason, and
// then the text states it.
func Text(err error) string {
	text := ""
	if failed := Call(func() error { text = err.Error(); return nil }); failed == nil {
		return text
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Sprintf("a nil %T was returned as an error", err)
	}
	return fmt.Sprintf("an error of type %T whose Error method does not return", err)
}
