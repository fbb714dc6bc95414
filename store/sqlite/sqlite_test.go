package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		var last *Store
		return storetest.Database{
			Open: func() (s store.Store, err error) {
				last, err = Open(path)
				return last, err
			},
			Written: func(f func()) (int64, error) { return rowsWritten(last, f) },
			Corrupt: func(run journal.Number, seq int64) error { return corrupt(path, run, seq) },
			Lose:    func(run journal.Number, seq int64) error { return lose(path, run, seq) },
		}
	})
}

// TestLikeMemory compares the driver with the reference.
func TestLikeMemory(t *testing.T) {
	for seed := range uint64(6) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "runs.db")
			m := memory.New()
			storetest.Differ(t,
				storetest.Database{
					Open: func() (store.Store, error) { m = m.Reopen(); return m, nil },
				},
				storetest.Database{Open: func() (store.Store, error) { return Open(path) }},
				seed, 400)
		})
	}
}

// rowsWritten calls f and counts the rows that the connection for writing has written.
func rowsWritten(s *Store, f func()) (rows int64, err error) {
	count := func() error {
		before := rows
		v, err := s.writer.value("select total_changes()")
		rows = integer(v) - before
		return err
	}
	if err := s.alone(count); err != nil {
		return 0, err
	}
	f()
	return rows, s.alone(count)
}

// corrupt makes an entry unreadable, as no version of this module would.
func corrupt(path string, run journal.Number, seq int64) error {
	return behind(path, "update perdure_entries set detail = '{spoiled' where run = ? and seq = ?",
		run, seq)
}

// lose removes an entry, as no version of this module would.
func lose(path string, run journal.Number, seq int64) error {
	return behind(path, "delete from perdure_entries where run = ? and seq = ?", run, seq)
}

// behind changes an entry without the driver.
func behind(path, sql string, run journal.Number, seq int64) error {
	c, err := dial(path, "rw")
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.exec(sql, int64(run), seq)
	return err
}

// A message waits for a workflow ID, and its detail is not readable. The run that is started with
// the ID gets it all the same: only the reading of that run fails.
func TestAnUnreadableMessageThatWaitsKeepsNoRunFromItsStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1, 0)
	commit := func(c store.Change) store.Change {
		t.Helper()
		g := &store.Group{Now: now, Changes: []store.Change{c}}
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		return g.Changes[0]
	}
	for _, kind := range []journal.Kind{journal.SignalReceived, journal.CancelAsked} {
		commit(store.Change{Posts: []store.Post{{
			WorkflowID: "x", Until: now.Add(time.Hour),
			Message: journal.Entry{Kind: kind, Op: journal.Op{Name: "a"}, At: now},
		}}})
	}
	err = behind(path, "update perdure_unrouted set detail = '{\"newer\":1}' where number > ? + ?",
		0, 0)
	if err != nil {
		t.Fatal(err)
	}
	run, err := journal.MakeNumber(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := commit(store.Change{
		Run: run, Create: true, Head: &journal.Head{
			Number: run, ID: journal.MakeRunID(s.database, run), WorkflowID: "x",
			Workflow: "w", Status: journal.Pending, Created: now, Chain: run, Retain: "0s",
		},
		Entries: []journal.Entry{{
			Run: run, Seq: 1, Kind: journal.RunStarted, Status: journal.Pending, At: now,
		}},
	})
	if got.Verdict != store.Written || got.Found.Mail != 2 {
		t.Errorf("the start is %v with %d messages", got.Verdict, got.Found.Mail)
	}
}
