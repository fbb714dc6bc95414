package limits

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

type watched struct {
	store.Store
	load func(journal.Number, store.Range) error
}

func (e watched) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry,
	error) {
	if err := e.load(n, r); err != nil {
		return nil, err
	}
	return e.Store.Load(ctx, n, r)
}

func (e watched) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return e.Store.(store.SlotReader).Slots(ctx, q)
}

// spec: B-9
func TestDelayedStartsAreGathered(t *testing.T) {
	for name, c := range map[string]limit.Control{
		"gather":   {Gather: limit.Gather{Within: time.Minute}},
		"debounce": {Debounce: limit.Debounce{Quiet: 10 * time.Second, Longest: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec record
				def := perdure.Define("index", rec.code(), c)
				w := world.New(t, def)
				defer w.End()
				at := time.Now().Add(time.Hour)
				a := world.StartAndSettle(w, def, []string{"a"}, schedule.At(at))
				b := world.StartAndSettle(w, def, []string{"b"}, schedule.At(at.Add(5*time.Second)))
				for _, run := range []*perdure.Run[string]{a, b} {
					_, err := run.Result(t.Context())
					world.NoError(t, err)
				}
				if len(rec.all) != 1 {
					t.Errorf("they began with %v", rec.all)
				}
				noSlots(t, w)
			})
		})
	}
}

// spec: B-9
func TestAStartAfterTheEndIsNotGivenTheOldResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := perdure.Define("one", func(ctx context.Context, in string) (string, error) {
			return in, perdure.Sleep(ctx, time.Minute)
		}, limit.Control{Singleton: limit.Join})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return one.Child(ctx, in, perdure.ID("child")).Await(ctx)
		})
		w := world.New(t, one, parent)
		defer w.End()
		first := world.StartAndSettle(w, one, "1")
		p := world.StartAndSettle(w, parent, "2")
		world.NoError(t, w.Engine.Suspend(t.Context(), "child", "look"))
		synctest.Wait()
		_, err := first.Result(t.Context())
		world.NoError(t, err)
		time.Sleep(time.Hour)
		third := world.StartAndSettle(w, one, "3") // an hour after the end of the first
		world.NoError(t, w.Engine.Resume(t.Context(), "child"))
		out, err := third.Result(t.Context())
		if err != nil || out != "3" {
			t.Errorf("the start an hour after the end has the result %q, %v", out, err)
		}
		out, err = p.Result(t.Context())
		if err != nil || out != "1" {
			t.Errorf("the parent has %q, %v", out, err)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestADebounceThatGoesOnHoldsNoOtherSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", func(ctx context.Context, in []string) (string, error) {
			if err := perdure.Sleep(ctx, 30*time.Second); err != nil {
				return "", err
			}
			return rec.code()(ctx, in)
		}, limit.Control{
			Key: first, Concurrency: 1,
			Debounce: limit.Debounce{Quiet: 10 * time.Second},
		})
		w := world.New(t, def)
		defer w.End()
		world.StartAndSettle(w, def, []string{"z/1"})
		time.Sleep(11 * time.Second) // z runs until 40 s
		world.StartAndSettle(w, def, []string{"a/1"})
		time.Sleep(11 * time.Second) // a is due, and in line for the slot
		b := world.StartAndSettle(w, def, []string{"b/1"})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ctx.Err() == nil; i++ { // a is never quiet from now on
				_, _ = def.Start(context.Background(), w.Engine, []string{fmt.Sprint("a/", i)})
				time.Sleep(5 * time.Second)
			}
		}()
		out, err := b.Result(ctx)
		if err != nil {
			slots, _ := w.DB.Slots(context.Background(), store.SlotQuery{Limit: "index"})
			t.Errorf("b: %q, %v, slots %+v", out, err, slots)
		}
		cancel()
		<-done
	})
}

