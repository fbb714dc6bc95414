package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// even is a form for even numbers.
type even struct{}

func (even) Schema() json.RawMessage { return json.RawMessage(`{"multipleOf":2}`) }
func (even) Check(data json.RawMessage) error {
	var n int
	if err := json.Unmarshal(data, &n); err != nil || n%2 != 0 {
		return fmt.Errorf("%s is not even", data)
	}
	return nil
}

// expense asks for a decision, and each end of that has a route.
func expense() *machine.Machine[int] {
	m := machine.New[int]("expense", "decide")
	machine.Add(m, "decide", func(ctx context.Context, in int) (machine.Action, error) {
		out, decided := machine.DecisionOf(ctx, "boss")
		switch {
		case !decided:
			return machine.WaitForApproval(approval.Ask{Key: "boss", Role: "manager"}).
				Within(time.Hour, "late"), nil
		case out.IsApproved():
			return machine.Complete(out.Last().Data).To("pay"), nil
		}
		return machine.Complete(in).To("reject"), nil
	}).Form(even{}).To("pay", "reject", "late")
	machine.Add(m, "pay", plus(0))
	machine.Add(m, "reject", plus(1000))
	machine.Add(m, "late", plus(2000))
	return m
}

// spec
func TestApproveRejectAndDeadlineEachTakeTheirRoute(t *testing.T) {
	for name, c := range map[string]struct {
		decision *approval.Decision
		want     string
	}{
		"approve":  {&approval.Decision{Approved: true, Data: json.RawMessage("8")}, "8"},
		"reject":   {&approval.Decision{Data: json.RawMessage("8")}, "1001"},
		"deadline": {nil, "2001"},
	} {
		t.Run(name, func(t *testing.T) {
			m := expense()
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
				env.Settle()
				run.Is(journal.Waiting)
				if err := env.Do(func(eng *perdure.Engine) error {
					d, err := eng.Describe(env.Context(), "x")
					if want := "it waits for approval boss, which"; err == nil &&
						!strings.HasPrefix(d.Why, want) {
						t.Errorf("the reason is %q, want %s …", d.Why, want)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				decide := func(d approval.Decision) error {
					return env.Do(func(eng *perdure.Engine) error {
						_, err := approval.Decide(env.Context(), eng, "x", "boss", d)
						return err
					})
				}
				for role, code := range map[string]journal.Code{
					"clerk": journal.CodeUnauthorised, "": journal.CodeUnauthorised,
				} {
					err := decide(approval.Decision{Approved: true, By: "eve", Role: role})
					var refused *perdure.Error
					if !errors.As(err, &refused) || refused.Code != code {
						t.Errorf("role %q: %v", role, err)
					}
				}
				if err := decide(approval.Decision{
					Approved: true, By: "ann", Role: "manager", Data: json.RawMessage("7"),
				}); err == nil {
					t.Error("odd data is accepted")
				}
				run.Is(journal.Waiting)
				if d := c.decision; d != nil {
					d.By, d.Role = "ann", "manager"
					// after a crash it may hear that the decision counts already, or that the run
					// has ended; the result of the run shows whether it counts
					if err := decide(*d); err != nil {
						t.Log(err)
					}
				}
				out, err := run.Result()
				if err != nil || string(out) != c.want {
					t.Errorf("it returns %s, %v", out, err)
				}
				return string(out)
			}, m)
		})
	}
}

// spec
func TestEachBranchHasItsOwnAsk(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "decide", "x"),
		machine.BranchOf("y", "decide", "y"), machine.BranchOf("z", "decide", "z")))).
		Split("decide").To("sum")
	machine.Add(m, "decide", func(ctx context.Context, key string) (machine.Action, error) {
		out, over := machine.DecisionOf(ctx, key)
		if !over {
			return machine.WaitForApproval(approval.Ask{Key: key, Quorum: 2, Of: 3}), nil
		}
		return machine.Complete(fmt.Sprint(out.Status, " by ", out.Last().By)), nil
	})
	machine.Add(m, "sum", func(_ context.Context, in map[string]string) (machine.Action, error) {
		return machine.Complete(fmt.Sprint(in)), nil
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
		env.Settle()
		for i, d := range []string{"z+ann", "x+ann", "z+bob", "y-ann", "x+bob", "y-bob"} {
			if err := env.Do(func(eng *perdure.Engine) error {
				_, err := approval.Decide(env.Context(), eng, "x", d[:1], approval.Decision{
					Approved: d[1] == '+', By: d[2:],
				}, perdure.SendKey(fmt.Sprint(i)))
				return err
			}); err != nil {
				t.Errorf("%s: %v", d, err)
			}
		}
		run.Returns([]byte(`"map[x:approved by bob y:rejected by bob z:approved by bob]"`))
		return nil
	}, m)
}

// spec
func TestTwoBranchesWithOneKeyAreRefused(t *testing.T) {
	m := machine.New[int]("m", "a").OnError("mend", &perdure.Error{Code: journal.CodeConflict})
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "decide", 1),
		machine.BranchOf("y", "decide", 2)))).Split("decide")
	machine.Add(m, "decide", returns(machine.WaitForApproval(approval.Ask{Key: "k"}).
		Within(time.Hour, "late"))).To("late")
	machine.Add(m, "late", plus(0))
	machine.Add(m, "mend", func(ctx context.Context, in int) (machine.Action, error) {
		f, _ := machine.FailureOf(ctx)
		return machine.Complete(f.Step == map[int]string{
			1: "split.a[x]/decide", 2: "split.a[y]/decide",
		}[in]), nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		run.Returns([]byte("true"))
	}, m)
}

// spec
func TestTheAskOfAStepIsAsItSays(t *testing.T) {
	until := time.Date(2000, 1, 1, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ask    approval.Ask
		within time.Duration // of the action
		due    time.Duration // after the start, which is at midnight
	}{
		"no time":                     {approval.Ask{}, 0, 0},
		"that of the ask":             {approval.Ask{Within: time.Hour}, 0, time.Hour},
		"that of the action":          {approval.Ask{}, 2 * time.Hour, 2 * time.Hour},
		"the shorter one, of the ask": {approval.Ask{Within: time.Hour}, 2 * time.Hour, time.Hour},
		"the shorter one, of the action": {
			approval.Ask{Within: 2 * time.Hour}, time.Hour, time.Hour,
		},
		"a time of day": {approval.Ask{Until: until}, 0, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c.ask.Key, c.ask.Title = "k", "a claim"
			a := machine.WaitForApproval(c.ask)
			if c.within > 0 {
				a = a.Within(c.within, "late")
			}
			m := machine.New[int]("m", "a")
			machine.Add(m, "a", returns(a)).To("late")
			machine.Add(m, "late", plus(0))
			perduretest.Test(t, func(env *perduretest.Env) {
				perduretest.Start(env, m.Workflow, 1, perdure.ID("x"))
				env.Settle()
				var all []approval.State
				if err := env.Do(func(eng *perdure.Engine) (err error) {
					all, err = approval.States(env.Context(), eng, "x")
					return err
				}); err != nil {
					t.Fatal(err)
				}
				due := time.Time{}
				if c.due > 0 {
					due = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(c.due)
				}
				if len(all) != 1 || all[0].Title != "a claim" || !all[0].Due.Equal(due) {
					t.Errorf("the asks are %+v, want one that is due at %v", all, due)
				}
			}, m)
		})
	}
}
