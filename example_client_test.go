package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store/memory"
)

// A client starts and reads runs, also if no engine runs. The runs go on when an engine runs.
// With store/sqlite the two are two processes on one file.
func ExampleClient() {
	db := memory.New()
	ctx := context.Background()
	client, err := perdure.NewClient(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	run, err := client.Start(ctx, "greet", []byte(`"Ada"`), perdure.ID("g-1"))
	if err != nil {
		log.Fatal(err)
	}
	d, err := client.Describe(ctx, "g-1")
	fmt.Println(d.Head.Status, err)

	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, err := perdure.New(db, perdure.Options{})
	if err == nil {
		err = engine.Register(greet)
	}
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- engine.Run(running) }()
	defer func() { stop(); <-done }()

	out, err := run.Result(ctx)
	fmt.Printf("%s %v\n", out, err)
	// Output:
	// PENDING <nil>
	// "Hello, Ada" <nil>
}

// Count counts runs by status, without a list of them.
func ExampleClient_Count() {
	ctx := context.Background()
	client, err := perdure.NewClient(ctx, memory.New())
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"g-1", "g-2"} {
		if _, err := client.Start(ctx, "greet", []byte(`"Ada"`), perdure.ID(id)); err != nil {
			log.Fatal(err)
		}
	}
	runs, more, err := client.Count(ctx, perdure.Query{Workflow: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runs, len(more))
	// Output: map[PENDING:2] 0
}

// StartAll and SendAll start and signal many runs by name, in one call each.
func ExampleClient_StartAll() {
	ctx := context.Background()
	client, err := perdure.NewClient(ctx, memory.New())
	if err != nil {
		log.Fatal(err)
	}
	names := []string{"g-1", "g-2"}
	runs, errs := client.StartAll(ctx, "greet", [][]byte{[]byte(`"Ada"`), []byte(`"Bob"`)},
		func(i int) []perdure.StartOption { return []perdure.StartOption{perdure.ID(names[i])} })
	fmt.Println(runs[0].ID(), runs[1].ID(), errors.Join(errs...))

	sent, errs := client.SendAll(ctx, "go", [][]byte{[]byte("1"), []byte("2")},
		func(i int) (string, []perdure.SendOption) { return names[i], nil })
	fmt.Println(sent[0].NotDelivered, sent[1].NotDelivered, errors.Join(errs...))
	// Output:
	// g-1 g-2 <nil>
	// false false <nil>
}

// Execute waits for the end of a run that it starts by name. A graph may require that: its mode
// is SYNC unless it declares another mode.
func ExampleClient_Execute() {
	g := dag.New[string]("greet").Mode(pattern.ModeSync)
	g.Output(dag.Add(g, "write", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	}))
	engine, stop := newEngine(g)
	defer stop()
	ctx := context.Background()
	r, err := engine.Execute(ctx, "greet", []byte(`"Ada"`))
	fmt.Println(r.Status, err)
	_, err = engine.Start(ctx, "greet", []byte(`"Bob"`))
	fmt.Println(err)

	run, err := engine.Start(ctx, "greet", []byte(`"Cyd"`), pattern.ModeSync)
	if err != nil {
		log.Fatal(err)
	}
	r, err = run.Final(ctx)
	fmt.Println(r.Status, err)
	// Output:
	// COMPLETED <nil>
	// perdure: start greet: its mode is SYNC: who starts it waits for its end (use Execute, or declare another mode)
	// COMPLETED <nil>
}

// The same ID means the same run, while the run is open and for a day afterwards, unless Dedup
// sets another time.
func ExampleWorkflow_Start() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	for _, name := range []string{"Ada", "Bob"} {
		run, err := greet.Start(ctx, engine, name, perdure.ID("g-1"))
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Println(run.ID(), "new:", run.New(), out, err)
	}
	// Output:
	// g-1 new: true Hello, Ada <nil>
	// g-1 new: false Hello, Ada <nil>
}

