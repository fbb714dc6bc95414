package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

// An order is an input with a list.
type order struct{ Items []string }

func itemsOf(o order) []string { return o.Items }

// execute runs a saga to its end.
func execute[I any](env *perduretest.Env, def *saga.Saga[I], in I,
	opts ...perdure.StartOption) saga.Result {
	env.Helper()
	r, err := def.Execute(env.Context(), env.Engine(), in, opts...)
	if err != nil {
		env.Fatal(err)
	}
	return r
}

// statuses shows the steps of a result.
func statuses(r saga.Result) string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.ID+" "+string(s.Status))
	}
	return strings.Join(out, ", ")
}

// spec: F-33, F-28, F-4
func TestAStepOverAListIsOneForEachItem(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	see := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
	}
	def := saga.New[order]("saga")
	pack := saga.AddEach(def, "pack", itemsOf, func(ctx context.Context, item string) ([]byte,
		error) {
		see("%s by %s", item, perdure.IdempotencyKey(ctx)[strings.Index(perdure.IdempotencyKey(ctx),
			"/"):])
		return []byte("box of " + item), nil
	}).Variable("boxes").Undo(func(_ context.Context, item string, box []byte) error {
		see("undo %s: %s", item, box)
		return nil
	})
	type shipping struct {
		Boxes [][]byte `perdure:"step=pack,required"`
		Vars  [][]byte `perdure:"variable=boxes"`
	}
	saga.Add(def, "ship", func(ctx context.Context, in shipping) (int, error) {
		boxes, err := pack.Outputs(ctx)
		see("ship %q %q %q %v", in.Boxes, in.Vars, boxes, err)
		if _, _, err := pack.Output(ctx); !errors.Is(err, &perdure.Error{
			Code: perdure.CodeMisuse,
		}) {
			see("one output of many: %v", err)
		}
		return len(boxes), perdure.Permanent(errBroken)
	}).After(pack)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, order{[]string{"tea", "cup"}})
		slices.Sort(seen[:2])
		want := []string{
			"cup by /pack[1]", "tea by /pack[0]",
			`ship ["box of tea" "box of cup"] ["box of tea" "box of cup"] ["box of tea" "box of cup"] <nil>`,
		}
		if !slices.Equal(seen[:3], want) {
			env.Errorf("seen %q, want %q", seen[:3], want)
		}
		slices.Sort(seen[3:])
		if want := []string{"undo cup: box of cup", "undo tea: box of tea"}; !slices.Equal(seen[3:],
			want) {
			env.Errorf("seen %q, want %q", seen[3:], want)
		}
		if got := statuses(r); got != "pack[0] COMPENSATED, pack[1] COMPENSATED, ship FAILED" {
			env.Error(got)
		}
		all, err := pack.AllOf(r)
		if len(all) != 2 || string(all["pack[1]"]) != "box of cup" || err != nil {
			env.Errorf("the results are %q, %v", all, err)
		}
		if _, _, err := pack.Of(r); !errors.Is(err, &perdure.Error{Code: perdure.CodeMisuse}) {
			env.Errorf("one result of many: %v", err)
		}
	}, def)
}

// spec: F-33
func TestAnEmptyListIsNoStep(t *testing.T) {
	def := saga.New[order]("saga")
	pack := saga.AddEach(def, "pack", itemsOf, func(context.Context, string) (int, error) {
		return 1, nil
	})
	ship := saga.Add(def, "ship", func(ctx context.Context, _ order) (string, error) {
		boxes, err := pack.Outputs(ctx)
		return fmt.Sprint(boxes, len(boxes), err), nil
	}).After(pack)
	only := saga.New[order]("only")
	saga.AddEach(only, "pack", itemsOf, func(context.Context, string) (int, error) {
		return 1, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, order{})
		if out, _, _ := ship.Of(r); statuses(r) != "ship DONE" || out != "[] 0 <nil>" ||
			!r.Success() {
			env.Error(r.Status, statuses(r), out)
		}
		if r := execute(env, only, order{}); len(r.Steps) != 0 || !r.Success() {
			env.Error(r.Status, statuses(r))
		}
	}, def, only)
}

