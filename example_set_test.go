package perdure_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
)

// A set walks over what depends on each other: when something has ended, what waited
// for it begins and is added.
func ExampleNewSet() {
	then := map[string][]string{"reserve": {"charge"}, "charge": {"ship", "thank"}}
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		set, err := perdure.NewSet(ctx)
		if err != nil {
			return 0, err
		}
		defer set.Close()
		names := map[perdure.Awaitable]string{}
		begin := func(name string) error {
			f := perdure.Async(ctx, name, func(context.Context) (string, error) { return name, nil })
			names[f] = name
			return set.Add(f)
		}
		if err := begin("reserve"); err != nil {
			return 0, err
		}
		ended := 0
		for ; set.Len() > 0; ended++ {
			f, err := set.Next()
			if err != nil {
				return ended, err
			}
			for _, name := range then[names[f]] {
				if err := begin(name); err != nil {
					return ended, err
				}
			}
		}
		return ended, nil
	})
	printResult(w, 0)
	// Output: 4
}

// Futures and children of any types are in one set.
func ExampleSet() {
	child := perdure.Define("child", func(ctx context.Context, n int) (int, error) { return 2 * n, nil })
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		set, err := perdure.NewSet(ctx)
		if err != nil {
			return "", err
		}
		defer set.Close()
		number := child.Child(ctx, 21)
		text := perdure.Async(ctx, "text", func(context.Context) (string, error) { return "done", nil })
		for _, f := range []perdure.Awaitable{number, text} {
			if err := set.Add(f); err != nil {
				return "", err
			}
		}
		for set.Len() > 0 {
			if _, err := set.Next(); err != nil {
				return "", err
			}
		}
		n, err := number.Await(ctx) // it does not wait any more
		if err != nil {
			return "", err
		}
		s, err := text.Await(ctx)
		return fmt.Sprint(n, " ", s), err
	})
	engine, stop := newEngine(w, child)
	defer stop()
	fmt.Println(startRun(engine, w, 0).Result(context.Background()))
	// Output: 42 done <nil>
}
