package waiting

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

var (
	paid  = perdure.NewSignal[int]("paid")
	other = perdure.NewSignal[int]("other")
)

// send sends a signal, which must be delivered.
func send[T any](
	w *world.World, s perdure.Signal[T], id string, v T, opts ...perdure.SendOption,
) perdure.Delivery {
	w.T.Helper()
	d, err := s.Send(context.Background(), w.Engine, id, v, opts...)
	if err != nil {
		w.T.Fatalf("send %v: %v", v, err)
	}
	return d
}

// gives demands the output of the run with that ID, and no error.
func gives[I, O any](w *world.World, wf *perdure.Workflow[I, O], id string, want O) {
	w.T.Helper()
	run, err := wf.Get(context.Background(), w.Engine, id)
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour) // rather than for ever
	defer cancel()
	out, err := run.Result(ctx)
	if fmt.Sprint(out) != fmt.Sprint(want) || err != nil {
		w.T.Errorf("the run gives %v, %v, want %v", out, err, want)
	}
	w.History(id)
}

// statusIs wants the status of a run.
func statusIs(w *world.World, id string, want journal.Status) {
	w.T.Helper()
	d, err := w.Engine.Describe(context.Background(), id)
	if err != nil || d.Head.Status != want {
		w.T.Errorf("the run is %v, %v, want %v", d.Head.Status, err, want)
	}
}

// spec: R-17
func TestWhatIsSentBeforeTheEngineHasJoinedIsDelivered(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		return paid.Wait(ctx)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		synctest.Wait()
		run := world.Start(w, wf, 0, perdure.ID("order"))
		w.Crash()
		if d := send(w, paid, run.RunID(), 7); d.RunID != run.RunID() || d.Unrouted {
			t.Errorf("by the run ID: %+v", d)
		}
		gives(w, wf, "order", 7)

		none, err := perdure.New(memory.New(), perdure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = paid.Send(ctx, none, "order", 1)
		world.CodeIs(t, err, journal.CodeStopped)
	}, wf)
}

// collect returns the results of the futures.
func collect[T any](ctx context.Context, futures ...*perdure.Future[T]) ([]T, error) {
	var out []T
	for _, f := range futures {
		v, err := f.Await(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

// spec: L-6
func TestWaitsOfOneNameTakeOneMessageEachInOrder(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
		first, second := paid.Future(ctx), paid.Future(ctx)
		name := other.Future(ctx)
		third, err := paid.Wait(ctx, perdure.Key("third"))
		if err != nil {
			return nil, err
		}
		out, err := collect(ctx, first, second, name)
		return append(out, third), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, apart := range []time.Duration{0, time.Millisecond, time.Minute} {
			for _, crash := range []bool{false, true} {
				id := fmt.Sprintf("%v-%v", apart, crash)
				run := world.Start(w, wf, 0, perdure.ID(id))
				synctest.Wait()
				send(w, other, id, 9)
				for i := range 3 {
					time.Sleep(apart)
					if crash {
						w.Crash()
					}
					send(w, paid, run.RunID(), i)
				}
				gives(w, wf, id, []int{0, 1, 9, 2})
			}
		}
		for i := range 4 { // before they are waited for, and one more
			send(w, paid, "early", i)
		}
		send(w, other, "early", 9)
		world.Start(w, wf, 0, perdure.ID("early"))
		gives(w, wf, "early", []int{0, 1, 9, 2})
		if got := w.Unread("early"); fmt.Sprint(got) != "[paid=3]" {
			t.Errorf("not taken are %v", got)
		}
	}, wf)
}

// spec: L-6
func TestWhereTakesTheFirstThatMatchesAndLeavesTheOthers(t *testing.T) {
	even := perdure.Where(func(i int) bool { return i%2 == 0 })
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
		f := paid.Future(ctx, even)
		after := paid.Future(ctx)
		v, err := paid.Wait(ctx, even)
		if err != nil {
			return nil, err
		}
		out, err := collect(ctx, f, after)
		return append(out, v), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			world.Start(w, wf, 0, perdure.ID(id))
			for _, payload := range []string{`4`, `"no number"`, `{`, ``, `3`, `6`} {
				if _, err := w.Engine.Send(context.Background(), id, "paid",
					[]byte(payload)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if crash {
					w.Crash()
				}
				time.Sleep(time.Second / 2)
			}
			// The second wait takes what comes next, which does not decode into its type.
			run, err := wf.Get(context.Background(), w.Engine, id)
			if err != nil {
				t.Fatal(err)
			}
			_, err = run.Result(context.Background())
			world.CodeIs(t, err, journal.CodeDecode)
			if got := w.Unread(id); fmt.Sprint(got) != `[paid={ paid= paid=3]` {
				t.Errorf("not taken are %v", got)
			}
			w.History(id)
		}
	}, wf)
}

