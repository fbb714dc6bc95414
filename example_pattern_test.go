package perdure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"reflect"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// An order reserves and scores at once, charges when both are done, and then ships.
var orderGraph = perdure.Graph{Nodes: []perdure.Node{
	{Name: "ship", After: []string{"charge"}},
	{Name: "charge", After: []string{"reserve", "score"}},
	{Name: "reserve", Order: 2},
	{Name: "score", Order: 1},
}}

func ExampleGraph_Layers() {
	for n, layer := range orderGraph.Layers() {
		fmt.Println(n, layer)
	}
	// Output:
	// 0 [score reserve]
	// 1 [charge]
	// 2 [ship]
}

// Check tells everything at once.
func ExampleGraph_Check() {
	for _, issue := range (perdure.Graph{Nodes: []perdure.Node{
		{Name: "charge", After: []string{"ship"}},
		{Name: "reserve", After: []string{"charge", "charg"}},
		{Name: "ship", After: []string{"reserve"}},
	}}).Check() {
		fmt.Println(issue)
	}
	// Output:
	// ERROR: reserve: it follows "charg", which is not there
	// ERROR: charge: a circle: charge → reserve → ship → charge
}

func ExampleGraph_DOT() {
	fmt.Print(orderGraph.DOT("order"))
	// Output:
	// digraph "order" {
	// 	rankdir=LR
	// 	node [shape=box]
	// 	"ship"
	// 	"charge"
	// 	"reserve"
	// 	"score"
	// 	"charge" -> "ship"
	// 	"reserve" -> "charge"
	// 	"score" -> "charge"
	// }
}

func ExampleGraph_Mermaid() {
	fmt.Print(orderGraph.Mermaid())
	// Output:
	// flowchart LR
	//     n0["ship"]
	//     n1["charge"]
	//     n2["reserve"]
	//     n3["score"]
	//     n1 --> n0
	//     n2 --> n1
	//     n3 --> n1
}

// A pattern of one's own declares its steps, and tells what is odd about them: an
// engine refuses errors, and tells observers the rest.
func ExampleDeclared() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil }, perdure.PatternSaga,
		perdure.Declared(func() (perdure.About, []perdure.Issue) {
			return perdure.About{Graph: &orderGraph}, []perdure.Issue{
				{Severity: perdure.IssueWarning, Where: "charge", Message: "it has no compensation"},
				{Severity: perdure.IssueInfo, Where: "ship.retry", Message: "it has the default"},
			}
		}))
	see := observe.Observer{Kinds: []observe.Kind{observe.DefinitionAdvised}, See: func(n observe.Notice) { fmt.Println(n.Workflow, n.Reason) }}
	for _, strict := range []bool{false, true} {
		engine, err := perdure.New(memory.New(), perdure.Options{Observers: []observe.Observer{see}, FailOnWarning: strict})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(engine.Register(def))
		for _, w := range engine.Workflows() {
			fmt.Println(w.Name, w.Pattern, len(w.About.Graph.Nodes), "steps")
		}
	}
	// Output:
	// order WARNING: charge: it has no compensation
	// order INFO: ship.retry: it has the default
	// <nil>
	// order SAGA 4 steps
	// perdure: the definition of order has issues:
	// 	WARNING: charge: it has no compensation
	// 	INFO: ship.retry: it has the default
}

// A definition that contradicts itself is refused with everything that is wrong.
func ExampleDefinitionError() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil },
		perdure.About{Graph: &perdure.Graph{Nodes: []perdure.Node{{Name: "charge", After: []string{"reserve", "charge"}}}}})
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = engine.Register(def)
	var refused *perdure.DefinitionError
	if errors.As(err, &refused) {
		for _, issue := range refused.Issues {
			fmt.Println(issue.Severity == perdure.IssueError, issue.Where, issue.Message)
		}
	}
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeTopology}))
	// Output:
	// true charge it follows "reserve", which is not there
	// true charge it follows itself
	// true
}

func ExampleIssue_String() {
	fmt.Println(perdure.Issue{Severity: perdure.IssueWarning, Where: "charge.retry", Message: "41 hours between attempts"}.String())
	// Output: WARNING: charge.retry: 41 hours between attempts
}

