package steps

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// These tests cover events of a run while the result of a step in a transaction is tentative.

// slowly delays the first commits and makes them fail.
func slowly(db *sql.DB, t *world.Till, fail int) {
	t.Transactions = sqlite.Transactions(db)
	t.OnCommit = func(n int, tx *sql.Tx) error {
		if n <= fail {
			time.Sleep(2 * time.Second)
			return errors.Join(errors.New("could not serialize"), tx.Rollback())
		}
		return tx.Commit()
	}
}

var never = perdure.NewSignal[int]("never")

// A run with a durable result that is still tentative stays loaded.
//
// spec: B-4
func TestARunDoesNotRestBeforeATransactionsResultIsAFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			f := perdure.Go(ctx, "a", func(ctx context.Context) (int, error) {
				if _, err := world.GoSignal.Wait(ctx); err != nil {
					return 0, err
				}
				return perdure.StepTx(ctx, "book", anyTx{}, func(context.Context, int) (int,
					error) {
					time.Sleep(3 * time.Second)
					return 7, nil
				})
			})
			perdure.Go(ctx, "b", func(ctx context.Context) (int, error) { return never.Wait(ctx) })
			return f.Await(ctx)
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options = perdure.Options{Build: "test", IdleTimeout: 5 * time.Second,
			Observers: []observe.Observer{{
				See: func(n observe.Notice) {
					if n.Kind == observe.StepSucceeded {
						time.Sleep(2 * time.Second) // 4 s to 6 s: the run stays until 5 s
					}
				}}}}
		w.Begin()
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, 0, perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := world.GoSignal.Send(t.Context(), w.Engine, "x", 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		v, err := run.Result(ctx)
		d, _ := w.Engine.Describe(t.Context(), "x")
		if v != 7 || err != nil {
			t.Errorf("%d, %v; %v owner %v wake %v %v", v, err, d.Head.Status, d.Head.Owner,
				d.Head.Wake,
				world.Tail(w.History("x"), 9))
		}
	})
}

// A suspension of the run meanwhile does not make a step fail for good.
//
// spec: B-4, L-2
func TestAStepWhoseTransactionFailsWhileItsRunIsSuspendedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				return world.Book(ctx, tx, 7)
			})
		})
		w := world.NewShop(t, perdure.Options{}, wf)
		slowly(w.DB, books, 1)
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
		time.Sleep(time.Second)
		if err := w.Engine.Suspend(t.Context(), "x", "by hand"); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Resume(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		v, err := run.Result(t.Context())
		if v != 7 || err != nil {
			t.Errorf("%d, %v after %d transactions: %v", v, err, books.Begun,
				world.Tail(world.Must[[]journal.Entry](t)(w.Engine.History(t.Context(), "x", 0, 0)),
					9))
		}
	})
}

// Events that were taken back do not leave a journal that cannot be read.
//
// spec: B-4
func TestEventsOfATransactionThatFailsLeaveAReadableJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				if err := perdure.Emit(ctx, "booked", 1); err != nil {
					return 0, err
				}
				return world.Book(ctx, tx, 7)
			})
		})
		w := world.NewShop(t, perdure.Options{}, wf)
		slowly(w.DB, books, 1)
		world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
		time.Sleep(time.Second)
		if err := w.Engine.Cancel(t.Context(), "x", "by hand"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Engine.Describe(t.Context(), "x"); err != nil {
			t.Error(err)
		}
	})
}

// A body that goes on after it was given up can no longer write to the log.
//
// spec: B-4
func TestABodyThatWasGivenUpKeepsTheNextAttemptFromNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies atomic.Int64
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", anyTx{}, func(context.Context, int) (int, error) {
				if bodies.Add(1) == 1 {
					time.Sleep(time.Hour)
				}
				return 7, nil
			}, perdure.Timeout(5*time.Second))
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options = perdure.Options{Build: "test", IdleTimeout: 24 * time.Hour}
		w.Begin()
		defer w.End()
		_, v, err := world.Result(w, wf, 0)
		if v != 7 || err != nil {
			t.Errorf("%d, %v after %d bodies", v, err, bodies.Load())
		}
		time.Sleep(2 * time.Hour)
	})
}

// If the author's context ends and the commit fails, the step is not called again.
//
// spec: B-4
func TestAContextThatEndsWhileATransactionIsCommittedEndsItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		var took time.Duration
		var stepErr error
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			began := time.Now()
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, stepErr = perdure.StepTx(short, "book", books,
				func(ctx context.Context, tx *sql.Tx) (int, error) {
					return world.Book(ctx, tx, 7)
				},
				perdure.Retry{Attempts: 100, First: time.Minute})
			took = time.Since(began)
			return 1, nil
		})
		w := world.NewShop(t, perdure.Options{}, wf)
		slowly(w.DB, books, 1)
		run := world.Must[*perdure.Run[int]](t)(wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
		world.Must[int](t)(run.Result(t.Context()))
		if took > 10*time.Second {
			t.Errorf("the step ended after %v and %d transactions: %v", took, books.Begun, stepErr)
		}
	})
}

// A panic in the application's Commit makes the outcome of the attempt unknown, and does not end
// the process.
//
// spec: B-4
func TestAPanicInACommitIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		w := world.NewShop(t, perdure.Options{}, bookings(books))
		books.Transactions = sqlite.Transactions(w.DB)
		books.OnCommit = func(n int, tx *sql.Tx) error {
			if n == 1 {
				panic(tx.Rollback())
			}
			return tx.Commit()
		}
		run := world.Must[*perdure.Run[json.RawMessage]](t)(w.Engine.Start(t.Context(), "booking",
			[]byte("7")))
		if _, err := run.Result(t.Context()); err != nil || w.Invoices() != 1 || books.Ends != 2 {
			t.Errorf("%v, %d invoices after %d commits", err, w.Invoices(), books.Ends)
		}
	})
}
