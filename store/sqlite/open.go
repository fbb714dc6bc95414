package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/store"
)

// Options set how a database is opened. The zero value is the default.
type Options struct {
	// ReadOnly opens an existing database without creating, migrating or writing anything. Commit,
	// Claim and Spill return an error.
	ReadOnly bool
	// Existing opens an existing database without creating or migrating it. It is for a process
	// that only starts runs and sends messages, beside an engine that may have an older version.
	Existing bool
	// MaxBytes limits the size of the database file. A commit that needs more fails as on a full
	// disk. Zero means no limit.
	MaxBytes int64
	// Exclusive promises that no other process writes while this one has the database open. So
	// [Store.Watch] need not look for writes of others.
	Exclusive bool
}

// A Store is a [store.Store] in an SQLite database.
type Store struct {
	slotReader

	path     string
	options  Options
	database string // the identity of the database

	life   sync.Mutex // guards the next two
	inside int        // how many calls use the store
	// closed is nil before Close. It is closed when Close has begun and no call is inside.
	closed chan struct{}
	close  sync.Once

	readers *pool
	files   files

	writing lock.Lock
	writer  *conn // nil after a failure, until the next use
	// version is the last version that the writer returned while somebody watched.
	version version

	foldAfter int64     // see fold
	logBound  int64     // see trim
	trimmed   time.Time // last attempt to trim; guarded by writing

	// clock is the time that this handle wrote last; guarded by writing.
	clock time.Time

	// lock is the connection that locks the side database while an engine has joined with this
	// handle.
	lock atomic.Pointer[conn]

	written written // the last entries of runs

	watching    atomic.Int32 // how many watchers there are
	otherWrites notice       // another connection has written
}

var _ store.Store = (*Store)(nil)

// Open opens the database at path. It creates the database if there is none, and migrates the
// database of an older version. The file may be an application's own database: the names of all
// tables and views that the store makes in it begin with perdure_, and its application ID and user
// version stay unchanged. Its journal mode becomes WAL.
func Open(path string) (*Store, error) { return OpenWith(path, Options{}) }

// OpenWith opens the database at path with options. The error wraps [store.ErrNewer] if the
// database is of a newer version, and [store.ErrForeign] if the file is no database, or has tables
// of somebody else with the store's names.
func OpenWith(path string, options Options) (*Store, error) {
	s, err := open(path, options)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return s, nil
}

func open(path string, options Options) (*Store, error) {
	abs, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if err := checkPath(abs, options.ReadOnly || options.Existing); err != nil {
		return nil, err
	}
	s := &Store{
		path: abs, options: options, readers: newPool(abs, "rw"), writing: lock.New(),
		logBound: logBound, foldAfter: foldAfter,
	}
	s.slotReader = slotReader{s}
	if options.ReadOnly {
		s.readers = newPool(abs, "ro")
		return s, s.openReaders()
	}
	if options.Existing {
		if err := s.openReaders(); err != nil {
			return nil, err
		}
		s.writer, err = s.dialWriter()
		if err != nil {
			err = errors.Join(err, s.readers.close())
		}
		return s, err
	}
	if s.writer, err = s.dialWriter(migrate); err != nil {
		return nil, err
	}
	if err := s.openReaders(); err != nil {
		return nil, errors.Join(err, s.writer.close())
	}
	return s, nil
}

// resolve returns the one path of a file, whichever links lead to it. The lock of the engine uses
// this path.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	// The link may lead to a file that does not exist yet.
	if to, err := os.Readlink(abs); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(abs), to)
		}
		return resolve(to)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return abs, nil // checkPath returns the error
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// checkPath returns an exact error where SQLite would only report that it cannot open the file. It
// must not open the file, because closing any descriptor of the file drops SQLite's locks.
func checkPath(path string, existing bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file in it")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case existing:
		return fmt.Errorf("there is no such file: %w", fs.ErrNotExist)
	}
	dir, err := os.Stat(filepath.Dir(path))
	switch {
	case err == nil && dir.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory", filepath.Dir(path))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s is not there: create it first", filepath.Dir(path))
	}
	return err
}

// openReaders opens the pool for reading and keeps one connection open until the store is closed,
// see [pool]. It reads the identity of the database.
func (s *Store) openReaders() error {
	c, err := s.readers.dial()
	if err != nil {
		return err
	}
	version, err := checkVersion(c)
	if err == nil && version < schemaVersion {
		err = &store.SchemaError{Has: version, Knows: schemaVersion}
	}
	if err == nil {
		s.database, err = identity(c)
	}
	if err == nil {
		s.files, err = filesOf(s.path)
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	s.readers.anchor = c
	return nil
}

// dialWriter opens the connection for writing, sets the pragmas that make it durable, and calls
// last. All this waits for locks of others: even a read fails at once without a wait while another
// process builds the index of the log.
func (s *Store) dialWriter(last ...func(*conn) error) (*conn, error) {
	c, err := dial(s.path, "rwc")
	if err != nil {
		return nil, explain(s.path, err)
	}
	steps := append([]func(*conn) error{patience, identify, durability, s.limits}, last...)
	for _, prepare := range append(steps, impatience) {
		if err := prepare(c); err != nil {
			return nil, errors.Join(explain(s.path, err), c.close())
		}
	}
	return c, nil
}

// patience lets SQLite wait for a lock that another process has. A transaction takes milliseconds;
// the long wait is for a process that was stopped during a transaction.
func patience(c *conn) error {
	return c.script(fmt.Sprintf("pragma busy_timeout = %d", busyFor.Milliseconds()))
}

const busyFor = 30 * time.Second

// impatience lets SQLite return at once if another connection has the lock. It is for the writer,
// which tries again by itself, see [begin].
func impatience(c *conn) error { return c.script("pragma busy_timeout = 0") }

// begin begins a transaction that writes. While SQLite waits for a lock, it tries ever more rarely.
// A process that wants to post might then always miss the moments in which a busy engine does not
// hold the lock. So begin tries every millisecond.
func begin(c *conn) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := c.exec("begin immediate"); code(err) != sqlite3.SQLITE_BUSY {
			return err
		}
		if time.Since(began) > busyFor {
			return fmt.Errorf("another process has been writing for %v", busyFor)
		}
	}
}

