package ends

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/perdure/perdure/store"
)

// checkChain checks that the runs of a workflow ID are one chain, linked both ways, whose times
// match and of which only the last may be open.
func checkChain(w *world.World, id string, n int) []journal.Head {
	w.T.Helper()
	heads := w.Chain(id)
	if len(heads) != n {
		w.T.Fatalf("the chain has %d runs, want %d", len(heads), n)
	}
	states := make([]journal.Snapshot, n)
	for i, h := range heads {
		d, err := w.Engine.Describe(context.Background(), string(h.ID))
		if err != nil {
			w.T.Fatal(err)
		}
		states[i] = d.State
		w.History(string(h.ID))
	}
	for i, h := range heads {
		s := states[i]
		if h.Chain != heads[0].Number || h.WorkflowID != id {
			w.T.Errorf("run %d is of chain %d and has workflow ID %s", i, h.Chain, h.WorkflowID)
		}
		if i+1 < n && (h.Status != journal.ContinuedAsNew || s.Successor != heads[i+1].ID) {
			w.T.Errorf("run %d is %v and is followed by %q", i, h.Status, s.Successor)
		}
		switch {
		case i == 0 && s.Predecessor != "":
			w.T.Errorf("the first run follows %q", s.Predecessor)
		case i > 0 && (s.Predecessor != heads[i-1].ID ||
			!s.PredecessorStarted.Equal(heads[i-1].Created) ||
			s.PredecessorEnded.Sub(heads[i-1].Ended).Abs() > time.Millisecond ||
			h.Created.Sub(heads[i-1].Ended).Abs() > time.Millisecond):
			w.T.Errorf("run %d follows %+v", i, s)
		}
	}
	return heads
}

// A link is the output of a run of a chain.
type link struct {
	N       int
	Info    perdure.Info
	Attempt string
}

// spec: R-25
func TestSuccessorBeginsInTheCommitThatEndsItsPredecessor(t *testing.T) {
	world.OverCrashes(t, 8, func() world.Scenario {
		l := world.NewLedger()
		wf := perdure.Define("w", func(ctx context.Context, n int) (link, error) {
			i, err := perdure.InfoOf(ctx)
			if err != nil {
				return link{}, err
			}
			if _, err := perdure.Step(ctx, "effect",
				l.Effect(fmt.Sprint(n), time.Second)); err != nil {
				return link{}, err
			}
			if err := perdure.Sleep(ctx, time.Minute); err != nil || n == 3 {
				return link{N: n, Info: i}, err
			}
			return link{}, perdure.ContinueAsNew(ctx, n+1)
		})
		return world.Scenario{
			Workflows: []perdure.Definition{wf},
			Begin: func(w *world.World) error {
				_, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"),
					perdure.Headers{"tenant": "a"}, perdure.Attributes{"city": "Ulm"})
				return err
			},
			Over: func(w *world.World) bool {
				s := w.Status("x")
				return s.IsTerminal() && s != journal.ContinuedAsNew
			},
			Check: func(t *testing.T, w *world.World, crashes int) {
				heads := checkChain(w, "x", 4)
				run, err := wf.Get(context.Background(), w.Engine, "x")
				if err != nil || run.RunID() != string(heads[3].ID) {
					t.Fatal(run, err)
				}
				first, err := wf.Get(context.Background(), w.Engine, string(heads[0].ID))
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range []*perdure.Run[link]{run, first} {
					got, err := r.Result(context.Background())
					if i := got.Info; err != nil || got.N != 3 || i.RunID != string(heads[3].ID) ||
						i.WorkflowID != "x" || i.Predecessor != string(heads[2].ID) ||
						!i.PredecessorBegan.Equal(heads[2].Created) ||
						i.PredecessorEnded.Before(i.PredecessorBegan) ||
						i.Headers["tenant"] != "a" || i.Attributes["city"] != "Ulm" {
						t.Errorf("%+v %v", got, err)
					}
				}
				if len(l.Order()) != 4 {
					t.Errorf("effects %v", l.Order())
				}
				for key, n := range l.Calls() {
					if n > 1+crashes {
						t.Errorf("%s was made %d times", key, n)
					}
				}
			},
		}
	})
}

