package observers

import (
	"context"
	"errors"
	"fmt"
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

// Ears record the calls of listeners.
type ears struct {
	mu    sync.Mutex
	heard []perdure.Ended
}

func (e *ears) hear(_ context.Context, end perdure.Ended) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, end)
	return nil
}

// times returns the number of calls for each run, by workflow ID.
func (e *ears) times() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := map[string]int{}
	for _, end := range e.heard {
		n[end.WorkflowID]++
	}
	return n
}

func (e *ears) statuses() []journal.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []journal.Status
	for _, end := range e.heard {
		out = append(out, end.Status)
	}
	slices.Sort(out)
	return out
}

// A stuck listener blocks until it is released, and then records the call.
type stuck struct {
	ears
	let       chan struct{}
	now, most int // calls at a time
}

func (s *stuck) hear(ctx context.Context, end perdure.Ended) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	<-s.let
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return s.ears.hear(ctx, end)
}

// endings is a workflow that ends as its input says.
func endings(opts ...perdure.WorkflowOption) *perdure.Workflow[string, string] {
	return perdure.Define("endings", func(ctx context.Context, how string) (string, error) {
		if err := perdure.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		switch how {
		case "COMPLETED":
			return "well", nil
		case "FAILED":
			return "", world.ErrOdd
		case "CANCELLED":
			return "", perdure.Cancel(ctx, "enough")
		case "TIMED_OUT":
			return "", perdure.Sleep(ctx, 3*time.Hour)
		}
		s, ok := journal.ParseStatus(how)
		if !ok {
			return "", errors.New("no such status")
		}
		if s.IsSuccess() {
			return "", pattern.End(ctx, s, "well", nil)
		}
		return "", pattern.End(ctx, s, "half", world.ErrOdd)
	}, append(opts, perdure.Timeout(2*time.Hour))...)
}

var allEnds = []journal.Status{
	journal.Completed, journal.Confirmed, journal.Failed, journal.Compensated, journal.Cancelled,
	journal.Canceled, journal.TimedOut,
}

func startEach(t *testing.T, w *world.World, wf *perdure.Workflow[string, string]) {
	t.Helper()
	for _, s := range allEnds {
		world.Start(w, wf, s.String(), perdure.ID(s.String()))
	}
}

// spec: L-18
func TestEveryEndIsToldToTheListenersOfItsStatus(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			var success, failure, cancellation, timeout, all, some ears
			wf := endings(
				perdure.Listener{
					Statuses: []journal.Status{journal.Completed, journal.Confirmed},
					Call:     success.hear,
				}, perdure.Listener{
					Statuses: []journal.Status{journal.Failed, journal.Compensated},
					Call:     failure.hear,
				},
				perdure.Listener{
					Statuses: []journal.Status{journal.Cancelled, journal.Canceled},
					Call:     cancellation.hear,
				}, perdure.Listener{
					Statuses: []journal.Status{journal.TimedOut},
					Call:     timeout.hear,
				}, perdure.Listener{Call: all.hear},
				perdure.Listener{
					Statuses: []journal.Status{journal.TimedOut, journal.Confirmed},
					Call:     some.hear,
				})
			w := world.With(t, perdure.Options{IdleTimeout: idle}, wf)
			defer w.End()
			startEach(t, w, wf)
			time.Sleep(5 * time.Hour)
			synctest.Wait()
			for _, c := range []struct {
				by   string
				ears *ears
				want []journal.Status
			}{
				{"OnSuccess", &success, []journal.Status{journal.Completed, journal.Confirmed}},
				{"OnFailure", &failure, []journal.Status{journal.Failed, journal.Compensated}},
				{
					"OnCancellation",
					&cancellation,
					[]journal.Status{journal.Cancelled, journal.Canceled},
				},
				{"OnTimeout", &timeout, []journal.Status{journal.TimedOut}},
				{"any", &all, allEnds},
				{"some", &some, []journal.Status{journal.Confirmed, journal.TimedOut}},
			} {
				if got := c.ears.statuses(); !slices.Equal(
					got, slices.Sorted(slices.Values(c.want))) {
					t.Errorf("idle %v: %s heard %v, want %v", idle, c.by, got, c.want)
				}
			}
			for _, end := range all.heard {
				holdsAgainstTheStore(t, w, end)
			}
		})
	}
}

