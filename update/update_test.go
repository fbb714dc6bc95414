package update_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/update"
)

// A bid is sent to an auction, which replies with its place.
type bid struct{ Cents int }

type place struct {
	Best  bool
	Count int
}

var (
	errLow    = errors.New("the bid is too low")
	errNoSale = errors.New("nothing is for sale")
)

func init() {
	for name, err := range map[string]error{"test.low": errLow, "test.no-sale": errNoSale} {
		if e := perdure.RegisterError(name, err); e != nil {
			panic(e)
		}
	}
}

var raise = update.New[bid, place]("raise", func(b bid) error {
	switch {
	case b.Cents == 13:
		panic("13")
	case b.Cents <= 0:
		return errLow
	}
	return nil
})

// unchecked is raise of a sender without the validator.
var unchecked = update.New[bid, place]("raise", nil)

var goOn = perdure.NewSignal[int]("go")

// auction replies to n bids. It refuses a bid of 99.
var auction = perdure.Define("auction", func(ctx context.Context, n int) (int, error) {
	best := 0
	for i := range n {
		ask, err := raise.Wait(ctx)
		if err != nil {
			return 0, err
		}
		if ask.Value.Cents == 99 {
			err = ask.Refuse(ctx, fmt.Errorf("bid %d: %w", i, errNoSale))
		} else {
			p := place{Best: ask.Value.Cents > best, Count: i + 1}
			best = max(best, ask.Value.Cents)
			err = ask.Reply(ctx, p)
		}
		if err != nil {
			return 0, err
		}
	}
	return best, nil
})

func inTime(t *testing.T, test func(t *testing.T, w *world.World), wfs ...perdure.Definition) {
	t.Helper()
	for name, idle := range world.IdleTimeouts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.With(t, perdure.Options{IdleTimeout: idle}, wfs...)
				test(t, w)
				w.End()
			})
		})
	}
}

// within returns a context that ends after a minute.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// spec: B-21
func TestASenderGetsTheReplyOfTheRun(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, auction, 3, perdure.ID("a"))
		began := time.Now()
		for _, c := range []struct {
			id    string
			cents int
			want  place
			err   error
		}{
			{"a", 5, place{true, 1}, nil},
			{run.RunID(), 4, place{false, 2}, nil},
			{"a", 99, place{}, errNoSale},
		} {
			got, err := raise.Send(within(t), w.Engine, c.id, bid{c.cents})
			if !errors.Is(err, c.err) {
				t.Fatalf("%d: %v", c.cents, err)
			}
			same(t, "reply", got, c.want)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a reply in this process took %v", took)
		}
		out, err := run.Result(t.Context())
		same(t, "result", fmt.Sprint(out, err), "5 <nil>")
	}, auction)
}

// spec: B-21
func TestAValidatorRefusesBeforeAnythingIsRecorded(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, auction, 1, perdure.ID("a"))
		before, entries := w.Describe("a"), len(w.History("a"))
		_, err := raise.Send(within(t), w.Engine, "a", bid{-1})
		if !errors.Is(err, errLow) {
			t.Errorf("%v", err)
		}
		_, err = raise.Send(within(t), w.Engine, "a", bid{13})
		world.CodeIs(t, err, journal.CodePanic)
		_, _, err = update.SendWithStart(within(t), w.Engine, raise, bid{0}, auction, 1,
			perdure.ID("b"))
		if !errors.Is(err, errLow) {
			t.Errorf("%v", err)
		}
		after := w.Describe("a")
		same(t, "mail", after.Head.Mail, before.Head.Mail)
		same(t, "entries", len(w.History("a")), entries)
		if all := w.Count(); len(all) != 1 {
			t.Errorf("%v", all)
		}
	}, auction)
}

