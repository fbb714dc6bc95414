package observers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// emits is a step's body that emits these events and returns err.
func emits(err error, kinds ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		for _, k := range kinds {
			if e := perdure.Emit(ctx, k, "of "+k); e != nil {
				return "", e
			}
		}
		return strings.Join(kinds, "+"), err
	}
}

// kindsOf returns the kinds of entries that have an operation, with its name, and the types of
// events.
func kindsOf(entries []journal.Entry) []string {
	var out []string
	for _, e := range entries {
		switch {
		case e.Kind == journal.EventEmitted:
			out = append(out, e.Op.String()+" emits "+e.Detail.Event)
		case e.Kind.EndsStep():
			out = append(out, e.Op.String()+" "+e.Kind.String())
		}
	}
	return out
}

// spec: R-29
func TestEventsAreRecordedWithTheResultOfTheirStepAndTold(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			var w *world.World
			var s world.Subscriber
			durable := func(ctx context.Context, want ...string) {
				i, _ := perdure.InfoOf(ctx)
				if got := kindsOf(w.History(string(i.RunID))); !slices.Equal(got, want) {
					t.Errorf("before the next step the journal has %q, want %q", got, want)
				}
			}
			first := []string{"one emits a", "one emits b", "one StepCompleted"}
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				if _, err := perdure.Step(ctx, "one", emits(nil, "a", "b")); err != nil {
					return "", err
				}
				if _, err := perdure.Step(ctx, "two", func(ctx context.Context) (string, error) {
					durable(ctx, first...)
					return emits(nil, "c")(ctx)
				}); err != nil {
					return "", err
				}
				if err := perdure.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				return perdure.Step(ctx, "one", func(ctx context.Context) (string, error) {
					durable(ctx, append(first, "two emits c", "two StepCompleted")...)
					return emits(nil, "a", "a")(ctx)
				})
			})
			look := func(g *store.Group) {
				for _, c := range g.Changes {
					for i, e := range c.Entries {
						ends := func(r journal.Entry) bool {
							return r.Kind == journal.StepCompleted && r.Op == e.Op
						}
						if e.Kind == journal.EventEmitted && !slices.ContainsFunc(c.Entries[i:],
							ends) {
							t.Errorf("event %s was committed without the result of its step",
								e.Detail.Event)
						}
					}
				}
			}
			h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
				err := do()
				if err == nil {
					look(g)
				}
				return err
			}}
			w = world.Hooked(t, h, perdure.Options{
				IdleTimeout: idle, Publisher: s.Take,
			}, wf)
			defer w.End()
			run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := strings.Join(s.Types(), " "); got != "a b c a a" {
				t.Fatalf("told %q", got)
			}
			ids := map[string]bool{}
			for i, want := range []string{"one", "one", "two", "one#2", "one#2"} {
				e := s.Told[i]
				if e.ID == "" || ids[e.ID] || e.RunID != run.RunID() || e.WorkflowID != "x" ||
					e.Workflow != "w" || e.Step != want ||
					e.At.IsZero() || string(e.Data) != `"of `+e.Type+`"` {
					t.Errorf("event %d is %+v", i, e)
				}
				ids[e.ID] = true
			}
			if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != 0 {
				t.Errorf("%d events are in the outbox still, %v", info.Outbox, err)
			}
		})
	}
}

