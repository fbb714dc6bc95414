// Package closing has the workflow of a nightly job over many children, with a limit.
package closing

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/schedule"
)

// A Bank has the accounts.
type Bank interface {
	// Accounts returns the names of all accounts.
	Accounts(ctx context.Context) ([]string, error)
	// Interest returns the interest of an account in cents, for a day.
	Interest(ctx context.Context, account string, day time.Time) (int, error)
}

// An Account is the input of the run of one account.
type Account struct {
	Name string
	Day  time.Time
}

// A Closing has the workflows of a bank.
type Closing struct {
	Night   *perdure.Workflow[struct{}, int] // returns the sum of all interests
	Account *perdure.Workflow[Account, int]
}

// New returns the workflows. At most width accounts are closed at a time, over all engines.
func New(bank Bank, width int) Closing {
	account := perdure.Define("close-account", func(ctx context.Context, a Account) (int, error) {
		return perdure.Step(ctx, "interest", func(ctx context.Context) (int, error) {
			return bank.Interest(ctx, a.Name, a.Day)
		}, perdure.Retry{Attempts: 5, First: time.Second})
	}, limit.Control{Concurrency: width})

	night := perdure.Define("close-day", func(ctx context.Context, _ struct{}) (int, error) {
		times, _, err := schedule.TimesOf(ctx)
		if err != nil {
			return 0, err
		}
		accounts, err := perdure.Step(ctx, "accounts", bank.Accounts)
		if err != nil {
			return 0, err
		}
		day := times.Time.UTC().Truncate(24 * time.Hour)
		children := make([]*perdure.Child[int], len(accounts))
		for i, name := range accounts {
			// All begin to wait now. The limit decides how many go on at a time.
			children[i] = account.Child(ctx, Account{Name: name, Day: day},
				perdure.ID(fmt.Sprint("close-", day.Format(time.DateOnly), "-", name)),
				perdure.Key(name))
		}
		sum := 0
		for i, child := range children {
			cents, err := child.Await(ctx)
			if err != nil {
				return sum, fmt.Errorf("account %s: %w", accounts[i], err)
			}
			sum += cents
		}
		return sum, nil
	}, schedule.Declare("close-day", schedule.Spec{
		Cron: "0 2 * * *", Zone: "Europe/Zurich", Description: "Closes all accounts of the bank",
	}))
	return Closing{Night: night, Account: account}
}