// spec: F-33
func TestAListThatCannotBeHadFailsItsStepBeforeAnyBegins(t *testing.T) {
	for what, c := range map[string]struct {
		items  func(order) []string
		suffix func(string) string
		says   string
	}{
		"a panic":             {items: func(order) []string { panic("odd") }, says: "panic: odd"},
		"a panic of a suffix": {suffix: func(string) string { panic("odd") }, says: "panic: odd"},
		"two of one name": {
			suffix: func(string) string { return "x" },
			says:   `two items have the suffix "x"`,
		},
		"no name": {
			suffix: func(item string) string { return item + " ☃" },
			says:   `the suffix of item 0, "tea ☃" is not valid`,
		},
		"an empty name": {
			suffix: func(string) string { return "" },
			says:   `the suffix of item 0, "" is not valid`,
		},
		"a long name": {
			suffix: func(item string) string { return item + strings.Repeat("x", 250) },
			says:   "is not valid: allowed are 1 to 250 of",
		},
	} {
		t.Run(what, func(t *testing.T) {
			def := saga.New[order]("saga")
			before := saga.Add(def, "before", func(context.Context, order) (int, error) {
				return 1, nil
			})
			if c.items == nil {
				c.items = itemsOf
			}
			pack := saga.AddEach(def, "pack", c.items, func(context.Context, string) (int, error) {
				return 1, nil
			}).After(before)
			if c.suffix != nil {
				pack.Named(c.suffix)
			}
			perduretest.Test(t, func(env *perduretest.Env) {
				r := execute(env, def, order{[]string{"tea", "cup"}})
				var of *pattern.StepError
				if !errors.As(r.Err, &of) || of.Step != "pack" ||
					!strings.Contains(r.Err.Error(), c.says) {
					env.Errorf("it ended %v: %v, want %s", r.Status, r.Err, c.says)
				}
				if got := statuses(r); got != "pack FAILED" {
					env.Error(got)
				}
			}, def)
		})
	}
}

// spec: F-33, F-28
func TestClonesOfAKeyedStepHaveAKeyEach(t *testing.T) {
	def := saga.New[order]("saga")
	pack := saga.AddEach(def, "pack", itemsOf, func(context.Context, string) (int, error) {
		return 1, nil
	}).Key("k")
	saga.AddEach(def, "again", itemsOf, func(context.Context, string) (int, error) {
		return 2, nil
	}).Key("k").After(pack)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, order{[]string{"tea", "cup"}})
		if want := []string{"k[0]", "k[1]"}; !slices.Equal(r.Keys, want) {
			env.Errorf("the keys are %q, want %q", r.Keys, want)
		}
		if got := statuses(r); got != "pack[0] DONE, pack[1] DONE, again[0] DONE, again[1] DONE" {
			env.Error(got)
		}
		if s, _ := r.Step("again[0]"); s.Attempts != 0 || s.Result != nil {
			env.Errorf("a repeated step is %+v", s)
		}
	}, def)
}

// spec: F-28
func TestARepeatedKeyDoesNotRunTheStepAndLeavesNothingToUndo(t *testing.T) {
	perduretest.CrashEverywhere(t, keyed(t), keyedSaga)
}

var (
	keyedSeen = struct {
		sync.Mutex
		effects map[string]string
	}{effects: map[string]string{}}
	keyedSaga = func() *saga.Saga[int] {
		note := func(ctx context.Context, what string) {
			keyedSeen.Lock()
			defer keyedSeen.Unlock()
			keyedSeen.effects[perdure.IdempotencyKey(ctx)[strings.Index(
				perdure.IdempotencyKey(ctx), "/")+1:]] = what
		}
		def := saga.New[int]("keyed")
		var last saga.Dependency
		for _, id := range []string{"first", "second"} {
			step := saga.Add(def, id, func(ctx context.Context, _ int) (string, error) {
				note(ctx, "done")
				return id, nil
			}).Key("payment").Undo(func(ctx context.Context, _ int, _ string) error {
				note(ctx, "undone")
				return nil
			})
			if last != nil {
				step.After(last)
			}
			last = step
		}
		saga.Add(def, "third", func(context.Context, int) (int, error) { return 0, errBroken }).
			After(last)
		return def
	}()
)