var (
	item   = perdure.NewSignal[int]("item")
	onward = perdure.NewSignal[int]("onward")
)

// spec
func TestMessagesThatNobodyTookMoveAlong(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, got []int) ([]int, error) {
		if _, err := onward.Wait(ctx); err != nil {
			return nil, err
		}
		for range 2 {
			n, err := item.Wait(ctx)
			if err != nil {
				return nil, err
			}
			got = append(got, n)
		}
		if len(got) == 6 {
			return got, nil
		}
		return nil, perdure.ContinueAsNew(ctx, got)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		run, err := wf.Start(ctx, w.Engine, nil, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		send := func(n int) perdure.Delivery {
			d, err := item.Send(ctx, w.Engine, "x", n, perdure.SendKey(fmt.Sprint(n)))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for n := range 5 {
			send(n)
		}
		for round := range 3 {
			if _, err := onward.Send(ctx, w.Engine, "x", 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			for n := range 5 {
				if d := send(n); !d.Duplicate {
					t.Errorf("round %d: message %d is delivered again: %+v", round, n, d)
				}
			}
			if round == 1 {
				send(5)
			}
		}
		if got, err := run.Result(ctx); err != nil || !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
			t.Error(got, err)
		}
		checkChain(w, "x", 3)
	}, wf)
}