// The validator also refuses what another sender has let through, and the wait goes on.
//
// spec: B-21
func TestAnInvalidMessageIsRefusedWhereItIsTaken(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, auction, 1, perdure.ID("a"))
		_, err := unchecked.Send(within(t), w.Engine, "a", bid{-1}, perdure.SendKey("k"))
		if !errors.Is(err, errLow) {
			t.Errorf("%v", err)
		}
		_, err = unchecked.Send(within(t), w.Engine, "a", bid{13})
		world.CodeIs(t, err, journal.CodePanic)
		odd := update.New[string, place]("raise", nil)
		_, err = odd.Send(within(t), w.Engine, "a", "five")
		world.CodeIs(t, err, journal.CodeInvalid)
		_, err = w.Engine.Send(t.Context(), "a", "raise", []byte(`{"Cents":-3}`)) // nobody waits
		world.NoError(t, err)
		got, err := raise.Send(within(t), w.Engine, "a", bid{7})
		world.NoError(t, err)
		same(t, "reply", got, place{true, 1})
		out, err := run.Result(t.Context())
		same(t, "result", fmt.Sprint(out, err), "7 <nil>")
	}, auction)
}

// Another build may have another validator: the verdicts are recorded.
//
// spec: B-21
func TestAVerdictIsTheSameUnderAnotherBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := func(valid func(bid) error) *perdure.Workflow[int, int] {
			u := update.New[bid, place]("raise", valid)
			return perdure.Define("w", func(ctx context.Context, n int) (sum int, e error) {
				for range n {
					ask, err := u.Wait(ctx)
					if err != nil {
						return 0, err
					}
					sum += ask.Value.Cents
					if err := ask.Reply(ctx, place{Count: sum}); err != nil {
						return 0, err
					}
				}
				return sum, nil
			})
		}
		odd := func(b bid) error {
			if b.Cents%2 == 0 {
				return errLow
			}
			return nil
		}
		first := version(odd)
		w := world.New(t, first)
		world.StartAndSettle(w, first, 3, perdure.ID("a"))
		send := func(cents int) error {
			_, err := unchecked.Send(within(t), w.Engine, "a", bid{cents})
			return err
		}
		if err := send(2); !errors.Is(err, errLow) {
			t.Errorf("%v", err)
		}
		world.NoError(t, send(1))
		even := version(func(b bid) error { return odd(bid{b.Cents + 1}) })
		w.Deploy("next", even)
		if err := send(3); !errors.Is(err, errLow) {
			t.Errorf("%v", err)
		}
		world.NoError(t, send(4))
		world.NoError(t, send(6))
		got, err := world.OutcomeOf(w, even, "a")
		same(t, "sum", fmt.Sprint(got, err), "11 <nil>")
		w.End()
	})
}

// spec: B-21
func TestTheSameKeyHasTheSameReply(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		send := func(key string, cents int) string {
			got, err := raise.Send(within(t), w.Engine, "a", bid{cents}, perdure.SendKey(key))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(got)
		}
		run := world.StartAndSettle(w, auction, 3, perdure.ID("a"))
		same(t, "first", send("k1", 5), "{true 1}")
		same(t, "again", send("k1", 50), "{true 1}")
		w.Crash()
		same(t, "after a crash", send("k1", 50), "{true 1}")
		same(t, "refused", send("k2", 99), "bid 1: nothing is for sale")
		same(t, "again", send("k2", 7), "bid 1: nothing is for sale")
		same(t, "another", send("k3", 8), "{true 3}")
		synctest.Wait()
		same(t, "status", w.Status("a"), journal.Completed)
		same(t, "of the ended", send("k1", 50), "{true 1}")
		if got := send("k4", 1); !strings.Contains(got, "no open run has this ID") {
			t.Error(got)
		}
		// a key of another update, or of a signal, is another key
		other := update.New[bid, place]("other", nil)
		_, err := other.Send(within(t), w.Engine, "a", bid{1}, perdure.SendKey("k1"))
		world.CodeIs(t, err, journal.CodeNotFound)
		_ = run
	}, auction)
}

