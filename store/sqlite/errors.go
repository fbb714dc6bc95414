package sqlite

import (
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// code returns SQLite's primary result code of an error; zero if the error is not SQLite's.
func code(err error) int {
	var e *modernc.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isStale reports whether a transaction may not write because it has read data that others have
// changed since. For such a transaction it is useless to try again.
func isStale(err error) bool {
	var e *modernc.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_BUSY_SNAPSHOT
}

// damaged returns an error of SQLite. It adds [store.ErrDamaged] if SQLite reports that the file is
// corrupt or no database, since it was a database once.
func damaged(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: restore a backup: %w", store.ErrDamaged, err)
	}
	return err
}

// isData reports whether the data of the write causes the error, so that the error will come again.
func isData(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// isRefusal reports whether the store itself refused the call, so that the connection is still
// good.
func isRefusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data) || errors.Is(err, store.ErrFenced) ||
		errors.Is(err, store.ErrLocked)
}

// isCorrupt reports whether a row could not be read, so that the connection is still good.
func isCorrupt(err error) bool {
	var corrupt *journal.CorruptError
	return errors.As(err, &corrupt)
}
