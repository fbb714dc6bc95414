package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/perdure/perdure/examples/approval/expense"
)

// outside is the mail and the bank. It does each thing once for each key. The bank does not
// answer every second call, beginning with the first.
var outside = &world{done: map[string]bool{}}

type world struct {
	mu   sync.Mutex
	done map[string]bool // by key
	log  []string
	busy bool // the bank was asked, and did not answer
}

// Mail sends a mail.
func (w *world) Mail(_ context.Context, key, to, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do(key, fmt.Sprintf("mail to %s: %s", to, text))
	return nil
}

// Pay pays an expense back.
func (w *world) Pay(_ context.Context, key string, e expense.Expense) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy = !w.busy; w.busy {
		return errors.New("the bank does not answer")
	}
	w.do(key, fmt.Sprintf("pay %d cents to %s", e.Cents, e.By))
	return nil
}

func (w *world) do(key, what string) {
	if !w.done[key] {
		w.done[key] = true
		w.log = append(w.log, what)
		log.Println(what)
	}
}
