package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// spec: R-28
func TestAStepRunsADocumentOnceForEachVisit(t *testing.T) {
	runs := 0
	document := `{"name": "enrich", "output": "score", "steps": [{"id": "score", "handler": "score"}]}`
	type order struct {
		Amount int `json:"amount"`
	}
	enrich, err := dag.Read([]byte(document), dag.Registry{Handlers: map[string]dag.Func{
		"score": dag.Handler(func(_ context.Context, o order) (int, error) {
			runs++
			return 2 * o.Amount, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	call := func(amount int) machine.DocumentInput {
		return machine.DocumentInput{Workflow: "enrich", Variables: map[string]json.RawMessage{
			"amount": json.RawMessage(fmt.Sprint(amount)),
		}}
	}
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", machine.Do(func(_ context.Context, in int) (machine.DocumentInput, error) {
		return call(in), nil
	})).To("enrich")
	machine.Add(m, "enrich", machine.Document).To("again")
	machine.Add(m, "again", func(_ context.Context, in int) (machine.Action, error) {
		if in < 10 {
			return machine.Complete(call(in)).To("enrich"), nil
		}
		return machine.Complete(in).To(machine.End), nil
	}).To("enrich", machine.End)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		runs = 0
		run := perduretest.Start(env, m.Workflow, 3)
		run.Returns([]byte("12"))
		return run.Report().Status
	}, m, enrich)
	if runs < 2 || runs > 3 {
		t.Errorf("the handler was called %d times", runs)
	}
}

// spec: R-28
func TestADocumentWithoutANameFails(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", machine.Do(func(context.Context, int) (machine.DocumentInput, error) {
		return machine.DocumentInput{}, nil
	})).To("run")
	machine.Add(m, "run", machine.Document)
	if _, err := play(t, m); err == nil || !strings.Contains(err.Error(), "needs flowName") {
		t.Error(err)
	}
}
