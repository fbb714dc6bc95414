package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/memory"
)

// letters returns the open dead letters.
func letters(w *world.World, q admin.DeadLetterQuery) []deadletter.Letter {
	w.T.Helper()
	synctest.Wait()
	all, _, err := admin.New(w.Engine).DeadLetters(context.Background(), q)
	if err != nil {
		w.T.Fatal(err)
	}
	n, more, err := admin.New(w.Engine).CountDeadLetters(context.Background(), q)
	if err != nil || n != len(all) || more {
		w.T.Errorf("%d letters are counted (more: %t) and %d listed, %v", n, more, len(all), err)
	}
	return all
}

// letter returns the only letter that is open.
func letter(w *world.World) deadletter.Letter {
	w.T.Helper()
	all := letters(w, admin.DeadLetterQuery{})
	if len(all) != 1 {
		w.T.Fatalf("there are %d letters: %+v", len(all), all)
	}
	l, err := admin.New(w.Engine).DeadLetter(context.Background(), all[0].ID)
	if err != nil || fmt.Sprint(l) != fmt.Sprint(all[0]) {
		w.T.Errorf("it is listed as %+v and given as %+v, %v", all[0], l, err)
	}
	return l
}

// retryLetter retries a dead letter and waits for the run to end.
func retryLetter(w *world.World, id, text string) *perdure.Run[json.RawMessage] {
	w.T.Helper()
	run, err := admin.New(w.Engine).RetryDeadLetter(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	ends(w.T, run, text)
	return run
}

// spec: P-4, F-29
func TestADeadLetterIsKeptUntilItIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := world.New(t, order)
		defer w.End()
		old := world.Start(w, order, 7, perdure.ID("ord-1"))
		ends(t, old, "charge is broken")
		began := time.Now()
		want := deadletter.Letter{
			ID: "perdure.dead-letter:" + old.RunID() + ":charge", Workflow: "order",
			WorkflowID: "ord-1", RunID: old.RunID(),
			Step: "charge", Status: journal.Running, Error: "order: step charge: charge is broken",
			Type: "*fmt.wrapError", Input: []byte("7"), CreatedAt: began.UTC(),
		}
		if l := letter(w); fmt.Sprintf("%+v", l) != fmt.Sprintf("%+v", want) {
			t.Errorf("the letter is\n%+v\nwant\n%+v", l, want)
		}
		if told := w.Seen(observe.DeadLettered); len(told) != 1 || told[0].Step != "charge" ||
			told[0].Err != "order: step charge: charge is broken" ||
			told[0].Run != old.RunID() {
			t.Errorf("observers are told %+v", told)
		}
		time.Sleep(time.Minute)
		second := retryLetter(w, want.ID, "charge is broken") // at the same step
		want.RunID, want.Retries, want.RetriedAt = second.RunID(), 1, time.Now().UTC()
		if l := letter(w); fmt.Sprintf("%+v", l) != fmt.Sprintf("%+v", want) {
			t.Errorf("the letter is\n%+v\nwant\n%+v", l, want)
		}
		s.breaks("ship")
		time.Sleep(time.Minute)
		third := retryLetter(w, want.ID, "ship is broken") // at another one
		want.ID, want.RunID, want.Step, want.Error = strings.Replace(want.ID, ":charge", ":ship",
			1), third.RunID(), "ship", "order: step ship: ship is broken"
		want.Retries, want.RetriedAt, want.CreatedAt = 0, time.Time{}, time.Now().UTC()
		if l := letter(w); fmt.Sprintf("%+v", l) != fmt.Sprintf("%+v", want) {
			t.Errorf("the letter is\n%+v\nwant\n%+v", l, want)
		}
		s.breaks()
		retryLetter(w, want.ID, "")
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are left %+v", left)
		}
		if did := s.did(); !slices.Equal(did, []string{"reserve", "charge", "ship"}) {
			t.Errorf("it did %v", did)
		}
		_, err := admin.New(w.Engine).DeadLetter(t.Context(), want.ID)
		world.CodeIs(t, err, journal.CodeNotFound)
		_, err = admin.New(w.Engine).RetryDeadLetter(t.Context(), want.ID)
		world.CodeIs(t, err, journal.CodeNotFound)
		world.CodeIs(t, admin.New(w.Engine).DeleteDeadLetter(t.Context(), want.ID, admin.Note{}),
			journal.CodeNotFound)
		_, err = admin.New(w.Engine).DeadLetter(t.Context(), "no ID")
		world.CodeIs(t, err, journal.CodeInvalid)
	})
}