func keyed(t *testing.T) func(env *perduretest.Env) any {
	return func(env *perduretest.Env) any {
		keyedSeen.Lock()
		clear(keyedSeen.effects)
		keyedSeen.Unlock()
		run := perduretest.Start(env, keyedSaga.Workflow, 1)
		_, err := run.Result()
		var told []string
		_ = env.Do(func(eng *perdure.Engine) error {
			entries, e := eng.History(env.Context(), run.ID(), 0, 0)
			told = nil
			for _, entry := range entries {
				if entry.Kind == journal.StepSkipped {
					told = append(told, entry.Op.Name+" "+entry.Detail.Reason)
				}
			}
			return e
		})
		keyedSeen.Lock()
		defer keyedSeen.Unlock()
		got := fmt.Sprintf("%v %v %s", keyedSeen.effects, told, blame(err))
		if want := "map[first:done undo:first:undone] [second duplicate] step third"; got != want {
			env.Errorf("%s, want %s", got, want)
		}
		return got
	}
}

// spec: F-33
func TestAStepOverTenThousandItems(t *testing.T) {
	const n = 10_000
	var mu sync.Mutex
	done, undone := 0, 0
	def := saga.New[int]("saga").Policy(saga.GroupedParallel)
	each := saga.AddEach(def, "each", func(n int) []int { return slices.Repeat([]int{7}, n) },
		func(context.Context, int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			done++
			return done, nil
		}).Undo(func(context.Context, int, int) error {
		mu.Lock()
		defer mu.Unlock()
		undone++
		return nil
	})
	saga.Add(def, "sum", func(ctx context.Context, _ int) (int, error) {
		all, err := each.Outputs(ctx)
		return 0, errors.Join(fmt.Errorf("there are %d: %w", len(all), errBroken), err)
	}).After(each)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, n)
		if done != n || undone != n || len(r.CompensatedSteps()) != n ||
			!strings.Contains(r.Err.Error(), "there are 10000") {
			env.Errorf("%d done, %d undone, %d reported, %v", done, undone,
				len(r.CompensatedSteps()), r.Err)
		}
	}, def)
}

// spec: F-9, F-33
func TestACallbackForAStepOverAListIsForItsClones(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	def := saga.New[order]("saga").On(pattern.Callback{Steps: []string{"pack"},
		Step: func(_ context.Context, step string) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, step)
			return nil
		}}).On(pattern.Callback{Steps: []string{"pack"}, Failure: func(_ context.Context,
		err error) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, err.Error())
		return true, nil
	}})
	saga.AddEach(def, "pack", itemsOf, func(ctx context.Context, item string) (int, error) {
		if item == "cup" {
			return 0, errors.Join(errBroken, sleep(ctx, time.Second))
		}
		return 1, nil
	})
	saga.Add(def, "mail", func(context.Context, order) (int, error) { return 1, nil })
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, order{[]string{"tea", "cup"}})
		if want := []string{"pack[0]", "step pack[1] failed: broken"}; !slices.Equal(seen, want) {
			env.Errorf("called for %q, want %q", seen, want)
		}
		var of *pattern.StepError
		if r.Status != perdure.StatusCompleted || r.Err != nil || !errors.As(r.Suppressed, &of) ||
			of.Step != "pack[1]" {
			env.Errorf("it is %v: %v, suppressed %v", r.Status, r.Err, r.Suppressed)
		}
	}, def)
}

// spec: F-33
func TestAnEmptyListIsTheVariableToo(t *testing.T) {
	def := saga.New[int]("saga")
	each := saga.AddEach(def, "each", func(int) []int { return nil }, nothing).Variable("all")
	var got []int
	saga.Add(def, "after", func(_ context.Context, in struct {
		All []int `perdure:"variable=all,required"`
	}) (int, error) {
		got = in.All
		return 0, nil
	}).After(each)
	perduretest.Test(t, func(env *perduretest.Env) {
		if r := execute(env, def, 1); r.Status != perdure.StatusCompleted || got == nil {
			env.Errorf("it is %v: %v, and got %v", r.Status, r.Err, got)
		}
	}, def)
}
