package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure/store"
)

// These are the codes of the errors that are handled specially.
const (
	divisionByZero  = "22012"
	uniqueViolation = "23505"
	serialization   = "40001"
	deadlock        = "40P01"
	lockTimeout     = "55P03"
	noColumn        = "42703"
	readOnly        = "25006"
)

// code returns PostgreSQL's code of an error. It is empty if the error is not from
// PostgreSQL.
func code(err error) string {
	var e interface{ SQLState() string } // of any driver
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// isData reports whether an error is caused by the data to be written, so that a retry would
// fail too: invalid data, integrity, and exceeded limits.
func isData(err error) bool {
	state := code(err)
	if len(state) != 5 {
		return false
	}
	switch state[:2] {
	case "22", "23", "54":
		return !isRace(err)
	}
	return false
}

// errLostRace means that the run which had the workflow ID of a new run has ended meanwhile.
var errLostRace = errors.New("postgres: the run of the workflow ID has ended meanwhile")

// isRace reports whether an error is caused by concurrent transactions. The transaction has
// had no effect, and may succeed when it is repeated. A message whose number another message
// has got meanwhile is such a case.
func isRace(err error) bool {
	if errors.Is(err, errLostRace) {
		return true
	}
	switch code(err) {
	case serialization, deadlock, lockTimeout:
		return true
	case uniqueViolation:
		var e *pgconn.PgError
		return errors.As(err, &e) && strings.HasPrefix(e.ConstraintName, "messages_")
	}
	return false
}

// isRefusal reports whether the store itself has refused the call.
func isRefusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrHeld)
}

// refused returns a DataError.
func refused(format string, args ...any) error {
	return &store.DataError{Err: fmt.Errorf(format, args...)}
}