// A message that has come while a wait with a condition is open belongs to that wait, also
// where code of the run begins another one before the condition was asked.
//
// spec: L-6
func TestAWaitThatBeginsIsBehindThoseThatWait(t *testing.T) {
	even := perdure.Where(func(i int) bool { return i%2 == 0 })
	var between func()
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]int, error) {
		first := paid.Future(ctx, even)
		between()
		second := paid.Future(ctx)
		return collect(ctx, first, second)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		between = func() { send(w, paid, "line", 4) }
		world.Start(w, wf, 0, perdure.ID("line"))
		synctest.Wait()
		between = func() {}
		send(w, paid, "line", 5)
		gives(w, wf, "line", []int{4, 5})
	}, wf)
}

// spec: L-6
func TestWaitBeforeAnInstant(t *testing.T) {
	type limits struct {
		Before, Within time.Duration // from the start of the run
	}
	wf := perdure.Define("w", func(ctx context.Context, l limits) (string, error) {
		began, err := perdure.Now(ctx)
		if err != nil {
			return "", err
		}
		opts := []perdure.WaitOption{
			perdure.Until(began.Add(l.Before)), perdure.Until(began.Add(24 * time.Hour)),
		}
		if l.Within > 0 {
			opts = append(opts, perdure.Within(l.Within))
		}
		n, err := paid.Wait(ctx, opts...)
		ended, _ := perdure.Now(ctx)
		return fmt.Sprint(n, " ", journal.CodeOf(err), " ", ended.Sub(began)), nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for i, c := range []struct {
			limits
			want string
		}{
			{limits{time.Hour, 0}, "0 timed_out 1h0m0s"},
			{limits{time.Hour, time.Minute}, "0 timed_out 1m0s"},
			{limits{time.Hour, 2 * time.Hour}, "0 timed_out 1h0m0s"},
			{limits{-time.Hour, 0}, "0 timed_out 0s"},
		} {
			id := fmt.Sprint("r", i)
			world.Start(w, wf, c.limits, perdure.ID(id))
			if i == 0 {
				time.Sleep(30 * time.Minute)
				w.Crash()
			}
			gives(w, wf, id, c.want)
		}
		send(w, paid, "there", 7)
		world.Start(w, wf, limits{-time.Hour, 0}, perdure.ID("there"))
		gives(w, wf, "there", "7  0s")
	}, wf)
	for what, never := range map[string]time.Time{
		"zero": {},
		"late": time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		none := perdure.Define("none", func(ctx context.Context, _ int) (int, error) {
			return paid.Wait(ctx, perdure.Until(never))
		})
		world.InBothModes(t, func(t *testing.T, w *world.World) {
			_, err := world.Start(w, none, 0, perdure.ID(what)).Result(context.Background())
			world.CodeIs(t, err, journal.CodeInvalid)
		}, none)
	}
}

