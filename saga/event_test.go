package saga_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
)

func newStore() *memory.Store { return memory.New() }

// spec: F-10
func TestASagaTellsThePublisher(t *testing.T) {
	type box struct{ ID string }
	for name, c := range map[string]struct {
		fails, publish bool
		cancel         bool
		want           string
	}{
		"only what steps ask for": {
			want: "STEP_COMPLETED RUNNING boxes/box.packed/b-1 pack {\"ID\":\"b-1\"}",
		},
		"success": {publish: true, want: `EXECUTION_STARTED RUNNING sagas/EXECUTION_STARTED/id 7
STEP_COMPLETED RUNNING boxes/box.packed/b-1 pack {"ID":"b-1"}
STEP_COMPLETED RUNNING sagas/STEP_COMPLETED/id ship 1
EXECUTION_COMPLETED COMPLETED sagas/EXECUTION_COMPLETED/id null`},
		"failure": {publish: true, fails: true,
			want: `EXECUTION_STARTED RUNNING sagas/EXECUTION_STARTED/id 7
STEP_COMPLETED RUNNING boxes/box.packed/b-1 pack {"ID":"b-1"}
STEP_FAILED RUNNING sagas/STEP_FAILED/id ship {"error":"broken"}
EXECUTION_COMPLETED FAILED sagas/EXECUTION_COMPLETED/id {"error":"step ship failed: broken"}`},
		"cancel": {publish: true, cancel: true,
			want: `EXECUTION_STARTED RUNNING sagas/EXECUTION_STARTED/id 7
STEP_COMPLETED RUNNING boxes/box.packed/b-1 pack {"ID":"b-1"}
EXECUTION_COMPLETED CANCELLED sagas/EXECUTION_COMPLETED/id {"error":"workflow cancelled: enough"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, undone := &patterntest.Board{}, map[string]bool{}
			var mu sync.Mutex
			def := saga.New[int]("saga")
			if c.publish {
				def.Publish("sagas")
			}
			pack := saga.Add(def, "pack", func(context.Context, int) (box, error) {
				return box{"b-1"}, nil
			}).
				Event(pattern.StepEvent{Topic: "boxes", Type: "box.packed", Key: "ID"}).
				Undo(func(ctx context.Context, _ int, _ box) error {
					mu.Lock()
					defer mu.Unlock()
					undone[perdure.IdempotencyKey(ctx)] = true
					return nil
				})
			saga.Add(def, "ship", func(ctx context.Context, _ int) (int, error) {
				if err := sleep(ctx, time.Second); err != nil || c.fails {
					return 0, errBroken
				}
				return 1, nil
			}).After(pack)
			setup := perduretest.Setup{
				Workflows: []perdure.Definition{def},
				Options:   perdure.Options{Publisher: b.Publish},
			}
			setup.CrashEverywhere(t, func(env *perduretest.Env) any {
				b.Reset()
				clear(undone)
				run := perduretest.Start(env, def.Workflow, 7)
				if env.Sleep(time.Millisecond); c.cancel {
					cancel(env, run.ID())
				}
				_, _ = run.Result()
				env.Settle()
				if got := b.String(); got != c.want {
					env.Errorf("published\n%s\nwant\n%s", got, c.want)
				}
				if len(undone) != 1 && (c.fails || c.cancel) {
					env.Errorf("undone: %v", undone)
				}
				return nil
			})
		})
	}
}

// spec: F-9
func TestCallbacksOfASaga(t *testing.T) {
	var mu sync.Mutex
	var called []string
	call := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, fmt.Sprintf(format, args...))
	}
	build := func(fails bool) *saga.Saga[int] {
		def := saga.New[int](fmt.Sprint("fails-", fails))
		for _, priority := range []int{3, 1, 2} {
			def.On(pattern.Callback{Priority: priority,
				Step: func(_ context.Context, step string) error {
					call("step %s %d", step, priority)
					return errBroken
				}})
			def.On(pattern.Callback{Priority: priority, Failure: func(_ context.Context,
				err error) (bool, error) {
				call("failure %d", priority)
				return priority == 2, nil
			}})
			def.On(pattern.Callback{Priority: priority, Complete: func(_ context.Context,
				r report.Run) error {
				call("complete %d %v", priority, r.Status)
				panic("odd")
			}})
		}
		def.On(pattern.Callback{Steps: []string{"b"}, Step: func(context.Context, string) error {
			panic("odd")
		}})
		def.On(pattern.Callback{Async: true, Failure: func(context.Context, error) (bool, error) {
			call("async")
			return true, nil
		}})
		def.On(pattern.Callback{On: []error{context.Canceled},
			Failure: func(context.Context, error) (bool, error) {
				call("other")
				return true, nil
			}})
		a := saga.Add(def, "a", nothing)
		saga.Add(def, "b", func(context.Context, int) (int, error) {
			if fails {
				return 0, errBroken
			}
			return 0, nil
		}).After(a)
		return def
	}
	for _, fails := range []bool{false, true} {
		called = nil
		def := build(fails)
		perduretest.Test(t, func(env *perduretest.Env) {
			r := execute(env, def, 1)
			env.Settle()
			want := []string{"step a 1", "step a 2", "step a 3", "step b 1", "step b 2", "step b 3"}
			if fails {
				want = []string{
					"step a 1", "step a 2", "step a 3", "async", "failure 1", "failure 2",
				}
				if slices.Sort(called[3:6]); blame(r.Suppressed) != "step b" {
					env.Errorf("suppressed is %v", r.Suppressed)
				}
			}
			want = append(want, "complete 1 COMPLETED", "complete 2 COMPLETED",
				"complete 3 COMPLETED")
			if !slices.Equal(called, want) || r.Status != perdure.StatusCompleted {
				env.Errorf("%v, called\n%q, want\n%q", r.Status, called, want)
			}
			if n := env.Engine().Workflows()[0].Listeners; n != 1 {
				env.Errorf("there are %d listeners", n)
			}
		}, def)
	}
	silent := saga.New[int]("silent")
	saga.Add(silent, "a", nothing)
	eng := newEngine(t)
	if err := eng.Register(silent); err != nil || eng.Workflows()[0].Listeners != 0 {
		t.Errorf("a saga without callbacks has listeners: %v, %v", eng.Workflows(), err)
	}
}
