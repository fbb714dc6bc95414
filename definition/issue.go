// Package definition describes definitions of workflows, and the issues that are found in them.
package definition

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

// A Severity is the severity of an issue: its effect on the registration of the definition.
type Severity string

// The severities.
const (
	// SeverityError refuses the definition. An issue without a severity has this one.
	SeverityError Severity = "ERROR"
	// SeverityWarning notifies observers. It refuses the definition under Options.FailOnWarning.
	SeverityWarning Severity = "WARNING"
	// SeverityInfo notifies observers.
	SeverityInfo Severity = "INFO"
)

// An Issue is one thing that is wrong, or odd, with a definition.
type Issue struct {
	Severity Severity
	Code     string // the kind of the issue, for tools, such as [machine.IssueTarget]; may be empty
	Where    string // the place within the definition, with dots: charge.retry
	Message  string
	Err      error // an error that errors.Is finds in the error of the definition; may be nil
}

// String returns the issue in one line.
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

// OddlyLong is the longest delay, or timeout of one attempt, without a warning.
const OddlyLong = 24 * time.Hour

// CheckTimeout returns the timeout of a run or a wait, and an issue that refuses a negative one.
func CheckTimeout(where string, d time.Duration) (time.Duration, []Issue) {
	if d >= 0 {
		return d, nil
	}
	return 0, []Issue{Wrong(where, failure.NegativeTimeout(d))}
}

// CheckAttemptTimeout is [CheckTimeout] for the timeout of one attempt of a step. It warns if d
// is longer than a day.
func CheckAttemptTimeout(where string, d time.Duration) (time.Duration, []Issue) {
	if d <= OddlyLong {
		return CheckTimeout(where, d)
	}
	return d, []Issue{Odd(where, "a timeout of %v for one attempt, which begins again after a "+
		"crash: let the run wait instead, by Sleep, a timer or a signal", d)}
}

// Wrong returns the issue that refuses a definition because of an error at a place.
func Wrong(where string, err error) Issue {
	return Issue{Severity: SeverityError, Where: where, Message: failure.Bare(err), Err: err}
}

// Odd returns a warning.
func Odd(where, format string, args ...any) Issue {
	return Issue{Severity: SeverityWarning, Where: where, Message: fmt.Sprintf(format, args...)}
}

// Refuses reports whether a definition with this issue is refused.
func (i Issue) Refuses(strict bool) bool {
	return i.Severity != SeverityInfo && (strict || i.Severity != SeverityWarning)
}

func topologyIssue(where, message string) Issue {
	return Issue{
		Severity: SeverityError, Code: string(journal.CodeTopology), Where: where, Message: message,
		Err: &journal.Error{Code: journal.CodeTopology, Message: message},
	}
}

// An Error is an error with all issues of a definition. It is a [journal.Error] of code invalid.
// errors.Is also finds the errors of its issues, and their codes.
type Error struct {
	Workflow string
	Issues   []Issue
}

// Error returns the issues, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		lines[i] = issue.String()
	}
	return fmt.Sprintf("perdure: the definition of %s has issues:\n\t%s", e.Workflow,
		strings.Join(lines, "\n\t"))
}

// Unwrap returns an Error of code invalid, and the errors of the issues.
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

// NewError returns an error if an issue refuses the definition, and nil otherwise.
func NewError(workflow string, issues []Issue, strict bool) error {
	for _, i := range issues {
		if i.Refuses(strict) {
			return &Error{workflow, issues}
		}
	}
	return nil
}
