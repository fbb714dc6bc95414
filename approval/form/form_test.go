package form_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/approval/form"
	"github.com/perdure/perdure/journal"
)

var _ approval.Form = (*form.Form)(nil)

const discount = `{
	"type": "object", "required": ["percent"], "additionalProperties": false,
	"properties": {
		"percent": {"type": "integer", "minimum": 1, "maximum": 50},
		"mail": {"type": "string", "format": "email"},
		"again": {"$ref": "#"}
	}
}`

// spec: R-21
func TestAFormNamesEachPlaceThatDoesNotMatch(t *testing.T) {
	f := form.Of(discount)
	if string(f.Schema()) != discount {
		t.Error("the schema is another text")
	}
	for data, want := range map[string]string{
		`{"percent":5}`:                        "",
		`{"percent":5,"mail":"a@example.com"}`: "",
		`{"percent":5,"again":{"percent":50}}`: "",
		`{"percent":5.0}`:                      "",
		`{"percent":51,"mail":"x"}`:            "/percent: maximum: got 51, want 50; /mail: 'x' is not valid email",
		`{}`:                                   "missing property 'percent'",
		`null`:                                 "got null, want object",
		`{"percent":5,"more":1}`:               "additional properties 'more' not allowed",
		`{"percent":5,"again":{"percent":"\u0000"}}`: "/again/percent: got string, want integer",
		`{`:                                      "unexpected EOF",
		`{"percent":5} 6`:                        "invalid character after top-level value",
		`{"percent":99999999999999999999999999}`: "/percent: maximum",
		strings.Repeat("[", 20_000):              "exceeded max depth",
	} {
		err := f.Check(json.RawMessage(data))
		if err == nil && want == "" {
			continue
		}
		text := fmt.Sprint(err)
		for _, part := range strings.Split(want, "; ") {
			if want == "" || !strings.Contains(text, part) || strings.Contains(text, "\n") {
				t.Errorf("%.40s: %s, want %s", data, text, want)
			}
		}
	}
}

// spec: R-21
func TestASchemaThatIsNotValidIsRefused(t *testing.T) {
	for _, schema := range []string{
		"", "{", "5", `{"type":"fish"}`, `{"$ref":"#/nowhere"}`,
		`{"$ref":"https://example.com/schema.json"}`, `{"$ref":"file:///etc/passwd"}`,
		`{"$ref":"other.json"}`, `{"$schema":"https://example.com/draft"}`,
		`{"pattern":"("}`, `{"title":"` + strings.Repeat("x", 70_000) + `"}`,
	} {
		f := form.Of(schema)
		err := f.Valid()
		if journal.CodeOf(err) != journal.CodeInvalid || f.Check([]byte("1")) == nil ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v", schema, err)
		}
	}
	if err := form.Of(discount).Valid(); err != nil {
		t.Error(err)
	}
}
