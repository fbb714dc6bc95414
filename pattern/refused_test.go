package pattern_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// JSON's null stands for no value: it does not satisfy "required".
func TestNullIsNotWhatIsRequired(t *testing.T) {
	type in struct {
		City  *string `perdure:"input=city,required"`
		Other *string `perdure:"input=other"`
	}
	args := pattern.NewArguments[in]()
	for input, fine := range map[string]bool{
		`{"city":"Bern","other":null}`: true, `{"city": null}`: false, `{"other":"x"}`: false,
	} {
		_, err := args.Fill(t.Context(), pattern.Sources{Input: json.RawMessage(input)})
		if fine && err != nil || !fine && journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%s: %v", input, err)
		}
	}
}

var errKnown = errors.New("the card is stolen")

// A callback for an error that journals do not keep would never be called.
func TestACallbackForAnErrorThatIsNotRegisteredIsRefused(t *testing.T) {
	if err := perdure.RegisterError("pattern-test.stolen", errKnown); err != nil {
		t.Fatal(err)
	}
	complete := func(context.Context, report.Run) error { return nil }
	for says, on := range map[string]error{
		"": errKnown, "not registered": errors.New("another"),
	} {
		issues := pattern.Callbacks{{On: []error{on}, Complete: complete}}.Check(
			func(string) bool { return true })
		if says == "" && len(issues) > 0 || says != "" && (len(issues) != 1 ||
			!strings.Contains(issues[0].Message, says)) {
			t.Errorf("%v: %v", on, issues)
		}
	}
	code := pattern.Callbacks{
		{On: []error{&perdure.Error{Code: journal.CodeTimedOut}}, Complete: complete},
	}
	if issues := code.Check(func(string) bool { return true }); len(issues) > 0 {
		t.Error(issues)
	}
}
