package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// Each step has one recorded result. A run that a crash interrupts after "brew"
// goes on with "pour" and with what "brew" gave.
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

// A failed attempt is tried again as the step's policy says.
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

// A policy may retry some errors only: registered ones that On names (see [RegisterError]).
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
	// error: no such account
}

// As an option of a workflow, a Retry is the policy of its steps without one;
// [NoRetry] is one attempt, and [DefaultRetry] what holds where nobody says
// otherwise.
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
		return perdure.DefaultRetry.Attempts, nil
	}, perdure.Retry{Attempts: 2, First: time.Millisecond})
	printResult(w, 0)
	// Output:
	// fetch failed in attempt 2
	// print failed in attempt 1
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
	// perdure: retry: Factor is 0.5: at least 1
	// <nil>
}

// An attempt that passes its timeout has failed, and the next one begins.
func ExampleTimeout() {
	ask := perdure.Define("ask", func(ctx context.Context, _ string) (string, error) {
		return perdure.Step(ctx, "question", func(ctx context.Context) (string, error) {
			if n, _, _ := perdure.Attempt(ctx); n == 1 {
				<-ctx.Done() // nobody answers
				return "", ctx.Err()
			}
			return "an answer", nil
		}, perdure.Timeout(20*time.Millisecond), perdure.Retry{Attempts: 5, First: time.Millisecond})
	})
	printResult(ask, "the oracle")
	// Output: an answer
}

// As an option of a workflow, a Timeout limits the whole run, also while no
// program is there to execute it.
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

// A card service that charges once for each key makes a step that is executed
// twice charge once.
func ExampleIdempotencyKey() {
	charged := map[string]int{} // the card service: what it took, by key
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

// Once keeps what an attempt has got hold of for the next attempts.
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

// What runs in a loop over data has a key: it is how the journal tells the steps
// apart when the order of the data changes.
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

// An announced step is in the journal while it is executed for the first time, and
// not only with its result.
func ExampleAnnounced() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "report", func(context.Context) (string, error) {
			return "a long report", nil
		}, perdure.Announced)
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0)
	fmt.Println(run.Result(ctx))
	entries, err := engine.History(ctx, run.ID(), 0, 0)
	for _, e := range entries {
		if e.Op.Name == "report" {
			fmt.Println(e.Kind)
		}
	}
	fmt.Println(err)
	// Output:
	// a long report <nil>
	// StepStarted
	// StepCompleted
	// <nil>
}

// Progress tells observers how far a step is.
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
