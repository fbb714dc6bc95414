package waiting

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

var wakeUp = perdure.NewSignal[int]("wake-up")

// patient is a workflow whose runs wait: those with an input for that long, the others for a
// signal. They return how late they go on.
func patient() *perdure.Workflow[time.Duration, time.Duration] {
	return perdure.Define("patient", func(ctx context.Context, wait time.Duration) (time.Duration,
		error) {
		due, err := perdure.Now(ctx)
		if err != nil {
			return 0, err
		}
		due = due.Add(wait)
		if wait == 0 {
			_, err = wakeUp.Wait(ctx)
		} else {
			err = perdure.SleepUntil(ctx, due)
		}
		now, failed := perdure.Now(ctx)
		return now.Sub(due), errors.Join(err, failed)
	})
}

// crowd starts n runs of a workflow; input returns the input of each.
func crowd[I, O any](t *testing.T, eng *perdure.Engine, wf *perdure.Workflow[I, O], n int,
	input func(int) I) []*perdure.Run[O] {
	t.Helper()
	runs := make([]*perdure.Run[O], n)
	var next atomic.Int64
	var starters sync.WaitGroup
	for range 256 {
		starters.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				run, err := wf.Start(context.Background(), eng, input(i),
					perdure.ID(fmt.Sprint("r-", i)))
				if err != nil {
					t.Error(err)
					return
				}
				runs[i] = run
			}
		})
	}
	starters.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return runs
}