// holdsAgainstTheStore compares the calls of a listener with the store.
func holdsAgainstTheStore(t *testing.T, w *world.World, end perdure.Ended) {
	t.Helper()
	how := end.WorkflowID
	h := w.History(how)
	d, _ := w.Engine.Describe(t.Context(), how)
	want := perdure.Ended{
		RunID: string(d.Head.ID), WorkflowID: how, Workflow: "endings", Status: d.Head.Status,
		Payload: []byte(`"` + how + `"`),
		Started: h[0].At, Ended: d.Head.Ended,
	}
	if end.RunID != want.RunID || end.Workflow != want.Workflow || end.Status.String() != how ||
		end.Status != want.Status ||
		string(end.Payload) != string(want.Payload) || !end.Started.Equal(want.Started) ||
		!end.Ended.Equal(want.Ended) || !end.Ended.After(end.Started) {
		t.Errorf("the listener heard %+v, the store has %+v", end, want)
	}
	output, code := "", journal.Code("")
	switch {
	case end.Status.IsSuccess():
		output = `"well"`
	case end.Status == journal.Compensated, end.Status == journal.Canceled:
		output = `"half"`
	case end.Status == journal.TimedOut:
		code = journal.CodeTimedOut
	case end.Status == journal.Cancelled:
		code = journal.CodeCancelled
	}
	if string(end.Output) != output {
		t.Errorf("%s: output %q, want %q", how, end.Output, output)
	}
	switch {
	case (end.Err == nil) != end.Status.IsSuccess():
		t.Errorf("%s: error %v", how, end.Err)
	case code != "":
		world.CodeIs(t, end.Err, code)
	case end.Err != nil && !errors.Is(end.Err, world.ErrOdd):
		t.Errorf("%s: error %v is not the one that the run ended with", how, end.Err)
	}
}

// spec: L-18
func TestAListenerIsCalledWhenTheEndIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world.World
		var told atomic.Int32
		wf := endings(perdure.Listener{Call: func(ctx context.Context, end perdure.Ended) error {
			told.Add(1)
			d, err := w.Engine.Describe(ctx, string(end.RunID))
			if err != nil || d.Head.Status != journal.Completed {
				t.Errorf("the store says %v, %v", d.Head.Status, err)
			}
			return nil
		}})
		// The group with the end takes half an hour to commit.
		var delay atomic.Int64
		h := &world.Hook{OnCommit: func(_ *store.Group, do func() error) error {
			time.Sleep(time.Duration(delay.Load()))
			return do()
		}}
		w = world.Hooked(t, h, perdure.Options{IdleTimeout: time.Hour}, wf)
		defer w.End()
		world.Start(w, wf, "COMPLETED", perdure.ID("COMPLETED"))
		time.Sleep(time.Second)
		delay.Store(int64(30 * time.Minute))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if told.Load() != 0 {
			t.Error("a listener was called before the end was durable")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if told.Load() != 1 {
			t.Errorf("a listener was called %d times", told.Load())
		}
	})
}

// spec: L-18
func TestAListenerHearsThePayloadThatTheRunHadLast(t *testing.T) {
	big := strings.Repeat("x", 500)
	for _, c := range []struct {
		name, in, set string
	}{
		{"the input", "small", ""}, {"a large input", big, ""},
		{"what replaced it", "small", "other"}, {"what replaced it, large", "small", big},
		{"small instead of large", big, "small"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e ears
				wf := perdure.Define("w", func(ctx context.Context, in string) (string, error) {
					if c.set != "" {
						if err := perdure.SetPayload(ctx, "first"); err != nil {
							return "", err
						}
						if err := perdure.SetPayload(ctx, c.set); err != nil {
							return "", err
						}
					}
					return in + "!", perdure.Sleep(ctx, time.Hour)
				}, perdure.Listener{Call: e.hear})
				w := world.With(t, perdure.Options{SpillOver: 100, IdleTimeout: -1}, wf)
				defer w.End()
				world.Start(w, wf, c.in)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				want := c.in
				if c.set != "" {
					want = c.set
				}
				if len(e.heard) != 1 || string(e.heard[0].Payload) != `"`+want+`"` ||
					string(e.heard[0].Output) != `"`+c.in+`!"` {
					t.Errorf("heard %+v", e.heard)
				}
			})
		})
	}
}

