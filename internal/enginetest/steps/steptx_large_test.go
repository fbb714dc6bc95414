package steps

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// large is kept in rows of its own.
var large = strings.Repeat("x", 150_000)

// bulky emits and sets large values in a transaction, whose second attempt succeeds, and then
// reads the values, before and after a sleep.
func bulky[Tx any](db func() perdure.Transactions[Tx]) *perdure.Workflow[int, int] {
	return perdure.Define("bulky", func(ctx context.Context, _ int) (int, error) {
		given, err := perdure.StepTx(ctx, "fill", db(), func(ctx context.Context, _ Tx) (string,
			error) {
			n, _, err := perdure.Attempt(ctx)
			err = errors.Join(err, perdure.Emit(ctx, "filled", large),
				perdure.SetVariable(ctx, "v", large))
			if seen, _, e := perdure.Variable[string](ctx, "v"); err == nil &&
				(e != nil || seen != large) {
				err = errors.New("the body does not see what it has set")
			}
			if n == 1 {
				err = errors.Join(err, errors.New("once more"))
			}
			return large, err
		}, perdure.Timeout(time.Minute), perdure.Retry{Attempts: 2})
		if err != nil {
			return 0, err
		}
		for range 2 {
			if set, _, err := perdure.Variable[string](ctx, "v"); err != nil || set != large ||
				given != large {
				return 0,
					errors.Join(err, errors.New("the workflow does not see what the body has set"))
			}
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
		}
		return len(given), nil
	})
}

// Values that a body in a transaction emits, sets and returns go with the transaction, however
// large they are. A transaction of their own would wait for the lock that the body has.
//
// spec: B-4
func TestAStepInATransactionRecordsLargePayloads(t *testing.T) {
	check := func(
		t *testing.T, eng *perdure.Engine, def *perdure.Workflow[int, int], told *world.Subscriber,
	) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
		defer stop()
		run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, eng, 0))
		if n, err := run.Result(ctx); n != len(large) || err != nil {
			t.Errorf("the run gives %d, %v", n, err)
		}
		if got := told.Types(); len(got) != 1 || !strings.Contains(string(told.Told[0].Data),
			large) {
			t.Errorf("the subscriber is told %v", got)
		}
		for _, e := range world.Must[[]journal.Entry](t)(eng.History(ctx, run.ID(), 0, 0)) {
			if e.Spill != 0 && !strings.Contains(string(e.Data), large) {
				t.Errorf("entry %d, %v, has %d bytes", e.Seq, e.Kind, len(e.Data))
			}
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			books, told := &world.Till{}, &world.Subscriber{}
			def := bulky(func() perdure.Transactions[*sql.Tx] { return books })
			w := world.NewShop(t, perdure.Options{IdleTimeout: -1, Publisher: told.Take},
				def)
			books.Transactions = sqlite.Transactions(w.DB)
			check(t, w.Engine, def, told)
		})
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			told := &world.Subscriber{}
			def := bulky(func() perdure.Transactions[int] { return anyTx{} })
			w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{def}}
			w.Options = perdure.Options{Build: "test", IdleTimeout: -1,
				Publisher: told.Take}
			w.Begin()
			defer w.End()
			check(t, w.Engine, def, told)
		})
	})
}

// Workflow code beside a transaction that sets a large value waits for the lock of the
// transaction. The transaction does not wait for the records that this code made before.
//
// spec: B-4
func TestWorkflowCodeSetsLargeValuesBesideATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		begun := make(chan struct{})
		def := perdure.Define("beside", func(ctx context.Context, _ int) (int, error) {
			beside := perdure.Go(ctx, "beside", func(ctx context.Context) (int, error) {
				_, err := perdure.Step(ctx, "wait", func(context.Context) (int, error) {
					<-begun
					return 1, nil
				})
				return 0, errors.Join(err, perdure.SetVariable(ctx, "small", 1),
					perdure.SetVariable(ctx, "v", large))
			})
			n, err := perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				close(begun)
				time.Sleep(time.Second)
				return world.Book(ctx, tx, 7)
			}, perdure.Timeout(time.Minute), perdure.NoRetry)
			_, failed := beside.Await(ctx)
			return n, errors.Join(err, failed)
		})
		w := world.NewShop(t, perdure.Options{Drain: time.Second}, def)
		books.Transactions = sqlite.Transactions(w.DB)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		run := world.Must[*perdure.Run[int]](t)(def.Start(ctx, w.Engine, 0))
		if n, err := run.Result(ctx); n != 7 || err != nil || w.Invoices() != 1 {
			t.Errorf("the run gives %d, %v, with %d invoices", n, err, w.Invoices())
		}
	})
}

// A body that calls its own engine beside its transaction would wait for the lock that the
// transaction has.
//
// spec: B-4
func TestABodyInATransactionCallsItsEngineOnlyWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &world.Till{}
		var w *world.Shop
		errs := map[string]error{}
		def := perdure.Define("calls", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				_, errs["start"] = w.Engine.Start(ctx, "calls", []byte("0"))
				_, errs["send"] = settled.Send(ctx, w.Engine, "inv-1", 1)
				errs["cancel"] = w.Engine.Cancel(ctx, "calls-1", "no")
				return world.Book(ctx, tx, 7)
			}, perdure.Timeout(time.Minute), perdure.NoRetry)
		})
		w = world.NewShop(t, perdure.Options{Drain: time.Second}, def)
		books.Transactions = sqlite.Transactions(w.DB)
		run := world.Must[*perdure.Run[int]](t)(def.Start(t.Context(), w.Engine, 0,
			perdure.ID("calls-1")))
		world.Must[int](t)(run.Result(t.Context()))
		for call, err := range errs {
			if journal.CodeOf(err) != journal.CodeMisuse {
				t.Errorf("%s gives %v", call, err)
			}
		}
	})
}
