package journal_test

import (
	"reflect"
	"testing"

	"github.com/perdure/perdure/journal"
)

// chunk is an entry that puts data into the stream answer, as part of an attempt.
func chunk(op journal.Op, part int64, data string) journal.Entry {
	return output(op, journal.OutputDetail{Stream: "answer", Part: part}, data)
}

func output(op journal.Op, d journal.OutputDetail, data string) journal.Entry {
	e := journal.Entry{
		Kind: journal.StepOutput, Op: op,
		Detail: &journal.Detail{StepDetail: journal.StepDetail{OutputDetail: d}},
	}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

// spec: B-11
func TestTheSizeOfAStreamIsThatOfThePartsThatCount(t *testing.T) {
	big := output(charge, journal.OutputDetail{Stream: "answer", Part: 2, Size: 5}, "")
	big.Spill = 7
	void := output(charge, journal.OutputDetail{Stream: "answer", Part: 2, Void: true}, "")
	a := fold(t, start(), chunk(charge, 0, "12"), chunk(ship, 0, "345"), big)
	got := a.Snapshot().Streams["answer"]
	want := journal.Stream{Last: 4, Written: 10, Parts: map[int64]int64{2: 7, 3: 3}}
	if !reflect.DeepEqual(got, want) || got.Bytes() != 10 {
		t.Errorf("%+v with %d bytes, want %+v", got, got.Bytes(), want)
	}
	void.Seq = 5
	if err := a.Apply(void); err != nil {
		t.Fatal(err)
	}
	now := a.Snapshot().Streams["answer"]
	want = journal.Stream{Last: 5, Written: 10, Parts: map[int64]int64{3: 3}}
	if !reflect.DeepEqual(now, want) || now.Bytes() != 3 {
		t.Errorf("%+v with %d bytes, want %+v", now, now.Bytes(), want)
	}
	if got.Bytes() != 10 {
		t.Error("a snapshot has changed")
	}
}

// What the steps that stay have put out is in the journal of a retry, and what is done again is
// not.
//
// spec: B-11, B-24
func TestARetryKeepsTheOutputOfTheStepsThatItKeeps(t *testing.T) {
	logged := journal.Entry{Kind: journal.StepLogged, Op: charge, Data: []byte("{}\n")}
	entries := []journal.Entry{
		start(), {Kind: journal.StatusChanged, Status: journal.Running},
		chunk(charge, 0, "1"), logged, chunk(charge, 3, "2"),
		{Kind: journal.StepCompleted, Op: charge},
		chunk(ship, 0, "3"),
		{Kind: journal.StepFailed, Op: ship, Detail: &journal.Detail{
			Failure: &journal.Failure{Message: "no"},
		}},
		{
			Kind: journal.RunFailed, Status: journal.Failed,
			Detail: &journal.Detail{Failure: &journal.Failure{Message: "no"}},
		},
	}
	for i := range entries {
		entries[i].Seq, entries[i].At = int64(i+1), at(i+1)
	}
	kept, _, err := journal.Reusable(entries)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range kept[1:] {
		kinds = append(kinds, e.Kind.String()+" "+e.Op.Name)
	}
	want := []string{
		"StepOutput charge", "StepLogged charge", "StepOutput charge", "StepCompleted charge",
	}
	if !reflect.DeepEqual(kinds, want) {
		t.Fatalf("%q, want %q", kinds, want)
	}
	if part := kept[3].Detail.Part; part != kept[1].Seq || entries[4].Detail.Part != 3 {
		t.Errorf("the part begins at %d, want %d", part, kept[1].Seq)
	}
}
