package backpressure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

var errBad = errors.New("a bad item")

func init() {
	if err := perdure.RegisterError("test.bad-item", errBad); err != nil {
		panic(err)
	}
}

// A crowd records how many bodies are called at a time, and for which items.
type crowd struct {
	mu    sync.Mutex
	now   int
	most  int
	calls []string
}

// work lasts as many seconds as the number in front of the item. An item with a ! fails.
func (c *crowd) work(_ context.Context, item string) (string, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.calls = append(c.calls, item)
	c.mu.Unlock()
	time.Sleep(time.Duration(item[0]-'0') * time.Second)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	if strings.HasSuffix(item, "!") {
		return "", errBad
	}
	return strings.ToUpper(item), nil
}

// each returns a workflow that calls ForEach over its input.
func each(c *crowd, how backpressure.Each[string], seen func(backpressure.Results[string],
	error)) *perdure.Workflow[[]string, []string] {
	return perdure.Define("each", func(ctx context.Context, items []string) ([]string, error) {
		out, err := backpressure.ForEach(ctx, "do", items, how, c.work, perdure.NoRetry)
		if seen != nil {
			seen(out, err)
		}
		return out.Values(), err
	})
}

// spec: F-45
func TestItemsAreStepsAFewAtATimeWithResultsInTheirOrder(t *testing.T) {
	items := []string{"3a", "1b", "2c", "1d", "5e", "1f"}
	for _, c := range []struct {
		policy backpressure.Policy
		most   int
		took   time.Duration
	}{
		{nil, 6, 5 * time.Second},
		{backpressure.Limit(2), 2, 8 * time.Second},
		{backpressure.Limit(1), 1, 13 * time.Second},
		{backpressure.Batched{Size: 3}, 3, 8 * time.Second},
	} {
		t.Run(fmt.Sprintf("%T %v", c.policy, c.policy), func(t *testing.T) {
			seen := &crowd{}
			w := each(seen, backpressure.Each[string]{Policy: c.policy}, nil)
			perduretest.Test(t, func(env *perduretest.Env) {
				begun := time.Now()
				run := perduretest.Start(env, w, items)
				run.Returns([]string{"3A", "1B", "2C", "1D", "5E", "1F"})
				if took := time.Since(begun); seen.most != c.most || took != c.took {
					t.Errorf("%d at a time in %v, want %d in %v", seen.most, took, c.most, c.took)
				}
				run.Executed("do", len(items))
			}, w)
		})
	}
}

// If more items have failed than may, no further item begins, and the error has the errors of the
// items.
//
// spec: F-45
func TestSomeItemsMayFail(t *testing.T) {
	items := []string{"1a", "1b!", "1c", "1d!", "1e", "1f!", "1g", "1h"}
	for _, c := range []struct {
		how    backpressure.Each[string]
		failed []int // or not begun
		calls  int
		fails  bool
	}{
		{backpressure.Each[string]{}, []int{1, 2, 3, 4, 5, 6, 7}, 2, true},
		{backpressure.Each[string]{Failures: 1}, []int{1, 3, 4, 5, 6, 7}, 4, true},
		{backpressure.Each[string]{Failures: 2}, []int{1, 3, 5, 6, 7}, 6, true},
		{backpressure.Each[string]{Failures: 3}, []int{1, 3, 5}, 8, false},
		{backpressure.Each[string]{FailedShare: 0.25}, []int{1, 3, 5, 6, 7}, 6, true},
		{backpressure.Each[string]{FailedShare: 0.375}, []int{1, 3, 5}, 8, false},
		{backpressure.Each[string]{FailedShare: 1}, []int{1, 3, 5}, 8, false},
	} {
		c.how.Policy = backpressure.Batched{Size: 2}
		var out backpressure.Results[string]
		var err error
		seen := &crowd{}
		w := each(seen, c.how, func(r backpressure.Results[string], e error) { out, err = r, e })
		perduretest.Test(t, func(env *perduretest.Env) {
			_, _ = perduretest.Start(env, w, items).Result()
		}, w)
		if got := out.Failed(); !slices.Equal(got, c.failed) || len(seen.calls) != c.calls {
			t.Errorf("%+v: %v failed after %d calls, want %v and %d", c.how, got, len(seen.calls),
				c.failed, c.calls)
		}
		if (err != nil) != c.fails || c.fails && (journal.CodeOf(err) != journal.CodeFailed ||
			!errors.Is(err, errBad)) {
			t.Errorf("%+v: %v", c.how, err)
		}
		for i, r := range out {
			if strings.HasSuffix(items[i], "!") && i < c.calls && !errors.Is(r.Err, errBad) {
				t.Errorf("%+v: item %d: %v", c.how, i, r.Err)
			}
		}
	}
}

