package perduretest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

var goOn = perdure.NewSignal[string]("go-on")

// order returns code that does these operations one after the other: a step; "?" for a wait for
// go-on; "~" for a month's sleep; "^" for a wait until an hour after the start; "!" for a second
// outside the engine; "go name" for a branch with a step; "async name"; "child"; "fail"; "panic";
// "again" to continue as new.
func order(did func(string), ops ...string) *perdure.Workflow[int, string] {
	var w *perdure.Workflow[int, string]
	listens := perdure.Listener{Statuses: []journal.Status{journal.Completed, journal.Confirmed},
		Call: func(context.Context, perdure.Ended) error {
			did("listener")
			return nil
		}}
	opts := []perdure.WorkflowOption{listens}
	if slices.Contains(ops, "by name") {
		opts = append(opts, perdure.ByName)
	}
	w = perdure.Define("order", func(ctx context.Context, n int) (string, error) {
		out := ""
		step := func(name string) func(context.Context) (string, error) {
			return func(context.Context) (string, error) {
				did(name)
				return name, nil
			}
		}
		for _, op := range ops {
			var s string
			var err error
			var name string
			switch {
			case op == "by name":
			case op == "?":
				s, err = goOn.Wait(ctx)
			case op == "~":
				err = perdure.Sleep(ctx, month)
			case op == "^":
				i, _ := perdure.InfoOf(ctx)
				err = perdure.SleepUntil(ctx, i.Started.Add(time.Hour))
			case op == "!":
				<-time.After(time.Second)
			case op == "child":
				s, err = w.Child(ctx, n+1).Await(ctx)
			case op == "fail":
				return "", errDown
			case op == "panic":
				panic(op)
			case op == "again":
				return out, perdure.ContinueAsNew(ctx, n+1)
			case sscan(op, "go %s", &name):
				s, err = perdure.Go(ctx, name, func(ctx context.Context) (string, error) {
					return perdure.Step(ctx, "within", step(name))
				}).Await(ctx)
			case sscan(op, "async %s", &name):
				perdure.Async(ctx, name, func(ctx context.Context) (string, error) {
					<-ctx.Done()
					return "", nil
				})
			default:
				s, err = perdure.Step(ctx, op, step(op))
			}
			if err != nil {
				return out, err
			}
			out += s + ";"
		}
		return out, nil
	}, opts...)
	return w
}

func sscan(s, format string, to *string) bool {
	n, err := fmt.Sscanf(s, format, to)
	return n == 1 && err == nil
}

// recorded returns the history of a run of these operations, after a month and two days in which
// go-on was sent, and then calls act.
func recorded(t *testing.T, act func(*perduretest.Env, *perduretest.Run[string]),
	ops ...string) []byte {
	t.Helper()
	var history []byte
	code := order(func(string) {}, ops...)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, code, 1)
		env.Sleep(24 * time.Hour)
		if slices.Contains(ops, "?") {
			perduretest.Send(env, goOn, run.ID(), "went on")
		}
		env.Sleep(month + 24*time.Hour)
		if act != nil {
			act(env, run)
		}
		var err error
		history, err = perduretest.Export(env.Context(), env.Engine().Client, run.RunID())
		if err != nil {
			t.Fatal(err)
		}
	}, code)
	return history
}

