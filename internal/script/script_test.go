package script

import (
	"reflect"
	"strings"
	"testing"
)

func TestBlocksAreFound(t *testing.T) {
	all := Blocks("text\n```console\n$ perdure demo    # see it\nseen\n\n" +
		"$ go test ./...\n```\n```go\n$ no\n```\n```console\n# Only file:\n$ ./orders serve\n```\n")
	want := []Command{
		{Line: 3, Text: "perdure demo    # see it", Want: []string{"seen"}},
		{Line: 6, Text: "go test ./..."},
		{Line: 13, Text: "./orders serve", Only: "file"},
	}
	for i := range all {
		all[i].Want = append([]string(nil), all[i].Want...) // an empty list is none
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, want %+v", all, want)
	}
}

func TestScriptsSeeWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text, want string
		like       bool
	}{
		{"a\nb\n", "a\nb", true},
		{"a\nb\n", "a", false},
		{"a\nb\nc\n", "a\n…\nc", true},
		{"a\nc\n", "a\n…\nc", true},
		{"a\nb\nd\n", "a\n…\nc", false},
		{"took 31ms, twice\n", "took …ms, twice", true},
		{"took 31s\n", "took …ms", false},
		{"ID    NAME\n", "ID  NAME", true},
		{"ID NAME\n", "IDNAME", false},
	} {
		if got := like(c.text, strings.Split(c.want, "\n")); got != c.like {
			t.Errorf("%q like %q is %t", c.text, c.want, got)
		}
	}
}
