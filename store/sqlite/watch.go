package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/perdure/perdure/store"
)

var _ store.Watcher = (*Store)(nil)

const (
	// watchEvery is how often the log is looked at.
	watchEvery = 50 * time.Millisecond

	// doubtful is how many times more the database is asked after the log has
	// changed. A file system tells times no finer than its clock ticks, in the worst
	// case every two seconds, so a later change may look like the one before.
	doubtful = int(3 * time.Second / watchEvery)

	// looksFor is how many looks at the log go by until the files are looked for.
	looksFor = int(500 * time.Millisecond / watchEvery)
)

// Watch calls f soon after somebody else has written, and once when it begins.
// While nothing happens it looks at the size and time of the log alone. Only when
// they have changed it asks the writing connection, which knows its own commits
// from others'; and so does each commit.
func (s *Store) Watch(ctx context.Context, f func()) {
	if s.options.Exclusive {
		<-ctx.Done()
		return
	}
	s.watching.Add(1)
	defer s.watching.Add(-1)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	l := log{name: s.path + "-wal", size: -2} // which no log has
	noticed := s.strangers.next()
	f()
	for looks := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-noticed:
			noticed = s.strangers.next() // before f, which sees all that was noticed until then
			f()
		case <-ticker.C:
			if looks++; looks%looksFor == 0 && s.files.lost() != nil {
				f() // whose calls are told
			}
			if l.mayDiffer() {
				s.look(&l)
			}
		}
	}
}

// A log is the file that commits go to, as it was seen last.
type log struct {
	name    string
	size    int64 // -1 where it is not there
	changed time.Time
	doubt   int // how many times more to ask, although it looks the same
}

// mayDiffer says whether somebody may have written since it was asked before. It
// never opens the file: closing it would drop SQLite's locks.
func (l *log) mayDiffer() bool {
	size, changed := int64(-1), time.Time{}
	switch info, err := os.Stat(l.name); {
	case err == nil:
		size, changed = info.Size(), info.ModTime()
	case !errors.Is(err, fs.ErrNotExist):
		l.doubt = doubtful
	}
	// which tells late what others write
	if size != l.size || !changed.Equal(l.changed) || runtime.GOOS == "windows" {
		l.size, l.changed, l.doubt = size, changed, doubtful
		return true
	}
	l.doubt = max(l.doubt-1, 0)
	return l.doubt > 0
}

// look asks whether somebody else has written. Without a connection that could
// tell, somebody may have.
func (s *Store) look(l *log) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writer == nil || s.notice(s.writer) != nil {
		s.version.of, l.doubt = nil, doubtful
		s.strangers.tell()
	}
}

// notice tells who watches if somebody else has written since the connection was
// asked before: its own commits do not change what it says.
func (s *Store) notice(c *conn) error {
	if s.watching.Load() == 0 {
		return nil
	}
	v, err := c.value("pragma data_version")
	if err != nil {
		return err
	}
	if now := (version{of: c, number: integer(v)}); now != s.version {
		s.version = now
		s.strangers.tell()
	}
	return nil
}

// A version is what a connection says of the database.
type version struct {
	of     *conn
	number int64
}
