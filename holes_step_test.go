package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// spec: L-12, L-13
//
// A step that backs off since before a crash ends with its run.
func TestStepThatBacksOffAfterACrashIsCancelledWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", work("s", 0, errOdd), perdure.Retry{Attempts: 5, First: time.Hour})
		})
		w := newWorld(t, wf)
		defer func() { w.end() }()
		run := begun(w, wf, 0)
		synctest.Wait()
		w.crash()
		synctest.Wait()
		if err := w.eng.Cancel(context.Background(), run.ID(), "no"); err != nil {
			t.Fatal(err)
		}
		ends(t, w.history(run.ID()), journal.StepCancelled, journal.RunCancelled)
	})
}

// ends says that a journal ends with entries of these kinds.
func ends(t *testing.T, entries []journal.Entry, kinds ...journal.Kind) {
	t.Helper()
	for i, e := range entries[max(0, len(entries)-len(kinds)):] {
		if e.Kind != kinds[i] {
			t.Errorf("the journal ends with %v, want %v", tail(entries, len(kinds)), kinds)
			return
		}
	}
}

// spec: L-11
//
// And with its branch: it has no further attempt.
func TestStepThatBacksOffAfterACrashIsCancelledWithItsBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "s", func(context.Context) (int, error) {
					calls.Add(1)
					return 0, errOdd
				}, perdure.Retry{Attempts: 5, First: time.Hour, Cap: 10 * time.Hour})
			})
			perdure.Step(ctx, "before", work("before", 30*time.Minute, nil))
			b.Cancel(ctx, "no")
			return perdure.Step(ctx, "after", work("after", 30*time.Hour, nil))
		})
		w := newWorld(t, wf)
		defer func() { w.end() }()
		id := begun(w, wf, 0).ID()
		synctest.Wait()
		w.crash()
		run, err := wf.Get(context.Background(), w.eng, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(within(t, 100*time.Hour)); err != nil {
			t.Error(err)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("the step of the cancelled branch was called %d times", n)
		}
		w.history(id)
	})
}

// spec: L-13
//
// A step whose first attempt left nothing but what it did once has started.
func TestStepKnownByItsOnceOnlyIsEndedWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				perdure.Once(ctx, "k", func() (int, error) { return 1, nil })
				return work("s", time.Hour, nil)(ctx)
			})
		}, perdure.Timeout(time.Minute))
		w := newWorld(t, wf)
		defer func() { w.end() }()
		run := begun(w, wf, 0)
		synctest.Wait()
		w.kill()
		time.Sleep(time.Hour) // the run's time is over
		w.begin()
		synctest.Wait()
		ends(t, w.history(run.ID()), journal.StepCancelled, journal.RunTimedOut)
	})
}

// spec: L-11
func TestStepOfACancelledBranchCanBeAwaitedOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			var f *perdure.Future[int]
			b := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				f = perdure.Async(ctx, "a", work("a", 10*time.Hour, nil))
				return f.Await(ctx)
			})
			perdure.Step(ctx, "s", work("s", time.Second, nil))
			b.Cancel(ctx, "no")
			_, err := f.Await(ctx)
			codeIs(t, err, journal.CodeCancelled)
			return fmt.Sprint(err), nil
		})
		w := newWorld(t, wf)
		defer w.end()
		run := begun(w, wf, 0)
		if out, err := run.Result(within(t, time.Hour)); err != nil {
			t.Error(out, err, tail(w.history(run.ID()), 10))
		}
	})
}

// A future belongs to its run: another run that awaits it is told so at once.
func TestFutureOfAnotherRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *perdure.Future[int]
		owner := perdure.Define("owner", func(ctx context.Context, _ int) (int, error) {
			f = perdure.Async(ctx, "x", work("x", time.Hour, nil))
			return f.Await(ctx)
		})
		thief := perdure.Define("thief", func(ctx context.Context, _ int) (int, error) {
			_, err := f.Await(ctx)
			codeIs(t, err, journal.CodeMisuse)
			return 0, err
		})
		w := newWorld(t, owner, thief)
		defer w.end()
		begun(w, owner, 0)
		synctest.Wait()
		_, err := begun(w, thief, 0).Result(within(t, time.Minute))
		codeIs(t, err, journal.CodeMisuse)
	})
}

// A payload of a run cannot be read: the run is parked, and not tried for ever.
func TestRunWithAnUnreadablePayloadIsParked(t *testing.T) {
	large := strings.Repeat("x", 100_000) // stored apart
	for name, unreadable := range map[string]int64{"input": 1, "result": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := perdure.Define("w", func(ctx context.Context, in string) (int, error) {
					if _, err := perdure.Step(ctx, "large", func(context.Context) (string, error) { return in, nil }); err != nil {
						return 0, err
					}
					return perdure.Step(ctx, "long", work("long", time.Hour, nil))
				})
				h := &hook{}
				w := newHookedWorld(t, h, perdure.Options{}, wf)
				defer func() { w.end() }()
				run := begun(w, wf, large)
				time.Sleep(time.Minute)
				h.load = func(n journal.Number, r store.Range) error {
					if r.Limit == 1 && r.From == unreadable {
						return &journal.CorruptError{Run: n, Seq: r.From, Reason: "rotten"}
					}
					return nil
				}
				w.crash()
				time.Sleep(1000 * time.Hour)
				if status, why := statusOf(w, run.ID()); status != journal.Suspended || !strings.Contains(why, "rotten") {
					t.Error(status, why)
				}
			})
		})
	}
}

