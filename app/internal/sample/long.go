package sample

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/pattern"
)

// Statements is the order for the statements of a month.
type Statements struct {
	Month    string `json:"month"`
	Accounts int    `json:"accounts"`
	Millis   int    `json:"millis,omitempty"` // how long one takes; 0 for a second
}

// statements is a long run: a step for each account. A worker that dies in the middle costs the
// step in flight and nothing else.
func statements() perdure.Definition {
	return perdure.Define("statements", func(ctx context.Context, o Statements) (string, error) {
		each := time.Duration(o.Millis) * time.Millisecond
		if each <= 0 {
			each = time.Second
		}
		for i := range o.Accounts {
			err := perdure.Do(ctx, "write", func(ctx context.Context) error {
				return workFor(ctx, each)
			}, perdure.Key(fmt.Sprintf("acc-%03d", i+1)), pattern.Announced) // shown while it runs
			if err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d statements of %s", o.Accounts, o.Month), nil
	}, taking(statementsInput, "Writes a statement for each account, one after the other: a run "+
		"that takes minutes. Kill the worker meanwhile."))
}

// An Invoice is a mail with an amount. Money is in cents.
type Invoice struct {
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// invoice tries a step again when it fails. If it fails for good, a dead letter is kept for people.
func invoice() perdure.Definition {
	return perdure.Define("invoice", func(ctx context.Context, in Invoice) (string, error) {
		return perdure.Step(ctx, "mail", func(ctx context.Context) (string, error) {
			if err := workFor(ctx, moment/4); err != nil {
				return "", err
			}
			if !strings.Contains(in.To, "@") {
				return "", errors.New("the mail server does not know " + in.To)
			}
			return "sent to " + in.To, nil
		}, perdure.Retry{Attempts: 3, First: moment, Factor: 2})
	}, deadletter.Automatic(true), taking(invoiceInput, "Mails an invoice. A failing step is "+
		"tried again; what fails for good becomes a dead letter."))
}
