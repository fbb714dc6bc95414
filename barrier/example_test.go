package barrier_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/barrier"
	"github.com/perdure/perdure/store/memory"
)

// Accounts are participants of TCCs: they hold money, and then spend or release it.
type Accounts struct{ db *sql.DB }

// Hold is the try. It returns the amount that is left.
func (a Accounts) Hold(ctx context.Context, id string, cents int) (int, error) {
	return barrier.In(ctx, a.db, func(ctx context.Context, tx *sql.Tx) (left int, err error) {
		err = tx.QueryRowContext(ctx, `
			update accounts set free = free - $1, held = held + $1
			where id = $2 returning free`, cents, id).Scan(&left)
		return left, err
	})
}

// Release is the cancel.
func (a Accounts) Release(ctx context.Context, id string, cents int) (int, error) {
	return barrier.In(ctx, a.db, func(ctx context.Context, tx *sql.Tx) (left int, err error) {
		err = tx.QueryRowContext(ctx, `
			update accounts set free = free + $1, held = held - $1
			where id = $2 returning free`, cents, id).Scan(&left)
		return left, err
	})
}

// openAccounts returns accounts in a database of their own, one of which has 100 cents.
func openAccounts() (Accounts, func()) {
	dir, err := os.MkdirTemp("", "accounts")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "accounts.db"), waiting))
	if err == nil {
		err = barrier.Create(context.Background(), db)
	}
	if err == nil {
		_, err = db.Exec("create table accounts (id text primary key, free bigint, held bigint); " +
			"insert into accounts values ('ada', 100, 0)")
	}
	if err != nil {
		log.Fatal(err)
	}
	return Accounts{db}, func() {
		if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

func (a Accounts) print() {
	var free, held int
	if err := a.db.QueryRow("select free, held from accounts").Scan(&free, &held); err != nil {
		log.Fatal(err)
	}
	fmt.Println("free", free, "held", held)
}

// runOnce executes a run of a workflow, and prints its result.
func runOnce(w *perdure.Workflow[int, string]) {
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(w)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	run, err := w.Start(ctx, engine, 30)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	stop()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
}

// The step is executed twice, because the answer of the first attempt is lost. The money is held
// once.
func ExampleIn() {
	accounts, close := openAccounts()
	defer close()
	answers := 0
	runOnce(perdure.Define("pay", func(ctx context.Context, cents int) (string, error) {
		left, err := perdure.Step(ctx, "ada", func(ctx context.Context) (int, error) {
			left, err := accounts.Hold(ctx, "ada", cents)
			if answers++; answers == 1 {
				return 0, errors.New("the answer is lost")
			}
			return left, err
		}, perdure.PhaseTry, perdure.Retry{First: time.Millisecond})
		return fmt.Sprint(left, " left after ", answers, " answers"), err
	}))
	accounts.print()
	// Output:
	// 70 left after 2 answers <nil>
	// free 70 held 30
}

// A try that comes after its cancel does nothing.
func ExampleIn_hanging() {
	accounts, close := openAccounts()
	defer close()
	runOnce(perdure.Define("pay", func(ctx context.Context, cents int) (string, error) {
		_, err := perdure.Step(ctx, "ada", func(ctx context.Context) (int, error) {
			return accounts.Release(ctx, "ada", cents)
		}, perdure.PhaseCancel)
		_, late := perdure.Step(ctx, "ada", func(ctx context.Context) (int, error) {
			return accounts.Hold(ctx, "ada", cents)
		}, perdure.PhaseTry)
		return fmt.Sprint(err, ", ", errors.Is(late, barrier.ErrCancelled)), nil
	}))
	accounts.print()
	// Output:
	// <nil>, true <nil>
	// free 100 held 0
}

// Do uses a transaction that the step begins.
func ExampleDo() {
	accounts, close := openAccounts()
	defer close()
	runOnce(perdure.Define("give", func(ctx context.Context, cents int) (string, error) {
		return perdure.Step(ctx, "gift", func(ctx context.Context) (string, error) {
			tx, err := accounts.db.BeginTx(ctx, nil)
			if err != nil {
				return "", err
			}
			defer tx.Rollback()
			text, err := barrier.Do(ctx, tx, func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "update accounts set free = free + $1", cents)
				return "a gift", err
			})
			if err != nil {
				return "", err
			}
			return text, tx.Commit()
		})
	}))
	accounts.print()
	// Output:
	// a gift <nil>
	// free 130 held 0
}

func ExampleCreate() {
	accounts, close := openAccounts()
	defer close()
	fmt.Println(barrier.Create(context.Background(), accounts.db))
	// Output: <nil>
}

// Rows older than 90 days are removed. No run may last that long.
func ExampleClean() {
	accounts, close := openAccounts()
	defer close()
	fmt.Println(barrier.Clean(context.Background(), accounts.db, time.Now().AddDate(0, 0, -90)))
	// Output: 0 <nil>
}
