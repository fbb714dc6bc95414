package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

const line = `{"v":1,"run":1,"seq":7,"kind":"StepCompleted","status":"RUNNING","scope":2,"name":"charge","occ":1,"at":1,"detail":{"attempt":2}}`

// spec: P-14
func TestTheCodecRefusesWhatItDoesNotKnow(t *testing.T) {
	var whole journal.Entry
	if err := json.Unmarshal([]byte(line), &whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new string
		row            bool // the error names the row
	}{
		{"an unknown kind", `"StepCompleted"`, `"StepPondered"`, true},
		{"a kind by number", `"StepCompleted"`, `"Kind(31)"`, true},
		{"no kind", `"StepCompleted"`, `""`, true},
		{"an unknown status", `"RUNNING"`, `"JOGGING"`, true},
		{"a newer version", `"v":1`, `"v":2`, false},
		{"no version", `"v":1,`, ``, false},
		{"a negative version", `"v":1`, `"v":-1`, false},
		{"an unknown field", `"occ":1`, `"occ":1,"odd":1`, false},
		{"an unknown field in the detail", `"attempt":2`, `"odd":2`, true},
		{"an unknown field in a failure", `"attempt":2`, `"failure":{"message":"x","odd":2}`, true},
		{"an unknown outcome", `"attempt":2`, `"outcome":19`, true},
		{"an outcome that does not fit", `"attempt":2`, `"outcome":256`, true},
		{"a detail that is none", `{"attempt":2}`, `[2]`, true},
		{"a field of another type", `"seq":7`, `"seq":"7"`, false},
		{"a number that does not fit", `"seq":7`, `"seq":9223372036854775808`, false},
		{"data that is no base64", `"occ":1`, `"data":"#"`, false},
		{"no run", `"run":1`, `"run":0`, true},
		{"a negative run", `"run":1`, `"run":-1`, true},
		{"no sequence", `"seq":7`, `"seq":0`, true},
		{"a scope that is not open yet", `"scope":2`, `"scope":7`, true},
		{"a negative scope", `"scope":2`, `"scope":-2`, true},
		{"a negative occurrence", `"occ":1`, `"occ":-1`, true},
		{"a name that is none", `"charge"`, `"char ge"`, true},
		{"null", line, `null`, false},
		{"an array", line, `[]`, false},
		{"nothing", line, ``, false},
		{"half a line", line, line[:40], false},
		{"something that follows", line, line + `}`, false},
		{"two in one", line, line + line, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(line, c.old, c.new, 1)
			e := whole
			err := e.UnmarshalJSON([]byte(text))
			if err == nil {
				t.Fatalf("%s was read as %+v", text, e)
			}
			corrupt := new(journal.CorruptError)
			if errors.As(err, &corrupt) != c.row {
				t.Errorf("the error is %v (%T)", err, err)
			}
		})
	}
}

// Only a message may have no run: it is unrouted.
func TestOnlyAMessageMayHaveNoRun(t *testing.T) {
	for _, kind := range journal.Kinds() {
		for run, want := range map[journal.Number]bool{1: true, 0: kind.IsMessage(), -1: false} {
			e := journal.Entry{Run: run, Seq: 1, Kind: kind}
			err := e.Check()
			if corrupt := new(journal.CorruptError); (err == nil) != want ||
				err != nil && !errors.As(err, &corrupt) {
				t.Errorf("%v of run %d: %v", kind, run, err)
			}
		}
	}
}

func TestReadNamesTheEntryThatItCannotRead(t *testing.T) {
	got, err := journal.Read(strings.NewReader(line + "\n" + strings.Replace(line, "StepCompleted",
		"Odd", 1) + "\n"))
	if err == nil || got != nil || !strings.Contains(err.Error(), "entry 2") ||
		!strings.Contains(err.Error(), "unknown kind Odd") {
		t.Errorf("Read gives %v, %v", got, err)
	}
	if got, err := journal.Read(strings.NewReader("")); err != nil || got != nil {
		t.Errorf("Read of nothing gives %v, %v", got, err)
	}
}

