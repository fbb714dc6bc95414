package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
)

func nothing(context.Context, int) (int, error) { return 0, nil }

// spec: F-2, F-8, F-13, F-4
func TestASagaWithIssuesIsRefusedWithAllOfThem(t *testing.T) {
	type two struct {
		A int `perdure:"step=nobody"`
		B int `perdure:"variable=x,step=ok"`
	}
	other := saga.New[int]("other")
	foreign := saga.Add(other, "ok", nothing)
	def := saga.New[int]("saga").Policy("ODD").OnUndoError(nil).
		On(pattern.Callback{Steps: []string{"gone"}})
	ok := saga.Add(def, "ok", nothing)
	saga.Add(def, "dup", nothing).After(ok, nil, (*saga.Step[int, int])(nil), foreign)
	saga.Add(def, "dup", nothing)
	saga.Add[int, int, int](def, "none", nil).Undo(nil).Retry(perdure.Retry{Attempts: -1}).
		UndoTimeout(-1)
	saga.Add(def, "a b", nothing).Variable("x y").Event(pattern.StepEvent{Type: "no type"})
	saga.Add(def, "undo:ok", nothing)
	saga.Add(def, "perdure:own", nothing)
	saga.Add(def, "compensate", nothing).Key("a[b]")
	saga.Add(def, strings.Repeat("x", 252), nothing)
	saga.Add(def, "tags", func(context.Context, two) (int, error) { return 0, nil }).
		Named(func(two) string { return "" })
	twice := saga.Add(def, "twice", nothing).Undo(func(context.Context, int, int) error {
		return nil
	})
	saga.UndoWith(twice, func(context.Context, two) (int, error) { return 0, nil })
	each := saga.AddEach(def, "each", func(int) []int { return nil }, nothing).
		Named(func(int) string { return "" })
	saga.Add(def, "each[x]", nothing).After(each)
	saga.AddEach[int, int, int](def, "listless", nil, nothing).Named(nil)
	err := newEngine(t).Register(def)
	for _, want := range []string{
		`policy: there is no policy "ODD"`, "handler: a nil handler",
		`callbacks.0: there is no step "gone"`, "callbacks.0: exactly one of",
		"dup.after: a nil step", "dup.after: step ok is one of saga other",
		"dup: two steps have this name", "none: a step needs a function",
		"none.undo: a compensation needs a function",
		"ERROR: none.undo.timeout: a timeout of -1ns is not valid",
		"ERROR: none.retry: Attempts -1 is not valid",
		`a b: ID "a b" is not valid`, `a b.variable: variable "x y" is not valid`,
		`a b.event: event type "no type" is not valid`, `undo:ok: an ID cannot begin with "undo:"`,
		`perdure:own: an ID cannot begin with "perdure:"`,
		`compensate: ID "compensate" is reserved`, "compensate.key: a key must not end with ]",
		`xx…" is not valid: allowed are 1 to 250 of`, `tags.A: there is no step "nobody"`, "tags.B: two sources",
		"tags.named: only clones have suffixes",
		"twice.undo: two compensations", `twice.undo.A: there is no step "nobody"`,
		`each[x]: ID "each[x]" is not valid`,
		"listless.items: a step over a list needs the list",
		"listless.named: the suffix needs a function",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if n := strings.Count(fmt.Sprint(err), "two steps have this name"); n != 1 {
		t.Errorf("an issue is told %d times", n)
	}
	if t.Failed() {
		t.Log(err)
	}
	if err := newEngine(t).Register(saga.New[int]("empty")); !errors.Is(
		err, &perdure.Error{Code: perdure.CodeTopology}) {
		t.Errorf("an empty saga: %v", err)
	}
}

// spec: F-8
func TestOddThingsAreWarnings(t *testing.T) {
	def := saga.New[int]("saga", perdure.Timeout(26*time.Hour))
	saga.Add(def, "a", nothing).Timeout(25 * time.Hour).Critical().
		Retry(perdure.Retry{First: 27 * time.Hour}).
		UndoRetry(perdure.Retry{Attempts: 300})
	eng, told := newEngine(t), 0
	if err := eng.Register(def); err != nil {
		t.Fatal(err)
	}
	strict, err := perdure.New(newStore(), perdure.Options{FailOnWarning: true})
	if err != nil {
		t.Fatal(err)
	}
	err = strict.Register(def)
	for _, want := range []string{
		"a.retry: a delay of 27h0m0s", "a.undo.retry: delays of 24h18m31s together",
		"a.timeout: a timeout of 25h0m0s for one attempt, which begins again after a crash: let " +
			"the run wait instead, by Sleep, a timer or a signal",
		"a.undo: it says how to compensate, and has no compensation",
	} {
		if strings.Contains(fmt.Sprint(err), "WARNING: "+want) {
			told++
		}
	}
	if strings.Contains(fmt.Sprint(err), "26h") {
		t.Errorf("a saga may take longer than a day: %v", err)
	}
	if told != 4 {
		t.Errorf("%d of 4 warnings are told: %v", told, err)
	}
}

// spec: F-28
func TestWhatIsAddedAfterRegistrationDoesNotCount(t *testing.T) {
	undone := 0
	def := saga.New[int]("saga")
	a := saga.Add(def, "a", nothing)
	b := saga.Add(def, "b", func(context.Context, int) (int, error) { return 0, errBroken }).
		After(a)
	perduretest.Test(t, func(env *perduretest.Env) {
		def.Policy("ODD").OnUndoError(nil).On(pattern.Callback{
			Failure: func(context.Context, error) (bool, error) { return true, nil },
		})
		b.Retry(perdure.Retry{Attempts: 5})
		a.Undo(func(context.Context, int, int) error {
			undone++
			return nil
		})
		saga.Add(def, "c", nothing)
		r := execute(env, def, 1)
		if got := statuses(r); got != "a DONE, b FAILED" || undone != 0 || r.Retries() != 0 ||
			r.Status != perdure.StatusFailed {
			env.Error(r.Status, got, undone, r.Retries())
		}
	}, def)
}

// An input under an unknown ID would leave a step without its input.
//
// spec: F-28
func TestInputsOfUnknownStepsAreRefused(t *testing.T) {
	def := saga.New[saga.Inputs]("order")
	saga.Add(def, "charge", func(context.Context, int) (int, error) { return 0, nil })
	saga.Add(def, "ship", func(context.Context, int) (int, error) { return 0, nil })
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		_, err := def.Child(ctx, saga.Inputs{"shipp": nil}).Await(ctx)
		return 0, err
	})
	wrong := saga.Inputs{
		"chrage": json.RawMessage("1"),
		"charge": json.RawMessage("1"),
		"sihp":   json.RawMessage("2"),
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		_, err := def.Execute(env.Context(), env.Engine(), wrong)
		_, byName := env.Engine().Start(env.Context(), "order", []byte(`{"chrage":1,"sihp":2}`))
		for how, err := range map[string]error{"by the saga": err, "by name": byName} {
			want :=
				`the inputs name steps that the saga does not have: "chrage", "sihp" (its steps are charge, ship)`
			if journal.CodeOf(err) != perdure.CodeInvalid || !strings.Contains(err.Error(), want) {
				env.Errorf("%s: %v", how, err)
			}
		}
		_, err = perduretest.Start(env, parent, 1).Result()
		if journal.CodeOf(err) != perdure.CodeInvalid || !strings.Contains(err.Error(), `"shipp"`) {
			env.Error("as a child:", err)
		}
		if r := execute(env, def, saga.Inputs{
			"ship": json.RawMessage("2"),
		}); r.Status != perdure.StatusCompleted {
			env.Error("inputs of some of the steps:", r.Err)
		}
	}, def, parent)
}