// Signals wait for the run of a chain that takes them, also if engines die and runs are removed
// meanwhile. The payload of large ones is always available.
//
// spec: R-25, P-3
func TestSignalsOutliveTheRunsThatDidNotTakeThem(t *testing.T) {
	item := perdure.NewSignal[string]("item")
	text := func(n int) string { return strings.Repeat(fmt.Sprint(n), 100_000) }
	wf := perdure.Define("w", func(ctx context.Context, got []string) ([]string, error) {
		if _, err := onward.Wait(ctx); err != nil {
			return nil, err
		}
		s, err := item.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if got = append(got, s[:1]); len(got) == 5 {
			return got, nil
		}
		return nil, perdure.ContinueAsNew(ctx, got)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t,
			perdure.Options{Retention: perdure.Retention{Period: time.Second}, CleanUp: -1}, wf)
		defer func() { w.End() }()
		ctx := context.Background()
		world.Start(w, wf, nil, perdure.ID("x"), perdure.Dedup(0))
		for n := range 5 {
			if _, err := item.Send(ctx, w.Engine, "x", text(n),
				perdure.SendKey(fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 4 {
			if _, err := onward.Send(ctx, w.Engine, "x", 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.Crash()
			w.Purged(min(round, 1)) // the first stays while its chain goes on
			if got, want := len(w.Unread("x")), 4-round; got != want {
				t.Errorf("round %d: %d signals wait, want %d", round, got, want)
			}
		}
		last, err := wf.Get(ctx, w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := onward.Send(ctx, w.Engine, "x", 0); err != nil {
			t.Fatal(err)
		}
		if got, err := last.Result(ctx); err != nil || strings.Join(got, "") != "01234" {
			t.Error(got, err)
		}
		time.Sleep(time.Minute)
		w.Purged(2)
	})
}

// spec: R-25
func TestNamedTimersMoveAlongAndSleepsDoNot(t *testing.T) {
	// In the first run "far" is the second of its name, "never" is asked for by no
	// later run, and "due" is due before the last run asks for it.
	type seen struct{ Far, Due, Slept time.Duration }
	var began time.Time
	wf := perdure.Define("w", func(ctx context.Context, n int) (seen, error) {
		if n == 0 {
			if _, err := perdure.Timer(ctx, "far", time.Minute).Await(ctx); err != nil {
				return seen{}, err
			}
			perdure.Timer(ctx, "far", 10*time.Hour)
			perdure.Timer(ctx, "far", 20*time.Hour)
			perdure.Timer(ctx, "never", 40*time.Hour)
			perdure.Timer(ctx, "due", 2*time.Hour, perdure.Key("k"))
			lost := perdure.Timer(ctx, "lost", time.Hour)
			if _, err := lost.Cancel(ctx, "not needed"); err != nil {
				return seen{}, err
			}
			perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return 0, perdure.Sleep(ctx, 50*time.Hour)
			})
		}
		if n < 2 {
			if n == 1 { // it asks for one of those that moved, and leaves the others alone
				perdure.Timer(ctx, "far", time.Second)
			}
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return seen{}, err
			}
			return seen{}, perdure.ContinueAsNew(ctx, n+1)
		}
		if err := perdure.Sleep(ctx, 90*time.Minute); err != nil {
			return seen{}, err
		}
		slept, err := perdure.Now(ctx)
		if err != nil {
			return seen{}, err
		}
		due, err := perdure.Timer(ctx, "due", time.Second, perdure.Key("k")).Await(ctx)
		if err != nil {
			return seen{}, err
		}
		if now, err := perdure.Now(ctx); err != nil || !now.Equal(slept) {
			return seen{}, fmt.Errorf("a timer that was due fired at %v, %w", now, err)
		}
		far, err := perdure.Timer(ctx, "far", time.Second).Await(ctx)
		if err != nil {
			return seen{}, err
		}
		if now, err := perdure.Now(ctx); err != nil || now.Sub(far) > time.Second ||
			now.Before(far) {
			return seen{}, fmt.Errorf("it fired at %v and not at %v, %w", now, far, err)
		}
		return seen{far.Sub(began), due.Sub(began), slept.Sub(began)}, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		began = time.Now()
		run, err := wf.Start(context.Background(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		d, err := w.Engine.Describe(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		timers := map[string]time.Duration{}
		for _, wait := range d.State.Waits {
			timers[wait.Path] = wait.Due.Sub(began)
		}
		want := map[string]time.Duration{
			"far": 10*time.Hour + time.Minute, "far#2": 20*time.Hour + time.Minute,
			"never":  40*time.Hour + time.Minute,
			"due[k]": 2*time.Hour + time.Minute, "sleep": 2*time.Hour + time.Minute,
		}
		if fmt.Sprint(timers) != fmt.Sprint(want) {
			t.Errorf("open timers %v, want %v", timers, want)
		}
		got, err := run.Result(context.Background())
		if err != nil || got != (seen{
			10*time.Hour + time.Minute, 2*time.Hour + time.Minute, 3*time.Hour + 31*time.Minute,
		}) {
			t.Errorf("%+v %v", got, err)
		}
		checkChain(w, "x", 3)
	}, wf)
}

// spec: R-25, L-19
func TestSuccessorHasATimeoutOfItsOwnAndWhatItsPredecessorWasGiven(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, n int) (map[string]string, error) {
		i, err := perdure.InfoOf(ctx)
		if err != nil {
			return nil, err
		}
		err = errors.Join(
			perdure.SetAttribute(ctx, fmt.Sprint("run-", n), "yes"),
			perdure.SetAttribute(ctx, "given", ""),
			perdure.Publish(ctx, "shown", n), perdure.Sleep(ctx, 50*time.Minute))
		switch {
		case err != nil:
			return nil, err
		case n < 3:
			return nil, perdure.ContinueAsNew(ctx, n+1)
		case n == 3:
			i.Attributes["tenant"] = i.Headers["tenant"]
			return i.Attributes, nil
		}
		return nil, perdure.Sleep(ctx, time.Hour)
	}, perdure.Timeout(time.Hour))
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		given := []perdure.StartOption{
			perdure.ID("x"),
			perdure.Headers{"tenant": "a"},
			perdure.Attributes{"given": "1", "kept": "2"},
		}
		world.Start(w, wf, 0, given...)
		time.Sleep(time.Minute)
		w.Crash()
		run, err := wf.Get(ctx, w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		got, err := run.Result(ctx)
		if want := map[string]string{
			"kept":   "2",
			"run-0":  "yes",
			"run-1":  "yes",
			"run-2":  "yes",
			"tenant": "a",
		}; fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
			t.Errorf("%v %v", got, err)
		}
		heads := checkChain(w, "x", 4)
		d, err := w.Engine.Describe(ctx, "x")
		if err != nil || len(d.State.Published) != 1 || d.State.Attributes["run-0"] != "yes" {
			t.Errorf("%+v %v", d.State, err)
		}
		for attribute, n := range map[string]int{"run-0": 4, "run-3": 1, "kept": 4, "given": 0} {
			value := map[string]string{"kept": "2", "given": "1"}[attribute]
			if value == "" {
				value = "yes"
			}
			found, _, err := w.Engine.List(ctx,
				perdure.Query{Attributes: map[string]string{attribute: value}})
			if err != nil || len(found) != n || n > 0 && found[0].ID != heads[3].ID {
				t.Errorf("%s: %d runs, want %d, %v", attribute, len(found), n, err)
			}
		}
	}, wf)
}

