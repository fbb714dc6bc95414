package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

// isTrue is a condition that holds if the input has a key.
type isTrue string

func (isTrue) Check() error { return nil }

func (c isTrue) Holds(_ context.Context, k pattern.View) (bool, error) {
	in, err := pattern.Decode[map[string]any](k.Input)
	return in[string(c)] != nil, err
}

// registry returns the values that the documents of the tests name.
func registry(d *diary) dag.Registry {
	return dag.Registry{
		Handlers: map[string]dag.Func{
			"check": dag.Handler(func(_ context.Context, in struct {
				Order string `perdure:"input=order,required"`
			}) (string, error) {
				d.note("check %s", in.Order)
				return in.Order, nil
			}),
			"note":  dag.Handler(d.notes("note")),
			"count": dag.Handler(func(context.Context, struct{}) (int, error) { return 0, nil }),
			"fail":  dag.Handler(does(0, errDown)),
			"needs": dag.Handler(func(context.Context, struct {
				A int `perdure:"step=check"`
			}) (int, error) {
				return 0, nil
			}),
			"nil": dag.Handler[int, int](nil),
		},
		Compensations: map[string]dag.Func{
			"refund": dag.Handler(func(_ context.Context, in struct {
				Receipt string `perdure:"step=result"`
			}) (int, error) {
				d.note("refund %s", in.Receipt)
				return 0, nil
			}),
		},
		Workflows: map[string]dag.Child{
			"billing": dag.ChildOf(perdure.Define("billing", bill)),
			"nil":     dag.ChildOf[int, int](nil),
		},
		Policies: map[string]backpressure.Policy{"one": backpressure.Limit(1), "nil": nil},
		Errors:   map[string]error{"down": errDown},
		Condition: func(text string) (pattern.Condition, error) {
			switch text {
			case "":
				return nil, errors.New("an empty condition")
			case "nil":
				return nil, nil
			}
			return isTrue(text), nil
		},
	}
}

func bill(_ context.Context, order string) (string, error) { return "bill of " + order, nil }

const whole = `{
	"name": "doc", "version": "3", "description": "sends orders", "mode": "BOTH", "trigger": "order.placed",
	"timeout": "72h", "retry": {"attempts": 2, "first": "1s", "cap": "5m", "factor": 2, "jitter": 0.1},
	"publish_events": true, "backpressure": "one", "output": "bill",
	"steps": [
		{"id": "check", "handler": "check", "undo": "refund", "timeout": "30s", "variable": "receipt", "retry": {"attempts": 1}},
		{"id": "gift", "handler": "note", "after": ["check"], "when": "gift", "async": true, "order": 1},
		{"id": "bill", "child": {"workflow": "billing", "input": "check", "any_outcome": true}, "after": ["check"],
		 "wait": {"signal": {"name": "packed", "within": "24h"}, "timer": {"name": "cool-off", "after": "1h"},
		          "any": {"within": "48h", "gates": [{"signal": "picked-up"}, {"timer": "evening", "after": "8h"}]}}},
		{"id": "told", "child": {"workflow": "billing", "input": "check", "detached": true}, "after": ["bill"]},
		{"id": "ship", "handler": "fail", "after": ["bill"], "when": "fails", "event": {"topic": "orders", "type": "shipped", "key": "order"}}
	]
}`

