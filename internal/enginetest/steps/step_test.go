package steps

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// spec: L-4
func TestStepIsRetriedAsItsPolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []time.Time
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				began = append(began, time.Now())
				n, last, err := perdure.Attempt(ctx)
				if err != nil || n != len(began) || last != (n == 4) {
					t.Errorf("attempt %d of %d, last %v, %v", n, len(began), last, err)
				}
				if n == 2 {
					panic("second")
				}
				if n < 4 {
					return 0, errors.New("not yet")
				}
				return 7, nil
			}, perdure.Retry{Attempts: 4, First: time.Second, Factor: 3, Cap: 5 * time.Second})
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		if out != 7 || err != nil {
			t.Fatal(out, err)
		}
		for i, want := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} {
			if got := began[i+1].Sub(began[i]); got != want {
				t.Errorf("delay %d is %v, want %v", i+1, got, want)
			}
		}
		var due []time.Duration
		for _, e := range w.History(run.ID()) {
			if e.Kind == journal.StepRetrying {
				due = append(due, e.Detail.Due.Sub(e.At))
				if e.Attempt() == 2 && (!strings.Contains(e.Failure().Message, "second") ||
					!strings.Contains(e.Failure().StackOf(), "step_test.go")) {
					t.Errorf("the panic is kept as %+v", e.Failure())
				}
			}
		}
		if !slices.Equal(due, []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}) {
			t.Error("the history says that retries are due after", due)
		}
	})
}

// spec: L-4
func TestStepThatFailsForGoodReturnsItsLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			began, err := perdure.Now(ctx)
			if err != nil {
				return "", err
			}
			_, err = perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				n, _, _ := perdure.Attempt(ctx)
				return 0, errors.New([]string{"", "first", "second", "third", "fourth"}[n])
			})
			if d := time.Since(began); d != 3*time.Second {
				t.Errorf("the default policy took %v, want 1 s and 2 s", d)
			}
			return err.Error(), nil
		})
		w := world.New(t, wf)
		defer w.End()
		if _, out, err := world.Result(w, wf, 0); out != "step s: third" || err != nil {
			t.Fatal(out, err)
		}
	})
}

// spec: L-4, L-14
func TestAttemptThatPassesItsTimeoutIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var causes []error
		var mu sync.Mutex
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				if n, _, _ := perdure.Attempt(ctx); n == 2 {
					return 5, nil
				}
				<-ctx.Done()
				mu.Lock()
				causes = append(causes, ctx.Err())
				mu.Unlock()
				<-release // ignores that its context has ended
				return 1, nil
			}, perdure.Timeout(time.Minute))
		})
		w := world.New(t, wf)
		defer w.End()
		began := time.Now()
		run, out, err := world.Result(w, wf, 0)
		if out != 5 || err != nil {
			t.Fatal(out, err)
		}
		if d := time.Since(began); d != time.Minute+time.Second {
			t.Errorf("took %v", d)
		}
		if len(w.Seen(observe.StepAbandoned)) != 1 {
			t.Error("nobody was told that the attempt was abandoned")
		}
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || !slices.Equal(d.Abandoned, []string{"s"}) {
			t.Errorf("abandoned: %v, %v", d.Abandoned, err)
		}
		close(release)
		synctest.Wait()
		if late := w.Seen(observe.LateResult); len(late) != 1 || late[0].Step != "s" ||
			late[0].Attempt != 1 {
			t.Errorf("late results: %+v", late)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(causes) != 1 || !errors.Is(causes[0], context.DeadlineExceeded) &&
			!errors.Is(causes[0], context.Canceled) {
			t.Error("the body saw", causes)
		}
	})
}

