package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/perdure/perdure/store"
)

// files are the database and its log, as they were when the store was opened. SQLite
// goes on with files that have no name any more, and so would acknowledge what nobody
// finds again.
type files struct {
	names [2]string
	were  [2]fs.FileInfo
}

// filesOf returns the files of a database that is open: some connection has read it, so
// its log is there too, and stays as long as a connection is open.
func filesOf(path string) (f files, err error) {
	f.names = [2]string{path, path + "-wal"}
	for i, name := range f.names {
		if f.were[i], err = os.Stat(name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// lost returns [store.ErrLost] where one of the files was removed or replaced. It opens
// none: closing a descriptor would drop SQLite's locks.
func (f *files) lost() error {
	for i, name := range f.names {
		switch is, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s is not there any more", store.ErrLost, name)
		case err == nil && !os.SameFile(is, f.were[i]):
			return fmt.Errorf("%w: %s is another file now", store.ErrLost, name)
		}
	}
	return nil
}
