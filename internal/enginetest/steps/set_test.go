package steps

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/memory"
)

// names maps futures to their names.
type names map[pattern.Awaitable]string

// drain returns the names of the futures in a set, in the order in which they end.
func drain(set *pattern.Set, of names) (order []string, err error) {
	for set.Len() > 0 {
		f, err := set.Next()
		if err != nil {
			return order, err
		}
		order = append(order, of[f])
	}
	return order, nil
}

// A step, a branch, a child, a timer and a signal end one after the other. When the first has
// ended, two more are added, one of which has ended before. A crash after any commit does not
// change the order.
//
// spec: L-15
func TestASetGivesFuturesOfAllTypesInTheOrderOfTheirEnds(t *testing.T) {
	waits := func(name string, d time.Duration) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return name, perdure.Sleep(ctx, d) }
	}
	child := perdure.Define("child", func(ctx context.Context, d time.Duration) (string, error) {
		return waits("child", d)(ctx)
	})
	never := perdure.NewSignal[int]("never")
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (string, error) {
		set, err := pattern.NewSet(ctx)
		if err != nil {
			return "", err
		}
		defer set.Close()
		of := names{}
		var errs []error
		add := func(name string, f pattern.Awaitable) {
			of[f] = name
			errs = append(errs, set.Add(f))
		}
		early := perdure.Async(ctx, "early", world.Work("early", time.Second, nil))
		add("signal", never.Future(ctx, perdure.Within(10_000*time.Second)))
		add("child", child.Child(ctx, 1000*time.Second))
		add("branch", perdure.Go(ctx, "branch", waits("branch", 100*time.Second)))
		add("step", perdure.Async(ctx, "step", world.Work("step", 10*time.Second, nil)))
		first, err := set.Next()
		if err != nil {
			return "", err
		}
		number := perdure.Async(ctx, "number", func(context.Context) (int, error) {
			world.Pause(ctx, 20*time.Second)
			return 7, world.ErrOdd
		})
		add("number", number)
		add("timer", perdure.Timer(ctx, "timer", 5000*time.Second))
		add("early", early)
		order, err := drain(set, of)
		return of[first] + " " + strings.Join(order, " "), errors.Join(append(errs, err)...)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, parent, 0)
		out, err := run.Result()
		if want := "step early number branch child timer signal"; out != want || err != nil {
			env.Errorf("the order is %q, want %q; %v", out, want, err)
		}
		return out
	}, parent, child)
}

// Steps of random lengths, many of which end at one time, are added at random times. The order is
// that of the journal, also for steps that had ended before a crash.
//
// spec: L-15
func TestTheOrderOfASetIsThatOfTheJournal(t *testing.T) {
	rng := world.Seeded(t)
	for range 50 {
		n, seed := 1+rng.IntN(30), rng.Uint64()
		crash := time.Duration(rng.IntN(8)) * time.Second
		synctest.Test(t, func(t *testing.T) {
			wf := perdure.Define("w", func(ctx context.Context, n int) ([]string, error) {
				rng := rand.New(rand.NewPCG(seed, 0))
				set, err := pattern.NewSet(ctx)
				if err != nil {
					return nil, err
				}
				defer set.Close()
				of := names{}
				var order []string
				for i := range n {
					name := fmt.Sprint("s", i)
					f := perdure.Async(ctx, name,
						world.Work(name, time.Duration(rng.IntN(5))*time.Second, nil))
					of[f] = name
					if err := set.Add(f); err != nil {
						return nil, err
					}
					if rng.IntN(3) == 0 {
						f, err := set.Next()
						if err != nil {
							return nil, err
						}
						order = append(order, of[f])
					}
				}
				rest, err := drain(set, of)
				return append(order, rest...), errors.Join(err, perdure.Sleep(ctx, time.Hour))
			})
			w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
			defer func() { w.End() }()
			world.StartAndSettle(w, wf, n, perdure.ID("x"))
			time.Sleep(crash)
			w.Crash()
			got, err := world.OutcomeOf(w, wf, "x")
			var want []string
			for _, e := range w.History("x") {
				if e.Kind.EndsStep() {
					want = append(want, e.Op.Name)
				}
			}
			if !slices.Equal(got, want) || len(got) != n || err != nil {
				t.Errorf("seed %d: the order is %q, want %q; %v", seed, got, want, err)
			}
		})
	}
}