// spec: F-28
func TestEachStepCanHaveAnInputOfItsOwn(t *testing.T) {
	got := map[string]string{}
	see := func(id string) func(context.Context, string) (string, error) {
		return func(_ context.Context, in string) (string, error) {
			got[id] += in
			return "", nil
		}
	}
	def := saga.New[saga.Inputs]("saga")
	a := saga.Add(def, "a", see("a"))
	b := saga.Add(def, "b", see("b")).After(a).Undo(func(_ context.Context, in, _ string) error {
		got["undo b"] = in
		return nil
	})
	c := saga.AddEach(def, "c", func(in saga.Inputs) []json.RawMessage {
		var items []json.RawMessage
		_ = json.Unmarshal(in["c"], &items)
		return items
	}, func(_ context.Context, item json.RawMessage) (int, error) {
		got["c"] += string(item)
		return 1, nil
	}).After(b)
	saga.Add(def, "d", func(context.Context, string) (int, error) { return 0, errBroken }).After(c)
	perduretest.Test(t, func(env *perduretest.Env) {
		execute(env, def, saga.Inputs{"a": []byte(`"A"`), "b": []byte(`"B"`), "c": []byte(`[1]`)})
		want := map[string]string{"a": "A", "b": "B", "undo b": "B", "c": "1"}
		if !reflect.DeepEqual(got, want) {
			env.Errorf("the inputs are %v, want %v", got, want)
		}
	}, def)
}

