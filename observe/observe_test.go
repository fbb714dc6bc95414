package observe_test

import (
	"slices"
	"testing"

	"github.com/perdure/perdure/observe"
)

func TestOnlyPassesOnTheKindsItIsGiven(t *testing.T) {
	all := []observe.Kind{observe.RunStarted, observe.StepFailed, observe.Committed, observe.RunEnded}
	for _, c := range []struct {
		name  string
		kinds []observe.Kind
		want  []observe.Kind
	}{
		{"two kinds", []observe.Kind{observe.RunEnded, observe.RunStarted}, []observe.Kind{observe.RunStarted, observe.RunEnded}},
		{"one kind twice", []observe.Kind{observe.Committed, observe.Committed}, []observe.Kind{observe.Committed}},
		{"no kind", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []observe.Kind
			f := observe.Only(func(n observe.Notice) { got = append(got, n.Kind) }, c.kinds...)
			for _, k := range all {
				f(observe.Notice{Kind: k})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("passed on %v, want %v", got, c.want)
			}
		})
	}
}
