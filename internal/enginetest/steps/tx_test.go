package steps

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

var (
	settled = perdure.NewSignal[int]("settled")
	dunns   = perdure.Define("dun", func(ctx context.Context, debt int) (int, error) {
		got, err := settled.Wait(ctx)
		return debt - got, err
	})
)

// spec: B-4
func TestARunStartedInATransactionExistsExactlyIfThatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.NewShop(t, perdure.Options{}, dunns)
		ctx := t.Context()
		var run *perdure.Run[int]
		for _, commit := range []bool{false, true} {
			w.In(commit, func(tx *sql.Tx) {
				run = world.Must[*perdure.Run[int]](t)(dunns.Start(ctx, w.Engine.In(tx), 10,
					perdure.ID("inv-1")))
				if !run.New() {
					t.Error("a new run is said to be there")
				}
				again := world.Must[*perdure.Run[int]](t)(dunns.Start(ctx, w.Engine.In(tx), 10,
					perdure.ID("inv-1")))
				if again.New() || again.RunID() != run.RunID() {
					t.Errorf("the second start in the transaction gives run %s, new: %v",
						again.RunID(), again.New())
				}
				if _,
					err := w.Engine.Get(ctx, "inv-1"); journal.CodeOf(err) != journal.CodeNotFound {
					t.Errorf("before the end of the transaction: %v", err)
				}
			})
			_, err := w.Engine.Get(ctx, "inv-1")
			if found := err == nil; found != commit || w.Invoices() != map[bool]int{
				true: 1,
			}[commit] {
				t.Errorf("committed: %v, found: %v (%v), invoices: %d", commit, found, err,
					w.Invoices())
			}
		}
		for _, commit := range []bool{false, true} {
			w.In(commit, func(tx *sql.Tx) {
				d := world.Must[perdure.Delivery](t)(settled.Send(ctx, w.Engine.In(tx), "inv-1", 4,
					perdure.SendKey("p1")))
				if d.RunID != run.RunID() || d.Number != 1 {
					t.Errorf("delivered as %+v", d)
				}
				d = world.Must[perdure.Delivery](t)(w.Engine.In(tx).Send(ctx, "inv-1", "settled",
					[]byte("4"),
					perdure.SendKey("p1")))
				if !d.Duplicate {
					t.Errorf("the same key again is %+v", d)
				}
			})
			time.Sleep(time.Minute)
			if d := world.Must[perdure.Description](t)(w.Engine.Describe(ctx,
				"inv-1")); d.Head.Status.IsTerminal() != commit {
				t.Errorf("committed: %v, the run is %v", commit, d.Head.Status)
			}
		}
		if left := world.Must[int](t)(run.Result(ctx)); left != 6 {
			t.Errorf("%d are left to pay, want 6", left)
		}
	})
}

// spec: B-4
func TestEnginesHearOfAClientsTransactionSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.NewShop(t, perdure.Options{Sweep: -1}, dunns)
		w.In(true, func(tx *sql.Tx) {
			world.Must[perdure.Delivery](t)(perdure.SendWithStart(t.Context(), w.Engine.In(tx),
				settled, 3,
				dunns, 10, perdure.ID("inv-1")))
		})
		began := time.Now()
		run := world.Must[*perdure.Run[int]](t)(dunns.Get(t.Context(), w.Engine, "inv-1"))
		if left := world.Must[int](t)(run.Result(t.Context())); left != 7 {
			t.Errorf("%d are left to pay, want 7", left)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A client that has reserved numbers uses them. A client without numbers must not wait for them,
// since its transaction has the lock that they need.
//
// spec: B-4
func TestAClientWithoutNumbersStartsInATransactionThatHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.NewShop(t, perdure.Options{}, dunns)
		ctx := t.Context()
		c := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, w.Store))
		began := time.Now()
		large := bytes.Repeat([]byte("7"), 200_000)
		large[0] = '1'
		for i := range 3 {
			w.In(true, func(tx *sql.Tx) {
				world.Must[*perdure.Run[json.RawMessage]](t)(c.In(tx).Start(ctx, "other",
					append(append([]byte(`"`), large...), '"')))
				d := world.Must[perdure.Delivery](t)(settled.Send(ctx, c.In(tx), "inv-2", i))
				if !d.Unrouted {
					t.Errorf("a signal for nobody is %+v", d)
				}
			})
			synctest.Wait()
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		heads, _, err := c.List(ctx, perdure.Query{Workflow: "other"})
		if err != nil || len(heads) != 3 {
			t.Fatalf("%d runs, %v", len(heads), err)
		}
		for _, h := range heads {
			if e := world.Must[[]journal.Entry](t)(c.History(ctx, string(h.ID), 1,
				1)); len(e[0].Data) != len(large)+2 || e[0].Spill == 0 {
				t.Errorf("the input of %s has %d bytes", h.ID, len(e[0].Data))
			}
		}
		run := world.Must[*perdure.Run[int]](t)(dunns.Start(ctx, c, 5, perdure.ID("inv-2")))
		if left := world.Must[int](t)(run.Result(ctx)); left != 5 {
			t.Errorf("%d are left to pay: the run has not got the first waiting signal", left)
		}
	})
}

