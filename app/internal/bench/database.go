package bench

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// A database can be opened several times, one after another.
type database struct {
	at     place.Place   // place of the option; on a server, where a database is made
	made   *place.Place  // on a server; nil before the first open
	path   string        // of the SQLite file; empty for others
	dir    string        // made for it and removed with it; else empty
	memory *memory.Store // last handle of a store in memory
}

// newDatabase returns the database that the option names, or on a server a new database
// beside it. It does not open or make it.
func newDatabase(o Options) (*database, error) {
	d := &database{at: o.Store, path: o.Store.File}
	switch {
	case o.Store.Kind != place.SQLite:
		return d, nil
	case d.path == "":
		dir, err := os.MkdirTemp(".", "perdure-bench-")
		if err != nil {
			return nil, unavailable("make a directory for the database", err)
		}
		d.path, d.dir = filepath.Join(dir, "bench.db"), dir
		return d, nil
	}
	// Force does not replace a file that the environment variable names: others may use it.
	return d, d.vacate(o.Force && !o.Store.FromEnv)
}

// vacate returns an error if the file exists. With force it removes the file.
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
		Hint: "name a new file with --store, or replace it with --force",
	}
}

// String returns the name of the database as the option has it.
func (d *database) String() string {
	switch {
	case d.path != "":
		return "sqlite:" + d.path
	case d.made != nil:
		return d.made.String()
	}
	return d.at.String()
}

func (d *database) files() []string {
	return []string{d.path, d.path + "-wal", d.path + "-shm", d.path + "-engine"}
}

// remove removes a closed database.
func (d *database) remove() error {
	if d.made != nil {
		return d.at.Drop(context.Background(), d.made.Database())
	}
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

// size returns the bytes that a closed database has on disk, or 0 if they are unknown.
func (d *database) size(ctx context.Context) int64 {
	if d.made != nil {
		return d.sizeThere(ctx)
	}
	total := int64(0)
	for _, name := range d.files() {
		if info, err := os.Stat(name); err == nil {
			total += info.Size()
		}
	}
	return total
}

// sizeThere returns the size of a database on a server.
func (d *database) sizeThere(ctx context.Context) int64 {
	s, err := d.made.Open(ctx, place.Read)
	if err != nil {
		return 0
	}
	defer s.Close()
	info, err := s.Info(ctx)
	if err != nil {
		return 0
	}
	return info.Bytes
}

// beside returns another database in the same directory or on the same server.
func (d *database) beside() *database {
	other := &database{at: d.at}
	if d.path != "" {
		other.path = d.path + ".floor"
	}
	return other
}

func (d *database) open(ctx context.Context) (*counting, error) {
	switch d.at.Kind {
	case place.Memory:
		if d.memory == nil {
			d.memory = memory.New()
		} else {
			d.memory = d.memory.Reopen()
		}
		return &counting{Store: d.memory}, nil
	case place.Postgres:
		return d.openThere(ctx)
	}
	s, err := sqlite.Open(d.path)
	if err != nil {
		return nil, unavailable("open the store", err)
	}
	return &counting{Store: s}, nil
}

// openThere opens the database on a server. The first time it makes the database.
func (d *database) openThere(ctx context.Context) (*counting, error) {
	if d.made == nil {
		made, err := d.at.Make(ctx, "perdure_bench_")
		if err != nil {
			return nil, err
		}
		d.made = &made
	}
	s, err := d.made.Open(ctx, place.Engine)
	if err != nil {
		return nil, err
	}
	return &counting{Store: s}, nil
}

func unavailable(what string, err error) error {
	return &perdure.Error{
		Code: journal.CodeUnavailable, Op: "bench", Message: what, Err: err,
		Hint: "name a file in a directory that can be written: --store sqlite:FILE",
	}
}
