package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// Types of which JSON holds no value are refused when the workflow is registered.
func TestTypesThatJournalsCannotKeepAreRefused(t *testing.T) {
	type inside struct{ Done chan int }
	type secret struct{ pin int }
	type keyed struct {
		ByNumber map[int8]any
		ByName   map[journal.RunID]struct{}
		ByTime   map[time.Time]json.RawMessage
	}
	type hidden struct {
		Done chan int `json:"-"`
		done chan int
		Next *hidden
		At   time.Time
		Link url.URL
	}
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, def := range map[string]perdure.Definition{
		"chan": perdure.Define("chan", func(context.Context, chan int) (int, error) {
			return 0, nil
		}),
		"func": perdure.Define("func", func(context.Context, int) (func(), error) {
			return nil, nil
		}),
		"field": perdure.Define("field", func(context.Context, []map[string]*inside) (int, error) {
			return 0, nil
		}),
		"interface": perdure.Define("interface", func(context.Context, error) (int, error) {
			return 0, nil
		}),
		"keys": perdure.Define("keys", func(context.Context, map[float64]int) (int, error) {
			return 0, nil
		}),
		"not exported": perdure.Define("no", func(context.Context, []*secret) (int, error) {
			return 0, nil
		}),
		"number": perdure.Define("number", func(context.Context, complex128) (int, error) {
			return 0, nil
		}),
	} {
		err := eng.Register(def)
		if journal.CodeOf(err) != journal.CodeInvalid ||
			!strings.Contains(err.Error(), "JSON cannot hold") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fine := perdure.Define("fine", func(_ context.Context, in hidden) (any, error) {
		return in.done == nil, nil
	})
	maps := perdure.Define("maps", func(_ context.Context, in keyed) (*secret, error) {
		return &secret{pin: len(in.ByName)}, nil
	})
	if err := eng.Register(fine); err != nil {
		t.Error(err)
	}
	if err := eng.Register(maps); !strings.Contains(fmt.Sprint(err), "the type of the output is") ||
		strings.Contains(fmt.Sprint(err), "the type of the input is") {
		t.Error(err)
	}
}

// A step, participant or compensation whose result no journal can keep is refused before anything
// is called.
func TestResultsOfDeclaredStepsThatJournalsCannotKeepAreRefused(t *testing.T) {
	bad := func(context.Context, int) (chan int, error) { return nil, nil }
	takes := func(context.Context, map[float64]int) (int, error) { return 0, nil }
	ok := func(context.Context, int) (int, error) { return 0, nil }
	steps, graph, three := saga.New[int]("saga"), dag.New[int]("graph"), tcc.New[int]("tcc")
	saga.Add(steps, "result", bad)
	saga.UndoWith(saga.Add(steps, "undo", ok), bad)
	saga.AddEach(steps, "each", func(int) []int { return nil }, bad)
	saga.Add(steps, "argument", takes)
	dag.Add(graph, "bad", bad)
	dag.AddBranch(graph, "branch", bad)
	dag.Add(graph, "argument", takes)
	settle := func(context.Context, int, chan int) error { return nil }
	tcc.Add(three, "result", bad).Confirm(settle).Cancel(settle)
	for def, places := range map[perdure.Definition][]string{
		steps: {"result", "undo.undo", "each", "argument"},
		graph: {"bad", "branch", "argument"},
		three: {"result.try"},
	} {
		eng, err := perdure.New(memory.New(), perdure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = eng.Register(def)
		world.CodeIs(t, err, journal.CodeInvalid)
		for _, place := range places {
			if !strings.Contains(fmt.Sprint(err), "ERROR: "+place+": the type of the ") {
				t.Errorf("%s: %v", place, err)
			}
		}
	}
}
