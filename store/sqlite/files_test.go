package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/store"
)

// What happens to the files of a store while it is open.
var losses = map[string]func(path string) error{
	"removed": os.Remove,
	"moved":   func(path string) error { return os.Rename(path, path+".old") },
	"replaced": func(path string) error {
		return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
	},
	"its log removed": func(path string) error { return os.Remove(path + "-wal") },
}

// A store whose files were removed or replaced acknowledges nothing any more, reads
// nothing that is in their place, and makes no new file.
//
// spec: P-2
func TestNothingIsAcknowledgedIntoFilesThatAreLost(t *testing.T) {
	for name, lose := range losses {
		for _, broken := range []bool{false, true} { // whether the connection for writing was given up before
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
			_, find := func() (any, error) { h, _, err := s.Find(t.Context(), store.Filter{}); return h, err }()
			_, claim := s.Claim(t.Context(), store.Claim{Engine: got.Engine, Now: noon, Workflows: []string{"w"}, Max: 1})
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

// overwrite spoils a part of a file.
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

// A database that is damaged is told to be that, with what to do.
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
