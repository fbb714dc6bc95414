package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure/store"
)

// The codes of errors that mean something by themselves.
const (
	divisionByZero  = "22012"
	uniqueViolation = "23505"
	serialization   = "40001"
	deadlock        = "40P01"
	lockTimeout     = "55P03"
	noColumn        = "42703"
	readOnly        = "25006"
)

// code is PostgreSQL's code for an error; empty where it is none of PostgreSQL's.
func code(err error) string {
	var e interface{ SQLState() string } // of any driver
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// isData says whether an error comes from what was to be written, and will come
// again: data, integrity, and what is too large.
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

// errLostRace says that the run which had the workflow ID of a new one has ended since.
var errLostRace = errors.New("postgres: the run of the workflow ID has ended meanwhile")

// isRace says whether an error comes from what others did at the same time: the
// transaction has not happened, and may succeed when it is made anew. A message
// whose number another one has got meanwhile is among them.
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

// isRefusal says whether the store itself has said no.
func isRefusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrHeld)
}

// refused gives a DataError.
func refused(format string, args ...any) error {
	return &store.DataError{Err: fmt.Errorf(format, args...)}
}