// spec: B-21
func TestManySendersOfOneKeyGetOneReply(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, auction, 2, perdure.ID("a"))
		got := make(chan place, 20)
		for range cap(got) {
			go func() {
				p, err := raise.Send(within(t), w.Engine, "a", bid{5}, perdure.SendKey("k"))
				world.NoError(t, err)
				got <- p
			}()
		}
		for range cap(got) {
			same(t, "reply", <-got, place{true, 1})
		}
		_, err := raise.Send(within(t), w.Engine, run.RunID(), bid{6})
		world.NoError(t, err)
		out, err := run.Result(t.Context())
		same(t, "result", fmt.Sprint(out, err), "6 <nil>")
	}, auction)
}

// spec: B-21
func TestAnUpdateStartsTheRunInOneAct(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		send := func(cents int, opts ...perdure.StartOption) (place, perdure.Delivery) {
			t.Helper()
			p, d, err := update.SendWithStart(within(t), w.Engine, raise, bid{cents}, auction, 2,
				append(opts, perdure.ID("a"))...)
			world.NoError(t, err)
			return p, d
		}
		p, d := send(5, perdure.SendKey("k"))
		same(t, "reply", p, place{true, 1})
		same(t, "new", d.New, true)
		p, again := send(9, perdure.SendKey("k"))
		same(t, "reply", p, place{true, 1})
		same(t, "run", again.RunID+fmt.Sprint(again.New), d.RunID+"false")
		p, second := send(4)
		same(t, "reply", p, place{false, 2})
		same(t, "run", second.RunID+fmt.Sprint(second.New), d.RunID+"false")
		synctest.Wait()
		same(t, "status", w.Status("a"), journal.Completed)
		p, next := send(1)
		same(t, "reply", p, place{true, 1})
		if !next.New || next.RunID == d.RunID {
			t.Errorf("%+v", next)
		}
		if all := w.Count(); all[journal.Completed] != 1 || len(all) != 2 {
			t.Errorf("%v", all)
		}
	}, auction)
}

// chain takes a bid only in its last run.
var chain = perdure.Define("chain", func(ctx context.Context, left int) (int, error) {
	if left > 0 {
		if _, err := goOn.Wait(ctx); err != nil {
			return 0, err
		}
		return 0, perdure.ContinueAsNew(ctx, left-1)
	}
	ask, err := raise.Wait(ctx)
	if err != nil {
		return 0, err
	}
	if err := ask.Reply(ctx, place{Count: 1}); err != nil {
		return 0, err
	}
	return goOn.Wait(ctx)
})

// spec: B-21, R-25
func TestAReplyIsFoundOverAChainOfRuns(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		first := world.StartAndSettle(w, chain, 3, perdure.ID("a"))
		got := make(chan error, 2)
		send := func(id string) {
			p, err := raise.Send(within(t), w.Engine, id, bid{5}, perdure.SendKey("k"))
			if err == nil && p.Count != 1 {
				err = fmt.Errorf("%+v", p)
			}
			got <- err
		}
		go send("a")
		synctest.Wait()
		for range 2 {
			_, err := goOn.Send(t.Context(), w.Engine, "a", 1)
			world.NoError(t, err)
			synctest.Wait()
		}
		go send(first.RunID()) // a duplicate
		synctest.Wait()
		_, err := goOn.Send(t.Context(), w.Engine, "a", 1)
		world.NoError(t, err)
		world.NoError(t, <-got)
		world.NoError(t, <-got)
		_, err = goOn.Send(t.Context(), w.Engine, "a", 1)
		world.NoError(t, err)
		synctest.Wait()
		same(t, "runs", len(w.Chain("a")), 4)
		go send("a") // of a run that has ended
		world.NoError(t, <-got)
	}, chain)
}

