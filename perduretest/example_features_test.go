package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// t is the argument of a test function. TestExamplesHold passes it to the examples.
var t *testing.T

// Parcel is the workflow of the examples: it packs, waits a day for the postage,
// and ships.
var Parcel = perdure.Define("parcel", func(ctx context.Context, id string) (string, error) {
	if _, err := perdure.Step(ctx, "pack", func(context.Context) (bool, error) {
		return true, nil
	}); err != nil {
		return "", err
	}
	if err := perdure.Publish(ctx, "state", "packed"); err != nil {
		return "", err
	}
	cents, err := Postage.Wait(ctx, perdure.Within(24*time.Hour))
	if err != nil {
		return "", err
	}
	return perdure.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		shipped.charge(perdure.IdempotencyKey(ctx))
		return fmt.Sprintf("%s shipped for %d cents", id, cents), nil
	}, perdure.Retry{Attempts: 3}, perdure.Timeout(time.Minute))
})

// Postage brings the postage of a parcel, in cents.
var Postage = perdure.NewSignal[int]("postage")

// shipped is the record of the carrier.
var shipped bank // counts each key once

// A test in virtual time, on the real engine.
func ExampleTest() {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		env.Sleep(23 * time.Hour) // takes no time
		run.Waits("postage")
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
	}, Parcel)
}

// The outcome must be the same wherever a crash comes.
func ExampleCrashEverywhere() {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		shipped = bank{}
		run := perduretest.Start(env, Parcel, "p-1")
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
		return shipped.charges() // once, by its key
	}, Parcel)
}

// A Setup has the settings that tests share.
func ExampleSetup() {
	setup := perduretest.Setup{
		Workflows: []perdure.Definition{Parcel},
		Options:   perdure.Options{IdleTimeout: time.Hour}, // runs stay loaded while they wait
		Crashes:   3,                                       // of all that there could be
		Seed:      1,
	}
	setup.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, Parcel, "p-1").Fails(context.DeadlineExceeded)
	})
	setup.CrashEverywhere(t, func(env *perduretest.Env) any {
		_, err := perduretest.Start(env, Parcel, "p-1").Result()
		return errors.Is(err, context.DeadlineExceeded)
	})
}

// The process dies, and the next one goes on.
func ExampleEnv_Crash() {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		env.Settle() // it waits for the postage
		env.Crash()
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
		run.Executed("pack", 1)
	}, Parcel)
}

// An operator stops the program and starts it again.
func ExampleEnv_Restart() {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		env.Restart()
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
	}, Parcel)
}

// A new build goes on with runs of the one before.
func ExampleEnv_Deploy() {
	insured := perdure.Define("parcel", func(ctx context.Context, id string) (string, error) {
		if _, err := perdure.Step(ctx, "pack", func(context.Context) (bool, error) {
			return true, nil
		}); err != nil {
			return "", err
		}
		cents, err := Postage.Wait(ctx, perdure.Within(24*time.Hour))
		return fmt.Sprintf("%s insured for %d cents", id, cents), err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		env.Settle()
		env.Deploy(insured)
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 insured for 145 cents")
	}, Parcel)
}

// A call of an engine is repeated with the next engine if the engine dies.
func ExampleEnv_Do() {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, Parcel, "p-1", perdure.ID("p-1"))
		if err := env.Do(func(e *perdure.Engine) error {
			_, err := e.Send(env.Context(), "p-1", "postage", []byte("145"),
				perdure.SendKey("once"))
			return err
		}); err != nil {
			env.Error(err)
		}
		out, _ := run.Result()
		return out
	}, Parcel)
}

// Steps fail as planned: before their bodies, after them, or by their timeout.
func ExampleEnv_Step() {
	errDown := errors.New("the carrier is down")
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("ship").Fail(1, errDown)      // the body is not called
		env.Step("ship").FailAfter(1, errDown) // the body is called, and its answer is lost
		run := perduretest.Start(env, Parcel, "p-1")
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
		env.Step("ship").Executed(3)

		env.Step("ship").Hang(3) // until its timeout
		slow := perduretest.Start(env, Parcel, "p-2")
		perduretest.Send(env, Postage, slow.ID(), 145)
		slow.Fails(context.DeadlineExceeded)
	}, Parcel)
}

// A call before the body of a step has the same context as the body.
func ExampleStep_Before() {
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("pack").Before(2, func(ctx context.Context) error {
			n, _, err := perdure.Attempt(ctx)
			if n == 1 {
				panic("out of paper") // is a failed attempt
			}
			return err
		})
		run := perduretest.Start(env, Parcel, "p-1")
		env.Sleep(time.Minute)
		run.Waits("postage")
		if n := env.Step("pack").Executions(); n != 2 {
			env.Errorf("%d executions", n)
		}
		env.Step("ship").Executed(0)
	}, Parcel)
}

// The assertions of a run.
func ExampleRun() {
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, Parcel, "p-1")
		run.Is(journal.Waiting)
		run.Published("state", "packed")
		run.WaitsUntil(began.Add(24 * time.Hour))
		run.Executed("pack", 1)
		run.Unread() // nothing

		same := perduretest.Get(env, Parcel, run.RunID())
		same.Cancel("lost in the post")
		same.Fails(&perdure.Error{Code: journal.CodeCancelled})
		var err *perdure.Error
		if run.FailsAs(&err); err != nil && !strings.Contains(err.Message, "lost in the post") {
			env.Error(err)
		}
	}, Parcel)
}