// spec: L-6
func TestWaitThatLastsTooLongTimesOut(t *testing.T) {
	type result struct {
		Code, Took string
		Deadline   bool
	}
	wf := perdure.Define("w", func(ctx context.Context, early time.Duration) (result, error) {
		began, _ := perdure.Now(ctx)
		_, err := paid.Wait(ctx, perdure.Within(time.Minute),
			perdure.Where(func(i int) bool { return i > 0 }))
		ended, _ := perdure.Now(ctx)
		return result{
			string(journal.CodeOf(err)), ended.Sub(began).String(),
			errors.Is(err, context.DeadlineExceeded),
		}, nil
	})
	timedOut := result{"timed_out", "1m0s", true}
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		world.Start(w, wf, 0, perdure.ID("alone"))
		gives(w, wf, "alone", timedOut)

		world.Start(w, wf, 0, perdure.ID("others"))
		send(w, other, "others", 1)
		send(w, paid, "others", 0)
		gives(w, wf, "others", timedOut)

		world.Start(w, wf, 0, perdure.ID("crash"))
		time.Sleep(40 * time.Second)
		w.Crash()
		gives(w, wf, "crash", timedOut)

		world.Start(w, wf, 0, perdure.ID("down"))
		time.Sleep(40 * time.Second)
		w.Kill()
		time.Sleep(time.Hour)
		w.Begin()
		gives(w, wf, "down", result{"timed_out", "1h0m40s", true})

		world.Start(w, wf, 0, perdure.ID("in-time"))
		time.Sleep(time.Minute - 1)
		send(w, paid, "in-time", 1)
		gives(w, wf, "in-time", result{"", "59.999999999s", false})

		world.Start(w, wf, 0, perdure.ID("down-in-time"))
		synctest.Wait()
		w.Kill()
		c, err := perdure.NewClient(context.Background(), w.DB)
		if err == nil {
			_, err = paid.Send(context.Background(), c, "down-in-time", 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.Begin()
		gives(w, wf, "down-in-time", result{"", "1h0m0s", false})
	}, wf)
}

// A client of its own sends while the engine has not heard of it.
//
// spec: L-6
func TestMessageThatWasDurableBeforeTheTimeoutWins(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		return paid.Wait(ctx, perdure.Within(time.Minute))
	})
	world.InBothModesWith(t,
		perdure.Options{SweepOnly: false, Sweep: 10 * time.Minute, IdleTimeout: time.Hour}, func(
			t *testing.T, w *world.World,
		) {
			world.Start(w, wf, 0, perdure.ID("x"))
			c, err := perdure.NewClient(context.Background(), w.DB)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - 1)
			if _, err := paid.Send(context.Background(), c, "x", 7); err != nil {
				t.Fatal(err)
			}
			gives(w, wf, "x", 7)
		}, wf)
}

// spec: L-6
func TestWaitThatEndsWithItsContextTakesNothing(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, first := paid.Wait(short)
		gone, end := context.WithCancel(ctx)
		f := paid.Future(gone, perdure.Where(func(int) bool { return true }))
		end()
		_, second := f.Await(ctx)
		mine := paid.Future(ctx)
		ok, third := mine.Cancel(ctx, "enough")
		_, fourth := mine.Await(ctx)
		seen := []string{
			string(journal.CodeOf(first)), string(journal.CodeOf(second)), fmt.Sprint(ok, third),
			string(journal.CodeOf(fourth)),
		}
		if !errors.Is(first, context.DeadlineExceeded) || !errors.Is(second, context.Canceled) {
			return nil, errors.Join(first, second)
		}
		v, err := other.Wait(ctx)
		return append(seen, fmt.Sprint(v)), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			world.Start(w, wf, 0, perdure.ID(id))
			time.Sleep(2 * time.Minute)
			for i := range 3 {
				if crash {
					w.Crash()
				}
				send(w, paid, id, i)
			}
			send(w, other, id, 5)
			gives(w, wf, id, []string{"timed_out", "cancelled", "true <nil>", "cancelled", "5"})
			if got := w.Unread(id); len(got) != 3 {
				t.Errorf("not taken are %v", got)
			}
		}
	}, wf)
}