// spec: L-18
func TestAListenerHearsThoughTheStoreDoesNotAnswerWhenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ears
		wf := endings(perdure.Listener{Call: e.hear})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Wrap = func(s store.Store) store.Store {
			var plans []storetest.Plan
			for call := 1; call <= 5; call++ {
				plans = append(plans, storetest.Plan{
					Method: storetest.Load, Call: call, Fault: storetest.FailBefore,
				})
			}
			return storetest.NewFaulty(s, plans...)
		}
		w.Begin()
		defer w.End()
		world.Start(w, wf, "COMPLETED", perdure.ID("x"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.Store.(*storetest.Faulty).Injected()) != 5 {
			t.Fatal("the store did not fail as planned")
		}
		if n := e.times()["x"]; n != 1 || string(e.heard[0].Payload) != `"COMPLETED"` {
			t.Errorf("heard %d times: %+v", n, e.heard)
		}
	})
}

// spec: L-18
func TestNobodyIsToldThatARunContinuesAsNew(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			var e, program ears
			wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
				if err := perdure.Sleep(ctx, time.Hour); err != nil || n == 3 {
					return n, err
				}
				return 0, perdure.ContinueAsNew(ctx, n+1)
			}, perdure.Listener{Call: e.hear})
			w := world.With(t, perdure.Options{IdleTimeout: idle}, wf)
			defer w.End()
			if _, err := w.Engine.Listen(perdure.Listener{Call: program.hear}); err != nil {
				t.Fatal(err)
			}
			run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			last, _ := w.Engine.Describe(t.Context(), "x")
			for _, ears := range []*ears{&e, &program} {
				if len(ears.heard) != 1 || ears.heard[0].RunID != string(last.Head.ID) ||
					ears.heard[0].RunID == run.RunID() ||
					string(ears.heard[0].Payload) != "3" ||
					ears.heard[0].Status != journal.Completed {
					t.Errorf("heard %+v", ears.heard)
				}
			}
		})
	}
}

// spec: L-18
func TestListenersAreAddedByProgramAndTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all, one, failed, other, gone ears
		a, b := endings(), perdure.Define("b", func(context.Context, int) (int, error) {
			return 1, nil
		})
		w := world.With(t, perdure.Options{}, a, b)
		defer w.End()
		stops := map[*ears]func(){}
		for e, l := range map[*ears]perdure.Listener{
			&all: {}, &one: {Workflow: "b"}, &failed: {Statuses: []journal.Status{journal.Failed}},
			&other: {Workflow: "c"}, &gone: {},
		} {
			l.Call = e.hear
			stop, err := w.Engine.Listen(l)
			if err != nil {
				t.Fatal(err)
			}
			stops[e] = stop
		}
		stops[&gone]()
		stops[&gone]() // a second call is allowed
		round := func(id string) {
			t.Helper()
			for _, how := range []string{"COMPLETED", "FAILED"} {
				world.Start(w, a, how, perdure.ID(how+id))
			}
			world.Start(w, b, 0, perdure.ID("b"+id))
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		round("1")
		stops[&all]()
		round("2")
		for name, c := range map[string]struct {
			e    *ears
			want []string
		}{
			"all":    {&all, []string{"COMPLETED1", "FAILED1", "b1"}},
			"one":    {&one, []string{"b1", "b2"}},
			"failed": {&failed, []string{"FAILED1", "FAILED2"}}, "other": {&other, nil},
			"gone": {&gone, nil},
		} {
			var got []string
			for _, end := range c.e.heard {
				got = append(got, end.WorkflowID)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%s heard of %v, want %v", name, got, c.want)
			}
		}
	})
}