// The conditions are of a type of the test.
//
// spec: F-14, P-15
func TestAGraphIsReadFromADocument(t *testing.T) {
	var d diary
	g, err := dag.Read([]byte(whole), registry(&d))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(g.Name(), g.Layers()); got != "doc[[check] [bill gift] [told ship]]" {
		t.Error(got)
	}
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, w := range env.Engine().Workflows() {
			if got := fmt.Sprint(w.Outline.Version, w.Outline.Description, w.Outline.Trigger,
				w.Timeout); w.Name == "doc" && got != "3sends ordersorder.placed72h0m0s" {
				env.Error(got)
			}
		}
		run := perduretest.Start(env, g.Workflow,
			json.RawMessage(`{"order": "o-7", "fails": true}`))
		wantWaits(env, run.ID(), "signal gate:bill/packed")
		send(env, run.ID(), "packed", `1`)
		wantWaits(env, run.ID(), "timer gate:bill/cool-off")
		env.Sleep(time.Hour)
		wantWaits(env, run.ID(), "signal gate:bill/picked-up", "timer gate:bill/evening",
			"timer gate:bill/perdure:late")
		_, _ = run.Result()
		r := reportOf(env, run.ID())
		wantStatus(env, r, journal.Failed)
		wantSteps(env, r, "bill DONE, check COMPENSATED, gift SKIPPED, ship FAILED, told DONE")
		out, _, err := report.ResultOf[dag.ChildResult[string]](r.Run, "bill")
		if err != nil || out.Output != "bill of o-7" || variable(r, "receipt") != `"o-7"` {
			env.Errorf("the bill is %+v, %v", out, err)
		}
		if s, _ := r.Step("ship"); s.Attempts != 2 {
			env.Errorf("there were %d attempts", s.Attempts)
		}
		d.want(env, "check o-7", "refund o-7")
	}, g, perdure.Define("billing", bill))
}

// spec: F-8, F-14
func TestACompensationThatIsNotThereIsAWarning(t *testing.T) {
	g, err := dag.Read(
		[]byte(`{"name": "doc", "steps": [{"id": "a", "handler": "note", "undo": "gone"}]}`),
		registry(&diary{}))
	if err != nil {
		t.Fatal(err)
	}
	if got := register(t, g, perdure.Options{}); got != "" {
		t.Error(got)
	}
	g, _ = dag.Read(
		[]byte(`{"name": "doc", "steps": [{"id": "a", "handler": "note", "undo": "gone"}]}`),
		registry(&diary{}))
	wantIssues(t, register(t, g, perdure.Options{FailOnWarning: true}),
		"WARNING: a.undo: there is no compensation gone")
}

