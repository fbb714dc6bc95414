package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Backup writes a copy of the database to a new file. The copy shows the database at one moment; an
// engine may be at work meanwhile. Backup looks at ctx only once, at the beginning. The copy has
// the same identity, and there is no log beside it. It is durable when Backup returns. If the file
// exists already, it is not overwritten, and the error is [fs.ErrExist]. A backup that fails leaves
// nothing.
func (s *Store) Backup(ctx context.Context, path string) error {
	err := s.backup(ctx, path)
	if err != nil {
		return fmt.Errorf("sqlite: back up %s to %s: %w", s.path, path, err)
	}
	return nil
}

func (s *Store) backup(ctx context.Context, path string) error {
	switch _, err := os.Lstat(path); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	half := path + ".part"
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := s.copyTo(half)
	if err == nil {
		err = syncFile(half)
	}
	if err == nil {
		err = os.Rename(half, path)
	}
	if err != nil {
		_ = os.Remove(half) // the important error is reported already
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// copyTo makes SQLite write the copy, on a connection of its own, because the connections for
// reading cannot write at all.
func (s *Store) copyTo(path string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.files.lost(); err != nil {
		return err
	}
	c, err := dial(s.path, s.readers.mode)
	if err != nil {
		return explain(s.path, err)
	}
	if err = patience(c); err == nil {
		_, err = c.exec("vacuum into ?", path)
	}
	return errors.Join(explain(s.path, err), c.close())
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDirectory makes a new name in a directory durable, if the system can do that.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if runtime.GOOS == "windows" {
		err = nil
	}
	return errors.Join(err, d.Close())
}
