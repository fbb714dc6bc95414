package steps

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/sqlite"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// A retry does not take a transaction that committed after a failure for another transaction.
// With a key, each is done once; without a key, the run is not retried.
//
// spec: F-18, P-4
func TestARetryTakesNoTransactionForAnother(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			broken, books := true, &world.Till{}
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				var all error
				for item := 1; item <= 3; item++ {
					name := fmt.Sprint("check-", item)
					if _, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
						if broken && item == 2 {
							return 0, world.ErrOdd
						}
						return item, nil
					}, perdure.NoRetry); err != nil {
						all = errors.Join(all, err)
						continue
					}
					var opts []perdure.StepOption
					if keyed {
						opts = append(opts, perdure.Key(fmt.Sprint(item)))
					}
					if _, err := perdure.StepTx(ctx, "book", books,
						func(ctx context.Context, tx *sql.Tx) (int,
							error) {
							return world.Book(ctx, tx, item)
						}, opts...); err != nil {
						return "", err
					}
				}
				return "", all
			})
			w := world.NewShop(t, perdure.Options{}, wf)
			books.Transactions = sqlite.Transactions(w.DB)
			run := world.Must[*perdure.Run[string]](t)(
				wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
			if _, err := run.Result(t.Context()); err == nil {
				t.Fatal("nothing failed")
			}
			broken = false
			time.Sleep(time.Second)
			again, err := w.Engine.Retry(t.Context(), "x")
			want := []int{1, 3}
			if keyed {
				want = []int{1, 2, 3}
				if err == nil {
					_, err = world.Must[*perdure.Run[string]](t)(wf.Get(t.Context(), w.Engine,
						again.RunID())).Result(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			} else {
				world.CodeIs(t, err, journal.CodeWrongState)
				if !strings.Contains(fmt.Sprint(err), "step book#2") {
					t.Errorf("it is refused with %v", err)
				}
			}
			if got := w.Booked(); !slices.Equal(got, want) {
				t.Errorf("booked is %v, want %v", got, want)
			}
		})
	}
}
