package faults

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// A trap is an error with a method that does not return.
type trap struct{ in, how string }

func (e *trap) spring(method string) {
	switch {
	case e == nil || e.in != method:
	case e.how == "panic":
		panic(e)
	default:
		runtime.Goexit()
	}
}

func (e *trap) Error() string { e.spring("Error"); return "trap in " + e.in }
func (e *trap) Unwrap() error { e.spring("Unwrap"); return nil }
func (e *trap) Is(error) bool { e.spring("Is"); return false }
func (e *trap) As(any) bool   { e.spring("As"); return false }
func (e *trap) MarshalJSON() ([]byte, error) {
	e.spring("MarshalJSON")
	return []byte(`{"in":"` + e.in + `","how":"` + e.how + `"}`), nil
}

func (e *trap) UnmarshalJSON(data []byte) error {
	of := "panic"
	if strings.Contains(string(data), "exit") {
		of = "exit"
	}
	e.in, e.how = "Is", of // it is sprung where the engine compares it
	if strings.Contains(string(data), "UnmarshalJSON") {
		e.in = "UnmarshalJSON"
	}
	e.spring("UnmarshalJSON")
	return nil
}

// unregistered is a trap whose type no registry knows.
type unregistered struct{ *trap }

var _ = errors.Join(perdure.RegisterErrorType[*trap]("test.trap"),
	perdure.RegisterError("test.other", errListed))

var errListed = errors.New("other")

// traps are all traps, and functions that panic without an error.
func traps() map[string]func() error {
	var none *trap
	out := map[string]func() error{
		"typed nil":           func() error { return none },
		"unregistered nil":    func() error { return (*nilText)(nil) },
		"panic":               func() error { panic("odd") },
		"panic with an error": func() error { panic(&trap{"Error", "panic"}) },
		"exit":                func() error { runtime.Goexit(); return nil },
	}
	for _, in := range []string{"Error", "Unwrap", "Is", "As", "MarshalJSON", "UnmarshalJSON"} {
		for _, how := range []string{"panic", "exit"} {
			out[in+" "+how] = func() error { return &trap{in, how} }
			out[in+" "+how+" unregistered"] = func() error { return unregistered{&trap{in, how}} }
		}
	}
	return out
}

type nilText struct{ text string }

func (e *nilText) Error() string { return e.text }

// places are user functions that the engine calls, with a trap in each of them.
func places(bad func() error) map[string]func() (perdure.Definition, perdure.Options) {
	var published atomic.Int64
	policy := perdure.Retry{Attempts: 2, First: time.Second, On: []error{errListed}}
	step := func(ctx context.Context) (int, error) { return 0, bad() }
	define := func(fn func(context.Context) error,
		opts ...perdure.WorkflowOption) func() (perdure.Definition, perdure.Options) {
		return func() (perdure.Definition, perdure.Options) {
			return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				return 0, fn(ctx)
			}, opts...), perdure.Options{}
		}
	}
	options := func(o perdure.Options) func() (perdure.Definition, perdure.Options) {
		return func() (perdure.Definition, perdure.Options) {
			return perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				return perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
					return "", perdure.Emit(ctx, "a", 1)
				}, perdure.NoRetry)
			}), o
		}
	}
	return map[string]func() (perdure.Definition, perdure.Options){
		"workflow": define(func(context.Context) error { return bad() },
			perdure.Replays{Attempts: 2}),
		"step": define(func(ctx context.Context) error {
			_, err := perdure.Step(ctx, "s", step, policy)
			return err
		}),
		"async step": define(func(ctx context.Context) error {
			_, err := perdure.Async(ctx, "s", step, policy).Await(ctx)
			return err
		}),
		"branch": define(func(ctx context.Context) error {
			_, err := perdure.Go(ctx, "b", step).Await(ctx)
			return err
		}, perdure.Replays{Attempts: 2}),
		"value": define(func(ctx context.Context) error {
			_, err := perdure.SideEffect(ctx, "v", func() (int, error) { return 0, bad() })
			return err
		}, perdure.Replays{Attempts: 2}),
		"clean-up": define(func(ctx context.Context) error {
			return perdure.Finally(ctx, "f", func(context.Context) error { return bad() })
		}, perdure.Replays{Attempts: 2}),
		"step in a transaction": define(func(ctx context.Context) error {
			_, err := perdure.StepTx(ctx, "s", noTransactions{},
				func(context.Context, *sql.Tx) (int, error) { return 0, bad() }, policy)
			return err
		}),
		"begin of a transaction": define(func(ctx context.Context) error {
			_, err := perdure.StepTx(ctx, "s", noTransactions{bad},
				func(context.Context, *sql.Tx) (int, error) { return 0, nil }, policy)
			return err
		}),
		"cause of a context": define(func(ctx context.Context) error {
			own, cancel := context.WithCancelCause(ctx)
			perdure.Async(ctx, "cancels", func(context.Context) (int, error) {
				time.Sleep(time.Second)
				var cause error
				if catch(func() { cause = bad() }) {
					cause = &trap{"Error", "panic"}
				}
				cancel(cause)
				return 0, nil
			})
			return perdure.Sleep(own, time.Hour)
		}),
		"listener": define(func(context.Context) error { return nil },
			perdure.Listener{Call: func(context.Context, perdure.Ended) error { return bad() }}),
		"publisher": options(perdure.Options{Publisher: func(context.Context, perdure.Event) error {
			if published.Add(1)%3 == 0 {
				return nil
			}
			return bad()
		}}),
		"observer": options(perdure.Options{
			Observers: []observe.Observer{{See: func(observe.Notice) { _ = bad() }}},
		}),
		"around": options(perdure.Options{Interceptor: func(ctx context.Context, _ perdure.StepInfo,
			body func(context.Context) error) error {
			_ = body(ctx)
			return bad()
		}}),
	}
}

