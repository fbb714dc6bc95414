package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/server"
)

var mother = perdure.Define("mother", bearing)

// bearing fails at a step that it can bear, emits an event, waits for a signal, and then fails
// because of a child.
func bearing(ctx context.Context, _ json.RawMessage) (string, error) {
	_ = perdure.Do(ctx, "look", func(context.Context) error {
		return perdure.Permanent(errors.New("there is nothing to see"))
	})
	if err := perdure.Emit(ctx, "asked", 1); err != nil {
		return "", err
	}
	if _, err := goAhead.Wait(ctx); err != nil {
		return "", err
	}
	return failing.Child(ctx, nil).Await(ctx)
}

// The graph of a run tells what the run has received and sent, and where its failure began.
//
// spec: B-17, P-10
func TestTheGraphOfARunTellsWhereItsFailureBegan(t *testing.T) {
	w := open(t, setting{more: mother})
	id := w.start("mother", "")
	w.want(200, "POST", api+"/executions/"+id+"/signal/go", `"now"`)
	w.ended(id)
	out := w.want(200, "GET", api+"/executions/"+id+"/graph", "")
	said := ""
	for _, x := range out["exchanges"].([]any) {
		x := x.(map[string]any)
		said += fmt.Sprint(x["kind"], " ", x["name"], " ", x["sent"], " ", x["outcome"], "\n")
	}
	if want := "start  false <nil>\nevent asked true <nil>\nsignal go false <nil>\n" +
		"child failing true <nil>\nchild failing false FAILED\n"; said != want {
		t.Errorf("got\n%swant\n%s", said, want)
	}
	chain := out["root_cause"].([]any)
	if len(chain) != 2 {
		t.Fatal(chain)
	}
	first, last := chain[0].(map[string]any), chain[1].(map[string]any)
	if first["run_id"] != id || first["step"] != "failing" || last["workflow"] != "failing" ||
		last["step"] != "charge" || last["error"] != "unexpected EOF" {
		t.Error(chain)
	}
}

// A run that did not fail has no root cause; one that failed by itself has itself.
//
// spec: B-17
func TestARunIsItsOwnRootCause(t *testing.T) {
	w := begin(t, server.Options{})
	good, bad := w.start("greet", `{"input":"ada"}`), w.start("failing", "")
	w.ended(good)
	w.ended(bad)
	if out := w.want(200, "GET", api+"/executions/"+good+"/graph", ""); out["root_cause"] != nil {
		t.Error(out)
	}
	out := w.want(200, "GET", api+"/executions/"+bad+"/graph", "")
	if chain := out["root_cause"].([]any); len(chain) != 1 ||
		chain[0].(map[string]any)["step"] != "charge" {
		t.Error(chain)
	}
}

// A run whose time is over has gone on after the failure of its step, so the step is not the cause.
//
// spec: B-17
func TestAFailureThatTheCodeBearsIsNoRootCause(t *testing.T) {
	hurried := perdure.Define("hurried", bearing, perdure.Timeout(time.Second))
	w := open(t, setting{more: hurried})
	id := w.start("hurried", "")
	if got := w.ended(id)["status"]; got != "TIMED_OUT" {
		t.Fatal(got)
	}
	out := w.want(200, "GET", api+"/executions/"+id+"/graph", "")
	if steps := fmt.Sprint(out["steps"]); !strings.Contains(steps, "there is nothing to see") {
		t.Fatal("no step has failed: ", steps)
	}
	chain := out["root_cause"].([]any)
	if first := chain[0].(map[string]any); len(chain) != 1 || first["step"] != nil ||
		!strings.Contains(fmt.Sprint(first["error"]), "time") {
		t.Error(chain)
	}
}

// The history of one step has its entries only, and those of its phases.
//
// spec: B-17, R-28
func TestTheHistoryOfAStep(t *testing.T) {
	w := begin(t, server.Options{})
	id := w.start("trip", `{"input":"rome"}`)
	w.ended(id)
	at := api + "/executions/" + id
	undone := w.want(200, "POST", at+"/compensate", `{}`)
	again, _ := undone["run_id"].(string)
	w.ended(again)
	for _, of := range []struct{ query, want string }{
		{"step=book", "book"}, {"step=boo", ""}, {"step=book&limit=1", "book"},
	} {
		seen := map[string]bool{}
		out := w.want(200, "GET", api+"/executions/"+again+"/history?"+of.query, "")
		for _, e := range out["items"].([]any) {
			seen[fmt.Sprint(e.(map[string]any)["operation"])] = true
		}
		if of.want == "" && len(seen) > 0 || of.want != "" && !seen[of.want] ||
			of.query == "step=book" && !seen["undo:book"] ||
			of.query == "step=book&limit=1" && out["next"] == nil {
			t.Error(of, seen, out["next"])
		}
	}
}

// The topology of a graph has the conditions as text, and which steps can be undone.
//
// spec: B-17
func TestTheTopologyHasConditions(t *testing.T) {
	g := dag.New[int]("maybe")
	step := func(context.Context, int) (int, error) { return 0, nil }
	first := dag.Add(g, "first", step).Undo(func(context.Context, int, int) error { return nil })
	dag.Add(g, "second", step).After(first).When(expr.When("input > 3"))
	w := open(t, setting{more: g})
	out := w.want(200, "GET", api+"/workflows/maybe/topology", "")
	text := fmt.Sprint(out["graph"])
	if want := "map[nodes:[map[name:first undo:true] map[after:[first] name:second " +
		"when:input > 3]]]"; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