// A reply of an earlier run of the chain is found, too.
//
// spec: B-21, R-25
func TestAKeyIsKnownToTheWholeChain(t *testing.T) {
	loop := perdure.Define("loop", func(ctx context.Context, n int) (int, error) {
		ask, err := raise.Wait(ctx)
		if err != nil {
			return 0, err
		}
		if err := ask.Reply(ctx, place{Count: n}); err != nil {
			return 0, err
		}
		return 0, perdure.ContinueAsNew(ctx, n+1)
	})
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, loop, 1, perdure.ID("a"))
		send := func(key string) int {
			p, err := raise.Send(within(t), w.Engine, "a", bid{5}, perdure.SendKey(key))
			world.NoError(t, err)
			return p.Count
		}
		for i := range 4 {
			same(t, "count", send(fmt.Sprint("k", i)), i+1)
		}
		for i := range 4 {
			same(t, "count again", send(fmt.Sprint("k", i)), i+1)
		}
	}, loop)
}

// spec: B-21
func TestARunThatEndsWithoutAReplyIsAConflict(t *testing.T) {
	deaf := perdure.Define("deaf", func(ctx context.Context, again bool) (int, error) {
		if again { // takes it and goes on as another run
			if _, err := raise.Wait(ctx); err != nil {
				return 0, err
			}
			return 0, perdure.ContinueAsNew(ctx, false)
		}
		return goOn.Wait(ctx)
	})
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, deaf, false, perdure.ID("a"))
		errs := make(chan error, 1)
		send := func(id, key string) {
			_, err := raise.Send(within(t), w.Engine, id, bid{5}, perdure.SendKey(key))
			errs <- err
		}
		go send("a", "k1")
		synctest.Wait()
		world.NoError(t, w.Engine.Cancel(t.Context(), "a", "over"))
		err := <-errs
		world.CodeIs(t, err, journal.CodeConflict)
		if !strings.Contains(err.Error(), "has ended as CANCELLED without a reply") {
			t.Error(err)
		}
		go send("a", "k1")
		world.CodeIs(t, <-errs, journal.CodeConflict)
		go send("a", "k2")
		world.CodeIs(t, <-errs, journal.CodeNotFound)

		run := world.StartAndSettle(w, deaf, true, perdure.ID("b"))
		go send("b", "k1")
		err = <-errs
		world.CodeIs(t, err, journal.CodeConflict)
		if !strings.Contains(err.Error(), run.RunID()+" has continued as new without a reply") {
			t.Error(err)
		}
		go send("b", "k1")
		world.CodeIs(t, <-errs, journal.CodeConflict)
		_, err = goOn.Send(t.Context(), w.Engine, "b", 1)
		world.NoError(t, err)
		synctest.Wait()
	}, deaf)
}

// The second sender comes when the run has taken the message.
//
// spec: B-21, R-25
func TestEverySenderHearsThatThereIsNoReply(t *testing.T) {
	deaf := perdure.Define("deaf", func(ctx context.Context, again bool) (int, error) {
		if again {
			if _, err := raise.Wait(ctx); err != nil {
				return 0, err
			}
		}
		if n, err := goOn.Wait(ctx); err != nil || !again {
			return n, err
		}
		return 0, perdure.ContinueAsNew(ctx, false)
	})
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, deaf, true, perdure.ID("a"))
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				_, err := raise.Send(within(t), w.Engine, "a", bid{5}, perdure.SendKey("k"))
				errs <- err
			}()
			synctest.Wait()
		}
		_, err := goOn.Send(t.Context(), w.Engine, "a", 1)
		world.NoError(t, err)
		for range cap(errs) {
			world.CodeIs(t, <-errs, journal.CodeConflict)
		}
		_, err = goOn.Send(t.Context(), w.Engine, "a", 1)
		world.NoError(t, err)
		synctest.Wait()
	}, deaf)
}

// spec: B-21
func TestWithoutAnOpenRunNothingIsKept(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		_, err := raise.Send(within(t), w.Engine, "nobody", bid{5})
		world.CodeIs(t, err, journal.CodeNotFound)
		all, err := w.Engine.Unrouted(t.Context(), 0, 10)
		if err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
	}, auction)
}

