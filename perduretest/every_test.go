package perduretest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

var helper = perdure.Define("helper", func(ctx context.Context, n int) (int, error) {
	return n + 1, perdure.Sleep(ctx, time.Hour)
})

// everything has one operation of each kind that a workflow can do.
var everything = perdure.Define("everything", func(ctx context.Context, n int) (string, error) {
	out := ""
	note := func(v any, err error) {
		out += fmt.Sprint(v)
		if err != nil {
			out += "!" + err.Error()
		}
		out += ";"
	}
	give := func(v int, d time.Duration) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			select {
			case <-time.After(d):
				return v, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
	}
	if err := perdure.OnCancel(ctx, "undo", func(ctx context.Context) error {
		_, err := perdure.Step(ctx, "undo", give(1, time.Minute))
		return err
	}); err != nil {
		return "", err
	}
	if err := perdure.Finally(ctx, "close", func(ctx context.Context) error {
		_, err := perdure.Step(ctx, "close", give(1, time.Minute))
		return err
	}); err != nil {
		return "", err
	}
	note(perdure.Now(ctx))
	note(perdure.Version(ctx, "change", 2))
	note(0, errors.Join(
		perdure.Publish(ctx, "state", n), perdure.SetPayload(ctx, n+1),
		perdure.SetAttribute(ctx, "color", "red"),
		pattern.Record(ctx, pattern.Fact{Kind: journal.StepSkipped, Name: "skipped"}),
	))
	child := helper.Child(ctx, n)
	timer := perdure.Timer(ctx, "limit", 48*time.Hour)
	retried := 0
	note(perdure.Step(ctx, "retried", func(ctx context.Context) (int, error) {
		if retried, _, _ = perdure.Attempt(ctx); retried < 3 {
			return 0, errGone
		}
		return perdure.Once(ctx, "kept", func() (int, error) { return 5, nil })
	}, perdure.Retry{Attempts: 4, First: time.Minute}))
	note(perdure.Step(ctx, "late", give(1, time.Hour), perdure.Timeout(time.Minute),
		perdure.NoRetry))
	short, cancel := context.WithTimeout(ctx, 10*time.Minute)
	_, err := goOn.Wait(short)
	cancel()
	note("short", err)
	slow, fast := perdure.Async(ctx, "race", give(1, 100*time.Hour)),
		perdure.Async(ctx, "race", give(2, time.Minute))
	note(perdure.Any(ctx, nil, slow, fast))
	note(slow.Cancel(ctx, "lost"))
	in, err := perdure.Scope(ctx, "scope")
	if err != nil {
		return "", err
	}
	note(perdure.Step(in, "inner", give(3, 0)))
	branch := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return perdure.Step(ctx, "inner", give(4, time.Minute), perdure.Key("k"))
	})
	note(goOn.Wait(ctx, perdure.Where(func(s string) bool { return s != "not this" })))
	note(goOn.Wait(ctx, perdure.Within(time.Hour)))
	note(goOn.Has(ctx))
	note(branch.Await(ctx))
	note(child.Await(ctx))
	_, err = timer.Await(ctx)
	note("timer", err)
	d, err := perdure.Park(ctx, "decide", "somebody must", "yes", "no")
	note(d.Choice, err)
	perdure.Async(ctx, "open", give(1, 100*time.Hour))
	note(perdure.Step(ctx, "last", give(9, time.Hour)))
	return out, nil
}, perdure.Timeout(30*24*time.Hour))

// live lets a run of everything come to its end, or cancels it at a given time, and calls look at
// each time at which something happens.
func live(env *perduretest.Env, cancelled time.Duration, look func(*perduretest.Run[string])) {
	run := perduretest.Start(env, everything, 1)
	at := time.Now()
	ask := func(call func(*perdure.Engine) error) {
		if err := env.Do(call); err != nil {
			env.Error(err)
		}
	}
	for _, what := range []struct {
		after time.Duration
		do    func()
	}{
		{0, func() {}},
		{30 * time.Second, func() {}},
		{2 * time.Minute, func() {}},
		{3*time.Minute + 30*time.Second, func() {}},
		{5 * time.Minute, func() {}},
		{14*time.Minute + 30*time.Second, func() {}},
		{2 * time.Hour, func() { perduretest.Send(env, goOn, run.ID(), "not this") }},
		{3 * time.Hour, func() { perduretest.Send(env, goOn, run.ID(), "this") }},
		{4 * time.Hour, func() {}},
		{5 * time.Hour, func() {
			ask(func(eng *perdure.Engine) error {
				return eng.CancelTimer(env.Context(), run.ID(), "limit", "not needed")
			})
		}},
		{6 * time.Hour, func() {
			ask(func(eng *perdure.Engine) error {
				return eng.Decide(env.Context(), run.ID(), "decide",
					perdure.Decision{Choice: "yes"})
			})
		}},
		{6*time.Hour + 30*time.Minute, func() {}},
		{7*time.Hour + 30*time.Second, func() {}},
		{8 * time.Hour, func() {}},
	} {
		if cancelled > 0 && what.after > cancelled {
			// Cancel returns when it is durable that the run ends, and the run has clean-ups.
			go run.Cancel("enough")
			env.Sleep(30 * time.Second)
			look(run)
			env.Sleep(time.Hour)
			look(run)
			return
		}
		env.Sleep(time.Until(at.Add(what.after)))
		what.do()
		env.Settle()
		look(run)
	}
}

// spec: B-13
func TestHistoriesOfEverythingAreReplayed(t *testing.T) {
	for _, cancelled := range []time.Duration{
		0, time.Second, 4 * time.Minute, 3 * time.Hour, 7 * time.Hour,
	} {
		t.Run(fmt.Sprint("cancelled after ", cancelled), func(t *testing.T) {
			var histories [][]byte
			perduretest.Test(t, func(env *perduretest.Env) {
				live(env, cancelled, func(run *perduretest.Run[string]) {
					h, err := perduretest.Export(env.Context(), env.Engine().Client, run.ID())
					if err != nil {
						t.Fatal(err)
					}
					histories = append(histories, h)
				})
			}, everything, helper)
			for i, h := range histories {
				for _, r := range []*perduretest.Replayed{
					perduretest.Replay(t, h, everything), perduretest.ReplayStrictly(t, h,
						everything),
				} {
					if r.Fits(); t.Failed() {
						t.Fatalf("history %d of %d:\n%s", i+1, len(histories), h)
					}
				}
			}
			last := perduretest.Replay(t, histories[len(histories)-1], everything)
			if !last.Recorded.IsTerminal() || last.Status != last.Recorded {
				t.Error(last)
			}
		})
	}
}