// The pattern of a definition is an option of it.
func ExamplePattern() {
	for _, p := range []perdure.Pattern{perdure.PatternWorkflow, perdure.PatternSaga, perdure.PatternTCC} {
		def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil }, p)
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

func ExamplePattern_String() {
	fmt.Println(perdure.PatternTCC.String())
	// Output: TCC
}

// A condition in Go decides by what the run knows: here the input, and the result of a
// step that is done.
func ExampleIf() {
	large := perdure.If(func(_ context.Context, k perdure.Known) (bool, error) {
		order, err := perdure.Decode[Order](k.Input)
		if err != nil {
			return false, err
		}
		score, err := perdure.Decode[int](k.Results["score"])
		return order.Cents > 100_000 && score < 50, err
	})
	fmt.Println(large.Check())
	for _, cents := range []int{4200, 420_000} {
		input, err := perdure.Encode(Order{ID: "ord-1", Cents: cents})
		if err != nil {
			fmt.Println(err)
		}
		holds, err := large.Holds(context.Background(), perdure.Known{
			Input: input, Results: map[string]json.RawMessage{"score": json.RawMessage("30")},
		})
		fmt.Println(cents, holds, err)
	}
	// Output:
	// <nil>
	// 4200 false <nil>
	// 420000 true <nil>
}

// A condition that cannot decide is told when its definition is registered.
func ExampleIf_Check() {
	fmt.Println(perdure.If(nil).Check())
	// Output: perdure: condition: a condition needs a function
}

// Holds decides for one step of one run.
func ExampleIf_Holds() {
	abroad := perdure.If(func(_ context.Context, k perdure.Known) (bool, error) {
		variables, err := k.Variables("country")
		if err != nil {
			return false, err
		}
		country, err := perdure.Decode[string](variables["country"])
		return country != "IT", err
	})
	fmt.Println(abroad.Holds(context.Background(), perdure.Known{Variables: func(...string) (map[string]json.RawMessage, error) {
		return map[string]json.RawMessage{"country": json.RawMessage(`"FR"`)}, nil
	}}))
	// Output: true <nil>
}

// A Shipping is what a step that ships wants to know.
type Shipping struct {
	Order   Order  `perdure:"input"`
	Receipt string `perdure:"step=charge,required"`
	Rank    int    `perdure:"variable=rank"`
	Tenant  string `perdure:"header=X-Tenant"`
	ID      string `perdure:"id"`
}

// The arguments of a function are read once; each time that its step runs, they are
// filled with what the run knows.
func ExampleNewArguments() {
	args := perdure.NewArguments[Shipping]()
	charged := func(step string) (json.RawMessage, bool) { return json.RawMessage(`"paid"`), step == "charge" }
	w := perdure.Define("w", func(ctx context.Context, in Order) (string, error) {
		if err := perdure.SetVariable(ctx, "rank", 3); err != nil {
			return "", err
		}
		input, err := perdure.Encode(in)
		if err != nil {
			return "", err
		}
		return perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
			s, err := args.Fill(ctx, perdure.Given{Input: input, Result: charged})
			return fmt.Sprint(s.Order.Cents, " ", s.Receipt, " ", s.Rank, " ", s.Tenant, " ", s.ID), err
		})
	})
	engine, stop := newEngine(w)
	defer stop()
	run := startRun(engine, w, Order{ID: "ord-1", Cents: 4200}, perdure.ID("ord-1"), perdure.Headers{"X-Tenant": "acme"})
	fmt.Println(run.Result(context.Background()))
	// Output: 4200 paid 3 acme ord-1 <nil>
}