// spec: B-4
func TestATransactionThatTheStoreCannotTakePartInIsRefused(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "shop.db")
	s := world.Must[*sqlite.Store](t)(sqlite.Open(path))
	defer s.Close()
	c := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, s))
	other := world.Must[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "other.db")))
	defer other.Close()
	for name, where := range map[string]string{
		"another database":    filepath.Join(t.TempDir(), "other.db"),
		"no database of runs": filepath.Join(t.TempDir(), "mine.db"),
	} {
		if name == "another database" {
			o := world.Must[*sqlite.Store](t)(sqlite.Open(where))
			defer o.Close()
		}
		db := world.OpenTables(t, where)
		defer db.Close()
		tx := world.Must[*sql.Tx](t)(db.BeginTx(ctx, nil))
		_, err := c.In(tx).Start(ctx, "dun", []byte("1"))
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	for _, tx := range []any{nil, 7, (*sql.Tx)(nil), &sql.DB{}} {
		_, err := c.In(tx).Send(ctx, "inv-1", "settled", nil)
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) ||
			refused.Want != "a *sql.Tx on the same file" {
			t.Errorf("%T: %v", tx, err)
		}
	}
	m := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, onlyStore{memory.New()}))
	if _, err := m.In(nil).Start(ctx, "dun", nil); journal.CodeOf(err) != journal.CodeInvalid {
		t.Errorf("a store that takes part in none: %v", err)
	}
}

// In a transaction of the application only starts and signals are written. Other operations are
// refused and have no effect.
func TestATransactionTakesStartsAndSignalsOnly(t *testing.T) {
	c := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), memory.New())).In(nil)
	ctx := t.Context()
	_, retried := c.Retry(ctx, "x")
	_, delivered := c.Deliver(ctx, 1, "x")
	for what, err := range map[string]error{
		"cancel": c.Cancel(ctx, "x", ""), "suspend": c.Suspend(ctx, "x", ""),
		"resume": c.Resume(ctx, "x"),
		"decide": c.Decide(ctx, "x", "d", perdure.Decision{}), "timer": c.CancelTimer(ctx, "x", "t",
			""),
		"retry": retried, "deliver": delivered,
	} {
		if journal.CodeOf(err) != journal.CodeMisuse {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// onlyStore hides the other interfaces of a store.
type onlyStore struct{ store.Store }

// A step whose transactions are on another file than the store fails at its first attempt.
//
// spec: B-4
func TestAStepInATransactionElsewhereFailsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		opens bool // the other file has a store
		want  string
	}{
		"another database": {true, "one on database "},
		"no store":         {false, "this is one on a file without a store"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				till := &world.Till{}
				w := world.NewShop(t, perdure.Options{}, bookings(till))
				path := filepath.Join(t.TempDir(), "other.db")
				if c.opens {
					defer world.Must[*sqlite.Store](t)(sqlite.Open(path)).Close()
				}
				db := world.OpenTables(t, path)
				defer db.Close()
				till.Transactions = sqlite.Transactions(db)
				run := world.Must[*perdure.Run[json.RawMessage]](t)(w.Engine.Start(t.Context(),
					"booking", []byte("7")))
				_, err := run.Result(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.want) || till.Begun != 1 {
					t.Errorf("after %d attempts: %v", till.Begun, err)
				}
			})
		})
	}
}

// A plainTx begins transactions as package database/sql does by default: without the lock.
type plainTx struct {
	*sqlite.SQLTransactions
	db *sql.DB
}

func (p *plainTx) Begin(ctx context.Context) (*sql.Tx, error) { return p.db.BeginTx(ctx, nil) }

// A step whose transaction has read what others have changed since is tried again.
//
// spec: B-4
func TestAStepInAStaleTransactionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		till := &world.Till{}
		var w *world.Shop
		reads := perdure.Define("reads", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "read", till, func(ctx context.Context, tx *sql.Tx) (n int,
				err error) {
				err = tx.QueryRowContext(ctx, "select count(*) from invoices").Scan(&n)
				if till.Begun == 1 && err == nil {
					_, err = w.DB.ExecContext(ctx, "insert into invoices values ('a', 1)")
				}
				return n, err
			})
		})
		// With a sweep, the first renewal would write at the time of the second attempt.
		w = world.NewShop(t, perdure.Options{Sweep: -1}, reads)
		var path string
		err := w.DB.QueryRow("select file from pragma_database_list").Scan(&path)
		if err != nil {
			t.Fatal(err)
		}
		db := world.Must[*sql.DB](t)(sql.Open("sqlite", path))
		defer db.Close()
		till.Transactions = &plainTx{sqlite.Transactions(db), db}
		run := world.Must[*perdure.Run[int]](t)(reads.Start(t.Context(), w.Engine, 1))
		if n, err := run.Result(t.Context()); n != 1 || err != nil || till.Begun != 2 {
			t.Errorf("%d invoices after %d attempts, %v", n, till.Begun, err)
		}
	})
}
