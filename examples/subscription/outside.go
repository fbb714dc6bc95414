package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/perdure/perdure/examples/subscription/billing"
)

// The bank has books of all charges.
var (
	mu      sync.Mutex
	charged = map[string]bool{}
	books   []string
	cents   = map[string]int{"basic": 900, "pro": 2900} // price of a month, by plan
)

// charge charges a month, once for each key. It reports whether the card was good. The
// first answer to every third charge is lost.
func charge(_ context.Context, key string, s billing.Subscription) (paid bool, err error) {
	mu.Lock()
	defer mu.Unlock()
	if charged[key] || s.Card == "tok_empty" {
		return charged[key], nil
	}
	charged[key] = true
	books = append(books, fmt.Sprintf("%s %s %d", s.Customer, s.Due().Format(time.DateOnly),
		cents[s.Plan]))
	log.Println("charged", books[len(books)-1])
	if s.Months%3 == 2 {
		return false, errors.New("the bank's answer was lost")
	}
	return true, nil
}