// durability sets WAL with a sync in each commit, and pages of 8 kB if the file has none yet. It
// verifies that the settings are in effect.
func durability(c *conn) error {
	if err := c.script("pragma page_size = 8192"); err != nil {
		return err
	}
	mode, err := useWAL(c)
	if err != nil {
		return err
	}
	if str(mode) != "wal" {
		return fmt.Errorf("the journal mode is %v, and it must be wal: the file system may not "+
			"support it", mode)
	}
	if err := c.script("pragma synchronous = full"); err != nil {
		return err
	}
	level, err := c.value("pragma synchronous")
	if err == nil && level != int64(2) {
		err = fmt.Errorf("synchronous is %v, and it must be full", level)
	}
	return err
}

// useWAL sets the journal mode. SQLite does not wait for the lock here, so useWAL tries again while
// another process opens the same new file.
func useWAL(c *conn) (driver.Value, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		mode, err := c.value("pragma journal_mode = wal")
		if code(err) != sqlite3.SQLITE_BUSY || time.Since(began) > busyFor {
			return mode, err
		}
	}
}

// limits sets the sizes of the cache and the log: 8 MB of pages in memory, and about 16 MB of log
// before it is copied into the file.
func (s *Store) limits(c *conn) error {
	err := c.script("pragma cache_size = -8192; pragma wal_autocheckpoint = 2000; pragma " +
		"foreign_keys = on")
	if err != nil || s.options.MaxBytes <= 0 {
		return err
	}
	size, err := c.value("pragma page_size")
	if err != nil {
		return err
	}
	pages := max(1, s.options.MaxBytes/integer(size))
	return c.script("pragma max_page_count = " + strconv.FormatInt(pages, 10))
}

// identify refuses a file that is no database and a database of a newer version, before anything in
// it is changed. It also refuses an SQLite library that is too old to be trusted with a database.
func identify(c *conn) error {
	version, err := c.value("select sqlite_version()")
	if err != nil {
		return err
	}
	if v := str(version); !atLeast(v, minimum) {
		return fmt.Errorf("SQLite %s is too old: %s is the first without bugs that lose data", v,
			minimum)
	}
	_, err = checkVersion(c)
	return err
}

// minimum is the first version of SQLite that has neither the corruption by a reset of the log nor
// the one by a rollback.
const minimum = "3.53.4"

// atLeast reports whether a version of three numbers is at least another one.
func atLeast(version, least string) bool {
	v, l := strings.Split(version, "."), strings.Split(least, ".")
	for i := range l {
		have, want := 0, 0
		if i < len(v) {
			have, _ = strconv.Atoi(v[i]) // a text that is no number counts as old
		}
		want, _ = strconv.Atoi(l[i])
		if have != want {
			return have > want
		}
	}
	return true
}

// explain puts SQLite's error about a file into words. A file that an engine has used was a
// database.
func explain(path string, err error) error {
	switch code(err) {
	case sqlite3.SQLITE_NOTADB:
		if _, failed := os.Stat(path + "-engine"); failed == nil {
			return fmt.Errorf("%w: its beginning is not that of a database: restore a backup",
				store.ErrDamaged)
		}
		return fmt.Errorf("%w: it is no SQLite database; if it was one, restore a backup",
			store.ErrForeign)
	case sqlite3.SQLITE_CORRUPT:
		return damaged(err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return fmt.Errorf("it cannot be written: check the permissions of the file and its "+
			"directory: %w", err)
	}
	return err
}

// Close ends the use of the store. An engine that has not left counts as expired from then on.
// Close waits for the calls that use the store. Calls that begin after it has begun return
// [store.ErrClosed]. Closing again does nothing.
func (s *Store) Close() (err error) {
	s.close.Do(func() {
		s.life.Lock()
		s.closed = make(chan struct{})
		s.inside++
		s.life.Unlock()
		s.leave()
		<-s.closed
		err = s.closeAll()
	})
	return err
}

func (s *Store) closeAll() error {
	errs := []error{s.readers.close()}
	if lock := s.lock.Load(); lock != nil {
		errs = append(errs, lock.close())
	}
	if s.writer != nil {
		// The last connection that closes copies the log into the file by itself. This call is for
		// the case that another process still has a connection.
		_, err := s.writer.value("pragma wal_checkpoint(passive)")
		errs = append(errs, err, s.writer.close())
	}
	return errors.Join(errs...)
}

// enter keeps the store open until leave. It does not wait for Close: the caller may be in a
// transaction of the application with the lock for writing, and a call inside may wait for that
// lock. The transaction must learn that it is to end.
func (s *Store) enter() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed != nil {
		return store.ErrClosed
	}
	s.inside++
	return nil
}

func (s *Store) leave() {
	s.life.Lock()
	defer s.life.Unlock()
	if s.inside--; s.inside == 0 && s.closed != nil {
		close(s.closed)
	}
}
