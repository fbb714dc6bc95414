package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

var update = flag.Bool("update", false, "write the golden journals that are not there yet; those that are there are never changed")

// golden has what the files in testdata/golden say. What is written in a file
// stays readable for ever, and means what it means here: files are added, never
// changed. A new kind, status or field needs a new file.
var golden = map[string][]journal.Entry{
	"v1-kinds.jsonl":    goldenKinds(),
	"v1-statuses.jsonl": goldenStatuses(),
	"v1-fields.jsonl":   goldenFields(),
	"v1-order.jsonl":    goldenOrder(),
	"v1-settled.jsonl":  goldenSettled(),
}

func goldenKinds() []journal.Entry {
	var entries []journal.Entry
	for i, k := range journal.Kinds() {
		entries = append(entries, journal.Entry{Run: 1, Seq: int64(i + 1), Kind: k, At: at(i)})
	}
	return entries
}

func goldenStatuses() []journal.Entry {
	var entries []journal.Entry
	for i, s := range journal.Statuses() {
		entries = append(entries, journal.Entry{Run: 1, Seq: int64(i + 1), Kind: journal.StatusChanged, Status: s, At: at(i)})
	}
	return entries
}

// goldenFields has one entry with every field, and one for each field alone.
func goldenFields() []journal.Entry {
	failure := &journal.Failure{
		Message: "no \x00 money \u2028 ☃ <&>", Code: journal.CodePanic, Name: "ErrMoney", Type: "*bank.Error",
		Data: json.RawMessage(`{"cents":12}`), Class: journal.ClassRetry, After: 3 * time.Second, Stack: "goroutine 1\n",
		Wraps: []*journal.Failure{{Message: "inner"}, {Message: "other", Wraps: []*journal.Failure{{Message: "root"}}}},
	}
	every := journal.Detail{
		Attempt: 3, Due: at(9).Add(7), Failure: failure, Reason: "reason", Build: "b2", Engine: 7, Once: "once",
		Async: true, ByWait: true, Failures: 4, Version: 2, Phase: "try", Other: "db-1-2",
	}
	entries := []journal.Entry{{
		Run: 1<<63 - 1, Seq: 2, Kind: journal.StepRetrying, Status: journal.Waiting,
		Op: journal.Op{Scope: 1, Name: "charge", Key: "4711", Occ: 12}, At: at(1).Add(1), Took: 1,
		Data: []byte{0, 0xff, '\n'}, Spill: 9, Detail: &every,
	}}
	whole := reflect.ValueOf(every)
	for i := range whole.NumField() {
		alone := new(journal.Detail)
		reflect.ValueOf(alone).Elem().Field(i).Set(whole.Field(i))
		entries = append(entries, journal.Entry{Run: 1, Seq: int64(i + 3), Kind: journal.StepStarted, At: at(i), Detail: alone})
	}
	for _, data := range [][]byte{nil, {}, {0}, []byte("null")} {
		seq := entries[len(entries)-1].Seq + 1
		entries = append(entries, journal.Entry{Run: 1, Seq: seq, Kind: journal.StepCompleted, At: at(0), Data: data})
	}
	return entries
}

// goldenSettled has a failure that came from a journal.
func goldenSettled() []journal.Entry {
	settled := &journal.Failure{Message: "declined", Class: journal.ClassPermanent, Settled: true}
	return []journal.Entry{
		{Run: 1, Seq: 1, Kind: journal.RunFailed, Status: journal.Failed, At: at(0), Detail: &journal.Detail{Failure: settled}},
		{
			Run: 1, Seq: 2, Kind: journal.RunFailed, Status: journal.Failed, At: at(0),
			Detail: &journal.Detail{Failure: &journal.Failure{Message: "order 5: declined", Wraps: []*journal.Failure{settled}}},
		},
	}
}

