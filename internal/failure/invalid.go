package failure

import (
	"strconv"

	"github.com/perdure/perdure/journal"
)

// Quoted returns a text in quotes, cut where it is long.
func Quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}

// BadName returns the error of code invalid for a name that has not the form of one.
func BadName(what, s string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: what + " " + Quoted(s) + " is not valid",
		Hint: "allowed are 1 to 255 of A-Z a-z 0-9 . _ : -",
	}
}

// BadWorkflowID returns the error of code invalid for a text that is not a workflow ID.
func BadWorkflowID(s string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Message: "workflow ID " + Quoted(s) + " is not valid",
		Hint: "allowed are 1 to 255 bytes of printable UTF-8, without a space at either end",
	}
}

// IsDamaged reports whether err is about a journal of which a part cannot be read or is
// missing: one such run keeps nobody from reading of the others.
func IsDamaged(err error) bool { return journal.CodeOf(err) == journal.CodeCorrupt }
