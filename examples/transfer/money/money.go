// Package money has the transfer between two accounts: a TCC in which both confirm, or neither.
package money

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tcc"
)

// A Transfer moves money from one account to another one.
type Transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// An Action changes an account.
type Action string

// The actions: the first three for the account that pays, the others for the account to be paid.
const (
	Hold     Action = "hold"     // set money aside
	Take     Action = "take"     // remove the money that was set aside
	Return   Action = "return"   // undo Hold, and Take if that was done
	Announce Action = "announce" // ask whether the account takes money
	Book     Action = "book"     // add the money
	Recall   Action = "recall"   // undo Book if that was done
)

// A Bank does an action with an account. Each action of a transfer takes effect once, in
// whatever order and however often the bank gets it.
type Bank func(ctx context.Context, do Action, account string, cents int64) error

// Move returns the TCC of a transfer in that bank. If a confirm fails for good, the run
// waits for an operator, because the money is on its way.
func Move(bank Bank) *tcc.TCC[Transfer] {
	t := tcc.New[Transfer]("transfer", perdure.Timeout(time.Hour)).Park()
	bank.add(t, "debit", func(t Transfer) string { return t.From }, Hold, Take, Return)
	bank.add(t, "credit", func(t Transfer) string { return t.To }, Announce, Book, Recall)
	return t
}

// add adds an account as a participant, with its actions.
func (bank Bank) add(
	t *tcc.TCC[Transfer], name string, account func(Transfer) string, try, confirm, cancel Action,
) {
	end := func(do Action) func(context.Context, Transfer, bool) error {
		return func(ctx context.Context, t Transfer, _ bool) error {
			return bank(ctx, do, account(t), t.Cents)
		}
	}
	tcc.Add(t, name, func(ctx context.Context, t Transfer) (bool, error) {
		return true, bank(ctx, try, account(t), t.Cents)
	}).Confirm(end(confirm)).Cancel(end(cancel))
}
