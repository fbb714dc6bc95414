package perduretest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
)

// A till is a database of the application with one table. It survives engines.
type till struct {
	mu   sync.Mutex
	rows []int
}

// A tillTx is a transaction on a till.
type tillTx struct{ rows []int }

func (*till) Begin(context.Context) (*tillTx, error) { return &tillTx{}, nil }

func (b *till) Commit(_ context.Context, tx *tillTx) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, tx.rows...)
	return nil
}

func (*till) Rollback(context.Context, *tillTx) error { return nil }

// A workflow with a step in a transaction, and a start in a transaction, are tested as any other.
// The step writes once, wherever the process dies.
//
// spec: B-4, B-6
func TestTransactionsAreTested(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		books := &till{}
		wf := perdure.Define("booking", func(ctx context.Context, cents int) (int, error) {
			n, err := perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *tillTx) (int,
				error) {
				if n, _, _ := perdure.Attempt(ctx); n == 1 {
					tx.rows = append(tx.rows, -1)
					return 0, errors.New("once more")
				}
				tx.rows = append(tx.rows, cents)
				return cents, nil
			}, perdure.Retry{Attempts: 2, NoDelay: true})
			if err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "after", func(context.Context) (int, error) {
				return n, nil
			})
		})
		env.Deploy(wf)
		if err := env.Do(func(eng *perdure.Engine) error {
			_, err := wf.Start(env.Context(), eng.In(&tillTx{}), 7, perdure.ID("in-a-transaction"))
			return err
		}); err != nil {
			env.Fatal(err)
		}
		perduretest.Start(env, wf, 5).Returns(5)
		perduretest.Get(env, wf, "in-a-transaction").Returns(7)
		slices.Sort(books.rows)
		if !slices.Equal(books.rows, []int{5, 7}) {
			env.Errorf("the till has %v", books.rows)
		}
		return books.rows
	})
}
