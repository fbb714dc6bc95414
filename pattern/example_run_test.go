package pattern_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// A set walks over operations that depend on each other: when an operation has ended, the operation
// that waited for it begins and is added.
func ExampleNewSet() {
	then := map[string][]string{"reserve": {"charge"}, "charge": {"ship", "thank"}}
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		set, err := pattern.NewSet(ctx)
		if err != nil {
			return 0, err
		}
		defer set.Close()
		names := map[pattern.Awaitable]string{}
		begin := func(name string) error {
			f := perdure.Async(ctx, name, func(context.Context) (string, error) {
				return name, nil
			})
			names[f] = name
			return set.Add(f)
		}
		if err := begin("reserve"); err != nil {
			return 0, err
		}
		ended := 0
		for ; set.Len() > 0; ended++ {
			f, err := set.Next()
			if err != nil {
				return ended, err
			}
			for _, name := range then[names[f]] {
				if err := begin(name); err != nil {
					return ended, err
				}
			}
		}
		return ended, nil
	})
	printResult(w, 0)
	// Output: 4
}

// Futures and children of any types are in one set.
func ExampleSet() {
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		return 2 * n, nil
	})
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		set, err := pattern.NewSet(ctx)
		if err != nil {
			return "", err
		}
		defer set.Close()
		number := child.Child(ctx, 21)
		text := perdure.Async(ctx, "text", func(context.Context) (string, error) {
			return "done", nil
		})
		for _, f := range []pattern.Awaitable{number, text} {
			if err := set.Add(f); err != nil {
				return "", err
			}
		}
		for set.Len() > 0 {
			if _, err := set.Next(); err != nil {
				return "", err
			}
		}
		n, err := number.Await(ctx) // n has ended, so Await returns at once
		if err != nil {
			return "", err
		}
		s, err := text.Await(ctx)
		return fmt.Sprint(n, " ", s), err
	})
	engine, stop := newEngine(w, child)
	defer stop()
	fmt.Println(startRun(engine, w, 0).Result(context.Background()))
	// Output: 42 done <nil>
}

// A pattern sets the status of its run, and records its decisions as facts.
func ExampleRecord() {
	saga := perdure.Define("saga", func(ctx context.Context, _ int) (string, error) {
		if err := pattern.SetStatus(ctx, journal.Compensating); err != nil {
			return "", err
		}
		if err := pattern.Record(ctx, pattern.Fact{
			Kind: journal.StepSkipped, Name: "insure", Reason: "nobody wanted it",
		}); err != nil {
			return "", err
		}
		return "", pattern.End(ctx, journal.Compensated, nil, errors.New("the hotel is full"))
	})
	engine, stop := newEngine(saga)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, saga, 0)
	_, err := run.Result(ctx)
	fmt.Println(err)
	d, err := engine.Describe(ctx, run.ID())
	fmt.Println(d.Head.Status, err)
	for _, s := range d.State.Steps {
		fmt.Println(s.Path, s.Status)
	}
	// Output:
	// the hotel is full
	// COMPENSATED <nil>
	// insure SKIPPED
}

// A pattern ends its runs with statuses of its own.
func ExampleEnd() {
	saga := perdure.Define("saga", func(ctx context.Context, _ int) (string, error) {
		return "", pattern.End(ctx, journal.Compensated, "everything is undone",
			errors.New("the hotel is full"))
	})
	engine, stop := newEngine(saga)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, saga, 0)
	_, err := run.Result(ctx)
	fmt.Println(err)
	all, err := engine.Statuses(ctx, run.ID())
	fmt.Printf("%v %s %v\n", all[0].Head.Status, all[0].Output, err)
	// Output:
	// the hotel is full
	// COMPENSATED "everything is undone" <nil>
}

// A deferred function also runs when the run only leaves memory; the cause of its context is then
// the reason for it. It frees memory and locks, and does nothing else.
func ExampleLeaving() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		defer func() {
			fmt.Println("leaving:", pattern.Leaving(ctx))
		}()
		err := perdure.Sleep(ctx, time.Hour)
		return "", err
	})
	engine, stop := newEngine(w)
	startRun(engine, w, 0, perdure.ID("w"))
	untilStatus(engine.Client, "w", journal.Waiting)
	stop() // the run stays in the store, for the next engine
	// Output: leaving: true
}

// An event may have more than its type and its data.
func ExampleEmitEvent() {
	events := make(chan perdure.Event, 1)
	publisher := func(_ context.Context, e perdure.Event) error {
		events <- e
		return nil
	}
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		return "", pattern.EmitEvent(ctx, perdure.Event{
			Type: "order.seen", Topic: "orders", Key: o.ID, Kind: pattern.EventStepCompleted,
			Data: []byte("1"),
		})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Publisher: publisher}, order)
	defer stop()
	startRun(engine, order, Order{ID: "ord-1"}, perdure.ID("ord-1"))
	e := <-events
	fmt.Println(e.Type, e.Topic, e.Key, e.Kind)
	fmt.Println(pattern.EventExecutionStarted, pattern.EventExecutionCompleted,
		pattern.EventStepFailed)
	// Output:
	// order.seen orders ord-1 STEP_COMPLETED
	// EXECUTION_STARTED EXECUTION_COMPLETED STEP_FAILED
}

func ExampleVariables() {
	w := perdure.Define("w", func(ctx context.Context, rates map[string]int) (string, error) {
		for _, country := range slices.Sorted(maps.Keys(rates)) {
			if err := perdure.SetVariable(ctx, "vat."+country, rates[country]); err != nil {
				return "", err
			}
		}
		all, err := pattern.Variables(ctx)
		return fmt.Sprintf("%s", all), err
	})
	printResult(w, map[string]int{"it": 22, "fr": 20})
	// Output: map[vat.fr:20 vat.it:22]
}

// An announced step is in the journal while it is executed for the first time, and not only when
// its result is recorded.
func ExampleAnnounced() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "report", func(context.Context) (string, error) {
			return "a long report", nil
		}, pattern.Announced)
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

// A dry run is for graphs: every step is skipped. Other workflows do not start with it.
func ExampleDryRun() {
	order := perdure.Define("order", func(context.Context, Order) (string, error) {
		return "paid", nil
	})
	engine, stop := newEngine(order)
	defer stop()
	_, err := order.Start(context.Background(), engine, Order{ID: "ord-2"}, pattern.DryRun)
	fmt.Println(err)
	// Output: perdure: start order: only a graph can be walked through without doing anything (start it without DryRun, or try it in a test)
}

// A run records the keys of its work, so that a step that comes to the same work twice does it
// once.
func ExampleAddKey() {
	w := perdure.Define("w", func(ctx context.Context, cards []string) (string, error) {
		done := ""
		for _, card := range cards {
			isNew, err := pattern.AddKey(ctx, "charge:"+card)
			if err != nil {
				return "", err
			}
			done += fmt.Sprintln(card, isNew)
		}
		return done, nil
	})
	printResult(w, []string{"tok_1", "tok_2", "tok_1"})
	// Output:
	// tok_1 true
	// tok_2 true
	// tok_1 false
}

// HasKey only reads.
func ExampleHasKey() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		before, err := pattern.HasKey(ctx, "charge")
		if err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "charge", func(ctx context.Context) (bool, error) {
			return pattern.AddKey(ctx, "charge")
		}); err != nil {
			return "", err
		}
		after, err := pattern.HasKey(ctx, "charge")
		return fmt.Sprint(before, after), err
	})
	printResult(w, 0)
	// Output: false true
}
