package world

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// A Shop is an application with a table of its own beside its runs, on SQLite.
type Shop struct {
	T      testing.TB
	Store  store.Store
	DB     *sql.DB
	Engine *perdure.Engine
}

// NewShop opens a shop with an engine that runs until the test ends.
func NewShop(t testing.TB, options perdure.Options, workflows ...perdure.Definition) *Shop {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &Shop{T: t, Store: s, DB: OpenTables(t, path)}
	w.Engine, err = perdure.New(s, options)
	if err == nil {
		err = w.Engine.Register(workflows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, w.DB.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// OpenTables opens a database file as its user, with a table.
func OpenTables(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+
		"?_txlock=immediate&_pragma=busy_timeout(30000)")
	if err == nil {
		_, err = db.Exec("create table if not exists invoices (id text primary key, cents integer)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// In calls f in a transaction that has written already, and commits it or not.
func (w *Shop) In(commit bool, f func(tx *sql.Tx)) {
	w.T.Helper()
	tx, err := w.DB.BeginTx(w.T.Context(), nil)
	if err == nil {
		_, err = tx.Exec("insert into invoices values (hex(randomblob(8)), 1)")
	}
	if err != nil {
		w.T.Fatal(err)
	}
	f(tx)
	if commit {
		err = tx.Commit()
	} else {
		err = tx.Rollback()
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// Invoices counts the invoices.
func (w *Shop) Invoices() (n int) {
	w.T.Helper()
	if err := w.DB.QueryRow("select count(*) from invoices").Scan(&n); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// Booked returns the cents of all invoices, sorted.
func (w *Shop) Booked() (cents []int) {
	w.T.Helper()
	rows, err := w.DB.QueryContext(w.T.Context(), "select cents from invoices order by cents")
	if err != nil {
		w.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			w.T.Fatal(err)
		}
		cents = append(cents, n)
	}
	return cents
}

// Book writes an invoice, and returns its cents.
func Book(ctx context.Context, tx *sql.Tx, cents int) (int, error) {
	_, err := tx.ExecContext(ctx, "insert into invoices values (hex(randomblob(8)), ?)", cents)
	return cents, err
}

// A Till has transactions in which something may go wrong.
type Till struct {
	perdure.Transactions[*sql.Tx]
	mu       sync.Mutex
	OnCommit func(n int, tx *sql.Tx) error // commits the n-th one; if nil, that works
	Begun    int                           // counts what began
	Ends     int                           // counts the commits
}

// Begin implements [perdure.Transactions].
func (t *Till) Begin(ctx context.Context) (*sql.Tx, error) {
	t.mu.Lock()
	t.Begun++
	t.mu.Unlock()
	return t.Transactions.Begin(ctx)
}

// Commit implements [perdure.Transactions].
func (t *Till) Commit(ctx context.Context, tx *sql.Tx) error {
	t.mu.Lock()
	t.Ends++
	n := t.Ends
	t.mu.Unlock()
	if t.OnCommit != nil {
		return t.OnCommit(n, tx)
	}
	return t.Transactions.Commit(ctx, tx)
}
