package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/dev"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The exit codes. Scripts rely on them; exitHelp lists them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnreachable = 5
	exitForbidden   = 6
	exitWaited      = 7
	exitCancelled   = 8
	exitInterrupted = 130
)

const exitHelp = `Exit codes:
  0    success
  1    the run failed, or a check is false
  2    the command line or an argument is not valid
  3    not found
  4    a conflict, or not allowed in this state
  5    the store cannot be reached
  6    the store refuses the user, or this action of the user; the role is missing
  7    --timeout is over, and the run goes on
  8    the run was cancelled
  130  interrupted
`

// An endedError is the error that a run has ended with. The exit code depends on the status
// of the run, and not on the code of the error, which may be about a step or a child.
type endedError struct {
	status journal.Status
	err    error
}

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// endedWith returns err as the error of a run that has ended in this status. It returns nil
// if err is nil.
func endedWith(status journal.Status, err error) error {
	if err == nil {
		return nil
	}
	return &endedError{status, err}
}

// errInterrupted is the error of a command that the user has ended.
var errInterrupted = errors.New("interrupted")

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var ended *endedError
	var forbidden *place.ForbiddenError
	var worker *dev.EndedError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &worker):
		return worker.Code
	case errors.Is(err, errWaited):
		return exitWaited
	case errors.As(err, &ended) && ended.status == journal.Cancelled:
		return exitCancelled
	case ended != nil:
		return exitFailed
	case errors.As(err, &forbidden):
		return exitForbidden
	case errors.Is(err, store.ErrLocked):
		return exitConflict
	}
	switch journal.CodeOf(err) {
	case journal.CodeInvalid, journal.CodeTooLarge, journal.CodeMisuse:
		return exitUsage
	case journal.CodeNotFound, journal.CodeUnregistered:
		return exitNotFound
	case journal.CodeConflict, journal.CodeDuplicate, journal.CodeWrongState:
		return exitConflict
	case journal.CodeUnavailable, journal.CodeStopped:
		return exitUnreachable
	case journal.CodeUnauthorised:
		return exitForbidden
	case journal.CodeCancelled:
		return exitCancelled
	}
	return exitFailed
}

// printError prints an error on one line, and its hint, if it has one, on a second line. What a
// worker of dev has said before is not said again.
func printError(w io.Writer, err error) {
	var worker *dev.EndedError
	if errors.As(err, &worker) {
		return
	}
	text, hint := err.Error(), ""
	var e *perdure.Error
	if errors.As(err, &e) && e.Hint != "" {
		bare := *e
		bare.Hint = ""
		text, hint = strings.Replace(text, e.Error(), bare.Error(), 1), e.Hint
		// A failure is recorded together with its hint.
		text = strings.TrimSuffix(text, " ("+hint+")")
	}
	fmt.Fprintf(w, "error: %s\n", oneLine(strings.TrimPrefix(text, "perdure: ")))
	if hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", oneLine(hint))
	}
}

func oneLine(s string) string {
	return clean(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return r == '\n' || r == '\r'
	}), "; "))
}