// Wherever a crash comes, each item is done and has its result once.
//
// spec: F-45
func TestForEachBearsCrashes(t *testing.T) {
	var charged map[string]bool
	var mu sync.Mutex
	w := perdure.Define("w", func(ctx context.Context, items []string) ([]string, error) {
		out, err := backpressure.ForEach(ctx, "do", items, backpressure.Each[string]{
			Policy: backpressure.Adaptive{Start: 2}, Key: func(item string) string {
				return item[1:]
			}, Failures: 1,
		}, func(ctx context.Context, item string) (string, error) {
			mu.Lock()
			charged[perdure.IdempotencyKey(ctx)] = true
			mu.Unlock()
			time.Sleep(time.Duration(item[0]-'0') * time.Second)
			if item == "2bad" {
				return "", errBad
			}
			return item[1:], nil
		}, perdure.NoRetry)
		if err != nil {
			return nil, err
		}
		if got := out.Failed(); !slices.Equal(got, []int{1}) || !errors.Is(out[1].Err, errBad) {
			return nil, fmt.Errorf("%v failed: %w", got, out[1].Err)
		}
		return out.Values(), nil
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		charged = map[string]bool{}
		perduretest.Start(env, w, []string{"3a", "2bad", "1b", "1c", "2d"}).
			Returns([]string{"a", "", "b", "c", "d"})
		return len(charged)
	}, w)
}

// Items with keys are found again if a newer build has another order and more items.
//
// spec: F-45
func TestItemsAreKnownByTheirKeys(t *testing.T) {
	items := []string{"1a", "9b", "1c"}
	with := func() *perdure.Workflow[int, []string] {
		mine := slices.Clone(items)
		return perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
			out, err := backpressure.ForEach(ctx, "do", mine, backpressure.Each[string]{
				Key: func(item string) string { return item },
			}, (&crowd{}).work)
			return out.Values(), err
		}, perdure.ByName)
	}
	w := with()
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, w, 1)
		env.Sleep(2 * time.Second)
		items = []string{"9b", "1d", "1c", "1a"}
		newer := with()
		env.Deploy(newer)
		run.Returns([]string{"9B", "1D", "1C", "1A"})
		for item, n := range map[string]int{"1a": 1, "1c": 1, "1d": 1} {
			run.Executed("do["+item+"]", n)
		}
	}, w)
}

var errClosed = errors.New("closed")

// closing is a policy that lets one thing go on at a time, and nothing after a failure.
type closing struct{}

func (closing) Begin() backpressure.Limiter { return &closer{} }

type closer struct{ closed error }

func (c *closer) Room(running int, _ time.Time) (int, error) { return 1 - running, c.closed }

func (c *closer) Ended(err error, _ time.Time) {
	if err != nil {
		c.closed = errClosed
	}
}

// An item that the policy refuses gets the policy's error, and counts as a failure.
// The policy is of the test.
//
// spec: F-45, P-15
func TestARefusedItemHasTheErrorOfThePolicy(t *testing.T) {
	var out backpressure.Results[string]
	seen := &crowd{}
	w := each(seen, backpressure.Each[string]{Policy: closing{}, Failures: 2},
		func(r backpressure.Results[string], _ error) { out = r })
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, w, []string{"1a", "1b!", "1c"}).Returns([]string{"1A", "", ""})
	}, w)
	if !slices.Equal(out.Failed(), []int{1, 2}) || !errors.Is(out[2].Err, errClosed) ||
		len(seen.calls) != 2 {
		t.Errorf("%v failed after %v: %v", out.Failed(), seen.calls, out[2].Err)
	}
}

// spec: F-45
func TestWhatForEachIsAskedIsChecked(t *testing.T) {
	type how = backpressure.Each[string]
	work := (&crowd{}).work
	for name, c := range map[string]struct {
		of  func(context.Context) error
		has string
	}{
		"a key twice": {
			forEach("do", []string{"1a", "1a"}, how{Key: func(s string) string { return s }}, work),
			"items 0 and 1",
		},
		"a bad key": {
			forEach("do", []string{"1a", "1 b"}, how{Key: func(s string) string { return s }},
				work), "item 1",
		},
		"a bad name":  {forEach("do it", []string{"1a"}, how{}, work), "do it"},
		"no function": {forEach("do", []string{"1a"}, how{}, nil), "function"},
		"failures":    {forEach("do", []string{"1a"}, how{Failures: -1}, work), "Failures"},
		"share":       {forEach("do", []string{"1a"}, how{FailedShare: 1.5}, work), "FailedShare"},
		"policy": {
			forEach("do", []string{"1a"}, how{Policy: backpressure.Limit(-1)}, work),
			"-1 at a time",
		},
		"nil option": {forEach("do", []string{"1a"}, how{}, work, nil), "option"},
	} {
		w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 0, c.of(ctx)
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			_, err := perduretest.Start(env, w, 1).Result()
			if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(), c.has) {
				t.Errorf("%s: %v", name, err)
			}
		}, w)
	}
	none := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		out, err := backpressure.ForEach(ctx, "do", nil, how{}, work)
		return len(out), err
	})
	perduretest.Test(t, func(env *perduretest.Env) { perduretest.Start(env, none, 1).Returns(0) },
		none)
}

func forEach(name string, items []string, how backpressure.Each[string], fn func(context.Context,
	string) (string, error), opts ...backpressure.StepOption) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := backpressure.ForEach(ctx, name, items, how, fn, opts...)
		if out != nil {
			return fmt.Errorf("it has results")
		}
		return err
	}
}
