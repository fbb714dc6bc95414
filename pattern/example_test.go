package pattern_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/store/memory"
)

// A pattern of the application declares its steps and reports defects: an engine refuses errors,
// and passes the other issues to observers.
func ExampleDeclared() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil },
		pattern.Saga,
		pattern.Declared(func() (definition.Outline, []definition.Issue) {
			return definition.Outline{
					Graph: &definition.Graph{
						Nodes: []definition.Node{
							{Name: "reserve"},
							{Name: "charge", After: []string{"reserve"}},
						},
					},
				}, []definition.Issue{
					{
						Severity: definition.SeverityWarning, Where: "charge",
						Message: "it has no compensation",
					},
					{
						Severity: definition.SeverityInfo, Where: "ship.retry",
						Message: "it has the default",
					},
				}
		}))
	see := observe.Observer{
		Kinds: []observe.Kind{observe.DefinitionAdvised},
		See:   func(n observe.Notice) { fmt.Println(n.Workflow, n.Reason) },
	}
	for _, strict := range []bool{false, true} {
		engine, err := perdure.New(memory.New(), perdure.Options{
			Observers:     []observe.Observer{see},
			FailOnWarning: strict,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(engine.Register(def))
		for _, w := range engine.Workflows() {
			fmt.Println(w.Name, w.Pattern, len(w.Outline.Graph.Nodes), "steps")
		}
	}
	// Output:
	// order WARNING: charge: it has no compensation
	// order INFO: ship.retry: it has the default
	// <nil>
	// order SAGA 2 steps
	// perdure: the definition of order has issues:
	// 	WARNING: charge: it has no compensation
	// 	INFO: ship.retry: it has the default
}

// The pattern of a definition is an option of it.
func ExampleKind() {
	for _, p := range []pattern.Kind{pattern.Workflow, pattern.Saga, pattern.TCC} {
		def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
			return 0, nil
		}, p)
		engine, err := perdure.New(memory.New(), perdure.Options{})
		if err == nil {
			err = engine.Register(def)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(engine.Workflows()[0].Pattern)
	}
	// Output:
	// WORKFLOW
	// SAGA
	// TCC
}

func ExampleKind_String() {
	fmt.Println(pattern.TCC.String())
	// Output: TCC
}

// A condition in Go decides by values of the run: here the input, and the result of a completed
// step.
func ExampleIf() {
	large := pattern.If(func(_ context.Context, k pattern.View) (bool, error) {
		order, err := pattern.Decode[Order](k.Input)
		if err != nil {
			return false, err
		}
		score, err := pattern.Decode[int](k.Results["score"])
		return order.Cents > 100_000 && score < 50, err
	})
	fmt.Println(large.Check())
	for _, cents := range []int{4200, 420_000} {
		input, err := pattern.Encode(Order{ID: "ord-1", Cents: cents})
		if err != nil {
			fmt.Println(err)
		}
		holds, err := large.Holds(context.Background(), pattern.View{
			Input: input, Results: map[string]json.RawMessage{"score": json.RawMessage("30")},
		})
		fmt.Println(cents, holds, err)
	}
	// Output:
	// <nil>
	// 4200 false <nil>
	// 420000 true <nil>
}

// A condition that is not valid is reported when its definition is registered.
func ExampleIf_Check() {
	fmt.Println(pattern.If(nil).Check())
	// Output: perdure: condition: a condition needs a function
}

// Holds decides for one step of one run.
func ExampleIf_Holds() {
	abroad := pattern.If(func(_ context.Context, k pattern.View) (bool, error) {
		variables, err := k.Variables("country")
		if err != nil {
			return false, err
		}
		country, err := pattern.Decode[string](variables["country"])
		return country != "IT", err
	})
	fmt.Println(abroad.Holds(context.Background(),
		pattern.View{Variables: func(...string) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"country": json.RawMessage(`"FR"`)}, nil
		}}))
	// Output: true <nil>
}

// Shipping has the values that a step which ships needs.
type Shipping struct {
	Order   Order  `perdure:"input"`
	Receipt string `perdure:"step=charge,required"`
	Rank    int    `perdure:"variable=rank"`
	Tenant  string `perdure:"header=X-Tenant"`
	ID      string `perdure:"id"`
}

// The tags of an argument are read once. Each time that the step runs, the argument is filled with
// values of the run.
func ExampleNewArguments() {
	args := pattern.NewArguments[Shipping]()
	charged := func(step string) (json.RawMessage, bool) {
		return json.RawMessage(`"paid"`), step == "charge"
	}
	w := perdure.Define("w", func(ctx context.Context, in Order) (string, error) {
		if err := perdure.SetVariable(ctx, "rank", 3); err != nil {
			return "", err
		}
		input, err := pattern.Encode(in)
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			s, err := args.Fill(ctx, pattern.Sources{Input: input, Result: charged})
			return fmt.Sprint(s.Order.Cents, " ", s.Receipt, " ", s.Rank, " ", s.Tenant, " ", s.ID),
				err
		})
	})
	engine, stop := newEngine(w)
	defer stop()
	run := startRun(engine, w, Order{ID: "ord-1", Cents: 4200}, perdure.ID("ord-1"),
		perdure.Headers{"X-Tenant": "acme"})
	fmt.Println(run.Result(context.Background()))
	// Output: 4200 paid 3 acme ord-1 <nil>
}

