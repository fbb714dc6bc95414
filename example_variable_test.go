package perdure_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
)

// Variables are what the steps of a run share. What a step sets counts when its result
// is recorded; workflow code sets them too.
func ExampleSetVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if err := perdure.SetVariable(ctx, "country", "IT"); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "rate", func(ctx context.Context) (int, error) {
			return 22, perdure.SetVariable(ctx, "vat", 22)
		}); err != nil {
			return "", err
		}
		vat, found, err := perdure.Variable[int](ctx, "vat")
		return fmt.Sprint(vat, found), err
	})
	printResult(w, 0)
	// Output: 22 true
}

// A variable that nobody has set is not found, and is no error.
func ExampleVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		vat, found, err := perdure.Variable[int](ctx, "vat")
		return fmt.Sprint(vat, found), err
	})
	printResult(w, 0)
	// Output: 0 false
}

func ExampleRemoveVariable() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (bool, error) {
		if err := perdure.SetVariable(ctx, "coupon", "SPRING"); err != nil {
			return false, err
		}
		if err := perdure.RemoveVariable(ctx, "coupon"); err != nil {
			return false, err
		}
		_, found, err := perdure.Variable[string](ctx, "coupon")
		return found, err
	})
	printResult(w, 0)
	// Output: false
}

func ExampleVariables() {
	w := perdure.Define("w", func(ctx context.Context, rates map[string]int) (string, error) {
		for _, country := range slices.Sorted(maps.Keys(rates)) {
			if err := perdure.SetVariable(ctx, "vat."+country, rates[country]); err != nil {
				return "", err
			}
		}
		all, err := perdure.Variables(ctx)
		return fmt.Sprintf("%s", all), err
	})
	printResult(w, map[string]int{"it": 22, "fr": 20})
	// Output: map[vat.fr:20 vat.it:22]
}

// A run remembers the keys of what it has done, so that a step that comes to the same
// thing twice does it once.
func ExampleAddKey() {
	w := perdure.Define("w", func(ctx context.Context, cards []string) (string, error) {
		done := ""
		for _, card := range cards {
			isNew, err := perdure.AddKey(ctx, "charge:"+card)
			if err != nil {
				return "", err
			}
			done += fmt.Sprintln(card, isNew)
		}
		return done, nil
	})
	printResult(w, []string{"tok_1", "tok_2", "tok_1"})
	// Output:
	// tok_1 true
	// tok_2 true
	// tok_1 false
}

// HasKey only asks.
func ExampleHasKey() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		before, err := perdure.HasKey(ctx, "charge")
		if err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "charge", func(ctx context.Context) (bool, error) { return perdure.AddKey(ctx, "charge") }); err != nil {
			return "", err
		}
		after, err := perdure.HasKey(ctx, "charge")
		return fmt.Sprint(before, after), err
	})
	printResult(w, 0)
	// Output: false true
}
