package sealed

import (
	"testing"

	"github.com/perdure/perdure/store"
)

// spec: B-7
func TestNoEngineIsSaidToLackAWorkflowThatItMayHave(t *testing.T) {
	has := func(names ...string) store.Engine {
		return store.Engine{ID: 7, PID: 5, Host: "h", Workflows: names}
	}
	const seven = "engine 7 (process 5 on h) has "
	died := has("w")
	died.Expired = true
	for name, c := range map[string]struct {
		engines []store.Engine
		want    string
	}{
		"no engine":                 {nil, ""},
		"one has it":                {[]store.Engine{has("v"), has("u", "w")}, ""},
		"one does not say":          {[]store.Engine{has("v"), {ID: 8}}, ""},
		"one has others":            {[]store.Engine{has("perdure.x", "v")}, seven + "v"},
		"one has nothing of a user": {[]store.Engine{has("perdure.x")}, seven + "no workflow"},
		"only a dead one has it":    {[]store.Engine{died, has("v")}, seven + "v"},
		"one has many": {
			[]store.Engine{has("a", "b", "c", "d", "e", "f", "g")},
			seven + "a, b, c, d, e, and 2 more",
		},
		"there are many": {
			[]store.Engine{has("a"), has("b"), has("c"), has("d")},
			seven + "a; " + seven + "b; " + seven + "c; and 1 more",
		},
	} {
		want := c.want
		if want != "" {
			want = "no engine has workflow w: " + want
		}
		if got := Lacking(store.Info{Engines: c.engines}, "w"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
