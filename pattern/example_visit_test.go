package pattern_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/pattern"
)

// One piece of work goes on over three steps of the workflow, with one idempotency key.
func ExampleVisit() {
	w := perdure.Define("w", func(ctx context.Context, pages int) (string, error) {
		at := 0
		key := ""
		v := pattern.Visit{Name: "read", Call: func(ctx context.Context) (pattern.Visited, error) {
			fmt.Println("page", at, "same key:", key == "" || key == perdure.IdempotencyKey(ctx))
			key = perdure.IdempotencyKey(ctx)
			data, err := json.Marshal(at + 1)
			if at+1 < pages {
				return pattern.Visited{Data: data, Then: "YIELD"}, err
			}
			return pattern.Visited{Data: data, Over: true}, err
		}}
		for {
			r, err := v.Run(ctx)
			if err != nil || r.Then == "" {
				return string(r.Data), err
			}
			if err := json.Unmarshal(r.Data, &at); err != nil {
				return "", err
			}
		}
	})
	printResult(w, 3)
	// Output:
	// page 0 same key: true
	// page 1 same key: true
	// page 2 same key: true
	// 3
}

// A visit looks at the inbox, and waits until there is something new in it.
func ExampleVisit_Signal() {
	paid := perdure.NewSignal[int]("paid")
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		sum := 0
		v := pattern.Visit{Name: "collect", Call: func(
			ctx context.Context) (pattern.Visited, error) {
			all, err := paid.All(ctx)
			if len(all) == 0 {
				return pattern.Visited{Then: "SUSPEND", Watches: true}, err
			}
			sum = all[0]
			return pattern.Visited{Over: true}, err
		}}
		for {
			r, err := v.Run(ctx)
			if err != nil || r.Then == "" {
				return sum, err
			}
			if come, err := v.Signal(ctx, r, time.Millisecond); err != nil || !come {
				return 0, err
			}
		}
	})
	printResult(w, 0)
	// Output: 0
}

var errBusy = errors.New("busy")

// A policy decides what follows each failure of a visit.
func ExampleNextAttempt() {
	policy := perdure.Retry{Attempts: 3, First: time.Second, Factor: 10}
	for n := 1; n <= 3; n++ {
		fmt.Println(pattern.NextAttempt(policy, n, errBusy))
	}
	fmt.Println(pattern.NextAttempt(policy, 1, perdure.Permanent(errBusy)))
	// Output:
	// 1s true
	// 10s true
	// 0s false
	// 1s true
}

// An attempt knows the error of the one before.
func ExampleBefore() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := pattern.Visit{
			Name: "ask",
			Retry: func(n int, err error) (time.Duration, bool) {
				return pattern.NextAttempt(perdure.Retry{NoDelay: true}, n, err)
			},
			Call: func(ctx context.Context) (pattern.Visited, error) {
				before := pattern.Before(ctx)
				fmt.Println("before:", before)
				if before == nil {
					return pattern.Visited{}, errBusy
				}
				return pattern.Visited{Over: true}, nil
			},
		}.Run(ctx)
		return 1, err
	})
	printResult(w, 0)
	// Output:
	// before: <nil>
	// before: busy
	// 1
}

// A long attempt hands over when its time is up.
func ExampleShouldYield() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := pattern.Visit{Name: "work", Call: func(
			ctx context.Context) (pattern.Visited, error) {
			fmt.Println(pattern.ShouldYield(ctx, time.Hour), pattern.ShouldYield(ctx, 0))
			return pattern.Visited{Over: true}, nil
		}}.Run(ctx)
		return 1, err
	})
	printResult(w, 0)
	// Output:
	// false true
	// 1
}
