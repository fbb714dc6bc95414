package batch

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// MaxRuns is the maximum number of runs in a list. A filter has no maximum.
const MaxRuns = 10_000

// MinRate and MaxRate are the limits of a rate.
const (
	MinRate = 0.001
	MaxRate = 100_000
)

// A Spec describes a batch. It has either a Filter or Runs.
type Spec struct {
	// Order is done with each run. Its action is retry, skip, fork, compensate, cancel or
	// terminate. The journal of each run records By, and Reason with the ID of the batch.
	Order admin.Order `json:"order"`
	// Filter is a text of package filter. It selects only runs in whose status the action is
	// possible. Retry and skip select CANCELLED runs only if the filter has that status.
	Filter string `json:"filter,omitempty"`
	// Runs are run IDs or workflow IDs, at most MaxRuns. A workflow ID stands for the run that it
	// has when the batch is started.
	Runs []string `json:"runs,omitempty"`
	// Rate is the maximum number of runs per second, from MinRate to MaxRate. Zero means no limit.
	Rate float64 `json:"rate,omitempty"`
}

func invalid(op, hint, format string, args ...any) error {
	err := failure.Invalid(op, format, args...)
	err.Hint = hint
	return err
}

// isList reports whether the batch has a list of runs instead of a filter.
func (s Spec) isList() bool { return s.Filter == "" }

// statusesOf returns the statuses of runs that an action is for, and those of them that a filter
// without statuses selects; nil means all that are open. An action that a batch does not have is
// for none.
func statusesOf(a journal.Action) (all, selected []journal.Status) {
	failed := []journal.Status{journal.Failed, journal.TimedOut}
	switch a {
	case journal.ActionRetry, journal.ActionSkip:
		return append(slices.Clip(failed), journal.Cancelled), failed
	case journal.ActionFork:
		all = append(failed, journal.Completed, journal.Cancelled, journal.Compensated,
			journal.Canceled)
		return all, all
	case journal.ActionCompensate:
		all = []journal.Status{journal.Completed}
		return all, all
	case journal.ActionCancel, journal.ActionTerminate:
		return slices.DeleteFunc(journal.Statuses(), journal.Status.IsTerminal), nil
	}
	return nil, nil
}

// complete checks a spec, and returns it with the filter as it is carried out.
func (s Spec) complete(op string, now time.Time) (Spec, perdure.Query, error) {
	var q perdure.Query
	all, _ := statusesOf(s.Order.Action)
	switch {
	case all == nil:
		return s, q, invalid(op, "", "action %s is not valid: allowed are retry, skip, fork, "+
			"compensate, cancel, terminate", failure.Quoted(string(s.Order.Action)))
	case s.Rate != 0 && !(s.Rate >= MinRate && s.Rate <= MaxRate):
		return s, q, invalid(op, "", "rate %v is not valid: allowed are 0 for no limit, and %v to "+
			"%d runs per second", s.Rate, MinRate, MaxRate)
	case s.Filter == "" && len(s.Runs) == 0:
		return s, q, invalid(op, "the filter status=FAILED selects all runs that have failed",
			"a batch without a filter and without runs is not valid")
	case s.Filter != "" && len(s.Runs) > 0:
		return s, q, invalid(op, "start two batches", "a filter and a list of runs together are "+
			"not valid")
	case len(s.Runs) > MaxRuns:
		return s, q, invalid(op, "use a filter, or several batches",
			"a list of %d runs is not valid: at most %d", len(s.Runs), MaxRuns)
	}
	if err := s.Order.Validate(); err != nil {
		return s, q, failure.Within(op, err)
	}
	for _, id := range s.Runs {
		if !journal.ValidWorkflowID(id) {
			return s, q, failure.Within(op, failure.BadWorkflowID(id))
		}
	}
	if s.isList() {
		return s, q, nil
	}
	q, err := s.query(op, now)
	if err != nil {
		return s, q, err
	}
	s.Filter = filter.Print(q)
	_, err = filter.Parse(s.Filter, now) // it may be too long now
	return s, q, err
}

// query returns the query of the filter: it selects runs that the action is for.
func (s Spec) query(op string, now time.Time) (perdure.Query, error) {
	q, err := filter.Parse(s.Filter, now)
	if err != nil {
		return q, failure.Within(op, err)
	}
	for _, name := range append(slices.Clip(q.Workflows), q.Workflow) {
		if strings.HasPrefix(name, kernel.OwnPrefix) {
			return q, invalid(op, "names that begin with "+kernel.OwnPrefix+" are the engine's",
				"workflow %s is not valid in the filter of a batch", failure.Quoted(name))
		}
	}
	all, selected := statusesOf(s.Order.Action)
	if len(q.Statuses) == 0 {
		q.Statuses, q.Open = selected, q.Open || selected == nil
	}
	for _, st := range q.Statuses {
		if !slices.Contains(all, st) {
			return q, invalid(op, "", "status %v is not valid in the filter of a batch that is to "+
				"%s: allowed are %s", st, s.Order.Action, listed(all))
		}
	}
	// the next run that is created is not one of them
	if end := now.Add(1); q.CreatedTo.IsZero() || q.CreatedTo.After(end) {
		q.CreatedTo = end
	}
	return q, nil
}

func listed(all []journal.Status) string {
	var names []string
	for _, s := range all {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// chunk returns the number of runs that are done together.
func (s Spec) chunk() int {
	if s.Rate == 0 {
		return mostTogether
	}
	return int(min(max(s.Rate, 1), mostTogether))
}

// takes returns how long a number of runs take at least.
func (s Spec) takes(n int) time.Duration {
	if s.Rate == 0 {
		return 0
	}
	return time.Duration(math.Ceil(float64(n) / s.Rate * float64(time.Second)))
}

// mostTogether is the maximum number of runs that are done at a time, and recorded together.
const mostTogether = 100