// spec: F-8, F-14
func TestWhatIsWrongWithADocumentIsToldAtOnceWithItsPlace(t *testing.T) {
	document := `{
		"name": "not a name", "mode": "SOMETIMES", "timeout": "-1h", "retry": {"attempts": 0, "factor": 0.5, "jitter": 2, "first": "-1s", "cap": 7, "on": ["gone", "down"], "times": 1},
		"concurrency": -1, "backpressure": "gone", "output": "nobody", "version": 3, "trigger": "a b", "trigger": "x", "surprise": 1,
		"steps": [
			{"id": "a", "handler": "gone", "timeout": "soon", "order": 1.5, "async": "yes", "when": "", "variable": null, "undo": "gone"},
			{"handler": "note"},
			{"id": "c", "handler": "note", "child": {"workflow": "billing"}, "after": ["c", "gone", 7], "retry": {"factor": 0.5}},
			{"id": "d", "child": {"input": "gone", "other": 1}, "event": {"type": "a b", "colour": "red"}},
			{"id": "d", "wait": {"signal": {"within": "-1s"}, "timer": {"name": "x"}, "all": {"gates": [{"signal": "x", "timer": "y"}, {}]}, "some": {}}},
			{"id": "e", "handler": "needs", "wait": {"all": {"gates": []}, "any": {"gates": [{"signal": "x"}]}}, "when": "nil"},
			{"id": "f.g", "handler": "nil", "timeout": "25h"},
			{"id": "h", "child": {"workflow": "nil"}, "after": "a"},
			{"id": "i", "child": {"workflow": "billing", "input": "b"}, "after": ["b"]}, {"id": "b", "handler": "count"},
			7
		]
	}`
	_, err := dag.Read([]byte(document), registry(&diary{}))
	var bad *definition.Error
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var lines []string
	for _, i := range bad.Issues {
		lines = append(lines, i.String())
	}
	slices.Sort(lines)
	wantIssues(t, strings.Join(lines, "\n"),
		`name: name "not a name" is not valid`, `mode: there is no mode "SOMETIMES"`,
		"timeout: -1h0m0s is not valid: at least 0",
		"retry.attempts: 0 is not valid: at least 1", "retry.factor: 0.5 is not valid: at least 1",
		"retry.jitter: 2 is not valid: at most 1", "retry.first: -1s is not valid: at least 0",
		"retry.cap: it must be a text", `retry.on.0: there is no "gone" here`,
		"ERROR: retry: On has an error that is not registered",
		"retry.times: this field is not known",
		"concurrency: -1 is not valid: at least 0", "backpressure: there is no \"gone\" here",
		"backpressure: set concurrency or backpressure, not both",
		"output: there is no step nobody",
		"version: it must be a text", `trigger: name "a b" is not valid`, "trigger: it is there twice",
		"surprise: this field is not known",
		`steps.0.handler: there is no "gone" here`, `steps.0.timeout: "soon" is no time`,
		"steps.0.order: it must be a whole number", "steps.0.async: it must be true or false",
		"steps.0.when: an empty condition", "steps.0.variable: it must be a text",
		"WARNING: steps.0.undo: there is no compensation gone",
		"steps.1.id: it is needed",
		"steps.2: it needs a handler or a child, not both", "steps.2: it follows itself",
		`steps.2: it follows "gone", which is not there`, "steps.2.after.2: it must be a text",
		"steps.2.retry.factor: 0.5 is not valid: at least 1",
		"steps.3.child.workflow: it is needed", "steps.3.child.input: there is no step gone",
		"steps.3.child.other: this field is not known", `steps.3.event.type: name "a b" is not valid`,
		"steps.3.event.colour: this field is not known",
		"steps.3: two steps have this name",
		"steps.4: it needs a handler or a child", "steps.4.wait.signal: it needs a name",
		"steps.4.wait.signal.within: -1s is not valid: at least 0",
		"steps.4.wait.some: this field is not known",
		"steps.4.wait.all.gates.0: it is a signal, or a timer",
		"steps.4.wait.all.gates.1: it is a signal, or a timer",
		`steps.5.A: there is no step "check"`, "steps.5.wait: it waits for nothing",
		"steps.5.wait: it waits for all and for any", "steps.5.when: it gives no condition",
		`steps.6.handler: there is no "nil" here`, "WARNING: steps.6.timeout: a timeout of 25h0m0s",
		`steps.7.child.workflow: there is no "nil" here`, "steps.7.after: it must be a list",
		"steps.8.child.input: the workflow's input is of type string, and the result of b of "+
			"type int",
		"steps.10: it is no JSON object", "steps.10: it needs a handler or a child",
		"steps.10.id: it is needed",
	)
	for _, document := range []string{
		"", "7", "null", "[]", `{"name": "a"`, `{"name": "a"} {}`, `{"name": "a", "steps": []}`,
		`{"name": 1e999}`,
	} {
		if g, err := dag.Read([]byte(document), dag.Registry{}); err == nil || g != nil {
			t.Errorf("%s gives %v, %v", document, g, err)
		}
	}
	if _,
		err := dag.Read(
		[]byte(`{"name": "a", "steps": [{"id": "a", "handler": "note", "when": "x"}]}`),
		dag.Registry{Handlers: registry(&diary{}).Handlers}); err == nil {
		t.Error("a condition is read by nothing")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(whole))
	f.Add(
		[]byte(
			`{"name": "a", "steps": [{"id": "a", "handler": "note", "after": ["a"]}, {"id": "a", "handler": "note", "after": ["b"]}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		g, err := dag.Read(document, registry(&diary{}))
		if (g == nil) == (err == nil) {
			t.Errorf("it gives %v and %v", g, err)
		}
		if err == nil {
			g.Layers()
			if got := register(t, g, perdure.Options{}); got != "" {
				t.Errorf("what was read is refused: %s", got)
			}
		}
		var bad *definition.Error
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("it gives %v", err)
		}
	})
}
