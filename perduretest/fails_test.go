package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

type refused struct{ Code int }

func (r *refused) Error() string { return fmt.Sprint("refused: ", r.Code) }

var errGone = errors.New("gone")

func init() {
	if err := errors.Join(perdure.RegisterErrorType[*refused]("kit.refused"),
		perdure.RegisterError("kit.gone", errGone)); err != nil {
		fmt.Println(err)
	}
}

// asks publishes that it asks, waits for go-on, and does a step with a timeout.
var asks = perdure.Define("asks", func(ctx context.Context, n int) (int, error) {
	if err := perdure.Publish(ctx, "state", map[string]int{"asked": n}); err != nil {
		return 0, err
	}
	if _, err := goOn.Wait(ctx); err != nil {
		return 0, err
	}
	return perdure.Step(ctx, "act", func(context.Context) (int, error) { return n, nil },
		perdure.Retry{Attempts: 4, First: time.Minute}, perdure.Timeout(time.Hour))
})

// spec: B-13
func TestAssertionsPassAndFail(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*perduretest.Env, *perduretest.Run[int])
		says []string // empty if the test passes
	}{
		{"waits", func(_ *perduretest.Env, run *perduretest.Run[int]) {
			run.Is(journal.Waiting)
			run.Waits("go-on")
			run.Published("state", map[string]int{"asked": 7})
			run.Unread()
			run.Executed("act", 0)
		}, nil},
		{"returns", func(env *perduretest.Env, run *perduretest.Run[int]) {
			env.Step("act").Fail(1, errGone)
			perduretest.Send(env, goOn, run.ID(), "go")
			perduretest.Send(env, goOn, run.ID(), "again")
			run.Returns(7)
			run.Unread("go-on")
			run.Executed("act", 2)
			env.Step("act").Executed(2)
		}, nil},
		{"another status", func(_ *perduretest.Env, run *perduretest.Run[int]) {
			run.Is(journal.Completed)
		}, []string{
			"asks-1 is WAITING, want COMPLETED", "it waits for signal go-on",
			"RunStarted → RUNNING: 7", "WaitStarted go-on",
		}},
		{"another wait", func(_ *perduretest.Env, run *perduretest.Run[int]) {
			run.Waits("sleep")
			run.WaitsUntil(time.Now())
		}, []string{
			"does not wait for sleep, but for signal go-on",
			"waits for nothing that is due at",
		}},
		{"another state", func(_ *perduretest.Env, run *perduretest.Run[int]) {
			run.Published("state", map[string]int{"asked": 8})
			run.Published("other", 1)
			run.Published("state", "text")
		}, []string{
			"has published map[asked:7] as state, want map[asked:8]",
			"has published nothing as other", "which is no string",
		}},
		{"another output", func(env *perduretest.Env, run *perduretest.Run[int]) {
			perduretest.Send(env, goOn, run.ID(), "go")
			run.Returns(8)
			run.Fails(errGone)
			run.Executed("act", 2)
			run.Unread("go-on")
			env.Step("act").Executed(3)
		}, []string{
			"returned 7, want 8", "returned 7, want error gone",
			"executed step act 1 times, want 2", `has unread signals [], want ["go-on"]`,
			"step act was executed 1 times, want 3",
		}},
		{"no end", func(_ *perduretest.Env, run *perduretest.Run[int]) { run.Returns(7) }, []string{
			"asks-1 has not ended", "it waits for signal go-on",
		}},
		{"no run", func(env *perduretest.Env, _ *perduretest.Run[int]) {
			perduretest.Get(env, asks, "nobody")
		}, []string{"get nobody: "}},
		{"another error", func(env *perduretest.Env, run *perduretest.Run[int]) {
			env.Step("act").Fail(1, perdure.Permanent(&refused{4}))
			perduretest.Send(env, goOn, run.ID(), "go")
			run.Fails(errGone)
			run.Returns(7)
			var is *refused
			run.FailsAs(&is)
			if is == nil || is.Code != 4 {
				env.Error("it is ", is)
			}
			var not *perdure.Error
			run.FailsAs(&not)
		}, []string{
			"ended with error step act: refused: 4, want gone",
			"ended with error step act: refused: 4, want 7",
			"want one of type *journal.Error",
		}},
		{"cancelled", func(env *perduretest.Env, run *perduretest.Run[int]) {
			run.Cancel("enough")
			run.Is(journal.Cancelled)
			run.Fails(&perdure.Error{Code: journal.CodeCancelled})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := perduretest.FakeTest(t, perduretest.Setup{
				Workflows: []perdure.Definition{asks},
			}, func(env *perduretest.Env) {
				c.test(env, perduretest.Start(env, asks, 7))
			})
			wants(t, said, c.says...)
			if len(c.says) == 0 && said != "" {
				t.Error(said)
			}
		})
	}
}