// spec: B-13
func TestReplayTellsWhatCodeDoesOtherwise(t *testing.T) {
	cancel := func(_ *perduretest.Env, run *perduretest.Run[string]) { run.Cancel("enough") }
	all := []string{"a", "go b", "?", "~", "c"}
	for _, c := range []struct {
		name    string
		was     []string
		act     func(*perduretest.Env, *perduretest.Run[string])
		now     []string
		differs []string
		status  journal.Status
	}{
		{name: "the same", was: all, now: all, status: journal.Completed},
		{name: "the same that waits", was: []string{"a", "~", "?", "?"}, now: []string{
			"a", "~", "?", "?",
		}, status: journal.Waiting},
		{name: "more after what is recorded", was: []string{"a", "?", "?"}, now: []string{
			"a", "?", "?", "b",
		}, status: journal.Waiting},
		{
			name:    "a step in between",
			was:     all,
			now:     []string{"a", "x", "go b", "?", "~", "c"},
			differs: []string{"new x"},
			status:  journal.Suspended,
		},
		{
			name:    "a step in between, by name",
			was:     all,
			now:     []string{"by name", "a", "x", "go b", "?", "~", "c"},
			differs: []string{"new x"},
			status:  journal.Running,
		},
		{
			name:    "a step renamed",
			was:     []string{"a", "b", "c"},
			now:     []string{"a", "x", "c"},
			differs: []string{"new x"},
			status:  journal.Suspended,
		},
		{
			name:    "a wait in between",
			was:     []string{"a", "b"},
			now:     []string{"a", "?", "b"},
			differs: []string{"new go-on"},
			status:  journal.Suspended,
		},
		{
			name:    "a branch in between",
			was:     []string{"a", "b"},
			now:     []string{"a", "go x", "b"},
			differs: []string{"new x"},
			status:  journal.Suspended,
		},
		{name: "an async step in between", was: []string{"a", "b"}, now: []string{
			"a", "async x", "b",
		}, differs: []string{"new x"}, status: journal.Suspended},
		{
			name:    "a child in between",
			was:     []string{"a", "b"},
			now:     []string{"a", "child", "b"},
			differs: []string{"new order"},
			status:  journal.Suspended,
		},
		{
			name:    "a step at the end",
			was:     all,
			now:     append(slices.Clone(all), "x"),
			differs: []string{"new x"},
			status:  journal.Running,
		},
		{name: "a sleep in between", was: []string{"a", "?", "c"}, now: []string{
			"by name", "a", "~", "?", "c",
		}, differs: []string{"new sleep", "outcome"}, status: journal.Waiting},
		{name: "a wait for what has passed", was: []string{"a", "?", "c"}, now: []string{
			"by name", "a", "?", "^", "c",
		}, differs: []string{"new sleep", "outcome"}, status: journal.Completed},
		{
			name:   "code that blocks outside the engine",
			was:    []string{"a", "!", "?", "?"},
			now:    []string{"a", "!", "?", "?"},
			status: journal.Waiting,
		},
		{name: "a step less", was: all, now: []string{"go b", "?", "~", "c"}, differs: []string{
			"unused a", "outcome",
		}, status: journal.Completed},
		{name: "a branch less", was: all, now: []string{"a", "?", "~", "c"}, differs: []string{
			"unused b", "outcome",
		}, status: journal.Completed},
		{name: "a step less before it waits", was: []string{"a", "b", "?", "?"}, now: []string{
			"b", "?", "?",
		}, differs: []string{"unused a"}, status: journal.Waiting},
		{name: "another kind", was: all, now: []string{"a", "b", "?", "~", "c"}, differs: []string{
			"mismatch",
		}, status: journal.Suspended},
		{
			name:    "an error",
			was:     []string{"a", "b"},
			now:     []string{"a", "b", "fail"},
			differs: []string{"outcome"},
			status:  journal.Failed,
		},
		{
			name:   "the same error",
			was:    []string{"a", "fail"},
			now:    []string{"a", "fail"},
			status: journal.Failed,
		},
		{
			name:    "a panic",
			was:     []string{"a", "b"},
			now:     []string{"a", "b", "panic"},
			differs: []string{"outcome"},
			status:  journal.Waiting,
		},
		{
			name:   "the same panic",
			was:    []string{"a", "panic"},
			now:    []string{"a", "panic"},
			status: journal.Waiting,
		},
		{name: "a panic that is mended", was: []string{"a", "panic"}, now: []string{
			"a",
		}, status: journal.Completed},
		{name: "a run that was cancelled", was: []string{"a", "?", "?"}, act: cancel, now: []string{
			"a", "?", "?",
		}, status: journal.Waiting},
		{
			name:    "one that was cancelled and ends by itself",
			was:     []string{"a", "?", "?"},
			act:     cancel,
			now:     []string{"a", "?"},
			differs: []string{"unused go-on#2", "outcome"},
			status:  journal.Completed,
		},
		{name: "an async step that ends with its run", was: []string{"async a", "b"}, now: []string{
			"async a", "b",
		}, status: journal.Completed},
		{name: "one that continues as new", was: []string{"a", "?", "again"}, now: []string{
			"a", "?", "again",
		}, status: journal.ContinuedAsNew},
		{
			name:    "one that continues as new and does less before",
			was:     []string{"a", "?", "again"},
			now:     []string{"?", "again"},
			differs: []string{"unused a"},
			status:  journal.ContinuedAsNew,
		},
		{name: "one that continues no more", was: []string{"a", "?", "again"}, now: []string{
			"a", "?",
		}, differs: []string{"outcome"}, status: journal.Completed},
		{name: "a child that is not there", was: []string{"a", "b"}, now: []string{
			"by name", "a", "child", "b",
		}, differs: []string{"new order", "outcome"}, status: journal.Waiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			history := recorded(t, c.act, c.was...)
			var did ledger
			r := perduretest.Replay(t, history, order(did.add, c.now...))
			var got []string
			for _, d := range r.Differences {
				s := string(d.Kind)
				if d.Path != "" {
					s += " " + d.Path
				}
				got = append(got, s)
			}
			if !slices.Equal(got, c.differs) || r.Status != c.status {
				t.Errorf("want %v by %q, and got: %v", c.status, c.differs, r)
			}
			if len(did.lines) > 0 {
				t.Errorf("it has executed %q", did.lines)
			}
			r.Fits(c.differs...)
		})
	}
}

