package perdure_test

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
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// Each step has one recorded result. A run that a crash interrupts after "brew" goes on with
// "pour" and with the result of "brew".
func ExampleStep() {
	tea := perdure.Define("tea", func(ctx context.Context, sort string) (string, error) {
		pot, err := perdure.Step(ctx, "brew", func(context.Context) (string, error) {
			return "a pot of " + sort, nil
		})
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "pour", func(context.Context) (string, error) {
			return "a cup from " + pot, nil
		})
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(tea)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := tea.Start(ctx, engine, "Assam")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: a cup from a pot of Assam <nil>
}

// A failed attempt is retried according to the step's policy.
func ExampleRetry() {
	fetch := perdure.Define("fetch", func(ctx context.Context, url string) (string, error) {
		return perdure.Step(ctx, "get", func(ctx context.Context) (string, error) {
			n, last, err := perdure.Attempt(ctx)
			if err != nil {
				return "", err
			}
			fmt.Println("attempt", n, "is the last:", last)
			if n < 3 {
				return "", errors.New("connection reset")
			}
			return "the page at " + url, nil
		}, perdure.Retry{Attempts: 3, First: time.Millisecond, Factor: 2})
	})
	printResult(fetch, "example.org")
	// Output:
	// attempt 1 is the last: false
	// attempt 2 is the last: false
	// attempt 3 is the last: true
	// the page at example.org
}

// A policy may retry only some errors: the registered errors in On (see [RegisterError]).
func ExampleRetry_on() {
	answers := []error{ErrNoMoney, errors.New("no such account"), nil}
	call := perdure.Define("call", func(ctx context.Context, _ string) (string, error) {
		return perdure.Step(ctx, "dial", func(context.Context) (string, error) {
			err := answers[0]
			answers = answers[1:]
			fmt.Println("it says:", err)
			return "", err
		}, perdure.Retry{Attempts: 5, First: time.Millisecond, On: []error{ErrNoMoney}})
	})
	printResult(call, "ada")
	// Output:
	// it says: there is no money on the card
	// it says: no such account
	// error: step dial: no such account
}

// As an option of a workflow, a Retry is the policy of its steps that have none. [NoRetry] allows
// one attempt. The default policy allows 3.
func ExampleRetry_workflow() {
	fails := func(what string) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			n, _, _ := perdure.Attempt(ctx)
			return 0, fmt.Errorf("%s failed in attempt %d", what, n)
		}
	}
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, err := perdure.Step(ctx, "fetch", fails("fetch"))
		fmt.Println(err)
		_, err = perdure.Step(ctx, "print", fails("print"), perdure.NoRetry)
		fmt.Println(err)
		return 3, nil
	}, perdure.Retry{Attempts: 2, First: time.Millisecond})
	printResult(w, 0)
	// Output:
	// step fetch: fetch failed in attempt 2
	// step print: print failed in attempt 1
	// 3
}

func ExampleRetry_Delay() {
	r := perdure.Retry{Attempts: 5, First: time.Second, Factor: 2, Cap: 5 * time.Second}
	for n := 1; r.ShouldRetry(n); n++ {
		fmt.Println("after attempt", n, "it waits", r.Delay(n))
	}
	// Output:
	// after attempt 1 it waits 1s
	// after attempt 2 it waits 2s
	// after attempt 3 it waits 4s
	// after attempt 4 it waits 5s
}

func ExampleRetry_Validate() {
	fmt.Println(perdure.Retry{Factor: 0.5}.Validate())
	fmt.Println(perdure.Retry{}.Validate()) // zero fields take the default
	// Output:
	// perdure: retry: Factor 0.5 is not valid: at least 1
	// <nil>
}

// An attempt that passes its timeout has failed, and the next one begins.
func ExampleTimeout() {
	ask := perdure.Define("ask", func(ctx context.Context, _ string) (string, error) {
		return perdure.Step(ctx, "question", func(ctx context.Context) (string, error) {
			if n, _, _ := perdure.Attempt(ctx); n == 1 {
				<-ctx.Done() // there is no answer
				return "", ctx.Err()
			}
			return "an answer", nil
		}, perdure.Timeout(20*time.Millisecond), perdure.Retry{
			Attempts: 5, First: time.Millisecond,
		})
	})
	printResult(ask, "the oracle")
	// Output: an answer
}

