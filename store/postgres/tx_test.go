package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

var (
	settled = perdure.NewSignal[int]("settled")
	dun     = perdure.Define("dun", func(ctx context.Context, debt int) (int, error) {
		got, err := settled.Wait(ctx)
		return debt - got, err
	})
)

// A shop is an application with a table of its own beside its runs.
type shop struct {
	t    *testing.T
	url  string
	s    *postgres.Store
	pool *pgxpool.Pool
	db   *sql.DB
	eng  *perdure.Engine

	defs   []perdure.Definition // of further engines
	beside []func()             // end the further engines
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

// newShop opens a shop with an engine that runs until the test ends.
func newShop(t *testing.T, workflows ...perdure.Definition) *shop {
	t.Helper()
	url := testpg.URL(t)
	w := &shop{t: t, url: url}
	w.s = must[*postgres.Store](t)(postgres.Open(t.Context(), url))
	w.pool = must[*pgxpool.Pool](t)(pgxpool.New(t.Context(), url))
	w.db = must[*sql.DB](t)(sql.Open("pgx", url))
	if _, err := w.pool.Exec(t.Context(), "create table invoices (id bigint generated always as "+
		"identity, name text, cents bigint)"); err != nil {
		t.Fatal(err)
	}
	w.eng = must[*perdure.Engine](t)(perdure.New(w.s, perdure.Options{Sweep: -1}))
	if err := w.eng.Register(workflows...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for _, end := range w.beside {
			end()
		}
		w.pool.Close()
		// The engine may not have joined yet.
		if err := errors.Join(<-done, w.db.Close(), w.s.Close()); err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return w
}

// transactions returns the kinds of transactions that a user may have. Each calls f in a
// transaction that has already written, and commits it or rolls it back.
func (w *shop) transactions() map[string]func(commit bool, f func(tx any)) {
	ctx := w.t.Context()
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return map[string]func(bool, func(any)){
		"pgx.Tx": func(commit bool, f func(any)) {
			tx := must[pgx.Tx](w.t)(w.pool.Begin(ctx))
			_, err := tx.Exec(ctx, "insert into invoices (name) values ('pgx.Tx')")
			check(err)
			f(tx)
			if commit {
				check(tx.Commit(ctx))
			} else {
				check(tx.Rollback(ctx))
			}
		},
		"*sql.Tx": func(commit bool, f func(any)) {
			tx := must[*sql.Tx](w.t)(w.db.BeginTx(ctx, nil))
			_, err := tx.Exec("insert into invoices (name) values ('*sql.Tx')")
			check(err)
			f(tx)
			if commit {
				check(tx.Commit())
			} else {
				check(tx.Rollback())
			}
		},
	}
}

func (w *shop) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// spec: B-4
func TestStartsAndSignalsAreThereExactlyIfTheTransactionIsCommitted(t *testing.T) {
	w := newShop(t, dun)
	ctx := t.Context()
	client := must[*perdure.Client](t)(perdure.NewClient(ctx, w.s))
	for name, in := range w.transactions() {
		for who, c := range map[string]perdure.Caller{"engine": w.eng, "client": client} {
			id := "inv-" + who + name[len(name)-6:len(name)-3]
			for _, commit := range []bool{false, true} {
				in(commit, func(tx any) {
					run := must[*perdure.Run[int]](t)(dun.Start(ctx, c.In(tx), 10, perdure.ID(id),
						perdure.Attributes{"who": who}))
					again := must[*perdure.Run[int]](t)(
						dun.Start(ctx, c.In(tx), 10, perdure.ID(id)))
					if !run.New() || again.New() || again.RunID() != run.RunID() {
						t.Errorf("%s: started %s (new: %v), then %s (new: %v)", id, run.RunID(),
							run.New(), again.RunID(), again.New())
					}
				})
				if _, err := w.eng.Get(ctx, id); (err == nil) != commit {
					t.Errorf("%s, committed: %v: %v", id, commit, err)
				}
			}
			run := must[*perdure.Run[int]](t)(dun.Get(ctx, c, id))
			for _, commit := range []bool{false, true} {
				in(commit, func(tx any) {
					d := must[perdure.Delivery](t)(
						settled.Send(ctx, c.In(tx), id, 4, perdure.SendKey("p1")))
					if d.RunID != run.RunID() || d.Number != 1 || d.Duplicate {
						t.Errorf("%s: delivered as %+v", id, d)
					}
					if d = must[perdure.Delivery](t)(
						settled.Send(ctx, c.In(tx), id, 4, perdure.SendKey("p1"))); !d.Duplicate {
						t.Errorf("%s: the same key again is %+v", id, d)
					}
				})
				if n := w.count("select count(*) from perdure.messages where holder = (select "+
					"number from perdure.heads where workflow_id = $1)", id); (n == 1) != commit {
					t.Errorf("%s, committed: %v: %d messages", id, commit, n)
				}
			}
			if left := must[int](t)(run.Result(ctx)); left != 6 {
				t.Errorf("%s: %d are left to pay, want 6", id, left)
			}
		}
		if n := w.count("select count(*) from invoices where name = $1", name); n != 4 {
			t.Errorf("%s: %d invoices, want 4", name, n)
		}
	}
}

// spec: B-4
func TestSignalsWithStartInATransaction(t *testing.T) {
	w := newShop(t, dun)
	ctx := t.Context()
	for name, in := range w.transactions() {
		in(true, func(tx any) {
			d := must[perdure.Delivery](t)(perdure.SendWithStart(ctx, w.eng.In(tx), settled, 3, dun,
				10, perdure.ID("with")))
			if !d.New {
				t.Errorf("%s: %+v", name, d)
			}
			if d = must[perdure.Delivery](t)(settled.Send(ctx, w.eng.In(tx), "nobody",
				3)); !d.Unrouted {
				t.Errorf("%s: %+v", name, d)
			}
		})
		run := must[*perdure.Run[int]](t)(dun.Get(ctx, w.eng, "with"))
		if left := must[int](t)(run.Result(ctx)); left != 7 {
			t.Errorf("%s: %d are left to pay, want 7", name, left)
		}
	}
	if waiting := must[[]perdure.Message](t)(w.eng.Unrouted(ctx, 0, 0)); len(waiting) != 2 {
		t.Errorf("%d signals wait for a run, want 2", len(waiting))
	}
}

// A transaction that sees the database as it was when it began may miss the run that has a
// workflow ID by now: a signal would wait for a run that is already there.
//
// spec: B-4
func TestAStaleTransactionMaySendToRunIDsOnly(t *testing.T) {
	w := newShop(t, dun)
	ctx := t.Context()
	run := must[*perdure.Run[int]](t)(dun.Start(ctx, w.eng, 10, perdure.ID("inv-1")))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := errStale
		for errors.Is(err, errStale) { // as users of such an isolation level do
			err = pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: level},
				func(tx pgx.Tx) error {
					_, err := settled.Send(ctx, w.eng.In(tx), "inv-1", 4)
					var refused *store.TransactionError
					if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) {
						t.Errorf("%s, to a workflow ID: %v", level, err)
					}
					if _, err = dun.Start(ctx, w.eng.In(tx), 4,
						perdure.ID("inv-2")); journal.CodeOf(err) != journal.CodeInvalid {
						t.Errorf("%s, a start with a workflow ID: %v", level, err)
					}
					if _, err = dun.Start(ctx, w.eng.In(tx), 4); err == nil {
						_, err = settled.Send(ctx, w.eng.In(tx), run.RunID(), 4,
							perdure.SendKey("p1"))
					}
					var state interface{ SQLState() string }
					if errors.As(err, &state) && state.SQLState() == "40001" {
						return errStale
					}
					return err
				})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if left := must[int](t)(run.Result(ctx)); left != 6 {
		t.Errorf("%d are left to pay, want 6", left)
	}
}