// spec: B-9
func TestInputsThatAreTooLargeTogetherAreSeveralRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(),
			limit.Control{
				Gather: limit.Gather{Within: time.Minute},
			})
		w := world.With(t, perdure.Options{MaxPayload: 1000}, def)
		defer w.End()
		var runs []*perdure.Run[string]
		for i := range 6 {
			runs = append(runs, world.StartAndSettle(w, def,
				[]string{fmt.Sprint(i, strings.Repeat("x", 300))}))
		}
		for i, run := range runs {
			if _, err := run.Result(t.Context()); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestAListThatIsFullAgainBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Gather: limit.Gather{Most: 3, Within: time.Hour},
		})
		w := world.New(t, def)
		defer w.End()
		begin := time.Now()
		one := world.StartAndSettle(w, def, []string{"1"}, perdure.ID("one"))
		world.NoError(t, w.Engine.Suspend(t.Context(), "one", "look"))
		synctest.Wait()
		world.StartAndSettle(w, def, []string{"2"}, perdure.ID("two"))
		world.StartAndSettle(w, def, []string{"3"}, perdure.ID("three"))
		time.Sleep(time.Second)
		world.NoError(t, w.Engine.Cancel(t.Context(), "three", "no"))
		synctest.Wait()
		time.Sleep(time.Second)
		world.NoError(t, w.Engine.Resume(t.Context(), "one"))
		synctest.Wait()
		time.Sleep(time.Second)
		world.StartAndSettle(w, def, []string{"4"})
		out, err := one.Result(t.Context())
		if took := time.Since(begin); err != nil || took > time.Minute {
			t.Errorf("%q, %v after %v", out, err, took)
		}
		noSlots(t, w)
	})
}

// spec: B-9
func TestNoInputIsUsedTwiceOrLostIfOneInLineIsNotReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		var bad journal.Number
		def := perdure.Define("index", rec.code(),
			limit.Control{
				Gather: limit.Gather{Within: time.Minute},
			})
		h := func(n journal.Number, r store.Range) error {
			if n == bad && n != 0 && r.Payloads {
				return &journal.CorruptError{Run: n, Seq: 1, Reason: "its payload is gone"}
			}
			return nil
		}
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def}}
		w.Options.Build = "test"
		w.Wrap = func(s store.Store) store.Store { return watched{s, h} }
		w.Begin()
		defer w.End()
		runs := []*perdure.Run[string]{world.StartAndSettle(w, def, []string{"a"})}
		world.StartAndSettle(w, def, []string{"b"}, perdure.ID("b"))
		bad = w.Describe("b").Head.Number
		for _, in := range []string{"c", "d", "e"} {
			runs = append(runs, world.StartAndSettle(w, def, []string{in}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if out, err := runs[0].Result(ctx); err != nil || out != "[a]" {
			t.Errorf("%q, %v", out, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fmt.Sprint(rec.all); got != "[[a] [b c d e]]" { // it is readable by itself
			t.Errorf("the lists are %s", got)
		}
	})
}

// spec: B-9
func TestSuspendedRunsInLineAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		def := perdure.Define("index", rec.code(), limit.Control{
			Gather: limit.Gather{Within: time.Minute},
		})
		parent := perdure.Define("parent", func(ctx context.Context, in string) (string, error) {
			return def.Child(ctx, []string{in}, perdure.ID("child")).Await(ctx)
		})
		w := world.New(t, def, parent)
		defer w.End()
		a := world.StartAndSettle(w, def, []string{"a"}, perdure.ID("a"))
		b := world.StartAndSettle(w, def, []string{"b"}, perdure.ID("b"))
		p := world.StartAndSettle(w, parent, "c")
		for _, id := range []string{"b", "child"} {
			world.NoError(t, w.Engine.Suspend(t.Context(), id, "look"))
		}
		synctest.Wait()
		for _, run := range []*perdure.Run[string]{a, b} {
			if out, err := run.Result(t.Context()); err != nil || out != "[a b c]" {
				t.Errorf("%q, %v", out, err)
			}
		}
		time.Sleep(time.Hour)
		late := world.StartAndSettle(w, def, []string{"late"})
		lctx, lcancel := context.WithTimeout(t.Context(), time.Hour)
		defer lcancel()
		_, err := late.Result(lctx)
		world.NoError(t, err)
		world.NoError(t, w.Engine.Resume(t.Context(), "child"))
		if out, err := p.Result(t.Context()); err != nil || out != "[a b c]" {
			t.Errorf("%q, %v", out, err)
		}
		for _, id := range []string{"a", "b", "child"} {
			if wrong := world.Audit(w.Describe(id), w.History(id)); wrong != nil {
				t.Error(wrong)
			}
		}
		noSlots(t, w)
	})
}
