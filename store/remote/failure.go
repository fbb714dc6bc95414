package remote

import (
	"errors"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// sentinels are the errors of package store that have no fields, by their names on the wire.
var sentinels = map[string]error{
	"closed": store.ErrClosed, "fenced": store.ErrFenced, "held": store.ErrHeld,
	"locked": store.ErrLocked, "not_found": store.ErrNotFound, "newer": store.ErrNewer,
	"older": store.ErrOlder, "lost": store.ErrLost, "damaged": store.ErrDamaged,
	"foreign": store.ErrForeign, "encoded": store.ErrEncoded,
}

// A failure is an error on the wire: its text, and what errors.Is and errors.As find in it.
type failure struct {
	Text        string
	Is          []string // names of sentinels
	Data        *store.DataError
	Schema      *store.SchemaError
	Unsafe      *store.UnsafeError
	Transaction *store.TransactionError
	Corrupt     *journal.CorruptError
	Known       *journal.Error
}

func failureOf(err error) failure {
	f := failure{Text: err.Error()}
	for name, is := range sentinels {
		if errors.Is(err, is) {
			f.Is = append(f.Is, name)
		}
	}
	errors.As(err, &f.Data)
	errors.As(err, &f.Schema)
	errors.As(err, &f.Unsafe)
	errors.As(err, &f.Transaction)
	errors.As(err, &f.Corrupt)
	errors.As(err, &f.Known)
	return f
}

// err returns the error that the failure was made of, as far as anybody can tell.
func (f *failure) err() error {
	e := &said{text: f.Text}
	for _, name := range f.Is {
		if is := sentinels[name]; is != nil {
			e.is = append(e.is, is)
		}
	}
	e.is = with(e.is, f.Data, f.Data != nil)
	e.is = with(e.is, f.Schema, f.Schema != nil)
	e.is = with(e.is, f.Unsafe, f.Unsafe != nil)
	e.is = with(e.is, f.Transaction, f.Transaction != nil)
	e.is = with(e.is, f.Corrupt, f.Corrupt != nil)
	e.is = with(e.is, f.Known, f.Known != nil)
	return e
}

func with(all []error, err error, there bool) []error {
	if there {
		return append(all, err)
	}
	return all
}

// A said error is one of the server.
type said struct {
	text string
	is   []error
}

func (e *said) Error() string   { return e.text }
func (e *said) Unwrap() []error { return e.is }
