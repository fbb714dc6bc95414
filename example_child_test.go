package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A child is a run of its own that a workflow starts as part of its own.
func ExampleWorkflow_Child() {
	pack := perdure.Define("pack", func(ctx context.Context, item string) (string, error) {
		return perdure.Step(ctx, "wrap", func(context.Context) (string, error) { return "wrapped " + item, nil })
	})
	parcel := perdure.Define("parcel", func(ctx context.Context, items []string) ([]string, error) {
		var packed []string
		var children []*perdure.Child[string]
		for _, item := range items {
			children = append(children, pack.Child(ctx, item, perdure.Key(item)))
		}
		for _, c := range children {
			one, err := c.Await(ctx)
			if err != nil {
				return nil, err
			}
			packed = append(packed, one)
		}
		return packed, nil
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(pack, parcel)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := parcel.Start(ctx, engine, []string{"cup", "pot"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: [wrapped cup wrapped pot] <nil>
}

// How a child ended, as a value.
func ExampleChild_Outcome() {
	refuse := perdure.Define("refuse", func(context.Context, string) (string, error) {
		return "", errors.New("no pigeon is free")
	})
	parent := perdure.Define("parent", func(ctx context.Context, letter string) (string, error) {
		o, err := refuse.Child(ctx, letter).Outcome(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%v: %v", o.Status, o.Err), nil
	})
	engine, stop := newEngine(refuse, parent)
	defer stop()
	fmt.Println(startRun(engine, parent, "a letter").Result(context.Background()))
	// Output: FAILED: no pigeon is free <nil>
}

// A parent may end its child.
func ExampleChild_Cancel() {
	search := perdure.Define("search", func(ctx context.Context, _ string) (string, error) {
		return "nothing", perdure.Sleep(ctx, 24*time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, what string) (journal.Status, error) {
		child := search.Child(ctx, what)
		if err := child.Cancel(ctx, "it was found at home"); err != nil {
			return 0, err
		}
		o, err := child.Outcome(ctx)
		return o.Status, err
	})
	engine, stop := newEngine(search, parent)
	defer stop()
	fmt.Println(startRun(engine, parent, "the key").Result(context.Background()))
	// Output: CANCELLED <nil>
}

// A child is found from outside as every run is.
func ExampleChild_RunID() {
	pack := perdure.Define("pack", func(ctx context.Context, item string) (string, error) { return "wrapped " + item, nil })
	parcel := perdure.Define("parcel", func(ctx context.Context, item string) (journal.RunID, error) {
		child := pack.Child(ctx, item)
		_, err := child.Await(ctx)
		return child.RunID(), err
	})
	engine, stop := newEngine(pack, parcel)
	defer stop()
	ctx := context.Background()
	id, err := startRun(engine, parcel, "cup").Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	child, err := pack.Get(ctx, engine, string(id))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(child.Result(ctx))
	// Output: wrapped cup <nil>
}

// A policy says what becomes of a child when its parent ends.
func ExampleChildPolicy() {
	child := perdure.Define("child", func(ctx context.Context, _ string) (string, error) {
		p, err := Paid.Wait(ctx)
		return fmt.Sprintf("got %d cents", p.Cents), err
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ string) (map[string]journal.RunID, error) {
		return map[string]journal.RunID{
			"goes on":       child.Child(ctx, "a").RunID(), // unless the parent is cancelled
			"is cancelled":  child.Child(ctx, "b", perdure.ChildEnds).RunID(),
			"is on its own": child.Child(ctx, "c", perdure.ChildDetached).RunID(),
		}, nil
	})
	engine, stop := newEngine(child, parent)
	defer stop()
	ctx := context.Background()
	children, err := startRun(engine, parent, "").Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, what := range []string{"goes on", "is on its own", "is cancelled"} {
		id := string(children[what])
		if what != "is cancelled" {
			if _, err := Paid.Send(ctx, engine, id, Payment{Cents: 5}); err != nil {
				log.Fatal(err)
			}
		}
		run, err := child.Get(ctx, engine, id)
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Printf("%s: out %q, error code %q\n", what, out, journal.CodeOf(err))
	}
	// Output:
	// goes on: out "got 5 cents", error code ""
	// is on its own: out "got 5 cents", error code ""
	// is cancelled: out "", error code "cancelled"
}
