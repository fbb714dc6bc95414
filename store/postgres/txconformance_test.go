package postgres

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// TestConformanceInTransactions runs the commits of the contract in transactions of a user's.
//
// spec: B-4
func TestConformanceInTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	f := farm.New(t).Cleared()
	storetest.RunCommits(t, func(t *testing.T) storetest.Database {
		url := f.URL(t)
		d := at(t, url, Options{})
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		open := d.Open
		d.Open = func() (store.Store, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			return storetest.Within(s, func(ctx context.Context) (storetest.Tx, error) {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return storetest.Tx{}, err
				}
				return storetest.Tx{Handle: tx, Commit: tx.Commit, Rollback: tx.Rollback}, nil
			}), nil
		}
		return d
	})
}
