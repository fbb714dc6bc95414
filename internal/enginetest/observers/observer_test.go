package observers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// everything is a workflow that causes all kinds of notices; kid and fails are its children.
func everything(kid, fails *perdure.Workflow[int, int]) *perdure.Workflow[int, int] {
	return perdure.Define("everything", func(ctx context.Context, _ int) (int, error) {
		for _, do := range []func(context.Context) error{everyStep, everyFact, everyWait} {
			if err := do(ctx); err != nil {
				return 0, err
			}
		}
		for _, c := range []*perdure.Child[int]{
			kid.Child(ctx, 1, perdure.ID("kid")), fails.Child(ctx, 1, perdure.ID("fails")),
		} {
			_, _ = c.Await(ctx)
		}
		_, err := perdure.Park(ctx, "review", "odd amount", "go")
		return 1, err
	})
}

func everyStep(ctx context.Context) error {
	twice := perdure.Retry{Attempts: 2, First: time.Second}
	if _, err := perdure.Step(ctx, "ok", world.Work("", 2*time.Second, nil)); err != nil {
		return err
	}
	if _, err := perdure.Step(ctx, "retried", func(ctx context.Context) (int, error) {
		if n, _, _ := perdure.Attempt(ctx); n == 1 {
			return 0, perdure.Benign(world.ErrOdd)
		}
		return world.Work("", time.Second, nil)(ctx)
	}, twice); err != nil {
		return err
	}
	_, _ = perdure.Step(ctx, "bad", world.Work("", time.Second, world.ErrOdd), twice)
	_, _ = perdure.Step(ctx, "slow", world.Work("", time.Hour, nil), perdure.Timeout(time.Second),
		perdure.NoRetry)
	if _, err := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
		return perdure.Step(ctx, "inner", world.Work("", 0, nil), perdure.Key("k"))
	}).Await(ctx); err != nil {
		return err
	}
	f := perdure.Async(ctx, "stopped", world.Work("", time.Hour, nil))
	if _, err := perdure.Async(ctx, "beside",
		world.Work("", time.Second, nil)).Await(ctx); err != nil {
		return err
	}
	_, err := f.Cancel(ctx, "enough")
	return err
}

