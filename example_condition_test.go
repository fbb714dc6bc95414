package perdure_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
)

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
