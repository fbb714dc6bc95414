package barrier_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// A bank has two accounts in a database of its own: a with 100 cents, and b with none. Each
// execution of a function has another number, which is its result and is in the ledger.
type bank struct {
	db    *sql.DB
	calls atomic.Int64     // calls of bodies
	n     atomic.Int64     // calls of functions
	after func(call int64) // called between a body's transaction and its return
}

// open makes a new database.
func (b *bank) open(t testing.TB) {
	t.Helper()
	b.db = opened(t, "sqlite", dsn(filepath.Join(t.TempDir(), "bank.db"), waiting+quick))
	b.calls.Store(0)
	b.n.Store(0)
	if _, err := b.db.Exec("create table accounts (id text, cents bigint, held bigint); insert " +
		"into accounts values ('a', 100, 0), ('b', 0, 0)"); err != nil {
		t.Fatal(err)
	}
}

// book changes the balance of an account, and the part of it that is held.
func (b *bank) book(ctx context.Context, id string, cents, held int) (int, error) {
	call := b.calls.Add(1)
	n, err := barrier.In(ctx, b.db, func(ctx context.Context, tx *sql.Tx) (int, error) {
		n := int(b.n.Add(1))
		info, _ := perdure.StepOf(ctx)
		if barrier.Confirmed(ctx) { // the confirm has spent what was held
			held = 0
		}
		_, err := tx.ExecContext(ctx, "update accounts set cents = cents + $1, held = held + $2 "+
			"where id = $3", cents, held, id)
		if err == nil {
			_, err = tx.ExecContext(ctx, "insert into ledger values ($1, $2, $3)", info.Of,
				name(info.Phase), n)
		}
		return n, err
	})
	if b.after != nil {
		b.after(call)
	}
	return n, err
}

// ledger returns the effects, in their order.
func (b *bank) ledger(t testing.TB) []string {
	t.Helper()
	return b.rows(t, "select what || ' ' || who || ' ' || n from ledger order by n")
}

// accounts returns the balances.
func (b *bank) accounts(t testing.TB) []string {
	t.Helper()
	return b.rows(t, "select id || ' ' || cents || ' ' || held from accounts order by id")
}

func (b *bank) rows(t testing.TB, query string) (out []string) {
	t.Helper()
	rows := must[*sql.Rows](t)(b.db.Query(query))
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

var errRefused = errors.New("refused")

// transfer returns a TCC that moves 70 cents from a to b. In the refused phase, b fails.
func (b *bank) transfer(refused perdure.Phase) *tcc.TCC[int] {
	refuses := func(phase perdure.Phase) error {
		if phase == refused {
			return perdure.Permanent(errRefused)
		}
		return nil
	}
	t := tcc.New[int]("transfer")
	tcc.Add(t, "debit", func(ctx context.Context, c int) (int, error) {
		return b.book(ctx, "a", -c, c)
	}).Confirm(func(ctx context.Context, c, _ int) error {
		_, err := b.book(ctx, "a", 0, -c)
		return err
	}).Cancel(func(ctx context.Context, c, _ int) error {
		_, err := b.book(ctx, "a", c, -c)
		return err
	})
	tcc.Add(t, "credit", func(ctx context.Context, c int) (int, error) {
		if err := refuses(try); err != nil {
			return 0, err
		}
		return b.book(ctx, "b", 0, 0)
	}).Confirm(func(ctx context.Context, c, _ int) error {
		if err := refuses(confirm); err != nil {
			return err
		}
		_, err := b.book(ctx, "b", c, 0)
		return err
	}).Cancel(func(ctx context.Context, c, _ int) error {
		_, err := b.book(ctx, "b", 0, 0)
		return err
	})
	return t
}

// spec: F-43
func TestATransferIsBookedOnceWhereverACrashComes(t *testing.T) {
	for _, c := range []struct {
		refused  perdure.Phase
		status   journal.Status
		accounts string
		err      error
		calls    int64
	}{
		{plain, journal.Confirmed, "[a 30 0 b 70 0]", nil, 4},
		{try, journal.Canceled, "[a 100 0 b 0 0]", errRefused, 2},
		// the debit was confirmed and is taken back
		{confirm, journal.Canceled, "[a 100 0 b 0 0]", errRefused, 5},
	} {
		t.Run(fmt.Sprintf("refused: %s", name(c.refused)), func(t *testing.T) {
			b, again := &bank{}, int64(0)
			transfer := b.transfer(c.refused)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				b.open(env)
				run := perduretest.Start(env, transfer.Workflow, 70)
				_, err := run.Result()
				run.Is(c.status)
				if (err == nil) != (c.err == nil) || err != nil && !strings.Contains(err.Error(),
					c.err.Error()) {
					env.Errorf("it ends with %v", err)
				}
				if got := fmt.Sprint(b.accounts(env)); got != c.accounts {
					env.Errorf("the accounts have %s, want %s", got, c.accounts)
				}
				again += b.calls.Load() - c.calls
				return len(b.ledger(env))
			}, transfer)
			if again == 0 {
				t.Error("nothing was executed twice: this has proved nothing")
			}
		})
	}
}

