package sqlite

import (
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The ways in which the files of an open store are lost.
var losses = map[string]func(path string) error{
	"removed": os.Remove,
	"moved":   func(path string) error { return os.Rename(path, path+".old") },
	"replaced": func(path string) error {
		return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
	},
	"its log removed": func(path string) error { return os.Remove(path + "-wal") },
}

// A store whose files were removed or replaced acknowledges nothing any more, reads nothing from
// the files in their place, and makes no new file.
//
// spec: P-2
func TestNothingIsAcknowledgedIntoFilesThatAreLost(t *testing.T) {
	for name, lose := range losses {
		// whether the connection for writing was closed before
		for _, broken := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "runs.db")
			s := mustOpen(t, path)
			got, err := join(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			if broken {
				s.writer.close()
				s.writer = nil
			}
			before, _ := os.ReadFile(path)
			_, find := func() (any, error) {
				h, _, err := s.Find(t.Context(), store.Filter{})
				return h, err
			}()
			_, claim := s.Claim(t.Context(), store.TakeDue{
				Engine:    got.Engine,
				Workflows: []string{"w"},
				Max:       1,
				Now:       noon,
			})
			for call, err := range map[string]error{
				"Commit": s.Commit(t.Context(), &store.Group{Engine: got.Engine, Now: noon}),
				"Find":   find, "Claim": claim,
				"Backup": s.Backup(t.Context(), path+".backup"),
			} {
				if !errors.Is(err, store.ErrLost) {
					t.Errorf("%s, given up %v: %s gives %v", name, broken, call, err)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("%s, given up %v: what is in its place was written", name, broken)
			}
		}
	}
}

// overwrite overwrites a part of a file with garbage.
func overwrite(t *testing.T, path string, at int64, size int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		spoiled := make([]byte, size)
		for i := range spoiled {
			spoiled[i] = 0xa5
		}
		_, err = f.WriteAt(spoiled, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The error of a damaged database reports the damage and a remedy.
//
// spec: P-2
func TestDamageIsToldAsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		at   int64
		size int
	}{
		"header": {0, 100}, "first page": {100, 8000}, "all pages but the first": {8192, 40 * 8192},
	} {
		path := filepath.Join(t.TempDir(), "runs.db")
		s := mustOpen(t, path)
		if _, err := join(s); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		overwrite(t, path, c.at, c.size)
		s, err := Open(path)
		if err == nil {
			_, err = join(s)
			s.Close()
		}
		if !errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only one engine has a file, whichever paths lead to it.
//
// spec: P-2
func TestLinksLeadToOneEngine(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "runs.db")
	link, chain, folder := filepath.Join(dir, "link.db"), filepath.Join(dir, "chain.db"),
		filepath.Join(dir, "folder")
	if err := errors.Join(os.Symlink("runs.db", link), os.Symlink(link, chain),
		os.Symlink(dir, folder)); err != nil {
		t.Skip(err)
	}
	// the first path makes the file
	paths := []string{
		chain, real, link, filepath.Join(folder, "runs.db"), filepath.Join(folder, "chain.db"),
	}
	for i, path := range paths {
		s := mustOpen(t, path)
		if _, err := join(s); (err == nil) != (i == 0) ||
			i > 0 && !errors.Is(err, store.ErrLocked) {
			t.Errorf("%s: join gives %v", path, err)
		}
	}
}

// A claim of many runs waits for no reader, because it has the lock for writing.
//
// spec: B-6
func TestClaimWaitsForNoReader(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * runsAtATime
	for i := range int64(n) {
		g := start(s, 0, i+1)
		g.Changes[0].Head.Status = journal.Pending
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	for range maxReaders { // all are busy until the end of the test
		s.readers.slots <- struct{}{}
	}
	claimed, err := s.Claim(t.Context(), store.TakeDue{
		Engine:    got.Engine,
		Workflows: []string{"w"},
		Max:       n,
		Now:       noon,
	})
	if err != nil || len(claimed.Runs) != n || len(claimed.Runs[n-1].Entries) != 1 {
		t.Errorf("%d runs come, %v", len(claimed.Runs), err)
	}
	for range maxReaders {
		<-s.readers.slots
	}
}

// A log that has become long because of a reader is cut off when the reader has gone.
//
// spec: P-2
func TestLongLogIsCutOff(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	s.logBound = 1 << 20
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	grow := func() int64 {
		s.trimmed = time.Time{}
		if err := s.Spill(t.Context(), got.Engine, 7, make([]byte, 300_000)); err != nil {
			t.Fatal(err)
		}
		size, err := s.files.look()
		if err != nil {
			t.Fatal(err)
		}
		return size
	}
	c, err := dial(s.path, "ro")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script("begin; select count(*) from perdure_heads"); err != nil {
		t.Fatal(err)
	}
	long := int64(0)
	for range 20 {
		long = grow()
	}
	if long < 4*s.logBound {
		t.Fatalf("the log has %d bytes: this proves nothing", long)
	}
	if err := c.script("commit"); err != nil {
		t.Fatal(err)
	}
	if size := grow(); size > s.logBound {
		t.Errorf("the log has %d bytes still", size)
	}
}

// A purge copies a long log into the file beside the writer, so that no commit has to do it while
// everybody waits. It does not copy a short log.
//
// spec: R-37, P-2
func TestPurgeCopiesALongLog(t *testing.T) {
	for _, c := range []struct {
		after int64 // pages
		left  bool
	}{{1, false}, {1000, true}} {
		s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
		s.foldAfter = c.after
		got, err := join(s)
		if err != nil {
			t.Fatal(err)
		}
		g := start(s, got.Engine, 1)
		g.Changes[0].Head.Status, g.Changes[0].Head.Ended, g.Changes[0].Head.Retain =
			journal.Completed, noon, "0s"
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Purge(t.Context(), store.Purge{
			Engine: got.Engine, Now: noon.Add(time.Second),
		}); err != nil || p.Runs != 1 {
			t.Fatalf("Purge gives %+v, %v", p, err)
		}
		left := int64(-1)
		err = s.writer.query(func(row []driver.Value) error {
			left = integer(row[1]) - integer(row[2])
			return nil
		}, "pragma wal_checkpoint(noop)")
		if err != nil || (left > 0) != c.left || left < 0 {
			t.Errorf("from %d pages on: %d are left to be copied, %v", c.after, left, err)
		}
	}
}
