package saga_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/saga"
)

type parcel struct {
	City   string `json:"city"`
	Weight int    `json:"weight"`
}

// ship makes a saga of one step.
func ship[I any](name string) *saga.Saga[I] {
	def := saga.New[I](name)
	saga.Add(def, "ship", func(context.Context, I) (parcel, error) { return parcel{}, nil })
	return def
}

// The parts of a member's input must have types that the input of its saga accepts.
//
// spec: F-8, F-35
func TestMembersAreCheckedByType(t *testing.T) {
	type odd struct {
		City int `json:"city"`
	}
	first := saga.New[parcel]("first")
	receipt := saga.Add(first, "receipt", func(context.Context, parcel) (parcel, error) {
		return parcel{}, nil
	})
	lines := saga.AddEach(first, "lines", func(parcel) []int { return nil },
		func(context.Context, int) (string, error) { return "", nil })

	c := saga.Compose[parcel]("composition")
	a := saga.Include(c, "a", first)
	saga.Include(c, "fine", ship[parcel]("fine")).After(a).With(map[string]any{"weight": 7}).
		Map("city", saga.FromStep(a, receipt).Field("city")).Map("weight", saga.FromVariable("any"))
	saga.Include(c, "anything", ship[map[string]any]("anything")).After(a).
		Map("x", saga.FromStep(a, lines))
	saga.Include(c, "text", ship[string]("text"))
	saga.Include(c, "strange", ship[struct{ Other int }]("strange"))
	saga.Include(c, "inherits", ship[odd]("inherits")).With(map[string]any{"colour": "red"})
	saga.Include(c, "static", ship[parcel]("static")).
		With(map[string]any{"weight": "heavy", "colour": "red"})
	saga.Include(c, "mapped", ship[parcel]("mapped")).After(a).
		Map("weight", saga.FromStep(a, receipt).Field("city")).Map("city", saga.FromStep(a, lines)).
		Map("colour", saga.FromInput("city")).Map("Weight", saga.FromInput("colour")).
		Map("City", saga.FromStep(a, receipt).Field("colour"))
	saga.Include(c, "inputs", ship[saga.Inputs]("inputs")).
		With(map[string]any{"ship": 1, "shipp": 2})
	want := []string{
		`inherits.city: the input of the saga, of type saga_test.odd, does not take a value of type string`,
		`inherits.colour: the input of the saga has no such key`,
		`inputs.shipp: the saga has no step of this ID`,
		`mapped.City: there is no key "colour" in a/receipt, a saga_test.parcel`,
		`mapped.Weight: there is no key "colour" in the composition's input, a saga_test.parcel`,
		`mapped.city: the input of the saga, of type saga_test.parcel, does not take a value of type []string`,
		`mapped.colour: the input of the saga has no such key`,
		`mapped.weight: the input of the saga, of type saga_test.parcel, does not take a value of type string`,
		`static.colour: the input of the saga has no such key`,
		`static.weight: it does not decode into the input of the saga: json: cannot unmarshal string`,
		`strange: its input is of type struct { Other int }, and the composition's of type saga_test.parcel`,
		`text: its input is of type string, and the composition's of type saga_test.parcel`,
	}
	var got []string
	for _, i := range perdure.Check(c) {
		got = append(got, fmt.Sprintf("%s: %s", i.Where, i.Message))
	}
	slices.Sort(got)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("issue %d, want\n%s\ngot\n%s", i, strings.Join(want, "\n"),
				strings.Join(got, "\n"))
		}
	}
	if err := newEngine(t).Register(c); err == nil {
		t.Error("it is registered")
	}
}
