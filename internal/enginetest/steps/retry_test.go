package steps

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

var errBusy = errors.New("the line is busy")

// A quota is an error whose type is registered.
type quota struct{ Left int }

func (q quota) Error() string { return fmt.Sprintf("%d left", q.Left) }

var _ = errors.Join(perdure.RegisterError("test.busy", errBusy),
	perdure.RegisterErrorType[quota]("test.quota"))

// With NoDelay the next attempt begins at once, and NoRetry has no delay either.
//
// spec: F-5
func TestARetryWithoutDelayBeginsAtOnce(t *testing.T) {
	begun := time.Time{}
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			n, last, _ := perdure.Attempt(ctx)
			if n == 1 {
				begun = time.Now()
			}
			if !last {
				return 0, errBusy
			}
			return int(time.Since(begun)), nil
		}, perdure.Retry{Attempts: 3, NoDelay: true})
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, w, 0).Returns(0)
	}, w)
	for n := range 3 {
		if d := perdure.NoRetry.Delay(n); d != 0 {
			t.Errorf("NoRetry waits %v after attempt %d", d, n)
		}
	}
	for _, r := range []perdure.Retry{{First: 1}, {Cap: 1}, {Factor: 1}, {Jitter: 1}} {
		r.NoDelay = true
		if err := r.Validate(); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// A policy retries the classes of errors that it names, found anywhere in the chain.
//
// spec: F-5
func TestARetryIsForClassesOfErrors(t *testing.T) {
	wrapped := func(err error) error {
		return fmt.Errorf("call: %w", errors.Join(errors.New("x"), err))
	}
	timedOut := &perdure.Error{Code: journal.CodeTimedOut}
	for _, c := range []struct {
		name    string
		on      []error
		fails   error
		retried bool
	}{
		{"all", nil, errors.New("x"), true},
		{"a sentinel", []error{errBusy}, wrapped(errBusy), true},
		{"another sentinel", []error{errBusy}, context.Canceled, false},
		{"a type", []error{quota{}}, wrapped(quota{Left: 7}), true},
		{"another type", []error{quota{}}, wrapped(errBusy), false},
		{
			"a code",
			[]error{timedOut},
			wrapped(&perdure.Error{Code: journal.CodeTimedOut, Op: "o"}),
			true,
		},
		{"another code", []error{timedOut}, &perdure.Error{Code: journal.CodeInvalid}, false},
		{"one of several", []error{errBusy, quota{}, timedOut}, quota{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				return perdure.Step(ctx, "s", func(context.Context) (int, error) {
					return 0, c.fails
				}, perdure.Retry{Attempts: 2, NoDelay: true, On: c.on})
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, w, 0)
				if _, err := run.Result(); err == nil {
					t.Error("it did not fail")
				}
				run.Executed("s", map[bool]int{false: 1, true: 2}[c.retried])
			}, w)
		})
	}
	for _, on := range []error{
		nil, errors.New("x"), &perdure.Error{}, &perdure.Error{Code: "c", Op: "o"},
		(*perdure.Error)(nil),
	} {
		if err := (perdure.Retry{On: []error{on}}).
			Validate(); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%v: %v", on, err)
		}
	}
}