// goldenOrder is a run as an engine writes it.
func goldenOrder() []journal.Entry {
	declined := &journal.Failure{Message: "declined", Type: "*errors.errorString"}
	entries := []journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`{"id":"ord-42"}`), Detail: &journal.Detail{Build: "b1"}},
		{Kind: journal.StepCompleted, Op: journal.Op{Name: "reserve", Occ: 1}, Took: 12 * time.Millisecond, Data: []byte(`"hold-1"`)},
		{Kind: journal.ScopeOpened, Op: journal.Op{Name: "ship", Occ: 1}},
		{Kind: journal.StepStarted, Op: journal.Op{Name: "mail", Occ: 1}, Detail: &journal.Detail{Async: true}},
		{
			Kind: journal.StepRetrying, Op: journal.Op{Name: "charge", Occ: 1}, Took: time.Second,
			Detail: &journal.Detail{Attempt: 1, Due: at(60), Failure: declined},
		},
		{Kind: journal.StatusChanged, Status: journal.Waiting},
		{Kind: journal.StepStarted, Status: journal.Running, Op: journal.Op{Name: "charge", Occ: 1}, Detail: &journal.Detail{Attempt: 2}},
		{Kind: journal.StepCompleted, Op: journal.Op{Scope: 3, Name: "label", Key: "a", Occ: 1}, Data: []byte(`"l-1"`)},
		{Kind: journal.StepFailed, Op: journal.Op{Name: "charge", Occ: 1}, Detail: &journal.Detail{Attempt: 2, Failure: declined}},
		{Kind: journal.ScopeCancelled, Op: journal.Op{Name: "ship", Occ: 1}, Detail: &journal.Detail{Reason: "workflow failed: declined"}},
		{Kind: journal.StepCancelled, Op: journal.Op{Name: "mail", Occ: 1}, Detail: &journal.Detail{Async: true, Reason: "workflow failed: declined"}},
		{Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{Failure: declined}},
	}
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = 137438953473, int64(i+1), at(i)
	}
	return entries
}

// spec: P-14
func TestGoldenJournals(t *testing.T) {
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", name)
			var written bytes.Buffer
			if err := journal.Write(&written, want); err != nil {
				t.Fatal(err)
			}
			stored, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) && *update {
				stored, err = written.Bytes(), os.WriteFile(path, written.Bytes(), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := journal.Read(bytes.NewReader(stored))
			if err != nil {
				t.Fatalf("an old journal cannot be read any more: %v", err)
			}
			if len(got) != len(want) {
				t.Fatalf("it has %d entries, want %d", len(got), len(want))
			}
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Errorf("entry %d now means something else:\n got %+v\nwant %+v", i+1, got[i], want[i])
				}
			}
			if !bytes.Equal(stored, written.Bytes()) {
				t.Errorf("entries are written differently now: raise journal.FormatVersion, keep this file, add another\n got %s\nwant %s", written.Bytes(), stored)
			}
		})
	}
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(files) != len(golden) {
		t.Errorf("%d golden journals, %d of them are tested (%v)", len(files), len(golden), err)
	}
}

// spec: P-14
func TestGoldenJournalsHaveEveryKindStatusAndField(t *testing.T) {
	kinds, statuses, fields := map[journal.Kind]bool{}, map[journal.Status]bool{}, map[string]bool{}
	for name := range golden {
		f, err := os.Open(filepath.Join("testdata", "golden", name))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := journal.Read(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			kinds[e.Kind], statuses[e.Status] = true, true
			present(fields, e)
			present(fields, e.Op)
			if e.Detail != nil {
				present(fields, *e.Detail)
			}
			if f := e.Failure(); f != nil {
				present(fields, *f)
			}
		}
	}
	for _, k := range journal.Kinds() {
		if !kinds[k] {
			t.Errorf("no golden journal has the kind %v: add a file", k)
		}
	}
	for _, s := range journal.Statuses() {
		if !statuses[s] {
			t.Errorf("no golden journal has the status %v: add a file", s)
		}
	}
	for _, v := range []any{journal.Entry{}, journal.Op{}, journal.Detail{}, journal.Failure{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			if name := typ.Name() + "." + typ.Field(i).Name; !fields[name] {
				t.Errorf("no golden journal has the field %s: add a file", name)
			}
		}
	}
}

// present notes which fields of a struct are set.
func present(fields map[string]bool, v any) {
	val := reflect.ValueOf(v)
	for i := range val.NumField() {
		if !val.Field(i).IsZero() {
			fields[val.Type().Name()+"."+val.Type().Field(i).Name] = true
		}
	}
}

// spec: P-14
func TestGoldenOrderFolds(t *testing.T) {
	a := newAggregate()
	for _, e := range goldenOrder() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	s := a.Snapshot()
	got := map[string]journal.StepStatus{}
	for _, step := range s.Steps {
		got[step.Path] = step.Status
		if !step.Status.IsTerminal() {
			t.Errorf("step %s of an ended run is %s", step.Path, step.Status)
		}
	}
	want := map[string]journal.StepStatus{
		"reserve": journal.StepIsDone, "ship": journal.StepIsCancelled, "ship/label[a]": journal.StepIsDone,
		"mail": journal.StepIsCancelled, "charge": journal.StepIsFailed,
	}
	if s.Status != journal.Failed || s.Failure.Message != "declined" || !reflect.DeepEqual(got, want) {
		t.Errorf("it is %v, %+v, with steps %v; want FAILED, declined, %v", s.Status, s.Failure, got, want)
	}
}
