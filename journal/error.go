package journal

import (
	"errors"
	"strings"
)

// A Code is the kind of an [Error]. The set is closed.
type Code string

// The codes.
const (
	CodeInvalid      Code = "invalid"      // a name, ID, duration or option is not valid
	CodeMisuse       Code = "misuse"       // a durable call in a place that does not allow it
	CodeUnregistered Code = "unregistered" // the engine does not have the workflow
	CodeDuplicate    Code = "duplicate"    // the name is registered already
	CodeNotFound     Code = "not_found"    // there is no such run
	// the workflow ID is held by another workflow's open run
	CodeConflict   Code = "conflict"
	CodeWrongState Code = "wrong_state" // the run's status does not allow it
	CodeTooLarge   Code = "too_large"   // a payload is larger than the limit
	CodeEncode     Code = "encode"      // a value does not encode
	CodeDecode     Code = "decode"      // bytes do not decode
	CodeFailed     Code = "failed"      // the run failed
	CodeCancelled  Code = "cancelled"   // the run or step was cancelled
	CodeTimedOut   Code = "timed_out"   // the run or the attempt passed its timeout
	// the run has returned, and its branches have ended
	CodeCompleted        Code = "completed"
	CodePanic            Code = "panic"            // user code panicked or called runtime.Goexit
	CodeNondeterministic Code = "nondeterministic" // the code does not match the journal
	CodeCorrupt          Code = "corrupt"          // a row of the store is not readable
	CodeStopped          Code = "stopped"          // the engine is not running
	// the store does not answer; the outcome may be unknown
	CodeUnavailable Code = "unavailable"
	CodeTopology    Code = "topology" // a graph is not valid
	// who decides does not have the role that is demanded
	CodeUnauthorised Code = "unauthorised"
)

// An Error is any error of this module. Errors are compared by code: errors.Is(err, &Error{Code:
// c}) is true for each error of code c.
type Error struct {
	Code    Code
	Op      string // the operation, such as `start order-fulfilment`
	Message string // what happened, and why
	Hint    string // what to do next; may be empty
	Err     error  // the wrapped error; may be nil
}

// Error returns one line: operation, message, wrapped error and hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("perdure: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	if e.Err != nil {
		if e.Message != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an Error with the same code and no other field.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == "" && t.Op == "" && t.Hint == "" && t.Err == nil
}

// CodeOf returns the code of the first Error in err's chain; empty if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
