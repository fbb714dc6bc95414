// Package crm has a workflow whose calls are limited for each customer.
package crm

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/limit"
)

// A Sync is the input of a run: the contacts of a customer that are to be sent.
type Sync struct {
	Customer string   `json:"customer"`
	Contacts []string `json:"contacts"`
}

// Send sends a contact to the CRM of a customer.
type Send func(ctx context.Context, customer, contact string) error

// Contacts returns the workflow that sends contacts. The CRM takes so many calls for each second of
// each customer. The calls of one customer wait for nobody else's.
func Contacts(send Send, perSecond int) *perdure.Workflow[Sync, int] {
	return perdure.Define("sync-contacts", func(ctx context.Context, in Sync) (int, error) {
		for i, contact := range in.Contacts {
			// A call that has to wait makes no attempt, and its run may leave memory.
			if err := perdure.Do(ctx, "send", func(ctx context.Context) error {
				return send(ctx, in.Customer, contact)
			}, perdure.Retry{Attempts: 5, First: time.Second}, limit.Control{
				Name: "crm", Key: limit.Is(in.Customer),
				Rate: limit.Rate{Tokens: perSecond, Per: time.Second, Burst: perSecond},
			}); err != nil {
				return i, fmt.Errorf("contact %s: %w", contact, err)
			}
		}
		return len(in.Contacts), nil
	})
}
