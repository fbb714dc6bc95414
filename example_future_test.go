package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// These steps run beside the workflow and beside each other.
func ExampleAsync() {
	quotes := perdure.Define("quotes", func(ctx context.Context, carriers []string) (int, error) {
		var asked []*perdure.Future[int]
		for _, c := range carriers {
			asked = append(asked, perdure.Async(ctx, "quote", func(context.Context) (int, error) {
				return 100 * len(c), nil // asks the carrier
			}, perdure.Key(c)))
		}
		best := 0
		for _, f := range asked {
			cents, err := f.Await(ctx)
			if err != nil {
				return 0, err
			}
			if best == 0 || cents < best {
				best = cents
			}
		}
		return best, nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(quotes)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := quotes.Start(ctx, engine, []string{"pigeon", "mule", "camel"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: 400 <nil>
}

// Await waits for an operation that runs beside the workflow, and returns its result.
func ExampleFuture_Await() {
	w := perdure.Define("w", func(ctx context.Context, name string) (string, error) {
		bread := perdure.Async(ctx, "bake", func(context.Context) (string, error) {
			return "bread", nil
		})
		soup, err := perdure.Step(ctx, "cook", func(context.Context) (string, error) {
			return "soup", nil
		})
		if err != nil {
			return "", err
		}
		with, err := bread.Await(ctx)
		return fmt.Sprintf("%s with %s for %s", soup, with, name), err
	})
	printResult(w, "Ada")
	// Output: soup with bread for Ada
}

// State returns the status without waiting.
func ExampleFuture_State() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		answer := make(chan string, 1)
		f := perdure.Async(ctx, "ask", func(context.Context) (string, error) {
			return <-answer, nil
		})
		state, _, err := f.State()
		fmt.Println(state, err)
		if _, err := perdure.Step(ctx, "let-it-go-on", func(context.Context) (bool, error) {
			answer <- "42"
			return true, nil
		}); err != nil {
			return "", err
		}
		if _, err := f.Await(ctx); err != nil {
			return "", err
		}
		state, out, err := f.State()
		fmt.Println(state, out, err)
		return out, nil
	})
	printResult(w, 0)
	// Output:
	// RUNNING <nil>
	// DONE 42 <nil>
	// 42
}

// Cancel ends an operation that runs beside the workflow.
func ExampleFuture_Cancel() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		search := perdure.Async(ctx, "search", func(ctx context.Context) (string, error) {
			<-ctx.Done() // it would never end
			return "", ctx.Err()
		})
		stopped, err := search.Cancel(ctx, "found elsewhere")
		if err != nil {
			return "", err
		}
		fmt.Println("stopped:", stopped)
		_, err = search.Await(ctx)
		fmt.Println("cancelled:", errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}))
		return "found", nil
	})
	printResult(w, 0)
	// Output:
	// stopped: true
	// cancelled: true
	// found
}

// votes returns a step for each ballot.
func votes(ctx context.Context, ballots string) (all []*perdure.Future[string]) {
	for i, b := range strings.Fields(ballots) {
		all = append(all, perdure.Async(ctx, "vote", func(context.Context) (string, error) {
			return b, nil
		}, perdure.Key(fmt.Sprint(i))))
	}
	return all
}

func yes(ballot string) bool { return ballot == "yes" }

func ExampleAll() {
	unanimous := perdure.Define("unanimous", func(ctx context.Context, ballots string) (bool,
		error) {
		return perdure.All(ctx, yes, votes(ctx, ballots)...)
	})
	printResult(unanimous, "yes yes yes")
	printResult(unanimous, "yes no yes")
	// Output:
	// true
	// false
}

func ExampleAny() {
	first := perdure.Define("first", func(ctx context.Context, ballots string) (int, error) {
		return perdure.Any(ctx, yes, votes(ctx, ballots)...)
	})
	printResult(first, "no no yes")
	printResult(first, "no no no")
	// Output:
	// 2
	// -1
}

// Without a condition, Any returns the first success.
func ExampleAny_first() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		slow := perdure.Async(ctx, "slow", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		fast := perdure.Async(ctx, "fast", func(context.Context) (string, error) {
			return "hare", nil
		})
		i, err := perdure.Any(ctx, nil, slow, fast)
		if err != nil {
			return "", err
		}
		return []*perdure.Future[string]{slow, fast}[i].Await(ctx)
	})
	printResult(w, 0)
	// Output: hare
}

func ExampleNone() {
	nobody := perdure.Define("nobody", func(ctx context.Context, ballots string) (bool, error) {
		return perdure.None(ctx, yes, votes(ctx, ballots)...)
	})
	printResult(nobody, "no no no")
	printResult(nobody, "no no yes")
	// Output:
	// true
	// false
}

// AsCompleted returns futures as they end.
func ExampleAsCompleted() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		late := perdure.Timer(ctx, "late", 50*time.Millisecond)
		soon := perdure.Timer(ctx, "soon", time.Millisecond)
		order := ""
		for f, err := range perdure.AsCompleted(ctx, late, soon) {
			if err != nil {
				return "", err
			}
			if f == soon {
				order += "soon "
			} else {
				order += "late "
			}
		}
		return order, nil
	})
	printResult(w, 0)
	// Output: soon late
}