// inWorkflow runs code once in a workflow of its own.
func inWorkflow(t *testing.T, code func(ctx context.Context) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 0, code(ctx)
		})
		w := world.With(t, perdure.Options{IdleTimeout: time.Hour * 24}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		if _, err := world.OutcomeOf(w, wf, "x"); err != nil {
			t.Error(err)
		}
	})
}

// spec: L-15
func TestASetCountsEachFutureOnce(t *testing.T) {
	inWorkflow(t, func(ctx context.Context) error {
		set, err := pattern.NewSet(ctx)
		if err != nil {
			return err
		}
		next := func(want pattern.Awaitable, left int) {
			t.Helper()
			if f, err := set.Next(); f != want || err != nil || set.Len() != left {
				t.Errorf("it gives %v, %v, and has %d left, want %v and %d", f, err, set.Len(),
					want, left)
			}
		}
		next(nil, 0)
		f := perdure.Async(ctx, "f", world.Work("f", time.Second, nil))
		other := perdure.Async(ctx, "other", world.Work("other", 2*time.Second, nil))
		broken := perdure.Async(ctx, "no name", world.Work("", 0, nil))
		for _, a := range []pattern.Awaitable{f, f, other, broken, broken, f, other} {
			if err := set.Add(a); err != nil {
				t.Error(err)
			}
		}
		if set.Len() != 3 {
			t.Errorf("it has %d", set.Len())
		}
		next(broken, 2)
		next(f, 1)
		if err := set.Add(broken); err != nil {
			t.Error(err)
		}
		next(broken, 1)
		next(other, 0)
		next(nil, 0)
		// they have ended, and come as they are added
		for _, a := range []pattern.Awaitable{other, f, f} {
			if err := set.Add(a); err != nil {
				t.Error(err)
			}
		}
		next(other, 1)
		next(f, 0)
		_, err = broken.Await(ctx)
		world.CodeIs(t, err, journal.CodeInvalid)
		world.CodeIs(t, set.Add(nil), journal.CodeInvalid)
		pending := perdure.Async(ctx, "pending", world.Work("pending", time.Hour, nil))
		if err := errors.Join(set.Add(pending), set.Add(broken)); err != nil {
			t.Error(err)
		}
		set.Close()
		set.Close()
		if set.Len() != 0 {
			t.Errorf("when it is closed it has %d", set.Len())
		}
		_, err = set.Next()
		world.CodeIs(t, err, journal.CodeMisuse)
		world.CodeIs(t, set.Add(f), journal.CodeMisuse)
		s, err := pending.Await(ctx)
		if s != 7*len("pending") || err != nil {
			t.Errorf("what was in it gives %v, %v", s, err)
		}
		return nil
	})
}

// spec: L-15
func TestASetIsOfOneRunAndOneGoroutine(t *testing.T) {
	_, err := pattern.NewSet(context.Background())
	world.CodeIs(t, err, journal.CodeMisuse)
	var foreign pattern.Awaitable
	inWorkflow(t, func(ctx context.Context) error {
		foreign = perdure.Async(ctx, "f", world.Work("f", 0, nil))
		return nil
	})
	inWorkflow(t, func(ctx context.Context) error {
		set, err := pattern.NewSet(ctx)
		if err != nil {
			return err
		}
		defer set.Close()
		world.CodeIs(t, set.Add(foreign), journal.CodeMisuse)
		if set.Len() != 0 {
			t.Errorf("it has %d", set.Len())
		}
		own := perdure.Async(ctx, "own", world.Work("own", time.Second, nil))
		_, err = perdure.Go(ctx, "branch", func(context.Context) (int, error) {
			world.CodeIs(t, set.Add(own), journal.CodeMisuse)
			if f, err := set.Next(); f != nil || err != nil { // it is empty
				t.Errorf("it gives %v, %v", f, err)
			}
			return 0, nil
		}).Await(ctx)
		_, err2 := perdure.Step(ctx, "step", func(ctx context.Context) (int, error) {
			_, err := pattern.NewSet(ctx)
			world.CodeIs(t, err, journal.CodeMisuse)
			return 0, nil
		})
		return errors.Join(err, err2)
	})
}

