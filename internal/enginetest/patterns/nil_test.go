package patterns

import (
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// spec: F-8, F-13
func TestANilDefinitionOfAnyPatternIsRefused(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for name, def := range map[string]perdure.Definition{
		"nothing": nil, "workflow": (*perdure.Workflow[int, int])(nil),
		"graph": (*dag.Graph[int])(nil),
		"saga":  (*saga.Saga[int])(nil), "saga composition": (*saga.Composition[int])(nil),
		"TCC": (*tcc.TCC[int])(nil), "TCC composition": (*tcc.Composition[int])(nil),
		"empty graph": &dag.Graph[int]{}, "empty saga": &saga.Saga[int]{},
		"empty TCC": &tcc.TCC[int]{},
	} {
		if err := eng.Register(def); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%s: registered: %v", name, err)
		}
		if issues := perdure.Check(def); len(issues) != 1 ||
			journal.CodeOf(issues[0].Err) != journal.CodeInvalid {
			t.Errorf("%s: checked: %v", name, issues)
		}
		if _, err := perdure.NewClient(t.Context(), memory.New(),
			def); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%s: a client: %v", name, err)
		}
	}
}

// A nil value is reported together with all other mistakes.
//
// spec: F-8
func TestWhatIsNilHidesNoOtherIssue(t *testing.T) {
	fn := func(context.Context, int) (int, error) { return 0, nil }
	graph := dag.New[int]("graph", nil).Output(nil)
	dag.Add(graph, "step", fn).After(nil, (*dag.Step[int, int])(nil)).When(nil)
	dag.Add(graph, "a b", fn)

	steps := saga.New[int]("saga", nil, perdure.Replays{Factor: 0.5}).Output(nil)
	saga.Add(steps, "step", fn).After(nil)
	saga.Add(steps, "a b", fn)
	sagas := saga.Compose[int]("sagas", nil)
	saga.Include(sagas, "m", steps).After(nil, &saga.Member{}).When(nil)
	saga.Include(sagas, "none", &saga.Saga[int]{}).Map("x", saga.Source{})

	hold := tcc.New[int]("tcc", nil)
	tcc.Add(hold, "a b", fn)
	same := func(in int) (int, error) { return in, nil }
	tccs := tcc.Compose[int]("tccs", nil).On(pattern.Callback{})
	tcc.Include(tccs, "m", hold, same).After(nil)
	tcc.Include(tccs, "none", &tcc.TCC[int]{}, same)

	for _, c := range []struct {
		def  perdure.Definition
		want []string
	}{
		{
			perdure.Define[int, chan int]("a b", nil, nil),
			[]string{
				"define a b: an option is nil", `workflow "a b" is not valid`,
				"a workflow needs a function", "the type of the output is not valid",
			},
		},
		{
			graph,
			[]string{
				"define graph: an option is nil", "output: a nil step", "step.after: a nil step",
				"step.when: a nil condition", "a b: ",
			},
		},
		{
			steps,
			[]string{
				"define saga: an option is nil", "Factor", "output: a nil step",
				"step.after: a nil step", "a b: ",
			},
		},
		{
			sagas,
			[]string{
				"define sagas: an option is nil", "m.after: a nil member",
				"m.when: a nil condition", "m.a b: ", "none: a member needs a saga",
				"none.x: a source is needed",
			},
		},
		{hold, []string{"define tcc: an option is nil", "a b: "}},
		{
			tccs,
			[]string{
				"define tccs: an option is nil", "m: it follows a nil member", "m.a b: ",
				"none: a member needs a TCC", "callbacks.0: exactly one of",
			},
		},
	} {
		var lines []string
		for _, i := range perdure.Check(c.def) {
			lines = append(lines, i.String())
		}
		eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
		if err != nil {
			t.Fatal(err)
		}
		refused := eng.Register(c.def)
		for _, line := range lines {
			if refused == nil || !strings.Contains(refused.Error(), line) {
				t.Errorf("Check says %q, and Register %v", line, refused)
			}
		}
		all := strings.Join(lines, "\n")
		for _, want := range c.want {
			if !strings.Contains(all, want) {
				t.Errorf("it does not say %q:\n%s", want, all)
			}
		}
	}
}
