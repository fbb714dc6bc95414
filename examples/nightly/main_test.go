package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/nightly/closing"
	"github.com/perdure/perdure/perduretest"
)

// A busyBank counts how many accounts are closed at a time, and fails now and then.
type busyBank struct {
	vault
	mu       sync.Mutex
	on, most int
	calls    int
}

func (b *busyBank) count(by int) (calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on += by
	b.most = max(b.most, b.on)
	b.calls++
	return b.calls
}

func (b *busyBank) Interest(ctx context.Context, account string, day time.Time) (int, error) {
	defer b.count(-1)
	if b.count(1)%17 == 0 {
		return 0, errors.New("the bank is busy")
	}
	return b.vault.Interest(ctx, account, day)
}

// All accounts are closed each night, ten at a time, although the process dies on the way.
//
// spec: R-32, B-10
func TestAllAccountsAreClosedEachNight(t *testing.T) {
	bank := &busyBank{}
	all := closing.New(bank, 10)
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Sleep(90 * time.Minute) // it is 01:30 in UTC, and half past two in Zurich
		env.Crash()
		env.Sleep(24 * time.Hour)
		heads, _, err := env.Engine().List(env.Context(), perdure.Query{Workflow: "close-day"})
		if err != nil {
			env.Fatal(err)
		}
		want := 0
		accounts, _ := bank.Accounts(env.Context())
		for _, name := range accounts {
			want += len(name)
		}
		for _, h := range heads {
			run, err := all.Night.Get(env.Context(), env.Engine(), string(h.ID))
			if err != nil {
				env.Fatal(err)
			}
			if sum, err := run.Result(env.Context()); err != nil || sum != want {
				env.Errorf("the sum is %d, want %d; %v", sum, want, err)
			}
		}
		if len(heads) != 2 || bank.most != 10 {
			env.Errorf("%d nights, and at most %d accounts at a time", len(heads), bank.most)
		}
	}, all.Night, all.Account)
}
