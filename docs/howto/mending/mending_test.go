package howto_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/batch"
	howto "github.com/perdure/perdure/docs/howto/mending"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// spec
func TestAnOrderIsPaidByHandAndTakenBack(t *testing.T) {
	var did []string
	order := howto.Order(howto.Shop{
		Reserve: func(_ context.Context, item string) (string, error) { return "r-" + item, nil },
		Release: func(_ context.Context, r string) error {
			did = append(did, "release "+r)
			return nil
		},
		Charge: func(context.Context, string) (string, error) {
			return "", errors.New("the bank is closed")
		},
		Refund: func(_ context.Context, receipt string) error {
			did = append(did, "refund "+receipt)
			return nil
		},
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		failed := perduretest.Start(env, order.Workflow, "tea")
		env.Sleep(time.Second)
		id, err := howto.PaidByHand(env.Context(), env.Engine(), failed.RunID(), "7")
		if err != nil {
			t.Fatal(err)
		}
		is(env, id, journal.Completed)
		did = nil // the reservation of the failed run was released
		back, err := howto.TakeBack(env.Context(), env.Engine(), id, "returned")
		if err != nil {
			t.Fatal(err)
		}
		is(env, back, journal.Compensated)
		if want := []string{"release r-tea"}; !slices.Equal(did, want) {
			t.Errorf("undone: %v, want %v: what was skipped is not undone", did, want)
		}
	}, order)
}

// spec: B-8, R-40
func TestAllOrdersThatTheBankHasRefusedAreRetried(t *testing.T) {
	isOpen := false
	order := howto.Order(howto.Shop{
		Reserve: func(_ context.Context, item string) (string, error) { return "r-" + item, nil },
		Release: func(context.Context, string) error { return nil },
		Charge: func(context.Context, string) (string, error) {
			if !isOpen {
				return "", errors.New("the bank is closed")
			}
			return "receipt", nil
		},
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, item := range []string{"tea", "milk"} {
			perduretest.Start(env, order.Workflow, item, perdure.ID(item))
		}
		env.Sleep(time.Minute)
		isOpen = true
		id, err := howto.RetryAll(env.Context(), env.Engine(), "bank is closed", "ada@desk")
		if err != nil {
			t.Fatal(err)
		}
		is(env, "tea", journal.Completed)
		is(env, "milk", journal.Completed)
		b, err := batch.Get(env.Context(), env.Engine(), id)
		if err != nil || b.Status != batch.Done || b.Done != 2 {
			t.Errorf("%+v, %v", b, err)
		}
	}, order, batch.Workflow())
}

func is(env *perduretest.Env, id string, want perdure.RunStatus) {
	env.Helper()
	env.Sleep(time.Minute)
	d, err := env.Engine().Describe(env.Context(), id)
	if err != nil || d.Head.Status != want {
		env.Fatalf("run %s is %v, %v; want %v", id, d.Head.Status, err, want)
	}
}
