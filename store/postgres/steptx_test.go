package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/postgres"
)

const insertInvoice = "insert into invoices (name, cents) values ($1, 1)"

var (
	pools   atomic.Pointer[pgxpool.Pool]
	handles atomic.Pointer[sql.DB]
	spoil   atomic.Pointer[func(end func() error) error] // ends the next transaction instead
)

// A spoiled source of transactions ends some of them in another way.
type spoiled[Tx any] struct{ perdure.Transactions[Tx] }

func (s spoiled[Tx]) Commit(ctx context.Context, tx Tx) error {
	end := func() error { return s.Transactions.Commit(ctx, tx) }
	if f := spoil.Swap(nil); f != nil {
		return (*f)(end)
	}
	return end()
}

var books = perdure.Define("books", func(ctx context.Context, kind string) (int, error) {
	for i := range 3 {
		var err error
		if kind == "pgx.Tx" {
			_, err = perdure.StepTx(ctx, "book", spoiled[pgx.Tx]{
				postgres.Transactions(pools.Load(), pgx.TxOptions{}),
			},
				func(ctx context.Context, tx pgx.Tx) (int, error) {
					_, err := tx.Exec(ctx, insertInvoice, kind)
					return i, err
				})
		} else {
			_, err = perdure.StepTx(ctx, "book", spoiled[*sql.Tx]{
				postgres.SQLTransactions(handles.Load(), nil),
			},
				func(ctx context.Context, tx *sql.Tx) (int, error) {
					_, err := tx.ExecContext(ctx, insertInvoice, kind)
					return i, err
				})
		}
		if err != nil {
			return 0, err
		}
	}
	return 3, nil
}, perdure.Retry{First: 1})

// results counts results of a step in the store.
func (w *shop) results(step string) int {
	return w.count("select count(*) from perdure.entries where name = $1 and kind = $2", step,
		int16(journal.StepCompleted))
}

// spec: B-4
func TestStepsInTransactionsWriteWithTheirResults(t *testing.T) {
	w := newShop(t, books)
	pools.Store(w.pool)
	handles.Store(w.db)
	errLost := errors.New("the answer is lost")
	ends := map[string]func(func() error) error{
		"": nil,
		"done and not answered": func(end func() error) error {
			return errors.Join(errLost, end())
		},
		"not sent":             func(func() error) error { return errLost },
		"session ended before": func(end func() error) error { w.endSessions(); return end() },
		"session ended after it": func(end func() error) error {
			err := end()
			w.endSessions()
			return errors.Join(err, errLost)
		},
	}
	want := 0
	for _, kind := range []string{"pgx.Tx", "*sql.Tx"} {
		for name, end := range ends {
			if end != nil {
				spoil.Store(&end)
			}
			run := must[*perdure.Run[int]](t)(books.Start(t.Context(), w.eng, kind))
			if _, err := run.Result(t.Context()); err != nil {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
			want += 3
			if spoil.Load() != nil {
				t.Errorf("%s, %s: it has not happened", kind, name)
			}
			if rows, results := w.count("select count(*) from invoices"),
				w.results("book"); rows != want || results != want {
				t.Fatalf("%s, %s: %d invoices and %d results, want %d", kind, name, rows, results,
					want)
			}
		}
	}
}

// endSessions ends the sessions of the user that are in a transaction.
func (w *shop) endSessions() {
	w.count(`select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'`)
}

// spec: B-4
func TestAStepInATransactionThatIsNotSerializableIsTriedAgain(t *testing.T) {
	var bodies, w = 0, (*shop)(nil)
	strict := perdure.Define("strict", func(ctx context.Context, _ int) (int, error) {
		return perdure.StepTx(ctx, "book", postgres.Transactions(pools.Load(), pgx.TxOptions{
			IsoLevel: pgx.Serializable,
		}), func(ctx context.Context, tx pgx.Tx) (int, error) {
			bodies++
			var n int
			if err := tx.QueryRow(ctx, "select count(*) from invoices").Scan(&n); err != nil {
				return 0, err
			}
			if bodies == 1 { // another transaction has read the same, and writes first
				err := pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: pgx.Serializable},
					func(tx pgx.Tx) error {
						if err := tx.QueryRow(ctx, "select count(*) from invoices").
							Scan(new(int)); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, insertInvoice, "other")
						return err
					})
				if err != nil {
					return 0, err
				}
			}
			// The heartbeat of its engine, after the snapshot, is no conflict.
			if _, err := w.pool.Exec(ctx, "update perdure.engines set leased = leased + interval "+
				"'1 second'"); err != nil {
				return 0, err
			}
			_, err := tx.Exec(ctx, "insert into invoices (name, cents) values ('own', $1)", n)
			return n, err
		}, perdure.Retry{First: 1})
	})
	w = newShop(t, strict)
	pools.Store(w.pool)
	run := must[*perdure.Run[int]](t)(strict.Start(t.Context(), w.eng, 1))
	if n := must[int](t)(run.Result(t.Context())); n != 1 || bodies != 2 {
		t.Errorf("it has read %d after %d attempts, want 1 after 2", n, bodies)
	}
	entries := must[[]journal.Entry](t)(w.eng.History(t.Context(), run.ID(), 0, 0))
	if rows := w.count("select count(*) from invoices where name = 'own'"); rows != 1 ||
		w.results("book") != 1 || entries[1].Kind != journal.StepRetrying {
		t.Errorf("%d invoices, %d results, first %v", rows, w.results("book"), entries[1].Kind)
	}
}

