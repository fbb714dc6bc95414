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

var (
	_ store.Watcher    = (*Store)(nil)
	_ store.SlotReader = (*Store)(nil)
)

const (
	// watchEvery is the time between two looks at the log.
	watchEvery = 50 * time.Millisecond

	// doubtful is how many more times the database is asked after the log has changed. A file
	// system tells times apart only by its clock ticks, in the worst case every two seconds. So a
	// later change may look like the one before.
	doubtful = int(3 * time.Second / watchEvery)

	// looksFor is how many looks at the log pass between two checks that the files are still there.
	looksFor = int(500 * time.Millisecond / watchEvery)
)

// Watch calls f once when it begins, and then soon after another connection has written. While
// nothing happens, it looks only at the size and time of the log. When they have changed, it asks
// the writing connection, which can tell its own commits from others'. Each commit asks too. A
// client on this handle counts as another connection: an engine on it does not know of the write.
func (s *Store) Watch(ctx context.Context, f func()) {
	if s.options.Exclusive {
		watchClients(ctx, &s.otherWrites, f)
		return
	}
	s.watching.Add(1)
	defer s.watching.Add(-1)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	l := log{name: s.path + "-wal", size: -2} // a size that no log has
	noticed := s.otherWrites.next()
	f()
	for looks := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-noticed:
			// This comes before f, which sees all that was noticed until then.
			noticed = s.otherWrites.next()
			f()
		case <-ticker.C:
			if looks++; looks%looksFor == 0 && s.files.lost() != nil {
				// The files are lost: the calls of the store that f makes return [store.ErrLost].
				f()
			}
			if l.mayDiffer() {
				s.look(&l)
			}
		}
	}
}

// watchClients calls f soon after a client on the handle has written.
func watchClients(ctx context.Context, writes *notice, f func()) {
	for {
		noticed := writes.next()
		select {
		case <-ctx.Done():
			return
		case <-noticed:
			f()
		}
	}
}

// A log is the file that commits go to, with its state at the last look.
type log struct {
	name    string
	size    int64 // -1 if there is no file
	changed time.Time
	// doubt is how many more times to ask although the log looks the same.
	doubt int
}

// mayDiffer reports whether another connection may have written since the last call. It never opens
// the file, because closing it would drop SQLite's locks.
func (l *log) mayDiffer() bool {
	size, changed := int64(-1), time.Time{}
	switch info, err := os.Stat(l.name); {
	case err == nil:
		size, changed = info.Size(), info.ModTime()
	case !errors.Is(err, fs.ErrNotExist):
		l.doubt = doubtful
	}
	// Windows shows late that others have written.
	if size != l.size || !changed.Equal(l.changed) || runtime.GOOS == "windows" {
		l.size, l.changed, l.doubt = size, changed, doubtful
		return true
	}
	l.doubt = max(l.doubt-1, 0)
	return l.doubt > 0
}

// look notifies the watchers if another connection has written. If there is no connection to ask,
// it assumes that one has.
func (s *Store) look(l *log) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writer == nil || s.notice(s.writer) != nil {
		s.version.of, l.doubt = nil, doubtful
		s.otherWrites.tell()
	}
}

// notice notifies the watchers if another connection has written since this one was last asked. Its
// own commits do not change its version.
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
		s.otherWrites.tell()
	}
	return nil
}

// A version is the data_version that a connection returns.
type version struct {
	of     *conn
	number int64
}
