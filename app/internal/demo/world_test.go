package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func testWorld(t *testing.T, setup worldSetup) *world {
	t.Helper()
	setup.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := newLedger(setup.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return newWorld(setup, l)
}

func TestWorldHasAnEffectOncePerKey(t *testing.T) {
	w := testWorld(t, worldSetup{Stock: 5, Refused: []string{"b"}})
	for i, c := range []struct {
		call    Call
		refused bool
		stock   int
	}{
		{Call{Action: Reserve, Order: "a", Key: "1", Quantity: 2}, false, 3},
		{Call{Action: Reserve, Order: "a", Key: "1", Quantity: 2}, false, 3},
		{Call{Action: Reserve, Order: "a", Key: "2", Quantity: 2}, false, 1},
		{Call{Action: Reserve, Order: "b", Key: "3", Quantity: 2}, true, 1},
		{Call{Action: Release, Order: "a", Key: "4", Quantity: 2}, false, 3},
		{Call{Action: Reserve, Order: "b", Key: "3", Quantity: 2}, true, 3}, // the first answer
		{Call{Action: Ship, Order: "a", Key: "5"}, false, 3},
		{Call{Action: Ship, Order: "b", Key: "6"}, true, 3},
		{Call{Action: Charge, Order: "b", Key: "5"}, true, 3}, // the key of another
		{Call{Action: "fly", Order: "b", Key: "7"}, true, 3},
	} {
		a, err := w.take(&c.call)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Refused != "") != c.refused || c.call.Stock != c.stock || c.call.Seq != i+1 {
			t.Errorf("call %d: %+v, stock %d, line %d", i+1, a, c.call.Stock, c.call.Seq)
		}
	}
	calls, err := ReadLedger(w.ledger.path)
	if err != nil || len(calls) != 10 {
		t.Errorf("the ledger has %d lines, %v", len(calls), err)
	}
}

// TestWorldHoldsUntilTheCallerIsKilled: a hold whose caller was dead already
// stays for the next call; one that was killed is over.
func TestWorldHoldsUntilTheCallerIsKilled(t *testing.T) {
	w := testWorld(t, worldSetup{Holds: []Target{{"a", Ship}}})
	verdicts, told := make(chan verdict), &bytes.Buffer{}
	w.out, w.verdicts = json.NewEncoder(told), verdicts
	held := func() bool {
		before := told.Len()
		w.hold(t.Context(), Call{Order: "a", Action: Ship})
		return told.Len() > before
	}
	w.hold(t.Context(), Call{Order: "a", Action: Charge}) // not planned
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.hold(gone, Call{Order: "a", Action: Ship})
	if told.Len() > 0 {
		t.Fatalf("it told %s", told)
	}
	for _, killed := range []bool{false, true} {
		go func() { verdicts <- verdict{Killed: killed} }()
		if !held() {
			t.Errorf("not held before the verdict %v", killed)
		}
	}
	if held() {
		t.Error("held after the kill")
	}
}

func TestReadLedgerIgnoresHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	for content, want := range map[string]int{
		"":                              0,
		`{"seq":1`:                      0,
		"{\"seq\":1}\n":                 1,
		"{\"seq\":1}\n{\"seq\":2}\n{\"": 2,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if calls, err := ReadLedger(path); err != nil || len(calls) != want {
			t.Errorf("%q: %d calls, %v", content, len(calls), err)
		}
	}
	if err := os.WriteFile(path, []byte("no\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLedger(path); err == nil {
		t.Error("it reads what is no call")
	}
}

func TestChildrenEndWithTheirInput(t *testing.T) {
	in, feed := io.Pipe()
	out, told := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- World(t.Context(), in, told) }()
	setup := worldSetup{Ledger: filepath.Join(t.TempDir(), "ledger.jsonl")}
	if err := json.NewEncoder(feed).Encode(setup); err != nil {
		t.Fatal(err)
	}
	var e worldEvent
	if err := json.NewDecoder(out).Decode(&e); err != nil || e.Address == "" {
		t.Fatalf("it told %+v, %v", e, err)
	}
	feed.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
