package perdure

import (
	"reflect"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

// An Error is any error of this module. See [journal.Error] and its codes. To test for a code:
// errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}).
type Error = journal.Error

// Permanent marks an error that further attempts cannot fix: a step that returns it fails at
// once. Permanent of nil is nil.
func Permanent(err error) error { return failure.Mark(journal.ClassPermanent, 0, err) }

// RetryAfter marks an error of a step whose next attempt, if the policy allows one, should begin
// after d instead of the policy's delay. If d is zero or less, the policy sets the delay. If the
// workflow function returns the error, the run does not end: it waits and its code is replayed,
// as after a panic. RetryAfter of nil is nil.
func RetryAfter(d time.Duration, err error) error {
	return failure.Mark(journal.ClassRetry, max(d, 0), err)
}

// Parking marks an error that needs an operator. The run is parked: it is SUSPENDED with this
// error as the cause, and goes on when it is resumed. A step that returned the error is then
// tried again. Parking of nil is nil.
func Parking(err error) error { return failure.Mark(journal.ClassPark, 0, err) }

// Benign marks an error that is expected. It is retried like any other error, and notices mark it
// as benign. Benign of nil is nil.
func Benign(err error) error { return failure.Mark(journal.ClassBenign, 0, err) }

// RegisterError registers a sentinel error under a name that journals keep. So errors.Is finds it
// in the chain of a recorded error: live, after a crash, and in another process that registered
// it under the same name. Call it while the program starts, before any engine runs. It fails if
// the name or error is registered already, or if the error cannot be compared.
func RegisterError(name string, sentinel error) error { return failure.Register(name, sentinel) }

// RegisterErrorType registers an error type under a name. Journals keep its values under that
// name, as JSON of the exported fields. So errors.As finds a value in the chain of a recorded
// error as it did live. See [RegisterError] for when to call it.
func RegisterErrorType[E error](name string) error {
	return failure.RegisterType(name, reflect.TypeFor[E]())
}
