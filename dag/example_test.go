package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store/memory"
)

// An Order is the input of the graphs in the examples.
type Order struct {
	ID    string
	Cents int
	Gift  bool
}

// with runs an engine that knows some definitions, while use runs.
func with(use func(context.Context, *perdure.Engine), definitions ...perdure.Definition) {
	ctx, stop := context.WithCancel(context.Background())
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(definitions...)
	}
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	use(ctx, engine)
	stop()
	<-done
}

// says prints the statuses of the steps of a run.
func says(r dag.Result, err error) {
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status)
	for _, s := range r.Steps {
		fmt.Println(strings.TrimSpace(fmt.Sprintln("-", s.ID, s.Status, string(s.Result))))
	}
}

func check(_ context.Context, o Order) (string, error) { return "checked " + o.ID, nil }

// A graph declares its steps and their order. A step's function takes the input of the graph, or a
// struct whose tags name the sources of its fields.
func Example() {
	type parcel struct {
		Order   Order  `perdure:"input"`
		Receipt string `perdure:"step=charge,required"`
	}
	fulfil := dag.New[Order]("fulfil", perdure.Retry{Attempts: 5})
	checked := dag.Add(fulfil, "check", check)
	charged := dag.Add(fulfil, "charge", func(_ context.Context, o Order) (string, error) {
		return fmt.Sprintf("%d cents", o.Cents), nil
	}).After(checked)
	wrapped := dag.Add(fulfil, "wrap", func(context.Context, Order) (string, error) {
		return "ribbon", nil
	}).
		After(checked).
		When(pattern.If(func(_ context.Context, k pattern.View) (bool, error) {
			o, err := pattern.Decode[Order](k.Input)
			return o.Gift, err
		}))
	shipped := dag.Add(fulfil, "ship", func(ctx context.Context, in parcel) (string, error) {
		_, isGift, err := wrapped.Output(ctx)
		return fmt.Sprintf("%s for %s, a gift: %v", in.Order.ID, in.Receipt, isGift), err
	}).After(charged, wrapped)
	fulfil.Output(shipped)

	fmt.Println(fulfil.Layers())
	with(func(ctx context.Context, engine *perdure.Engine) {
		says(fulfil.Execute(ctx, engine, Order{ID: "o-1", Cents: 42}))
	}, fulfil)
	// Output:
	// [[check] [charge wrap] [ship]]
	// COMPLETED
	// - check DONE "checked o-1"
	// - charge DONE "42 cents"
	// - wrap SKIPPED
	// - ship DONE "o-1 for 42 cents, a gift: false"
}

// When a step has failed, the steps that are done are undone, the step that ended last first.
func ExampleStep_Undo() {
	book := dag.New[Order]("book")
	debit := dag.Add(book, "debit", func(_ context.Context, o Order) (int, error) {
		return o.Cents, nil
	}).
		Undo(func(_ context.Context, o Order, cents int) error {
			fmt.Println("give back", cents, "for", o.ID)
			return nil
		})
	reserve := dag.Add(book, "reserve", func(context.Context, Order) (string, error) {
		return "shelf 7", nil
	}).After(debit)
	dag.UndoWith(reserve, func(_ context.Context, in struct {
		Shelf string `perdure:"step=result"`
	}) (int, error) {
		fmt.Println("clear", in.Shelf)
		return 0, nil
	})
	dag.Add(book, "ship", func(context.Context, Order) (int, error) {
		return 0, errors.New("no courier")
	}).
		After(reserve).Retry(perdure.NoRetry)
	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := book.Execute(ctx, engine, Order{ID: "o-1", Cents: 42})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Status, r.Err)
	}, book)
	// Output:
	// clear shelf 7
	// give back 42 for o-1
	// FAILED step ship failed: no courier
}

// A step may wait at gates before it begins. The payload of a signal becomes a variable.
func ExampleStep_WaitSignal() {
	release := dag.New[string]("release").Mode(dag.Async)
	approve := dag.Add(release, "deploy", func(_ context.Context, in struct {
		By string `perdure:"variable=signal.approved"`
	}) (string, error) {
		return "deployed, approved by " + in.By, nil
	}).
		WaitSignal("approved", 24*time.Hour).
		WaitTimer("cool-off", time.Millisecond).
		WaitAny(time.Hour, dag.Signal("now"), dag.Timer("soon", time.Millisecond))
	release.Output(approve)
	with(func(ctx context.Context, engine *perdure.Engine) {
		run, err := release.Start(ctx, engine, "v2", perdure.ID("release-2"))
		if err == nil {
			_, err = perdure.NewSignal[string]("approved").Send(ctx, engine, "release-2", "ann")
		}
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Println(string(out), err)
	}, release)
	// Output:
	// "deployed, approved by ann" <nil>
}

// A step waits for all of several gates.
func ExampleStep_WaitAll() {
	g := dag.New[string]("both").Mode(dag.Both)
	dag.Add(g, "go", func(context.Context, string) (string, error) { return "both came", nil }).
		WaitAll(0, dag.Signal("left"), dag.Signal("right"))
	with(func(ctx context.Context, engine *perdure.Engine) {
		run, err := g.Start(ctx, engine, "")
		for _, name := range []string{"right", "left"} {
			if err == nil {
				_, err = engine.Send(ctx, run.ID(), name, nil)
			}
		}
		if err == nil {
			_, err = run.Result(ctx)
		}
		if err != nil {
			log.Fatal(err)
		}
		r, err := run.Report(ctx)
		says(dag.Result{Run: r}, err)
	}, g)
	// Output:
	// COMPLETED
	// - go DONE "both came"
}