// As an option of a workflow, a Timeout limits the whole run, also while no program executes it.
func ExampleTimeout_workflow() {
	wait := perdure.Define("wait", func(ctx context.Context, d time.Duration) (string, error) {
		return "in time", perdure.Sleep(ctx, d)
	}, perdure.Timeout(10*time.Millisecond))
	engine, stop := newEngine(wait)
	defer stop()
	_, err := startRun(engine, wait, time.Hour).Result(context.Background())
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeTimedOut}))
	// Output: true
}

// A step that is executed twice charges once, if the card service charges once for each key.
func ExampleIdempotencyKey() {
	charged := map[string]int{} // the charges of the card service, by key
	charge := perdure.Define("charge", func(ctx context.Context, cents int) (int, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			charged[perdure.IdempotencyKey(ctx)] = cents
			if n, _, _ := perdure.Attempt(ctx); n == 1 {
				return 0, errors.New("the answer was lost")
			}
			return cents, nil
		}, perdure.Retry{First: time.Millisecond})
	})
	printResult(charge, 4200)
	fmt.Println(len(charged), "charge")
	// Output:
	// 4200
	// 1 charge
}

// Once keeps a value of an attempt for the next attempts.
func ExampleOnce() {
	upload := perdure.Define("upload", func(ctx context.Context, file string) (string, error) {
		return perdure.Step(ctx, "upload", func(ctx context.Context) (string, error) {
			session, err := perdure.Once(ctx, "session", func() (string, error) {
				fmt.Println("opening a session")
				return "session 17", nil
			})
			if err != nil {
				return "", err
			}
			if n, _, _ := perdure.Attempt(ctx); n < 3 {
				return "", errors.New("interrupted")
			}
			return file + " sent in " + session, nil
		}, perdure.Retry{Attempts: 3, First: time.Millisecond})
	})
	printResult(upload, "tax.pdf")
	// Output:
	// opening a session
	// tax.pdf sent in session 17
}

// A step in a loop over data has a key, by which the journal identifies the step when the order
// of the data changes.
func ExampleKey() {
	ship := perdure.Define("ship", func(ctx context.Context, parcels []string) (int, error) {
		for _, p := range parcels {
			if _, err := perdure.Step(ctx, "ship", func(context.Context) (string, error) {
				return "shipped " + p, nil
			}, perdure.Key(p)); err != nil {
				return 0, err
			}
		}
		return len(parcels), nil
	})
	engine, stop := newEngine(ship)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, ship, []string{"p-1", "p-2"})
	fmt.Println(run.Result(ctx))
	d, err := engine.Describe(ctx, run.ID())
	for _, s := range d.State.Steps {
		fmt.Println(s.Path, s.Status)
	}
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// ship[p-1] DONE
	// ship[p-2] DONE
	// <nil>
}

// Progress notifies observers of how far a step is.
func ExampleProgress() {
	w := perdure.Define("w", func(ctx context.Context, files int) (int, error) {
		return perdure.Step(ctx, "copy", func(ctx context.Context) (int, error) {
			for n := range files {
				if err := perdure.Progress(ctx, fmt.Sprintf("%d of %d", n+1, files)); err != nil {
					return n, err
				}
			}
			return files, nil
		})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Observers: []observe.Observer{{
		Kinds: []observe.Kind{observe.StepProgressed},
		See:   func(n observe.Notice) { fmt.Println(n.Step, n.Reason) },
	}}}, w)
	defer stop()
	fmt.Println(startRun(engine, w, 3).Result(context.Background()))
	// Output:
	// copy 1 of 3
	// copy 2 of 3
	// copy 3 of 3
	// 3 <nil>
}

// Errors of this module have a code, which programs test, a message, and often a hint for people.
func ExampleError() {
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register()
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	_, err = engine.Get(ctx, "ord-1")
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}))
	fmt.Println(err)
	// Output:
	// true
	// perdure: find ord-1: no run has this run ID or workflow ID
}

// No further attempt can fix a permanent error.
func ExamplePermanent() {
	w := perdure.Define("w", func(ctx context.Context, card string) (string, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			n, _, _ := perdure.Attempt(ctx)
			fmt.Println("attempt", n)
			return "", perdure.Permanent(errors.New("the card was stolen"))
		}, perdure.Retry{Attempts: 5})
	})
	printResult(w, "tok_1")
	// Output:
	// attempt 1
	// error: step charge: the card was stolen
}

