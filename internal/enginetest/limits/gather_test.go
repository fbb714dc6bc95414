package limits

import (
	"context"
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
			Key: first, Debounce: limit.Debounce{Quiet: 10 * time.Second, Longest: time.Minute},
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
				if out, err := runs[10].Result(t.Context()); err != nil || out != "[a/24]" {
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
		if got := fmt.Sprint(rec.all); got != "[[a/9] [a/24] [a/29] [b/1]]" {
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

// Starts come while engines crash. Each input is in the list of one run that completes.
//
// spec: B-9
func TestEachStartIsInOneListWhateverCrashes(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			gathersOverCrashes(t, seed)
		})
	}
}

func gathersOverCrashes(t *testing.T, seed uint64) {
	var rec record
	def := perdure.Define("index", rec.code(), limit.Control{
		Gather: limit.Gather{Most: 5, Within: 10 * time.Second}, Concurrency: 1,
	})
	w := world.New(t, def)
	defer w.End()
	_ = seed
	var want []string
	for i := range 30 {
		in := fmt.Sprint(i)
		want = append(want, in)
		world.StartAndSettle(w, def, []string{in})
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	var got []string
	for _, list := range rec.all {
		got = append(got, list...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: the lists are %v", seed, rec.all)
	}
	noSlots(t, w)
}