// A result that comes too late is an entry while its run is open. It changes nothing.
//
// spec: L-14
func TestALateResultIsAnEntryWhileItsRunIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "s", func(context.Context) (int, error) {
				<-release // ignores its context
				return 1, nil
			}, perdure.Timeout(time.Minute), perdure.NoRetry)
			if journal.CodeOf(err) != journal.CodeTimedOut {
				return 0, fmt.Errorf("the step ended with %w", err)
			}
			return perdure.Step(ctx, "next", world.Work("next", time.Hour, nil), perdure.NoRetry)
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		close(release)
		if _, err := run.Result(context.Background()); err != nil {
			t.Fatal(err)
		}
		got := world.Tail(w.History(run.ID()), 4)
		want := []string{
			"StepTimedOut s", "ResultDiscarded s", "StepCompleted next", "RunCompleted",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || d.State.Steps[0].Status != journal.StepIsTimedOut {
			t.Errorf("step s: %+v, %v", d.State.Steps[0], err)
		}
	})
}

// spec: L-4
func TestStepThatTimesOutForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (bool, error) {
			_, err := perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, perdure.Timeout(time.Minute), perdure.NoRetry)
			return errors.Is(err, context.DeadlineExceeded) &&
				journal.CodeOf(err) == journal.CodeTimedOut, nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		if !out || err != nil {
			t.Fatal(out, err)
		}
		if got := world.Tail(w.History(run.ID()), 2); got[0] != "StepTimedOut s" {
			t.Error(got)
		}
	})
}

// spec: L-14
func TestGoexitAndPanicInAStepEndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
			var seen []string
			for _, f := range []func(){
				func() { runtime.Goexit() },
				func() { panic(errors.New("boom")) },
			} {
				_, err := perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
					f()
					return 0, nil
				}, perdure.NoRetry)
				seen = append(seen, err.Error())
			}
			return seen, nil
		})
		w := world.New(t, wf)
		defer w.End()
		_, out, err := world.Result(w, wf, 0)
		if err != nil || len(out) != 2 || !strings.Contains(out[0], "called runtime.Goexit") ||
			!strings.Contains(out[1], "panicked: boom") {
			t.Fatal(out, err)
		}
	})
}

// spec: L-5
func TestAsyncStepRunsBesideTheWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) ([]journal.StepStatus, error) {
			ok := perdure.Async(ctx, "ok", world.Work("ok", time.Second, nil))
			bad := perdure.Async(ctx, "bad", world.Work("bad", time.Second, world.ErrOdd),
				perdure.NoRetry)
			slow := perdure.Async(ctx, "slow", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, nil
			},
				perdure.Timeout(time.Second), perdure.NoRetry)
			gone := perdure.Async(ctx, "gone", world.Work("gone", time.Hour, nil))
			before, _, _ := ok.State()
			if won, err := gone.Cancel(ctx, "no need"); !won || err != nil {
				t.Error(won, err)
			}
			if _, err := perdure.Step(ctx, "meanwhile",
				world.Work("meanwhile", 2*time.Second, nil)); err != nil {
				return nil, err
			}
			s1, v, err := ok.State()
			if v != 14 || err != nil {
				t.Error(v, err)
			}
			s2, _, err := bad.State()
			if !errors.Is(err, world.ErrOdd) {
				t.Error(err)
			}
			s3, _, err := slow.State()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			s4, _, err := gone.State()
			world.CodeIs(t, err, journal.CodeCancelled)
			return []journal.StepStatus{before, s1, s2, s3, s4}, nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		want := []journal.StepStatus{"RUNNING", "DONE", "FAILED", "TIMED_OUT", "CANCELLED"}
		if err != nil || !slices.Equal(out, want) {
			t.Fatal(out, err)
		}
		d, err := w.Engine.Describe(context.Background(), run.ID())
		if err != nil || d.Head.Status != journal.Completed {
			t.Fatal("a failure that nobody awaits failed the run:", d.Head.Status, err)
		}
		for _, s := range d.State.Steps {
			if s.Path == "bad" && (s.Status != journal.StepIsFailed || s.Failure.Message != "odd") {
				t.Errorf("the failure is recorded as %+v", s)
			}
		}
	})
}