// spec: R-25, L-18, L-19
func TestNobodyIsToldThatAChainEndsBeforeItDoes(t *testing.T) {
	var mu sync.Mutex
	var heard []perdure.Ended
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		if err := perdure.Sleep(ctx, time.Minute); err != nil || n == 3 {
			return n, err
		}
		return 1, perdure.ContinueAsNew(ctx, n+1)
	}, perdure.Listener{Call: func(_ context.Context, e perdure.Ended) error {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, e)
		return nil
	}})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		heard = nil
		run, out, err := world.Result(w, wf, 0, perdure.ID("x"))
		if out != 3 || err != nil {
			t.Fatal(out, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		heads := checkChain(w, "x", 4)
		mu.Lock()
		defer mu.Unlock()
		if len(heard) != 1 || heard[0].RunID != string(heads[3].ID) ||
			heard[0].Status != journal.Completed || string(heard[0].Output) != "3" {
			t.Errorf("listeners heard %+v", heard)
		}
		ends, continued := w.Seen(observe.RunEnded), w.Seen(observe.RunContinued)
		if len(ends) != 1 || ends[0].Run != string(heads[3].ID) || len(continued) != 3 {
			t.Errorf("%d ends and %d continuations are noticed", len(ends), len(continued))
		}
		for i, n := range continued {
			if n.Run != string(heads[i].ID) || n.Other != string(heads[i+1].ID) {
				t.Errorf("notice %d: %+v", i, n)
			}
		}
		list, err := w.Engine.Statuses(context.Background(), "x", string(heads[0].ID),
			run.RunID(), string(heads[3].ID))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []journal.Status{
			journal.Completed, journal.ContinuedAsNew, journal.ContinuedAsNew, journal.Completed,
		} {
			s := list[i]
			if s.Head.Status != want || !s.IsTerminal() ||
				s.IsSuccess() != (want == journal.Completed) || s.Err != nil ||
				(s.Output != nil) != s.IsSuccess() {
				t.Errorf("status %d: %+v", i, s)
			}
		}
	}, wf)
}

