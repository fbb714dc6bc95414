package perdure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// An engine stops when its context ends. It waits for steps in flight, and leaves every run to
// the next engine on the store.
func ExampleEngine_Run() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		return p.Cents, err
	})
	db := memory.New()
	runEngine := func(use func(context.Context, *perdure.Engine)) {
		engine, err := perdure.New(db, perdure.Options{Drain: time.Minute})
		if err == nil {
			err = engine.Register(order)
		}
		if err != nil {
			log.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- engine.Run(ctx) }()
		use(ctx, engine)
		stop()
		fmt.Println("stopped:", <-done)
	}
	runEngine(func(ctx context.Context, engine *perdure.Engine) {
		run, err := order.Start(ctx, engine, 0, perdure.ID("ord-1"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("started", run.ID())
	})
	runEngine(func(ctx context.Context, engine *perdure.Engine) {
		if _, err := Paid.Send(ctx, engine, "ord-1", Payment{Cents: 4200}); err != nil {
			log.Fatal(err)
		}
		run, err := order.Get(ctx, engine, "ord-1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.Result(ctx))
	})
	// Output:
	// started ord-1
	// stopped: <nil>
	// 4200 <nil>
	// stopped: <nil>
}

// A definition may describe itself, for people and tools.
func ExampleAbout() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	},
		perdure.About{
			Version:     "2.1",
			Description: "Greets somebody by name.",
			Input:       json.RawMessage(`{"type": "string"}`),
			Graph: &definition.Graph{
				Nodes: []definition.Node{{Name: "write"}, {Name: "sign", After: []string{"write"}}},
			},
		},
		perdure.Timeout(time.Hour))
	engine, stop := newEngine(greet)
	defer stop()
	for _, w := range engine.Workflows() {
		fmt.Println(w.Name, w.Outline.Version, w.Outline.Description, w.Timeout,
			len(w.Outline.Graph.Nodes), "nodes")
	}
	// Output: greet 2.1 Greets somebody by name. 1h0m0s 2 nodes
}

// Register returns the errors of a definition.
func ExampleEngine_Register() {
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		log.Fatal(err)
	}
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	fmt.Println(engine.Register(greet))
	fmt.Println(engine.Register(greet))
	// Output:
	// <nil>
	// perdure: register greet: a workflow of this name is registered already (names are what running workflows are found by: give this one a name of its own)
}

// A listener is called for runs that have ended, also for runs that ended just before the process
// died.
func ExampleListener() {
	told := make(chan string)
	tell := func(_ context.Context, e perdure.Ended) error {
		told <- fmt.Sprint(e.WorkflowID, " ", e.Status, " ", e.Err)
		return nil
	}
	half := perdure.Define("half", func(_ context.Context, n int) (int, error) {
		if n%2 != 0 {
			return 0, fmt.Errorf("%d is odd", n)
		}
		return n / 2, nil
	}, perdure.Listener{Statuses: []journal.Status{journal.Completed, journal.Failed}, Call: tell})
	engine, stop := newEngine(half)
	defer stop()
	for n := range 2 {
		startRun(engine, half, n+4, perdure.ID(fmt.Sprint("half-", n+4)))
		fmt.Println(<-told)
	}
	// Output:
	// half-4 COMPLETED <nil>
	// half-5 FAILED 5 is odd
}

// There are listeners for each kind of end.
func ExampleListener_statuses() {
	told := make(chan string)
	tell := func(what string) func(context.Context, perdure.Ended) error {
		return func(_ context.Context, e perdure.Ended) error {
			told <- what + " " + e.WorkflowID
			return nil
		}
	}
	wait := perdure.Define("wait", func(ctx context.Context, what string) (int, error) {
		switch what {
		case "failure":
			return 0, errors.New("as asked")
		case "timeout":
			return 0, perdure.Sleep(ctx, time.Hour)
		case "cancellation":
			return 0, perdure.Cancel(ctx, "as asked")
		}
		return 1, nil
	}, perdure.Timeout(100*time.Millisecond),
		perdure.Listener{
			Statuses: []journal.Status{journal.Completed, journal.Confirmed},
			Call:     tell("praise"),
		}, perdure.Listener{
			Statuses: []journal.Status{journal.Failed, journal.Compensated},
			Call:     tell("repair"),
		},
		perdure.Listener{
			Statuses: []journal.Status{journal.Cancelled, journal.Canceled},
			Call:     tell("forget"),
		}, perdure.Listener{Statuses: []journal.Status{journal.TimedOut}, Call: tell("hurry")})
	engine, stop := newEngine(wait)
	defer stop()
	for _, end := range []string{"success", "failure", "timeout", "cancellation"} {
		startRun(engine, wait, end, perdure.ID(end))
		fmt.Println(<-told)
	}
	// Output:
	// praise success
	// repair failure
	// hurry timeout
	// forget cancellation
}

// A listener may come and go while the engine runs.
func ExampleEngine_Listen() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	})
	engine, stop := newEngine(greet)
	defer stop()
	told := make(chan string)
	deaf, err := engine.Listen(
		perdure.Listener{Workflow: "greet", Call: func(_ context.Context, e perdure.Ended) error {
			told <- string(e.Output)
			return nil
		}})
	if err != nil {
		log.Fatal(err)
	}
	startRun(engine, greet, "Ada")
	fmt.Println(<-told)
	deaf()
	// Output: "Hello, Ada"
}

