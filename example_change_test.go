package perdure_test

import (
	"context"
	"fmt"
	"log"
	"runtime"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// Runs that began before a change of their code go on with the old code. New runs use the changed
// code.
func ExampleVersion() {
	mail := func(ctx context.Context, what string) error {
		_, err := perdure.Step(ctx, what, func(context.Context) (bool, error) { return true, nil })
		return err
	}
	before := perdure.Define("order", func(ctx context.Context, _ string) (string, error) {
		if err := mail(ctx, "confirm"); err != nil {
			return "", err
		}
		_, err := Paid.Wait(ctx)
		return "one mail", err
	})
	after := perdure.Define("order", func(ctx context.Context, _ string) (string, error) {
		v, err := perdure.Version(ctx, "welcome-first", 1)
		if err != nil {
			return "", err
		}
		if v >= 1 {
			if err := mail(ctx, "welcome"); err != nil {
				return "", err
			}
		}
		if err := mail(ctx, "confirm"); err != nil {
			return "", err
		}
		_, err = Paid.Wait(ctx)
		return fmt.Sprint(1+v, " mails"), err
	})

	db := memory.New()
	ctx := context.Background()
	engine, stop := newEngineOn(db, perdure.Options{Build: "1"}, before)
	startRun(engine, before, "", perdure.ID("old"))
	untilStatus(engine.Client, "old", journal.Waiting)
	stop()

	// The new program.
	engine, stop = newEngineOn(db, perdure.Options{Build: "2"}, after)
	defer stop()
	startRun(engine, after, "", perdure.ID("new"))
	for _, id := range []string{"old", "new"} {
		if _, err := Paid.Send(ctx, engine, id, Payment{}); err != nil {
			log.Fatal(err)
		}
		run, err := after.Get(ctx, engine, id)
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		fmt.Println(id, out, err)
	}
	// Output:
	// old 1 mails <nil>
	// new 2 mails <nil>
}

// A step with a new name keeps the result that was recorded under the old name.
func ExampleRenamedFrom() {
	workflow := func(name string, opts ...perdure.StepOption) *perdure.Workflow[int, string] {
		return perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			out, err := perdure.Step(ctx, name, func(context.Context) (string, error) {
				fmt.Println("executing", name)
				return "done by " + name, nil
			}, opts...)
			if err != nil {
				return "", err
			}
			_, err = Paid.Wait(ctx)
			return out, err
		})
	}
	db := memory.New()
	ctx := context.Background()
	old := workflow("debit")
	engine, stop := newEngineOn(db, perdure.Options{Build: "1"}, old)
	startRun(engine, old, 0, perdure.ID("w"))
	untilStatus(engine.Client, "w", journal.Waiting)
	stop()

	renamed := workflow("charge", perdure.RenamedFrom("debit"))
	engine, stop = newEngineOn(db, perdure.Options{Build: "2"}, renamed)
	defer stop()
	if _, err := Paid.Send(ctx, engine, "w", Payment{}); err != nil {
		log.Fatal(err)
	}
	run, err := renamed.Get(ctx, engine, "w")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// executing debit
	// done by debit <nil>
}

// deployed starts a run under a build whose workflow is before, and prints how it ends under the
// next build, whose workflow is after.
func deployed(before, after *perdure.Workflow[string, string]) {
	ctx := context.Background()
	db := memory.New()
	engine, stop := newEngineOn(db, perdure.Options{Build: "1"}, before)
	if _, err := before.Start(ctx, engine, "ord-42", perdure.ID("ord-42")); err != nil {
		panic(err)
	}
	untilItWaits(engine, "ord-42")
	stop()
	engine, stop = newEngineOn(db, perdure.Options{Build: "2"}, after)
	defer stop()
	if _, err := approved.Send(ctx, engine, "ord-42", true); err != nil {
		panic(err)
	}
	run, err := after.Get(ctx, engine, "ord-42")
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
}

// untilItWaits returns when a run has done everything before its wait.
func untilItWaits(engine *perdure.Engine, id string) {
	for {
		d, err := engine.Describe(context.Background(), id)
		if err != nil {
			panic(err)
		}
		if len(d.State.Waits) > 0 {
			return
		}
		runtime.Gosched()
	}
}

var approved = perdure.NewSignal[bool]("approved")

// says returns a step that prints its name.
func says(ctx context.Context, name string, opts ...perdure.StepOption) (string, error) {
	return perdure.Step(ctx, name, func(context.Context) (string, error) {
		fmt.Println(name)
		return name, nil
	}, opts...)
}

// A newer build adds a step before recorded steps, and the step is to be done all the same.
func ExampleAdded() {
	order := func(checks bool) *perdure.Workflow[string, string] {
		return perdure.Define("order", func(ctx context.Context, id string) (string, error) {
			if checks {
				if _, err := says(ctx, "check-address", perdure.Added); err != nil {
					return "", err
				}
			}
			if _, err := says(ctx, "reserve"); err != nil {
				return "", err
			}
			_, err := approved.Wait(ctx)
			return id + " is shipped", err
		})
	}
	deployed(order(false), order(true))
	// Output:
	// reserve
	// check-address
	// ord-42 is shipped <nil>
}

// The steps of this workflow may be done twice, so its runs go on after any change.
func ExampleByName() {
	report := func(step string) *perdure.Workflow[string, string] {
		return perdure.Define("report", func(ctx context.Context, id string) (string, error) {
			if _, err := says(ctx, step); err != nil {
				return "", err
			}
			_, err := approved.Wait(ctx)
			return id + " is reported", err
		}, perdure.ByName)
	}
	deployed(report("count"), report("sum"))
	// Output:
	// count
	// sum
	// ord-42 is reported <nil>
}