func TestAListenerThatCannotBeIsRefused(t *testing.T) {
	ok := func(context.Context, perdure.Ended) error { return nil }
	for name, l := range map[string]perdure.Listener{
		"without a function": {}, "of a status that is no end": {
			Statuses: []journal.Status{journal.Running},
			Call:     ok,
		},
		"of runs that continue": {
			Statuses: []journal.Status{journal.Completed, journal.ContinuedAsNew},
			Call:     ok,
		},
		"of no status": {Statuses: []journal.Status{0}, Call: ok},
	} {
		eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = eng.Listen(l)
		world.CodeIs(t, err, journal.CodeInvalid)
		if err := eng.Register(endings(l)); !errors.Is(err, &perdure.Error{
			Code: journal.CodeInvalid,
		}) {
			t.Errorf("%s: as an option it gives %v", name, err)
		}
	}
}

// spec: L-18
func TestWhatAListenerMakesOfAnEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after ears
		calls := map[string]int{}
		var mu sync.Mutex
		bad := func(name string, do func() error) perdure.Listener {
			return perdure.Listener{Call: func(context.Context, perdure.Ended) error {
				mu.Lock()
				calls[name]++
				mu.Unlock()
				return do()
			}}
		}
		wf := endings(perdure.Listener{Call: before.hear},
			bad("error", func() error { return errors.New("an error of a listener") }),
			bad("panic", func() error { panic("a panic of a listener") }),
			bad("exit", func() error { runtime.Goexit(); return nil }),
			perdure.Listener{Call: after.hear})
		w := world.With(t, perdure.Options{}, wf)
		run, err := wf.Start(t.Context(), w.Engine, "COMPLETED", perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(t.Context()); out != "well" || err != nil {
			t.Errorf("the run gave %q, %v", out, err)
		}
		time.Sleep(time.Hour)
		n := len(w.History("x"))
		w.End()
		w.Begin()
		time.Sleep(time.Hour)
		defer w.End()
		if d, _ := w.Engine.Describe(t.Context(), "x"); d.Head.Status != journal.Completed ||
			len(w.History("x")) != n {
			t.Errorf("the run is %v with %v", d.Head.Status, world.Tail(w.History("x"), 3))
		}
		for name, n := range map[string]int{
			"before": before.times()["x"], "after": after.times()["x"], "error": calls["error"],
			"panic": calls["panic"], "exit": calls["exit"],
		} {
			if n != 1 {
				t.Errorf("%s was called %d times", name, n)
			}
		}
		var told []string
		for _, n := range w.Seen(observe.ListenerFailed) {
			told = append(told, n.WorkflowID+": "+n.Err)
		}
		slices.Sort(told)
		if want := []string{
			"x: a panic of a listener", "x: an error of a listener", "x: it called runtime.Goexit",
		}; len(told) != 3 ||
			!strings.Contains(told[2], "a panic of a listener") || told[0] != want[1] ||
			!strings.HasPrefix(told[1], want[2]) {
			t.Errorf("observers were told %q", told)
		}
	})
}

// spec: L-18
func TestAListenerThatBlocksHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 300
		var e ears
		slow := stuck{let: make(chan struct{})}
		wf := perdure.Define("w", func(context.Context, int) (int, error) { return 1, nil },
			perdure.Listener{Call: slow.hear}, perdure.Listener{Call: e.hear})
		w := world.With(t, perdure.Options{}, wf)
		for i := range runs {
			world.Start(w, wf, i, perdure.ID(fmt.Sprint("r", i)))
		}
		time.Sleep(time.Hour)
		if n := len(e.times()); n != runs {
			t.Errorf("the other listener heard of %d of %d runs", n, runs)
		}
		if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != runs {
			t.Errorf("%d ends are in the outbox while a listener is to hear of all, %v",
				info.Outbox, err)
		}
		close(slow.let)
		time.Sleep(time.Hour)
		if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != 0 {
			t.Errorf("%d ends are in the outbox still, %v", info.Outbox, err)
		}
		if slow.most != 16 {
			t.Errorf("a listener was called for %d runs at a time, want 16", slow.most)
		}
		w.End()
		for id, n := range e.times() {
			if n != 1 {
				t.Errorf("heard of %s %d times", id, n)
			}
		}
	})
}

