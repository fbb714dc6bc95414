package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

// A record has the inputs that runs have begun with.
type record struct {
	mu  sync.Mutex
	all [][]string
}

func (r *record) code() func(context.Context, []string) (string, error) {
	return func(ctx context.Context, in []string) (string, error) {
		err := perdure.Do(ctx, "do", func(context.Context) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, in)
			return nil
		})
		return fmt.Sprint(in), err
	}
}

// first is the part of the first item before the slash.
var first = limit.By(func(in []string) string {
	key, _, _ := strings.Cut(in[0], "/")
	return key
})

// spec: B-9
func TestStartsThatComeSoonAfterEachOtherAreOneRunWithTheLastInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Key:      first,
			Debounce: limit.Debounce{Quiet: 10 * time.Second, Longest: 62 * time.Second},
		})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		begin := time.Now()
		for i := range 10 { // each 4 s: after 36 s it is quiet
			runs = append(runs, world.StartAndSettle(w, def, []string{fmt.Sprint("a/", i)}))
			time.Sleep(4 * time.Second)
		}
		d := w.Describe(runs[0].ID())
		if d.Head.Status != journal.Pending {
			t.Errorf("the first run is %v: %s", d.Head.Status, d.Why)
		}
		for i, run := range runs {
			if out, err := run.Result(t.Context()); err != nil || out != "[a/9]" {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
		}
		if took := time.Since(begin).Round(time.Second); took != 46*time.Second {
			t.Errorf("it began after %v", took)
		}
		begin = time.Now()
		for i := range 20 { // it is never quiet
			runs = append(runs, world.StartAndSettle(w, def, []string{fmt.Sprint("a/", 10+i)}))
			if i == 15 {
				if out, err := runs[10].Result(t.Context()); err != nil || out != "[a/25]" {
					t.Errorf("after %v: %q, %v", time.Since(begin), out, err)
				}
			}
			time.Sleep(4 * time.Second)
		}
		other := world.StartAndSettle(w, def, []string{"b/1"})
		for _, run := range append(runs, other) {
			if _, err := run.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := fmt.Sprint(rec.all); got != "[[a/9] [a/25] [a/29] [b/1]]" {
			t.Errorf("they began with %s", got)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestManyStartsAreOneRunWithAListOfTheirInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Gather: limit.Gather{Most: 4, Within: time.Minute},
		})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		begin := time.Now()
		for i := range 6 {
			runs = append(runs, world.StartAndSettle(w, def, []string{fmt.Sprint(i), "x"}))
			time.Sleep(time.Second)
		}
		for i, run := range runs {
			want := "[0 x 1 x 2 x 3 x]"
			if i > 3 {
				want = "[4 x 5 x]"
			}
			if out, err := run.Result(t.Context()); err != nil || out != want {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
			if took := time.Since(begin); i == 3 && took > 7*time.Second {
				t.Errorf("four starts are a run after %v", took)
			}
		}
		if took := time.Since(begin).Round(time.Second); took != 64*time.Second {
			t.Errorf("it took %v", took)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestAChildThatIsGatheredEndsLikeTheRunThatHasItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Gather: limit.Gather{Within: time.Minute},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}).Await(ctx)
		})
		w := world.New(t, def, parent)
		defer w.End()
		var runs []*perdure.Run[string]
		for i := range 3 {
			runs = append(runs, world.StartAndSettle(w, parent, fmt.Sprint(i)))
		}
		for i, run := range runs {
			if out, err := run.Result(t.Context()); err != nil || out != "[0 1 2]" {
				t.Errorf("run %d: %q, %v", i, out, err)
			}
		}
		if len(rec.all) != 1 {
			t.Errorf("they began with %v", rec.all)
		}
		noSlots(t, w)
	})
}

