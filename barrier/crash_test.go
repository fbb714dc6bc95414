package barrier_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/sqlite"
)

// A bank has accounts in a database of its own. Each execution of a function gives
// another number, which is its result and in the ledger.
type bank struct {
	db    *sql.DB
	calls atomic.Int64     // of bodies
	n     atomic.Int64     // of functions
	after func(call int64) // what happens between a body's transaction and its return
}

// act is a step in a phase, and what it does.
func (b *bank) act(ctx context.Context, name string, phase perdure.Phase, do func(context.Context, *sql.Tx) error) (int, error) {
	opts := []perdure.StepOption{perdure.NoRetry}
	if phase != plain {
		opts = append(opts, phase)
	}
	return perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
		call := b.calls.Add(1)
		n, err := barrier.In(ctx, b.db, func(ctx context.Context, tx *sql.Tx) (int, error) {
			if do != nil {
				if err := do(ctx, tx); err != nil {
					return 0, err
				}
			}
			n := int(b.n.Add(1))
			info, _ := perdure.StepOf(ctx)
			_, err := tx.ExecContext(ctx, "insert into ledger values ($1, $2, $3)", info.Of, string(phase), n)
			return n, err
		})
		if b.after != nil {
			b.after(call)
		}
		return n, err
	}, opts...)
}

// ledger gives what took effect, in its order.
func (b *bank) ledger(t testing.TB) (out []string) {
	t.Helper()
	rows := must[*sql.Rows](t)(b.db.Query("select who, what, n from ledger order by n"))
	defer rows.Close()
	for rows.Next() {
		var who, what string
		var n int
		if err := rows.Scan(&who, &what, &n); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(what, " ", who, " ", n))
	}
	return out
}

// spec: F-43
func TestACrashBetweenTheCommitAndTheRecord(t *testing.T) {
	b := &bank{}
	acts := perdure.Define("acts", func(ctx context.Context, _ int) (out []int, err error) {
		for _, act := range []struct {
			name  string
			phase perdure.Phase
		}{{"debit", try}, {"debit", confirm}, {"credit", try}, {"credit", cancel}, {"late", cancel}, {"mail", plain}, {"mail", undo}} {
			n, err := b.act(ctx, act.name, act.phase, nil)
			if err != nil {
				return out, err
			}
			out = append(out, n)
		}
		return out, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		b.db = opened(env, "sqlite", dsn(filepath.Join(env.TempDir(), "app.db"), waiting+quick))
		crash := make(chan bool)
		b.after = func(call int64) {
			if call%2 == 1 { // each step is executed twice: the process dies before its result is recorded
				crash <- true
				<-crash
			}
		}
		run := perduretest.Start(env, acts, 0)
		for range 7 {
			<-crash
			env.Crash()
			crash <- true
		}
		run.Returns([]int{1, 2, 3, 4, 0, 5, 6})
		want := []string{"TRY debit 1", "CONFIRM debit 2", "TRY credit 3", "CANCEL credit 4", " mail 5", "UNDO mail 6"}
		if got := b.ledger(env); !slices.Equal(got, want) || b.calls.Load() != 14 {
			env.Errorf("%q after %d calls, want %q", got, b.calls.Load(), want)
		}
	}, acts)
}

// A transfer is one between two accounts.
type transfer struct {
	Cents   int
	Refused bool // by the account that is to get it
}

var errRefused = errors.New("refused")

// book changes what an account has, and what it has put aside.
func book(id string, cents, aside int) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update accounts set cents = cents + $1, aside = aside + $2 where id = $3", cents, aside, id)
		return err
	}
}

// transfer is a TCC by hand.
func (b *bank) transfer(ctx context.Context, in transfer) (out []int, err error) {
	c := in.Cents
	step := func(name string, phase perdure.Phase, do func(context.Context, *sql.Tx) error) {
		n, failed := b.act(ctx, name, phase, do)
		out, err = append(out, n), errors.Join(err, failed)
	}
	step("debit", try, book("a", -c, c))
	step("credit", try, func(context.Context, *sql.Tx) error {
		if in.Refused {
			return errRefused
		}
		return nil
	})
	if err == nil {
		step("credit", confirm, book("b", c, 0))
		step("debit", confirm, book("a", 0, -c))
		return out, err
	}
	err = nil
	step("credit", cancel, book("b", -c, 0)) // it would take what was never given
	step("debit", cancel, book("a", c, -c))
	return out, err
}

