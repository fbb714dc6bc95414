package alert

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// An end is the end of a run, with the rule that applied to it.
type end struct {
	Workflow string `json:"workflow"`
	Run
	Rule Rule      `json:"rule"`
	Told time.Time `json:"told"`
}

// A count is how the runs of a workflow have ended, since the last alert.
type count struct {
	// Row is the number of those without a success in between; 0 while the rule has no InARow, as
	// nobody tells of successes then.
	Row   int         `json:"row,omitempty"`
	Times []time.Time `json:"times,omitempty"` // of those within the time of the rule, sorted
	Runs  []Run       `json:"runs,omitempty"`  // the last of them
}

// take counts an end. It returns nil if that reaches no threshold.
func (s *state) take(e end) *Alert {
	r, c := e.Rule, s.Counts[e.Workflow]
	switch {
	case r.Off:
		return nil
	case e.Status.IsSuccess():
		c.Row = 0
	case !r.counts(e.Status):
		return nil
	default:
		c.Row++
		c.Times = append(c.Times, e.At)
		c.Runs = newest(append(c.Runs, e.Run), mostRuns)
	}
	if r.InARow == 0 {
		c.Row = 0
	}
	slices.SortFunc(c.Times, time.Time.Compare)
	if n := len(c.Times); n > 0 {
		from := c.Times[n-1].Add(-r.Within)
		c.Times = slices.DeleteFunc(c.Times, func(t time.Time) bool { return t.Before(from) })
		c.Times = newest(c.Times, r.Times)
	}
	n, text := 0, ""
	switch {
	case e.Status.IsSuccess():
	case r.InARow == 0 && r.Times == 0:
		n, text = 1, fmt.Sprintf("run %s of %s has ended as %v", e.WorkflowID, e.Workflow, e.Status)
		if e.Status == journal.CompensationFailed {
			text = fmt.Sprintf("the rollback of run %s of %s has stopped and is incomplete",
				e.WorkflowID, e.Workflow)
		}
	case r.InARow > 0 && c.Row >= r.InARow:
		n, text = c.Row, fmt.Sprintf("%d runs of %s in a row have not succeeded", c.Row, e.Workflow)
	case r.Times > 0 && len(c.Times) >= r.Times:
		n, text = len(c.Times), fmt.Sprintf("%d runs of %s have not succeeded within %v",
			len(c.Times), e.Workflow, r.Within)
	}
	if n == 0 {
		s.keep(e.Workflow, c)
		return nil
	}
	delete(s.Counts, e.Workflow)
	return &Alert{
		Cause: CauseEnded, Workflow: e.Workflow, Text: text, At: e.Told, Count: n,
		Runs: newest(c.Runs, min(n, mostRuns)),
	}
}

func (s *state) keep(workflow string, c count) {
	if c.Row == 0 && len(c.Times) == 0 {
		delete(s.Counts, workflow)
		return
	}
	if s.Counts == nil {
		s.Counts = map[string]count{}
	}
	s.Counts[workflow] = c
}