// Check is called when a definition is registered. It knows the steps and their types.
func ExampleArguments_Check() {
	type wrong struct {
		City    string `perdure:"input=city"`
		Receipt int    `perdure:"step=charge"`
		Hold    string `perdure:"step=reserved"`
		Tenant  string `perdure:"heder=X-Tenant"`
	}
	steps := map[string]reflect.Type{
		"charge":  reflect.TypeFor[string](),
		"reserve": reflect.TypeFor[string](),
	}
	for _, issue := range pattern.NewArguments[wrong]().Check(pattern.SourceTypes{
		Input:  reflect.TypeFor[Order](),
		Result: func(step string) (reflect.Type, bool) { t, known := steps[step]; return t, known },
	}) {
		fmt.Println(issue)
	}
	// Output:
	// ERROR: Tenant: the tag word "heder=X-Tenant" is not known
	// ERROR: City: there is no key "city" in the input, a pattern_test.Order
	// ERROR: Receipt: it is of type int, and the result of step "charge" of type string
	// ERROR: Hold: there is no step "reserved"
}

// An argument without tags is the input.
func ExampleArguments_Fill() {
	order, err := pattern.NewArguments[Order]().Fill(context.Background(),
		pattern.Sources{Input: json.RawMessage(`{"ID":"ord-1","Cents":4200}`)})
	fmt.Println(order.ID, order.Cents, err)

	_, err = pattern.NewArguments[Shipping]().Fill(context.Background(), pattern.Sources{})
	fmt.Println(err)
	// Output:
	// ord-1 4200 <nil>
	// perdure: argument Receipt: missing: the result of step "charge" (it is required)
}

// Errors of declared patterns name the failed step, also when they are read from a journal.
func ExampleStepError() {
	err := pattern.FailedStep("charge", errors.New("declined"))
	var step *pattern.StepError
	var undo *pattern.CompensationError
	fmt.Println(errors.As(err, &step), step.Step, errors.As(err, &undo))
	fmt.Println(perdure.CodeTopology, perdure.CodeWrongState, report.StepIsSkipped)
	// Output:
	// true charge false
	// topology wrong_state SKIPPED
}

// Callbacks for the success of a whole run become listeners.
func ExampleCallbacks_Listeners() {
	calls := pattern.Callbacks{
		{Complete: func(_ context.Context, r report.Run) error { return nil }},
	}
	fmt.Println(len(calls.Listeners()), len(calls.Check(func(string) bool { return true })))
	// Output: 1 0
}

// A clean-up reads the status with which the run will end.
func ExampleEndingAs() {
	order := perdure.Define("order", func(ctx context.Context, _ Order) (string, error) {
		err := perdure.Finally(ctx, "tell", func(ctx context.Context) error {
			status, err := pattern.EndingAs(ctx)
			fmt.Println("it ends", status)
			return err
		})
		if err != nil {
			return "", err
		}
		return "", errors.New("no stock")
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{}, order)
	defer stop()
	run, err := order.Start(context.Background(), engine, Order{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Result(context.Background())
	fmt.Println(err)
	// Output:
	// it ends FAILED
	// no stock
}

// Outside the body of a task there are no sources.
func ExampleSourcesOf() {
	_, inTask := pattern.SourcesOf(context.Background())
	fmt.Println(inTask)
	// Output: false
}

// Encode and Decode use the format of journals: JSON, and bytes as they are.
func ExampleEncode() {
	data, err := pattern.Encode(Order{ID: "ord-1", Cents: 4200})
	fmt.Printf("%s %v\n", data, err)
	data, err = pattern.Encode([]byte("bytes"))
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// {"ID":"ord-1","Cents":4200} <nil>
	// bytes <nil>
}

func ExampleDecode() {
	order, err := pattern.Decode[Order]([]byte(`{"ID":"ord-1"}`))
	fmt.Println(order.ID, err)
	_, err = pattern.Decode[int]([]byte(`"seven"`))
	fmt.Println(err != nil)
	// Output:
	// ord-1 <nil>
	// true
}

// A function without a result is a step of any pattern:
// dag.Add(order, "mail", pattern.NoResult(mail)).
func ExampleNoResult() {
	mail := pattern.NoResult(func(_ context.Context, to string) error {
		fmt.Println("mail to", to)
		return nil
	})
	_, err := mail(context.Background(), "ada")
	fmt.Println(err)
	// Output:
	// mail to ada
	// <nil>
}
