package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func TestBackupIsTheDatabaseAtOneMoment(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	claimed, err := s.Claim(t.Context(), store.Join{
		Self: store.Engine{Host: "h", PID: 1},
		Now:  time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	start := func(n int64) {
		number, err := journal.MakeNumber(claimed.Engine, n)
		if err != nil {
			t.Fatal(err)
		}
		head := &journal.Head{
			Number: number, ID: journal.MakeRunID(s.database, number), WorkflowID: "w",
			Workflow: "w", Status: journal.Completed, Created: time.Now(), Ended: time.Now(),
			Last: 1, Chain: number,
		}
		entry := journal.Entry{
			Run: number, Seq: 1, Kind: journal.RunStarted, At: time.Now(),
			Data: make([]byte, 200_000),
		}
		g := &store.Group{
			Engine: claimed.Engine,
			Now:    time.Now(),
			Changes: []store.Change{
				{Run: number, Create: true, Head: head, Entries: []journal.Entry{entry}},
			},
		}
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	start(1)
	copied := filepath.Join(dir, "copy.db")
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	start(2)
	if err := s.Backup(t.Context(), copied); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	reader, err := OpenWith(filepath.Join(dir, "runs.db"), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	later := filepath.Join(dir, "later.db")
	if err := os.WriteFile(later+".part", []byte("what a backup left that was killed"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := reader.Backup(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "no", "copy.db")); err == nil {
		t.Error("a directory that is not there")
	}
	for path, runs := range map[string]int64{copied: 1, later: 2} {
		c, err := OpenWith(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		info, err := c.Info(t.Context())
		if err != nil || info.Runs != runs || info.Database != s.database {
			t.Errorf("%s: %+v, %v", path, info, err)
		}
		if len(info.Engines) != 1 || !info.Engines[0].Expired {
			t.Errorf("the engines of %s are %v", path, info.Engines)
		}
		c.Close()
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.part"))
	if err != nil || left != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}
