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

// oddlyLong is what no timeout or delay usually is.
const oddlyLong = 24 * time.Hour

// CheckTimeout warns of a timeout that is negative, or longer than a day. It returns the
// timeout that holds: one that is negative is none.
func CheckTimeout(where string, d time.Duration) (time.Duration, []Issue) {
	if d >= 0 && d <= oddlyLong {
		return d, nil
	}
	return max(d, 0), []Issue{odd(where, "a timeout of %v", d)}
}

// CheckRetry says what is wrong with a policy. It warns of delays that are longer than a
// day, each or together, and of negative fields. It returns the policy that holds: a
// negative number of attempts is one attempt, a negative delay that of [DefaultRetry].
func CheckRetry(where string, r Retry) (Retry, []Issue) {
	var issues []Issue
	if r.Attempts < 0 {
		issues = append(issues, odd(where, "%d attempts", r.Attempts))
		r.Attempts = 1
	}
	for _, delay := range []*time.Duration{&r.First, &r.Cap} {
		if *delay < 0 {
			issues = append(issues, odd(where, "a delay of %v", *delay))
			*delay = 0
		}
	}
	if err := r.Validate(); err != nil {
		return r, append(issues, Issue{Severity: IssueError, Where: where, Message: err.Error(), Err: err})
	}
	if longest := max(r.First, r.Cap); longest > oddlyLong {
		issues = append(issues, odd(where, "a delay of %v", longest))
	} else if all := r.total(); all > oddlyLong {
		issues = append(issues, odd(where, "delays of %v together", all.Truncate(time.Second)))
	}
	return r, issues
}

// odd is a warning.
func odd(where, format string, args ...any) Issue {
	return Issue{Severity: IssueWarning, Where: where, Message: fmt.Sprintf(format, args...)}
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