func everyFact(ctx context.Context) error {
	for _, f := range []pattern.Fact{
		{Kind: journal.StepSkipped, Name: "gift", Reason: "no gift"},
		{Kind: journal.StepSkipped, Name: "charge", Reason: "duplicate"},
		{Kind: journal.CompensationStarted, Name: "refund", Reason: "ship failed"},
		{Kind: journal.StepCompensated, Name: "charge", Attempt: 2},
		{Kind: journal.StepCompensationFailed, Name: "reserve", Attempt: 3, Err: world.ErrOdd},
		{Kind: journal.PhaseStarted, Name: "try", Phase: "TRY"},
		{Kind: journal.PhaseCompleted, Name: "try", Phase: "TRY"},
		{Kind: journal.PhaseFailed, Name: "confirm", Phase: "CONFIRM", Err: world.ErrOdd},
	} {
		if err := pattern.Record(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

var (
	approve = perdure.NewSignal[string]("approve")
	spare   = perdure.NewSignal[string]("spare")
)

func everyWait(ctx context.Context) error {
	if _, err := approve.Wait(ctx, perdure.Key("k")); err != nil {
		return err
	}
	all, err := perdure.Inbox(ctx, "spare")
	if err != nil || len(all) != 1 {
		return errors.Join(err, fmt.Errorf("the inbox has %v", all))
	}
	if _, err := perdure.Take(ctx, all[0].Number); err != nil {
		return err
	}
	in, err := perdure.Scope(ctx, "in")
	if err != nil {
		return err
	}
	if _, err := perdure.Timer(in, "pause", time.Hour).Await(in); err != nil {
		return err
	}
	return perdure.Sleep(ctx, time.Hour)
}

// shown formats a notice, with runs by their workflow ID and their place in the chain.
func shown(n observe.Notice, runs map[string]string) string {
	out := []string{runs[n.Run]}
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	add("status", n.Status)
	add("step", n.Step)
	add("phase", n.Phase)
	add("signal", n.Signal)
	add("timer", n.Timer)
	if n.Other != "" {
		add("other", runs[n.Other])
	}
	if n.Attempt != 0 {
		add("attempt", fmt.Sprint(n.Attempt))
	}
	if n.Took != 0 {
		add("took", n.Took.String())
	}
	if !n.Due.IsZero() {
		add("after", n.Due.Sub(n.At).String())
	}
	add("err", n.Err)
	add("reason", n.Reason)
	if n.Benign {
		out = append(out, "benign")
	}
	return strings.Join(out, " ")
}

// lifecycle has the expected notices of each kind when everything happens. For kinds that nothing
// produces yet, it has the feature that will.
var lifecycle = map[observe.Kind][]string{
	observe.RunStarted: {
		"all status=RUNNING", "kid status=PENDING", "fails status=PENDING", "chain status=RUNNING",
		"chain' status=PENDING", "cancelled status=RUNNING",
		"late status=RUNNING",
	},
	observe.StepStarted: {
		"all step=ok attempt=1", "all step=retried attempt=1",
		"all status=RUNNING step=retried attempt=2", "all step=bad attempt=1",
		"all status=RUNNING step=bad attempt=2", "all step=slow attempt=1",
		"all step=branch/inner[k] attempt=1",
		"all step=stopped attempt=1", "all step=beside attempt=1",
	},
	observe.StepSucceeded: {
		"all step=ok attempt=1 took=2s", "all step=retried attempt=2 took=1s",
		"all step=branch/inner[k] attempt=1", "all step=beside attempt=1 took=1s",
	},
	observe.StepFailed: {
		"all step=bad attempt=2 took=1s err=odd",
		"all step=slow attempt=1 took=1s err=step slow passed its timeout of 1s",
	},
	observe.StepRetrying: {
		"all status=WAITING step=retried attempt=1 after=1s err=odd benign",
		"all status=WAITING step=bad attempt=1 took=1s after=1s err=odd",
	},
	observe.StepCancelled:          {"all step=stopped attempt=1 reason=enough"},
	observe.StepSkipped:            {"all step=gift reason=no gift"},
	observe.StepDuplicate:          {"all step=charge reason=duplicate"},
	observe.CompensationStarted:    {"all step=refund reason=ship failed"},
	observe.StepCompensated:        {"all step=charge attempt=2"},
	observe.StepCompensationFailed: {"all step=reserve attempt=3 err=odd"},
	observe.PhaseStarted:           {"all step=try phase=TRY"},
	observe.PhaseCompleted:         {"all step=try phase=TRY"},
	observe.PhaseFailed:            {"all step=confirm phase=CONFIRM err=odd"},
	observe.SignalDelivered:        {"all signal=approve", "all signal=spare"},
	observe.TimerFired: {
		"all timer=in/pause after=0s", "all timer=sleep after=0s", "late timer=sleep after=0s",
	},
	observe.ChildStarted: {"all step=kid other=kid", "all step=fails other=fails"},
	observe.ChildEnded: {
		"all step=kid other=kid reason=COMPLETED",
		"all step=fails other=fails err=odd reason=FAILED",
	},
	observe.RunParked: {
		"all status=SUSPENDED step=review reason=odd amount",
		"all status=SUSPENDED reason=have a look",
		"cancelled status=SUSPENDED reason=suspended by an operator",
	},
	observe.RunResumed:   {"all status=RUNNING", "all step=review reason=looks good"},
	observe.RunContinued: {"chain status=CONTINUED_AS_NEW other=chain'"},
	observe.RunEnded: {
		"kid status=COMPLETED", "fails status=FAILED err=odd", "chain' status=COMPLETED",
		"cancelled status=CANCELLED took=1h0m0s err=workflow cancelled: no more reason=no more",
		"all status=COMPLETED took=5h0m0s",
		"late status=TIMED_OUT took=9h0m0s err=workflow timed out",
	},
}

var later = map[observe.Kind]string{
	observe.DeadLettered:         "dead letters",
	observe.ParticipantStarted:   "the TCC pattern",
	observe.ParticipantSucceeded: "the TCC pattern",
	observe.ParticipantFailed:    "the TCC pattern",
	observe.CompositionStarted:   "compositions of sagas and TCCs",
	observe.CompositionEnded:     "compositions of sagas and TCCs",
}

// spec: P-6
func TestObserversHearOfEverythingThatHappens(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		t.Run(fmt.Sprint("idle ", idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, runs := haveEverythingHappen(t, idle)
				for _, kind := range append(observe.Lifecycle(), observe.StepRetrying,
					observe.StepCancelled) {
					var got []string
					for _, n := range w.Seen(kind) {
						got = append(got, shown(n, runs))
						if n.At.IsZero() || n.Run == "" || n.WorkflowID == "" || n.Workflow == "" ||
							n.Pattern != "WORKFLOW" {
							t.Errorf("%+v lacks what each notice has", n)
						}
					}
					want := lifecycle[kind]
					if (later[kind] == "") == (want == nil) {
						t.Errorf("%s: is it there, or does it come with %q?", kind, later[kind])
					}
					slices.Sort(got)
					if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
						t.Errorf("%s:\n%s\nwant\n%s", kind, strings.Join(got, "\n"),
							strings.Join(want, "\n"))
					}
				}
			})
		})
	}
}

