package alert

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/perdure/perdure/journal"
)

// An Alert is the content of a message to a recipient.
type Alert struct {
	// ID is that of the message: each attempt to send it has the same one.
	ID       string    `json:"id"`
	Cause    Cause     `json:"cause"`
	Workflow string    `json:"workflow"`
	Text     string    `json:"text"` // one sentence
	At       time.Time `json:"at"`
	// Count is the number of runs that it is about. Runs are at most 10 of them, oldest first.
	Count int   `json:"count"`
	Runs  []Run `json:"runs,omitempty"`
}

// A Run is a run that an alert is about, as it was then.
type Run struct {
	RunID      string         `json:"run_id"`
	WorkflowID string         `json:"workflow_id"`
	Status     journal.Status `json:"status"`
	// Text is the error that the run ended with, or the reason why it stands still.
	Text string    `json:"text,omitempty"`
	At   time.Time `json:"at"` // of its end; of an open run, when it was started
}

const mostRuns = 10

// add counts a run, and keeps the newest.
func (a *Alert) add(r Run) {
	a.Count++
	a.Runs = newest(append(a.Runs, r), mostRuns)
}

// line returns a text without characters that end a line.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// mail renders the alert as plain text, for one address.
func (a *Alert) mail(address string) Mail {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\nAlert %s at %s\n", line(a.Text), a.Cause, a.At.Format(time.RFC3339))
	for _, r := range a.Runs {
		fmt.Fprintf(&b, "\n%s %s, run ID %s\n  %s\n", line(r.WorkflowID), r.Status, r.RunID,
			line(r.Text))
	}
	if n := a.Count - len(a.Runs); n > 0 && len(a.Runs) > 0 {
		fmt.Fprintf(&b, "\nand %d others\n", n)
	}
	return Mail{address, line(a.ID), line("perdure: " + a.Text), b.String()}
}

// newest returns at most the last n of all.
func newest[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }
