package howto

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// A bankOf answers with one error after the other, and then with success. It keeps the keys.
type bankOf struct {
	answers []error
	keys    map[string]int
}

func (b *bankOf) Charge(_ context.Context, key string, cents int) (Payment, error) {
	if b.keys == nil {
		b.keys = map[string]int{}
	}
	b.keys[key]++
	if len(b.answers) > 0 {
		err := b.answers[0]
		b.answers = b.answers[1:]
		return Payment{}, err
	}
	return Payment{"p-1", cents}, nil
}

func TestAStepIsTriedAgainAfterGrowingDelaysUnderOneKey(t *testing.T) {
	bank := &bankOf{answers: []error{ErrBusy, ErrBusy, ErrBusy}}
	workflow := Pay(bank)
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, workflow, 4200)
		run.Returns(Payment{"p-1", 4200})
		run.Executed("charge", 4)
		if took := time.Since(began); took != 7*time.Second || len(bank.keys) != 1 {
			t.Errorf("it took %v with %d keys", took, len(bank.keys))
		}
	}, workflow)
}

func TestTheLastErrorComesBackWhenTheAttemptsAreUsedUp(t *testing.T) {
	workflow := Pay(&bankOf{answers: []error{ErrBusy, ErrBusy, ErrBusy, ErrBusy, ErrBusy}})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, workflow, 4200)
		run.Fails(ErrBusy)
		run.Executed("charge", 5)
	}, workflow)
}

func TestAnAttemptThatPassesItsTimeoutIsTriedAgain(t *testing.T) {
	workflow := Pay(&bankOf{})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("charge").Hang(1)
		began := time.Now()
		run := perduretest.Start(env, workflow, 4200)
		run.Returns(Payment{"p-1", 4200})
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("it took %v", took)
		}
	}, workflow)
}

func TestTheTimeoutOfARunEndsIt(t *testing.T) {
	workflow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, 2*time.Hour)
	}, perdure.Timeout(time.Hour))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, workflow, 0)
		run.Fails(&perdure.Error{Code: perdure.CodeTimedOut})
	}, workflow)
}

func TestOnlyTheClassesOfThePolicyAreRetried(t *testing.T) {
	workflow := perdure.Define("pay", payPatiently(&bankOf{answers: []error{ErrBusy, ErrDeclined}}))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, workflow, 4200)
		run.Fails(ErrDeclined)
		run.Executed("charge", 2)
	}, workflow)
}

func TestTheBodyDecidesByMarkingItsError(t *testing.T) {
	workflow := perdure.Define("pay", payAsTold(&bankOf{answers: []error{ErrBusy, ErrDeclined}}))
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, workflow, 4200)
		run.Fails(ErrDeclined)
		_, err := run.Result()
		if took := time.Since(began); took != time.Minute ||
			!strings.HasPrefix(err.Error(), "ask for another card") {
			t.Errorf("it took %v: %v", took, err)
		}
	}, workflow)
}

func TestAPersonDecidesWhenTheAttemptsAreUsedUp(t *testing.T) {
	workflow := perdure.Define("pay", payOrAsk(&bankOf{answers: []error{ErrBusy, ErrBusy}}))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, workflow, 4200)
		env.Sleep(time.Minute)
		run.Waits("bank")
		if err := env.Engine().Decide(env.Context(), run.ID(), "bank",
			perdure.Decision{Choice: "again"}); err != nil {
			t.Fatal(err)
		}
		run.Returns(Payment{"p-1", 4200})
	}, workflow)
}