// When the context that a set was made with ends, the waiting ends for good, after the futures
// that had ended before; on replay too.
//
// spec: L-15
func TestTheEndOfItsContextEndsASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			set, err := pattern.NewSet(short)
			if err != nil {
				return "", err
			}
			defer set.Close()
			of := names{}
			slow := perdure.Async(ctx, "slow", world.Work("slow", 10*time.Second, nil))
			for _, f := range []*perdure.Future[int]{slow,
				perdure.Async(ctx, "fast", world.Work("fast", time.Second, nil))} {
				s := fmt.Sprint(len(of))
				if of[f] = s; set.Add(f) != nil {
					return "", world.ErrOdd
				}
			}
			order, err := drain(set, of)
			_, again := set.Next()
			added := set.Add(slow)
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			is := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
			v, late := slow.Await(ctx)
			return fmt.Sprint(order, set.Len(), is(err), is(again), is(added), v, late), nil
		})
		w := world.With(t, perdure.Options{IdleTimeout: -1}, wf)
		defer func() { w.End() }()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		time.Sleep(time.Minute)
		w.Crash()
		if out, err := world.OutcomeOf(w, wf, "x"); out != "[1] 1 true true true 28 <nil>" ||
			err != nil {
			t.Errorf("it gives %q, %v", out, err)
		}
	})
}

// spec: L-15
func TestTheEndOfItsRunEndsASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, added error
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			set, err := pattern.NewSet(ctx)
			if err != nil {
				return 0, err
			}
			defer set.Close()
			f := perdure.Async(ctx, "f", world.Work("f", time.Hour, nil))
			if err := set.Add(f); err != nil {
				return 0, err
			}
			_, got = set.Next()
			added = set.Add(perdure.Async(ctx, "g", world.Work("g", time.Hour, nil)))
			_, err = set.Next()
			return 0, err
		})
		w := world.With(t, perdure.Options{}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		if err := w.Engine.Cancel(context.Background(), "x", "enough"); err != nil {
			t.Fatal(err)
		}
		_, err := world.OutcomeOf(w, wf, "x")
		world.CodeIs(t, err, journal.CodeCancelled)
		synctest.Wait()
		world.CodeIs(t, got, journal.CodeCancelled)
		if added != nil { // an operation that never began counts as ended
			t.Error(added)
		}
	})
}

// One set of 16,000 futures takes about as long as 16 sets of 1,000, and not 16 times as long:
// while the futures run, and when they have ended.
//
// spec: L-15
func TestManyFuturesInASetTakeNoMoreThanTheirNumber(t *testing.T) {
	world.TryThrice(t, func() error { return manyFutures(t) })
}

func manyFutures(t *testing.T) error {
	t.Helper()
	const few, many = 1_000, 16_000
	took := map[string]map[int]time.Duration{"while they run": {}, "when they have ended": {}}
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		var all []pattern.Awaitable
		gate := make(chan struct{})
		for range n {
			all = append(all, perdure.Async(ctx, "s", func(context.Context) (int, error) {
				<-gate
				return 0, nil
			}))
		}
		time.AfterFunc(time.Millisecond, func() { close(gate) })
		for _, when := range []string{"while they run", "when they have ended"} {
			began := time.Now()
			if err := through(ctx, all, n/2); err != nil {
				return 0, err
			}
			took[when][n] += time.Since(began)
			for _, f := range all {
				if _, err := f.(*perdure.Future[int]).Await(ctx); err != nil {
					return 0, err
				}
			}
		}
		return 0, nil
	})
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() { stop(); <-done }()
	for _, n := range append(slices.Repeat([]int{few}, many/few), many) {
		run, err := wf.Start(ctx, eng, n)
		if err == nil {
			_, err = run.Result(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for when, took := range took {
		t.Logf("%s: %v for %d times %d futures, %v for %d", when, took[few], many/few, few,
			took[many], many)
		if took[many] > 8*took[few] {
			return fmt.Errorf("%s as many futures take %.0f times as long in one set", when,
				float64(took[many])/float64(took[few]))
		}
	}
	return nil
}

// through adds futures to a set, takes them off until so many are left, and closes it.
func through(ctx context.Context, all []pattern.Awaitable, left int) error {
	set, err := pattern.NewSet(ctx)
	if err != nil {
		return err
	}
	defer set.Close()
	for _, f := range all {
		if err := set.Add(f); err != nil {
			return err
		}
	}
	for set.Len() > left {
		if _, err := set.Next(); err != nil {
			return err
		}
	}
	return nil
}