// Check is asked when a definition is registered: it knows the steps and their types.
func ExampleArguments_Check() {
	type wrong struct {
		City    string `perdure:"input=city"`
		Receipt int    `perdure:"step=charge"`
		Hold    string `perdure:"step=reserved"`
		Tenant  string `perdure:"heder=X-Tenant"`
	}
	steps := map[string]reflect.Type{"charge": reflect.TypeFor[string](), "reserve": reflect.TypeFor[string]()}
	for _, issue := range perdure.NewArguments[wrong]().Check(perdure.GivenTypes{
		Input:  reflect.TypeFor[Order](),
		Result: func(step string) (reflect.Type, bool) { t, known := steps[step]; return t, known },
	}) {
		fmt.Println(issue)
	}
	// Output:
	// ERROR: Tenant: the tag word "heder=X-Tenant" is not known
	// ERROR: City: there is no key "city" in the input, a perdure_test.Order
	// ERROR: Receipt: it is of type int, and the result of step "charge" of type string
	// ERROR: Hold: there is no step "reserved"
}

// An argument without tags is the input.
func ExampleArguments_Fill() {
	order, err := perdure.NewArguments[Order]().Fill(context.Background(), perdure.Given{Input: json.RawMessage(`{"ID":"ord-1","Cents":4200}`)})
	fmt.Println(order.ID, order.Cents, err)

	_, err = perdure.NewArguments[Shipping]().Fill(context.Background(), perdure.Given{})
	fmt.Println(err)
	// Output:
	// ord-1 4200 <nil>
	// perdure: argument Receipt: missing: the result of step "charge" (it is required)
}

// Encode and Decode are how journals keep values: JSON, and bytes as they are.
func ExampleEncode() {
	data, err := perdure.Encode(Order{ID: "ord-1", Cents: 4200})
	fmt.Printf("%s %v\n", data, err)
	data, err = perdure.Encode([]byte("bytes"))
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// {"ID":"ord-1","Cents":4200} <nil>
	// bytes <nil>
}

func ExampleDecode() {
	order, err := perdure.Decode[Order]([]byte(`{"ID":"ord-1"}`))
	fmt.Println(order.ID, err)
	_, err = perdure.Decode[int]([]byte(`"seven"`))
	fmt.Println(err != nil)
	// Output:
	// ord-1 <nil>
	// true
}

// errThrottled is what services say that cannot keep up.
var errThrottled = errors.New("too many requests")

// Of many things, at most so many go on at a time.
func ExampleAtMost() {
	flow := perdure.AtMost(3).Begin()
	for running := range 4 {
		room, err := flow.Room(running, time.Now())
		fmt.Println(running, "run, and so many more may begin:", room, err)
	}
	flow.Ended(nil, time.Now())
	fmt.Println(perdure.AtMost(-1).Validate())
	// Output:
	// 0 run, and so many more may begin: 3 <nil>
	// 1 run, and so many more may begin: 2 <nil>
	// 2 run, and so many more may begin: 1 <nil>
	// 3 run, and so many more may begin: 0 <nil>
	// perdure: at most: -1 at a time: at least 1, or 0 for no limit
}

// While all goes well more go on at a time, and where too many fail half as many.
func ExampleAdaptive() {
	flow := perdure.Adaptive{Start: 4, Every: 5}.Begin()
	tell := func(results ...error) {
		for _, err := range results {
			flow.Ended(err, time.Now())
		}
		room, _ := flow.Room(0, time.Now())
		fmt.Println("at a time:", room)
	}
	tell()
	tell(nil, nil, nil, nil, nil)
	tell(nil, errThrottled, nil, errThrottled, nil)
	// Output:
	// at a time: 4
	// at a time: 5
	// at a time: 2
}

func ExampleAdaptive_Validate() {
	fmt.Println(perdure.Adaptive{}.Validate()) // zero fields take the default
	fmt.Println(perdure.Adaptive{Min: 4, Max: 2}.Validate())
	fmt.Println(perdure.Adaptive{Halve: 10}.Validate())
	// Output:
	// <nil>
	// perdure: adaptive: Max is 2: at least Min, which is 4
	// perdure: adaptive: Halve is 10: 0 to 1
}

