package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// pay charges twice, in order, on a ledger.
func pay(charge func(ctx context.Context, what string)) *perdure.Workflow[int, string] {
	return perdure.Define("pay", func(ctx context.Context, _ int) (string, error) {
		for _, what := range []string{"flight", "hotel"} {
			_, err := perdure.Step(ctx, what, func(ctx context.Context) (bool, error) {
				charge(ctx, what)
				return true, nil
			})
			if err != nil {
				return "", err
			}
		}
		return "booked", nil
	})
}

// A ledger counts the charges that it gets.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

// spec: B-13
func TestCrashEverywhereCatchesAStepThatTakesEffectTwice(t *testing.T) {
	var now *ledger
	careless := pay(func(_ context.Context, what string) { now.add(what) })
	said, bubbles := perduretest.FakeCrashEverywhere(t, perduretest.Setup{
		Workflows: []perdure.Definition{careless},
	}, func(env *perduretest.Env) any {
		now = &ledger{}
		perduretest.Start(env, careless, 1).Returns("booked")
		return now.lines
	})
	wants(t, said,
		"after commit 1: with a crash after commit 1 the outcome is\n\t[flight flight hotel]",
		"after commit 2: with a crash after commit 2 the outcome is\n\t[flight hotel hotel]",
		"without a crash\n\t[flight hotel]",
	)
	if bubbles < 5 {
		t.Errorf("the scenario was run %d times", bubbles)
	}
	if has(said, "answer lost: ") {
		t.Errorf("a crash before anything that follows a commit does no harm:\n%s", said)
	}
}

// spec: B-13
func TestCrashEverywherePassesWhatBearsCrashes(t *testing.T) {
	var now map[string]bool
	var mu sync.Mutex
	stop := perdure.NewSignal[string]("stop")
	both := perdure.Define("both", func(ctx context.Context, _ int) (string, error) {
		what, err := stop.Wait(ctx, perdure.Within(time.Hour))
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "act", func(ctx context.Context) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			now[what] = true
			return what, nil
		})
	})
	crashes := 0
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		crashes++
		now = map[string]bool{}
		run := perduretest.Start(env, both, 1)
		env.Sleep(time.Minute)
		run.Waits("stop")
		perduretest.Send(env, stop, run.ID(), "now")
		run.Returns("now")
		run.Unread()
		return fmt.Sprint(now)
	}, both)
	if crashes < 8 {
		t.Errorf("the scenario was run %d times", crashes)
	}
}

func has(said, part string) bool { return strings.Contains(said, part) }

func wants(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !has(said, p) {
			t.Errorf("it does not say %q, but:\n%s", p, said)
		}
	}
}

var errDown = errors.New("down")

func TestWhatAnEngineWarnsOfIsInTheLogOfTheTest(t *testing.T) {
	parks := perdure.Define("parks", func(context.Context, int) (int, error) {
		return 0, perdure.Parking(errors.New("who is this?"))
	})
	log := perduretest.FakeLog(t, perduretest.Setup{Workflows: []perdure.Definition{parks}},
		func(env *perduretest.Env) {
			perduretest.Start(env, parks, 1)
			env.Settle()
		})
	wants(t, log, `level=WARN msg="perdure: run parked" workflow=parks workflow_id=parks-1`)
}