// haveEverythingHappen returns the world in which everything happened, and the names of its runs
// in the output.
func haveEverythingHappen(t *testing.T, idle time.Duration) (*world.World, map[string]string) {
	kid := perdure.Define("kid", func(context.Context, int) (int, error) { return 1, nil })
	fails := perdure.Define("fails", func(context.Context, int) (int, error) {
		return 0, world.ErrOdd
	})
	all := everything(kid, fails)
	chain := perdure.Define("chain", func(ctx context.Context, n int) (int, error) {
		if n == 1 {
			return n, nil
		}
		return 0, perdure.ContinueAsNew(ctx, n+1)
	})
	late := perdure.Define("late", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		_, err := approve.Wait(ctx)
		return 0, err
	}, perdure.Timeout(9*time.Hour))
	w := world.With(t, perdure.Options{IdleTimeout: idle}, kid, fails, all, chain, late)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	begin := time.Now()
	at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
	_, err := all.Start(t.Context(), w.Engine, 0, perdure.ID("all"))
	must(err)
	_, err = chain.Start(t.Context(), w.Engine, 0, perdure.ID("chain"))
	must(err)
	_, err = late.Start(t.Context(), w.Engine, 0, perdure.ID("late"))
	must(err)
	_, err = approve.Send(t.Context(), w.Engine, "all", "spare comes first")
	must(err)
	_, err = w.Engine.Send(t.Context(), "all", "spare", nil)
	must(err)
	at(30 * time.Minute)
	must(w.Engine.Suspend(t.Context(), "all", "have a look"))
	at(time.Hour)
	must(w.Engine.Resume(t.Context(), "all"))
	at(2 * time.Hour)
	_, err = late.Start(t.Context(), w.Engine, 0, perdure.ID("cancelled"))
	must(err)
	at(2*time.Hour + 30*time.Minute)
	must(w.Engine.Suspend(t.Context(), "cancelled", "")) // it does not go on when its hour is over
	at(3 * time.Hour)
	must(w.Engine.Cancel(t.Context(), "cancelled", "no more"))
	at(5 * time.Hour)
	must(w.Engine.Decide(t.Context(), "all", "review",
		perdure.Decision{Choice: "go", Reason: "looks good"}))
	at(10 * time.Hour)
	w.End()
	runs := map[string]string{}
	for _, n := range w.Seen(observe.RunStarted) {
		name := n.WorkflowID
		for slices.Contains(slices.Collect(maps.Values(runs)), name) {
			name += "'"
		}
		runs[n.Run] = name
	}
	return w, runs
}

// noticed returns the kind of the notice of an entry of a kind.
var noticed = map[journal.Kind]observe.Kind{
	journal.RunStarted: observe.RunStarted, journal.RunClaimed: observe.RunClaimed,
	journal.RunCompleted: observe.RunEnded,
	journal.RunContinued: observe.RunContinued, journal.StepStarted: observe.StepStarted,
	journal.StepCompleted: observe.StepSucceeded, journal.StepFailed: observe.StepFailed,
	journal.StepRetrying:  observe.StepRetrying,
	journal.StepCancelled: observe.StepCancelled, journal.SignalConsumed: observe.SignalDelivered,
	journal.TimerFired:   observe.TimerFired,
	journal.ChildStarted: observe.ChildStarted, journal.ChildCompleted: observe.ChildEnded,
}