// A run that was retried by itself settles its dead letter, too; one that is cancelled or times out
// has not come past the step.
//
// spec: P-4
func TestALetterHearsHowTheRetriedRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		gate := perdure.NewSignal[int]("gate")
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if perdure.Version(ctx, "x", 1); s.broken["charge"] {
				return perdure.Step(ctx, "charge", func(context.Context) (int, error) {
					return 0, world.ErrOdd
				}, perdure.NoRetry)
			}
			return gate.Wait(ctx)
		}, deadletter.Automatic(true), perdure.Timeout(time.Hour))
		w := world.New(t, wf)
		defer func() { w.End() }()
		ends(t, world.Start(w, wf, 1, perdure.ID("w")), "odd")
		id := letter(w).ID
		s.breaks()
		second := retry(w, wf, "w")
		synctest.Wait()
		if l := letter(w); l.Retries != 1 || l.RunID == second.RunID() {
			t.Errorf("the letter is %+v", l)
		}
		if err := w.Engine.Cancel(t.Context(), "w", "enough"); err != nil {
			t.Fatal(err)
		}
		if l := letter(w); l.ID != id || l.Status != journal.Cancelled ||
			l.RunID != second.RunID() ||
			l.Code != journal.CodeCancelled {
			t.Errorf("the letter is %+v", l)
		}
		third := retryLetter(w, id, "timed out")
		if l := letter(w); l.ID != id || l.Status != journal.TimedOut || l.RunID != third.RunID() ||
			l.Retries != 2 {
			t.Errorf("the letter is %+v", l)
		}
		fourth := retry(w, wf, "w")
		synctest.Wait()
		w.Crash()
		if _, err := gate.Send(t.Context(), w.Engine, "w", 5); err != nil {
			t.Fatal(err)
		}
		fourth, _ = wf.Get(t.Context(), w.Engine, fourth.RunID())
		ends(t, fourth, "")
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are left %+v", left)
		}
	})
}

// A run that continues as new has come past the step.
//
// spec: P-4, R-25
func TestALetterIsSettledByARunThatContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
			if n > 0 {
				return n, perdure.Sleep(ctx, time.Hour)
			}
			if _, err := perdure.Step(ctx, "a", func(context.Context) (int, error) {
				if broken {
					return 0, world.ErrOdd
				}
				return 1, nil
			}, perdure.NoRetry); err != nil {
				return 0, err
			}
			return 0, perdure.ContinueAsNew(ctx, n+1)
		}, deadletter.Automatic(true))
		w := world.New(t, wf)
		defer w.End()
		ends(t, world.Start(w, wf, 0, perdure.ID("w")), "odd")
		broken = false
		if _, err := admin.New(w.Engine).RetryDeadLetter(t.Context(), letter(w).ID); err != nil {
			t.Fatal(err)
		}
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are left %+v", left)
		}
	})
}

