package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// A Plan is a subscription: the input of its workflow, and of each successor, every year.
type Plan struct {
	Customer string
	Years    int // left
	Charged  int // number of months so far
}

var errCard = errors.New("the card is declined")

func init() {
	if err := perdure.RegisterError("subscription.card", errCard); err != nil {
		fmt.Println(err)
	}
}

// Stop ends a subscription.
var Stop = perdure.NewSignal[string]("stop")

const month = 30 * 24 * time.Hour

// A bank takes money once for each key.
type bank struct {
	mu    sync.Mutex
	taken map[string]bool
}

func (b *bank) charge(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken == nil {
		b.taken = map[string]bool{}
	}
	b.taken[key] = true
}

func (b *bank) charges() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.taken)
}

// subscribe is a subscription at a bank: it charges at the beginning of each month, waits for
// Stop between charges, and continues as new each year.
func subscribe(now func() *bank) *perdure.Workflow[Plan, Plan] {
	return perdure.Define("subscription", func(ctx context.Context, p Plan) (Plan, error) {
		for range 12 {
			_, err := perdure.Step(ctx, "charge", func(ctx context.Context) (bool, error) {
				now().charge(perdure.IdempotencyKey(ctx))
				return true, nil
			}, perdure.Retry{Attempts: 5, First: time.Hour})
			if err != nil {
				return p, err
			}
			p.Charged++
			_, err = Stop.Wait(ctx, perdure.Within(month))
			if err == nil {
				return p, nil
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				return p, err
			}
		}
		if p.Years--; p.Years > 0 {
			return p, perdure.ContinueAsNew(ctx, p)
		}
		return p, nil
	})
}

// spec: B-13
func TestThreeYearsOfASubscriptionTakeNoTime(t *testing.T) {
	var b bank
	subscription := subscribe(func() *bank { return &b })
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, subscription, Plan{Customer: "ada", Years: 3})
		run.Waits("stop")
		run.WaitsUntil(began.Add(month))
		run.Returns(Plan{Customer: "ada", Charged: 36})
		run.Executed("charge", 36)
		if took := time.Since(began); took != 36*month {
			t.Errorf("it took %v", took)
		}
	}, subscription)
	if b.charges() != 36 {
		t.Errorf("the bank was asked %d times", b.charges())
	}
}

// spec: B-13
func TestSubscriptionBearsCrashes(t *testing.T) {
	var now *bank
	subscription := subscribe(func() *bank { return now })
	setup := perduretest.Setup{Workflows: []perdure.Definition{subscription}, Crashes: 30}
	setup.CrashEverywhere(t, func(env *perduretest.Env) any {
		now = &bank{}
		env.Step("charge").Fail(2, errCard)
		run := perduretest.Start(env, subscription, Plan{Customer: "ada", Years: 2})
		env.Sleep(14*month + 3*time.Hour) // the first charge takes two hours
		perduretest.Send(env, Stop, run.ID(), "moved")
		run.Returns(Plan{Customer: "ada", Years: 1, Charged: 15})
		return now.charges()
	})
}

// spec: B-13
func TestHistoryOfASubscriptionFitsItsCode(t *testing.T) {
	var b bank
	subscription := subscribe(func() *bank { return &b })
	var history []byte
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, subscription, Plan{Customer: "ada", Years: 2})
		env.Sleep(5 * month)
		var err error
		if history, err = perduretest.Export(env.Context(), env.Engine().Client,
			run.ID()); err != nil {
			t.Fatal(err)
		}
	}, subscription)
	before := b.charges()
	perduretest.Replay(t, history, subscription).Fits()
	if b.charges() != before {
		t.Error("the replay has charged")
	}
}
