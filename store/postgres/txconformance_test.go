package postgres

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// inTransactions makes each commit of a database a part of a transaction of the caller.
func inTransactions(t *testing.T, url string, d storetest.Database) storetest.Database {
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
}