// spec: P-4
func TestLettersAreListedCountedAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		other := perdure.Define("other", func(context.Context, int) (int, error) {
			return 0, world.ErrOdd
		}, deadletter.Automatic(true))
		w := world.New(t, order, other)
		defer w.End()
		for i := range 5 {
			ends(t, world.Start(w, order, i, perdure.ID(fmt.Sprint("ord-", i))), "broken")
		}
		ends(t, world.Start(w, other, 0, perdure.ID("other-1")), "odd")
		count := func(q admin.DeadLetterQuery, want int) {
			t.Helper()
			if n := len(letters(w, q)); n != want {
				t.Errorf("of %+v there are %d, want %d", q, n, want)
			}
		}
		count(admin.DeadLetterQuery{}, 6)
		count(admin.DeadLetterQuery{Workflow: "order"}, 5)
		count(admin.DeadLetterQuery{WorkflowID: "ord-3"}, 1)
		count(admin.DeadLetterQuery{Workflow: "other", WorkflowID: "ord-3"}, 0)
		var ids []string
		q := admin.DeadLetterQuery{Limit: 4}
		for more := true; more; more = !q.After.IsZero() {
			page, next, err := admin.New(w.Engine).DeadLetters(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page {
				ids = append(ids, l.WorkflowID)
			}
			q.After = next
		}
		if want := []string{
			"other-1", "ord-4", "ord-3", "ord-2", "ord-1", "ord-0",
		}; !slices.Equal(ids, want) {
			t.Errorf("they are %v, want %v", ids, want)
		}
		l := letters(w, admin.DeadLetterQuery{WorkflowID: "other-1"})[0]
		if l.Step != "" || l.Error != "odd" {
			t.Errorf("a run that failed without a step has the letter %+v", l)
		}
		if err := admin.New(w.Engine).DeleteDeadLetter(t.Context(), l.ID,
			admin.Note{}); err != nil {
			t.Fatal(err)
		}
		count(admin.DeadLetterQuery{}, 5)
		ends(t, retry(w, other, "other-1"), "odd")
		// it has failed again, and nobody has that letter any more
		count(admin.DeadLetterQuery{Workflow: "other"}, 1)
		runs, _, err := w.Engine.List(t.Context(), perdure.Query{})
		if err != nil || len(runs) != 7 || slices.ContainsFunc(runs, func(h journal.Head) bool {
			return strings.HasPrefix(h.Workflow, "perdure.")
		}) {
			t.Errorf("of all runs are listed %v, %v", runs, err)
		}
		if runs, _, err = w.Engine.List(t.Context(),
			perdure.Query{Workflow: "perdure.dead-letter"}); err != nil || len(runs) != 7 {
			t.Errorf("by the name of its workflow there are %d, %v", len(runs), err)
		}
	})
}

// Runs that no engine has executed yet are read all the same.
//
// spec: P-4
func TestLettersWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := world.New(t, order)
		for i := range 2 {
			ends(t, world.Start(w, order, 1, perdure.ID(fmt.Sprint("ord-", i))), "broken")
		}
		all := letters(w, admin.DeadLetterQuery{})
		w.Kill()
		c, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := admin.New(c).RetryDeadLetter(t.Context(), all[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := admin.New(c).DeleteDeadLetter(t.Context(), all[1].ID, admin.Note{}); err != nil {
			t.Fatal(err)
		}
		left, _, err := admin.New(c).DeadLetters(t.Context(), admin.DeadLetterQuery{})
		if err != nil || len(left) != 1 || left[0].Retries != 1 ||
			!left[0].RetriedAt.Equal(time.Now()) {
			t.Errorf("there are left %+v, %v", left, err)
		}
		world.CodeIs(t, admin.New(c).DeleteDeadLetter(t.Context(), all[1].ID, admin.Note{}),
			journal.CodeNotFound)
		s.breaks()
		w.Begin()
		defer w.End()
		synctest.Wait()
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are left %+v", left)
		}
	})
}

// However often and by whomever a dead letter is retried at once, there is one run, and the dead
// letter has counted one retry.
//
// spec: P-4
func TestALetterIsRetriedOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lasts := time.Duration(0)
		order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "charge", world.Work("charge", lasts, world.ErrOdd),
				perdure.NoRetry)
		}, deadletter.Automatic(true))
		w := world.New(t, order)
		defer w.End()
		ends(t, world.Start(w, order, 1, perdure.ID("ord-1")), "odd")
		lasts = time.Minute
		id := letter(w).ID
		c, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				client := w.Engine.Client
				if i%2 == 0 {
					client = c
				}
				if _, err := admin.New(client).RetryDeadLetter(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Hour) // the engine sees what a client has made at its next sweep
		l := letter(w)
		if runs := w.Chain("ord-1"); len(runs) != 2 || l.Retries != 1 ||
			l.RunID != string(runs[1].ID) {
			t.Errorf("there are %d runs, and the letter is %+v", len(runs), l)
		}
	})
}

