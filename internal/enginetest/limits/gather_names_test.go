package limits

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/limit"
)

// spec: B-9
func TestWorkflowsThatShareALimitKeepTheirInputs(t *testing.T) {
	for name, c := range map[string]limit.Control{
		"gather":   {Name: "shared", Concurrency: 5, Gather: limit.Gather{Within: time.Minute}},
		"debounce": {Name: "shared", Concurrency: 5, Debounce: limit.Debounce{Quiet: time.Minute}},
		"join":     {Name: "shared", Concurrency: 5, Singleton: limit.Join},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code := func(name string) func(ctx context.Context, in []string) (string, error) {
					return func(ctx context.Context, in []string) (string, error) {
						return name + fmt.Sprint(in), perdure.Sleep(ctx, time.Minute)
					}
				}
				pay := perdure.Define("pay", code("pay"), c)
				refund := perdure.Define("refund", code("refund"), c)
				w := world.New(t, pay, refund)
				defer w.End()
				p := world.StartAndSettle(w, pay, []string{"a"})
				r := world.StartAndSettle(w, refund, []string{"b"})
				if out, err := p.Result(t.Context()); err != nil || out != "pay[a]" {
					t.Errorf("%q, %v", out, err)
				}
				if out, err := r.Result(t.Context()); err != nil || out != "refund[b]" {
					t.Errorf("%q, %v", out, err)
				}
			})
		})
	}
}

// spec: B-9
func TestTheMostStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Gather: limit.Gather{Within: time.Hour},
		})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for i := range 1003 {
			runs = append(runs, world.Start(w, def, []string{fmt.Sprint(i)}))
		}
		for _, run := range runs {
			_, err := run.Result(t.Context())
			world.NoError(t, err)
		}
		if len(rec.all) != 2 || len(rec.all[0]) != limit.MostGathered || len(rec.all[1]) != 3 {
			t.Errorf("%d runs began", len(rec.all))
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestACarrierThatContinuesAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
			if _, err := rec.code()(ctx, in); err != nil {
				return "", err
			}
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			if len(in) > 1 {
				return "", perdure.ContinueAsNew(ctx, in[1:])
			}
			return fmt.Sprint(in), nil
		}, limit.Control{
			Gather: limit.Gather{Within: time.Minute},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}, perdure.ID("child")).Await(ctx)
		})
		w := world.New(t, def, parent)
		defer w.End()
		a := world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
		p := world.StartAndSettle(w, parent, "c")
		b := world.StartAndSettle(w, def, []string{"b"}, perdure.ID("b"))
		for _, run := range []*perdure.Run[string]{a, b, p} {
			if out, err := run.Result(t.Context()); err != nil || out != "[b]" {
				t.Errorf("%q, %v", out, err)
			}
		}
		noSlots(t, w)
	})
}
