package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// The list has the changes in the code that open runs need. Code that no run needs can go.
func ExampleClient_Versions() {
	order := perdure.Define("order", func(ctx context.Context, _ string) (int, error) {
		v, err := perdure.Version(ctx, "carriers", 2)
		if err == nil {
			_, err = Paid.Wait(ctx)
		}
		return v, err
	})
	engine, stop := newEngine(order)
	defer stop()
	startRun(engine, order, "", perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Waiting)
	versions, err := admin.New(engine).Versions(context.Background(), "order")
	fmt.Println("all builds may go:", !slices.ContainsFunc(versions.Builds,
		func(b admin.Build) bool { return !b.MayGo }))
	show := func(m admin.Marker) {
		fmt.Println(m.Change, m.Version, "may go:", m.MayGo, m.Why)
	}
	for _, m := range versions.Markers {
		show(m)
	}
	fmt.Println(err)
	// Output:
	// all builds may go: false
	// carriers 0 may go: true no open run has it
	// carriers 2 may go: false it is in 1 open run
	// <nil>
}

// A run that waits for something is not stale, however long it waits.
func ExampleClient_Stale() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	startRun(engine, order, 0, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Waiting)
	stale, err := admin.New(engine).Stale(ctx, 1)
	for _, s := range stale {
		fmt.Println(s.Head.WorkflowID, "has stood still since", s.Last, s.Why)
	}
	fmt.Println(len(stale), err)
	// Output: 0 <nil>
}

// A tool that looks often reads only the newest runs.
func ExampleClient_FirstStale() {
	engine, stop := newEngine()
	defer stop()
	stale, more, err := admin.New(engine).FirstStale(context.Background(), 0)
	fmt.Println(len(stale), more, err)
	// Output: 0 false <nil>
}

// A workflow with DeadLetters writes a dead letter when a run of it fails. An operator lists the
// dead letters, and retries or deletes them.
func ExampleClient_DeadLetters() {
	var bankIsOpen atomic.Bool
	order := perdure.Define("order", func(ctx context.Context, cents int) (string, error) {
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			if !bankIsOpen.Load() {
				return "", errors.New("the bank is closed")
			}
			return "charged", nil
		}, perdure.NoRetry)
	}, deadletter.Automatic(true))

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(order)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	for _, id := range []perdure.ID{"ord-1", "ord-2"} {
		run, err := order.Start(ctx, engine, 4200, id)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = run.Result(ctx)
	}
	n, _, err := admin.New(engine).CountDeadLetters(ctx, admin.DeadLetterQuery{Workflow: "order"})
	fmt.Println(n, "letters", err)
	letters, _, err := admin.New(engine).DeadLetters(ctx, admin.DeadLetterQuery{})
	for _, l := range letters {
		fmt.Printf("%s: %s: %s, input %s\n", l.WorkflowID, l.Step, l.Error, l.Input)
	}
	if err != nil {
		log.Fatal(err)
	}

	bankIsOpen.Store(true)
	run, err := admin.New(engine).RetryDeadLetter(ctx, letters[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(ctx)
	fmt.Println(string(out), err)
	_, err = admin.New(engine).DeadLetter(ctx, letters[0].ID)
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}), admin.New(engine).
		DeleteDeadLetter(ctx, letters[1].ID, admin.Note{}))
	letters, _, err = admin.New(engine).DeadLetters(ctx, admin.DeadLetterQuery{})
	fmt.Println(len(letters), "letters", err)
	// Output:
	// 2 letters <nil>
	// ord-2: charge: the bank is closed, input 4200
	// ord-1: charge: the bank is closed, input 4200
	// "charged" <nil>
	// true <nil>
	// 0 letters <nil>
}

// Another system adds a dead letter about a failure that no run has. An operator deals with it, and
// marks it as handled.
func ExampleClient_AddDeadLetter() {
	engine, stop := newEngine()
	defer stop()
	ctx := context.Background()
	a := admin.New(engine)
	id, err := a.AddDeadLetter(ctx, deadletter.Letter{
		Workflow: "mail", WorkflowID: "msg-17", Step: "send", Error: "the mailbox is full",
		Input: []byte(`{"to":"ada@example.com"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	n, _, err := a.CountDeadLetters(ctx, admin.DeadLetterQuery{Workflow: "mail"})
	fmt.Println(n, "open", err)
	if err := a.MarkHandled(ctx, id, "bob: told her by telephone"); err != nil {
		log.Fatal(err)
	}
	for { // until the engine has read the mark
		handled, _, err := a.DeadLetters(ctx, admin.DeadLetterQuery{Handled: true})
		if err != nil {
			log.Fatal(err)
		}
		for _, l := range handled {
			fmt.Println(l.WorkflowID, l.Step, l.Error, "-", l.Note)
		}
		if len(handled) > 0 {
			break
		}
	}
	// Output:
	// 1 open <nil>
	// msg-17 send the mailbox is full - bob: told her by telephone
}

// A run that asks for a decision waits for an operator.
func ExampleClient_Parked() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (string, error) {
		d, err := perdure.Park(ctx, "fraud", "the card is new", "ship", "refuse")
		return d.Choice, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Suspended)
	parked, _, err := admin.New(engine).Parked(ctx, journal.Cursor{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(parked[0].Head.WorkflowID, parked[0].Why, parked[0].Decisions[0].Choices)
	if err := engine.Decide(ctx, "ord-1", "fraud", perdure.Decision{Choice: "ship"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// ord-1 the card is new [ship refuse]
	// ship <nil>
}
