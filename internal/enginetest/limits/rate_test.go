package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
)

// A meter records when calls were made.
type meter struct {
	mu    sync.Mutex
	begun time.Time
	calls []time.Duration
}

func (m *meter) call() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, time.Since(m.begun))
	return len(m.calls)
}

// most returns the most calls in a span of time.
func (m *meter) most(span time.Duration) (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.calls)
	for i := range m.calls {
		n := 0
		for _, at := range m.calls[i:] {
			if at-m.calls[i] < span {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// calls is a workflow with a step whose first attempts fail.
func calls(m *meter, fails int, opts ...perdure.StepOption) *perdure.Workflow[string, string] {
	return perdure.Define("calls", func(ctx context.Context, in string) (string, error) {
		for _, name := range []string{"one", "two"} {
			err := perdure.Do(ctx, name, func(ctx context.Context) error {
				n, _, err := perdure.Attempt(ctx)
				if m.call(); err == nil && n <= fails {
					err = errors.New("busy")
				}
				return err
			}, opts...)
			if err != nil {
				return "", err
			}
		}
		return in, nil
	})
}

// spec: R-33
func TestAStepWaitsForATokenWithoutAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{begun: time.Now()}
		rate := limit.Control{
			Name: "bank", Rate: limit.Rate{Tokens: 1, Per: time.Minute, Burst: 2},
		}
		def := calls(m, 1, rate, perdure.Retry{Attempts: 2, First: time.Second})
		w := world.New(t, def)
		defer w.End()
		run := world.StartAndSettle(w, def, "a")
		time.Sleep(3 * time.Second) // the second attempt has the second token
		synctest.Wait()
		d := w.Describe(run.RunID())
		if len(d.State.Waits) != 1 || d.State.Waits[0].Kind != journal.WaitSlot ||
			d.State.Waits[0].Reason != "bank:rate" || d.State.Waits[0].Path != "two" {
			t.Errorf("it waits for %+v", d.State.Waits)
		}
		if why := "it waits at two for limit bank:rate: its token is due at " +
			m.begun.Add(time.Minute).UTC().Format(time.RFC3339); d.Why != why {
			t.Errorf("why: %s, want %s", d.Why, why)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, time.Second, time.Minute, 2 * time.Minute}
		for i, at := range m.calls {
			m.calls[i] = at.Round(time.Second)
		}
		if fmt.Sprint(m.calls) != fmt.Sprint(want) {
			t.Errorf("calls at %v, want %v", m.calls, want)
		}
		for _, step := range w.Describe(run.RunID()).State.Steps {
			if step.Attempts != 2 {
				t.Errorf("step %s has %d attempts", step.Path, step.Attempts)
			}
		}
		if wrong := world.Audit(w.Describe(run.RunID()), w.History(run.RunID())); wrong != nil {
			t.Error(wrong)
		}
	})
}

// spec: R-33
func TestARateHoldsOverCrashes(t *testing.T) {
	world.OverCrashes(t, 8, func() world.Scenario {
		m := &meter{begun: time.Now()}
		rate := limit.Control{
			Name: "bank", Rate: limit.Rate{Tokens: 2, Per: time.Minute, Burst: 2},
		}
		def := calls(m, 0, rate)
		ids := []string{"a", "b", "c"}
		return world.Scenario{
			Workflows: []perdure.Definition{def}, Begin: startAll(def, ids), Over: allOver(ids),
			Check: func(t *testing.T, w *world.World, crashes int) {
				completed(t, w, ids)
				// an attempt that a crash has interrupted is made again with its token
				if got := m.most(time.Minute); got > 2+2+crashes*2 {
					t.Errorf("%d calls in a minute", got)
				}
				noSlots(t, w)
			},
		}
	})
}

// spec: R-33
func TestKeysHaveRatesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		begun := time.Now()
		def := perdure.Define("calls", func(ctx context.Context, key string) (int, error) {
			return 0, perdure.Do(ctx, "call", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				at[key] = append(at[key], time.Since(begun).Round(time.Second))
				return nil
			}, limit.Control{
				Name: "bank", Key: limit.Is(key), Rate: limit.Rate{Tokens: 1, Per: time.Minute},
			})
		})
		w := world.New(t, def)
		defer w.End()
		for _, key := range []string{"a", "b", "a", "b", "a"} {
			world.StartAndSettle(w, def, key)
		}
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(at) != "map[a:[0s 1m0s 2m0s] b:[0s 1m0s]]" {
			t.Errorf("calls at %v", at)
		}
		noSlots(t, w)
	})
}