// spec: L-11
func TestCancelledStepSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			f := perdure.Async(ctx, "s", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- ctx.Err()
				return 0, nil
			})
			if _, err := perdure.Step(ctx, "other", world.Work("other", time.Second,
				nil)); err != nil {
				return "", err
			}
			won, err := f.Cancel(ctx, "changed my mind \xff")
			if !won || err != nil {
				t.Error(won, err)
			}
			_, err = f.Await(ctx)
			world.CodeIs(t, err, journal.CodeCancelled)
			if journal.CodeOf(err) != journal.CodeCancelled {
				t.Error("errors.As does not find the code:", err)
			}
			if won, _ := f.Cancel(ctx, "again"); won {
				t.Error("a step was cancelled twice")
			}
			done := perdure.Async(ctx, "done", world.Work("done", 0, nil))
			if _, err := done.Await(ctx); err != nil {
				return "", err
			}
			if won, _ := done.Cancel(ctx, "too late"); won {
				t.Error("a step that had ended was cancelled")
			}
			return err.Error(), nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		if err != nil || !strings.HasSuffix(out, "changed my mind \ufffd") {
			t.Fatal(out, err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error("the body saw", err)
		}
		for _, e := range w.History(run.ID()) {
			if e.Op.Name == "s" && e.Kind.EndsStep() && e.Kind != journal.StepCancelled {
				t.Error("the terminal record is", e.Kind)
			}
		}
	})
}

// spec: L-11
func TestCancelledBranchRecordsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			var inside error
			f := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				in := perdure.Go(ctx, "c", func(ctx context.Context) (int, error) {
					return perdure.Step(ctx, "deep", world.Work("deep", time.Hour, nil))
				})
				_, inside = perdure.Step(ctx, "slow", world.Work("slow", time.Hour, nil))
				_, err := perdure.Step(ctx, "never", world.Work("never", 0, nil))
				world.CodeIs(t, err, journal.CodeCancelled)
				_, err = in.Await(ctx)
				world.CodeIs(t, err, journal.CodeCancelled)
				return 1, nil
			})
			if _, err := perdure.Step(ctx, "other", world.Work("other", time.Second,
				nil)); err != nil {
				return "", err
			}
			if won, err := f.Cancel(ctx, "no need"); !won || err != nil {
				t.Error(won, err)
			}
			_, err := f.Await(ctx)
			world.CodeIs(t, err, journal.CodeCancelled)
			if _, err := perdure.Step(ctx, "after", world.Work("after", time.Second,
				nil)); err != nil {
				return "", err
			}
			world.CodeIs(t, inside, journal.CodeCancelled)
			return "ok", nil
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, 0)
		if err != nil || out != "ok" {
			t.Fatal(out, err)
		}
		got := world.Tail(w.History(run.ID()), 6)
		want := []string{
			"ScopeCancelled c", "StepCancelled slow", "StepCancelled deep", "ScopeCancelled b",
			"StepCompleted after", "RunCompleted",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	})
}

// spec: L-3
func TestContextGivesWhatTheRunIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type order struct{ ID string }
		wf := perdure.Define("w", func(ctx context.Context, o order) (perdure.Info, error) {
			for _, name := range []string{"b", "a", "b"} {
				_, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
					in, err := perdure.InfoOf(ctx)
					if in.WorkflowID != "ord-1" {
						t.Error("in a step:", in, err)
					}
					return 0, err
				})
				if err != nil {
					return perdure.Info{}, err
				}
			}
			if p, err := perdure.Payload[order](ctx); err != nil || p != o {
				t.Error(p, err)
			}
			return perdure.InfoOf(ctx)
		})
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, order{"x"}, perdure.ID("ord-1"))
		if err != nil {
			t.Fatal(err)
		}
		if out.RunID != run.RunID() || out.WorkflowID != "ord-1" || out.Workflow != "w" ||
			out.Status != journal.Running ||
			string(out.Payload) != `{"ID":"x"}` || !slices.Equal(out.Steps, []string{"b", "a"}) {
			t.Errorf("%+v", out)
		}
	})
}

