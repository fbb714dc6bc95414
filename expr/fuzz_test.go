package expr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/journal"
)

// Whatever the text and the data are, the result is an answer or an error of one line, and it is
// the same again.
//
// spec: F-16
func FuzzWhen(f *testing.F) {
	for _, text := range []string{
		`input.a.total > 100 && results.b.ok`,
		`all(input.a, any(input.b, # == 1)) or input["a"]?.x ?? true`,
		`1 < (1 < (input ? 1 : 2) < 2 ? 1 : 2) < 3`, `sum(input.a, .b / 3.5) % 2 == -1`,
		`headers["X"] matches "(a|b)*c{2,9}"`,
		`lower(trim("a" + "b")) not in map(input.a, upper(#.b))`,
		`find(filter(input.a, len(#) == 2), #[0] != nil)[-1] == number("1e2")`, `now()`, `((((`,
		`let x = 1; $env`,
	} {
		f.Add(text, `{"a": [{"b": 1.5}, "x", null, [1, 2]], "b": [1e3, {"c": {}}]}`)
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		k := pattern.View{
			Input:   json.RawMessage(data),
			Results: map[string]json.RawMessage{"b": json.RawMessage(data)},
			Headers: map[string]string{"X": text},
		}
		first, err := expr.When(text).Holds(t.Context(), k)
		again, errAgain := expr.When(text).Holds(t.Context(), k)
		if first != again || (err == nil) != (errAgain == nil) ||
			err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("%v, %v, and then %v, %v", first, err, again, errAgain)
		}
		if err != nil && (first || !errors.Is(err, &perdure.Error{Code: journal.CodeInvalid}) ||
			strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), "panicked")) {
			t.Fatalf("%v, %q", first, err)
		}
	})
}
