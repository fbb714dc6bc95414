package replay

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// declared are definitions of a pattern: two steps of these IDs, one after the other, the
// second of which lasts a day.
var declared = map[string]func(l *list, first string,
	opts ...perdure.WorkflowOption) perdure.Definition{
	"graph": func(l *list, first string, opts ...perdure.WorkflowOption) perdure.Definition {
		g := dag.New[int]("w", opts...)
		a := dag.Add(g, first, does(l, first))
		b := dag.Add(g, "middle", does(l, "middle")).After(a)
		dag.Add(g, "last", lasts).After(b)
		return g
	},
	"saga": func(l *list, first string, opts ...perdure.WorkflowOption) perdure.Definition {
		s := saga.New[int]("w", append(opts, perdure.Timeout(100*time.Hour))...)
		saga.Add(s, first, does(l, first))
		saga.Add(s, "middle", does(l, "middle"))
		saga.Add(s, "last", lasts)
		return s
	},
	"tcc": func(l *list, first string, opts ...perdure.WorkflowOption) perdure.Definition {
		d := tcc.New[int]("w", append(opts, perdure.Timeout(100*time.Hour))...)
		none := func(context.Context, int, int) error { return nil }
		for _, id := range []string{first, "middle"} {
			tcc.Add(d, id, does(l, id)).Confirm(none).Cancel(none)
		}
		tcc.Add(d, "last", lasts).Timeout(48 * time.Hour).Confirm(none).Cancel(none)
		return d
	},
}

func does(l *list, id string) func(context.Context, int) (int, error) {
	return func(context.Context, int) (int, error) { l.add(id); return 0, nil }
}

func lasts(ctx context.Context, _ int) (int, error) {
	select {
	case <-ctx.Done():
	case <-time.After(24 * time.Hour):
	}
	return 0, ctx.Err()
}

// spec: B-1, L-2
func TestStepThatADefinitionRenamesIsDecided(t *testing.T) {
	for name, define := range declared {
		for _, byName := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var before, after list
					w := world.New(t, define(&before, "first"))
					defer func() { w.End() }()
					if _, err := w.Engine.Start(context.Background(), "w", json.RawMessage("1"),
						perdure.ID("x"),
						pattern.ModeSync); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					var opts []perdure.WorkflowOption
					if byName {
						opts = append(opts, perdure.ByName)
					}
					w.Deploy("second", define(&after, "renamed", opts...))
					time.Sleep(time.Hour)
					if !byName {
						d, err := w.Engine.Describe(context.Background(), "x")
						if d.Head.Status != journal.Suspended ||
							!strings.Contains(d.Why, "renamed") || !strings.Contains(d.Why,
							"first") || len(after.names) > 0 || err != nil {
							t.Errorf("it is %v, because %s, and did %q, %v", d.Head.Status, d.Why,
								after.names, err)
						}
						if err := w.Engine.Resume(context.Background(), "x"); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(100 * time.Hour)
					if now := w.Status("x"); !now.IsSuccess() ||
						strings.Join(after.names, " ") != "renamed" {
						t.Errorf("it is %v, and did %q", now, after.names)
					}
					w.History("x")
				})
			})
		}
	}
}
