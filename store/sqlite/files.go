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

// files are the database and its log, as they were when the store was opened. SQLite continues to
// use files whose names were removed. It would then acknowledge commits that nobody finds again.
type files struct {
	names [2]string
	were  [2]sight
}

// filesOf returns the files of an open database. Some connection has read the database, so its log
// exists if it has one, and it exists as long as a connection is open.
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

// lost returns [store.ErrLost] if one of the files was removed or replaced.
func (f *files) lost() error {
	_, err := f.look()
	return err
}

// look returns the size of the log, or [store.ErrLost] if one of the files was removed or replaced.
// It opens no file, because closing a descriptor would drop SQLite's locks.
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
	// logBound is the size above which the log is cut off.
	logBound = 64 << 20
	// trimEvery is the least time between two attempts to cut it off. readersMay is how long an
	// attempt waits for readers of this process.
	trimEvery  = time.Second
	readersMay = 100 * time.Millisecond
)

// foldAfter is the number of pages in the log from which on a purge copies them into the file. It
// is half of the number from which on a commit does that.
const foldAfter = 1000

// fold copies the log into the file if the log has many pages. It does so on a connection for
// reading, beside the writer. Otherwise the commit that finds the log full would copy it while
// everybody waits. Others write meanwhile, so fold copies up to three times until nothing is left
// and the log can begin anew. A commit copies the pages that fold fails to copy.
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

// trim cuts off the log if it is large. SQLite begins the log anew only at a moment when nobody
// reads it. With readers that overlap, the log would grow without bound, and its file never becomes
// smaller by itself. trim does not wait for a reader of another process.
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
