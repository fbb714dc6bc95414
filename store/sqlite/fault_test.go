package sqlite

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// TestFullDisk fills the database up to its limit. The commit that does not fit fails with an error
// that blames nobody, nothing of it is written, and the same group is written when there is room.
func TestFullDisk(t *testing.T) {
	s, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	g := start(s, got.Engine, 1)
	run := g.Changes[0].Run
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("x"), 100<<10)
	seq := int64(2)
	for ; ; seq++ {
		g = step(got.Engine, run, seq, payload)
		if err = s.Commit(t.Context(), g); err != nil {
			break
		}
	}
	data := new(store.DataError)
	if code(err) != sqlite3.SQLITE_FULL || errors.As(err, &data) {
		t.Fatalf("Commit on a full disk = %v", err)
	}
	if seq < 5 {
		t.Fatalf("it is full at entry %d", seq)
	}
	wantEntries(t, s, run, seq-1)

	// The error stays until there is room.
	g.Again = true
	if err := s.Commit(t.Context(), g); code(err) != sqlite3.SQLITE_FULL {
		t.Fatalf("Commit again = %v", err)
	}
	s.options.MaxBytes = 0
	for range 2 {
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatalf("Commit with room = %v", err)
		}
	}
	wantEntries(t, s, run, seq)
}

func wantEntries(t *testing.T, s *Store, run journal.Number, want int64) {
	t.Helper()
	entries, err := s.Load(t.Context(), run, store.Range{})
	if err != nil || int64(len(entries)) != want {
		t.Fatalf("there are %d entries, %v; want %d", len(entries), err, want)
	}
}

// TestWriterIsAbandoned breaks the writer's connection while it is in use.
func TestWriterIsAbandoned(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.exec("begin"); err != nil { // so that the next begin fails
		t.Fatal(err)
	}
	broken := s.writer
	g := start(s, got.Engine, 1)
	if err := s.Commit(t.Context(), g); err == nil {
		t.Fatal("the commit did not fail")
	}
	g.Again = true
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if s.writer == broken {
		t.Errorf("the connection that failed is used again")
	}
	wantEntries(t, s, g.Changes[0].Run, 1)
}

// TestRefusalKeepsTheWriter verifies that an error of a group is not taken for an error of the
// connection.
func TestRefusalKeepsTheWriter(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	before := s.writer
	if err := s.Commit(t.Context(), step(got.Engine, 4711, 1, nil)); !isRefusal(err) {
		t.Fatalf("Commit = %v", err)
	}
	if err := s.Commit(t.Context(), step(got.Engine+1, 4711, 1, nil)); !errors.Is(err,
		store.ErrFenced) {
		t.Fatalf("Commit = %v", err)
	}
	if s.writer != before {
		t.Errorf("the connection was abandoned")
	}
}

// TestDurability reads the settings of the writer back.
func TestDurability(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	for pragma, want := range map[string]any{
		"journal_mode": "wal", "synchronous": int64(2), "foreign_keys": int64(1),
		"wal_autocheckpoint": int64(2000),
		"cache_size":         int64(-8192),
	} {
		if got, err := s.writer.value("pragma " + pragma); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", pragma, got, err, want)
		}
	}
}

// TestCloseLeavesOneFile verifies that a clean end leaves no log.
func TestCloseLeavesOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := mustOpen(t, path)
	if err := s.Commit(t.Context(), start(s, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// TestLongJournal claims a run of 100,000 entries.
func TestLongJournal(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	const entries = 100_000
	g := start(s, 0, 1)
	c := &g.Changes[0]
	for seq := int64(2); seq <= entries; seq++ {
		c.Entries = append(c.Entries, step(1, c.Run, seq, []byte(`{"n":1}`)).Changes[0].Entries[0])
	}
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	claimed, err := s.Claim(t.Context(), store.TakeRun{Engine: got.Engine, Run: c.Run})
	if err != nil || len(claimed.Runs) != 1 || len(claimed.Runs[0].Entries) != entries {
		t.Fatalf("Claim gives %d runs, %v", len(claimed.Runs), err)
	}
	t.Logf("%d entries came in %v", entries, time.Since(began).Round(time.Millisecond))
}

// TestPlans verifies that frequent queries need no scan.
func TestPlans(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	statements := map[string]int{
		selectDue: 3, selectNext: 1, selectHead: 1, selectOpen: 1, selectEnded: 4,
		releaseAll: 1, releaseOwn: 2, countCrashes: 1, takeOne: 3,
		updateHead: 11, unloadHead: 13, stayHead: 9, selectPast: 1, inheritInbox: 3, leaveInbox: 1,
		mayContinue: 2, deleteOutbox: 1,
		insertMessage: 13, countMail: 3, countAndWake: 4, selectReceiver: 1, selectOpenReceiver: 1,
		selectNewest: 1, selectKnown: 2, moveUnrouted: 4,
		selectWaiting: 3, selectUnrouted: 1, selectWaitingFor: 2, deleteUnrouted: 1,
		selectExpired: 2,
		selectUnseen:  1, seeMail: 1, selectInbox: 3, selectOne: 2,
		takeMessage: 4, takeInherited: 4, selectSent: 3, insertOutbox: 2, setAttribute: 3,
		removeAttribute: 2, selectOutbox: 3,
		selectOver: 2, deleteOver: 2, selectGone: 0, deleteGone: 1, clearAttributes: 3,
		purgeExpired: 2, selectUnsaid: 2, sayRetention: 3,
	}
	for _, p := range parts {
		statements[p.measure], statements[p.payloads], statements[p.remove] = 2, 4, 2
	}
	for i, size := range listSizes {
		for _, l := range []many{selectJournals, selectInboxes, selectReceivers} {
			statements[l.sql[i]] = size
		}
		statements[takeMany.sql[i]] = 1 + size
		statements[countEntries.sql[i]] = 2 * size
	}
	for _, r := range []store.Range{{}, {Payloads: true}, {Inbox: true}, {Inbox: true, Name: "x"}} {
		sql, args := rangeOf(1, r)
		statements[sql] = len(args)
	}
	for sql, n := range statements {
		plan := planOf(t, s.writer, sql, n)
		if bytes.Contains([]byte(plan), []byte("SCAN")) ||
			bytes.Contains([]byte(plan), []byte("TEMP B-TREE")) {
			t.Errorf("%s\nneeds\n%s", sql, plan)
		}
	}
}

func planOf(t *testing.T, c *conn, sql string, arguments int) string {
	t.Helper()
	plan := ""
	err := c.query(func(row []driver.Value) error {
		// a list of arguments
		if step := str(row[3]); step != "SCAN p" && step != "SCAN w VIRTUAL TABLE INDEX 1:" &&
			step != "SCAN CONSTANT ROW" && !strings.HasSuffix(step, "-ROW VALUES CLAUSE") {
			plan += step + "\n"
		}
		return nil
	}, "explain query plan "+sql, make([]driver.Value, arguments)...)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
