package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// users opens the database of a test as its user would, with transactions that have
// the lock from their beginning.
func users(t *testing.T, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestConformanceInTransactions holds what is written into transactions of a user's
// against the contract of commits.
//
// spec: B-4
func TestConformanceInTransactions(t *testing.T) {
	storetest.RunCommits(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		db := users(t, path)
		return storetest.Database{
			Open: func() (store.Store, error) {
				s, err := Open(path)
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
			},
			Corrupt: func(run journal.Number, seq int64) error { return corrupt(path, run, seq) },
			Lose:    func(run journal.Number, seq int64) error { return lose(path, run, seq) },
		}
	})
}
