package machine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/perduretest"
)

// spec: R-1
func TestADiagramHasTheStatesThatARunHasVisited(t *testing.T) {
	m := machine.New[int]("m", "a").OnError("mend")
	machine.Add(m, "a", plus(1)).Split("b").To("c", machine.End).Undo(func(
		context.Context, int) error {
		return nil
	})
	machine.Add(m, "b", plus(1)).OnError("c")
	machine.Add(m, "c", plus(1))
	machine.Add(m, "mend", plus(1))
	d := m.Diagram()
	want := `stateDiagram-v2
    state "a (undo)" as s0
    state "b" as s1
    state "c" as s2
    state "mend" as s3
    [*] --> s0
    s0 --> s1: split
    s0 --> s2
    s0 --> [*]
    s0 --> s3: error
    s1 --> [*]
    s1 --> s2: error
    s2 --> [*]
    s2 --> s3: error
    s3 --> [*]
    class s0 visited
    class s2 visited
    classDef visited fill:#cfe8cf,stroke:#2e7d32
`
	if got := d.Mermaid("a", "c"); got != want {
		t.Errorf("Mermaid:\n%s", got)
	}
	dot := d.DOT("m", "a")
	for _, part := range []string{
		`"[*]" -> "a"`, `"a" -> "b" [label="split", style=dashed]`, `"a" -> "[end]"`,
		`"b" -> "c" [label="error", style=dashed]`, `fillcolor="#cfe8cf"`, `label="a\n(undo)"`,
	} {
		if !strings.Contains(dot, part) {
			t.Errorf("DOT has no %s:\n%s", part, dot)
		}
	}
}

// spec
func TestTheVisitedStatesAreThoseOfARun(t *testing.T) {
	m := machine.New[int]("m", "a")
	machine.Add(m, "a", returns(machine.Split(machine.BranchOf("x", "b", 1),
		machine.BranchOf("y", "b", 1)))).Split("b").To("c")
	machine.Add(m, "b", plus(1)).To("b2", machine.End).Route(func(r machine.Result) string {
		var n int
		if r.Decode(&n) == nil && n < 3 {
			return "b2"
		}
		return machine.End
	})
	machine.Add(m, "b2", plus(1)).To("b")
	machine.Add(m, "c", machine.Do(func(context.Context, any) (int, error) { return 1, nil }))
	machine.Add(m, "d", plus(1))
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, m.Workflow, 1)
		run.Returns([]byte("1"))
		if got := strings.Join(machine.Visited(run.Report()), " "); got != "a b b2 c" {
			t.Errorf("visited are %s", got)
		}
	}, m)
}
