package journal

import (
	"errors"
	"strings"
)

// A Code says what kind of error an [Error] is. The set is closed.
type Code string

// The codes.
const (
	CodeInvalid      Code = "invalid"      // a name, ID, duration or option that cannot be
	CodeMisuse       Code = "misuse"       // a durable call where none may be
	CodeUnregistered Code = "unregistered" // the engine does not know the workflow
	CodeDuplicate    Code = "duplicate"    // the name is registered already
	CodeNotFound     Code = "not_found"    // no such run
	// the workflow ID is held by another workflow's open run
	CodeConflict         Code = "conflict"
	CodeWrongState       Code = "wrong_state"      // the run's status does not allow it
	CodeTooLarge         Code = "too_large"        // a payload over the limit
	CodeEncode           Code = "encode"           // a value that does not encode
	CodeDecode           Code = "decode"           // bytes that do not decode
	CodeFailed           Code = "failed"           // the run failed
	CodeCancelled        Code = "cancelled"        // the run or step was cancelled
	CodeTimedOut         Code = "timed_out"        // the run or the attempt passed its timeout
	CodeCompleted        Code = "completed"        // the run has returned; its branches are over
	CodePanic            Code = "panic"            // user code panicked or called runtime.Goexit
	CodeNondeterministic Code = "nondeterministic" // the code does not fit the journal
	CodeCorrupt          Code = "corrupt"          // a row of the store cannot be read
	CodeStopped          Code = "stopped"          // the engine does not run
	// the store does not answer; the outcome may be unknown
	CodeUnavailable Code = "unavailable"
	CodeTopology    Code = "topology" // a graph that cannot be walked
)

// An Error is any error of this module: what happened, why, and what to do
// next. It is compared by code: errors.Is(err, &Error{Code: c}) holds for each
// error of code c.
type Error struct {
	Code    Code
	Op      string // what was asked, such as `start order-fulfilment`
	Message string // what happened and why
	Hint    string // what to do next; may be empty
	Err     error  // what it wraps; may be nil
}

// Error gives one line: what was asked, what happened, why, and the hint.
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

// Unwrap gives what e wraps.
func (e *Error) Unwrap() error { return e.Err }

// Is says whether target is an Error of the same code that says nothing else.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == "" && t.Op == "" && t.Hint == "" && t.Err == nil
}

// CodeOf is the code of the first Error in err's chain; empty without.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