// spec: L-6
func TestBranchesGetOneMessageEach(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, n int) ([]int, error) {
		var got []int // what they share is the same on replay
		var all []*perdure.Future[int]
		for range n {
			all = append(all, perdure.Go(ctx, "taker", func(ctx context.Context) (int, error) {
				v, err := paid.Wait(ctx)
				got = append(got, v)
				return perdure.Step(ctx, "work", func(context.Context) (int, error) {
					return v, err
				})
			}))
		}
		if _, err := collect(ctx, all...); err != nil {
			return nil, err
		}
		return got, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, crash := range []bool{false, true} {
			id := fmt.Sprint(crash)
			world.Start(w, wf, 10, perdure.ID(id))
			for i := range 10 {
				if crash && i%3 == 1 {
					w.Crash()
				}
				send(w, paid, id, i)
				time.Sleep(time.Duration(i%3) * 700 * time.Millisecond)
			}
			gives(w, wf, id, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
		}
	}, wf)
}

// spec: L-6
func TestPredicateThatPanicsIsAPanicOfTheCode(t *testing.T) {
	var broken atomic.Bool
	wf := perdure.Define("w", func(ctx context.Context, how string) (int, error) {
		fail := func() {
			if broken.Load() && how == "panic" {
				panic("odd")
			} else if broken.Load() {
				runtime.Goexit()
			}
		}
		judged := paid.Future(ctx, perdure.Where(func(int) bool { fail(); return true }))
		return judged.Await(ctx)
	}, perdure.Replays{Attempts: 3, First: time.Minute})
	value := perdure.Define("value", func(ctx context.Context, how string) (int, error) {
		return perdure.SideEffect(ctx, "v", func() (int, error) {
			if broken.Load() {
				panic("odd")
			}
			return 1, nil
		})
	}, perdure.Replays{Attempts: 3, First: time.Minute})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		broken.Store(true)
		world.Start(w, wf, "panic", perdure.ID("panic"))
		world.Start(w, wf, "goexit", perdure.ID("goexit"))
		world.Start(w, value, "", perdure.ID("value"))
		synctest.Wait()
		send(w, paid, "panic", 1)
		send(w, paid, "goexit", 1)
		time.Sleep(90 * time.Second)
		statusIs(w, "panic", journal.Waiting)
		broken.Store(false)
		time.Sleep(time.Hour)
		gives(w, wf, "panic", 1)
		gives(w, wf, "goexit", 1)
		gives(w, value, "value", 1)
	}, wf, value)
}

// What happens to a run while the author's code judges a message takes precedence.
//
// spec: L-6
func TestMessageThatIsBeingJudgedIsNotTakenByAWaitThatHasEnded(t *testing.T) {
	slow := perdure.Where(func(int) bool { time.Sleep(5 * time.Second); return true })
	wf := perdure.Define("w", func(ctx context.Context, how string) (int, error) {
		in := ctx
		if strings.Contains(how, "context") {
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			in = limited
		}
		if strings.Contains(how, "future") {
			f := paid.Future(in, slow)
			if err := perdure.Sleep(ctx, 10*time.Second); err != nil {
				return 0, err
			}
			return f.Await(ctx)
		}
		return paid.Wait(in, slow)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, how := range []string{
			"cancel", "context", "future-cancel", "future-context", "future",
		} {
			send(w, paid, how, 7)
			world.Start(w, wf, how, perdure.ID(how))
			time.Sleep(time.Second)
			want, left := journal.Completed, 0
			if strings.Contains(how, "cancel") {
				want, left = journal.Cancelled, 1
				if err := w.Engine.Cancel(context.Background(), how, "enough"); err != nil {
					t.Fatal(err)
				}
			} else if strings.Contains(how, "context") {
				want, left = journal.Failed, 1
			}
			time.Sleep(time.Minute)
			statusIs(w, how, want)
			if got := w.Unread(how); len(got) != left {
				t.Errorf("%s: not taken are %v", how, got)
			}
			w.History(how)
		}
	}, wf)
}

// A name that is reserved is refused with that reason, not because of its characters.
func TestAReservedNameOfASignalIsRefusedWithTheReason(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, byType := perdure.NewSignal[int]("perdure:x").Send(t.Context(), eng, "x", 1)
	_, byName := eng.Send(t.Context(), "x", "perdure:x", []byte("1"))
	for _, err := range []error{byType, byName} {
		if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(),
			`names that begin with "perdure:" are reserved`) {
			t.Error(err)
		}
	}
}