// owned returns how many runs the engine of a store has at least.
func owned(t *testing.T, s store.Store) int {
	t.Helper()
	info, err := s.Info(context.Background())
	if err != nil || len(info.Engines) != 1 {
		t.Fatalf("engines %v, %v", info.Engines, err)
	}
	heads, _, err := s.Find(context.Background(), store.Filter{
		Owner: info.Engines[0].ID, Open: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(heads)
}

// bubbled counts the goroutines of the bubble. [runtime.NumGoroutine] counts those of
// the runtime too, of which there are more after garbage was collected.
func bubbled() int {
	dump := make([]byte, 1<<20)
	return strings.Count(string(dump[:runtime.Stack(dump, true)]), ", synctest bubble ")
}

// Runs that sleep or wait exist in the store only: they have no goroutine, the engine owns none of
// them, and it makes no calls to the store for them. Then all go on.
//
// spec: L-23, B-6
func TestASleepingCrowdCostsNothingWhileNothingIsDue(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 3000
	}
	synctest.Test(t, func(t *testing.T) {
		var calls *storetest.Faulty // counts them
		w := &world.World{T: t, DB: memory.New()}
		wf := patient()
		w.Workflows, w.Options.Build = []perdure.Definition{wf}, "test"
		w.Wrap = func(below store.Store) store.Store {
			calls = storetest.NewFaulty(below)
			return calls
		}
		w.Begin()
		defer w.End()
		synctest.Wait()
		before := bubbled()
		const long = 12 * time.Hour
		crowd(t, w.Engine, wf, n, func(i int) time.Duration { return time.Duration(i%2) * long })
		time.Sleep(2 * time.Second) // those that wait for a message leave memory after one
		synctest.Wait()
		if after := bubbled(); after > before {
			t.Errorf("%d goroutines, %d with %d runs asleep", before, after, n)
		}
		if k := owned(t, w.DB); k > 0 {
			t.Errorf("the engine owns %d runs at least", k)
		}
		asked := calls.Calls(storetest.Any)
		time.Sleep(10 * time.Minute)
		if asked = calls.Calls(storetest.Any) - asked; asked > 100 {
			t.Errorf("the store was asked %d times in ten minutes", asked)
		}
		for i := 0; i < n; i += n / 10 {
			if _, err := wakeUp.Send(context.Background(), w.Engine, fmt.Sprint("r-", i),
				i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(long)
		synctest.Wait()
		if ended := len(w.Seen(observe.RunEnded)); ended != n/2+10 {
			t.Errorf("%d runs have ended, want %d", ended, n/2+10)
		}
	})
}

// A sleeping run takes less than 200 bytes in the memory of its engine: 100,000 of them take 20 MB.
//
// spec: L-23
func TestASleepingRunLeavesNothingInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a database")
	}
	const n, most = 10_000, 200
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "crowd.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	synctest.Test(t, func(t *testing.T) {
		wf := patient()
		eng, err := perdure.New(s, perdure.Options{Build: "test", IdleTimeout: -1})
		if err == nil {
			err = eng.Register(wf)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- eng.Run(ctx) }()
		crowd(t, eng, wf, 2000, func(int) time.Duration { return time.Hour })
		before := heap()
		crowd(t, eng, wf, n, func(i int) time.Duration { return time.Duration(1+i%2) * time.Hour })
		if grown := heap() - before; grown > int64(n*most) {
			t.Errorf("%d runs asleep take %d bytes", n, grown)
		}
		if k := owned(t, s); k > 0 {
			t.Errorf("the engine owns %d runs at least", k)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// heap returns the memory in use a minute later, after everything unused was released.
func heap() int64 {
	time.Sleep(time.Minute)
	synctest.Wait()
	for range 3 { // the second time frees what pools have kept
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ten thousand runs are in flight on two cores, each in the body of a step at the
// same time as all others, and all end.
//
// spec: L-23
func TestTenThousandRunsInFlightAllEnd(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 2000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int64
		all := make(chan struct{})
		wf := perdure.Define("meet", func(ctx context.Context, i int) (int, error) {
			v, err := perdure.Step(ctx, "meet", func(ctx context.Context) (int, error) {
				if int(inside.Add(1)) == n {
					close(all)
				}
				select {
				case <-all:
					return i, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
			if err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "part", func(context.Context) (int, error) {
				return v + 1, nil
			})
		})
		w := world.New(t, wf)
		defer w.End()
		for i, run := range crowd(t, w.Engine, wf, n, func(i int) int { return i }) {
			if v, err := run.Result(context.Background()); v != i+1 || err != nil {
				t.Fatalf("run %d: %d, %v", i, v, err)
			}
		}
		if m := int(inside.Load()); m != n {
			t.Errorf("%d bodies were executed, want %d", m, n)
		}
	})
}

// lateness starts runs that are due one after the other and returns the smallest and the largest
// delay.
func lateness(t *testing.T, opts perdure.Options) (first, last time.Duration) {
	t.Helper()
	const n = 1000
	wf := patient()
	w := &world.World{T: t, DB: memory.New(), Options: opts, Workflows: []perdure.Definition{wf}}
	w.Options.Build = "test"
	w.Begin()
	defer w.End()
	runs := crowd(t, w.Engine, wf, n, func(i int) time.Duration {
		return 700*time.Millisecond + time.Duration(i)*time.Millisecond
	})
	first = time.Hour
	for _, run := range runs {
		late, err := run.Result(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		first, last = min(first, late), max(last, late)
	}
	return first, last
}

// Timers that come due at a thousand a second are never early, and as punctual as possible: by the
// sweep alone they are late by one sweep at most.
//
// spec: R-13
func TestTimersArePunctualOrLateByOneSweep(t *testing.T) {
	for _, idle := range []time.Duration{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			if first, last := lateness(t, perdure.Options{IdleTimeout: idle}); first < 0 ||
				last > 50*time.Millisecond {
				t.Errorf("idle %v: from %v to %v late", idle, first, last)
			}
		})
	}
	for _, sweep := range []time.Duration{time.Second, 0, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			most := sweep
			if most == 0 {
				most = 30 * time.Second
			}
			first, last := lateness(t, perdure.Options{
				IdleTimeout: -1, Sweep: sweep, SweepOnly: true,
			})
			if first < 0 || last < most/4 || last > most {
				t.Errorf("sweep %v: from %v to %v late", sweep, first, last)
			}
		})
	}
}

// What becomes due without the engine's knowledge is found by the sweep.
//
// spec: R-13
func TestTheSweepFindsWhatTheEngineDoesNotKnow(t *testing.T) {
	for _, sweep := range []time.Duration{0, time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			wf := patient()
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
			w.Options.Build, w.Options.Sweep = "test", sweep
			w.Begin()
			defer w.End()
			synctest.Wait()
			other, err := perdure.NewClient(context.Background(), w.DB)
			if err != nil {
				t.Fatal(err)
			}
			run, err := wf.Start(context.Background(), other, time.Nanosecond)
			if err != nil {
				t.Fatal(err)
			}
			most := sweep
			if most == 0 {
				most = 30 * time.Second
			}
			time.Sleep(most + time.Millisecond)
			synctest.Wait()
			if d, err := w.Engine.Describe(context.Background(), run.RunID()); err != nil ||
				!d.Head.Status.IsTerminal() {
				t.Errorf("after a sweep of %v the run is %v, %v", most, d.Head.Status, err)
			}
		})
	}
}
