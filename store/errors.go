package store

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned after Close. It is final.
	ErrClosed = errors.New("store: closed")
	// ErrFenced is returned to an engine whose row is gone: another engine has taken it over,
	// and it writes nothing any more. It is final.
	ErrFenced = errors.New("store: the engine was taken over")
	// ErrHeld is returned if a group needs a lock that a transaction of the application or of
	// another process holds, and if nothing of the group was written. Only groups of an engine
	// without Again return it, after a short wait: the engine commits other groups, and tries
	// this one again unchanged.
	ErrHeld = errors.New("store: another transaction holds a lock that this needs")
	// ErrLocked is returned by a store for one engine if another engine has it.
	ErrLocked = errors.New("store: another engine has it")
	// ErrNotFound is returned if there is no such run.
	ErrNotFound = errors.New("store: no such run")
	// ErrNewer is returned if a newer version of this module wrote the schema.
	ErrNewer = errors.New("store: the schema is newer than this program")
	// ErrOlder is returned if an older version of this module wrote the schema, or if there is
	// none, and this handle was opened without migration.
	ErrOlder = errors.New("store: the schema is older than this program")
	// ErrLost is returned if the database was removed or replaced while it was open: the last
	// commits may be lost. It is final.
	ErrLost = errors.New("store: the database was removed or replaced while it was in use")
	// ErrDamaged is returned if the database is not readable any more. It is final.
	ErrDamaged = errors.New("store: the database is damaged")
	// ErrEncoded is returned if a setting is encoded, and this program has no codec for it, or not
	// the key. It is final, unless the setting is set anew.
	ErrEncoded = errors.New("store: a setting is encoded, and not readable here")
	// ErrForeign is returned if the database is not one of this module.
	ErrForeign = errors.New("store: not a database of perdure")
)

// A SchemaError is [ErrOlder] or [ErrNewer], with the version of the schema in the database
// (0 if there is none) and the version that this program knows.
type SchemaError struct{ Has, Knows int }

// Error names both versions. For a newer schema it also names the program to use.
func (e *SchemaError) Error() string {
	text := fmt.Sprintf(
		"%v: it is version %d and this program knows %d", e.Unwrap(), e.Has, e.Knows)
	if e.Has > e.Knows {
		text += ": use the version that wrote it, or a newer one"
	}
	return text
}

// Unwrap returns [ErrOlder] or [ErrNewer].
func (e *SchemaError) Unwrap() error {
	if e.Has > e.Knows {
		return ErrNewer
	}
	return ErrOlder
}

// An UnsafeError is returned if a crash of the server may lose or corrupt data that the server
// has acknowledged.
type UnsafeError struct{ Setting string } // that is off

// Error names the setting and the remedy.
func (e *UnsafeError) Error() string {
	return "store: " + e.Setting + " is off: a crash of the server would lose or spoil what it " +
		"has acknowledged; set it to on, or say that it does not matter"
}

// A DataError is returned for a group that no retry can commit, because of its content: a
// constraint, an encoding, a size. Nothing of the group was written. Connection, I/O and
// fencing errors are never DataErrors.
type DataError struct{ Err error }

// Error names the cause.
func (e *DataError) Error() string { return "store: refused: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DataError) Unwrap() error { return e.Err }
