package dag_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

// spec: F-10
func TestAGraphTellsThePublisher(t *testing.T) {
	type box struct{ ID string }
	const packed = "STEP_COMPLETED RUNNING boxes/box.packed/b-1 pack {\"ID\":\"b-1\"}\n"
	const started = "EXECUTION_STARTED RUNNING /EXECUTION_STARTED/id 7\n"
	for name, c := range map[string]struct {
		silent, fails bool
		opts          []perdure.StartOption
		want          string
	}{
		"silent":  {silent: true},
		"dry run": {opts: []perdure.StartOption{pattern.DryRun}},
		"success": {want: started + packed +
			"STEP_COMPLETED RUNNING /STEP_COMPLETED/id ship 1\n" +
			"STEP_FAILED RUNNING /STEP_FAILED/id aside {\"error\":\"it is down\"}\n" +
			"STEP_COMPLETED RUNNING /STEP_COMPLETED/id last \"done\"\n" +
			"EXECUTION_COMPLETED COMPLETED /EXECUTION_COMPLETED/id null"},
		"failure": {fails: true, want: started + packed +
			"STEP_FAILED RUNNING /STEP_FAILED/id ship {\"error\":\"it is down\"}\n" +
			"EXECUTION_COMPLETED FAILED /EXECUTION_COMPLETED/id {\"error\":\"step ship failed: " +
			"it is down\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			b, g := &patterntest.Board{}, dag.New[int]("g", perdure.NoRetry)
			if !c.silent {
				g.PublishEvents()
			}
			pack := dag.Add(g, "pack", func(context.Context, none) (box, error) {
				return box{"b-1"}, nil
			}).
				Event(pattern.StepEvent{Topic: "boxes", Type: "box.packed", Key: "ID"})
			ship := dag.Add(g, "ship", func(context.Context, none) (int, error) {
				if c.fails {
					return 0, errDown
				}
				return 1, nil
			}).After(pack)
			dag.Add(g, "aside", func(ctx context.Context, _ none) (int, error) {
				<-time.After(time.Second)
				return 0, errDown
			}).After(ship).Async()
			dag.Add(g, "last", lasts(time.Minute)).After(ship)
			setup := perduretest.Setup{
				Workflows: []perdure.Definition{g},
				Options:   perdure.Options{Publisher: b.Publish},
			}
			setup.CrashEverywhere(t, func(env *perduretest.Env) any {
				b.Reset()
				execute(env, g, 7, c.opts...)
				env.Settle()
				if got := b.String(); got != c.want {
					env.Errorf("published\n%s\nwant\n%s", got, c.want)
				}
				return nil
			})
		})
	}
}

// spec: F-9
func TestTheSuccessOfAGraphIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		fails, suppress bool
		want            []string
	}{
		"success": {want: []string{"second COMPLETED", "third COMPLETED"}},
		"failure": {fails: true},
		"suppressed": {
			fails:    true,
			suppress: true,
			want:     []string{"second COMPLETED", "third COMPLETED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			g := dag.New[int]("g", perdure.NoRetry)
			dag.Add(g, "a", func(context.Context, none) (int, error) {
				if c.fails {
					return 0, errDown
				}
				return 1, nil
			})
			complete := func(priority int, call func(report.Run)) {
				g.On(pattern.Callback{Priority: priority, Complete: func(_ context.Context,
					r report.Run) error {
					call(r)
					return nil
				}})
			}
			complete(3, func(r report.Run) { d.note("third %v", r.Status) })
			complete(2, func(r report.Run) { d.note("second %v", r.Status) })
			complete(1, func(report.Run) { panic("odd") })
			g.On(pattern.Callback{Failure: func(context.Context, error) (bool, error) {
				return c.suppress, nil
			}})
			perduretest.Test(t, func(env *perduretest.Env) {
				execute(env, g, 1)
				env.Settle()
				d.want(env, c.want...)
			}, g)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				d.lines = nil
				execute(env, g, 1)
				env.Settle()
				slices.Sort(d.lines)
				return slices.Compact(d.lines)
			}, g)
		})
	}
}
