package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/poller/feed"
	"github.com/perdure/perdure/perduretest"
)

// Each order is taken once, although the shop is down for some of the runs, and the process dies.
//
// spec: R-36
func TestEachOrderIsTakenOnce(t *testing.T) {
	down := false
	poll := feed.Poll(func(ctx context.Context, after, until time.Time) ([]string, error) {
		if down {
			return nil, errors.New("the shop is down")
		}
		return orders(ctx, after, until)
	}, 10*time.Second)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Sleep(31 * time.Second)
		down = true
		env.Sleep(20 * time.Second)
		env.Crash()
		down = false
		env.Sleep(40 * time.Second)
		var got []string
		heads, _, err := env.Engine().List(env.Context(), perdure.Query{Workflow: "poll"})
		if err != nil {
			env.Fatal(err)
		}
		slices.Reverse(heads)
		failed := 0
		var last time.Time
		for _, h := range heads {
			run, err := poll.Get(env.Context(), env.Engine(), string(h.ID))
			if err != nil {
				env.Fatal(err)
			}
			b, err := run.Result(env.Context())
			if err != nil {
				failed++
				continue
			}
			got, last = append(got, b.Orders...), b.Until
		}
		first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-10 * time.Second)
		want, _ := orders(env.Context(), first, last)
		if !slices.Equal(got, want) || failed == 0 {
			env.Errorf("%d runs failed; the others got %v, want %v", failed, got, want)
		}
	}, poll)
}
