package tcc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// A start can name the policy for the members of a composition's run. It replaces the
// composition's own policy.
//
// spec: P-12
func TestAStartNamesThePolicyOfItsComposition(t *testing.T) {
	defer backpressure.Reset()
	if err := backpressure.Register("one-at-a-time", backpressure.Limit(1)); err != nil {
		t.Fatal(err)
	}
	var now, most atomic.Int32
	tries := func(ctx context.Context, _ int) (string, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return "", ctx.Err()
	}
	then := func(context.Context, int, string) error { return nil }
	whole := tcc.Compose[int]("whole").Backpressure(backpressure.Limit(3))
	for i := range 4 {
		member := tcc.New[int](fmt.Sprint("member", i))
		tcc.Add(member, "a", tries).Confirm(then).Cancel(then)
		tcc.Include(whole, fmt.Sprint("m", i), member, func(n int) (int, error) { return n, nil })
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		for want, opts := range map[int32][]perdure.StartOption{
			1: {backpressure.Named("one-at-a-time")},
			3: nil,
		} {
			most.Store(0)
			run := perduretest.Start(env, whole.Workflow, 1, opts...)
			_, _ = run.Result()
			run.Is(perdure.StatusConfirmed)
			if got := most.Load(); got != want {
				env.Errorf("%d members try at once, want %d", got, want)
			}
		}
	}, whole)
}