// A step may start a run of another workflow, and wait for it or not.
func ExampleAddChild() {
	billing := perdure.Define("billing", func(_ context.Context, cents int) (string, error) {
		if cents > 1000 {
			return "", errors.New("too much")
		}
		return fmt.Sprintf("bill over %d", cents), nil
	})
	fulfil := dag.New[Order]("fulfil")
	bill := dag.AddChild(fulfil, "bill", billing, func(o Order) int { return o.Cents })
	risky := dag.AddChild(fulfil, "risky", billing, func(o Order) int { return 100 * o.Cents }).
		AnyOutcome()
	dag.AddChild(fulfil, "copy", billing, func(o Order) int { return o.Cents }).Detached()
	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := fulfil.Execute(ctx, engine, Order{Cents: 42})
		if err != nil {
			log.Fatal(err)
		}
		a, _, _ := bill.Of(r)
		b, _, _ := risky.Of(r)
		fmt.Println(r.Status, a.Status, a.Output, b.Status, b.Error)
	}, fulfil, billing)
	// Output:
	// COMPLETED COMPLETED bill over 42 FAILED too much
}

// A step may be workflow code: it waits, and has steps of its own.
func ExampleAddBranch() {
	g := dag.New[string]("hunt")
	g.Output(dag.AddBranch(g, "search", func(ctx context.Context, what string) (string, error) {
		for _, where := range []string{"attic", "cellar"} {
			found, err := perdure.Step(ctx, "look", func(context.Context) (bool, error) {
				return where == "cellar", nil
			}, perdure.Key(where))
			if err != nil || found {
				return what + " in the " + where, err
			}
			if err := perdure.Sleep(ctx, time.Millisecond); err != nil {
				return "", err
			}
		}
		return "", errors.New("not found")
	}))
	with(func(ctx context.Context, engine *perdure.Engine) {
		run, err := g.Workflow.Start(ctx, engine, "boots")
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Println(string(out), err)
	}, g)
	// Output:
	// "boots in the cellar" <nil>
}

// A graph and its steps have more options.
func ExampleGraph() {
	g := dag.New[int]("count", perdure.About{Version: "2"}, perdure.Timeout(time.Hour)).
		Concurrency(2).
		PublishEvents().
		On(pattern.Callback{Step: func(_ context.Context, step string) error {
			fmt.Println("done:", step)
			return nil
		}})
	add := dag.Add(g, "add", func(_ context.Context, n int) (int, error) { return n + 1, nil }).
		Order(1).
		Timeout(time.Minute).
		Variable("n").
		Event(pattern.StepEvent{Topic: "numbers", Type: "added"})
	dag.Add(g, "beside", func(context.Context, int) (int, error) {
		return 0, errors.New("nobody minds")
	}).Async().Retry(perdure.NoRetry)
	g.Output(add).
		Backpressure(backpressure.Limit(1)).
		Again(func(k pattern.View) (int, bool) {
			n, _ := pattern.Decode[int](k.Results[add.ID()])
			return n, n < 3
		})
	g.Query("is", func(r report.Run, args json.RawMessage) (any, error) {
		return string(r.Variables["n"]) == string(args), nil
	})
	fmt.Print(g.Graph().Mermaid())
	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := g.Execute(ctx, engine, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Status, r.Current(), strings.HasPrefix(r.TriggeredBy, "continued"))
		fmt.Println(g.Answer(r.Run, "is", json.RawMessage("3")))
	}, g)
	// Output:
	// flowchart LR
	//     n0["add"]
	//     n1["beside"]
	// done: add
	// done: add
	// COMPLETED [] true
	// true <nil>
}

// A graph may be read from a document. A registry has the values that the document names.
func ExampleRead() {
	document := `{
		"name": "fulfil", "output": "bill",
		"steps": [
			{"id": "check", "handler": "check", "undo": "uncheck"},
			{"id": "bill", "child": {"workflow": "billing", "input": "check"}, "after": ["check"], "when": "always"}
		]
	}`
	billing := perdure.Define("billing", func(_ context.Context, what string) (string, error) {
		return "bill: " + what, nil
	})
	registry := dag.Registry{
		Handlers:      map[string]dag.Func{"check": dag.Handler(check)},
		Compensations: map[string]dag.Func{"uncheck": dag.Handler(check)},
		Workflows:     map[string]dag.Child{"billing": dag.ChildOf(billing)},
		Condition: func(text string) (pattern.Condition, error) {
			return pattern.If(func(context.Context, pattern.View) (bool, error) {
				return text == "always", nil
			}), nil
		},
	}
	fulfil, err := dag.Read([]byte(document), registry)
	if err != nil {
		log.Fatal(err)
	}
	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := fulfil.Execute(ctx, engine, json.RawMessage(`{"ID": "o-1"}`))
		if err != nil {
			log.Fatal(err)
		}
		bill, _, err := report.ResultOf[dag.ChildResult[string]](r.Run, "bill")
		fmt.Println(r.Status, bill.Output, err)
	}, fulfil, billing)

	_, err = dag.Read(
		[]byte(
			`{"name": "fulfil", "steps": [{"id": "check", "handler": "chekc", "retry": {"factor": 0.5}}]}`),
		registry)
	fmt.Println(err)
	// Output:
	// COMPLETED bill: checked o-1 <nil>
	// perdure: the definition of fulfil has issues:
	// 	ERROR: steps.0.handler: there is no "chekc" here
	// 	ERROR: steps.0.retry.factor: 0.5 is not valid: at least 1
}
