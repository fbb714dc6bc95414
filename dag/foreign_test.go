package dag_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/store/memory"
)

// spec: F-8
func TestAStepOfAnotherGraphIsRefused(t *testing.T) {
	g, other := dag.New[int]("g"), dag.New[int]("other")
	strange := dag.Add(other, "a", does(0, nil))
	dag.Add(g, "a", does(0, nil))
	dag.Add(g, "b", does(0, nil)).After(strange)
	g.Output(strange)
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	err = eng.Register(g)
	for _, want := range []string{
		"b.after: step a is one of another graph", "output: step a is one of another graph",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("registered: %v, want %s", err, want)
		}
	}
}
