package perdure_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// A shop is an application with a table of its own beside its runs, on SQLite.
type shop struct {
	t   *testing.T
	s   store.Store
	db  *sql.DB
	eng *perdure.Engine
}

var (
	settled = perdure.NewSignal[int]("settled")
	dunns   = perdure.Define("dun", func(ctx context.Context, owed int) (int, error) {
		got, err := settled.Wait(ctx)
		return owed - got, err
	})
)

// newShop opens a shop with an engine that runs until the test ends.
func newShop(t *testing.T, options perdure.Options, workflows ...perdure.Definition) *shop {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &shop{t: t, s: s, db: openTables(t, path)}
	w.eng, err = perdure.New(s, options)
	if err == nil {
		err = w.eng.Register(workflows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, w.db.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// openTables opens a database file as its user, with a table.
func openTables(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	if err == nil {
		_, err = db.Exec("create table if not exists invoices (id text primary key, cents integer)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// in calls f in a transaction that has written already, and commits it or not.
func (w *shop) in(commit bool, f func(tx *sql.Tx)) {
	w.t.Helper()
	tx, err := w.db.BeginTx(w.t.Context(), nil)
	if err == nil {
		_, err = tx.Exec("insert into invoices values (hex(randomblob(8)), 1)")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	f(tx)
	if commit {
		err = tx.Commit()
	} else {
		err = tx.Rollback()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *shop) invoices() (n int) {
	w.t.Helper()
	if err := w.db.QueryRow("select count(*) from invoices").Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// spec: B-4
func TestARunStartedInATransactionExistsExactlyIfThatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newShop(t, perdure.Options{}, dunns)
		ctx := t.Context()
		var run *perdure.Run[int]
		for _, commit := range []bool{false, true} {
			w.in(commit, func(tx *sql.Tx) {
				run = must[*perdure.Run[int]](t)(dunns.StartTx(ctx, w.eng, tx, 10, perdure.ID("inv-1")))
				if !run.New() {
					t.Error("a new run is said to be there")
				}
				again := must[*perdure.Run[int]](t)(dunns.StartTx(ctx, w.eng, tx, 10, perdure.ID("inv-1")))
				if again.New() || again.RunID() != run.RunID() {
					t.Errorf("the second start in the transaction gives run %s, new: %v", again.RunID(), again.New())
				}
				if _, err := w.eng.Get(ctx, "inv-1"); journal.CodeOf(err) != journal.CodeNotFound {
					t.Errorf("before the end of the transaction: %v", err)
				}
			})
			_, err := w.eng.Get(ctx, "inv-1")
			if found := err == nil; found != commit || w.invoices() != map[bool]int{true: 1}[commit] {
				t.Errorf("committed: %v, found: %v (%v), invoices: %d", commit, found, err, w.invoices())
			}
		}
		for _, commit := range []bool{false, true} {
			w.in(commit, func(tx *sql.Tx) {
				d := must[perdure.Delivery](t)(settled.SendTx(ctx, w.eng, tx, "inv-1", 4, perdure.SendKey("p1")))
				if d.Run != run.RunID() || d.Number != 1 {
					t.Errorf("delivered as %+v", d)
				}
				d = must[perdure.Delivery](t)(w.eng.SendTx(ctx, tx, "inv-1", "settled", []byte("4"), perdure.SendKey("p1")))
				if !d.Duplicate {
					t.Errorf("the same key again is %+v", d)
				}
			})
			time.Sleep(time.Minute)
			if d := must[perdure.Description](t)(w.eng.Describe(ctx, "inv-1")); d.Head.Status.IsTerminal() != commit {
				t.Errorf("committed: %v, the run is %v", commit, d.Head.Status)
			}
		}
		if left := must[int](t)(run.Result(ctx)); left != 6 {
			t.Errorf("%d are owed, want 6", left)
		}
	})
}

// spec: B-4
func TestEnginesHearOfAStrangersTransactionSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newShop(t, perdure.Options{Sweep: -1}, dunns)
		w.in(true, func(tx *sql.Tx) {
			must[perdure.Delivery](t)(perdure.SendWithStartTx(t.Context(), w.eng, tx, settled, 3, dunns, 10, perdure.ID("inv-1")))
		})
		began := time.Now()
		run := must[*perdure.Run[int]](t)(dunns.Get(t.Context(), w.eng, "inv-1"))
		if left := must[int](t)(run.Result(t.Context())); left != 7 {
			t.Errorf("%d are owed, want 7", left)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A client that has numbers of its own takes those; one that has none must not wait
// for them, since its transaction has the lock that they need.
//
// spec: B-4
func TestAClientWithoutNumbersStartsInATransactionThatHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newShop(t, perdure.Options{}, dunns)
		ctx := t.Context()
		c := must[*perdure.Client](t)(perdure.NewClient(ctx, w.s))
		began := time.Now()
		large := bytes.Repeat([]byte("7"), 200_000)
		large[0] = '1'
		for i := range 3 {
			w.in(true, func(tx *sql.Tx) {
				must[*perdure.RawRun](t)(c.StartTx(ctx, tx, "other", append(append([]byte(`"`), large...), '"')))
				d := must[perdure.Delivery](t)(settled.SendTx(ctx, c, tx, "inv-2", i))
				if !d.Unrouted {
					t.Errorf("a signal for nobody is %+v", d)
				}
			})
			synctest.Wait()
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		heads, _, err := c.Find(ctx, perdure.Query{Workflow: "other"})
		if err != nil || len(heads) != 3 {
			t.Fatalf("%d runs, %v", len(heads), err)
		}
		for _, h := range heads {
			if e := must[[]journal.Entry](t)(c.History(ctx, string(h.ID), 1, 1)); len(e[0].Data) != len(large)+2 || e[0].Spill == 0 {
				t.Errorf("the input of %s has %d bytes", h.ID, len(e[0].Data))
			}
		}
		run := must[*perdure.Run[int]](t)(dunns.Start(ctx, c, 5, perdure.ID("inv-2")))
		if left := must[int](t)(run.Result(ctx)); left != 5 {
			t.Errorf("%d are owed: the run has not got the first of the signals that waited", left)
		}
	})
}

// spec: B-4
func TestATransactionThatTheStoreCannotTakePartInIsRefused(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "shop.db")
	s := must[*sqlite.Store](t)(sqlite.Open(path))
	defer s.Close()
	c := must[*perdure.Client](t)(perdure.NewClient(ctx, s))
	other := must[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "other.db")))
	defer other.Close()
	for name, where := range map[string]string{"another database": filepath.Join(t.TempDir(), "other.db"), "no database of runs": filepath.Join(t.TempDir(), "mine.db")} {
		if name == "another database" {
			o := must[*sqlite.Store](t)(sqlite.Open(where))
			defer o.Close()
		}
		db := openTables(t, where)
		defer db.Close()
		tx := must[*sql.Tx](t)(db.BeginTx(ctx, nil))
		_, err := c.StartTx(ctx, tx, "dun", []byte("1"))
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	for _, tx := range []any{nil, 7, (*sql.Tx)(nil), &sql.DB{}} {
		_, err := c.SendTx(ctx, tx, "inv-1", "settled", nil)
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) || refused.Want != "a *sql.Tx on the same file" {
			t.Errorf("%T: %v", tx, err)
		}
	}
	m := must[*perdure.Client](t)(perdure.NewClient(ctx, onlyStore{memory.New()}))
	if _, err := m.StartTx(ctx, nil, "dun", nil); journal.CodeOf(err) != journal.CodeInvalid {
		t.Errorf("a store that takes part in none: %v", err)
	}
}

// onlyStore hides what else a store can do.
type onlyStore struct{ store.Store }
