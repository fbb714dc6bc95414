package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// write calls f in a transaction of its own and commits the transaction. A refusal and an error of
// the data roll it back. Any other error also closes the connection, because the state of a
// connection that failed to write or sync is unknown. The next use opens another one.
func (s *Store) write(f func(*conn) error) error {
	return s.alone(func() error { return s.transact(f) })
}

// writeOrphans is write without foreign keys: f may write rows that refer to heads that are gone.
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

// alone calls f while nobody else uses the connection for writing. It opens the connection if there
// is none.
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
		// SQLite would make another file.
		if err := s.files.lost(); err != nil {
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
	// The rows that were just written may be lost too.
	log, err := s.files.look()
	if err != nil {
		return err
	}
	// An error here is not returned: the written rows are durable all the same.
	if err := s.trim(log); err != nil {
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

// rollback ends the transaction in which err happened. It returns the error for the caller.
func (s *Store) rollback(err error) error {
	s.clock = time.Time{} // the time may not have been written
	if isData(err) {
		err = &store.DataError{Err: err}
	}
	if isRefusal(err) {
		if _, failed := s.writer.exec("rollback"); failed == nil {
			return err
		}
	}
	failed := s.writer.close() // this rolls back
	s.writer = nil
	if isRefusal(err) {
		return err
	}
	return fmt.Errorf("sqlite: %w", errors.Join(damaged(err), failed))
}

// fence returns an error if the engine may not write any more.
func fence(c *conn, engine journal.EngineID) error {
	row, err := c.value("select 1 from perdure_engines where id = ?", int64(engine))
	if err == nil && row == nil {
		err = store.ErrFenced
	}
	return err
}