// The members of a batch begin together, and the next batch when all of it have ended.
func ExampleBatched() {
	flow := perdure.Batched{Size: 2}.Begin()
	ask := func(running int) {
		room, _ := flow.Room(running, time.Now())
		fmt.Println(running, "run, and so many more may begin:", room)
	}
	ask(0)
	ask(2)
	flow.Ended(nil, time.Now())
	ask(1)
	flow.Ended(nil, time.Now())
	ask(0)
	fmt.Println(perdure.Batched{Size: -2}.Validate())
	// Output:
	// 0 run, and so many more may begin: 2
	// 2 run, and so many more may begin: 0
	// 1 run, and so many more may begin: 0
	// 0 run, and so many more may begin: 2
	// perdure: batched: Size is -2: at least 1
}

// What fails again and again is left alone for a while, then tried with care.
func ExampleBreaker() {
	flow := perdure.Breaker{Failures: 2, Recovery: time.Minute, Successes: 1}.Begin()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	flow.Ended(errThrottled, noon)
	flow.Ended(errThrottled, noon.Add(time.Second))

	_, err := flow.Room(0, noon.Add(20*time.Second))
	fmt.Println(err)
	room, err := flow.Room(0, noon.Add(61*time.Second))
	fmt.Println(room, err)
	fmt.Println(perdure.Breaker{Recovery: -time.Second}.Validate())
	// Output:
	// perdure: the circuit breaker is open since 2026-11-21T12:00:01Z, until 2026-11-21T12:01:01Z
	// 1 <nil>
	// perdure: breaker: Recovery is -1s: no time is negative
}

// Who gets the error can tell when it is worth trying again.
func ExampleBreakerOpenError() {
	flow := perdure.Breaker{Failures: 1}.Begin()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	flow.Ended(errThrottled, noon)
	_, err := flow.Room(0, noon.Add(10*time.Second))

	var open *perdure.BreakerOpenError
	fmt.Println(errors.As(err, &open), open.Since.Format(time.TimeOnly), open.Until.Format(time.TimeOnly))
	// Output: true 12:00:00 12:00:30
}

// A pressure of one's own, or with one's own numbers, has a name by which others find it.
func ExampleRegisterPressure() {
	defer perdure.ResetPressures()
	if err := perdure.RegisterPressure("gentle", perdure.Adaptive{Start: 1, Max: 3}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(perdure.Pressures())
	fmt.Println(perdure.RegisterPressure("gentle", perdure.AtMost(2)))
	// Output:
	// [adaptive batched circuit-breaker circuit-breaker-aggressive circuit-breaker-conservative gentle]
	// perdure: register pressure gentle: the name is registered already
}

func ExampleNamedPressure() {
	p, err := perdure.NamedPressure("circuit-breaker-aggressive")
	fmt.Printf("%+v %v\n", p, err)
	_, err = perdure.NamedPressure("bached")
	fmt.Println(err)
	// Output:
	// {Failures:2 Recovery:1m0s Successes:1} <nil>
	// perdure: pressure "bached": no pressure has this name (there are adaptive, batched, circuit-breaker, circuit-breaker-aggressive, circuit-breaker-conservative)
}

// Operators choose a pressure in a file.
func ExamplePressureConfig() {
	for _, file := range []string{
		`{"strategy": "batched", "batch_size": 25}`,
		`{"strategy": "circuit-breaker", "recovery_timeout": "10s"}`,
		`{"strategy": "batched", "max_concurrency": 25}`,
	} {
		var c perdure.PressureConfig
		if err := json.Unmarshal([]byte(file), &c); err != nil {
			log.Fatal(err)
		}
		p, err := c.Pressure()
		fmt.Printf("%+v %v\n", p, err)
	}
	// Output:
	// {Size:25} <nil>
	// {Failures:5 Recovery:10s Successes:3} <nil>
	// <nil> perdure: pressure configuration: the strategy batched has no max_concurrency
}

// A report tells how a run went, also long after its end, and in the body of a step how
// far it has come.
func ExampleReport() {
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		if _, err := perdure.Step(ctx, "reserve", func(context.Context) (string, error) { return "hold-1", nil }); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			r, err := perdure.ReportOf(ctx)
			fmt.Println("so far", len(r.Steps), "step:", r.Steps[0].ID, r.Steps[0].Status)
			return "paid", err
		})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{}, order)
	defer stop()
	ctx := context.Background()
	run, err := order.Start(ctx, engine, Order{ID: "ord-1"}, perdure.TriggeredBy("the shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Outcome(ctx); err != nil {
		fmt.Println(err)
		return
	}
	r, err := run.Report(ctx)
	fmt.Println(r.Success(), r.TriggeredBy, r.DryRun, len(r.Completed()), err)
	_, err = order.Start(ctx, engine, Order{ID: "ord-2"}, perdure.DryRun) // which graphs are for
	fmt.Println(err)
	// Output:
	// so far 1 step: reserve DONE
	// true the shop false 2 <nil>
	// perdure: start order: only a graph can be walked through without doing anything (start it without DryRun, or try it in a test)
}