// spec
func TestChildrenOfThePredecessorGoOn(t *testing.T) {
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		return n, perdure.Sleep(ctx, time.Hour)
	})
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			child.Child(ctx, 1)
			child.Child(ctx, 2, perdure.ChildEnds)
			child.Child(ctx, 3, perdure.ChildDetached)
			return 0, perdure.ContinueAsNew(ctx, 1)
		}
		return child.Child(ctx, 4).Await(ctx)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		if _, out, err := world.Result(w, wf, 0, perdure.ID("x")); out != 4 || err != nil {
			t.Error(out, err)
		}
		checkChain(w, "x", 2)
		time.Sleep(time.Minute)
		all, _, err := w.Engine.List(context.Background(), perdure.Query{Workflow: "child"})
		if err != nil || len(all) != 4 {
			t.Fatal(len(all), err)
		}
		for i, want := range []journal.Status{
			journal.Completed, journal.Completed, journal.Cancelled, journal.Completed,
		} {
			if all[i].Status != want {
				t.Errorf("child %d is %v", 4-i, all[i].Status)
			}
		}
	}, wf, child)
}

// spec: R-25
func TestThousandContinuations(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		if n == 1000 {
			return n, nil
		}
		if n%100 == 0 {
			if err := perdure.Sleep(ctx, time.Second); err != nil {
				return 0, err
			}
		}
		return 0, perdure.ContinueAsNew(ctx, n+1)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, out, err := world.Result(w, wf, 0, perdure.ID("x"))
		if out != 1000 || err != nil {
			t.Error(out, err)
		}
		last, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil || last.RunID() == run.RunID() {
			t.Fatal(last, err)
		}
		if out, err := last.Result(context.Background()); out != 1000 || err != nil {
			t.Error(out, err)
		}
	}, wf)
}

// spec: R-25, L-10
func TestRunContinuesFromWhereverItsCodeSaysSo(t *testing.T) {
	var cleaned sync.Map
	const most = 8
	wf := perdure.Define("w", func(ctx context.Context, n int) (string, error) {
		if err := perdure.Finally(ctx, "always", func(context.Context) error {
			cleaned.Store(n, true)
			return nil
		}); err != nil {
			return "", err
		}
		steps := perdure.Async(ctx, "s", world.Work("s", time.Hour, nil))
		var end, after error
		switch n {
		case 0: // a branch does, while the function waits
			perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return 0, perdure.ContinueAsNew(ctx, n+1)
			})
			_, end = steps.Await(ctx)
		case 1: // it is swallowed
			end = perdure.ContinueAsNew(ctx, n+1)
		case 2: // a deferred function does
			defer func() { _ = perdure.ContinueAsNew(ctx, n+1) }()
			return "returned", nil
		case 3: // another end follows
			end, after = perdure.ContinueAsNew(ctx, n+1), perdure.Fail(ctx, world.ErrOdd)
			if !errors.Is(after, end) {
				return "", fmt.Errorf("%w is not %w", after, end)
			}
		case 4: // the input is of another type: the run goes on
			if err := perdure.ContinueAsNew(ctx,
				fmt.Sprint(n)); journal.CodeOf(err) != journal.CodeInvalid {
				return "", fmt.Errorf("it gives %w", err)
			}
			end = perdure.ContinueAsNew(ctx, n+1)
		case 5: // in a scope
			in, err := perdure.Scope(ctx, "in")
			if err != nil {
				return "", err
			}
			end = perdure.ContinueAsNew(in, n+1)
		case 6: // after another end
			if err := perdure.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			end = perdure.ContinueAsNew(ctx, most-1)
		default:
			return "last", nil
		}
		if _, err := perdure.Step(ctx, "after", world.Work("after", 0, nil)); end == nil ||
			err == nil ||
			err.Error() != end.Error() {
			panic(fmt.Sprint("a step after the end gives ", err))
		}
		return "swallowed", nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		cleaned.Clear()
		if _, out, err := world.Result(w, wf, 0, perdure.ID("x")); out != "last" || err != nil {
			t.Error(out, err)
		}
		for i, h := range checkChain(w, "x", most) {
			if _, done := cleaned.Load(i); done != (i == most-1) {
				t.Errorf("run %d has cleaned up: %v", i, done)
			}
			entries := w.History(string(h.ID))
			want := []string{"StepCancelled s", "RunContinued"}
			if i == 0 {
				want = slices.Insert(want, 1, "ScopeCancelled b")
			}
			if got := world.Tail(entries, len(want)); i < most-1 && !slices.Equal(got, want) {
				t.Errorf("run %d ends %v", i, got)
			}
		}
	}, wf)
}