// spec: L-18
func TestAnEngineThatStopsWaitsForListenersAsForSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration
		again bool // the next engine calls it again
	}{{"one that is done in time", 5 * time.Second, false}, {"one that is not", time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				calls, ended := 0, 0
				wf := perdure.Define("w", func(context.Context, int) (int, error) { return 1, nil },
					perdure.Listener{Call: func(ctx context.Context, _ perdure.Ended) error {
						mu.Lock()
						calls++
						mu.Unlock()
						select {
						case <-time.After(c.takes):
						case <-ctx.Done():
							mu.Lock()
							ended++
							mu.Unlock()
							return ctx.Err()
						}
						return nil
					}})
				w := world.With(t, perdure.Options{Drain: 10 * time.Second}, wf)
				world.Start(w, wf, 1)
				time.Sleep(time.Second)
				began := time.Now()
				w.End()
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("to stop took %v", took)
				}
				time.Sleep(time.Minute)
				w.Begin()
				time.Sleep(2 * time.Hour)
				w.End()
				want, cut := 1, 0
				if c.again {
					want, cut = 2, 1
				}
				if calls != want || ended != cut {
					t.Errorf("the listener was called %d times, and its context ended %d times",
						calls, ended)
				}
			})
		})
	}
}

// spec: L-18
func TestAListenerThatNeverReturnsDoesNotKeepAnEngineFromStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		defer close(let)
		wf := perdure.Define("w", func(context.Context, int) (int, error) { return 1, nil },
			perdure.Listener{Call: func(context.Context, perdure.Ended) error {
				<-let
				return nil
			}})
		w := world.With(t, perdure.Options{}, wf)
		world.Start(w, wf, 1)
		time.Sleep(time.Second)
		began := time.Now()
		w.End()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("to stop took %v", took)
		}
	})
}

// At each call of the store the engine dies, before the call is done and after. The listener is
// called at least once, and at most twice.
//
// spec: L-18
func TestAnEndIsToldOverACrashAtAnyTime(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{
		"before": storetest.CrashBefore,
		"after":  storetest.CrashAfter,
	} {
		t.Run(name, func(t *testing.T) {
			again := 0
			for call, round := 1, 0; ; call++ {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					var e ears
					reached = endOverCrash(t, &e, storetest.Plan{Call: call, Fault: fault})
					n := e.times()["x"]
					if n < 1 || n > 2 {
						t.Errorf("call %d: the end was told %d times", call, n)
					}
					again += n - 1
					for _, end := range e.heard {
						if end.Status != journal.Completed || string(end.Output) != `"well"` ||
							string(end.Payload) != `"COMPLETED"` {
							t.Errorf("call %d: heard %+v", call, end)
						}
					}
				})
				if !reached || t.Failed() {
					if call < 8 {
						t.Errorf("only %d calls were reached", call-1)
					}
					if again > 0 || fault != storetest.CrashBefore || round == 30 || t.Failed() {
						break
					}
					// which call is the acknowledgement is not the same each time
					call, round = 0, round+1
				}
			}
			if again == 0 && fault == storetest.CrashBefore {
				t.Error("no crash came between the call and its acknowledgement")
			}
		})
	}
}

// endOverCrash makes a run end while the store fails as planned, and starts a second engine if it
// did. It returns false if the store did not fail.
func endOverCrash(t *testing.T, e *ears, plan storetest.Plan) bool {
	wf := endings(perdure.Listener{Call: e.hear})
	w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
	w.Wrap = func(s store.Store) store.Store { return storetest.NewFaulty(s, plan) }
	w.Begin()
	faulty := w.Store.(*storetest.Faulty)
	_, _ = wf.Start(t.Context(), w.Engine, "COMPLETED", perdure.ID("x"))
	time.Sleep(time.Hour)
	w.Wrap = nil
	w.Stop()
	w.Done <- <-w.Done
	reached := len(faulty.Injected()) > 0
	if reached {
		w.Crash()
		world.Start(w, wf, "COMPLETED", perdure.ID("x"))
		time.Sleep(time.Hour)
		w.End()
	}
	return reached
}