// A branch has several operations. Branches of a run take turns, so they may share variables.
func ExampleGo() {
	w := perdure.Define("w", func(ctx context.Context, cities []string) (int, error) {
		nights := 0
		var trips []*perdure.Future[string]
		for _, city := range cities {
			trips = append(
				trips, perdure.Go(ctx, "trip", func(ctx context.Context) (string, error) {
					n, err := perdure.Step(ctx, "book", func(context.Context) (int, error) {
						return len(city), nil
					})
					if err != nil {
						return "", err
					}
					nights += n
					return perdure.Step(ctx, "confirm", func(context.Context) (string, error) {
						return city, nil
					})
				}, perdure.Key(city)))
		}
		for _, t := range trips {
			if _, err := t.Await(ctx); err != nil {
				return 0, err
			}
		}
		return nights, nil
	})
	printResult(w, []string{"Rome", "Paris"})
	// Output: 9
}

// A helper that opens a scope may use any names.
func ExampleScope() {
	greet := func(ctx context.Context, name string) (string, error) {
		ctx, err := perdure.Scope(ctx, "greet", perdure.Key(name))
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		})
	}
	w := perdure.Define("w", func(ctx context.Context, name string) (string, error) {
		if _, err := perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "a letter", nil
		}); err != nil {
			return "", err
		}
		return greet(ctx, name)
	})

	engine, stop := newEngine(w)
	defer stop()
	run := startRun(engine, w, "Ada")
	fmt.Println(run.Result(context.Background()))
	d, err := engine.Describe(context.Background(), run.ID())
	for _, s := range d.State.Steps {
		fmt.Println(s.Path)
	}
	fmt.Println(err)
	// Output:
	// Hello, Ada <nil>
	// write
	// greet[Ada]
	// greet[Ada]/write
	// <nil>
}

// A child is a run that a workflow starts as part of its own run.
func ExampleWorkflow_Child() {
	pack := perdure.Define("pack", func(ctx context.Context, item string) (string, error) {
		return perdure.Step(ctx, "wrap", func(context.Context) (string, error) {
			return "wrapped " + item, nil
		})
	})
	parcel := perdure.Define("parcel", func(ctx context.Context, items []string) ([]string, error) {
		var packed []string
		var children []*perdure.Child[string]
		for _, item := range items {
			children = append(children, pack.Child(ctx, item, perdure.Key(item)))
		}
		for _, c := range children {
			one, err := c.Await(ctx)
			if err != nil {
				return nil, err
			}
			packed = append(packed, one)
		}
		return packed, nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(pack, parcel)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := parcel.Start(ctx, engine, []string{"cup", "pot"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: [wrapped cup wrapped pot] <nil>
}

// The outcome of a child, as a value.
func ExampleChild_Outcome() {
	refuse := perdure.Define("refuse", func(context.Context, string) (string, error) {
		return "", errors.New("no pigeon is free")
	})
	parent := perdure.Define("parent", func(ctx context.Context, letter string) (string, error) {
		o, err := refuse.Child(ctx, letter).Outcome(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%v: %v", o.Status, o.Err), nil
	})
	engine, stop := newEngine(refuse, parent)
	defer stop()
	fmt.Println(startRun(engine, parent, "a letter").Result(context.Background()))
	// Output: FAILED: no pigeon is free <nil>
}

// A parent may end its child.
func ExampleChild_Cancel() {
	search := perdure.Define("search", func(ctx context.Context, _ string) (string, error) {
		return "nothing", perdure.Sleep(ctx, 24*time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, what string) (journal.Status,
		error) {
		child := search.Child(ctx, what)
		if err := child.Cancel(ctx, "it was found at home"); err != nil {
			return 0, err
		}
		o, err := child.Outcome(ctx)
		return o.Status, err
	})
	engine, stop := newEngine(search, parent)
	defer stop()
	fmt.Println(startRun(engine, parent, "the key").Result(context.Background()))
	// Output: CANCELLED <nil>
}

// A child is found from outside like every run.
func ExampleChild_RunID() {
	pack := perdure.Define("pack", func(ctx context.Context, item string) (string, error) {
		return "wrapped " + item, nil
	})
	parcel := perdure.Define("parcel", func(ctx context.Context, item string) (string,
		error) {
		child := pack.Child(ctx, item)
		_, err := child.Await(ctx)
		return child.RunID(), err
	})
	engine, stop := newEngine(pack, parcel)
	defer stop()
	ctx := context.Background()
	id, err := startRun(engine, parcel, "cup").Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	child, err := pack.Get(ctx, engine, string(id))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(child.Result(ctx))
	// Output: wrapped cup <nil>
}

// A policy sets what happens to a child when its parent ends.
func ExampleChildPolicy() {
	child := perdure.Define("child", func(ctx context.Context, _ string) (string, error) {
		p, err := Paid.Wait(ctx)
		return fmt.Sprintf("got %d cents", p.Cents), err
	})
	parent := perdure.Define("parent",
		func(ctx context.Context, _ string) (map[string]string, error) {
			return map[string]string{
				"goes on":       child.Child(ctx, "a").RunID(), // unless the parent is cancelled
				"is cancelled":  child.Child(ctx, "b", perdure.ChildEnds).RunID(),
				"is on its own": child.Child(ctx, "c", perdure.ChildDetached).RunID(),
			}, nil
		})
	engine, stop := newEngine(child, parent)
	defer stop()
	ctx := context.Background()
	children, err := startRun(engine, parent, "").Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, what := range []string{"goes on", "is on its own", "is cancelled"} {
		id := string(children[what])
		if what != "is cancelled" {
			if _, err := Paid.Send(ctx, engine, id, Payment{Cents: 5}); err != nil {
				log.Fatal(err)
			}
		}
		run, err := child.Get(ctx, engine, id)
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Printf("%s: out %q, error code %q\n", what, out, journal.CodeOf(err))
	}
	// Output:
	// goes on: out "got 5 cents", error code ""
	// is on its own: out "got 5 cents", error code ""
	// is cancelled: out "", error code "cancelled"
}