var errStale = errors.New("the transaction is to be made anew")

// spec: B-4
func TestATransactionElsewhereIsRefused(t *testing.T) {
	ctx := t.Context()
	w := newShop(t)
	other := testpg.URL(t)
	pool := must[*pgxpool.Pool](t)(pgxpool.New(ctx, other))
	defer pool.Close()
	for _, where := range []string{"without the schema", "of other runs"} {
		tx := must[pgx.Tx](t)(pool.Begin(ctx))
		_, err := w.eng.In(tx).Start(ctx, "dun", []byte("1"))
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) {
			t.Errorf("a database %s: %v", where, err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Error(err)
		}
		must[*postgres.Store](t)(postgres.Open(ctx, other)).Close()
	}
	for _, tx := range []any{nil, (*sql.Tx)(nil), w.db, pool} {
		_, err := w.eng.In(tx).Start(ctx, "dun", []byte("1"))
		var refused *store.TransactionError
		if journal.CodeOf(err) != journal.CodeInvalid || !errors.As(err, &refused) {
			t.Errorf("a %T: %v", tx, err)
		}
	}
}

// spec: B-4
func TestAnOpenTransactionHoldsUpItsOwnWorkflowIDAlone(t *testing.T) {
	w := newShop(t, dun)
	ctx := t.Context()
	client := must[*perdure.Client](t)(perdure.NewClient(ctx, w.s))
	open := must[pgx.Tx](t)(w.pool.Begin(ctx))
	defer func() { _ = open.Rollback(context.WithoutCancel(ctx)) }() // the pool waits for it
	if d := must[perdure.Delivery](t)(settled.Send(ctx, client.In(open), "nobody",
		4)); !d.Unrouted {
		t.Fatalf("delivered as %+v", d)
	}
	// impatient does something in a transaction that waits for a lock for that long at most. The
	// server has short locks of its own, so only the longer time is safe where no wait is expected.
	impatient := func(patience string, f func(tx pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local lock_timeout = '"+patience+"'"); err != nil {
				return err
			}
			return f(tx)
		})
	}
	for i := range 500 { // enough to collide in any small table of locks
		id := fmt.Sprint("other-", i)
		if err := impatient("30s", func(tx pgx.Tx) error {
			_, err := settled.Send(ctx, client.In(tx), id, 1)
			return err
		}); err != nil {
			t.Fatalf("a signal for %s: %v", id, err)
		}
		if err := impatient("30s", func(tx pgx.Tx) error {
			_, err := dun.Start(ctx, client.In(tx), 1, perdure.ID(id))
			return err
		}); err != nil {
			t.Fatalf("a start of %s: %v", id, err)
		}
	}
	var state interface{ SQLState() string }
	for name, f := range map[string]func(tx pgx.Tx) error{
		"a start": func(tx pgx.Tx) error {
			_, err := dun.Start(ctx, client.In(tx), 10, perdure.ID("nobody"))
			return err
		},
		"a signal": func(tx pgx.Tx) error {
			_, err := settled.Send(ctx, client.In(tx), "nobody", 1)
			return err
		},
	} {
		if err := impatient("1ms", f); !errors.As(err, &state) || state.SQLState() != "55P03" {
			t.Errorf("%s for its workflow ID: %v", name, err)
		}
	}
	if err := open.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	run := must[*perdure.Run[int]](t)(dun.Start(ctx, w.eng, 10, perdure.ID("nobody")))
	if left := must[int](t)(run.Result(ctx)); left != 6 {
		t.Errorf("%d are left to pay, want 6", left)
	}
}

