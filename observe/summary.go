package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Summary counts what an engine does, in total and for each pattern. It is for one engine, from
// [NewSummary] on. Runs that the engine starts for itself, such as those of dead letters, do not
// count.
type Summary struct {
	since time.Time

	mu  sync.Mutex
	all map[string]*counts // by pattern
}

// counts are the figures of one pattern.
type counts struct {
	executions   Executions
	steps        Steps
	compensation Compensation
	dlq          DLQ
}

// NewSummary returns a summary that has counted nothing.
func NewSummary() *Summary {
	return &Summary{since: time.Now(), all: map[string]*counts{}}
}

// Figures are what a [Summary] has counted. As JSON they are the body of /metrics.
type Figures struct {
	Executions   Executions       `json:"executions"`
	Patterns     map[string]Total `json:"patterns"`
	Steps        Steps            `json:"steps"`
	Compensation Compensation     `json:"compensation"`
	DLQ          DLQ              `json:"dlq"`
	Uptime       string           `json:"uptime"` // a duration of ISO 8601, such as PT1H2M3.5S
}

// Executions are the runs that were started, and those that have ended. A run that continues as
// new is completed, and its successor is another one. Failed are those that have ended in any
// other way than COMPLETED or CONFIRMED. A run may be started at one engine and end at another.
type Executions struct {
	Total     int `json:"total"`
	Active    int `json:"active"` // in memory now
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// A Total is the part of [Executions] that has one pattern.
type Total struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// Steps are the steps and participants that have ended, without compensations. Retried are the
// attempts that have failed and were followed by another one.
type Steps struct {
	Total   int `json:"total"`
	Failed  int `json:"failed"`
	Retried int `json:"retried"`
}

// Compensation are the compensations that have ended.
type Compensation struct {
	Total  int `json:"total"`
	Failed int `json:"failed"`
}

// DLQ are the runs that were dead-lettered.
type DLQ struct {
	Entries int `json:"entries"`
}

// Observer returns the observer that counts, for the options of the engine.
func (s *Summary) Observer() Observer {
	return Observer{See: s.see, Direct: true, Kinds: []Kind{
		RunStarted, RunEnded, RunContinued, DeadLettered, StepSucceeded, StepFailed, StepRetrying,
		ParticipantSucceeded, ParticipantFailed, StepCompensated, StepCompensationFailed,
	}}
}

func (s *Summary) see(n Notice) {
	if n.Own() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.all[n.Pattern]
	if c == nil {
		c = &counts{}
		s.all[n.Pattern] = c
	}
	c.count(&n)
}

func (c *counts) count(n *Notice) {
	undoes := n.Phase == journal.PhaseUndo
	switch n.Kind {
	case RunStarted:
		c.executions.Total++
	case RunEnded, RunContinued:
		if n.Succeeded() {
			c.executions.Completed++
		} else {
			c.executions.Failed++
		}
	case DeadLettered:
		c.dlq.Entries++
	case StepRetrying:
		c.steps.Retried++
	case StepSucceeded, ParticipantSucceeded, StepFailed, ParticipantFailed:
		if undoes {
			break
		}
		c.steps.Total++
		if !n.Succeeded() {
			c.steps.Failed++
		}
	case StepCompensated:
		c.compensation.Total++
	case StepCompensationFailed:
		c.compensation.Total++
		c.compensation.Failed++
	}
}

// Read returns the figures of a pattern, such as SAGA, or of all if pattern is empty. Capitals do
// not matter. Load is what the engine has to do now. A pattern that does not exist is a
// [journal.Error] of code not_found.
func (s *Summary) Read(load Load, pattern string) (Figures, error) {
	only := strings.ToUpper(pattern)
	if _, ok := journal.ParsePattern(only); !ok && only != "" {
		return Figures{}, &journal.Error{
			Code: journal.CodeNotFound, Op: "metrics",
			Message: fmt.Sprintf("there is no pattern %q", pattern),
			Hint:    "the patterns are " + strings.Join(patterns(), ", "),
		}
	}
	out := Figures{Patterns: map[string]Total{}, Uptime: iso8601(time.Since(s.since))}
	for p, n := range load.Runs {
		if only == "" || p == only {
			out.Executions.Active += n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(s.all)) {
		if only == "" || p == only {
			out.add(p, s.all[p])
		}
	}
	if _, ok := out.Patterns[only]; !ok && only != "" {
		out.Patterns[only] = Total{}
	}
	return out, nil
}

// add adds the figures of a pattern.
func (f *Figures) add(pattern string, c *counts) {
	e := c.executions
	f.Patterns[pattern] = Total{e.Total, e.Completed, e.Failed}
	f.Executions.Total += e.Total
	f.Executions.Completed += e.Completed
	f.Executions.Failed += e.Failed
	f.Steps.Total += c.steps.Total
	f.Steps.Failed += c.steps.Failed
	f.Steps.Retried += c.steps.Retried
	f.Compensation.Total += c.compensation.Total
	f.Compensation.Failed += c.compensation.Failed
	f.DLQ.Entries += c.dlq.Entries
}

// patterns returns the names of all patterns.
func patterns() (names []string) {
	for p := journal.PatternWorkflow; p.Valid(); p++ {
		names = append(names, p.String())
	}
	return names
}

// iso8601 returns a duration as ISO 8601 has it, with hours as the largest unit.
func iso8601(d time.Duration) string {
	text := d.Truncate(time.Millisecond).String() // 1h2m3.5s, 120ms
	if d < time.Second {
		text = fmt.Sprintf("%.3gs", d.Truncate(time.Millisecond).Seconds())
	}
	return "PT" + strings.ToUpper(text)
}