// spec: R-15
func TestIdempotencyKeyIsStableAndDistinct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		keys := map[string][]string{} // by what was asked
		note := func(what string) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				keys[what] = append(keys[what], perdure.IdempotencyKey(ctx))
				if n, _, _ := perdure.Attempt(ctx); n < 3 {
					return 0, errors.New("again")
				}
				return 0, nil
			}
		}
		long := strings.Repeat("n", 255)
		wf := perdure.Define("w", func(ctx context.Context, who string) (int, error) {
			for range 2 {
				if _, err := perdure.Step(ctx, "s", note(who+" s")); err != nil {
					return 0, err
				}
			}
			for _, k := range []perdure.Key{"1", "2"} {
				if _, err := perdure.Step(ctx, "s", note(who+" s"+string(k)), k); err != nil {
					return 0, err
				}
			}
			f := perdure.Go(ctx, "b", func(ctx context.Context) (int, error) {
				return perdure.Step(ctx, "s", note(who+" b/s"))
			})
			if _, err := f.Await(ctx); err != nil {
				return 0, err
			}
			return perdure.Step(ctx, long, note(who+" long"))
		}, perdure.Retry{Attempts: 5, First: time.Second})
		w := world.New(t, wf)
		defer func() { w.End() }()
		for _, who := range []string{"x", "y"} {
			world.Start(w, wf, who, perdure.ID(who))
			time.Sleep(1500 * time.Millisecond)
			w.Crash()
			run, err := wf.Get(context.Background(), w.Engine, who)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Result(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		distinct := map[string]bool{}
		for what, ks := range keys {
			if what == "x s" || what == "y s" { // two visits
				if len(ks) < 6 || ks[0] != ks[1] || ks[0] == ks[len(ks)-1] {
					t.Errorf("%s: %v", what, ks)
				}
				distinct[ks[0]] = true
				ks = ks[len(ks)-1:]
			}
			for _, k := range ks {
				if k != ks[0] || len(k) == 0 || len(k) > 255 {
					t.Errorf("%s: %q and %q", what, ks[0], k)
				}
			}
			distinct[ks[0]] = true
		}
		if len(distinct) != 12 {
			t.Errorf("%d distinct keys, want 12", len(distinct))
		}
		if k := perdure.IdempotencyKey(context.Background()); k != "" {
			t.Errorf("a key outside of a step: %q", k)
		}
	})
}

// spec: R-16
func TestOnceKeepsTheFirstValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type form struct {
			A int
			b int
		}
		produced := 0
		var seen []form
		var failed error
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for range 2 {
				_, err := perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
					if _, err := perdure.Once(ctx, "e", func() (int, error) {
						return 0, world.ErrOdd
					}); !errors.Is(err, world.ErrOdd) {
						failed = err
					}
					v, err := perdure.Once(ctx, "k", func() (form, error) {
						produced++
						return form{produced, 5}, nil
					})
					seen = append(seen, v)
					if err != nil {
						return 0, err
					}
					big, err := perdure.Once(ctx, "big", func() ([]byte, error) {
						return make([]byte, 1<<20), nil
					})
					if err != nil || len(big) != 1<<20 {
						t.Error(len(big), err)
					}
					if n, _, _ := perdure.Attempt(ctx); n < 3 {
						return 0, errors.New("again")
					}
					return 0, nil
				}, perdure.Retry{Attempts: 5, First: time.Second, Factor: 1})
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(1500 * time.Millisecond) // two attempts are over
		w.Crash()
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(context.Background()); err != nil {
			t.Fatal(err)
		}
		// the first visit has the value of 1 three times, the second that of 2; b is
		// not part of the stored form
		if want := []form{{1, 0}, {1, 0}, {1, 0}, {2, 0}, {2, 0}, {2, 0}}; produced != 2 ||
			!slices.Equal(seen, want) {
			t.Errorf("produced %d times, seen %v", produced, seen)
		}
		if failed != nil {
			t.Error("an error of the producer came back as", failed)
		}
		w.History("x")
	})
}