// spec: B-13
func TestStepsFailAsTheyAreTold(t *testing.T) {
	for _, c := range []struct {
		name     string
		tell     func(*perduretest.Step)
		took     time.Duration
		attempts int
		ends     func(*perduretest.Run[int])
	}{
		{
			"fail",
			func(s *perduretest.Step) { s.Fail(2, errGone) },
			3 * time.Minute,
			3,
			func(run *perduretest.Run[int]) { run.Returns(7) },
		},
		{
			"fail to the end",
			func(s *perduretest.Step) { s.Fail(4, errGone) },
			7 * time.Minute,
			4,
			func(run *perduretest.Run[int]) { run.Fails(errGone) },
		},
		{
			"fail after",
			func(s *perduretest.Step) { s.FailAfter(1, errGone) },
			time.Minute,
			2,
			func(run *perduretest.Run[int]) { run.Returns(7) },
		},
		{"hang", func(s *perduretest.Step) { s.Hang(1) }, time.Hour +
			time.Minute, 2, func(run *perduretest.Run[int]) { run.Returns(7) }},
		{
			"panic",
			func(s *perduretest.Step) {
				s.Before(1, func(context.Context) error { panic("on purpose") })
			},
			time.Minute,
			2,
			func(run *perduretest.Run[int]) { run.Returns(7) },
		},
		{
			"one after the other",
			func(s *perduretest.Step) { s.Fail(1, errGone); s.Hang(1) },
			time.Hour + 3*time.Minute,
			3,
			func(run *perduretest.Run[int]) { run.Returns(7) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			perduretest.Test(t, func(env *perduretest.Env) {
				c.tell(env.Step("act"))
				run := perduretest.Start(env, asks, 7)
				began := time.Now()
				perduretest.Send(env, goOn, run.ID(), "go")
				c.ends(run)
				run.Executed("act", c.attempts)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			}, asks)
		})
	}
}

// spec: B-13
func TestNamesStandForSteps(t *testing.T) {
	nothing := func(context.Context) (int, error) { return 0, nil }
	wf := perdure.Define("names", func(ctx context.Context, _ int) (int, error) {
		_, err := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
			return perdure.Step(ctx, "act", nothing)
		}).Await(ctx)
		if err != nil {
			return 0, err
		}
		for range 2 {
			if _, err := perdure.Step(ctx, "act", nothing); err != nil {
				return 0, err
			}
		}
		return perdure.Step(ctx, "act", nothing, perdure.Key("k"))
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Step("branch/act").Fail(1, errGone)
		run := perduretest.Start(env, wf, 0)
		run.Returns(0)
		for name, n := range map[string]int{
			"act":        5,
			"act#2":      1,
			"act[k]":     1,
			"branch/act": 2,
			"branch":     0,
			"other":      0,
		} {
			run.Executed(name, n)
		}
	}, wf)
}

// spec: B-13
func TestEnginesComeAndGoAndTheTestGoesOn(t *testing.T) {
	var did ledger
	first, second := order(did.add, "a", "?", "b"), order(did.add, "a", "?", "x")
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, first, 1)
		env.Settle()
		before := env.Engine()
		env.Crash()
		if env.Engine() == before {
			t.Error("the engine did not die")
		}
		if _, err := before.Describe(env.Context(), run.ID()); err == nil {
			t.Error("a dead engine answers")
		}
		env.Restart()
		run.Waits("go-on")
		env.Deploy(second)
		perduretest.Send(env, goOn, run.ID(), "go")
		run.Returns("a;go;x;")
		run.Executed("a", 1)
		d, err := env.Engine().Describe(env.Context(), run.ID())
		if err != nil || d.State.Build != "test-2" {
			t.Error(d.State.Build, err)
		}
	}, first)
	if got := fmt.Sprint(did.lines); got != "[a x listener]" {
		t.Error(got)
	}
}

// spec: B-13
func TestCrashInterruptsAStep(t *testing.T) {
	slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "act", func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Hour):
				return 1, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, slow, 0)
		env.Sleep(40 * time.Minute)
		env.Crash()
		run.Returns(1)
		run.Executed("act", 2)
		if took := time.Since(began); took != 100*time.Minute {
			t.Errorf("it took %v", took)
		}
	}, slow)
}

// spec: B-13
func TestRunsLeaveMemoryAtEveryWaitUnlessTheyMayStay(t *testing.T) {
	calls := 0
	wf := perdure.Define("calls", func(ctx context.Context, _ int) (int, error) {
		calls++ // it is replayed, so this is what no workflow should do
		for range 3 {
			if err := perdure.Sleep(ctx, time.Second/2); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) { perduretest.Start(env, wf, 0).Returns(0) }, wf)
	if calls != 4 {
		t.Errorf("the code was called %d times, want 4", calls)
	}
	calls = 0
	kept := perduretest.Setup{
		Workflows: []perdure.Definition{wf},
		Options:   perdure.Options{IdleTimeout: 24 * time.Hour},
	}
	kept.Test(t, func(env *perduretest.Env) { perduretest.Start(env, wf, 0).Returns(0) })
	if calls != 1 {
		t.Errorf("the code of a run that may stay in memory was called %d times", calls)
	}
}