// spec: R-29
func TestAnAttemptThatDidNotCompletePublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			fails := func(_ string, err error) {
				if err == nil {
					t.Error("a step that was to fail did not")
				}
			}
			twice := perdure.Retry{Attempts: 2, First: time.Second}
			if _, err := perdure.Step(ctx, "at-last", func(ctx context.Context) (string, error) {
				if n, _, _ := perdure.Attempt(ctx); n == 1 {
					return emits(world.ErrOdd, "first", "first")(ctx)
				}
				return emits(nil, "second")(ctx)
			}, twice); err != nil {
				return 0, err
			}
			fails(perdure.Step(ctx, "never", emits(world.ErrOdd, "failed"), twice))
			fails(perdure.Step(ctx, "permanent", emits(perdure.Permanent(world.ErrOdd),
				"permanent")))
			fails(perdure.Step(ctx, "panics", func(ctx context.Context) (string, error) {
				_, _ = emits(nil, "panicked")(ctx)
				panic("odd")
			}, perdure.NoRetry))
			fails(perdure.Step(ctx, "slow", func(ctx context.Context) (string, error) {
				_, _ = emits(nil, "slow")(ctx)
				<-ctx.Done()
				return "", nil
			}, perdure.Timeout(time.Minute), perdure.NoRetry))
			f := perdure.Async(ctx, "cancelled", func(ctx context.Context) (string, error) {
				_, _ = emits(nil, "cancelled")(ctx)
				<-ctx.Done()
				return "", nil
			})
			if err := perdure.Sleep(ctx, time.Second); err != nil {
				return 0, err
			}
			if ok, err := f.Cancel(ctx, "enough"); !ok || err != nil {
				return 0, errors.Join(err, errors.New("the step had ended"))
			}
			_, err := perdure.Step(ctx, "no-result", func(ctx context.Context) (any, error) {
				_, err := emits(nil, "unencodable")(ctx)
				return func() {}, err
			}, perdure.NoRetry)
			fails("", err)
			return 0, nil
		})
		w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.Types(); !slices.Equal(got, []string{"second"}) {
			t.Errorf("told %q", got)
		}
		var recorded []string
		for _, e := range w.History("x") {
			if e.Kind == journal.EventEmitted {
				recorded = append(recorded, e.Detail.Event)
			}
		}
		if !slices.Equal(recorded, []string{"second"}) {
			t.Errorf("recorded %q", recorded)
		}
	})
}

// spec: R-29
func TestACompletedStepNeverPublishesAgain(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			var s world.Subscriber
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				for i := range 5 {
					if _,
						err := perdure.Step(ctx, "s", emits(nil, fmt.Sprint("e", i))); err != nil {
						return "", err
					}
					if err := perdure.Sleep(ctx, time.Hour); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			w := world.With(t, perdure.Options{IdleTimeout: idle, Publisher: s.Take}, wf)
			world.Start(w, wf, 0, perdure.ID("x"))
			for i := range 12 {
				time.Sleep(30*time.Minute + time.Second)
				if i%2 == 0 {
					w.Crash()
				} else {
					w.End()
					w.Begin()
				}
			}
			defer w.End()
			if d, _ := w.Engine.Describe(t.Context(), "x"); d.Head.Status != journal.Completed {
				t.Fatalf("the run is %v", d.Head.Status)
			}
			if got := strings.Join(s.Types(), " "); got != "e0 e1 e2 e3 e4" {
				t.Errorf("told %q", got)
			}
		})
	}
}

// spec: R-29
func TestAnEventIsToldUntilItIsTakenAndOthersOfItsRunWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		s.Do = func(_ context.Context, n int, e perdure.Event) error {
			switch {
			case n == 1:
				return errors.New("the broker is away")
			case n == 2:
				panic("odd")
			case n == 3:
				runtime.Goexit()
			case e.Type == "b" && n < 10:
				return errors.New("not b")
			}
			return nil
		}
		var end ears
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "s", emits(nil, "a", "b", "c"))
		},
			perdure.Listener{Call: func(ctx context.Context, e perdure.Ended) error {
				if got := s.Types(); got[len(got)-1] != "c" {
					t.Errorf("the end was told after %q", got)
				}
				return end.hear(ctx, e)
			}})
		w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := run.Result(t.Context()); err != nil || time.Since(began) > time.Millisecond {
			t.Errorf("the run waited %v for the subscriber, %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		if got := strings.Join(s.Types(), " "); got != "a a a a b b b b b b c" {
			t.Errorf("told %q", got)
		}
		ids := map[string]string{}
		for _, e := range s.Told {
			if id := ids[e.Type]; id != "" && id != e.ID {
				t.Errorf("event %s has the IDs %s and %s", e.Type, id, e.ID)
			}
			ids[e.Type] = e.ID
		}
		if end.times()["x"] != 1 {
			t.Errorf("the end was told %d times", end.times()["x"])
		}
		if n := len(w.Seen(observe.ListenerFailed)); n != 8 {
			t.Errorf("observers heard of %d failures of the subscriber", n)
		}
	})
}

