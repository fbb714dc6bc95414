package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/store"
)

// files are the database and its log, as they were when the store was opened. SQLite
// goes on with files that have no name any more, and so would acknowledge what nobody
// finds again.
type files struct {
	names [2]string
	were  [2]sight
}

// filesOf returns the files of a database that is open: some connection has read it, so
// its log is there too, if it has one, and stays as long as a connection is open.
func filesOf(path string) (f files, err error) {
	f.names = [2]string{path, path + "-wal"}
	for i, name := range f.names {
		f.were[i], err = see(name)
		// a copy that is only read has no log
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return f, err
		}
	}
	return f, nil
}

// lost returns [store.ErrLost] where one of the files was removed or replaced.
func (f *files) lost() error {
	_, err := f.look()
	return err
}

// look returns the size of the log, or [store.ErrLost] where one of the files was removed
// or replaced. It opens none: closing a descriptor would drop SQLite's locks.
func (f *files) look() (log int64, err error) {
	for i, name := range f.names {
		if f.were[i] == (sight{}) {
			continue
		}
		is, err := see(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return 0, fmt.Errorf("%w: %s is not there any more", store.ErrLost, name)
		case err == nil && !is.same(f.were[i]):
			return 0, fmt.Errorf("%w: %s is another file now", store.ErrLost, name)
		case err == nil:
			log = is.bytes()
		}
	}
	return log, nil
}

const (
	// logBound is the size of the log above which it is cut off.
	logBound = 64 << 20
	// trimEvery is how often that is tried, and readersMay how long readers of this
	// process may go on meanwhile.
	trimEvery  = time.Second
	readersMay = 100 * time.Millisecond
)

// foldAfter is how many pages of the log, half of those with which a commit does it, a purge
// copies into the file.
const foldAfter = 1000

// fold copies the log into the file if much is in it, beside who writes: a commit that found
// the log full would do so while everybody waits. Meanwhile others write, so it goes on until
// nothing is left, and the log can begin anew. What it fails to copy a commit does.
func (s *Store) fold(ctx context.Context) {
	_ = s.read(ctx, func(c *conn) error {
		for _, how := range []string{"noop", "passive", "passive", "passive"} {
			var left int64
			err := c.query(func(row []driver.Value) error {
				left = integer(row[1]) - integer(row[2])
				return nil
			}, "pragma wal_checkpoint("+how+")")
			if err != nil || left == 0 || how == "noop" && left < s.foldAfter {
				return err
			}
		}
		return nil
	})
}

// trim cuts off the log if it is large. SQLite begins it anew only where nobody reads it
// just then: with readers that overlap it would grow without bound, and it never becomes
// smaller by itself. One of another process that stays is not waited for.
func (s *Store) trim(log int64) error {
	if log <= s.logBound || time.Since(s.trimmed) < trimEvery {
		return nil
	}
	s.trimmed = time.Now()
	return s.readers.pause(readersMay, func() error {
		_, err := s.writer.value("pragma wal_checkpoint(truncate)")
		if code(err) == sqlite3.SQLITE_BUSY {
			return nil
		}
		return err
	})
}