// spec: F-43
func TestATransferIsBookedOnceWhereverACrashComes(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused: %v", refused), func(t *testing.T) {
			again := int64(0)
			b := &bank{}
			transfers := perdure.Define("transfer", b.transfer)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				db := opened(env, "sqlite", dsn(filepath.Join(env.TempDir(), "app.db"), waiting+quick))
				if _, err := db.Exec("create table accounts (id text, cents bigint, aside bigint); insert into accounts values ('a', 100, 0), ('b', 0, 0)"); err != nil {
					env.Fatal(err)
				}
				b.db = db
				b.calls.Store(0)
				b.n.Store(0)
				results, err := perduretest.Start(env, transfers, transfer{70, refused}).Result()
				var all [4]int
				if err := db.QueryRow("select a.cents, a.aside, b.cents, b.aside from accounts a, accounts b where a.id = 'a' and b.id = 'b'").Scan(&all[0], &all[1], &all[2], &all[3]); err != nil {
					env.Fatal(err)
				}
				again += b.calls.Load() - 4
				return fmt.Sprint(results, err, all, b.ledger(env))
			}, transfers)
			if again == 0 {
				t.Error("nothing was executed twice: this has proved nothing")
			}
		})
	}
}

// A connector has connections that lose the answers to commits, while it says so.
type connector struct {
	driver driver.Driver
	at     string
	loses  *atomic.Bool
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.at)
	if err != nil {
		return nil, err
	}
	return connection{conn.(fullConn), c.loses}, nil
}

func (c connector) Driver() driver.Driver { return c.driver }

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type connection struct {
	fullConn
	loses *atomic.Bool
}

func (c connection) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return transaction{tx, c.loses}, err
}

type transaction struct {
	driver.Tx
	loses *atomic.Bool
}

var errLost = errors.New("the answer is lost")

func (t transaction) Commit() error {
	err := t.Tx.Commit()
	if t.loses.Load() {
		err = errLost
	}
	return err
}

// spec: F-43
func TestACommitWhoseAnswerIsLostIsFoundOut(t *testing.T) {
	p := newStage(t).participant(openSQLite(t))
	var loses atomic.Bool
	path := filepath.Join(t.TempDir(), "app.db")
	opened(t, "sqlite", dsn(path, waiting))
	p.db = sql.OpenDB(connector{p.db.Driver(), dsn(path, waiting), &loses})
	defer p.db.Close()
	for i, phase := range []perdure.Phase{try, confirm, plain, undo} {
		loses.Store(true)
		if _, err := p.deliver(phase, none); !errors.Is(err, errLost) || !isRetried(t, err) {
			t.Error(err)
		}
		loses.Store(false)
		p.expect(phase, i+1, nil)
	}
	p.tookEffect(entry{try, 1}, entry{confirm, 2}, entry{plain, 3}, entry{undo, 4})
}

// spec: F-43
func TestInTheTransactionOfTheStepItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	runs := must[*sqlite.Store](t)(sqlite.Open(path))
	defer runs.Close()
	db := opened(t, "sqlite", dsn(path, waiting))
	n := 0
	step := func(ctx context.Context, name string, phase perdure.Phase) (int, error) {
		return perdure.StepTx(ctx, name, sqlite.Transactions(db), func(ctx context.Context, tx *sql.Tx) (int, error) {
			return barrier.Do(ctx, tx, func(ctx context.Context, tx *sql.Tx) (int, error) {
				n++
				return n, nil
			})
		}, phase, perdure.NoRetry)
	}
	acts := perdure.Define("acts", func(ctx context.Context, _ int) (string, error) {
		first, err := step(ctx, "debit", cancel)
		_, late := step(ctx, "debit", try)
		second, err2 := step(ctx, "credit", try)
		third, err3 := step(ctx, "credit", confirm)
		_, refused := step(ctx, "credit", cancel)
		return fmt.Sprint(first, second, third, errors.Is(late, barrier.ErrCancelled), errors.Is(refused, barrier.ErrConfirmed)), errors.Join(err, err2, err3)
	})
	engine := must[*perdure.Engine](t)(perdure.New(runs, perdure.Options{}))
	if err := engine.Register(acts); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()
	out, err := must[*perdure.Run[string]](t)(acts.Start(ctx, engine, 1)).Result(ctx)
	if out != "0 1 2 true true" || err != nil {
		t.Errorf("it gives %q, %v", out, err)
	}
}