// spec: L-18
func TestTheEndOfARunIsToldOnceItsWorkflowIsKnownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ears
		old, other := endings(perdure.Listener{Call: e.hear}),
			perdure.Define("other", func(context.Context, int) (int, error) { return 1, nil },
				perdure.Listener{Call: e.hear})
		silent := endings(perdure.Listener{Call: func(ctx context.Context, _ perdure.Ended) error {
			<-ctx.Done()
			return nil
		}})
		w := world.With(t, perdure.Options{}, silent)
		startEach(t, w, silent)
		time.Sleep(5 * time.Hour)
		w.Kill()
		w.Workflows = []perdure.Definition{other}
		w.Begin()
		defer w.End()
		world.Start(w, other, 0, perdure.ID("other"))
		time.Sleep(time.Hour)
		if n := e.times(); len(n) != 1 || n["other"] != 1 {
			t.Fatalf("heard of %v by an engine that does not know the workflow", n)
		}
		if err := w.Engine.Register(old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for _, s := range allEnds {
			if n := e.times()[s.String()]; n != 1 {
				t.Errorf("heard of %v %d times", s, n)
			}
		}
		if n := e.times()["other"]; n != 1 {
			t.Errorf("heard of the other workflow's run %d times", n)
		}
	})
}

// spec: L-18
func TestManyEndsThatADeadEngineLeftAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 2500 // more than is read or held at a time
		var e ears
		define := func(
			call func(context.Context, perdure.Ended) error) *perdure.Workflow[int, int] {
			return perdure.Define("w", func(_ context.Context, n int) (int, error) {
				return n, nil
			}, perdure.Listener{Call: call})
		}
		wf := define(func(ctx context.Context, _ perdure.Ended) error { <-ctx.Done(); return nil })
		w := world.With(t, perdure.Options{}, wf)
		for i := range runs {
			world.Start(w, wf, i, perdure.ID(fmt.Sprint(i)))
		}
		time.Sleep(time.Minute)
		w.Kill()
		w.Workflows = []perdure.Definition{define(e.hear)}
		w.Begin()
		time.Sleep(time.Minute)
		w.End()
		if n := len(e.times()); n != runs || len(e.heard) != runs {
			t.Errorf("%d of %d runs were told of, in %d calls", n, runs, len(e.heard))
		}
		if info, err := w.DB.Info(t.Context()); err != nil || info.Outbox != 0 {
			t.Errorf("%d ends are in the outbox still, %v", info.Outbox, err)
		}
	})
}

// spec: L-18
func TestAListenerMayUseItsEngine(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			var w *world.World
			greet := perdure.NewSignal[string]("greet")
			waits := perdure.Define("waits", func(ctx context.Context, _ int) (string, error) {
				return greet.Wait(ctx)
			})
			follow := perdure.Define("follow", func(ctx context.Context, n int) (int, error) {
				return n, perdure.Sleep(ctx, time.Minute)
			})
			var stop func()
			first := perdure.Define("first", func(context.Context, int) (int, error) {
				return 1, nil
			},
				perdure.Listener{Call: func(ctx context.Context, end perdure.Ended) error {
					stop()
					run, err := follow.Start(ctx, w.Engine, 7, perdure.ID("after-"+end.WorkflowID))
					if err != nil {
						return err
					}
					if _, err := greet.Send(ctx, w.Engine, "signalled", "hello"); err != nil {
						return err
					}
					if err := w.Engine.Cancel(ctx, "cancelled", "by a listener"); err != nil {
						return err
					}
					n, err := run.Result(ctx)
					if n != 7 {
						return fmt.Errorf("got %d: %w", n, err)
					}
					return err
				}})
			w = world.With(t, perdure.Options{IdleTimeout: idle}, first, follow, waits)
			defer w.End()
			stop, _ = w.Engine.Listen(perdure.Listener{Workflow: "none", Call: (&ears{}).hear})
			for _, id := range []string{"signalled", "cancelled"} {
				world.Start(w, waits, 0, perdure.ID(id))
			}
			world.Start(w, first, 0, perdure.ID("x"))
			time.Sleep(time.Hour)
			if failed := w.Seen(observe.ListenerFailed); len(failed) > 0 {
				t.Errorf("the listener failed: %+v", failed)
			}
			got, err := w.Engine.Statuses(t.Context(), "after-x", "signalled", "cancelled")
			if err != nil || string(got[0].Output) != "7" || string(got[1].Output) != `"hello"` ||
				got[2].Head.Status != journal.Cancelled {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