// The engine has one lane, and its runs share groups.
//
// spec: B-4
func TestRunsGoOnBesideAnOpenTransaction(t *testing.T) {
	leave := make(chan struct{})
	lasting := perdure.Define("lasting", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "wait", func(context.Context) (int, error) {
			<-leave
			return 1, nil
		})
	})
	w := newShop(t, dun, lasting)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // else it might wait for ever
	defer cancel()
	client := must[*perdure.Client](t)(perdure.NewClient(ctx, w.s))
	ends := must[*perdure.Run[int]](t)(lasting.Start(ctx, w.eng, 0, perdure.ID("ends")))
	open := must[pgx.Tx](t)(w.pool.Begin(ctx))
	defer func() { _ = open.Rollback(context.WithoutCancel(ctx)) }() // the pool waits for it
	for _, id := range []string{"nobody", "ends"} {
		must[perdure.Delivery](t)(settled.Send(ctx, client.In(open), id, 4))
	}
	started := make(chan *perdure.Run[int], 1)
	go func() {
		run, err := dun.Start(ctx, w.eng, 10, perdure.ID("nobody"))
		if err != nil {
			t.Error(err)
		}
		started <- run
	}()
	close(leave)
	for i := range 20 {
		run := must[*perdure.Run[int]](t)(
			dun.Start(ctx, w.eng, 10, perdure.ID(fmt.Sprint("other-", i))))
		must[perdure.Delivery](t)(settled.Send(ctx, w.eng, run.ID(), 3))
		if left := must[int](t)(run.Result(ctx)); left != 7 {
			t.Errorf("%d are left to pay, want 7", left)
		}
	}
	if d := must[perdure.Description](t)(client.Describe(ctx, "ends")); !d.Head.Ended.IsZero() {
		t.Error("a run has ended while a transaction sends to it")
	}
	if err := open.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if run := <-started; run != nil {
		if left := must[int](t)(run.Result(ctx)); left != 6 {
			t.Errorf("%d are left to pay, want 6", left)
		}
	}
	must[int](t)(ends.Result(ctx))
}