// If a service states when to try again, the step passes that time on.
func ExampleRetryAfter() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "ask", func(ctx context.Context) (string, error) {
			if n, _, _ := perdure.Attempt(ctx); n == 1 {
				return "", perdure.RetryAfter(time.Millisecond, errors.New("too many requests"))
			}
			return "an answer", nil
		}, perdure.Retry{First: time.Hour})
	})
	printResult(w, 0)
	// Output: an answer
}

// A benign error is treated as any other error, but observers need not raise an alarm.
func ExampleBenign() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "look", func(context.Context) (string, error) {
			return "", perdure.Benign(errors.New("the shop is shut on Sundays"))
		}, perdure.NoRetry)
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Observers: []observe.Observer{{
		Kinds: []observe.Kind{observe.StepFailed},
		See:   func(n observe.Notice) { fmt.Println(n.Step, "failed, benign:", n.Benign) },
	}}}, w)
	defer stop()
	_, err := startRun(engine, w, 0).Result(context.Background())
	fmt.Println(err)
	// Output:
	// look failed, benign: true
	// step look: the shop is shut on Sundays
}

// A RetryAfter error that the function returns does not end the run: its code is replayed, as
// after a panic.
func ExampleRetryAfter_workflow() {
	tries := 0
	w := perdure.Define("w", func(context.Context, int) (string, error) {
		if tries++; tries == 1 {
			return "", perdure.RetryAfter(0, errors.New("not yet"))
		}
		return "now", nil
	}, perdure.Replays{First: time.Millisecond})
	printResult(w, 0)
	// Output: now
}

// A step without a result.
func ExampleDo() {
	w := perdure.Define("w", func(ctx context.Context, to string) (string, error) {
		return "mailed", perdure.Do(ctx, "mail", func(context.Context) error {
			fmt.Println("to", to)
			return nil
		})
	})
	printResult(w, "ann")
	// Output:
	// to ann
	// mailed
}

// ErrNoMoney is compared by the callers of the step.
var ErrNoMoney = errors.New("there is no money on the card")

// A DeclinedError has fields that the callers of the step read.
type DeclinedError struct{ Card, Why string }

func (e DeclinedError) Error() string { return e.Card + " was declined: " + e.Why }

func init() {
	if err := perdure.RegisterError("card.no-money", ErrNoMoney); err != nil {
		log.Fatal(err)
	}
	if err := perdure.RegisterErrorType[DeclinedError]("card.declined"); err != nil {
		log.Fatal(err)
	}
}

// Errors that are registered while the program starts are found in recorded errors: at once,
// after a crash, and in another process.
func ExampleRegisterError() {
	pay := perdure.Define("pay", func(ctx context.Context, card string) (int, error) {
		_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
			return 0, fmt.Errorf("charge: %w",
				errors.Join(ErrNoMoney, DeclinedError{Card: card, Why: "over its limit"}))
		}, perdure.NoRetry)
		return 0, err
	})
	engine, stop := newEngine(pay)
	defer stop()
	_, err := startRun(engine, pay, "tok_1").Result(context.Background())

	fmt.Println(errors.Is(err, ErrNoMoney))
	var declined DeclinedError
	fmt.Println(errors.As(err, &declined), declined.Why)
	// Output:
	// true
	// true over its limit
}

// A test of the application checks a definition, without an engine.
func ExampleCheck() {
	report := perdure.Define("report", func(context.Context, string) (string, error) {
		return "", nil
	}, perdure.Retry{First: 48 * time.Hour})
	for _, issue := range perdure.Check(report) {
		fmt.Println(issue)
	}
	// Output:
	// WARNING: retry: a delay of 48h0m0s
}

// A warehouse is an application with a table of orders in the file of its runs.
type warehouse struct {
	db     *sql.DB
	engine *perdure.Engine
	close  func()
}

// openWarehouse opens a warehouse whose engine executes the workflows that make returns.
func openWarehouse(make func(db *sql.DB) []perdure.Definition) warehouse {
	dir, err := os.MkdirTemp("", "warehouse")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "warehouse.db")
	store, err := sqlite.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("create table orders (id text primary key, state text)")
	}
	if err != nil {
		log.Fatal(err)
	}
	engine, stop := newEngineOn(store, perdure.Options{}, make(db)...)
	return warehouse{db, engine, func() {
		stop()
		if err := errors.Join(db.Close(), store.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}}
}

