package sqlite

import (
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// code is SQLite's primary result code for an error; zero where it is none of
// SQLite's.
func code(err error) int {
	var e *modernc.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isStale reports whether a transaction may not write because it has read what others
// have written since: to try again is of no use to it.
func isStale(err error) bool {
	var e *modernc.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_BUSY_SNAPSHOT
}

// damaged returns an error of SQLite with [store.ErrDamaged] where it says that what is
// in the file is no database, which it was once.
func damaged(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: restore a backup: %w", store.ErrDamaged, err)
	}
	return err
}

// isData says whether an error comes from what was to be written, and will come
// again.
func isData(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// isRefusal says whether the store itself has said no, so that nothing is wrong
// with the connection.
func isRefusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data) || errors.Is(err, store.ErrFenced) ||
		errors.Is(err, store.ErrLocked)
}

// isCorrupt says whether a row could not be read, so that nothing is wrong with
// the connection.
func isCorrupt(err error) bool {
	var corrupt *journal.CorruptError
	return errors.As(err, &corrupt)
}
