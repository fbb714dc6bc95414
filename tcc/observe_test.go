package tcc_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// Observers get the same notices for a composition of TCCs as for a composition of sagas, and
// notices for its participants.
//
// spec: P-6
func TestObserversHearOfCompositionsOfTCCs(t *testing.T) {
	for how, want := range map[string]string{
		"success": "composition ended 4ms COMPOSITION ",
		"failure": "composition ended 4ms COMPOSITION try of second/pay failed: odd",
		"cancel":  "composition ended 1ms COMPOSITION workflow cancelled: enough",
	} {
		t.Run(how, func(t *testing.T) {
			var mu sync.Mutex
			var heard []observe.Notice
			o := perdure.Options{Observers: []observe.Observer{{See: func(n observe.Notice) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, n)
			}}}}
			member := func(name string, fails bool) *tcc.TCC[string] {
				d := tcc.New[string](name).Retry(perdure.NoRetry)
				tcc.Add(d, "pay", func(ctx context.Context, _ string) (string, error) {
					<-time.After(time.Millisecond)
					if fails {
						return "", errOdd
					}
					return "held", nil
				}).Confirm(func(context.Context, string, string) error {
					<-time.After(time.Millisecond)
					return nil
				}).Cancel(func(context.Context, string, string) error {
					<-time.After(time.Millisecond)
					return nil
				})
				return d
			}
			same := func(in string) (string, error) { return in, nil }
			c := tcc.Compose[string]("order")
			tcc.Include(c, "second", member("second", how == "failure"), same).
				After(tcc.Include(c, "first", member("first", false), same))
			perduretest.Setup{Workflows: []perdure.Definition{c}, Options: o}.Test(
				t, func(env *perduretest.Env) {
					run := perduretest.Start(env, c.Workflow, "in")
					if how == "cancel" {
						if err := env.Engine().Cancel(env.Context(), run.ID(),
							"enough"); err != nil {
							env.Fatal(err)
						}
					}
					_, _ = run.Result()
					env.Settle()
					mu.Lock()
					defer mu.Unlock()
					of := func(kind observe.Kind) []string {
						var out []string
						for _, n := range heard {
							if n.Kind != kind {
								continue
							}
							if n.Run == "" || n.WorkflowID != run.ID() || n.Workflow != "order" ||
								n.Pattern != "TCC" || n.At.IsZero() {
								env.Errorf("a field is missing: %+v", n)
							}
							out = append(out, fmt.Sprintf("%s %s", n.Step, n.Phase))
							if kind == observe.CompositionEnded {
								out[len(out)-1] = fmt.Sprintf("%s %v %s %s", kind, n.Took, n.Phase,
									n.Err)
							}
						}
						return out
					}
					if got := of(observe.CompositionStarted); !slices.Equal(
						got, []string{"composition COMPOSITION"}) {
						env.Errorf("started: %v", got)
					}
					if got := of(observe.CompositionEnded); strings.Join(got, ", ") != want {
						env.Errorf("ended: %v, want %s", got, want)
					}
					if got := of(observe.ParticipantSucceeded); how == "success" &&
						!slices.Equal(got, []string{
							"first/try:pay TRY", "first/confirm:pay CONFIRM", "second/try:pay TRY",
							"second/confirm:pay CONFIRM",
						}) {
						env.Errorf("participants: %v", got)
					}
					if got := of(observe.ParticipantFailed); how == "failure" &&
						!slices.Equal(got, []string{"second/try:pay TRY"}) {
						env.Errorf("participants that failed: %v", got)
					}
				})
		})
	}
}

// A participant that refuses its try for good is a normal outcome: the TCC is cancelled.
//
// spec: P-6
func TestATryThatIsRefusedForGoodIsNoWarning(t *testing.T) {
	for _, c := range []struct {
		name  string
		try   error
		warns bool
	}{
		{"refused", perdure.Permanent(errOdd), false},
		{"failed", errOdd, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			o := perdure.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			d := tcc.New[order]("pays").Retry(perdure.NoRetry)
			tcc.Add(d, "pay", func(context.Context, order) (string, error) {
				return "", c.try
			}).Confirm(then).Cancel(then)
			perduretest.Setup{Workflows: []perdure.Definition{d}, Options: o}.Test(
				t, func(env *perduretest.Env) {
					_, _ = perduretest.Start(env, d.Workflow, order{}).Result()
					env.Settle()
				})
			if got := strings.Contains(log.String(), "participant failed"); got != c.warns {
				t.Errorf("warned: %t, want %t:\n%s", got, c.warns, &log)
			}
		})
	}
}

// The clean-up in which a TCC cancels has not failed, and a phase that has completed does not fail
// afterwards.
//
// spec: P-6
func TestObserversHearOfNoFailureIfATCCCancelsAsItShould(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	o := perdure.Options{Observers: []observe.Observer{{See: func(n observe.Notice) {
		mu.Lock()
		defer mu.Unlock()
		switch n.Kind {
		case observe.CleanupFailed, observe.PhaseCompleted, observe.PhaseFailed:
			heard = append(heard, fmt.Sprintf("%s %s %s", n.Workflow, n.Kind, n.Phase))
		}
	}}}}
	member := func(name string, try func(context.Context) error) *tcc.TCC[int] {
		d := tcc.New[int](name).Retry(perdure.NoRetry)
		tcc.Add(d, "pay", func(ctx context.Context, _ int) (int, error) { return 0, try(ctx) }).
			Confirm(func(context.Context, int, int) error { return nil }).
			Cancel(func(context.Context, int, int) error { return nil })
		return d
	}
	fine := func(context.Context) error { return nil }
	odd := func(context.Context) error { return errOdd }
	slow := member("slow", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	same := func(in int) (int, error) { return in, nil }
	c := tcc.Compose[int]("order")
	tcc.Include(c, "second", member("second", odd), same).
		After(tcc.Include(c, "first", member("first", fine), same))
	perduretest.Setup{Workflows: []perdure.Definition{c, slow}, Options: o}.Test(
		t, func(env *perduretest.Env) {
			_, _ = perduretest.Start(env, c.Workflow, 1).Result()
			run := perduretest.Start(env, slow.Workflow, 1)
			env.Settle()
			if err := env.Engine().Cancel(env.Context(), run.ID(), "enough"); err != nil {
				env.Fatal(err)
			}
			_, _ = run.Result()
			env.Settle()
			mu.Lock()
			defer mu.Unlock()
			if want := []string{
				"order phase completed TRY", "order phase completed CONFIRM", // of first
				"order phase failed TRY", "order phase completed CANCEL", // of second
				"order phase completed CANCEL", // of first
				"slow phase failed TRY", "slow phase completed CANCEL",
			}; !slices.Equal(heard, want) {
				env.Errorf("heard %q, want %q", heard, want)
			}
		})
}
