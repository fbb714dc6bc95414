package app

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

func TestExitCode(t *testing.T) {
	for code, want := range map[journal.Code]int{
		journal.CodeInvalid:          exitUsage,
		journal.CodeMisuse:           exitUsage,
		journal.CodeTooLarge:         exitUsage,
		journal.CodeNotFound:         exitNotFound,
		journal.CodeUnregistered:     exitNotFound,
		journal.CodeConflict:         exitConflict,
		journal.CodeDuplicate:        exitConflict,
		journal.CodeWrongState:       exitConflict,
		journal.CodeUnavailable:      exitUnreachable,
		journal.CodeStopped:          exitUnreachable,
		journal.CodeCancelled:        exitCancelled,
		journal.CodeEncode:           exitFailed,
		journal.CodeDecode:           exitFailed,
		journal.CodeFailed:           exitFailed,
		journal.CodeTimedOut:         exitFailed,
		journal.CodeCompleted:        exitFailed,
		journal.CodePanic:            exitFailed,
		journal.CodeNondeterministic: exitFailed,
		journal.CodeCorrupt:          exitFailed,
	} {
		err := fmt.Errorf("wrapped: %w", &perdure.Error{Code: code, Message: "no"})
		if got := exitCode(err); got != want {
			t.Errorf("%s: exit code %d, want %d", code, got, want)
		}
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("no"), exitFailed},
		{errInterrupted, exitInterrupted},
		{&perdure.Error{Code: journal.CodeUnavailable, Err: store.ErrLocked}, exitConflict},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestPrintError(t *testing.T) {
	bad := &perdure.Error{
		Code: journal.CodeInvalid, Op: "start x", Message: "no\nway", Hint: "try y",
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("no"), "error: no\n"},
		{bad, "error: start x: no; way\n  hint: try y\n"},
		{fmt.Errorf("demo: %w", bad), "error: demo: perdure: start x: no; way\n  hint: try y\n"},
	} {
		var out bytes.Buffer
		printError(&out, c.err)
		if out.String() != c.want {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
	}
}
