package dag_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/perduretest"
)

// The policy that a start names replaces the policy of the graph, for that run.
//
// spec: P-12
func TestAStartNamesThePolicyOfAGraph(t *testing.T) {
	g := dag.New[int]("g").Concurrency(6)
	for i := range 6 {
		dag.Add(g, fmt.Sprint("s", i), does(1, errors.New("broken"))).Retry(perdure.NoRetry)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		for want, opts := range map[int][]perdure.StartOption{
			4: {backpressure.Named("circuit-breaker-aggressive")},
			0: nil,
		} {
			refused := 0
			for _, s := range execute(env, g, 1,
				append(opts, perdure.ID(fmt.Sprint("run-", want)))...).Steps {
				if open := (*backpressure.OpenError)(nil); errors.As(s.Err, &open) {
					refused++
				}
			}
			if refused != want {
				env.Errorf("%d steps are refused, want %d", refused, want)
			}
		}
	}, g)
}