func TestWriteRefusesWhatDoesNotEncode(t *testing.T) {
	e := journal.Entry{
		Run: 1, Seq: 1, Kind: journal.RunStarted, Detail: &journal.Detail{
			Failure: &journal.Failure{Data: json.RawMessage("{")},
		},
	}
	var b bytes.Buffer
	if err := journal.Write(&b, []journal.Entry{e}); err == nil {
		t.Errorf("it was written as %s", b.Bytes())
	}
}

func TestDetailRoundTrips(t *testing.T) {
	if b, err := journal.EncodeDetail(nil); b != nil || err != nil {
		t.Errorf("no detail encodes as %q, %v", b, err)
	}
	for _, b := range [][]byte{nil, {}} {
		if d, err := journal.DecodeDetail(b); d != nil || err != nil {
			t.Errorf("%q decodes as %+v, %v", b, d, err)
		}
	}
	for _, e := range slices.Concat(goldenFields(), golden["v1-fields-2.jsonl"], goldenMessages()) {
		b, err := journal.EncodeDetail(e.Detail)
		if err != nil {
			t.Fatal(err)
		}
		got, err := journal.DecodeDetail(b)
		if err != nil || !reflect.DeepEqual(got, e.Detail) {
			t.Errorf("%s decodes as %+v, %v; want %+v", b, got, err, e.Detail)
		}
	}
	for _, text := range []string{
		"{", "{}{}", "{} x", "[]", `"x"`, `{"odd":1}`, `{"attempt":"1"}`, `{"due":"soon"}`,
	} {
		if d, err := journal.DecodeDetail([]byte(text)); err == nil {
			t.Errorf("%s decodes as %+v", text, d)
		}
	}
}

func TestCorruptErrorNamesTheRow(t *testing.T) {
	for _, c := range []struct {
		err  journal.CorruptError
		want string
	}{
		{
			journal.CorruptError{Run: 9, Reason: "unknown status"},
			"journal: the head of run 9 cannot be read: unknown status",
		},
		{
			journal.CorruptError{Run: 9, Seq: 3, Reason: "unknown kind"},
			"journal: entry 3 of run 9 cannot be read: unknown kind",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestEntryTellsWhatItsDetailSays(t *testing.T) {
	plain := journal.Entry{At: at(9), Took: 2 * time.Second}
	if plain.Attempt() != 1 || plain.Failure() != nil || !plain.Began().Equal(at(7)) {
		t.Errorf("attempt %d, failure %v, began %v", plain.Attempt(), plain.Failure(),
			plain.Began())
	}
	f := &journal.Failure{Message: "busy", Wraps: []*journal.Failure{nil, {Message: "inner"}}}
	for _, c := range []struct {
		detail  journal.Detail
		attempt int
		failure *journal.Failure
	}{
		{journal.Detail{}, 1, nil},
		{journal.Detail{Attempt: 4, Failure: f}, 4, f},
	} {
		e := journal.Entry{Detail: &c.detail}
		if e.Attempt() != c.attempt || e.Failure() != c.failure {
			t.Errorf("attempt %d, failure %v; want %d, %v", e.Attempt(), e.Failure(), c.attempt,
				c.failure)
		}
		if e.Size() <= plain.Size() {
			t.Errorf("an entry with a detail has size %d, one without %d", e.Size(), plain.Size())
		}
	}
	large := journal.Entry{Data: bytes.Repeat([]byte("x"), 1<<20),
		Detail: &journal.Detail{Failure: &journal.Failure{
			Wraps: []*journal.Failure{{Stack: strings.Repeat("x", 1<<20)}},
		}}}
	if large.Size() < 2<<20 {
		t.Errorf("an entry of 2 MiB has size %d", large.Size())
	}
	long := strings.Repeat("x", 1<<20)
	for _, d := range []journal.Detail{
		{Reason: long}, {Choices: []string{long}}, {
			StartDetail: journal.StartDetail{Headers: map[string]string{"h": long}},
		}, {StartDetail: journal.StartDetail{Headers: map[string]string{long: "h"}}},
		{StartDetail: journal.StartDetail{Attributes: map[string]string{"a": long}}},
	} {
		if e := (journal.Entry{Detail: &d}); e.Size() < 1<<20 {
			t.Errorf("an entry of 1 MiB has size %d", e.Size())
		}
	}
}