// Many starts of one call share commits. Each has its own ID and its own error.
func ExampleWorkflow_StartAll() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	names := []string{"Ada", "Bob", "no one"}
	runs, errs := greet.StartAll(ctx, engine, names, func(i int) []perdure.StartOption {
		return []perdure.StartOption{perdure.ID("greet/" + names[i])}
	})
	for i, run := range runs {
		if errs[i] != nil {
			fmt.Println(names[i], "is refused:", journal.CodeOf(errs[i]))
			continue
		}
		out, err := run.Result(ctx)
		fmt.Println(run.ID(), out, err)
	}
	// Output:
	// greet/Ada Hello, Ada <nil>
	// greet/Bob Hello, Bob <nil>
	// no one is refused: invalid
}

// A start with a Dedup of 0 never returns a run that has ended already.
func ExampleDedup() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	fmt.Println(startRun(engine, greet, "Ada", perdure.ID("g-1")).Result(ctx))
	fmt.Println(startRun(engine, greet, "Bob", perdure.ID("g-1")).Result(ctx))
	fmt.Println(startRun(engine, greet, "Cyd", perdure.ID("g-1"), perdure.Dedup(0)).Result(ctx))
	// Output:
	// Hello, Ada <nil>
	// Hello, Ada <nil>
	// Hello, Cyd <nil>
}

// A run has a workflow ID, which the application sets, and a run ID. The workflow ID identifies
// the subject of the run, over all runs about that subject.
func ExampleRun() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	first := startRun(engine, greet, "Ada", perdure.ID("g-1"))
	fmt.Println(first.Result(ctx))
	second := startRun(engine, greet, "Bob", perdure.ID("g-1"), perdure.Dedup(0))
	fmt.Println(second.Result(ctx))
	fmt.Println(second.New(), second.ID() == first.ID(), second.RunID() == first.RunID())
	// Output:
	// Hello, Ada <nil>
	// Hello, Bob <nil>
	// true true false
}

// A run is found again by its ID.
func ExampleWorkflow_Get() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	started := startRun(engine, greet, "Ada", perdure.ID("g-1"))
	run, err := greet.Get(ctx, engine, "g-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(greet.Name(), run.ID(), run.RunID() == started.RunID())
	fmt.Println(run.Result(ctx))
	// Output:
	// greet g-1 true
	// Hello, Ada <nil>
}

// Without the types of its workflow, a run returns JSON.
func ExampleClient_Get() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	startRun(engine, greet, "Ada", perdure.ID("g-1"))
	run, err := engine.Get(ctx, "g-1")
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(ctx)
	fmt.Printf("%s %v\n", out, err)
	// Output: "Hello, Ada" <nil>
}

// Signals may be sent by name, with JSON.
func ExampleClient_Send() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0, perdure.ID("ord-1"))
	_, err := engine.Send(ctx, "ord-1", "paid", []byte(`{"Cents": 4200}`))
	fmt.Println(err)
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// 4200 <nil>
}

// List returns runs page by page.
func ExampleClient_List() {
	square := perdure.Define("square", func(_ context.Context, n int) (int, error) {
		return n * n, nil
	})
	engine, stop := newEngine(square)
	defer stop()
	ctx := context.Background()
	for n := range 5 {
		if _, err := startRun(engine, square, n, perdure.ID(fmt.Sprint("run-", n))).
			Result(ctx); err != nil {
			log.Fatal(err)
		}
	}
	q := perdure.Query{Workflow: "square", Statuses: []journal.Status{journal.Completed}, Limit: 2}
	for page := 1; page == 1 || !q.After.IsZero(); page++ {
		heads, next, err := engine.List(ctx, q)
		if err != nil {
			log.Fatal(err)
		}
		for _, h := range heads {
			fmt.Println("page", page, h.WorkflowID)
		}
		q.After = next
	}
	// Output:
	// page 1 run-4
	// page 1 run-3
	// page 2 run-2
	// page 2 run-1
	// page 3 run-0
}

// Statuses returns the statuses of many runs at once.
func ExampleClient_Statuses() {
	half := perdure.Define("half", func(_ context.Context, n int) (int, error) {
		if n%2 != 0 {
			return 0, fmt.Errorf("%d is odd", n)
		}
		return n / 2, nil
	})
	engine, stop := newEngine(half)
	defer stop()
	ctx := context.Background()
	for n := range 2 {
		startRun(engine, half, n+4, perdure.ID(fmt.Sprint("half-", n+4))).Result(ctx)
	}
	all, err := engine.Statuses(ctx, "half-4", "half-5", "half-6")
	for _, s := range all {
		fmt.Printf("found %v, ended %v, well %v, output %s, error %v\n", s.Found, s.IsTerminal(),
			s.IsSuccess(), s.Output, s.Err)
	}
	fmt.Println(err)
	// Output:
	// found true, ended true, well true, output 2, error <nil>
	// found true, ended true, well false, output , error 5 is odd
	// found false, ended false, well false, output , error <nil>
	// <nil>
}