// Runs and children are gathered while an engine crashes. Each input is in the list of one run, and
// each handle has the result of the run that has its input.
//
// spec: B-9
func TestEachStartIsInOneListWhateverCrashes(t *testing.T) {
	world.OverCrashes(t, 15, func() world.Scenario {
		var mu sync.Mutex
		lists := map[string][]string{} // by run ID
		def := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
			info, err := perdure.InfoOf(ctx)
			if err != nil {
				return "", err
			}
			mu.Lock()
			lists[info.RunID] = in
			mu.Unlock()
			return fmt.Sprint(in), perdure.Sleep(ctx, 3*time.Second)
		}, limit.Control{
			Gather:      limit.Gather{Most: 3, Within: 10 * time.Second},
			Concurrency: 1, Rate: limit.Rate{Tokens: 1, Per: time.Second},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}, perdure.ID("child-"+in)).Await(ctx)
		})
		ids := []string{"a", "b", "c", "d", "e", "f", "g"}
		return world.Scenario{
			Workflows: []perdure.Definition{def, parent},
			Begin: func(w *world.World) (err error) {
				for i, id := range ids {
					opts := []perdure.StartOption{perdure.ID(id), perdure.Dedup(time.Hour)}
					if i%2 == 0 {
						_, err = def.Start(context.Background(), w.Engine, []string{id}, opts...)
					} else {
						_, err = parent.Start(context.Background(), w.Engine, id, opts...)
					}
					if err != nil {
						return err
					}
				}
				return nil
			},
			Over: func(w *world.World) bool {
				for _, id := range ids {
					if s, err := w.Engine.Statuses(context.Background(), id); err != nil ||
						!s[0].Found || !s[0].Head.Status.IsTerminal() {
						return false
					}
				}
				return true
			},
			Check: func(t *testing.T, w *world.World, _ int) {
				mu.Lock()
				defer mu.Unlock()
				var got []string
				for _, list := range lists {
					got = append(got, list...)
				}
				if slices.Sort(got); !slices.Equal(got, ids) {
					t.Errorf("the lists are %v", lists)
				}
				for i, id := range ids {
					run, err := w.Engine.Get(t.Context(), id)
					world.NoError(t, err)
					if out, err := run.Result(t.Context()); err != nil ||
						!strings.Contains(string(out), id) {
						t.Errorf("%s has the result %s, %v", id, out, err)
					}
					if i%2 != 0 {
						id = "child-" + id
					}
					if wrong := world.Audit(w.Describe(id), w.History(id)); wrong != nil {
						t.Error(wrong)
					}
				}
				noSlots(t, w)
			},
		}
	})
}

// spec: B-9, B-8
func TestARetryOfARunThatHasGatheredHasTheInputsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		fails := true
		def := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
			if fails {
				return "", perdure.Fail(ctx, errors.New("no luck"))
			}
			return rec.code()(ctx, in)
		}, limit.Control{Gather: limit.Gather{Within: time.Minute}})
		w := world.New(t, def)
		defer w.End()
		first := world.StartAndSettle(w, def, []string{"a"}, perdure.ID("first"))
		second := world.StartAndSettle(w, def, []string{"b"})
		for _, run := range []*perdure.Run[string]{first, second} {
			if _, err := run.Result(t.Context()); err == nil {
				t.Error("it does not fail")
			}
		}
		fails = false
		again, err := w.Engine.Retry(t.Context(), "first")
		world.NoError(t, err)
		if out, err := again.Result(t.Context()); err != nil || string(out) != `"[a b]"` {
			t.Errorf("%s, %v", out, err)
		}
		noSlots(t, w)
	})
}

// The commit by which a run begins that has gathered starts may also have asks of its code.
//
// spec: B-9
func TestARunThatHasGatheredAsksForALockAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		lock := limit.Semaphore{Name: "printer"}
		rate := limit.Control{Name: "mail", Rate: limit.Rate{Tokens: 1, Per: time.Second}}
		def := perdure.Define("index", func(ctx context.Context, in []string) (out string,
			err error) {
			err = lock.Do(ctx, func(ctx context.Context) (err error) {
				out, err = rec.code()(ctx, in)
				return err
			})
			if err != nil {
				return "", err
			}
			return out, perdure.Do(ctx, "mail", func(context.Context) error { return nil }, rate)
		}, limit.Control{Gather: limit.Gather{Within: time.Minute}})
		w := world.New(t, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for _, in := range []string{"a", "b", "c"} {
			runs = append(runs, world.StartAndSettle(w, def, []string{in}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, run := range runs {
			if out, err := run.Result(ctx); err != nil || out != "[a b c]" {
				t.Errorf("%q, %v: %s", out, err, w.Describe(run.RunID()).Why)
			}
		}
		noSlots(t, w)
	})
}