// spec: R-33
func TestAStepThatWaitsForATokenIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{begun: time.Now()}
		def := calls(m, 0, limit.Control{
			Name: "bank", Rate: limit.Rate{Tokens: 1, Per: time.Hour},
		}, perdure.Timeout(time.Minute))
		w := world.New(t, def)
		defer w.End()
		run := world.StartAndSettle(w, def, "a")
		time.Sleep(30 * time.Minute)
		w.Crash()
		world.NoError(t, w.Engine.Cancel(t.Context(), run.RunID(), "no"))
		if got := w.Status(run.RunID()); got != journal.Cancelled {
			t.Errorf("it is %v", got)
		}
		next := world.StartAndSettle(w, def, "b")
		if _, err := next.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if len(m.calls) != 3 {
			t.Errorf("%d calls", len(m.calls))
		}
		noSlots(t, w)
	})
}

// A limit that is changed gives tokens other times, and tells the runs that wait, loaded or not.
//
// spec: R-33, B-9
func TestAStepThatWaitsHasItsTokenSoonerOrLaterWhenTheRateChanges(t *testing.T) {
	for name, every := range map[string]time.Duration{
		"sooner": 5 * time.Minute, "later": 5 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
				m := &meter{begun: time.Now()}
				rate := limit.Control{
					Name: "bank", Rate: limit.Rate{Tokens: 1, Per: time.Hour},
				}
				// a step beside them keeps its run loaded
				loaded := perdure.Define("loaded", func(ctx context.Context, _ int) (int, error) {
					long := perdure.Async(ctx, "long", func(context.Context) (int, error) {
						time.Sleep(9 * time.Hour)
						return 0, nil
					})
					if err := perdure.Do(ctx, "call", func(context.Context) error {
						m.call()
						return nil
					}, rate); err != nil {
						return 0, err
					}
					return long.Await(ctx)
				})
				plain := calls(m, 0, rate)
				w := world.With(t, o, plain, loaded)
				defer w.End()
				run := world.StartAndSettle(w, plain, "a")
				beside := world.StartAndSettle(w, loaded, 0)
				info, err := w.DB.Info(t.Context())
				world.NoError(t, err)
				world.NoError(t, w.DB.Commit(t.Context(), &store.Group{
					Engine: info.Engines[0].ID, Now: time.Now(), Changes: []store.Change{
						{Adjusts: []store.Adjust{{
							Limit: "bank:rate", Every: every, Burst: 1, Revision: 1,
						}}},
					},
				}))
				time.Sleep(24 * time.Hour)
				for _, id := range []string{run.RunID(), beside.RunID()} {
					if got := w.Status(id); got != journal.Completed {
						t.Fatalf("%s is %v: %s", id, got, w.Describe(id).Why)
					}
				}
				for i, at := range m.calls {
					if at.Round(time.Minute) != time.Duration(i)*every {
						t.Errorf("call %d at %v, want %v", i, at, time.Duration(i)*every)
					}
				}
				if len(m.calls) != 3 {
					t.Errorf("%d calls", len(m.calls))
				}
				noSlots(t, w)
			})
		})
	}
}

// spec: R-33
func TestABadControlOfAStepIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := limit.Rate{Tokens: 1, Per: time.Second}
		def := perdure.Define("bad", func(ctx context.Context, _ int) (int, error) {
			for _, c := range []limit.Control{
				{}, {Name: "x"}, {Rate: rate}, {Name: "x", Rate: rate, Concurrency: 1},
				{Name: "x", Rate: rate, Key: keyOf}, {Name: "x", Rate: limit.Rate{Tokens: -1}},
				{Name: "x", Rate: rate, Rank: limit.RankBy(func(int) int { return 1 })},
			} {
				err := perdure.Do(ctx, "step", func(context.Context) error { return nil }, c)
				if journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("%+v: %v", c, err)
				}
			}
			return 0, nil
		})
		w := world.New(t, def)
		defer w.End()
		if _, _, err := world.Result(w, def, 0); err != nil {
			t.Error(err)
		}
	})
}
