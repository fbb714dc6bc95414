package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// A database can be opened more than once, one time after another.
type database struct {
	path   string        // of the SQLite file; empty for one in memory
	dir    string        // made for it and removed with it; empty where there was one
	memory *memory.Store // the last handle, where it is in memory
}

// newDatabase gives the database that the option names. Nothing is opened yet.
func newDatabase(o Options) (*database, error) {
	switch path, isFile := strings.CutPrefix(o.Store, "sqlite:"); {
	case o.Store == "memory:":
		return &database{}, nil
	case !isFile:
		return nil, invalid("there is no store "+o.Store, "--store is memory:, sqlite:FILE, or sqlite: for a temporary file")
	case path == "":
		dir, err := os.MkdirTemp(".", "perdure-bench-")
		if err != nil {
			return nil, unavailable("make a directory for the database", err)
		}
		return &database{path: filepath.Join(dir, "bench.db"), dir: dir}, nil
	default:
		d := &database{path: path}
		return d, d.vacate(o.Force)
	}
}

// vacate makes sure that the file is not there.
func (d *database) vacate(force bool) error {
	_, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unavailable("look for "+d.path, err)
	case force:
		return d.remove()
	}
	return &perdure.Error{
		Code: journal.CodeConflict, Op: "bench", Message: d.path + " is there already",
		Hint: "name a new file, or replace it with --force",
	}
}

// String names the database as the option does.
func (d *database) String() string {
	if d.path == "" {
		return "memory:"
	}
	return "sqlite:" + d.path
}

func (d *database) files() []string {
	return []string{d.path, d.path + "-wal", d.path + "-shm", d.path + "-engine"}
}

// remove removes the files of a database that is closed.
func (d *database) remove() error {
	if d.path == "" {
		return nil
	}
	for _, name := range d.files() {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unavailable("remove the database", err)
		}
	}
	if d.dir != "" {
		return os.Remove(d.dir)
	}
	return nil
}

// size is what a closed database takes on disk.
func (d *database) size() int64 {
	total := int64(0)
	for _, name := range d.files() {
		if info, err := os.Stat(name); err == nil {
			total += info.Size()
		}
	}
	return total
}

// beside gives another database in the same directory.
func (d *database) beside() *database { return &database{path: d.path + ".floor"} }

func (d *database) open() (*counting, error) {
	if d.path == "" {
		if d.memory == nil {
			d.memory = memory.New()
		} else {
			d.memory = d.memory.Reopen()
		}
		return &counting{Store: d.memory}, nil
	}
	s, err := sqlite.Open(d.path)
	if err != nil {
		return nil, unavailable("open the store", err)
	}
	return &counting{Store: s}, nil
}

func unavailable(what string, err error) error {
	return &perdure.Error{
		Code: journal.CodeUnavailable, Op: "bench", Message: what, Err: err,
		Hint: "name a file in a directory that can be written: --store sqlite:FILE",
	}
}
