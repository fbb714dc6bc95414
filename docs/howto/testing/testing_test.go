package howto

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

func init() {
	if err := perdure.RegisterError("shop.not-paid", ErrNotPaid); err != nil {
		panic(err)
	}
}

// A fakeShop does once what has one key, as the real one must.
type fakeShop struct {
	reserved, shipped map[string]bool // by key
}

func newShop() *fakeShop {
	return &fakeShop{reserved: map[string]bool{}, shipped: map[string]bool{}}
}

func (s *fakeShop) Reserve(_ context.Context, key, _ string) error {
	s.reserved[key] = true
	return nil
}

func (s *fakeShop) Ship(_ context.Context, key, order string) (string, error) {
	s.shipped[key] = true
	return "t-" + order, nil
}

func TestAnOrderIsShippedWhenItIsPaid(t *testing.T) {
	fulfil := Fulfil(newShop())
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, fulfil, Order{ID: "1", Cents: 4200})
		env.Sleep(48 * time.Hour) // virtual time: this takes no time
		run.Waits("paid")
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
		run.Unread() // no signal is left
	}, fulfil)
}

func TestAnOrderThatIsNotPaidFailsAfterThreeDays(t *testing.T) {
	shop := newShop()
	fulfil := Fulfil(shop)
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, fulfil, Order{ID: "1"})
		run.WaitsUntil(began.Add(72 * time.Hour))
		run.Fails(ErrNotPaid)
		run.Executed("ship", 0)
	}, fulfil)
}

func TestFaultsOfTheOutsideAreTriedAgain(t *testing.T) {
	shop := newShop()
	fulfil := Fulfil(shop)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("reserve").Fail(2, errors.New("the warehouse does not answer"))
		env.Step("ship").FailAfter(1, errors.New("the answer was lost"))
		env.Step("ship").Hang(1) // it passes its timeout
		run := perduretest.Start(env, fulfil, Order{ID: "1"})
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
		run.Executed("reserve", 3)
		run.Executed("ship", 3)
	}, fulfil)
	if len(shop.shipped) != 1 {
		t.Errorf("it was shipped %d times", len(shop.shipped))
	}
}

func TestARunGoesOnAfterACrash(t *testing.T) {
	fulfil := Fulfil(newShop())
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, fulfil, Order{ID: "1"})
		env.Settle()
		env.Crash() // as kill -9; the next engine runs when this returns
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
		run.Executed("reserve", 1)
	}, fulfil)
}

func TestACrashAnywhereShipsOnce(t *testing.T) {
	shop := newShop()
	fulfil := Fulfil(shop)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		*shop = *newShop()
		run := perduretest.Start(env, fulfil, Order{ID: "1"})
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
		return []int{len(shop.reserved), len(shop.shipped)} // once each, wherever the crash came
	}, fulfil)
}

func TestThePresentCodeFitsARecordedRun(t *testing.T) {
	fulfil := Fulfil(newShop())
	perduretest.ReplayFile(t, "testdata/ord-1.jsonl", fulfil).Fits()
}

func TestARecordedRunIsMadeLikeThis(t *testing.T) {
	fulfil := Fulfil(newShop())
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, fulfil, Order{ID: "1"}, perdure.ID("ord-1"))
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
		history, err := perduretest.Export(env.Context(), env.Engine().Client, "ord-1")
		if err == nil && os.Getenv("UPDATE") != "" {
			err = os.WriteFile("testdata/ord-1.jsonl", history, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, fulfil)
}

func TestAnOrderStepByStep(t *testing.T) {
	fulfil := Fulfil(newShop())
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep() // every attempt of a step waits for Next
		env.Step("ship").Fail(1, errors.New("the carrier does not answer"))
		run := perduretest.Start(env, fulfil, Order{ID: "1", Cents: 4200})
		if step, _ := run.Next(); step.Path != "reserve" || step.Status != journal.StepIsDone {
			t.Error(step)
		}
		run.Waits("paid")
		perduretest.Send(env, Paid, run.ID(), 4200)
		if step, _ := run.Next(); step.Path != "ship" || step.Status != journal.StepIsRetrying {
			t.Error(step)
		}
		run.Next() // the time until the next attempt passes by itself
		if steps := run.Report().Steps; len(steps) != 2 {
			t.Error(steps)
		}
		run.Returns("t-1")
	}, fulfil)
}
