// Command nightly closes all accounts of a bank each night at two. Each account is a run of its
// own, and at most ten of them go on at a time.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/nightly/closing"
)

// A vault is the bank of this program. It is slow.
type vault struct{}

func (vault) Accounts(context.Context) (all []string, err error) {
	for i := range 200 {
		all = append(all, fmt.Sprint("account-", i))
	}
	return all, nil
}

func (vault) Interest(ctx context.Context, account string, _ time.Time) (int, error) {
	select {
	case <-time.After(time.Second):
		return len(account), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Bank has the workflows of this program.
var Bank = closing.New(vault{}, 10)

func main() { app.Main(Bank.Night, Bank.Account) }
