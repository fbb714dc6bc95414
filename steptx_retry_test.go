package perdure_test

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
)

// A transaction that committed after a failure is not taken for another one by what is done
// anew: with a key each is made once, and without one the run is not retried.
//
// spec: F-18, P-4
func TestARetryTakesNoTransactionForAnother(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			broken, books := true, &till{}
			wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
				var all error
				for item := 1; item <= 3; item++ {
					name := fmt.Sprint("check-", item)
					if _, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
						if broken && item == 2 {
							return 0, errOdd
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
					if _, err := perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int, error) { return book(ctx, tx, item) }, opts...); err != nil {
						return "", err
					}
				}
				return "", all
			})
			w := newShop(t, perdure.Options{}, wf)
			books.Transactions = sqlite.Transactions(w.db)
			run := must[*perdure.Run[string]](t)(wf.Start(t.Context(), w.eng, 1, perdure.ID("x")))
			if _, err := run.Result(t.Context()); err == nil {
				t.Fatal("nothing failed")
			}
			broken = false
			time.Sleep(time.Second)
			again, err := w.eng.Retry(t.Context(), "x")
			want := []int{1, 3}
			if keyed {
				want = []int{1, 2, 3}
				if err == nil {
					_, err = must[*perdure.Run[string]](t)(wf.Get(t.Context(), w.eng, string(again.RunID()))).Result(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			} else if codeIs(t, err, journal.CodeWrongState); !strings.Contains(fmt.Sprint(err), "step book#2") {
				t.Errorf("it is refused with %v", err)
			}
			if got := w.booked(); !slices.Equal(got, want) {
				t.Errorf("booked is %v, want %v", got, want)
			}
		})
	}
}

// booked returns what was booked in a shop.
func (w *shop) booked() (cents []int) {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), "select cents from invoices order by cents")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		cents = append(cents, n)
	}
	return cents
}
