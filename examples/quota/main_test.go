package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/quota/crm"
	"github.com/perdure/perdure/perduretest"
)

// No customer gets more calls for each second than allowed, from any run, although the process
// dies. A small customer does not wait for a large one.
//
// spec: R-33
func TestEachCustomerHasItsOwnRate(t *testing.T) {
	var mu sync.Mutex
	calls := map[string][]time.Time{}
	contacts := crm.Contacts(func(_ context.Context, customer, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		calls[customer] = append(calls[customer], time.Now())
		return nil
	}, 2)
	many := make([]string, 30)
	perduretest.Test(t, func(env *perduretest.Env) {
		for i := range 3 {
			perduretest.Start(env, contacts, crm.Sync{Customer: "large", Contacts: many},
				perdure.ID(fmt.Sprint("large-", i)))
		}
		small := perduretest.Start(env, contacts, crm.Sync{Customer: "small", Contacts: many[:4]})
		env.Sleep(5 * time.Second)
		if sent, err := small.Result(); err != nil || sent != 4 {
			env.Errorf("the small customer has %d contacts: %v", sent, err)
		}
		env.Crash()
		env.Sleep(10 * time.Minute)
		for customer, all := range calls {
			for i := range len(all) - 4 {
				if took := all[i+4].Sub(all[i]); took < time.Second {
					env.Errorf("%s had five calls within %v", customer, took)
				}
			}
		}
		if len(calls["large"]) < 90 {
			env.Errorf("%d calls for the large customer", len(calls["large"]))
		}
	}, contacts)
}