// A clerk compares every notice with the journal at the time of the notice.
type clerk struct {
	w  *world.World
	mu sync.Mutex
	at map[string]int                  // by run: the first entry that it was not notified of
	n  map[string]map[observe.Kind]int // by run
}

func (c *clerk) see(n observe.Notice) {
	if n.Run == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[n.Run] == nil {
		c.n[n.Run] = map[observe.Kind]int{}
	}
	h, err := c.w.Engine.History(context.Background(), n.Run, 0, 0)
	if err != nil {
		c.w.T.Errorf("%v was told, and the journal says %v", n, err)
		return
	}
	is := func(e journal.Entry) bool {
		return noticed[e.Kind] == n.Kind && e.At.Equal(n.At) &&
			(n.Step == "" || strings.HasSuffix(n.Step, e.Op.String()))
	}
	if n.Kind == observe.StepStarted && n.Attempt == 1 && !slices.ContainsFunc(h, is) {
		if c.at[n.Run] == 0 {
			c.w.T.Errorf("step %s of %s was told before its run", n.Step, n.Run)
		}
		return // it has no record
	}
	c.n[n.Run][n.Kind]++
	for i := c.at[n.Run]; i < len(h); i++ {
		if is(h[i]) {
			c.at[n.Run] = i + 1
			return
		}
	}
	c.w.T.Errorf("%+v was told after entry %d, and is not durable after it: %v", n, c.at[n.Run],
		world.Tail(h, 20))
}

// spec: P-6
func TestNoticesComeAfterTheCommitAndInTheOrderOfTheJournal(t *testing.T) {
	for _, idle := range world.IdleTimeouts {
		synctest.Test(t, func(t *testing.T) {
			kid := perdure.Define("kid", func(ctx context.Context, n int) (int, error) {
				return n, perdure.Sleep(ctx, time.Minute)
			})
			busy := perdure.Define("busy", func(ctx context.Context, left int) (int, error) {
				var fs []*perdure.Future[int]
				for i := range 3 {
					fs = append(
						fs, perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
							if _, err := perdure.Step(ctx, "a",
								world.Work("a", time.Duration(i)*time.Millisecond,
									nil)); err != nil {
								return 0, err
							}
							f := perdure.Async(ctx, "beside",
								world.Work("", time.Duration(i)*time.Second, nil))
							_, _ = perdure.Step(ctx, "bad", world.Work("", 0, world.ErrOdd),
								perdure.Retry{Attempts: 2, First: time.Second})
							if _, err := f.Await(ctx); err != nil {
								return 0, err
							}
							if err := perdure.Sleep(ctx, time.Minute); err != nil {
								return 0, err
							}
							return kid.Child(ctx, i).Await(ctx)
						}))
				}
				if _, err := spare.Wait(ctx); err != nil {
					return 0, err
				}
				for _, f := range fs {
					if _, err := f.Await(ctx); err != nil {
						return 0, err
					}
				}
				perdure.Async(ctx, "left", world.Work("", time.Hour, nil))
				if left > 0 {
					return 0, perdure.ContinueAsNew(ctx, left-1)
				}
				return 1, nil
			})
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{kid, busy}}
			c := &clerk{w: w, at: map[string]int{}, n: map[string]map[observe.Kind]int{}}
			w.Options = perdure.Options{Build: "test", IdleTimeout: idle,
				Observers: []observe.Observer{{See: c.see}}}
			w.Begin()
			for i := range 10 {
				world.Start(w, busy, 1, perdure.ID(fmt.Sprint("r", i)))
			}
			for range 2 {
				time.Sleep(time.Second)
				for i := range 10 {
					if _, err := spare.Send(t.Context(), w.Engine, fmt.Sprint("r", i),
						"now"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
			}
			synctest.Wait()
			if len(c.n) != 10*2*4 {
				t.Errorf("%d runs were told of", len(c.n))
			}
			for run, told := range c.n {
				recorded := map[observe.Kind]int{}
				for _, e := range w.History(run) {
					if kind := noticed[e.Kind]; kind != "" {
						recorded[kind]++
					}
				}
				if !maps.Equal(told, recorded) {
					t.Errorf("run %s: told %v, recorded %v", run, told, recorded)
				}
			}
			w.End()
		})
	}
}