// Two sagas may share functions.
//
// spec: F-28
func TestSagasOfOneProgramDoNotMeet(t *testing.T) {
	keys := map[string]int{}
	do := func(ctx context.Context, in int) (int, error) {
		keys[perdure.IdempotencyKey(ctx)]++
		return in, nil
	}
	build := func(name string) (*saga.Saga[int], *saga.Step[int, int]) {
		def := saga.New[int](name)
		return def, saga.Add(def, "step", do)
	}
	one, first := build("one")
	two, second := build("two")
	perduretest.Test(t, func(env *perduretest.Env) {
		a, b := execute(env, one, 1), execute(env, two, 2)
		x, _, _ := first.Of(a)
		y, _, _ := second.Of(b)
		if x != 1 || y != 2 || len(keys) != 2 || a.FirstFailed() != "" {
			env.Error(x, y, keys)
		}
	}, one, two)
}

// spec: F-34, F-29
func TestWhatGoesWrongInTheUsersCodeFailsItsStep(t *testing.T) {
	for what, c := range map[string]struct {
		fn   func(context.Context, int) (any, error)
		says string
	}{
		"a panic": {
			func(context.Context, int) (any, error) { panic("odd") },
			"panicked: odd",
		},
		"a result that does not encode": {
			func(context.Context, int) (any, error) { return func() {}, nil },
			"does not encode",
		},
		"an error": {
			func(context.Context, int) (any, error) { return nil, errBroken },
			"broken",
		},
	} {
		t.Run(what, func(t *testing.T) {
			undone := 0
			def := saga.New[int]("saga")
			a := saga.Add(def, "a", nothing).Undo(func(context.Context, int, int) error {
				undone++
				return nil
			})
			saga.Add(def, "b", c.fn).After(a)
			perduretest.Test(t, func(env *perduretest.Env) {
				r := execute(env, def, 1)
				if r.FirstFailed() != "b" || undone != 1 || r.Err == nil ||
					!strings.Contains(r.Err.Error(), c.says) {
					env.Errorf("%s has failed, %d undone: %v", r.FirstFailed(), undone, r.Err)
				}
			}, def)
		})
	}
}

// spec: F-6, F-28
func TestTimeoutsOfStepsAndOfCompensations(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	def := saga.New[int]("saga")
	a := saga.Add(def, "a", nothing).Timeout(time.Second).UndoTimeout(time.Minute).
		Undo(func(ctx context.Context, _, _ int) error { return hang(ctx) })
	b := saga.Add(def, "b", nothing).Timeout(2 * time.Second).After(a).
		Undo(func(ctx context.Context, _, _ int) error { return hang(ctx) })
	saga.Add(def, "c", func(ctx context.Context, _ int) (int, error) { return 0, hang(ctx) }).
		Timeout(4 * time.Second).After(b)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, 1)
		if got := statuses(r); got != "a COMPENSATION_FAILED, b COMPENSATION_FAILED, c TIMED_OUT" {
			env.Error(got)
		}
		if r.Undo == nil || r.Undo.All || r.Undo.Duration != time.Minute+5*time.Minute ||
			r.Duration != r.Undo.Duration+4*time.Second {
			env.Errorf("it took %v, and %+v", r.Duration, r.Undo)
		}
		var timedOut *pattern.StepError
		if !errors.As(r.Err, &timedOut) ||
			!errors.Is(r.Err, &perdure.Error{Code: perdure.CodeTimedOut}) {
			env.Errorf("it ended with %v", r.Err)
		}
	}, def)
}