// spec: R-29, L-18
func TestAnEventThatIsNotTakenHoldsUpNoOtherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		s.Do = func(_ context.Context, _ int, e perdure.Event) error {
			if e.WorkflowID == "stuck" {
				return errors.New("not this one")
			}
			return nil
		}
		var end ears
		wf := perdure.Define("w", func(ctx context.Context, n int) (string, error) {
			return perdure.Step(ctx, "s", emits(nil, slices.Repeat([]string{"e"}, n)...))
		}, perdure.Listener{Call: end.hear})
		w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
		defer w.End()
		world.Start(w, wf, 300, perdure.ID("stuck"))
		time.Sleep(time.Minute)
		for i := range 50 {
			world.Start(w, wf, 1, perdure.ID(fmt.Sprint(i)))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range 50 {
			id := fmt.Sprint(i)
			if !slices.ContainsFunc(s.Told, func(e perdure.Event) bool {
				return e.WorkflowID == id
			}) || end.times()[id] != 1 {
				t.Errorf("run %s was not told of beside an event that is not taken", id)
			}
		}
		if end.times()["stuck"] != 0 {
			t.Error("the end of a run was told before its events")
		}
	})
}

// spec: R-29
func TestEventsAreToldOverACrashAtAnyTime(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for name, fault := range map[string]storetest.Fault{
		"crash before": storetest.CrashBefore, "crash after": storetest.CrashAfter,
		"fail before": storetest.FailBefore, "fail after": storetest.FailAfter,
	} {
		t.Run(name, func(t *testing.T) {
			for call := 1; ; call += stride {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					var s world.Subscriber
					s.Do = func(_ context.Context, n int, _ perdure.Event) error {
						if n == 2 {
							return errors.New("once more")
						}
						return nil
					}
					reached = eventsOverCrash(t, &s, storetest.Plan{Call: call, Fault: fault})
					judgeTold(t, &s, call, []string{"a", "b", "c", "d"})
				})
				if !reached || t.Failed() {
					if call < 10 {
						t.Errorf("only %d calls were reached", call-1)
					}
					break
				}
			}
		})
	}
}

// eventsOverCrash makes a run emit a, b, c and d while the store fails as planned, and starts a
// second engine if that stopped the first.
func eventsOverCrash(t *testing.T, s *world.Subscriber, plan storetest.Plan) bool {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := perdure.Step(ctx, "one", emits(nil, "a", "b")); err != nil {
			return "", err
		}
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "two", emits(nil, "c", "d"))
	})
	w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf},
		Options: perdure.Options{Build: "test", Publisher: s.Take, IdleTimeout: -1}}
	w.Wrap = func(below store.Store) store.Store { return storetest.NewFaulty(below, plan) }
	w.Begin()
	faulty := w.Store.(*storetest.Faulty)
	for range 2 {
		_, _ = wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		time.Sleep(time.Hour)
	}
	w.Stop()
	w.Done <- <-w.Done
	w.Wrap = nil
	w.Crash()
	for range 2 {
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Hour)
	}
	w.End()
	return len(faulty.Injected()) > 0
}

// judgeTold returns the faults in the events that the subscriber received. Every event must be
// there, delivery must begin again at an event that was not acknowledged, and no event may come
// before its predecessor.
func judgeTold(t *testing.T, s *world.Subscriber, call int, want []string) {
	t.Helper()
	got := s.Types()
	at := -1 // index in want of the last event that was delivered
	most := 0
	for i, kind := range got {
		n := slices.Index(want, kind)
		if n > at+1 || n < at {
			t.Errorf("call %d: told %q: %s is out of order", call, got, kind)
		}
		if most = max(most, n+1); n < at && i > 0 && got[i-1] == kind {
			t.Errorf("call %d: told %q", call, got)
		}
		at = n
	}
	if most != len(want) {
		t.Errorf("call %d: told %q, want all of %q", call, got, want)
	}
	if len(got) > len(want)+2 {
		t.Errorf("call %d: told %q: more than the one that failed and the one in flight is "+
			"repeated", call, got)
	}
	ids := map[string]string{}
	for _, e := range s.Told {
		if id := ids[e.Type]; id != "" && id != e.ID {
			t.Errorf("call %d: event %s has the IDs %s and %s", call, e.Type, id, e.ID)
		}
		ids[e.Type] = e.ID
	}
}