// The transaction of an engine that was taken over while a body ran is refused, and has no
// effect.
//
// spec: B-4, B-5
func TestAFencedEnginesTransactionIsRefused(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			var w *shop
			bodies, left := 0, make(chan struct{})
			fenced := perdure.Define("fenced", func(ctx context.Context, _ int) (int, error) {
				return perdure.StepTx(ctx, "book", postgres.Transactions(pools.Load(),
					pgx.TxOptions{IsoLevel: level}), func(ctx context.Context, tx pgx.Tx) (int,
					error) {
					if _, err := tx.Exec(ctx, insertInvoice,
						fmt.Sprint("body ", bodies)); err != nil {
						return 0, err
					}
					if bodies++; bodies == 1 { // another engine joins, and takes this one over
						if _, err := w.pool.Exec(ctx, "update perdure.engines set leased = "+
							"clock_timestamp() - interval '1 second'"); err != nil {
							return 0, err
						}
						w.join()
						close(left)
					}
					return bodies, nil
				}, perdure.NoRetry)
			})
			w = newShop(t, fenced)
			w.defs = []perdure.Definition{fenced}
			pools.Store(w.pool)
			run := must[*perdure.Run[int]](t)(fenced.Start(t.Context(), w.eng, 1))
			if n := must[int](t)(run.Result(t.Context())); n != 2 {
				t.Errorf("the result is that of attempt %d, want 2", n)
			}
			<-left // the other engine may end the run before this one has left the body
			if first, all := w.count("select count(*) from invoices where name = 'body 0'"),
				w.count("select count(*) from invoices"); first != 0 || all != 1 ||
				w.results("book") != 1 {
				t.Errorf("%d invoices, %d of them of the fenced engine, %d results", all, first,
					w.results("book"))
			}
		})
	}
}

// join starts another engine on the database, and returns when it has joined.
func (w *shop) join() {
	s, err := postgres.Open(w.t.Context(), w.url)
	if err != nil {
		w.t.Error(err)
		return
	}
	eng, err := perdure.New(s, perdure.Options{})
	if err == nil {
		err = eng.Register(w.defs...)
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	w.beside = append(w.beside, func() {
		stop()
		<-done
		s.Close()
	})
	if _, err := eng.Start(w.t.Context(), "nobodys", nil); err != nil { // waits for it
		w.t.Error(err)
	}
}

var bulky = perdure.Define("bulky", func(ctx context.Context, _ int) (int, error) {
	large := strings.Repeat("x", 150_000)
	given, err := perdure.StepTx(ctx, "fill", postgres.Transactions(pools.Load(), pgx.TxOptions{}),
		func(ctx context.Context, tx pgx.Tx) (string, error) {
			n, _, err := perdure.Attempt(ctx)
			err = errors.Join(err, perdure.Emit(ctx, "filled", large),
				perdure.SetVariable(ctx, "v", large))
			if n == 1 {
				err = errors.Join(err, errors.New("once more"))
			}
			return large, err
		}, perdure.Retry{Attempts: 2, First: 1})
	set, _, failed := perdure.Variable[string](ctx, "v")
	if err == nil && failed == nil && (set != large || given != large) {
		err = errors.New("the workflow does not see what the body has set")
	}
	return len(given), errors.Join(err, failed)
})

// The events, variables and results of a body are committed with its transaction. A payload
// of an attempt that was rolled back is not stored.
//
// spec: B-4
func TestAStepInATransactionRecordsLargePayloads(t *testing.T) {
	w := newShop(t, bulky)
	pools.Store(w.pool)
	run, err := bulky.Start(t.Context(), w.eng, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := run.Result(t.Context()); n != 150_000 || err != nil {
		t.Errorf("the run gives %d, %v", n, err)
	}
	if n := w.count("select count(*) from perdure.spilled"); n != 3 {
		t.Errorf("%d payloads are spilled, want an event, a variable and a result", n)
	}
}
