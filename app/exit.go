package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The exit codes. Scripts rely on them; exitHelp tells them.
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
  6    the store refuses the user, or this action of the user
  7    --timeout is over, and the run goes on
  8    the run was cancelled
  130  interrupted
`

// An endedError is the error that a run has ended with. What the exit code is
// depends on how it ended, and not on what the error says of a step or child.
type endedError struct {
	status journal.Status
	err    error
}

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// endedWith gives the error of a run that has ended in a status; nil without one.
func endedWith(status journal.Status, err error) error {
	if err == nil {
		return nil
	}
	return &endedError{status, err}
}

// errInterrupted says that the user ended the command.
var errInterrupted = errors.New("interrupted")

// exitCode is the exit code that an error stands for.
func exitCode(err error) int {
	var ended *endedError
	var forbidden *place.ForbiddenError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
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
	case journal.CodeCancelled:
		return exitCancelled
	}
	return exitFailed
}

// printError tells an error in one line, and what to do about it in a second
// one where that is known.
func printError(w io.Writer, err error) {
	text, hint := err.Error(), ""
	var e *perdure.Error
	if errors.As(err, &e) && e.Hint != "" {
		bare := *e
		bare.Hint = ""
		text, hint = strings.Replace(text, e.Error(), bare.Error(), 1), e.Hint
		text = strings.TrimSuffix(text, " ("+hint+")") // of a failure that was recorded with it
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