// The history of a run shows whether a change of its workflow fits, before it is deployed. It may
// come from production.
func ExampleReplay() {
	var history []byte
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		env.Settle()
		var err error
		if history, err = perduretest.Export(env.Context(), env.Engine().Client,
			run.ID()); err != nil {
			env.Fatal(err)
		}
	}, Parcel)
	perduretest.Replay(t, history, Parcel).Fits()
	perduretest.ReplayStrictly(t, history, Parcel).Fits() // as the same build would
}

// A history may be kept in a file beside the test.
func ExampleReplayFile() {
	perduretest.ReplayFile(t, "testdata/parcel.jsonl", Parcel).Fits()
}

// Differences that are intended are accepted by name.
func ExampleReplayed_Fits() {
	weighed := perdure.Define("parcel", func(ctx context.Context, id string) (string, error) {
		if _, err := perdure.Step(ctx, "weigh", func(context.Context) (bool, error) {
			return true, nil
		}); err != nil {
			return "", err
		}
		_, err := Postage.Wait(ctx, perdure.Within(24*time.Hour))
		return id, err
	})
	r := perduretest.ReplayFile(t, "testdata/parcel.jsonl", weighed)
	r.Fits("new weigh") // the replay ends here: the step has no result
	t.Log(r.String())
}

// The differences of code from a history, by kind.
func ExampleDifference() {
	other := perdure.Define("parcel", func(context.Context, string) (string, error) {
		return "", errors.New("we are closed")
	})
	tell := func(d perduretest.Difference) string {
		switch d.Kind {
		case perduretest.DifferenceNew, perduretest.DifferenceUnused:
			return "an operation: " + d.Path
		case perduretest.DifferenceMismatch:
			return "an engine would park the run: " + d.Text
		case perduretest.DifferenceOutcome:
			return "the end: " + d.Text
		}
		return d.String()
	}
	for _, d := range perduretest.ReplayFile(t, "testdata/parcel.jsonl", other).Differences {
		t.Log(tell(d))
	}
}

// spec: B-13
func TestExamplesHold(real *testing.T) {
	examples := map[string]func(){
		"ExampleTest": ExampleTest, "ExampleCrashEverywhere": ExampleCrashEverywhere,
		"ExampleSetup":     ExampleSetup,
		"ExampleEnv_Crash": ExampleEnv_Crash, "ExampleEnv_Restart": ExampleEnv_Restart,
		"ExampleEnv_Deploy": ExampleEnv_Deploy,
		"ExampleEnv_Do":     ExampleEnv_Do, "ExampleEnv_Step": ExampleEnv_Step,
		"ExampleStep_Before": ExampleStep_Before,
		"ExampleRun_Next":    ExampleRun_Next, "ExampleRun_Advance": ExampleRun_Advance,
		"ExampleEnv_StepByStep": ExampleEnv_StepByStep,
		"ExampleRun":            ExampleRun, "ExampleRun_Report": ExampleRun_Report,
		"ExampleReplay": ExampleReplay, "ExampleReplayFile": ExampleReplayFile,
		"ExampleReplayed_Fits": ExampleReplayed_Fits, "ExampleDifference": ExampleDifference,
	}
	files, err := filepath.Glob("example_*_test.go")
	if err != nil {
		real.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			real.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(d.Name.Name, "Example") &&
				examples[d.Name.Name] == nil {
				real.Errorf("%s is not run: list it here", d.Name.Name)
			}
		}
	}
	for name, example := range examples {
		real.Run(name, func(now *testing.T) {
			t = now
			example()
		})
	}
}

// The report of a run has its steps, while the run goes on and afterwards.
func ExampleRun_Report() {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		if s, _ := run.Report().Step("ship"); s.Status != journal.StepIsPending {
			env.Errorf("it is %s before the postage has come", s.Status)
		}
		env.Step("ship").Fail(1, errors.New("no carrier"))
		perduretest.Send(env, Postage, run.ID(), 145)
		run.Returns("p-1 shipped for 145 cents")
		rep := run.Report()
		if s, _ := rep.Step("ship"); !rep.Success() || s.Attempts != 2 {
			env.Errorf("the run is %s after %d attempts to ship", rep.Status, s.Attempts)
		}
	}, Parcel)
}

// One step at a time: the test looks at the run after each.
func ExampleRun_Next() {
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		env.Step("ship").Fail(1, errors.New("the carrier does not answer"))
		run := perduretest.Start(env, Parcel, "p-1")
		if step, _ := run.Next(); step.Path != "pack" || step.Status != journal.StepIsDone {
			t.Error(step)
		}
		run.Published("state", "packed")
		perduretest.Send(env, Postage, run.ID(), 145)
		if step, _ := run.Next(); step.Status != journal.StepIsRetrying {
			t.Error(step)
		}
		run.Next() // the time until the next attempt has passed
		run.Is(journal.Completed)
	}, Parcel)
}

// The limit of a wait passes, and nothing else does.
func ExampleRun_Advance() {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Parcel, "p-1")
		if passed, _ := run.Advance(); passed != 24*time.Hour {
			t.Error(passed)
		}
		run.Fails(context.DeadlineExceeded)
	}, Parcel)
}

// What could go on is listed, and the test chooses, or lets everything go on.
func ExampleEnv_StepByStep() {
	perduretest.Test(t, func(env *perduretest.Env) {
		env.StepByStep()
		one, two := perduretest.Start(env, Parcel, "1"), perduretest.Start(env, Parcel, "2")
		if held := two.Held(); len(held) != 1 || held[0] != "pack" {
			t.Error(held)
		}
		two.Next("pack")
		one.Executed("pack", 0)
		env.Release()
		one.Executed("pack", 1)
	}, Parcel)
}