// spec: P-6
func TestAStepThatBeginsAgainIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", world.Work("s", time.Hour, nil))
		})
		w := world.New(t, wf)
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		w.Crash()
		time.Sleep(time.Minute)
		if err := errors.Join(w.Engine.Suspend(t.Context(), "x", "odd"),
			w.Engine.Resume(t.Context(), "x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.End()
		for kind, want := range map[observe.Kind]int{
			observe.StepStarted:   2,
			observe.StepSucceeded: 1,
			observe.RunStarted:    1,
			observe.RunEnded:      1,
		} {
			told := w.Seen(kind)
			if len(told) != want {
				t.Errorf("%s was told %d times, want %d", kind, len(told), want)
			}
			for _, n := range told {
				if n.Step != "" && (n.Step != "s" || n.Attempt != 1) {
					t.Errorf("told %+v", n)
				}
			}
		}
	})
}

// spec: P-6
func TestTheStartOfARunIsToldOnceWhoeverStartsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			return spare.Wait(ctx)
		})
		unknown := perdure.Define("unknown", func(context.Context, int) (int, error) {
			return 1, nil
		})
		w := world.With(t, perdure.Options{IdleTimeout: -1, Capacity: 3}, wf)
		client, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		start := func(c perdure.Caller, id string) {
			must(wf.Start(t.Context(), c, 0, perdure.ID(id)))
		}
		start(w.Engine, "here")
		start(w.Engine, "here")
		start(client, "client")
		must(perdure.SendWithStart(t.Context(), w.Engine, spare, "v", wf, 0,
			perdure.ID("signalled")))
		must(perdure.SendWithStart(t.Context(), client, spare, "v", wf, 0,
			perdure.ID("client-signalled")))
		must(w.Engine.Start(t.Context(), "unknown", []byte("0"), perdure.ID("unknown")))
		must(client.Start(t.Context(), "unknown", []byte("0"), perdure.ID("client-unknown")))
		must(client.Start(t.Context(), "unknown", []byte("0"), perdure.ID("cancelled")))
		time.Sleep(time.Minute)
		must(nil, w.Engine.Cancel(t.Context(), "cancelled", "no more"))
		must(nil, w.Engine.Register(unknown))
		time.Sleep(time.Minute)
		for _, id := range []string{"here", "client"} {
			must(spare.Send(t.Context(), w.Engine, id, "v"))
		}
		time.Sleep(time.Minute)
		w.End()
		for _, id := range []string{
			"here", "client", "signalled", "client-signalled", "unknown", "client-unknown",
			"cancelled",
		} {
			var kinds []observe.Kind
			for _, n := range w.Told() {
				if n.WorkflowID == id && (n.Kind == observe.RunStarted ||
					n.Kind == observe.RunEnded || n.Kind == observe.RunClaimed) {
					kinds = append(kinds, n.Kind)
				}
			}
			kinds = slices.DeleteFunc(kinds, func(k observe.Kind) bool {
				return k == observe.RunClaimed
			})
			if !slices.Equal(kinds, []observe.Kind{observe.RunStarted, observe.RunEnded}) {
				t.Errorf("of %s was told %q", id, kinds)
			}
		}
		for i, n := range w.Told() {
			if n.Kind == observe.RunClaimed && !slices.ContainsFunc(w.Told()[:i], func(
				m observe.Notice,
			) bool {
				return m.Kind == observe.RunStarted && m.Run == n.Run
			}) {
				t.Errorf("%s was told as claimed before it was told as started", n.WorkflowID)
			}
		}
	})
}

