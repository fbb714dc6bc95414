package patterns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// limiterBegan is the time when uses of policies begin.
var limiterBegan = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// roomIn asks a limiter at a time after limiterBegan. It returns the room, such as "3"; "none" for
// no room; "any" for room without limit; or the text of an error.
func roomIn(f backpressure.Limiter, running int, after time.Duration) string {
	n, err := f.Room(running, limiterBegan.Add(after))
	switch {
	case err != nil:
		return err.Error()
	case n <= 0:
		return "none"
	case n >= math.MaxInt-running:
		return "any"
	}
	return fmt.Sprint(n)
}

// endIn reports ends to a limiter at a time after limiterBegan: s is a success, f a failure.
func endIn(f backpressure.Limiter, how string, after time.Duration) {
	for _, c := range how {
		if c == 'f' {
			f.Ended(world.ErrOdd, limiterBegan.Add(after))
		} else {
			f.Ended(nil, limiterBegan.Add(after))
		}
	}
}

func isRoom(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// spec: P-12
func TestAdaptiveFollowsTheShareOfFailures(t *testing.T) {
	f := backpressure.Adaptive{}.Begin()
	for _, c := range []struct{ ends, room string }{
		{"", "4"},
		{"sssssssss", "4"}, // nine: not judged yet
		{"s", "5"},
		{"fsssssssss", "5"}, // 10 %: neither over 10 nor under 5
		{"sfssssssss", "5"}, // each ten separately: not 20 % of twenty
		{"ffssssssss", "2"}, // over 10 %: half of 5
		{"ffssssssss", "1"},
		{"ffffffffff", "1"}, // never fewer than 1
		{strings.Repeat("s", 140), "15"},
		{"ssssssssss", "16"},
		{"ssssssssss", "16"}, // never more than 16
		{"ffssssssss", "8"},
	} {
		endIn(f, c.ends, 0)
		isRoom(t, "after "+c.ends, roomIn(f, 0, 0), c.room)
	}
	isRoom(t, "five run", roomIn(f, 5, 0), "3")
	isRoom(t, "nine run", roomIn(f, 9, 0), "none")
}

// spec: P-12
func TestAdaptiveTakesItsNumbers(t *testing.T) {
	f := backpressure.Adaptive{Start: 9, Min: 3, Max: 10, Halve: 0.5, Grow: 0.3, Every: 4}.Begin()
	for _, c := range []struct{ ends, room string }{
		{"", "9"},
		{"fsss", "10"}, // 25 %, under 30
		{"ssss", "10"},
		{"ffss", "10"}, // 50 %, not over it
		{"fffs", "5"},
		{"fffs", "3"},
		{"ffff", "3"},
	} {
		endIn(f, c.ends, 0)
		isRoom(t, "after "+c.ends, roomIn(f, 0, 0), c.room)
	}
	s19 := strings.Repeat("s", 19)
	for _, c := range []struct {
		a          backpressure.Adaptive
		ends, room string
	}{
		{backpressure.Adaptive{Max: 2}, "", "2"}, // a start that is not set has a valid default
		{backpressure.Adaptive{Min: 7}, "", "7"},
		{backpressure.Adaptive{Every: 20}, s19, "4"},
		{backpressure.Adaptive{Every: 20}, s19 + "s", "5"},
		// 5 %, not under the half of 10
		{backpressure.Adaptive{Every: 20}, s19 + "f", "4"},
		{backpressure.Adaptive{Every: 20, Halve: 0.2}, s19 + "f", "5"}, // under the half of 20
		{backpressure.Adaptive{Every: 20, Halve: 0.04}, s19 + "f", "2"},
		{backpressure.Adaptive{Start: math.MaxInt, Max: math.MaxInt, Every: 1}, "s", "any"},
	} {
		f := c.a.Begin()
		endIn(f, c.ends, 0)
		isRoom(t, fmt.Sprintf("%+v after %s", c.a, c.ends), roomIn(f, 0, 0), c.room)
	}
}

// spec: P-12
func TestBatchesFollowEachOther(t *testing.T) {
	f := backpressure.Batched{}.Begin()
	isRoom(t, "at first", roomIn(f, 0, 0), "10")
	isRoom(t, "while the batch begins", roomIn(f, 4, 0), "6")
	isRoom(t, "all began", roomIn(f, 10, 0), "none")
	endIn(f, "s", 0)
	isRoom(t, "one ended", roomIn(f, 9, 0), "none")
	endIn(f, "sfsfsfsf", 0)
	isRoom(t, "one is left", roomIn(f, 1, 0), "none")
	endIn(f, "f", 0)
	isRoom(t, "all ended", roomIn(f, 0, 0), "10")
	isRoom(t, "the next one begins", roomIn(f, 3, 0), "7")
	endIn(f, "s", 0)
	isRoom(t, "a small batch does not grow once one has ended", roomIn(f, 2, 0), "none")
	isRoom(t, "another size", roomIn(backpressure.Batched{Size: 3}.Begin(), 0, 0), "3")
}

// spec: P-12
func TestBreakerOpensHalfOpensAndCloses(t *testing.T) {
	open := func(since, until string) string {
		return fmt.Sprintf("perdure: the circuit breaker is open since 2026-11-21T12:%sZ, until "+
			"2026-11-21T12:%sZ", since, until)
	}
	s := time.Second
	f := backpressure.CircuitBreaker{}.Begin()
	isRoom(t, "closed", roomIn(f, 0, 0), "5")
	isRoom(t, "closed, four try", roomIn(f, 4, 0), "1")
	isRoom(t, "closed, five try", roomIn(f, 5, 0), "none")
	endIn(f, "fff", 0)
	isRoom(t, "three failures, one tries", roomIn(f, 1, 0), "1")
	endIn(f, "fs", 0)
	isRoom(t, "a success", roomIn(f, 0, 0), "5")
	endIn(f, "ffff", 0)
	isRoom(t, "four failures in a row", roomIn(f, 0, 0), "1")
	endIn(f, "f", 5*s)
	isRoom(t, "five", roomIn(f, 0, 5*s), open("00:05", "00:35"))
	endIn(f, "sfffff", 20*s) // began before
	isRoom(t, "still", roomIn(f, 3, 35*s-1), open("00:05", "00:35"))
	isRoom(t, "30 s later", roomIn(f, 0, 35*s), "3")
	isRoom(t, "two try", roomIn(f, 2, 35*s), "1")
	endIn(f, "s", 36*s)
	isRoom(t, "one success, one tries", roomIn(f, 1, 36*s), "1")
	isRoom(t, "one success, two try", roomIn(f, 2, 36*s), "none")
	endIn(f, "f", 37*s+500*time.Millisecond)
	isRoom(t, "one failure", roomIn(f, 1, 38*s), open("00:37.5", "01:07.5"))
	isRoom(t, "again 30 s later, while one of before runs", roomIn(f, 1, 70*s), "2")
	endIn(f, "ss", 70*s)
	isRoom(t, "two successes", roomIn(f, 0, 70*s), "1")
	endIn(f, "s", 70*s)
	isRoom(t, "three", roomIn(f, 3, 70*s), "2")
	endIn(f, "ffff", 71*s)
	isRoom(t, "closed again, four failures", roomIn(f, 0, 71*s), "1")
	endIn(f, "f", 72*s)
	isRoom(t, "closed again, five", roomIn(f, 0, 72*s), open("01:12", "01:42"))
}

// spec: P-12
func TestBreakerTakesItsNumbers(t *testing.T) {
	f := backpressure.CircuitBreaker{Failures: 2, Recovery: time.Minute, Successes: 1}.Begin()
	endIn(f, "f", 0)
	isRoom(t, "one failure", roomIn(f, 0, 0), "1")
	endIn(f, "f", 0)
	if _, err := f.Room(0, limiterBegan); !errors.As(err, new(*backpressure.OpenError)) {
		t.Error("two failures:", err)
	}
	isRoom(t, "a minute later", roomIn(f, 0, time.Minute), "1")
	endIn(f, "s", time.Minute)
	isRoom(t, "one success", roomIn(f, 0, time.Minute), "2")
}

// spec: P-12
func TestInvalidPoliciesAreRefused(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		p    backpressure.Policy
		says string
	}{
		{backpressure.Limit(-1), "-1 at a time"},
		{backpressure.Adaptive{Min: -1}, "Min -1"},
		{backpressure.Adaptive{Max: -1}, "Max -1"},
		{backpressure.Adaptive{Min: 3, Max: 2}, "Max 2"},
		{backpressure.Adaptive{Min: 17}, "Max 16"},
		{backpressure.Adaptive{Start: -1}, "Start -1"},
		{backpressure.Adaptive{Start: 1, Min: 2}, "Start 1"},
		{backpressure.Adaptive{Start: 17}, "Start 17"},
		{backpressure.Adaptive{Halve: -0.1, Grow: -0.2}, "Halve -0.1"},
		{backpressure.Adaptive{Halve: 1.1}, "Halve 1.1"},
		{backpressure.Adaptive{Halve: math.Inf(1)}, "Halve +Inf"},
		{backpressure.Adaptive{Halve: nan}, "Halve NaN"},
		{backpressure.Adaptive{Halve: nan, Grow: 0.1}, "Halve NaN"},
		{backpressure.Adaptive{Grow: -0.1}, "Grow -0.1"},
		{backpressure.Adaptive{Grow: 0.1}, "Grow 0.1"},
		{backpressure.Adaptive{Halve: 0.5, Grow: 0.6}, "Grow 0.6"},
		{backpressure.Adaptive{Grow: nan}, "Grow NaN"},
		{backpressure.Adaptive{Every: -1}, "Every -1"},
		{backpressure.Batched{Size: -1}, "Size -1"},
		{backpressure.CircuitBreaker{Failures: -1}, "Failures -1"},
		{backpressure.CircuitBreaker{Recovery: -1}, "Recovery -1ns"},
		{backpressure.CircuitBreaker{Successes: -1}, "Successes -1"},
	} {
		err := c.p.(interface{ Validate() error }).Validate()
		if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%T%+v: %v, want %s", c.p, c.p, err, c.says)
			continue
		}
		f := c.p.Begin()
		endIn(f, "sf", 0)
		if _, got := f.Room(0, limiterBegan); journal.CodeOf(got) != journal.CodeInvalid ||
			got.Error() != err.Error() {
			t.Errorf("%T%+v: one begins with %v, want %v", c.p, c.p, got, err)
		}
	}
	for _, p := range []backpressure.Policy{
		backpressure.Limit(0), backpressure.Limit(1), backpressure.Adaptive{},
		backpressure.Batched{}, backpressure.CircuitBreaker{},
		backpressure.Adaptive{Start: 1, Min: 1, Max: 1, Halve: 1, Grow: 0.99, Every: 1},
		backpressure.Batched{Size: 1}, backpressure.CircuitBreaker{
			Failures: 1, Recovery: 1, Successes: 1,
		},
	} {
		if err := p.(interface{ Validate() error }).Validate(); err != nil {
			t.Errorf("%T%+v: %v", p, p, err)
		}
	}
}

