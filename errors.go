package perdure

import (
	"reflect"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

// An Error is any error of this module. See [journal.Error] and its codes:
// errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}) asks for one.
type Error = journal.Error

// Permanent marks an error that no further attempt can mend: a step that
// returns it fails at once. Permanent of nil is nil.
func Permanent(err error) error { return failure.Mark(journal.ClassPermanent, 0, err) }

// RetryAfter marks an error of a step whose next attempt, if the policy allows
// one, should begin after d instead of the policy's delay. A d of zero or less
// leaves the delay to the policy. Where the workflow function returns it, the run does not
// end: it waits and its code is replayed, as after a panic. RetryAfter of nil is nil.
func RetryAfter(d time.Duration, err error) error {
	return failure.Mark(journal.ClassRetry, max(d, 0), err)
}

// Parking marks an error that an operator must look at: the run is parked,
// SUSPENDED with this error as the cause, and goes on when it is resumed. A step
// that returned it is tried again then. Parking of nil is nil.
func Parking(err error) error { return failure.Mark(journal.ClassPark, 0, err) }

// Benign marks an error that is expected. It is retried as any other, and
// observers are told that it is benign. Benign of nil is nil.
func Benign(err error) error { return failure.Mark(journal.ClassBenign, 0, err) }

// RegisterError gives a sentinel error a name under which journals keep it, so
// that errors.Is finds it in the chain of a recorded error: live, after a crash,
// and in another process that registered it under the same name. It is called
// while the program starts, before any engine runs. It fails on a name or error
// that is registered already, and on an error that cannot be compared.
func RegisterError(name string, sentinel error) error { return failure.Register(name, sentinel) }

// RegisterErrorType gives an error type a name under which journals keep its
// values, as JSON of the exported fields, so that errors.As finds it in the
// chain of a recorded error as it did live. See [RegisterError] for when.
func RegisterErrorType[E error](name string) error {
	return failure.RegisterType(name, reflect.TypeFor[E]())
}

// Stack gives the stack of the panic that err's chain records, as text; empty
// without.
func Stack(err error) string { return failure.Stack(err) }