// spec: P-6
func TestAnObserverTakesOnlyTheKindsItWantsAndOneThatPanicsDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[string][]observe.Kind{}
		keep := func(name string) observe.Func {
			return func(n observe.Notice) {
				mu.Lock()
				defer mu.Unlock()
				seen[name] = append(seen[name], n.Kind)
				if name == "panics" {
					panic("an observer")
				}
			}
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, _ = perdure.Step(ctx, "bad", world.Work("", 0, world.ErrOdd), perdure.NoRetry)
			return perdure.Step(ctx, "good", world.Work("", 0, nil))
		})
		w := world.With(t, perdure.Options{Observers: []observe.Observer{
			{See: keep("panics")}, {Kinds: []observe.Kind{observe.StepFailed}, See: keep("failed")},
			{},
			{Kinds: []observe.Kind{observe.StepSucceeded, observe.RunEnded}, See: keep("two")},
			{Kinds: []observe.Kind{observe.DeadLettered}, See: keep("none")}, {See: keep("all")},
		}}, wf)
		run, err := wf.Start(t.Context(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Error(err)
		}
		w.End()
		if got := seen["failed"]; !slices.Equal(got, []observe.Kind{observe.StepFailed}) {
			t.Errorf("the first saw %q", got)
		}
		if got := seen["two"]; !slices.Equal(got, []observe.Kind{
			observe.StepSucceeded, observe.RunEnded,
		}) {
			t.Errorf("the second saw %q", got)
		}
		if got := seen["none"]; got != nil {
			t.Errorf("the third saw %q", got)
		}
		if !slices.Equal(seen["panics"], seen["all"]) || len(seen["all"]) != len(w.Told()) ||
			len(seen["all"]) < 6 {
			t.Errorf("one that panics saw %q, the last one %q", seen["panics"], seen["all"])
		}
	})
}

// While an observer blocks, nothing becomes durable, as the package documents: so no run goes on,
// and none is lost.
//
// spec: P-6
func TestAnObserverThatBlocksHoldsUpTheEngineAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var mu sync.Mutex
		second, blocked := 0, false
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if _, err := perdure.Step(ctx, "s", world.Work("", time.Second, nil)); err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "t", func(context.Context) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				second++
				return 1, nil
			})
		})
		w := world.With(t,
			perdure.Options{Observers: []observe.Observer{{Kinds: []observe.Kind{
				observe.StepSucceeded,
			},
				See: func(n observe.Notice) {
					mu.Lock()
					first := n.Step == "s" && !blocked
					blocked = blocked || first
					mu.Unlock()
					if first {
						<-let
					}
				}}}}, wf)
		var runs []*perdure.Run[int]
		start := func() {
			run, err := wf.Start(t.Context(), w.Engine, 0)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			runs = append(runs, run)
			mu.Unlock()
		}
		start()
		time.Sleep(time.Minute)
		go start()
		time.Sleep(time.Hour)
		mu.Lock()
		if len(runs) != 1 || second != 0 {
			t.Errorf("while an observer blocks %d runs are durable, and %d steps have gone on",
				len(runs), second)
		}
		mu.Unlock()
		close(let)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, run := range runs {
			if n, err := run.Result(t.Context()); n != 1 || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
		}
		w.End()
		if len(runs) != 2 || second != 2 || len(w.Seen(observe.StepSucceeded)) != 4 ||
			len(w.Seen(observe.RunEnded)) != 2 {
			t.Errorf("%d runs, %d steps, %d and %d notices", len(runs), second,
				len(w.Seen(observe.StepSucceeded)), len(w.Seen(observe.RunEnded)))
		}
	})
}

// spec: P-6
func TestANoticeThatNobodyWantsCostsNothing(t *testing.T) {
	other := []observe.Observer{
		{Kinds: []observe.Kind{observe.DeadLettered}, See: func(observe.Notice) {}},
	}
	for name, set := range map[string]*observe.Set{
		"no observers": observe.NewSet(nil),
		"others":       observe.NewSet(other),
	} {
		if n := testing.AllocsPerRun(1000, func() {
			if set.Wants(observe.StepSucceeded) {
				t.Error("somebody wants it")
			}
			set.Tell(observe.Notice{Kind: observe.StepSucceeded, Run: "r", Step: "s", Attempt: 1})
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