// spec: R-16
//
// A producer that hangs in an attempt that was given up does not hold the next
// one for ever.
func TestOnceGoesOnWithoutAProducerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan bool)
		var produced atomic.Int32
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				n, _, _ := perdure.Attempt(ctx)
				return perdure.Once(ctx, "k", func() (int, error) {
					produced.Add(1)
					if n == 1 {
						<-hang
					}
					return n, nil
				})
			}, perdure.Timeout(time.Second))
		})
		w := newWorld(t, wf)
		if _, out, err := result(w, wf, 0); err != nil {
			t.Errorf("%d, %v; the producer was called %d times", out, err, produced.Load())
		}
		close(hang)
		w.end()
	})
}

// spec: L-4
//
// A policy that names the errors it retries does not make each attempt the last.
func TestAttemptKnowsWhetherItIsTheLastUnderAPolicyByError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lasts []bool
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				_, last, _ := perdure.Attempt(ctx)
				lasts = append(lasts, last)
				return 0, errOdd
			}, perdure.Retry{Attempts: 3, On: []error{errOdd}})
		})
		w := newWorld(t, wf)
		defer w.end()
		result(w, wf, 0)
		if !slices.Equal(lasts, []bool{false, false, true}) {
			t.Error(lasts)
		}
	})
}

// A listError cannot be compared with ==.
type listError struct{ list any }

func (e listError) Error() string { return fmt.Sprint("list ", e.list) }

// spec: L-4, L-9, L-17
func TestErrorsThatCannotBeComparedFailAsOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "s", work("s", 0, listError{[]int{1}}), perdure.NoRetry)
			if err == nil || err.Error() != "list [1]" {
				t.Error("the step's error is", err)
			}
			return 0, listError{[]int{2}}
		})
		w := newWorld(t, wf)
		defer w.end()
		run, _, err := result(w, wf, 0)
		if err == nil || err.Error() != "list [2]" {
			t.Error("the run's error is", err)
		}
		if status, why := statusOf(w, run.ID()); status != journal.Failed {
			t.Error(status, why)
		}
	})
}

// spec: L-17
//
// The class of a step's last error speaks of the step: the run that returns it
// has failed, and is not tried again.
func TestRunFailsWithAnErrorThatItsStepWasToRetryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", work("s", 0, perdure.RetryAfter(time.Second, errOdd)))
		})
		w := newWorld(t, wf)
		defer w.end()
		run, _, err := result(w, wf, 0)
		if !errors.Is(err, errOdd) {
			t.Error("the run's error is", err)
		}
		if status, why := statusOf(w, run.ID()); status != journal.Failed {
			t.Error(status, why)
		}
	})
}

// spec: L-4
//
// A delay of centuries is one also with jitter and after a crash.
func TestDelayOfCenturiesIsNotATightLoop(t *testing.T) {
	for name, jitter := range map[string]float64{"exact": 0, "jitter": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				policy := perdure.Retry{Attempts: 50, First: math.MaxInt64, Cap: math.MaxInt64, Jitter: jitter}
				wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					return perdure.Step(ctx, "s", func(context.Context) (int, error) {
						calls.Add(1)
						return 0, errOdd
					}, policy)
				})
				w := newWorld(t, wf)
				defer func() { w.end() }()
				begun(w, wf, 0)
				time.Sleep(time.Hour)
				live := calls.Load()
				w.crash()
				time.Sleep(time.Hour)
				if n := calls.Load(); n != 1 {
					t.Errorf("%d attempts within an hour, %d within two", live, n)
				}
			})
		})
	}
}

// spec: L-15
//
// The engine reads a stored result slowly: that is no blocking of the workflow's
// code, whose branches go on in the recorded order.
func TestSlowReadOfAResultKeepsTheOrderOfBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var orders []string
		booked := map[string]int{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			found := ask(ctx)
			orders = append(orders, fmt.Sprint(found))
			for _, item := range found {
				perdure.Step(ctx, "book", func(context.Context) (int, error) {
					booked[item]++
					return 0, nil
				})
				perdure.Step(ctx, "pause", work("pause", time.Hour, nil))
			}
			return 0, nil
		})
		h := &hook{}
		w := newHookedWorld(t, h, perdure.Options{}, wf)
		defer func() { w.end() }()
		id := begun(w, wf, 0).ID()
		time.Sleep(time.Minute)
		h.load = func(journal.Number, store.Range) error {
			time.Sleep(200 * time.Millisecond)
			return nil
		}
		w.crash()
		run, err := wf.Get(context.Background(), w.eng, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(within(t, 10*time.Hour)); err != nil {
			t.Error(err)
		}
		if len(orders) != 2 || orders[0] != orders[1] || booked["A"] != 1 || booked["B"] != 1 {
			t.Errorf("orders %v, booked %v; %v", orders, booked, w.seen(observe.TurnLent))
		}
	})
}

// ask has two branches note in one slice which of them was answered first; the
// first answer is large enough to be stored apart.
func ask(ctx context.Context) []string {
	var found []string
	var branches []*perdure.Future[int]
	for _, name := range []string{"A", "B"} {
		branches = append(branches, perdure.Go(ctx, name, func(ctx context.Context) (int, error) {
			_, err := perdure.Step(ctx, "ask", func(context.Context) (string, error) {
				if name == "A" {
					return strings.Repeat("x", 100_000), nil
				}
				time.Sleep(time.Millisecond)
				return "", nil
			})
			found = append(found, name)
			return 0, err
		}))
	}
	for _, b := range branches {
		b.Await(ctx)
	}
	return found
}
