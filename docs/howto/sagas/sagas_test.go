package howto

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A world does each thing once for each key, in order.
type world struct {
	keys map[string]bool
	log  []string
}

func (w *world) do(key, what string) {
	if w.keys == nil {
		w.keys = map[string]bool{}
	}
	if !w.keys[key] {
		w.keys[key] = true
		w.log = append(w.log, what)
	}
}

func (w *world) Reserve(_ context.Context, key string, o Order) (string, error) {
	w.do(key, "reserve")
	return "hold-" + o.ID, nil
}

func (w *world) Release(_ context.Context, key, hold string) error {
	w.do(key, "release "+hold)
	return nil
}

func (w *world) Charge(_ context.Context, key string, o Order) (Charge, error) {
	w.do(key, "charge")
	return Charge{"c-" + o.ID}, nil
}

func (w *world) Refund(_ context.Context, key string, c Charge) error {
	w.do(key, "refund "+c.Number)
	return nil
}

func (w *world) Ship(_ context.Context, key string, o Order) (string, error) {
	w.do(key, "ship")
	return "t-" + o.ID, nil
}

var order = Order{ID: "1", Cents: 4200}

func TestASagaThatSucceedsUndoesNothing(t *testing.T) {
	w := &world{}
	fulfil := Fulfil(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, fulfil.Workflow, order)
		run.Is(journal.Completed)
	}, fulfil)
	if !slices.Equal(w.log, []string{"reserve", "charge", "ship"}) {
		t.Error(w.log)
	}
}

func TestAStepThatFailsForGoodUndoesWhatIsDone(t *testing.T) {
	w := &world{}
	fulfil := Fulfil(w)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		*w = world{}
		env.Step("ship").Fail(20, perdure.Permanent(ErrRefused))
		run := perduretest.Start(env, fulfil.Workflow, order)
		run.Fails(ErrRefused)
		return w.log
	}, fulfil)
	if !slices.Equal(w.log, []string{"reserve", "charge", "refund c-1", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestACompensationThatFailsWaitsForAnOperator(t *testing.T) {
	w := &world{}
	fulfil := Fulfil(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("ship").Fail(20, perdure.Permanent(ErrRefused))
		env.Step("undo:charge").Fail(20, errors.New("the bank does not answer"))
		run := perduretest.Start(env, fulfil.Workflow, order)
		env.Sleep(time.Hour)
		run.Waits("undo:charge#2") // after the operation undo:charge itself
		if err := env.Engine().Decide(env.Context(), run.ID(), "undo:charge",
			perdure.Decision{Choice: "handled", Reason: "refunded by hand"}); err != nil {
			t.Fatal(err)
		}
		run.Fails(ErrRefused)
	}, fulfil)
	if !slices.Equal(w.log, []string{"reserve", "charge", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestTheStepsOfASmallWorkflowAreUndone(t *testing.T) {
	w := &world{}
	byHand := Small(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("ship").Fail(20, perdure.Permanent(ErrRefused))
		perduretest.Start(env, byHand, order).Fails(ErrRefused)
	}, byHand)
	if !slices.Equal(w.log, []string{"charge", "refund c-1"}) {
		t.Error(w.log)
	}
}

func TestAPartOfAWorkflowIsUndoneWhenNobodyPays(t *testing.T) {
	w := &world{}
	sell := Sell(w)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		*w = world{}
		run := perduretest.Start(env, sell, order)
		run.Fails(context.DeadlineExceeded)
		return w.log
	}, sell)
	if !slices.Equal(w.log, []string{"reserve", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestAPartOfAWorkflowIsUndoneWhenTheRunIsCancelled(t *testing.T) {
	w := &world{}
	sell := Sell(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, sell, order)
		env.Sleep(time.Hour)
		run.Cancel("the customer has called")
		run.Is(journal.Cancelled)
	}, sell)
	if !slices.Equal(w.log, []string{"reserve", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestAPartOfAWorkflowIsUndoneWhenTheParcelDoesNotGo(t *testing.T) {
	w := &world{}
	sell := Sell(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("ship").Fail(20, perdure.Permanent(ErrRefused))
		run := perduretest.Start(env, sell, order)
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Fails(ErrRefused)
	}, sell)
	if !slices.Equal(w.log, []string{"reserve", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestAPartOfAWorkflowIsUndoneWhenTheRunIsCancelledWhileItShips(t *testing.T) {
	w := &world{}
	sell := Sell(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("ship").Hang(1)
		run := perduretest.Start(env, sell, order)
		perduretest.Send(env, Paid, run.ID(), 4200)
		env.Settle()
		run.Cancel("the customer has called")
		run.Is(journal.Cancelled)
	}, sell)
	if !slices.Equal(w.log, []string{"reserve", "release hold-1"}) {
		t.Error(w.log)
	}
}

func TestAPaidOrderIsShipped(t *testing.T) {
	w := &world{}
	sell := Sell(w)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, sell, order)
		perduretest.Send(env, Paid, run.ID(), 4200)
		run.Returns("t-1")
	}, sell)
}
