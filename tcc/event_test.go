package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/tcc"
)

var errNo = errors.New("no")

// pair declares a TCC of two participants, some of whose phases fail.
func pair(name string, fails ...string) *tcc.TCC[int] {
	t := tcc.New[int](name).Retry(perdure.NoRetry)
	for _, id := range []string{"a", "b"} {
		do := func(phase perdure.Phase) error {
			if id == "b" {
				time.Sleep(time.Millisecond) // after a
			}
			if slices.Contains(fails, phase.Of(id)) {
				return errNo
			}
			return nil
		}
		tcc.Add(t, id, func(context.Context, int) (string, error) {
			return id, do(perdure.PhaseTry)
		}).
			Confirm(func(context.Context, int, string) error { return do(perdure.PhaseConfirm) }).
			Cancel(func(context.Context, int, string) error { return do(perdure.PhaseCancel) })
	}
	return t
}

// spec: F-10, F-40
func TestATCCTellsThePublisher(t *testing.T) {
	for name, c := range map[string]struct {
		fails []string
		want  string
	}{
		"confirmed": {nil, `EXECUTION_STARTED TRYING tccs/EXECUTION_STARTED/id 7
STEP_COMPLETED CONFIRMING tccs/STEP_COMPLETED/id confirm:a "a"
STEP_COMPLETED CONFIRMING tccs/STEP_COMPLETED/id confirm:b "b"
EXECUTION_COMPLETED CONFIRMED tccs/EXECUTION_COMPLETED/id null`},
		"cancelled": {[]string{"try:b"}, `EXECUTION_STARTED TRYING tccs/EXECUTION_STARTED/id 7
STEP_FAILED TRYING tccs/STEP_FAILED/id try:b {"error":"no"}
EXECUTION_COMPLETED CANCELED tccs/EXECUTION_COMPLETED/id {"error":"try of b failed: no"}`},
		"failed": {[]string{"confirm:b", "cancel:a"},
			`EXECUTION_STARTED TRYING tccs/EXECUTION_STARTED/id 7
STEP_COMPLETED CONFIRMING tccs/STEP_COMPLETED/id confirm:a "a"
STEP_FAILED CONFIRMING tccs/STEP_FAILED/id confirm:b {"error":"no"}
STEP_FAILED CANCELING tccs/STEP_FAILED/id cancel:a {"error":"no"}
EXECUTION_COMPLETED FAILED tccs/EXECUTION_COMPLETED/id {"error":"cancel of a failed: no"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, def := &patterntest.Board{}, pair("pair", c.fails...).Publish("tccs")
			setup := perduretest.Setup{
				Workflows: []perdure.Definition{def},
				Options:   perdure.Options{Publisher: b.Publish},
			}
			setup.CrashEverywhere(t, func(env *perduretest.Env) any {
				b.Reset()
				_, _ = perduretest.Start(env, def.Workflow, 7).Result()
				env.Settle()
				if got := b.String(); got != c.want {
					env.Errorf("published\n%s\nwant\n%s", got, c.want)
				}
				return nil
			})
		})
	}
}

// calls has the calls of callbacks, in order.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

// callbacks adds some callbacks of every kind. Those that must have no other effect panic or end
// their goroutine.
func (c *calls) callbacks(on func(pattern.Callback), suppress bool) {
	on(pattern.Callback{Priority: -2, Step: func(context.Context, string) error {
		runtime.Goexit()
		return nil
	}})
	on(pattern.Callback{Priority: -2, Failure: func(context.Context, error) (bool, error) {
		runtime.Goexit()
		return true, nil
	}})
	on(pattern.Callback{Priority: -2, Complete: func(context.Context, report.Run) error {
		runtime.Goexit()
		return nil
	}})
	on(pattern.Callback{Step: func(_ context.Context, step string) error {
		c.add("step %s", step)
		panic("odd")
	}})
	on(pattern.Callback{Priority: -1, Failure: func(context.Context, error) (bool, error) {
		panic("odd")
	}})
	on(pattern.Callback{Failure: func(_ context.Context, err error) (bool, error) {
		c.add("failure %v", err)
		return suppress, nil
	}})
	on(pattern.Callback{Complete: func(_ context.Context, r report.Run) error {
		c.add("complete %v", r.Status)
		panic("odd")
	}})
}

// spec: F-9, F-40, F-42
func TestCallbacksOfATCCAndOfACompositionOfThem(t *testing.T) {
	compose := func(name string, member *tcc.TCC[int]) *tcc.Composition[int] {
		c := tcc.Compose[int](name)
		tcc.Include(c, "m", member, func(in int) (int, error) { return in, nil })
		return c
	}
	for name, c := range map[string]struct {
		fails    []string
		suppress bool
		status   perdure.RunStatus
		of, by   []string // calls for a TCC, and for a composition with it as a member
	}{
		"confirmed": {
			status: perdure.StatusConfirmed,
			of:     []string{"step a", "step b", "complete CONFIRMED"},
			by:     []string{"step m", "complete CONFIRMED"},
		},
		"cancelled": {fails: []string{"try:b"}, status: perdure.StatusCanceled},
		"failed": {
			fails: []string{"try:b", "cancel:a"}, status: perdure.StatusFailed,
			of: []string{"failure cancel of a failed: no"}, by: []string{
				"failure cancel of m/a failed: no",
			},
		},
		"suppressed": {
			fails: []string{"try:b", "cancel:a"}, suppress: true, status: perdure.StatusConfirmed,
			of: []string{"failure cancel of a failed: no", "complete CONFIRMED"},
			by: []string{"failure cancel of m/a failed: no", "complete CONFIRMED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			single, composed := pair("single", c.fails...),
				compose("composed", pair("member", c.fails...))
			var ofSingle, ofComposed calls
			ofSingle.callbacks(func(b pattern.Callback) { single.On(b) }, c.suppress)
			ofComposed.callbacks(func(b pattern.Callback) { composed.On(b) }, c.suppress)
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, single.Workflow, 7)
				_, _ = run.Result()
				run.Is(c.status)
				run = perduretest.Start(env, composed.Workflow, 7)
				_, _ = run.Result()
				run.Is(c.status)
				env.Settle()
				if !slices.Equal(ofSingle.all, c.of) {
					env.Errorf("of the TCC: %q, want %q", ofSingle.all, c.of)
				}
				if !slices.Equal(ofComposed.all, c.by) {
					env.Errorf("of the composition: %q, want %q", ofComposed.all, c.by)
				}
			}, single, composed)
		})
	}
}

// spec: F-9, F-44
func TestATCCThatIsAPartCallsItsCallbacks(t *testing.T) {
	for _, fails := range []string{"", "try:b"} {
		var c calls
		part := pair("part", fails)
		c.callbacks(func(b pattern.Callback) { part.On(b) }, false)
		whole := perdure.Define("whole", func(ctx context.Context, in int) (string, error) {
			e, err := part.Inline(ctx, in)
			return e.Status.String(), err
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			out, err := perduretest.Start(env, whole, 7).Result()
			if err != nil {
				env.Fatal(err)
			}
			var want []string
			if fails == "" {
				want = []string{"step a", "step b", "complete RUNNING"}
			}
			if !slices.Equal(c.all, want) {
				env.Errorf("%s, called %q, want %q", out, c.all, want)
			}
		}, whole)
	}
}

// A callback for failures is called if it is for any of the participants that have failed. If the
// callback returns an error, its other result does not count.
//
// spec: F-9
func TestWhichFailuresCallbacksAreFor(t *testing.T) {
	var c calls
	def := pair("pair", "try:b", "cancel:a")
	for _, steps := range [][]string{{"a"}, {"b"}} {
		def.On(pattern.Callback{Steps: steps, On: []error{context.Canceled},
			Failure: func(context.Context, error) (bool, error) {
				c.add("other")
				return false, nil
			}})
		def.On(pattern.Callback{Steps: steps, Failure: func(context.Context, error) (bool, error) {
			c.add("for %s", steps[0])
			return true, errNo
		}})
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, def.Workflow, 7)
		_, _ = run.Result()
		run.Is(perdure.StatusFailed)
		if want := []string{"for a", "for b"}; !slices.Equal(c.all, want) {
			env.Errorf("called: %q, want %q", c.all, want)
		}
	}, def)
}

// A confirm whose success was recorded when the run was about to end is not executed again, whether
// or not the code has read its end.
//
// spec: F-37, L-12
func TestAConfirmThatWasRecordedIsNotDoneAgain(t *testing.T) {
	var c calls
	def := tcc.New[int]("pair").Retry(perdure.NoRetry)
	for _, id := range []string{"a", "b"} {
		tcc.Add(def, id, func(context.Context, int) (string, error) { return id, nil }).
			Confirm(func(ctx context.Context, _ int, _ string) error {
				c.add("confirm %s", id)
				if id == "a" && len(c.all) < 3 { // the first time
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return nil
			}).
			Cancel(func(context.Context, int, string) error { return nil })
	}
	whole := perdure.Define("whole", func(ctx context.Context, in int) (string, error) {
		e, err := def.Inline(ctx, in)
		return e.Status.String(), err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, whole, 7)
		env.Sleep(time.Minute)
		if err := env.Engine().Cancel(env.Context(), run.ID(), "enough"); err != nil {
			env.Fatal(err)
		}
		_, _ = run.Result()
		slices.Sort(c.all)
		if want := []string{"confirm a", "confirm a", "confirm b"}; !slices.Equal(c.all, want) {
			env.Errorf("called: %q, want %q", c.all, want)
		}
	}, whole)
}
