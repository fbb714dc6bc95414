// Package definition tells what a definition of a workflow says of itself, and what is
// wrong with it.
package definition

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Severity says what an issue of a definition means for its registration.
type Severity string

// The severities.
const (
	// the definition is refused; so it is where an issue has no severity
	SeverityError   Severity = "ERROR"
	SeverityWarning Severity = "WARNING" // observers are told; refused under Options.FailOnWarning
	SeverityInfo    Severity = "INFO"    // observers are told
)

// An Issue is one thing that is wrong, or odd, with a definition.
type Issue struct {
	Severity Severity
	Where    string // within the definition, with dots: charge.retry
	Message  string
	Err      error // what an error of the definition also is; may be nil
}

// String gives the issue in one line.
func (i Issue) String() string {
	s := string(cmp.Or(i.Severity, SeverityError))
	for _, part := range []string{i.Where, i.Message} {
		if part != "" {
			s += ": " + part
		}
	}
	return oneLine.Replace(s)
}

var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// OddlyLong is what no timeout or delay usually is.
const OddlyLong = 24 * time.Hour

// CheckTimeout warns of a timeout that is negative, or longer than a day. It returns the
// timeout that holds: one that is negative is none.
func CheckTimeout(where string, d time.Duration) (time.Duration, []Issue) {
	if d >= 0 && d <= OddlyLong {
		return d, nil
	}
	return max(d, 0), []Issue{Odd(where, "a timeout of %v", d)}
}

// Odd is a warning.
func Odd(where, format string, args ...any) Issue {
	return Issue{Severity: SeverityWarning, Where: where, Message: fmt.Sprintf(format, args...)}
}

// Refuses reports whether a definition with this issue is refused.
func (i Issue) Refuses(strict bool) bool {
	return i.Severity != SeverityInfo && (strict || i.Severity != SeverityWarning)
}

func topologyIssue(where, message string) Issue {
	return Issue{
		SeverityError, where, message, &journal.Error{Code: journal.CodeTopology, Message: message},
	}
}

// An Error says all that is wrong with a definition. It is a [journal.Error] of code
// invalid, and also what its issues are: errors.Is finds a code of theirs.
type Error struct {
	Workflow string
	Issues   []Issue
}

// Error gives the issues, one in a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		lines[i] = issue.String()
	}
	return fmt.Sprintf("perdure: the definition of %s has issues:\n\t%s", e.Workflow,
		strings.Join(lines, "\n\t"))
}

// Unwrap gives an Error of code invalid, and the errors of the issues.
func (e *Error) Unwrap() []error {
	all := []error{&journal.Error{
		Code: journal.CodeInvalid, Op: "define " + e.Workflow, Message: "the definition has issues",
		Hint: "perdure.Check returns them without an engine, in a test for instance",
	}}
	for _, i := range e.Issues {
		if i.Err != nil {
			all = append(all, i.Err)
		}
	}
	return all
}

// NewError returns an error where an issue refuses the definition.
func NewError(workflow string, issues []Issue, strict bool) error {
	for _, i := range issues {
		if i.Refuses(strict) {
			return &Error{workflow, issues}
		}
	}
	return nil
}