// A breaker in workflow code opens at the same place on replay, and its error is found
// in what journals keep.
//
// spec: P-12
func TestBreakerErrorIsFoundAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			limiter := backpressure.CircuitBreaker{Failures: 2, Recovery: time.Hour}.Begin()
			for n := 1; ; n++ {
				now, err := perdure.Now(ctx)
				if err != nil {
					return 0, err
				}
				_, refused := limiter.Room(0, now)
				if refused == nil {
					_, err = perdure.Step(ctx, fmt.Sprint("s", n),
						world.Work("s", time.Minute, world.ErrOdd),
						perdure.NoRetry)
					limiter.Ended(err, now)
					continue
				}
				seen = append(seen, fmt.Sprintf("%d %v", n, refused))
				if _, err := perdure.Step(ctx, "t", world.Work("t", time.Minute, nil)); err != nil {
					return 0, err
				}
				return 0, fmt.Errorf("charge: %w", refused)
			}
		})
		w := world.New(t, wf)
		defer func() { w.End() }()
		world.Start(w, wf, 0, perdure.ID("x"))
		time.Sleep(2*time.Minute + time.Second)
		opened := time.Now().Add(-time.Minute - time.Second)
		w.Crash()
		run, err := wf.Get(context.Background(), w.Engine, "x")
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(context.Background())
		var open *backpressure.OpenError
		if !errors.As(err, &open) || !open.Since.Equal(opened) ||
			!open.Until.Equal(opened.Add(time.Hour)) {
			t.Errorf("the run's error: %v, open since %v", err, opened)
		} else if err.Error() != "charge: "+open.Error() {
			t.Errorf("the run's error is %q, and the breaker's %q", err, open)
		}
		if len(seen) != 2 || seen[0] != seen[1] || !strings.HasPrefix(seen[0], "3 ") {
			t.Errorf("live and replayed:\n%s", strings.Join(seen, "\n"))
		}
	})
}