// Events of a step are published when the step's result is durable.
func ExampleEmit() {
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return "paid", perdure.Emit(ctx, "order.paid", o)
		})
	})
	events := make(chan perdure.Event)
	engine, stop := newEngineOn(memory.New(),
		perdure.Options{Publisher: func(_ context.Context, e perdure.Event) error {
			events <- e // to a queue, or a webhook; after an error it is called again
			return nil
		}}, order)
	defer stop()
	startRun(engine, order, Order{ID: "ord-1", Cents: 4200}, perdure.ID("ord-1"))
	e := <-events
	fmt.Printf("%s of %s by %s: %s\n", e.Type, e.WorkflowID, e.Step, e.Data)
	// Output: order.paid of ord-1 by charge: {"ID":"ord-1","Cents":4200}
}

// Observers receive notices of everything that happens, for logs and metrics.
func ExampleOptions_observers() {
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Observers: []observe.Observer{{
		Kinds: []observe.Kind{observe.RunStarted, observe.StepSucceeded, observe.RunEnded},
		See:   func(n observe.Notice) { fmt.Printf("%s: %q %q\n", n.Kind, n.Step, n.Status) },
	}}}, greet)
	defer stop()
	fmt.Println(startRun(engine, greet, "Ada", perdure.ID("g-1")).Result(context.Background()))
	// Output:
	// run started: "" "RUNNING"
	// step succeeded: "write" ""
	// run ended: "" "COMPLETED"
	// Hello, Ada <nil>
}

// Interceptor is called around every attempt of every step: for traces, limits, or
// faults in a test.
func ExampleOptions_around() {
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		},
			perdure.Retry{First: time.Millisecond})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{
		Interceptor: func(ctx context.Context, step perdure.StepInfo,
			body func(context.Context) error) error {
			if step.Attempt == 1 {
				return errors.New("a fault for a test")
			}
			err := body(ctx)
			fmt.Println(step.Run.WorkflowID, step.Step, "attempt", step.Attempt, err)
			return err
		},
	}, greet)
	defer stop()
	fmt.Println(startRun(engine, greet, "Ada", perdure.ID("g-1")).Result(context.Background()))
	// Output:
	// g-1 write attempt 2 <nil>
	// Hello, Ada <nil>
}

// Load is for metrics, such as those of package telemetry.
func ExampleEngine_Load() {
	nod := perdure.NewSignal[string]("nod")
	greet := perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		by, err := nod.Wait(ctx)
		return "Hello, " + name + " and " + by, err
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{IdleTimeout: time.Hour}, greet)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, greet, "Ada")
	fmt.Println(engine.Load().Runs)
	if _, err := nod.Send(ctx, engine, run.ID(), "Bob"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// map[WORKFLOW:1]
	// Hello, Ada and Bob <nil>
}

// Runs that have ended are kept for a time, and then removed.
func ExampleRetention() {
	greet := perdure.Define("greet", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name, nil
	},
		// failed runs for ever
		perdure.Retention{
			Period:   1,
			ByStatus: map[journal.Status]time.Duration{journal.Failed: -1},
		})
	engine, stop := newEngine(greet)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, greet, "Ada", perdure.Dedup(0))
	if _, err := run.Result(ctx); err != nil {
		log.Fatal(err)
	}
	runs, signals, err := engine.Purge(ctx)
	fmt.Println(runs, "run removed,", signals, "signals,", err)
	_, err = engine.Get(ctx, run.ID())
	fmt.Println(journal.CodeOf(err))
	// Output:
	// 1 run removed, 0 signals, <nil>
	// not_found
}

// The examples share these helpers, so that each shows only its subject. Example shows how a
// program does all of this by itself.

// newEngine returns an engine that runs on an empty store with these workflows, and a function
// that stops it.
func newEngine(workflows ...perdure.Definition) (e *perdure.Engine, stop func()) {
	return newEngineOn(memory.New(), perdure.Options{}, workflows...)
}

// newEngineOn is newEngine with options, on an existing store.
func newEngineOn(s store.Store, o perdure.Options,
	workflows ...perdure.Definition) (e *perdure.Engine, stop func()) {
	e, err := perdure.New(s, o)
	if err == nil {
		err = e.Register(workflows...)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
}

// startRun starts a run of a workflow and does not wait for it.
func startRun[I, O any](e *perdure.Engine, w *perdure.Workflow[I, O], in I,
	opts ...perdure.StartOption) *perdure.Run[O] {
	run, err := w.Start(context.Background(), e, in, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return run
}

// printResult runs a workflow on an engine of its own, and prints its output or its error.
func printResult[I, O any](w *perdure.Workflow[I, O], in I) {
	e, stop := newEngine(w)
	defer stop()
	out, err := startRun(e, w, in).Result(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(out)
}

// untilStatus returns when a run has a status.
func untilStatus(c *perdure.Client, id string, status journal.Status) perdure.Description {
	for {
		d, err := c.Describe(context.Background(), id)
		if err != nil {
			log.Fatal(err)
		}
		if d.Head.Status == status {
			return d
		}
		<-time.After(time.Millisecond)
	}
}
