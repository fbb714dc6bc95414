package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// users opens the database of a test as an application would, with transactions that have the lock
// from their beginning.
func users(t *testing.T, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+
		"?_txlock=immediate&_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestConformanceInTransactions runs the contract of commits on groups that are written into an
// application's transactions.
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

// Transactions that begin as package database/sql does by default start runs while others write:
// each waits for the lock.
//
// spec: B-4
func TestPlainTransactionsStartRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := mustOpen(t, path)
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const users, each = 4, 25
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for i := range each {
				if err := startPlain(t.Context(), s, db, int64(1+user*each+i)); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() { // an engine at work
			for i := range each {
				if err := s.Commit(t.Context(),
					start(s, got.Engine, int64(1000+user*each+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	info, err := s.Info(t.Context())
	if err != nil || info.Runs != 2*users*each {
		t.Errorf("%d runs are there, %v", info.Runs, err)
	}
}

func startPlain(ctx context.Context, s *Store, db *sql.DB, n int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	part, err := s.In(tx)
	if err == nil {
		var reserved journal.EngineID
		if reserved, err = part.ReserveID(ctx); err == nil {
			g := start(s, reserved, n)
			g.Engine = 0
			err = part.Commit(ctx, g)
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// A transaction that has read data which others have changed since is refused with a remedy.
//
// spec: B-4
func TestTransactionThatIsTooOldIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := mustOpen(t, path)
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var rows int
	if err := tx.QueryRow("select count(*) from perdure_heads").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if _, err := join(s); err != nil {
		t.Fatal(err)
	}
	part, err := s.In(tx)
	if err != nil {
		t.Fatal(err)
	}
	err = part.Commit(t.Context(), start(s, 0, 1))
	var refused *store.TransactionError
	if !errors.As(err, &refused) || !refused.Stale ||
		!strings.Contains(err.Error(), "_txlock=immediate") {
		t.Errorf("it is told %v", err)
	}
}

// While a call in the store waits for the lock that an application's transaction has, the
// transaction can read facts about the store, and learns that the store is closed. It waits for no
// call that waits for it.
//
// spec: B-4
func TestATransactionWaitsForNobodyWhoWaitsForIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := mustOpen(t, path)
	if _, err := join(s); err != nil { // an engine, which Info returns below
		t.Fatal(err)
	}
	tx, err := users(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.In(tx)
	if err != nil {
		t.Fatal(err)
	}
	waits, closes := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), store.ReserveID{})
		waits <- err
	}()
	for s.writing.TryLock() { // until the call waits
		s.writing.Unlock()
		runtime.Gosched()
	}
	if _, err := s.Info(t.Context()); err != nil {
		t.Error(err)
	}
	go func() { closes <- s.Close() }()
	for err = nil; err == nil; runtime.Gosched() { // until Close has begun
		_, err = part.ReserveID(t.Context())
	}
	if !errors.Is(err, store.ErrClosed) {
		t.Errorf("the transaction is told %v", err)
	}
	if err := errors.Join(tx.Rollback(), <-waits, <-closes); err != nil {
		t.Error(err)
	}
}

// A transaction on a file without a store is refused as one on another store is, whether it was
// begun by [Transactions] or not.
//
// spec: B-4
func TestTransactionOnAFileWithoutAStoreIsRefused(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	db := users(t, script(t, "create table theirs (x)"))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.In(tx)
	if err != nil {
		t.Fatal(err)
	}
	_, reserved := part.ReserveID(t.Context())
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, begun := Transactions(db).Begin(t.Context())
	for name, err := range map[string]error{"ReserveID": reserved, "Begin": begun} {
		var refused *store.TransactionError
		if !errors.As(err, &refused) || refused.Stale ||
			refused.Got != "one on a file without a store" {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("%d transactions are open", open)
	}
}