// spec: R-29
func TestWithoutASubscriberEventsAreInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "s", emits(nil, "a", "b"))
		})
		w := world.With(t, perdure.Options{}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(t.Context()); out != "a+b" || err != nil {
			t.Errorf("the run gave %q, %v", out, err)
		}
		if got := kindsOf(w.History("x")); !slices.Equal(got,
			[]string{"s emits a", "s emits b", "s StepCompleted"}) {
			t.Errorf("the journal has %q", got)
		}
		if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != 0 {
			t.Errorf("%d events are in the outbox, for nobody, %v", info.Outbox, err)
		}
	})
}

// spec: R-29
func TestALargeEventIsToldWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		big := strings.Repeat("x", 3_000_000)
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
				world.CodeIs(t, perdure.Emit(ctx, "too-big", big+big), journal.CodeTooLarge)
				return "", errors.Join(perdure.Emit(ctx, "big", big), perdure.Emit(ctx, "small", 1))
			})
		})
		w := world.With(t,
			perdure.Options{Publisher: s.Take, MaxPayload: 4_000_000}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(s.Told) != 2 || string(s.Told[0].Data) != `"`+big+`"` ||
			string(s.Told[1].Data) != "1" {
			t.Errorf("told %q", s.Types())
		}
	})
}

func TestAnEventThatCannotBeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			world.CodeIs(t, perdure.Emit(ctx, "with space", 1), journal.CodeInvalid)
			world.CodeIs(t, perdure.Emit(ctx, "odd", func() {}), journal.CodeEncode)
			return perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
				for _, bad := range []string{"", "with space", strings.Repeat("x", 256), "ä"} {
					world.CodeIs(t, perdure.Emit(ctx, bad, 1), journal.CodeInvalid)
				}
				world.CodeIs(t, perdure.Emit(ctx, "odd", func() {}), journal.CodeEncode)
				return "", nil
			})
		})
		w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
		defer w.End()
		world.CodeIs(t, perdure.Emit(t.Context(), "outside", 1), journal.CodeMisuse)
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := kindsOf(w.History("x")); len(s.Told) > 0 ||
			!slices.Equal(got, []string{"s StepCompleted"}) {
			t.Errorf("told %q, and the journal has %q", s.Types(), got)
		}
	})
}

// spec: R-29
func TestAnEngineStopsWhileItsSubscriberFails(t *testing.T) {
	for name, do := range map[string]func(context.Context) error{
		"fails":  func(context.Context) error { return errors.New("the broker is away") },
		"blocks": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s world.Subscriber
				s.Do = func(ctx context.Context, _ int, _ perdure.Event) error { return do(ctx) }
				wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
					return perdure.Step(ctx, "s", emits(nil, "a", "b", "c"))
				})
				w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
				for i := range 40 {
					world.Start(w, wf, 0, perdure.ID(fmt.Sprint(i)))
				}
				time.Sleep(time.Minute)
				began := time.Now()
				w.End()
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("to stop took %v", took)
				}
				if got := s.Types(); slices.Contains(got, "b") {
					t.Error("an event was told before the one that precedes it was taken")
				}
				s.Do, s.Told = nil, nil
				w.Begin()
				time.Sleep(time.Minute)
				w.End()
				byRun := map[string]string{}
				for _, e := range s.Told {
					byRun[e.WorkflowID] += e.Type
				}
				for i := range 40 {
					if got := byRun[fmt.Sprint(i)]; got != "abc" {
						t.Errorf("of run %d the next engine told %q", i, got)
					}
				}
			})
		})
	}
}