// When the context ends the outcome is unknown, and the key that the error has learns it.
//
// spec: B-21
func TestASenderThatDoesNotWaitLearnsTheReplyByTheKey(t *testing.T) {
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, auction, 1, perdure.ID("a"))
		world.NoError(t, w.Engine.Suspend(t.Context(), "a", "lunch"))
		_, err := raise.Send(within(t), w.Engine, "a", bid{5})
		world.CodeIs(t, err, journal.CodeTimedOut)
		e := new(perdure.Error)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(e.Hint, `with the key "`)
		key, _, _ := strings.Cut(rest, `"`)
		world.NoError(t, w.Engine.Resume(t.Context(), "a"))
		synctest.Wait()
		got, err := raise.Send(within(t), w.Engine, "a", bid{6}, perdure.SendKey(key))
		world.NoError(t, err)
		same(t, "reply", got, place{true, 1})

		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = raise.Send(over, w.Engine, "a", bid{5})
		if err == nil {
			t.Error("a context that is over")
		}
	}, auction)
}

// spec: B-21
func TestAnEngineThatStopsEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := perdure.Define("deaf", func(ctx context.Context, _ int) (int, error) {
			return goOn.Wait(ctx)
		})
		w := world.New(t, deaf)
		world.StartAndSettle(w, deaf, 0, perdure.ID("a"))
		errs := make(chan error, 1)
		go func() {
			_, err := raise.Send(context.Background(), w.Engine, "a", bid{5})
			errs <- err
		}()
		synctest.Wait()
		w.End()
		world.CodeIs(t, <-errs, journal.CodeStopped)
	})
}

// spec: B-21
func TestAReplyIsDurableBeforeTheSenderGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		held := false
		h := &world.Hook{OnCommit: func(g *store.Group, do func() error) error {
			for _, c := range g.Changes {
				if slices.ContainsFunc(c.Entries, func(e journal.Entry) bool {
					return e.Op.Name == "perdure:reply"
				}) && !held {
					held = true
					<-hold
				}
			}
			return do()
		}}
		w := world.Hooked(t, h, perdure.Options{}, auction)
		world.StartAndSettle(w, auction, 2, perdure.ID("a"))
		got := make(chan error, 1)
		go func() {
			_, err := raise.Send(within(t), w.Engine, "a", bid{5})
			got <- err
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case err := <-got:
			t.Errorf("the sender got it: %v", err)
		default:
		}
		close(hold)
		world.NoError(t, <-got)
		w.End()
	})
}

// spec: B-21
func TestAWaitTakesWhatItWantsAndHasATimeLimit(t *testing.T) {
	picky := perdure.Define("picky", func(ctx context.Context, _ int) (time.Duration, error) {
		ask, err := raise.Wait(ctx, perdure.Where(func(b bid) bool { return b.Cents > 10 }))
		if err != nil {
			return 0, err
		}
		if err := ask.Reply(ctx, place{Count: ask.Value.Cents}); err != nil {
			return 0, err
		}
		began, err := perdure.Now(ctx)
		if err != nil {
			return 0, err
		}
		_, err = raise.Wait(ctx, perdure.Within(10*time.Minute),
			perdure.Until(began.Add(time.Hour)), perdure.Where(func(b bid) bool {
				return b.Cents < 0
			}))
		if journal.CodeOf(err) != journal.CodeTimedOut {
			return 0, fmt.Errorf("not too late: %w", err)
		}
		ended, err := perdure.Now(ctx)
		return ended.Sub(began), err
	})
	inTime(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, picky, 0, perdure.ID("a"))
		small := func() error {
			_, err := raise.Send(within(t), w.Engine, "a", bid{5}, perdure.SendKey("small"))
			return err
		}
		world.CodeIs(t, small(), journal.CodeTimedOut)
		got, err := raise.Send(within(t), w.Engine, "a", bid{50})
		world.NoError(t, err)
		same(t, "reply", got, place{Count: 50})
		for range 3 { // each is refused, and does not prolong the wait
			_, err = unchecked.Send(within(t), w.Engine, "a", bid{-1})
			if !errors.Is(err, errLow) {
				t.Errorf("%v", err)
			}
			time.Sleep(3 * time.Minute)
			w.Crash()
		}
		out, err := world.OutcomeOf(w, picky, "a")
		same(t, "the wait", fmt.Sprint(out, err), "10m0s <nil>")
		world.CodeIs(t, small(), journal.CodeConflict)
	}, picky)
}