// catch reports whether f did not return.
func catch(f func()) bool {
	done := make(chan bool)
	go func() {
		caught := true
		defer func() {
			_ = recover()
			done <- caught
		}()
		f()
		caught = false
	}()
	return <-done
}

// noTransactions are transactions without a database.
type noTransactions struct{ begin func() error }

func (n noTransactions) Begin(context.Context) (*sql.Tx, error) {
	if n.begin != nil {
		return nil, n.begin()
	}
	return nil, nil
}
func (noTransactions) Commit(context.Context, *sql.Tx) error   { return nil }
func (noTransactions) Rollback(context.Context, *sql.Tx) error { return nil }

// Whatever the application's code does where the engine calls it, the engine goes on, and so does
// the outbox of a later engine.
//
// spec: F-18, L-18
func TestCodeThatDoesNotReturnEndsNothingElse(t *testing.T) {
	for how, bad := range traps() {
		for where, made := range places(bad) {
			t.Run(where+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					def, opts := made()
					other := perdure.Define("other", func(ctx context.Context, _ int) (int, error) {
						return 7, world.PlainStep(ctx, "s")
					})
					opts.Build = "test"
					db := memory.New()
					for range 2 {
						eng, err := perdure.New(db, opts)
						if err == nil {
							err = eng.Register(def, other)
						}
						if err != nil {
							t.Fatal(err)
						}
						ctx, stop := context.WithCancel(t.Context())
						done := make(chan error, 1)
						go func() { done <- eng.Run(ctx) }()
						if _, err := eng.Start(ctx, "w", []byte("0"), perdure.ID("x")); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Hour)
						run, err := other.Start(ctx, eng, 0)
						if err != nil {
							t.Fatal(err)
						}
						if _, err := run.Result(ctx); err != nil && where != "around" {
							t.Error("another run:", err)
						}
						d, err := eng.Describe(ctx, "x")
						if err != nil || !d.Head.Status.IsTerminal() &&
							d.Head.Status != journal.Suspended {
							t.Errorf("the run is %v, %s; %v", d.Head.Status, d.Why, err)
						}
						stop()
						if err := <-done; err != nil {
							t.Error(err)
						}
						db = db.Reopen()
					}
				})
			})
		}
	}
}

// runtime.Goexit in a workflow is a failure of its code, not an end of the engine.
//
// spec: L-16
func TestGoexitInWorkflowCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if n++; n == 1 {
				runtime.Goexit()
			}
			return n, nil
		})
		w := world.New(t, wf)
		defer w.End()
		if _, out, err := world.Result(w, wf, 0); out != 2 || err != nil {
			t.Fatal(out, err)
		}
	})
}