// Signals, and then a cancel, that are sent while a run continues as new reach the chain, each once
// and in the order in which they were sent.
//
// spec, L-10
func TestWhatComesWhileARunContinuesIsNotLost(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, got []int) (int, error) {
		for len(got) < 1000 {
			n, err := item.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if got = append(got, n); len(got)%3 != 0 {
				continue
			}
			if err := perdure.SetPayload(ctx, got); err != nil {
				return 0, err
			}
			return 0, perdure.ContinueAsNew(ctx, got)
		}
		return 0, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		seed := uint64(time.Now().Nanosecond()) ^ rand.Uint64()
		t.Log("seed", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		ctx := context.Background()
		run, err := wf.Start(ctx, w.Engine, nil, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		const n = 90
		for i := range n {
			to := "x"
			if rng.IntN(4) == 0 {
				to = run.RunID()
			}
			if _, err := item.Send(ctx, w.Engine, to, i); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			}
		}
		var cancels sync.WaitGroup
		for range 3 {
			cancels.Go(func() {
				if err := w.Engine.Cancel(ctx, "x", "enough"); err != nil {
					t.Error(err)
				}
			})
		}
		cancels.Wait()
		_, err = run.Result(ctx)
		world.CodeIs(t, err, journal.CodeCancelled)
		heads := w.Chain("x")
		checkChain(w, "x", len(heads))
		next := 0
		for _, h := range heads {
			for _, e := range w.History(string(h.ID)) {
				if e.Kind == journal.SignalConsumed {
					if string(e.Data) != fmt.Sprint(next) {
						t.Errorf("signal %s is taken where %d was to be", e.Data, next)
					}
					next++
				}
			}
		}
		d, err := w.Engine.Describe(ctx, "x")
		if err != nil || next+len(d.Unread) != n || d.Head.Status != journal.Cancelled {
			t.Errorf("%d taken, %d unread, %v %v", next, len(d.Unread), d.Head.Status, err)
		}
	}, wf)
}

// A successor ends later than its predecessor, so that the workflow ID stands for the successor,
// also if the predecessor was started on a node whose clock is ahead.
//
// spec: R-25
func TestASuccessorIsNewerThanItsPredecessorWhateverTheClocksSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := perdure.Define("loop", func(ctx context.Context, n int) (int, error) {
			if n < 3 {
				return 0, perdure.ContinueAsNew(ctx, n+1)
			}
			return n, nil
		})
		h := &world.Hook{OnClaim: func(
			_ store.Claim, do func() (store.Claimed, error),
		) (store.Claimed, error) {
			claimed, err := do()
			for i := range claimed.Runs {
				claimed.Runs[i].Head.Created = claimed.Runs[i].Head.Created.Add(time.Hour)
			}
			return claimed, err
		}}
		w := world.Hooked(t, h, perdure.Options{}, loop)
		defer w.End()
		client, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loop.Start(t.Context(), client, 1, perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		heads := w.Chain("x")
		// numbers tell no order
		slices.SortFunc(heads, func(a, b journal.Head) int { return a.Created.Compare(b.Created) })
		if len(heads) != 3 || heads[2].Status != journal.Completed {
			t.Fatalf("there are %v", heads)
		}
		if s := w.Describe("x").Head.Status; s != journal.Completed {
			t.Errorf("the workflow ID stands for a run that is %v", s)
		}
		for i := 1; i < len(heads); i++ {
			if h := heads[i]; !h.Created.After(heads[i-1].Ended) {
				t.Errorf("%v begins at %v, and the one before it has ended at %v", h.ID, h.Created,
					heads[i-1].Ended)
			}
		}
	})
}
