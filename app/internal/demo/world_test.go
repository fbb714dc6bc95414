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

func testWorld(t testing.TB, setup worldSetup) *world {
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
	w := testWorld(t, worldSetup{
		Stock: 5, Accounts: []Account{{Name: "x", Cents: 10}, {Name: "y", Closed: true}},
	})
	for i, c := range []struct {
		action            Action
		run, key, account string
		amount, left      int64
		refused           string
	}{
		{Reserve, "a", "1", "", 2, 3, ""},
		{Reserve, "a", "1", "", 2, 3, ""},
		{Reserve, "a", "2", "", 2, 1, ""},
		{Reserve, "b", "3", "", 2, 1, "out of stock"},
		{Release, "a", "4", "", 2, 3, ""},
		{Reserve, "b", "3", "", 2, 3, "out of stock"}, // the first answer
		{Ship, "a", "5", "", 0, 3, ""},
		{Ship, "b", "6", "", 0, 3, "the carrier does not go there"},
		{Charge, "b", "5", "", 0, 3, "the key belongs to ship of a"},
		{Hold, "t", "7", "x", 8, 2, ""},
		{Hold, "t", "7", "x", 8, 2, ""},
		{Hold, "t", "8", "x", 8, 2, "too little money"},
		{Announce, "t", "9", "y", 8, 0, "the account is closed"},
		{Give, "t", "10", "z", 8, 0, "there is no account z"},
		{GiveBack, "t", "11", "x", 8, 10, ""},
		{Think, "q", "12", "", 0, int64(script[0].Tokens), ""},
		{Think, "q", "12", "", 0, int64(script[0].Tokens), ""},
		{Search, "q", "13", "", 0, int64(script[0].Tokens), ""},
		{Ask, "s", "14", "", 0, 0, ""},
		{"fly", "b", "15", "", 0, 0, "nobody does that"},
	} {
		call := Call{
			Target:  Target{c.run, string(c.action)},
			Key:     c.key,
			Account: c.account,
			Amount:  c.amount,
		}
		if c.run == "b" {
			call.Text = antarctica
		}
		a, err := w.take(&call)
		if err != nil {
			t.Fatal(err)
		}
		if a.Refused != c.refused || call.Refused != c.refused || call.Left != c.left ||
			call.Seq != i+1 {
			t.Errorf("call %d: %+v, left %d, line %d", i+1, a, call.Left, call.Seq)
		}
	}
	calls, err := ReadLedger(w.ledger.path)
	if err != nil || len(calls) != 20 {
		t.Errorf("the ledger has %d lines, %v", len(calls), err)
	}
}

// A hold whose caller was not killed stays for the next call. A hold whose caller was
// killed is over.
func TestWorldHoldsUntilTheCallerIsKilled(t *testing.T) {
	w := testWorld(t, worldSetup{Holds: []Target{{"a", "ship"}}})
	verdicts, told := make(chan verdict), &bytes.Buffer{}
	w.out, w.verdicts = json.NewEncoder(told), verdicts
	held := func() bool {
		before := told.Len()
		w.hold(t.Context(), Call{Target: Target{"a", "ship"}})
		return told.Len() > before
	}
	w.hold(t.Context(), Call{Target: Target{"a", "charge"}}) // not planned
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.hold(gone, Call{Target: Target{"a", "ship"}})
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