// spec: F-30, F-5
func TestACompensationRetriesByItsOwnPolicyElseThatOfItsStep(t *testing.T) {
	for _, own := range []bool{false, true} {
		var began time.Time
		var at []time.Duration
		def := saga.New[int]("saga").Policy(saga.RetryWithBackoff)
		a := saga.Add(def, "a", nothing).Retry(perdure.Retry{
			Attempts: 3, First: time.Second, Factor: 3,
		}).Undo(func(context.Context, int, int) error {
			if began.IsZero() {
				began = time.Now()
			}
			at = append(at, time.Since(began))
			return errBroken
		})
		want := "[0s 1s 4s]"
		if own {
			a.UndoRetry(perdure.Retry{Attempts: 2, First: 2 * time.Minute})
			want = "[0s 2m0s]"
		}
		saga.Add(def, "b", func(context.Context, int) (int, error) { return 0, errBroken }).After(a)
		perduretest.Test(t, func(env *perduretest.Env) {
			r := execute(env, def, 1)
			if fmt.Sprint(at) != want || r.Undo.Steps[0].Attempts != len(at) {
				env.Errorf("own %v: tried at %v, want %v; reported %+v", own, at, want,
					r.Undo.Steps)
			}
		}, def)
	}
}

// spec: F-4, F-32
func TestACompensationByTagsGetsWhatOthersGave(t *testing.T) {
	type charge struct {
		In     int    `perdure:"input"`
		Paid   string `perdure:"step=charge,required"`
		Gone   string `perdure:"undo=ship"`
		Why    error  `perdure:"undo-error=mail"`
		Tenant string `perdure:"header=tenant"`
	}
	var got charge
	def := saga.New[int]("saga")
	first := saga.Add(def, "charge", func(context.Context, int) (string, error) {
		return "paid", nil
	})
	saga.UndoWith(first, func(_ context.Context, c charge) (string, error) {
		got = c
		return "refunded", nil
	})
	ship := saga.Add(def, "ship", nothing).After(first)
	saga.UndoWith(ship, func(context.Context, int) (string, error) { return "returned", nil })
	mail := saga.Add(def, "mail", nothing).After(ship).Undo(func(context.Context, int, int) error {
		return errBroken
	})
	saga.Add(def, "last", func(context.Context, int) (int, error) { return 0, errBroken }).
		After(mail)
	perduretest.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, 7, perdure.Headers{"tenant": "t"})
		if got.In != 7 || got.Paid != "paid" || got.Gone != "returned" || got.Tenant != "t" ||
			got.Why == nil || got.Why.Error() != "broken" {
			env.Errorf("it got %+v", got)
		}
		if u := r.Undo.Steps[2]; u.ID != "charge" || string(u.Result) != `"refunded"` {
			env.Errorf("the report has %+v", u)
		}
	}, def)
}

// spec: F-31
func TestNamedHandlers(t *testing.T) {
	show := func(h saga.Handler) (out string) {
		for retries := range 5 {
			out += fmt.Sprint(h(saga.UndoError{Retries: retries}), " ")
		}
		return out
	}
	for name, want := range map[string]string{
		"default":          "CONTINUE CONTINUE CONTINUE CONTINUE CONTINUE ",
		"log-and-continue": "CONTINUE CONTINUE CONTINUE CONTINUE CONTINUE ",
		"fail-fast":        "FAIL_SAGA FAIL_SAGA FAIL_SAGA FAIL_SAGA FAIL_SAGA ",
		"retry":            "RETRY RETRY RETRY FAIL_SAGA FAIL_SAGA ",
		"robust":           "RETRY RETRY RETRY CONTINUE CONTINUE ",
	} {
		h, err := saga.NamedHandler(name)
		if err != nil || show(h) != want {
			t.Errorf("%s: %s, %v", name, show(h), err)
		}
	}
	if _, err := saga.NamedHandler("odd"); !errors.Is(err, &perdure.Error{
		Code: perdure.CodeNotFound,
	}) {
		t.Errorf("a handler that is not there: %v", err)
	}
	skip := func(e saga.UndoError) saga.Action {
		if e.Retries == 1 {
			return saga.SkipStep
		}
		return saga.Continue
	}
	if got := show(saga.OneOf(skip, saga.Robust)); got != "RETRY SKIP_STEP RETRY CONTINUE "+
		"CONTINUE " {
		t.Errorf("a composition answers %s", got)
	}
}