// spec: F-43
func TestATryThatTheTCCHasGivenUpComesTooLate(t *testing.T) {
	b := &bank{}
	began, goOn, came := make(chan bool), make(chan bool), make(chan error)
	transfer := tcc.New[int]("transfer")
	tcc.Add(transfer, "debit", func(ctx context.Context, c int) (int, error) {
		close(began)
		<-goOn // it does not notice that it was given up
		n, err := b.book(context.WithoutCancel(ctx), "a", -c, c)
		came <- err
		return n, err
	}).Confirm(func(context.Context, int, int) error {
		return nil
	}).Cancel(func(ctx context.Context, c, _ int) error {
		_, err := b.book(ctx, "a", c, -c)
		return err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		b.open(env)
		began, goOn, came = make(chan bool), make(chan bool), make(chan error)
		run := perduretest.Start(env, transfer.Workflow, 70)
		<-began
		run.Cancel("no more wanted")
		run.Is(journal.Canceled)
		close(goOn)
		if err := <-came; !errors.Is(err, barrier.ErrCancelled) {
			env.Errorf("the late try gives %v", err)
		}
		if got := fmt.Sprint(b.accounts(env)); got != "[a 100 0 b 0 0]" {
			env.Errorf("the accounts have %s", got)
		}
	}, transfer)
}

// spec: F-43
func TestASagaIsUndoneOnceWhereverACrashComes(t *testing.T) {
	b, again := &bank{}, int64(0)
	order := saga.New[int]("order")
	charge := saga.Add(order, "charge", func(ctx context.Context, c int) (int, error) {
		return b.book(ctx, "a", -c, 0)
	}).Undo(func(ctx context.Context, c, _ int) error {
		_, err := b.book(ctx, "a", c, 0)
		return err
	})
	saga.Add(order, "ship", func(context.Context, int) (int, error) {
		return 0, perdure.Permanent(errRefused)
	}).After(charge)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		b.open(env)
		run := perduretest.Start(env, order.Workflow, 70)
		if _, err := run.Result(); err == nil {
			env.Error("it does not fail")
		}
		again += b.calls.Load() - 2
		return fmt.Sprint(b.accounts(env), b.ledger(env))
	}, order)
	if again == 0 {
		t.Error("nothing was executed twice: this has proved nothing")
	}
}

// A step that failed may have taken effect all the same. A retry of its run finds the effect. What
// was undone since is done again.
//
// spec: F-43, P-4
func TestARetriedRunFindsWhatWasDone(t *testing.T) {
	const want = "[a 30 0 b 70 0]"
	for _, undoes := range []bool{false, true} {
		b, broken := &bank{}, true
		pay := saga.New[int]("pay")
		debit := saga.Add(pay, "debit", func(ctx context.Context, c int) (int, error) {
			return b.book(ctx, "a", -c, 0)
		})
		if undoes {
			debit.Undo(func(ctx context.Context, c, _ int) error {
				_, err := b.book(ctx, "a", c, 0)
				return err
			})
		}
		saga.Add(pay, "credit", func(ctx context.Context, c int) (int, error) {
			n, err := b.book(ctx, "b", c, 0)
			if broken {
				err = errors.New("the answer is lost")
			}
			return n, err
		}).After(debit)
		perduretest.Test(t, func(env *perduretest.Env) {
			b.open(env)
			run := perduretest.Start(env, pay.Workflow, 70, perdure.ID("x"))
			if _, err := run.Result(); err == nil {
				env.Error("it does not fail")
			}
			broken = false
			again, err := env.Engine().Retry(env.Context(), "x")
			if err == nil {
				_, err = again.Result(env.Context())
			}
			if got := fmt.Sprint(b.accounts(env)); err != nil || got != want {
				env.Errorf("retried, the accounts have %s, want %s: %v", got, want, err)
			}
		}, pay)
	}
}