// spec: B-21
func TestServeRepliesUntilTheRunEnds(t *testing.T) {
	served := perdure.Define("served", func(ctx context.Context, _ int) (int, error) {
		sum := 0
		if err := raise.Serve(ctx, func(ctx context.Context, b bid) (place, error) {
			cents, err := perdure.Step(ctx, "book", func(context.Context) (int, error) {
				if b.Cents == 99 {
					return 0, perdure.Permanent(errNoSale)
				}
				return b.Cents, nil
			})
			sum += cents
			return place{Count: sum}, err
		}); err != nil {
			return 0, err
		}
		return goOn.Wait(ctx)
	})
	inTime(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, served, 0, perdure.ID("a"))
		for i := range 3 {
			got, err := raise.Send(within(t), w.Engine, "a", bid{5})
			world.NoError(t, err)
			same(t, "reply", got, place{Count: 5 * (i + 1)})
			w.Crash()
		}
		_, err := raise.Send(within(t), w.Engine, "a", bid{99})
		if !errors.Is(err, errNoSale) {
			t.Errorf("%v", err)
		}
		_, err = goOn.Send(t.Context(), w.Engine, "a", 1)
		world.NoError(t, err)
		synctest.Wait()
		same(t, "status", w.Status(run.RunID()), journal.Completed)
	}, served)
}

// spec: B-21
func TestMisuseOfUpdatesIsRefused(t *testing.T) {
	var errs []error
	odd := perdure.Define("odd", func(ctx context.Context, _ int) (int, error) {
		ask, err := raise.Wait(ctx)
		if err != nil {
			return 0, err
		}
		_, inside := raise.Send(ctx, nil, "a", bid{1})
		errs = []error{
			ask.Refuse(ctx, nil), ask.Reply(ctx, place{}), ask.Reply(ctx, place{}),
			ask.Refuse(ctx, errLow), raise.Serve(ctx, nil), inside,
		}
		_, err = raise.Wait(ctx, nil)
		errs = append(errs, err)
		_, err = update.New[int, int]("perdure:x", nil).Wait(ctx)
		errs = append(errs, err)
		return 0, errors.Join(nil, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, odd)
		world.StartAndSettle(w, odd, 0, perdure.ID("a"))
		_, err := raise.Send(within(t), w.Engine, "a", bid{1})
		world.NoError(t, err)
		synctest.Wait()
		for i, want := range []journal.Code{
			"invalid", "", "misuse", "misuse", "invalid", "invalid", "invalid", "invalid",
		} {
			if got := journal.CodeOf(errs[i]); got != want {
				t.Errorf("%d: %v", i, errs[i])
			}
		}
		for _, name := range []string{"", "a b", "perdure:x", "Cancel", "CancelWorkflow"} {
			_, err := update.New[int, int](name, nil).Send(within(t), w.Engine, "a", 1)
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		_, err = raise.Send(within(t), w.Engine, "a", bid{1}, nil)
		world.CodeIs(t, err, journal.CodeInvalid)
		_, err = raise.Send(within(t), w.Engine, "a", bid{1}, perdure.SendKey("a b"))
		world.CodeIs(t, err, journal.CodeInvalid)
		_, err = raise.Send(within(t), (*perdure.Client)(nil), "a", bid{1})
		world.CodeIs(t, err, journal.CodeInvalid)
		_, err = raise.Send(within(t), w.Engine.In(nil), "a", bid{1})
		world.CodeIs(t, err, journal.CodeMisuse)
		_, _, err = update.SendWithStart(within(t), w.Engine, raise, bid{1}, odd, 0)
		world.CodeIs(t, err, journal.CodeInvalid)
		w.End()
	})
}

// spec: B-21
func TestUpdatesAreRefusedInWorkflowCode(t *testing.T) {
	var errs []error
	var w *world.World
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := raise.Send(ctx, w.Engine, "a", bid{1})
		errs = append(errs, err)
		_, _, err = update.SendWithStart(ctx, w.Engine, raise, bid{1}, auction, 1,
			perdure.ID("a"))
		errs = append(errs, err)
		return perdure.Step(ctx, "send", func(ctx context.Context) (int, error) {
			p, _, err := update.SendWithStart(ctx, w.Engine, raise, bid{1}, auction, 1,
				perdure.ID("a"))
			return p.Count, err
		})
	})
	synctest.Test(t, func(t *testing.T) {
		w = world.New(t, wf, auction)
		_, n, err := world.Result(w, wf, 0)
		same(t, "in a step", fmt.Sprint(n, err), "1 <nil>")
		for _, err := range errs {
			world.CodeIs(t, err, journal.CodeMisuse)
		}
		w.End()
	})
}

