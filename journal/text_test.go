package journal_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/perdure/perdure/journal"
)

// A words has everything that is written by its name.
type words struct {
	Status  journal.Status
	Kind    journal.Kind
	Pattern journal.Pattern
	By      map[journal.Status]int
	Of      map[journal.Kind]int
	In      map[journal.Pattern]int
}

func TestStatusesKindsAndPatternsAreWrittenByTheirNames(t *testing.T) {
	in := words{
		journal.TimedOut, journal.StepCompensationFailed, journal.PatternTCC,
		map[journal.Status]int{journal.Failed: 1}, map[journal.Kind]int{journal.StepFailed: 2},
		map[journal.Pattern]int{journal.PatternWorkflow: 3},
	}
	data, err := json.Marshal(in)
	want := `{"Status":"TIMED_OUT","Kind":"CompensationFailed","Pattern":"TCC",` +
		`"By":{"FAILED":1},"Of":{"StepFailed":2},"In":{"WORKFLOW":3}}`
	if err != nil || string(data) != want {
		t.Fatalf("%s: %v, want %s", data, err, want)
	}
	var out words
	if err := json.Unmarshal(data, &out); err != nil || out.Status != in.Status ||
		out.Kind != in.Kind ||
		out.Pattern != in.Pattern || !maps.Equal(out.By, in.By) || !maps.Equal(out.Of, in.Of) ||
		!maps.Equal(out.In, in.In) {
		t.Errorf("%+v: %v", out, err)
	}
	for _, s := range journal.Statuses() {
		var back journal.Status
		if text, err := s.MarshalText(); err != nil || back.UnmarshalText(text) != nil ||
			back != s {
			t.Errorf("%v comes back as %v: %v", s, back, err)
		}
	}
	for _, k := range journal.Kinds() {
		var back journal.Kind
		if text, err := k.MarshalText(); err != nil || back.UnmarshalText(text) != nil ||
			back != k {
			t.Errorf("%v comes back as %v: %v", k, back, err)
		}
	}
	if data, err := json.Marshal(words{}); err != nil || json.Unmarshal(data, &out) != nil ||
		out.Status != 0 || out.Kind != 0 {
		t.Errorf("zero is written as %s: %v", data, err)
	}
}

func TestNumbersOfOlderVersionsAreRead(t *testing.T) {
	var out words
	err := json.Unmarshal([]byte(`{"Status":23,"Kind":42,"Pattern":2}`), &out)
	if err != nil || out.Status != journal.TimedOut || out.Kind != journal.StepCompensationFailed ||
		out.Pattern != journal.PatternTCC {
		t.Errorf("%+v: %v", out, err)
	}
	for _, bad := range []string{
		`{"Status":99}`, `{"Status":"NOPE"}`, `{"Status":-1}`, `{"Status":true}`, `{"Kind":99}`,
		`{"Pattern":9}`,
		`{"Pattern":"NOPE"}`,
	} {
		if err := json.Unmarshal([]byte(bad), &out); journal.CodeOf(err) != journal.CodeDecode {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, v := range []any{journal.Status(99), journal.Kind(99), journal.Pattern(99)} {
		if data, err := json.Marshal(v); err == nil {
			t.Errorf("%v is written as %s", v, data)
		}
	}
}

// The stored bytes of an outcome are the number that they always were.
func TestAnOutcomeIsStoredAsANumber(t *testing.T) {
	d := &journal.Detail{Reason: "r", Outcome: journal.Cancelled, Choices: []string{"go"}}
	data, err := journal.EncodeDetail(d)
	if want := `{"reason":"r","outcome":22,"choices":["go"]}`; err != nil || string(data) != want {
		t.Errorf("%s: %v, want %s", data, err, want)
	}
	back, err := journal.DecodeDetail(data)
	if err != nil || back.Outcome != d.Outcome || back.Reason != d.Reason {
		t.Errorf("%+v: %v", back, err)
	}
}