// Describe returns the state of a run.
func ExampleClient_Describe() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	startRun(engine, order, 0, perdure.ID("ord-1"))
	untilStatus(engine.Client, "ord-1", journal.Waiting)
	if _, err := Note.Send(ctx, engine, "ord-1", "a gift"); err != nil {
		log.Fatal(err)
	}
	d, err := engine.Describe(ctx, "ord-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Head.Workflow, d.Head.Status, d.Why)
	for _, w := range d.State.Waits {
		fmt.Println("it waits for", w.Kind, w.Path)
	}
	for _, m := range d.Unread {
		fmt.Printf("it has not read %s: %s\n", m.Name, m.Data)
	}
	// Output:
	// order WAITING it waits for signal paid
	// it waits for signal paid
	// it has not read note: "a gift"
}

// History returns the journal of a run.
func ExampleClient_History() {
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		})
	})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, greet, "Ada")
	if _, err := run.Result(ctx); err != nil {
		log.Fatal(err)
	}
	entries, err := engine.History(ctx, run.ID(), 0, 0)
	for _, e := range entries {
		fmt.Printf("%d %v %s\n", e.Seq, e.Kind, e.Data)
	}
	fmt.Println(err)
	// Output:
	// 1 RunStarted "Ada"
	// 2 StepCompleted "Hello, Ada"
	// 3 RunCompleted "Hello, Ada"
	// <nil>
}

// Cancel ends a run from outside.
func ExampleClient_Cancel() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0, perdure.ID("ord-1"))
	fmt.Println(engine.Cancel(ctx, "ord-1", "the customer called"))
	_, err := run.Result(ctx)
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}))
	// Output:
	// <nil>
	// true
}

// A signal to an ID that no open run has is kept, for a run that will have the ID, or for an
// operator who delivers it to another run.
func ExampleClient_Deliver() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0, perdure.ID("ord-1"))
	sent, err := Paid.Send(ctx, engine, "odr-1", Payment{Cents: 4200}) // a typing error
	fmt.Println("unrouted:", sent.Unrouted, err)
	lost, err := engine.Unrouted(ctx, 0, 0)
	for _, m := range lost {
		fmt.Println(m.Name, "to", m.To)
		if _, err := engine.Deliver(ctx, m.Number, "ord-1"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(err)
	fmt.Println(run.Result(ctx))
	// Output:
	// unrouted: true <nil>
	// paid to odr-1
	// <nil>
	// 4200 <nil>
}

// A run that failed is retried from the failed step. Earlier steps are not done again.
func ExampleClient_Retry() {
	var bankIsOpen atomic.Bool
	order := perdure.Define("order", func(ctx context.Context, item string) (string, error) {
		hold, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) {
			fmt.Println("reserving a", item)
			return "hold-1", nil
		})
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
			if !bankIsOpen.Load() {
				return "", errors.New("the bank is closed")
			}
			return "charged, with " + hold, nil
		}, perdure.NoRetry)
	})

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

	run, err := order.Start(ctx, engine, "teapot", perdure.ID("ord-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	bankIsOpen.Store(true)
	again, err := engine.Retry(ctx, "ord-1")
	if err != nil {
		log.Fatal(err)
	}
	out, err := again.Result(ctx)
	fmt.Println(string(out), err)
	// Output:
	// reserving a teapot
	//  step charge: the bank is closed
	// "charged, with hold-1" <nil>
}

// A client and the engines of a store have the same options: here the IDs of runs.
func ExampleOptions_NewClient() {
	orders := 0
	options := perdure.Options{NewID: func() string {
		orders++
		return fmt.Sprint("order-", orders)
	}}
	client, err := options.NewClient(context.Background(), memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := client.Start(context.Background(), "greet", []byte(`"Ada"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.ID())
	// Output: order-1
}
