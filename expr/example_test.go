package expr_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure/expr"
)

func ExampleWhen() {
	large := expr.When(
		`input.total > 100 && results["fraud-check"].risk == "low" && variables.tier in ["gold", "silver"]`)
	holds, err := large.Holds(context.Background(), pattern.View{
		Input:   json.RawMessage(`{"total": 120.5}`),
		Results: map[string]json.RawMessage{"fraud-check": json.RawMessage(`{"risk": "low"}`)},
		Variables: func(...string) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"tier": json.RawMessage(`"gold"`)}, nil
		},
	})
	fmt.Println(holds, err)

	fmt.Println(expr.When(`input.total > 100 && totl > 3`).Check())

	// Output:
	// true <nil>
	// perdure: condition: unknown name totl: allowed are input, results, variables and headers at 1:22 in: input.total > 100 && ▸totl > 3
}
