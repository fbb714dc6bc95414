package expr_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure/expr"
)

var (
	dataBlock = regexp.MustCompile("(?s)\n```json\n(.*?)```\n")
	exprBlock = regexp.MustCompile("(?s)\n```expr\n(.*?)```\n")
	goBlock   = regexp.MustCompile("(?s)\n```go\nexpr.When\\(`(.*?)`\\)\n```\n")
)

// spec: F-16
func TestExamplesOfTheDocumentAreTrue(t *testing.T) {
	page, err := os.ReadFile("../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Input              json.RawMessage
		Results, Variables map[string]json.RawMessage
		Headers            map[string]string
	}
	if err := json.Unmarshal(dataBlock.FindSubmatch(page)[1], &data); err != nil {
		t.Fatal(err)
	}
	k := pattern.View{
		Input: data.Input, Results: data.Results, Headers: data.Headers,
		Variables: variables(data.Variables),
	}
	if holds, err := decide(t, string(goBlock.FindSubmatch(page)[1]), k); err != nil || !holds {
		t.Errorf("the first example: %v, %v", holds, err)
	}
	lines := 0
	for _, block := range exprBlock.FindAllSubmatch(page, -1) {
		for line := range strings.Lines(string(block[1])) {
			text, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " // ")
			kind, rest, _ := strings.Cut(want, ": ")
			if kind != "error" && kind != "refused" {
				kind, _, _ = strings.Cut(want, ",")
			}
			if got, err := outcome(t, strings.TrimSpace(text), k); got != kind ||
				!strings.HasPrefix(err, "perdure: condition: "+rest) && rest != "" {
				t.Errorf("%s: the document says %s, and it is %s %s", text, want, got, err)
			}
			lines++
		}
	}
	if lines < 30 {
		t.Errorf("the document has %d examples", lines)
	}
}

// outcome returns the result of a text: true, false, error or refused.
func outcome(t *testing.T, text string, k pattern.View) (what, message string) {
	c := expr.When(text)
	if err := c.Check(); err != nil {
		return "refused", err.Error()
	}
	holds, err := c.Holds(t.Context(), k)
	switch {
	case err != nil:
		return "error", err.Error()
	case holds:
		return "true", ""
	}
	return "false", ""
}
