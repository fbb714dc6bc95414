package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// headersOf returns the headers of the run of ctx, by name.
func headersOf(ctx context.Context) string {
	i, err := perdure.InfoOf(ctx)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(i.Headers)) {
		out = append(out, name+"="+i.Headers[name])
	}
	return strings.Join(out, " ")
}

// Headers that workflow code and the body of a step set are those of the run from then on, and
// those of children and of the successor. A failed attempt sets nothing. It is the same wherever
// the process dies.
//
// spec: F-3, F-44
func TestHeadersAreSetInARun(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, _ int) (string, error) {
		return headersOf(ctx), nil
	})
	wf := perdure.Define("w", func(ctx context.Context, seen []string) ([]string, error) {
		see := func(where, what string) { seen = append(seen, where+": "+what) }
		if see("begins", headersOf(ctx)); len(seen) > 1 {
			return seen, nil
		}
		if err := (perdure.Headers{"b": "code", "gone": ""}).Set(ctx); err != nil {
			return nil, err
		}
		see("code", headersOf(ctx))
		body, err := perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
			n, _, _ := perdure.Attempt(ctx)
			err := perdure.Headers{"c": fmt.Sprint("body", n), "b": ""}.Set(ctx)
			if n == 1 {
				err = errors.New("once more")
			}
			return headersOf(ctx), err
		}, perdure.Retry{Attempts: 2, First: time.Minute})
		if err != nil {
			return nil, err
		}
		see("body", body)
		see("after", headersOf(ctx))
		of, err := child.Child(ctx, 1, perdure.Headers{"own": "4", "a": "other"}).Await(ctx)
		if err != nil {
			return nil, err
		}
		see("child", of)
		return nil, perdure.ContinueAsNew(ctx, seen)
	})
	want := []string{
		"begins: a=1 gone=2", "code: a=1 b=code", "body: a=1 c=body2", "after: a=1 c=body2",
		"child: a=other c=body2 own=4", "begins: a=1 c=body2",
	}
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, wf, nil,
			perdure.Headers{"a": "1", "gone": "2"}, perdure.TriggeredBy("a test"))
		out, err := run.Result()
		if err != nil || !slices.Equal(out, want) {
			env.Errorf("got %q, want %q (%v)", out, want, err)
		}
		var d perdure.Description
		if err := env.Do(func(eng *perdure.Engine) (err error) {
			d, err = eng.Describe(env.Context(), run.ID())
			return err
		}); err != nil {
			env.Fatal(err)
		}
		if got := d.State.Headers["c"]; got != "body2" {
			env.Errorf("the description has %q", d.State.Headers)
		}
		return out
	}, wf, child)
}

// spec: F-3
func TestHeadersThatAreNotValidAreRefused(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		for name, want := range map[string]error{
			"a b":             &perdure.Error{Code: perdure.CodeInvalid},
			"perdure:dry-run": &perdure.Error{Code: perdure.CodeInvalid},
			"long":            &perdure.Error{Code: journal.CodeTooLarge},
		} {
			if err := (perdure.Headers{name: strings.Repeat("x", 8193)}).Set(ctx); !errors.Is(err,
				want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return headersOf(ctx), (perdure.Headers{"most": strings.Repeat("x", 8192)}).Set(ctx)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		if out, err := perduretest.Start(env, wf, 1).Result(); out != "" || err != nil {
			env.Errorf("%q, %v", out, err)
		}
		if err := (perdure.Headers{"a": "1"}).Set(env.Context()); !errors.Is(err,
			&perdure.Error{Code: perdure.CodeMisuse}) {
			env.Errorf("outside: %v", err)
		}
	}, wf)
}

// The engine's own headers have options of their own, such as pattern.DryRun.
//
// spec: F-3
func TestAStartRefusesHeadersThatAreNotValid(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return headersOf(ctx), nil
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
		return wf.Child(ctx, 1, perdure.Headers{"perdure:dry-run": "true"}).Await(ctx)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		ctx, eng := env.Context(), env.Engine()
		for name, want := range map[string]error{
			"":                     &perdure.Error{Code: perdure.CodeInvalid},
			"a b":                  &perdure.Error{Code: perdure.CodeInvalid},
			"perdure:dry-run":      &perdure.Error{Code: perdure.CodeInvalid},
			"perdure:triggered-by": &perdure.Error{Code: perdure.CodeInvalid},
			"long":                 &perdure.Error{Code: journal.CodeTooLarge},
		} {
			h := perdure.Headers{name: strings.Repeat("x", 8193)}
			_, byType := wf.Start(ctx, eng, 1, h)
			_, byName := eng.Start(ctx, "w", []byte("1"), h)
			_, errs := wf.StartAll(ctx, eng, []int{1}, func(int) []perdure.StartOption {
				return []perdure.StartOption{h}
			})
			for how, err := range map[string]error{
				"by type": byType,
				"by name": byName,
				"many":    errs[0],
			} {
				if !errors.Is(err, want) {
					env.Errorf("%q %s: %v", name, how, err)
				}
			}
		}
		if _, err := perduretest.Start(env, parent, 1).Result(); !errors.Is(err,
			&perdure.Error{Code: perdure.CodeInvalid}) {
			env.Errorf("a child: %v", err)
		}
		if heads, _, err := eng.List(ctx, perdure.Query{Workflow: "w"}); len(heads) != 0 ||
			err != nil {
			env.Errorf("%d runs were started (%v)", len(heads), err)
		}
		most := perdure.Headers{"most": strings.Repeat("x", 8192)}
		if _, err := perduretest.Start(env, wf, 1, most).Result(); err != nil {
			env.Error(err)
		}
	}, wf, parent)
}