// spec: F-31
func TestAHandlerIsToldTheTrueAttemptAndAPanicInItPassesOver(t *testing.T) {
	var told []string
	def := saga.New[int]("saga").Policy(saga.RetryWithBackoff).OnUndoError(
		func(e saga.UndoError) saga.Action {
			told = append(told, fmt.Sprintf("%s/%s attempt %d, %d asked for: %v", e.Saga, e.Step,
				e.Attempt, e.Retries, errors.Is(e.Err, errBroken)))
			if len(told) == 3 {
				panic("odd")
			}
			return saga.Retry
		})
	a := saga.Add(def, "a", nothing).Retry(perdure.Retry{Attempts: 2}).
		Undo(func(context.Context, int, int) error { return errBroken })
	saga.Add(def, "b", func(context.Context, int) (int, error) { return 0, errBroken }).After(a)
	if err := perdure.RegisterError("saga-test-broken", errBroken); err != nil {
		t.Fatal(err)
	}
	perduretest.Setup{
		Workflows: []perdure.Definition{def},
		Options:   perdure.Options{IdleTimeout: time.Hour},
	}.Test(t, func(env *perduretest.Env) {
		r := execute(env, def, 1)
		want := []string{
			"saga/a attempt 2, 0 asked for: true", "saga/a attempt 3, 1 asked for: true",
			"saga/a attempt 4, 2 asked for: true",
		}
		if !reflect.DeepEqual(told, want) || r.Status != perdure.StatusFailed ||
			r.Undo.Steps[0].Attempts != 4 {
			env.Errorf("told %q, want %q; %v %+v", told, want, r.Status, r.Undo.Steps)
		}
	})
}

// A compensation that hangs has failed after five minutes by default, and a callback that hangs is
// given up: neither keeps a saga from its end. If the saga parks, an operator decides.
//
// spec: F-29, F-31, F-9
func TestWhatHangsDoesNotHoldASagaForGood(t *testing.T) {
	for _, parks := range []bool{false, true} {
		var hang chan struct{}
		def := saga.New[int]("saga")
		a := saga.Add(def, "a", nothing).Undo(func(context.Context, int, int) error {
			<-hang
			return nil
		})
		saga.Add(def, "b", func(context.Context, int) (int, error) { return 0, errBroken }).After(a)
		called := false
		def.On(pattern.Callback{Failure: func(context.Context, error) (bool, error) {
			<-hang
			return true, nil
		}})
		def.On(pattern.Callback{Async: true, Failure: func(context.Context, error) (bool, error) {
			<-hang
			return true, nil
		}})
		def.On(pattern.Callback{Priority: 1, Failure: func(context.Context, error) (bool, error) {
			called = true
			return false, nil
		}})
		if parks {
			def.ParkOnUndoError()
		}
		perduretest.Test(t, func(env *perduretest.Env) {
			hang = make(chan struct{})
			defer close(hang)
			run := perduretest.Start(env, def.Workflow, 1)
			if parks {
				env.Sleep(5*time.Minute + time.Second)
				run.Is(journal.CompensationFailed)
				if err := env.Engine().Decide(env.Context(), run.ID(), "undo:a",
					perdure.Decision{Choice: "handled"}); err != nil {
					env.Error(err)
				}
			}
			_, err := run.Result()
			if blame(err) != "step b" || !called {
				env.Errorf("it ended with %v, and the callback after those that hang was "+
					"called: %v", err, called)
			}
		}, def)
	}
}