// Replies may be large, and any JSON may be sent by name.
//
// spec: B-21
func TestALargeReplyArrivesAndATooLargeOneIsRefused(t *testing.T) {
	large := update.New[int, string]("large", nil)
	var gave error
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for range 2 {
			ask, err := large.Wait(ctx)
			if err != nil {
				return 0, err
			}
			gave = ask.Reply(ctx, strings.Repeat("x", ask.Value))
		}
		return 0, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		world.StartAndSettle(w, wf, 0, perdure.ID("a"))
		raw := update.New[json.RawMessage, json.RawMessage]("large", nil)
		got, err := raw.Send(within(t), w.Engine, "a", json.RawMessage(`1000000`))
		if err != nil || len(got) != 1_000_002 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_, err = large.Send(within(t), w.Engine, "a", 100<<20)
		world.CodeIs(t, err, journal.CodeTooLarge)
		synctest.Wait()
		world.CodeIs(t, gave, journal.CodeTooLarge)
		w.End()
	})
}

// A retry of a failed run keeps the replies that came before the failure.
//
// spec: B-21, B-8
func TestARetriedRunKeepsItsReplies(t *testing.T) {
	fails := true
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for i := range 2 {
			ask, err := raise.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if i == 1 {
				if err := perdure.Do(ctx, "break", func(context.Context) error {
					if fails {
						return perdure.Permanent(errNoSale)
					}
					return nil
				}); err != nil {
					return 0, err
				}
			}
			if err := ask.Reply(ctx, place{Count: i + 1}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	inTime(t, func(t *testing.T, w *world.World) {
		fails = true
		world.StartAndSettle(w, wf, 0, perdure.ID("a"))
		send := func(key string) (int, error) {
			p, err := raise.Send(within(t), w.Engine, "a", bid{1}, perdure.SendKey(key))
			return p.Count, err
		}
		n, err := send("k1")
		same(t, "first", fmt.Sprint(n, err), "1 <nil>")
		_, err = send("k2")
		world.CodeIs(t, err, journal.CodeConflict)
		fails = false
		_, err = w.Engine.Retry(t.Context(), "a")
		world.NoError(t, err)
		n, err = send("k1")
		same(t, "first again", fmt.Sprint(n, err), "1 <nil>")
		n, err = send("k2")
		same(t, "second again", fmt.Sprint(n, err), "2 <nil>")
	}, wf)
}
