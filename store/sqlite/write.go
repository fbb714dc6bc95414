package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// write calls f in a transaction of its own and commits it. A refusal and an
// error of the data roll it back. Any other error also ends the connection: of
// one that failed to write or sync nothing more is known. The next use opens
// another.
func (s *Store) write(f func(*conn) error) error {
	return s.alone(func() error { return s.transact(f) })
}

// writeOrphans is write, and what f writes may refer to heads that are gone.
func (s *Store) writeOrphans(f func(*conn) error) error {
	return s.alone(func() error {
		if err := s.writer.script("pragma foreign_keys = off"); err != nil {
			return s.rollback(err)
		}
		err := s.transact(f)
		if s.writer == nil {
			return err
		}
		if failed := s.writer.script("pragma foreign_keys = on"); failed != nil {
			return errors.Join(err, s.rollback(failed))
		}
		return err
	})
}

// alone calls f when nobody else uses the connection for writing, and it is there.
func (s *Store) alone(f func() error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.options.ReadOnly {
		return errors.New("sqlite: it was opened for reading only")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writer == nil {
		if err := s.files.lost(); err != nil { // SQLite would make another file
			return err
		}
		c, err := s.dialWriter()
		if err != nil {
			return fmt.Errorf("sqlite: open %s again: %w", s.path, err)
		}
		s.writer = c
	}
	if err := f(); err != nil {
		return err
	}
	log, err := s.files.look() // what was written just now may be lost too
	if err != nil {
		return err
	}
	if err := s.trim(log); err != nil { // what was written is durable all the same
		_ = s.writer.close()
		s.writer = nil
	}
	return nil
}

// transact calls f in a transaction.
func (s *Store) transact(f func(*conn) error) error {
	err := begin(s.writer)
	if err == nil {
		err = s.notice(s.writer)
	}
	if err == nil {
		err = f(s.writer)
	}
	if err == nil {
		_, err = s.writer.exec("commit")
	}
	if err != nil {
		return s.rollback(err)
	}
	return nil
}

// rollback ends the transaction that err happened in and gives what the caller
// is told.
func (s *Store) rollback(err error) error {
	s.clock = time.Time{} // it may not have been written
	if isData(err) {
		err = &store.DataError{Err: err}
	}
	if isRefusal(err) {
		if _, failed := s.writer.exec("rollback"); failed == nil {
			return err
		}
	}
	failed := s.writer.close() // which rolls back
	s.writer = nil
	if isRefusal(err) {
		return err
	}
	return fmt.Errorf("sqlite: %w", errors.Join(damaged(err), failed))
}

// fence says whether the engine may still write.
func fence(c *conn, engine journal.EngineID) error {
	row, err := c.value("select 1 from perdure_engines where id = ?", int64(engine))
	if err == nil && row == nil {
		err = store.ErrFenced
	}
	return err
}
