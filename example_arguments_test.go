package perdure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/perdure/perdure"
)

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