// The process dies after every commit, while a dead letter is written, retried, fails again, is
// retried and settled: it is never lost, never twice, and has counted each retry.
//
// spec: P-4, L-15
func TestDeadLettersOverCrashes(t *testing.T) {
	var s *hands
	order := perdure.Define("order", func(ctx context.Context, _ int) (string, error) {
		for _, name := range []string{"reserve", "charge"} {
			if _, err := perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
				return s.step(name)(ctx)
			}, perdure.NoRetry); err != nil {
				return "", err
			}
		}
		return "done", nil
	}, deadletter.Automatic(true))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		s = newHands("charge")
		var seen []string
		run := perduretest.Start(env, order, 1, perdure.ID("ord-1"))
		_, err := run.Result()
		seen = append(seen, fmt.Sprint(err))
		for round, broken := range []bool{true, false} {
			if !broken {
				s.breaks()
			}
			env.Sleep(time.Minute)
			var again *perdure.Run[json.RawMessage]
			id := "perdure.dead-letter:" + run.RunID() + ":charge"
			tries := 0
			err := env.Do(func(eng *perdure.Engine) (err error) {
				a := admin.New(eng)
				if tries++; tries > 1 { // it may have been retried, and be settled or back again
					ls, _, err := a.DeadLetters(context.Background(), admin.DeadLetterQuery{})
					if err == nil && (len(ls) == 0 || ls[0].Retries > round) {
						again, err = eng.Get(context.Background(), "ord-1")
						return err
					}
				}
				again, err = a.RetryDeadLetter(context.Background(), id)
				return err
			})
			if err != nil {
				env.Fatal(err)
			}
			_, err = perduretest.Get(env, order, again.RunID()).Result()
			env.Settle()
			seen = append(seen, fmt.Sprint(err))
			err = env.Do(func(eng *perdure.Engine) error {
				ls, _, err := admin.New(eng).DeadLetters(context.Background(),
					admin.DeadLetterQuery{})
				for _, l := range ls {
					seen = append(seen, fmt.Sprint(l.Step, l.Retries, l.Error, l.Status,
						l.RunID == again.RunID()))
				}
				runs, _, err2 := eng.List(context.Background(), perdure.Query{})
				seen = append(seen, fmt.Sprint(len(runs)))
				return errors.Join(err, err2)
			})
			if err != nil {
				env.Fatal(err)
			}
		}
		return seen
	}, order)
}

// spec: P-3, P-4
func TestARunWithADeadLetterIsKept(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		keep time.Duration
		days int // that it is there for
	}{"30 days": {0, 30}, "as said": {10 * day, 10}, "not at all": {-1, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				order, bare := s.order(deadletter.Automatic(true),
					perdure.Retention{Period: time.Hour}),
					perdure.Define("bare", func(context.Context, int) (int,
						error) {
						return 0, world.ErrOdd
					}, perdure.Retention{Period: time.Hour})
				w := &world.World{
					T:         t,
					DB:        memory.New(),
					Workflows: []perdure.Definition{order, bare},
				}
				w.Options.Build, w.Options.KeepDeadLettered = "test", c.keep
				w.Begin()
				defer w.End()
				old := world.Start(w, order, 1, perdure.ID("ord-1"), perdure.Dedup(0))
				ends(t, old, "broken")
				ends(t, world.Start(w, bare, 1, perdure.ID("bare"), perdure.Dedup(0)), "odd")
				id := letter(w).ID
				time.Sleep(2 * time.Hour)
				if c.days > 0 {
					time.Sleep(time.Duration(c.days)*day - 4*time.Hour)
					if _, err := w.Engine.Get(t.Context(), old.RunID()); err != nil {
						t.Errorf("after %d days less two hours: %v", c.days, err)
					}
					time.Sleep(5 * time.Hour)
				}
				_, err := w.Engine.Get(t.Context(), "bare")
				world.CodeIs(t, err, journal.CodeNotFound)
				if l := letter(w); l.ID != id { // which stays
					t.Errorf("the letter is %+v", l)
				}
				_, err = admin.New(w.Engine).RetryDeadLetter(t.Context(), id)
				world.CodeIs(t, err, journal.CodeNotFound)
				if err == nil || !strings.Contains(err.Error(), "run "+old.RunID()+
					" of workflow ID ord-1 was removed") {
					t.Errorf("it says %v", err)
				}
			})
		})
	}
}

