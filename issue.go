package perdure

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
	IssueError   Severity = "ERROR"   // the definition is refused; so it is where an issue has no severity
	IssueWarning Severity = "WARNING" // observers are told; refused under Options.FailOnWarning
	IssueInfo    Severity = "INFO"    // observers are told
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
	s := string(cmp.Or(i.Severity, IssueError))
	for _, part := range []string{i.Where, i.Message} {
		if part != "" {
			s += ": " + part
		}
	}
	return oneLine.Replace(s)
}

var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// oddlyLong is what no timeout or delay of a declared step usually is.
const oddlyLong = 24 * time.Hour

// CheckTimeout warns of a timeout that is negative, or longer than a day.
func CheckTimeout(where string, d time.Duration) []Issue {
	if d >= 0 && d <= oddlyLong {
		return nil
	}
	return []Issue{{Severity: IssueWarning, Where: where, Message: "a timeout of " + d.String()}}
}

// CheckRetry says what is wrong with a policy, and warns of delays that are longer than a
// day.
func CheckRetry(where string, r Retry) []Issue {
	var issues []Issue
	if err := r.Validate(); err != nil {
		issues = append(issues, Issue{Severity: IssueError, Where: where, Message: err.Error(), Err: err})
	}
	if longest := max(r.First, r.Cap); longest > oddlyLong {
		issues = append(issues, Issue{Severity: IssueWarning, Where: where, Message: "a delay of " + longest.String()})
	}
	return issues
}

// refuses says whether a definition with this issue is refused.
func (i Issue) refuses(strict bool) bool {
	return i.Severity != IssueInfo && (strict || i.Severity != IssueWarning)
}

func topologyIssue(where, message string) Issue {
	return Issue{IssueError, where, message, &Error{Code: journal.CodeTopology, Message: message}}
}

// A DefinitionError says all that is wrong with a definition. It is an [Error] of code
// invalid, and also what its issues are: errors.Is finds a code of theirs.
type DefinitionError struct {
	Workflow string
	Issues   []Issue
}

// Error gives the issues, one in a line.
func (e *DefinitionError) Error() string {
	lines := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		lines[i] = issue.String()
	}
	return fmt.Sprintf("perdure: the definition of %s has issues:\n\t%s", e.Workflow, strings.Join(lines, "\n\t"))
}

// Unwrap gives an Error of code invalid, and the errors of the issues.
func (e *DefinitionError) Unwrap() []error {
	all := []error{&Error{Code: journal.CodeInvalid, Op: "define " + e.Workflow, Message: "the definition has issues"}}
	for _, i := range e.Issues {
		if i.Err != nil {
			all = append(all, i.Err)
		}
	}
	return all
}

// newDefinitionError gives an error where an issue refuses the definition.
func newDefinitionError(workflow string, issues []Issue, strict bool) error {
	for _, i := range issues {
		if i.refuses(strict) {
			return &DefinitionError{workflow, issues}
		}
	}
	return nil
}
