package play

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Errors of programs.
var (
	// ErrMeant is the error of a program that is meant to fail.
	ErrMeant = errors.New("it is meant to fail")
	// ErrBroken is the error of everything broken that no operator has mended.
	ErrBroken = errors.New("it is broken")
)

// An OddError is an error whose methods panic. A nil one is an error as well.
type OddError struct {
	What string // the method that panics
	Err  error
}

// Error panics if What names it, and for a nil error.
func (e *OddError) Error() string {
	if e.What == "panicking" {
		odd("Error")
	}
	return "odd: " + e.What
}

// Is panics if What names it.
func (e *OddError) Is(error) bool {
	if e.What == "is" {
		odd("Is")
	}
	return false
}

// Unwrap panics if What names it.
func (e *OddError) Unwrap() error {
	if e.What == "unwrap" {
		odd("Unwrap")
	}
	return e.Err
}

// A registered error type.
type codedError struct{ Number int }

func (e codedError) Error() string { return fmt.Sprint("coded ", e.Number) }

// Register registers the names of the errors in journals. It is called once.
func Register() error {
	return errors.Join(
		perdure.RegisterError("torture.meant", ErrMeant), perdure.RegisterError("torture.broken",
			ErrBroken),
		perdure.RegisterErrorType[codedError]("torture.coded"),
	)
}

// odd panics with an error of the runtime, as code with a mistake does.
func odd(what string) {
	var nobody map[string]int
	nobody[what]++ //nolint:staticcheck // the panic is wanted
}

// goWrong makes an attempt of a body go wrong.
func goWrong(ctx context.Context, how string) error {
	plain := errors.New("odd: " + how)
	switch how {
	case "panic":
		odd(how)
	case "goexit":
		runtime.Goexit()
	case "typed-nil":
		var none *OddError
		return none
	case "panicking", "is", "unwrap":
		return &OddError{What: how, Err: plain}
	case "retryable":
		return perdure.RetryAfter(0, plain)
	case "retry-after":
		return perdure.RetryAfter(2*time.Millisecond, plain)
	case "benign":
		return perdure.Benign(plain)
	case "hang":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return plain
}

// hemmed is the end of the names of steps around which Around panics.
const hemmed = ".around"

// Around is called around the body of every step. Of some it panics before the body in the
// first attempt, and after it in the second.
func Around(ctx context.Context, step perdure.StepInfo, body func(context.Context) error) error {
	own := strings.HasSuffix(step.Step, hemmed)
	if own && step.Attempt == 1 {
		odd("before the body")
	}
	err := body(ctx)
	if own && step.Attempt == 2 {
		odd("after the body")
	}
	return err
}

// Panic panics in other user code of a node, as the code of programs does.
func Panic(what string) { odd(what) }

// A Mute is a value that does not encode.
type Mute struct{ N int }

// MarshalJSON panics.
func (m Mute) MarshalJSON() ([]byte, error) {
	odd("MarshalJSON")
	return nil, nil
}