// spec: R-29
func TestEventsOfBranchesHaveIDsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			var fs []*perdure.Future[string]
			for i := range 3 {
				fs = append(
					fs, perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
						return perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
							var wg sync.WaitGroup
							for range 4 { // a body may have goroutines
								wg.Go(func() { _ = perdure.Emit(ctx, fmt.Sprint("e", i), i) })
							}
							wg.Wait()
							return "", nil
						})
					}), perdure.Async(ctx, "async", emits(nil, "async")))
			}
			for _, f := range fs {
				if _, err := f.Await(ctx); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		w := world.With(t, perdure.Options{Publisher: s.Take}, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ids := map[string]bool{}
		var inJournal []string
		for _, e := range s.Told {
			ids[e.ID] = true
		}
		for _, e := range w.History("x") {
			if e.Kind == journal.EventEmitted {
				inJournal = append(inJournal, e.Detail.Event)
			}
		}
		if len(s.Told) != 15 || len(ids) != 15 || !slices.Equal(s.Types(), inJournal) {
			t.Errorf("told %q with %d IDs, the journal has %q", s.Types(), len(ids), inJournal)
		}
	})
}

// The delivery of the end of a run waits with its events: everything of one run is delivered in
// order.
//
// spec: R-29
func TestEventsThatWereNotTakenWaitForAnEngineThatHasASubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		s.Do = func(context.Context, int, perdure.Event) error { return errors.New("not now") }
		var ended atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return perdure.Step(ctx, "one", emits(nil, "a"))
		}, perdure.Listener{
			Statuses: []journal.Status{journal.Completed, journal.Confirmed},
			Call:     func(context.Context, perdure.Ended) error { ended.Add(1); return nil },
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options.Build, w.Options.Publisher = "test", s.Take
		w.Begin()
		if _, _, err := world.Result(w, wf, 0); err != nil {
			t.Fatal(err)
		}
		w.End()
		w.Options.Publisher = nil
		w.Begin()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := ended.Load(); n != 0 {
			t.Errorf("without a subscriber the listener was called %d times", n)
		}
		w.End()
		s.Told, s.Do, w.Options.Publisher = nil, nil, s.Take
		w.Begin()
		defer w.End()
		time.Sleep(time.Minute)
		if got := s.Types(); !slices.Equal(got, []string{"a"}) || ended.Load() != 1 {
			t.Errorf("the third engine was told %q, and %d ends", got, ended.Load())
		}
	})
}

// spec: L-18
func TestTheEndOfARunOfAnUnknownWorkflowIsNotInTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		w := world.New(t)
		defer w.End()
		stop, err := w.Engine.Listen(
			perdure.Listener{Call: func(context.Context, perdure.Ended) error {
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if _, err := w.Engine.Start(ctx, "unknown", []byte("0"), perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Cancel(ctx, "x", "nobody knows it"); err != nil {
			t.Fatal(err)
		}
		if info, err := w.DB.Info(ctx); err != nil || info.Outbox != 0 {
			t.Errorf("%d entries are in the outbox, %v", info.Outbox, err)
		}
	})
}

// An event that workflow code emits is delivered when its turn is durable, and is the same event
// after a crash.
//
// spec: F-10
func TestWorkflowCodeEmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s world.Subscriber
		s.Do = func(_ context.Context, n int, _ perdure.Event) error {
			if n == 1 {
				return errors.New("not now")
			}
			return nil
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			for i := range 2 {
				err := pattern.EmitEvent(ctx, perdure.Event{
					Type: "order.seen", Data: []byte{'0' + byte(i)},
					Kind: pattern.EventStepCompleted, Status: journal.Trying, Topic: "orders",
					Key: "k", Step: "debit",
				})
				if err != nil {
					return "", err
				}
			}
			return "", perdure.Sleep(ctx, time.Hour)
		})
		w := world.With(t, perdure.Options{Publisher: s.Take, IdleTimeout: -1}, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		w.Crash()
		if _, err := world.OutcomeOf(w, wf, "x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ids := map[string]int{}
		for _, e := range s.Told {
			ids[e.ID]++
			want := perdure.Event{
				ID: e.ID, Type: "order.seen", RunID: e.RunID, WorkflowID: "x", Workflow: "w",
				Step: "debit", At: e.At, Data: e.Data,
				Kind: pattern.EventStepCompleted, Status: journal.Trying, Topic: "orders", Key: "k",
			}
			if !reflect.DeepEqual(e, want) || e.RunID == "" || e.ID == "" || e.At.IsZero() {
				t.Errorf("told %+v", e)
			}
		}
		if len(ids) != 2 || len(s.Told) > 4 {
			t.Errorf("told %d times of the events %v", len(s.Told), ids)
		}
	})
}
