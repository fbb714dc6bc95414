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

// spec: F-43
func TestACrashBetweenTheCommitAndTheRecord(t *testing.T) {
	b := &bank{}
	acts := perdure.Define("acts", func(ctx context.Context, _ int) (out []int, err error) {
		for _, act := range []struct {
			name string
			opts []perdure.StepOption
		}{
			{"debit", []perdure.StepOption{try}}, {"debit", []perdure.StepOption{confirm}},
			{"credit", []perdure.StepOption{try}}, {"credit", []perdure.StepOption{cancel}},
			{"late", []perdure.StepOption{cancel}},
			{"mail", nil}, {"mail", []perdure.StepOption{undo}},
		} {
			n, err := perdure.Step(ctx, act.name, func(ctx context.Context) (int, error) {
				return b.book(ctx, "a", 1, 0)
			}, act.opts...)
			if err != nil {
				return out, err
			}
			out = append(out, n)
		}
		return out, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		b.open(env)
		crash := make(chan bool)
		b.after = func(call int64) {
			// each step is executed twice: the process dies before its result is recorded
			if call%2 == 1 {
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
		want := []string{
			"TRY debit 1", "CONFIRM debit 2", "TRY credit 3", "CANCEL credit 4", "STEP mail 5",
			"UNDO mail 6",
		}
		if got := b.ledger(env); !slices.Equal(got, want) || b.calls.Load() != 14 {
			env.Errorf("%q after %d calls, want %q", got, b.calls.Load(), want)
		}
	}, acts)
}

// A connector makes connections that lose the answers to commits, while it is told to.
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
		return perdure.StepTx(ctx, name, sqlite.Transactions(db),
			func(ctx context.Context, tx *sql.Tx) (int, error) {
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
		fourth, err4 := step(ctx, "credit", cancel)
		return fmt.Sprint(first, second, third, fourth, errors.Is(late, barrier.ErrCancelled)),
			errors.Join(err, err2, err3, err4)
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
	if out != "0 1 2 3 true" || err != nil {
		t.Errorf("it gives %q, %v", out, err)
	}
}