// A run that was retried and cancelled is kept for its dead letter, too, and one that came past the
// step no longer than others.
//
// spec: P-3
func TestARetriedRunIsKeptForItsLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := world.New(t, order)
		defer func() { w.End() }()
		old := world.Start(w, order, 1, perdure.ID("ord-1"), perdure.Dedup(0))
		ends(t, old, "broken")
		w.Crash()
		if keep := w.Describe(old.RunID()).Head.Keep; keep != 30*24*time.Hour {
			t.Errorf("the failed run is kept for %v", keep)
		}
	})
}

// spec: P-4, P-15
func TestSomebodyElseTakesLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{order}}
		var taken []deadletter.Letter
		tries := 0
		w.Options.Build = "test"
		w.Options.DeadLetters = func(_ context.Context, l deadletter.Letter) error {
			if tries++; tries < 20 {
				return world.ErrOdd
			}
			taken = append(taken, l)
			return nil
		}
		w.Begin()
		defer func() { w.End() }()
		old := world.Start(w, order, 1, perdure.ID("ord-1"))
		ends(t, old, "broken")
		time.Sleep(time.Minute)
		w.Crash()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(taken) != 1 || taken[0].Step != "charge" || taken[0].RunID != old.RunID() ||
			taken[0].ID == "" || taken[0].CreatedAt.IsZero() {
			t.Errorf("taken are %+v", taken)
		}
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("in the queue are %+v", left)
		}
		s.breaks()
		ends(t, retry(w, order, "ord-1"), "")
	})
}

// spec: P-4
func TestDeadLetterFromCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", journal.MaxName)
		bad := map[string]error{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			bad["name"] = deadletter.Add(ctx, "no name", world.ErrOdd)
			bad["error"] = deadletter.Add(ctx, "charge", nil)
			_, bad["step"] = perdure.Step(ctx, "inner", func(ctx context.Context) (int, error) {
				return 0, deadletter.Add(ctx, "charge", world.ErrOdd)
			}, perdure.NoRetry)
			scope, err := perdure.Scope(ctx, "part")
			if err != nil {
				return 0, err
			}
			for _, c := range []context.Context{ctx, scope} {
				err = errors.Join(err, deadletter.Add(c, "charge", world.ErrOdd),
					deadletter.Add(c, "charge", world.ErrOdd, perdure.Key("k")))
			}
			err = errors.Join(err, deadletter.Add(ctx, long, world.ErrOdd),
				deadletter.Add(ctx, "charge", errors.New("again")))
			if err != nil {
				return 0, err
			}
			return 0, perdure.Fail(ctx, world.ErrOdd)
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		run := world.Start(w, wf, 1, perdure.ID("w"))
		ends(t, run, "odd")
		world.CodeIs(t, bad["name"], journal.CodeInvalid)
		world.CodeIs(t, bad["error"], journal.CodeInvalid)
		world.CodeIs(t, bad["step"], journal.CodeMisuse)
		all := letters(w, admin.DeadLetterQuery{})
		var steps []string
		for _, l := range all {
			steps = append(steps, l.Step)
			if !journal.ValidName(l.ID) || l.Step == "charge" && strings.HasSuffix(l.ID,
				":charge") && l.Error != "again" {
				t.Errorf("a letter is %+v", l)
			}
		}
		slices.Sort(steps)
		if want := []string{
			"charge", "charge[k]", "part/charge", "part/charge[k]", long,
		}; !slices.Equal(steps, want) {
			t.Errorf("the letters are about %v", steps)
		}
		w.History(run.RunID())
		if told := w.Seen(observe.DeadLettered); len(told) != 6 {
			t.Errorf("observers are told %d times", len(told))
		}
	})
}

