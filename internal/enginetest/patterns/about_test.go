package patterns

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

func graph(nodes ...definition.Node) perdure.About {
	return perdure.About{Graph: &definition.Graph{Nodes: nodes}}
}

func TestADefinitionThatContradictsItselfIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		opt  perdure.WorkflowOption
		says string
	}{
		"a contract that is no JSON": {
			perdure.About{Input: json.RawMessage(`{"type": object}`)},
			"not JSON",
		},
		"an empty contract": {perdure.About{Input: json.RawMessage{}}, "not JSON"},
		"a node without a name": {
			graph(definition.Node{Name: "a"}, definition.Node{}), "a step has no name",
		},
		"two nodes of one name": {
			graph(definition.Node{Name: "a"}, definition.Node{Name: "a"}),
			"a: two steps have this name",
		},
		"a node after one not there": {
			graph(definition.Node{Name: "a", After: []string{"b"}}), `"b", which is not there`,
		},
		"a node after itself": {
			graph(definition.Node{Name: "a"}, definition.Node{
				Name:  "b",
				After: []string{"a", "b"},
			}), "b: it follows itself",
		},
		"nodes that go in a circle": {
			graph(definition.Node{Name: "a", After: []string{"c"}}, definition.Node{
				Name:  "b",
				After: []string{"a"},
			}, definition.Node{Name: "c", After: []string{"b"}}), "circle",
		},
		"retention of open runs": {
			perdure.Retention{
				ByStatus: map[journal.Status]time.Duration{journal.Running: time.Hour},
			},
			"RUNNING",
		},
		"a listener without function": {perdure.Listener{}, "needs a function"},
	} {
		eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
		if err != nil {
			t.Fatal(err)
		}
		err = eng.Register(perdure.Define("w", world.Nothing, c.opt))
		world.CodeIs(t, err, journal.CodeInvalid)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
		if known := eng.Workflows(); len(known) != 0 {
			t.Errorf("%s: the engine knows %+v", name, known)
		}
	}
}

func TestAnEngineTellsWhatItKnowsOfItsWorkflows(t *testing.T) {
	about := perdure.About{
		Version: "2.1", Description: "books an order", Trigger: "order.placed", IDField: "order_id",
		Input: json.RawMessage(`{"type":"object"}`),
		Graph: &definition.Graph{Nodes: []definition.Node{
			{Name: "ship", After: []string{"reserve", "charge"}}, {Name: "reserve"},
			{Name: "charge", After: []string{"reserve"}},
		}},
	}
	keep := perdure.Retention{
		Period:   time.Hour,
		ByStatus: map[journal.Status]time.Duration{journal.Failed: 2 * time.Hour},
	}
	hear := func(context.Context, perdure.Ended) error { return nil }
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if known := eng.Workflows(); len(known) != 0 {
		t.Errorf("a new engine knows %+v", known)
	}
	if err := eng.Register(
		perdure.Define("order", world.Nothing, about, keep, perdure.Timeout(time.Minute),
			perdure.Listener{
				Statuses: []journal.Status{journal.Completed, journal.Confirmed},
				Call:     hear,
			}, perdure.Listener{
				Statuses: []journal.Status{journal.Failed, journal.Compensated},
				Call:     hear,
			}),
		perdure.Define("b", world.Nothing),
	); err != nil {
		t.Fatal(err)
	}
	world.CodeIs(t, eng.Register(perdure.Define("c", world.Nothing),
		perdure.Define("order", world.Nothing)), journal.CodeDuplicate)
	want := []perdure.Registered{
		{Name: "b", Pattern: journal.PatternWorkflow},
		{Name: "c", Pattern: journal.PatternWorkflow},
		{Name: "order", Pattern: journal.PatternWorkflow, Timeout: time.Minute, Retention: &keep,
			Listeners: 2, Outline: definition.Outline{
				Version: about.Version, Description: about.Description, Trigger: about.Trigger,
				IDField: about.IDField,
				Input:   about.Input, Graph: about.Graph,
			}},
	}
	if got := eng.Workflows(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	data, err := json.Marshal(want[2].Outline)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"version":"2.1","description":"books an order","trigger":"order.placed","id_field":"order_id","input":{"type":"object"},` +
		`"graph":{"nodes":[{"name":"ship","after":["reserve","charge"]},{"name":"reserve"},{"name":"charge","after":["reserve"]}]}}`; string(
		data) != want {
		t.Errorf("as JSON it is %s", data)
	}
}