// Errors of declared patterns say what has failed, also when they come from a journal.
func ExampleStepError() {
	err := perdure.FailedStep("charge", errors.New("declined"))
	var step *perdure.StepError
	var undo *perdure.CompensationError
	fmt.Println(errors.As(err, &step), step.Step, errors.As(err, &undo))
	fmt.Println(perdure.CodeTopology, perdure.CodeWrongState, perdure.StepIsSkipped)
	// Output:
	// true charge false
	// topology wrong_state SKIPPED
}

// The parts of a report that only declared patterns have.
func ExampleUndoReport() {
	r := perdure.Report{Undo: &perdure.UndoReport{Policy: "STRICT_SEQUENTIAL", Steps: []perdure.UndoneStep{{ID: "charge", Undone: true}}, All: true}}
	fmt.Println(r.Undo.Policy, r.Undo.Steps[0].ID, r.Undo.All)
	p := perdure.PhaseReport{Phase: perdure.PhaseConfirm, Attempts: 2}
	fmt.Println(p.Phase, p.Attempts)
	_, inTask := perdure.GivenOf(context.Background())
	fmt.Println(inTask)
	// Output:
	// STRICT_SEQUENTIAL charge true
	// CONFIRM 2
	// false
}

// An event may say more than its type and what it tells.
func ExampleEmitEvent() {
	events := make(chan perdure.Event, 1)
	publisher := perdure.PublisherFunc(func(_ context.Context, e perdure.Event) error {
		events <- e
		return nil
	})
	order := perdure.Define("order", func(ctx context.Context, o Order) (string, error) {
		return "", perdure.EmitEvent(ctx, perdure.Event{Type: "order.seen", Topic: "orders", Key: o.ID, Tells: perdure.StepCompleted, Data: []byte("1")})
	})
	engine, stop := newEngineOn(memory.New(), perdure.Options{Publisher: publisher}, order)
	defer stop()
	startRun(engine, order, Order{ID: "ord-1"}, perdure.ID("ord-1"))
	e := <-events
	fmt.Println(e.Type, e.Topic, e.Key, e.Tells)
	fmt.Println(perdure.ExecutionStarted, perdure.ExecutionCompleted, perdure.StepFailed)
	// Output:
	// order.seen orders ord-1 STEP_COMPLETED
	// EXECUTION_STARTED EXECUTION_COMPLETED STEP_FAILED
}

// Callbacks for the success of a whole run become listeners.
func ExampleCallbacks_Listeners() {
	calls := perdure.Callbacks{{Complete: func(_ context.Context, r perdure.Report) error { return nil }}}
	fmt.Println(len(calls.Listeners()), len(calls.Check(func(string) bool { return true })))
	// Output: 1 0
}

// A function is a publisher.
func ExamplePublisherFunc_Publish() {
	publisher := perdure.PublisherFunc(func(_ context.Context, e perdure.Event) error {
		_, err := fmt.Println("told of", e.Type)
		return err
	})
	fmt.Println(publisher.Publish(context.Background(), perdure.Event{Type: "order.seen"}))
	// Output:
	// told of order.seen
	// <nil>
}

// A clean-up learns how the run will end.
func ExampleEndingAs() {
	order := perdure.Define("order", func(ctx context.Context, _ Order) (string, error) {
		err := perdure.Finally(ctx, "tell", func(ctx context.Context) error {
			status, err := perdure.EndingAs(ctx)
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
