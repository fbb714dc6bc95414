package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

var errOdd = errors.New("odd")

// A bank has accounts and holds on them. It executes each request once per key.
type bank struct {
	mu       sync.Mutex
	balances map[string]int
	holds    map[string]hold // by participant
	done     map[string]error
	rng      *rand.Rand
	applied  int
}

// A hold is an amount that is taken off an account, or that will come to it.
type hold struct {
	account string
	cents   int // below 0 for an amount that will come
}

type transferOf struct {
	From, To string
	Cents    int
}

var errPoor = errors.New("not enough money")

// once calls do under the key of the step. It may fail before or after that, and then nobody learns
// the result. A failure on purpose leaves nothing behind.
func (b *bank) once(ctx context.Context, do func(of string) error) error {
	key := perdure.IdempotencyKey(ctx)
	info, _ := perdure.StepOf(ctx)
	of := string(info.Run.ID) + "/" + info.Of
	b.mu.Lock()
	before, after, slow := b.rng.IntN(8) == 0, b.rng.IntN(8) == 0 && info.Phase != perdure.PhaseTry,
		b.rng.IntN(3)
	b.mu.Unlock()
	select {
	case <-time.After(time.Duration(slow) * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if before {
		return errOdd
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err, known := b.done[key]; known {
		return err
	}
	b.done[key] = do(of)
	b.applied++
	if after {
		return errOdd
	}
	return b.done[key]
}

// try takes an amount off an account and holds it. A coming amount is only held.
func (b *bank) try(ctx context.Context, account string, cents int) error {
	return b.once(ctx, func(of string) error {
		switch {
		case b.done["cancelled "+of] != nil: // the cancel came first: nobody will cancel it again
			return perdure.Permanent(errors.New("it was cancelled"))
		case cents > b.balances[account]:
			return perdure.Permanent(errPoor)
		}
		b.balances[account] -= max(cents, 0)
		b.holds[of] = hold{account, cents}
		return nil
	})
}

func (b *bank) confirm(ctx context.Context, refuses bool) error {
	if refuses {
		return perdure.Permanent(errOdd)
	}
	return b.once(ctx, func(of string) error {
		h := b.holds[of]
		delete(b.holds, of)
		b.balances[h.account] -= min(h.cents, 0)
		b.done["booked "+of] = fmt.Errorf("%s %d", h.account, h.cents)
		return nil
	})
}

// cancel undoes the effects that the try and the confirm have had.
func (b *bank) cancel(ctx context.Context) error {
	return b.once(ctx, func(of string) error {
		b.done["cancelled "+of] = errOdd
		h, held := b.holds[of]
		delete(b.holds, of)
		if booked := b.done["booked "+of]; booked != nil {
			fmt.Sscanf(booked.Error(), "%s %d", &h.account, &h.cents)
			b.balances[h.account] += h.cents
		} else if held {
			b.balances[h.account] += max(h.cents, 0)
		}
		return nil
	})
}

// transfers is the TCC of a bank. One confirm in five is permanently refused.
func (b *bank) transfers() *tcc.TCC[transferOf] {
	d := tcc.New[transferOf]("transfer", perdure.Timeout(time.Minute)).
		Retry(perdure.Retry{Attempts: 50, First: time.Millisecond, Cap: time.Second})
	tcc.Add(d, "debit", func(ctx context.Context, in transferOf) (string, error) {
		return in.From, b.try(ctx, in.From, in.Cents)
	}).Confirm(func(ctx context.Context, in transferOf, _ string) error {
		return b.confirm(ctx, in.Cents%10 == 1)
	}).
		Cancel(func(ctx context.Context, _ transferOf, _ string) error { return b.cancel(ctx) })
	tcc.Add(d, "credit", func(ctx context.Context, in transferOf) (string, error) {
		return in.To, b.try(ctx, in.To, -in.Cents)
	}).Confirm(func(ctx context.Context, in transferOf, _ string) error {
		return b.confirm(ctx, in.Cents%10 == 2)
	}).
		Cancel(func(ctx context.Context, _ transferOf, _ string) error { return b.cancel(ctx) })
	return d
}

// No failure, cancel, timeout or crash makes or loses money, and nothing is held at the end.
//
// spec: F-38
func TestTransfersKeepTheSum(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(round)))
			b := &bank{
				balances: map[string]int{},
				holds:    map[string]hold{},
				done:     map[string]error{},
				rng:      rand.New(rand.NewPCG(seed, uint64(round)+1000)),
			}
			const accounts, each = 5, 300
			for i := range accounts {
				b.balances[fmt.Sprint("a", i)] = each
			}
			d := b.transfers()
			perduretest.Test(t, func(env *perduretest.Env) {
				statuses := map[string]int{}
				var ids []string
				for i := range 60 {
					in := transferOf{
						fmt.Sprint("a", rng.IntN(accounts)), fmt.Sprint("a", rng.IntN(accounts)),
						1 + rng.IntN(200),
					}
					ids = append(ids, perduretest.Start(env, d.Workflow, in).ID())
					env.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
					if rng.IntN(4) == 0 {
						_ = env.Engine().Cancel(env.Context(), ids[rng.IntN(len(ids))], "enough")
					}
					if rng.IntN(8) == 0 || i == 30 {
						env.Crash()
						if i == 30 { // some have timed out meanwhile
							env.Sleep(2 * time.Minute)
						}
					}
				}
				env.Sleep(time.Hour)
				for _, id := range ids {
					s, err := env.Engine().Statuses(env.Context(), id)
					if err != nil {
						env.Fatal(err)
					}
					statuses[s[0].Head.Status.String()]++
				}
				sum := 0
				for _, cents := range b.balances {
					sum += cents
				}
				if sum != accounts*each || len(b.holds) > 0 {
					env.Errorf("seed %d: the sum is %d, want %d; held: %v; %v", seed, sum,
						accounts*each, b.holds, statuses)
				}
				if n := statuses["CONFIRMED"] + statuses["CANCELED"]; n != len(ids) ||
					statuses["CONFIRMED"] == 0 || statuses["CANCELED"] == 0 {
					env.Errorf("seed %d: %v", seed, statuses)
				}
			}, d)
		})
	}
}
