package schema_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/event/schema"
)

// spec: A-13
func TestEveryViolationIsNamed(t *testing.T) {
	s := schema.Of(`{
		"type": "object", "required": ["cents", "mail"], "additionalProperties": false,
		"properties": {"cents": {"type": "integer", "minimum": 1},
			"mail": {"type": "string", "format": "email"}}
	}`)
	if err := s.Valid(); err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string][]string{
		`{"cents": 1, "mail": "a@example.com"}`: nil,
		`{"cents": 0, "mail": "a", "b": 1}`:     {"/cents: minimum", "/mail: ", "'b'"},
		`{}`:                                    {"'cents', 'mail'"},
		`{"cents": 1`:                           {"unexpected EOF"},
		``:                                      {"EOF"},
	} {
		err := s.Check([]byte(data))
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v", data, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %s", data, err, w)
			}
		}
	}
}

func TestATextThatIsNoSchemaMatchesNothing(t *testing.T) {
	for _, text := range []string{"", "7", `{"type": 7}`, `{"$ref": "http://example.com/x"}`} {
		s := schema.Of(text)
		if s.Valid() == nil || s.Check([]byte("{}")) == nil || string(s.Text()) != text {
			t.Errorf("%q: %v, %v", text, s.Valid(), s.Check([]byte("{}")))
		}
	}
}