// spec: B-13
func TestStrictReplayTellsWhatTheSameBuildMustNotDo(t *testing.T) {
	was := []string{"a", "b", "?"}
	history := recorded(t, nil, was...)
	none := func(string) {}
	perduretest.ReplayStrictly(t, history, order(none, was...)).Fits()
	r := perduretest.ReplayStrictly(t, history, order(none, "a", "?"))
	r.Fits("mismatch")
	wants(t, r.String(), `mismatch: the code ends, the journal records a step "b" as entry`)
	perduretest.Replay(t, history, order(none, "b", "a", "?")).Fits("outcome")
}

// spec: B-13
func TestReplayThatDoesNotFitFailsTheTest(t *testing.T) {
	history := recorded(t, nil, "a", "b")
	r := perduretest.Replay(t, history, order(func(string) {}, "a", "x", "b"))
	said := perduretest.FakeFits(r, "new y")
	wants(t, said, "the code does not fit the history: new x",
		"the code does not differ as accepted: new y")
	if said := perduretest.FakeFits(r, "new x"); said != "" {
		t.Error(said)
	}
}

// spec: B-13
func TestAReplayThatComesToAFailureNamesItAndItsStep(t *testing.T) {
	code := func(waits bool) *perdure.Workflow[int, int] {
		return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
				return 0, errDown
			}, perdure.NoRetry)
			if waits {
				return 0, perdure.Sleep(ctx, month)
			}
			return 0, err
		})
	}
	var history []byte
	waits := code(true)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, waits, 1)
		env.Sleep(time.Hour)
		var err error
		history, err = perduretest.Export(env.Context(), env.Engine().Client, run.RunID())
		if err != nil {
			t.Fatal(err)
		}
		run.Cancel("enough")
	}, waits)
	r := perduretest.Replay(t, history, code(false))
	wants(t, r.String(), "the history ends WAITING, the code came to FAILED: step charge: "+
		errDown.Error())
}

// spec: B-13
func TestEveryHistoryThatCrashesLeaveIsReplayed(t *testing.T) {
	ops := []string{"a", "go b", "?", "~", "async d", "c"}
	var histories [][]byte
	code := order(func(string) {}, ops...)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, code, 1)
		env.Sleep(time.Hour)
		perduretest.Send(env, goOn, run.ID(), "went on")
		run.Returns("a;b;went on;;;c;")
		err := env.Do(func(eng *perdure.Engine) error {
			h, err := perduretest.Export(env.Context(), eng.Client, run.RunID())
			if err == nil {
				histories = append(histories, h)
			}
			return err
		})
		return err
	}, code)
	for _, h := range histories {
		perduretest.Replay(t, h, code).Fits()
		perduretest.ReplayStrictly(t, h, code).Fits()
	}
	if len(histories) < 10 {
		t.Errorf("there are %d histories", len(histories))
	}
}

// spec: B-13
func TestLargePayloadsAreInTheHistory(t *testing.T) {
	large := perdure.Define("large", func(ctx context.Context, n int) (string, error) {
		return perdure.Step(ctx, "make", func(context.Context) (string, error) {
			return strings.Repeat("x", n), nil
		})
	})
	var history []byte
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, large, 300_000)
		if _, err := run.Result(); err != nil {
			t.Fatal(err)
		}
		var err error
		if history, err = perduretest.Export(env.Context(), env.Engine().Client,
			run.ID()); err != nil {
			t.Fatal(err)
		}
	}, large)
	name := filepath.Join(t.TempDir(), "large.jsonl")
	if err := os.WriteFile(name, history, 0o600); err != nil {
		t.Fatal(err)
	}
	r := perduretest.ReplayFile(t, name, large)
	if r.Fits(); r.Status != journal.Completed {
		t.Error(r)
	}
}

// spec: B-13
func TestTimerThatMovedAlongIsNotMissedBeforeCodeAsksForIt(t *testing.T) {
	chain := perdure.Define("chain", func(ctx context.Context, n int) (string, error) {
		if n == 0 {
			perdure.Timer(ctx, "limit", 48*time.Hour)
			return "", perdure.ContinueAsNew(ctx, 1)
		}
		if _, err := goOn.Wait(ctx); err != nil {
			return "", err
		}
		_, err := perdure.Timer(ctx, "limit", time.Hour).Await(ctx)
		return "done", err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		run := perduretest.Start(env, chain, 0)
		run.Waits("go-on")
		run.Waits("limit")
		perduretest.Send(env, goOn, run.ID(), "go")
		run.Returns("done")
		if took := time.Since(began); took != 48*time.Hour {
			t.Errorf("it took %v", took)
		}
	}, chain)
	var history []byte
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, chain, 0)
		env.Settle()
		var err error
		if history, err = perduretest.Export(env.Context(), env.Engine().Client,
			run.ID()); err != nil {
			t.Fatal(err)
		}
	}, chain)
	perduretest.Replay(t, history, chain).Fits()
	perduretest.ReplayStrictly(t, history, chain).Fits()
}