// A dead letter is for runs that FAIL, in whatever way, and for no others.
//
// spec: P-4
func TestWhichRunsWriteLetters(t *testing.T) {
	failing := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
				return 0, fmt.Errorf("%s failed", name)
			}, perdure.NoRetry)
			return err
		}
	}
	a, b := failing("a"), failing("b")
	for name, c := range map[string]struct {
		code func(context.Context) error
		step string // "-" for no letter
	}{
		"a step failed": {func(ctx context.Context) error { return a(ctx) }, "a"},
		"the step whose error it is": {func(ctx context.Context) error {
			err := a(ctx)
			b(ctx)
			return err
		}, "a"},
		"the last one": {func(ctx context.Context) error {
			a(ctx)
			b(ctx)
			return world.ErrOdd
		}, "b"},
		"none":        {func(context.Context) error { return world.ErrOdd }, ""},
		"from inside": {func(ctx context.Context) error { return perdure.Fail(ctx, a(ctx)) }, "a"},
		"it is parked": {func(ctx context.Context) error {
			return perdure.Parking(world.ErrOdd)
		}, "-"},
		"it is replayed": {func(ctx context.Context) error {
			return perdure.RetryAfter(0, world.ErrOdd)
		}, "-"},
		"it cancels itself": {
			func(ctx context.Context) error { a(ctx); return perdure.Cancel(ctx, "enough") },
			"-",
		},
		"it returns a value": {
			func(ctx context.Context) error { a(ctx); return nil },
			"-",
		},
		"it returns what is no failure": {
			func(ctx context.Context) error { return pattern.End(ctx, journal.Confirmed, 1, nil) },
			"-",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return 0, c.code(ctx)
				}, deadletter.Automatic(true))
				plain := perdure.Define("plain", func(ctx context.Context, _ int) (int, error) {
					return 0, c.code(ctx)
				})
				w := world.New(t, wf, plain)
				defer w.End()
				world.Start(w, wf, 1)
				world.Start(w, plain, 1)
				time.Sleep(time.Second / 2)
				all := letters(w, admin.DeadLetterQuery{})
				switch {
				case c.step == "-" && len(all) == 0:
				case len(all) != 1 || all[0].Step != c.step || all[0].Workflow != "w":
					t.Errorf("the letters are %+v", all)
				}
			})
		})
	}
}

// A dead letter that would be too large has no input.
//
// spec: P-4
func TestALetterWithoutItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(context.Context, []byte) (int, error) {
			return 0, world.ErrOdd
		}, deadletter.Automatic(true))
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options.Build, w.Options.MaxPayload = "test", 1000
		w.Begin()
		defer w.End()
		ends(t, world.Start(w, wf, []byte("\xff no JSON")), "odd")
		if l := letter(w); string(l.Input) != `"/yBubyBKU09O"` {
			t.Errorf("its input is %s", l.Input)
		}
		if err := admin.New(w.Engine).DeleteDeadLetter(t.Context(), letter(w).ID,
			admin.Note{}); err != nil {
			t.Fatal(err)
		}
		ends(t, world.Start(w, wf, bytes.Repeat([]byte("x"), 999)), "odd")
		if l := letter(w); l.Input != nil || l.Error != "odd" {
			t.Errorf("the letter is %+v", l)
		}
	})
}

// The engine's own workflows cannot be registered by anybody else.
//
// spec: P-4
func TestOwnWorkflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := world.New(t, order)
		defer w.End()
		own := perdure.Define("perdure.dead-letter", func(context.Context, int) (int, error) {
			return 0, nil
		})
		world.CodeIs(t, w.Engine.Register(own), journal.CodeInvalid)
		_, err := w.Engine.Start(t.Context(), "perdure.dead-letter", nil)
		world.CodeIs(t, err, journal.CodeInvalid)
		if known := w.Engine.Workflows(); len(known) != 1 {
			t.Errorf("known are %+v", known)
		}
		var told []string
		stop, err := w.Engine.Listen(perdure.Listener{Call: func(
			_ context.Context, e perdure.Ended,
		) error {
			told = append(told, e.Workflow)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		ends(t, world.Start(w, order, 1), "broken")
		if err := admin.New(w.Engine).DeleteDeadLetter(t.Context(), letter(w).ID,
			admin.Note{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Equal(told, []string{"order"}) {
			t.Errorf("listeners are told of %v", told)
		}
	})
}
