package failure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// Quoted returns a text in quotes. A long text is cut.
func Quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}

// Within returns err with op before its own operation, if it is an Error of this module.
func Within(op string, err error) error {
	e, is := err.(*journal.Error) //nolint:errorlint // one that is wrapped has its place already
	if !is {
		return err
	}
	within := *e
	within.Op = op
	if e.Op != "" {
		within.Op += ": " + e.Op
	}
	return &within
}

// BadName returns the error of code invalid for a text that does not have the form of a name.
func BadName(what, s string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: what + " " + Quoted(s) + " is not valid",
		Hint: "allowed are 1 to 255 of A-Z a-z 0-9 . _ : -",
	}
}

// Reserved returns the error of code invalid for a name that is reserved for the engine.
func Reserved(what, s string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: what + " " + Quoted(s) + " is not valid",
		Hint: `names that begin with "perdure:" are reserved for the engine: choose another prefix`,
	}
}

// Bare returns the text of an error for a place that names the operation already: without
// "perdure: " and the operation.
func Bare(err error) string {
	if e := (*journal.Error)(nil); errors.As(err, &e) && e.Error() == err.Error() {
		bare := *e
		bare.Op = ""
		err = &bare
	}
	return strings.TrimPrefix(err.Error(), "perdure: ")
}

// NegativeTimeout returns the error of code invalid for a timeout below 0.
func NegativeTimeout(d time.Duration) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Op: "timeout",
		Message: fmt.Sprintf("a timeout of %v is not valid", d),
		Hint:    "allowed are 0, which means no limit, and more",
	}
}

// BadWorkflowID returns the error of code invalid for a text that is not a workflow ID.
func BadWorkflowID(s string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: "workflow ID " + Quoted(s) + " is not valid",
		Hint: "allowed are 1 to 255 bytes of printable UTF-8 without spaces",
	}
}

// IsDamaged reports whether err is about a journal with a part that is missing or cannot be read.
// Such a run does not prevent the reading of other runs.
func IsDamaged(err error) bool { return journal.CodeOf(err) == journal.CodeCorrupt }