// order adds an order, and calls a function in the same transaction.
func (s warehouse) order(id string, do func(tx *sql.Tx) error) {
	ctx, tables := context.Background(), sqlite.Transactions(s.db)
	tx, err := tables.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = tx.Exec("insert into orders values (?, 'new')", id); err == nil {
		err = do(tx)
	}
	if err == nil {
		err = tables.Commit(ctx, tx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// result prints the result of a run.
func (s warehouse) result(id string) {
	run, err := s.engine.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(context.Background())
	fmt.Printf("%s %v\n", out, err)
}

// pack is a workflow that waits for a thing to pack.
var pack = perdure.Define("pack", func(ctx context.Context, id string) (string, error) {
	thing, err := Note.Wait(ctx)
	return id + ": " + thing, err
})

func packing(*sql.DB) []perdure.Definition { return []perdure.Definition{pack} }

// The writes of a step in a transaction happen exactly once, as does its result.
func ExampleStepTx() {
	s := openWarehouse(func(db *sql.DB) []perdure.Definition {
		return []perdure.Definition{perdure.Define("ship",
			func(ctx context.Context, id string) (string, error) {
				return perdure.StepTx(ctx, "mark", sqlite.Transactions(db),
					func(ctx context.Context, tx *sql.Tx) (string, error) {
						_, err := tx.ExecContext(
							ctx, "update orders set state = 'shipped' where id = ?",
							id)
						return id + " is shipped", err
					})
			})}
	})
	defer s.close()
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := s.engine.In(tx).Start(context.Background(), "ship", []byte(`"ord-1"`),
			perdure.ID("ord-1"))
		return err
	})
	s.result("ord-1")
	var state string
	err := s.db.QueryRow("select state from orders").Scan(&state)
	fmt.Println(state, err)
	// Output:
	// "ord-1 is shipped" <nil>
	// shipped <nil>
}

// An order and its run are in one transaction: both exist, or neither.
func ExampleClient_In_workflow() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := pack.Start(ctx, s.engine.In(tx), "ord-1", perdure.ID("ord-1"))
		return err
	})
	_, err := Note.Send(ctx, s.engine, "ord-1", "tea")
	fmt.Println(err)
	s.result("ord-1")
	// Output:
	// <nil>
	// "ord-1: tea" <nil>
}

// A program that does not have the workflow starts it by name.
func ExampleClient_In() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	s.order("ord-1", func(tx *sql.Tx) error {
		run, err := s.engine.In(tx).Start(ctx, "pack", []byte(`"ord-1"`), perdure.ID("ord-1"))
		if err == nil {
			fmt.Println("new:", run.New())
		}
		return err
	})
	_, err := Note.Send(ctx, s.engine, "ord-1", "tea")
	fmt.Println(err)
	s.result("ord-1")
	// Output:
	// new: true
	// <nil>
	// "ord-1: tea" <nil>
}

// The run gets the signal exactly if the order exists.
func ExampleClient_In_signal() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	if _, err := pack.Start(ctx, s.engine, "box", perdure.ID("box")); err != nil {
		log.Fatal(err)
	}
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := Note.Send(ctx, s.engine.In(tx), "box", "ord-1")
		return err
	})
	s.result("box")
	// Output:
	// "box: ord-1" <nil>
}

func ExampleClient_In_send() {
	s := openWarehouse(packing)
	defer s.close()
	ctx := context.Background()
	if _, err := pack.Start(ctx, s.engine, "box", perdure.ID("box")); err != nil {
		log.Fatal(err)
	}
	s.order("ord-1", func(tx *sql.Tx) error {
		_, err := s.engine.In(tx).Send(ctx, "box", Note.Name(), []byte(`"ord-1"`))
		return err
	})
	s.result("box")
	// Output:
	// "box: ord-1" <nil>
}

func ExampleSendWithStart_transaction() {
	s := openWarehouse(packing)
	defer s.close()
	s.order("ord-1", func(tx *sql.Tx) error {
		d, err := perdure.SendWithStart(context.Background(), s.engine.In(tx), Note, "ord-1", pack,
			"box", perdure.ID("box"))
		fmt.Println("started a run:", d.New)
		return err
	})
	s.result("box")
	// Output:
	// started a run: true
	// "box: ord-1" <nil>
}
