package batch

import (
	"time"

	"github.com/perdure/perdure/journal"
)

// Status is the status of a batch.
type Status string

// The statuses.
const (
	Pending  Status = "pending" // no engine has taken it up
	Running  Status = "running"
	Stopping Status = "stopping" // it ends after the runs that it is doing
	Stopped  Status = "stopped"
	Done     Status = "done"
	Broken   Status = "broken" // it cannot go on: see Batch.Problem
)

// A Batch is a batch as it is now.
type Batch struct {
	ID     string `json:"id"`
	RunID  string `json:"run_id"` // of the run that carries it out
	Status Status `json:"status"`
	// Problem is the reason why it is Broken.
	Problem string `json:"problem,omitempty"`
	// Spec is the batch as it was started. Its filter has the conditions that it was completed by.
	Spec Spec `json:"spec"`
	// Expected is the number of runs that it had when it was started. If More is set, there were
	// more.
	Expected int  `json:"expected"`
	More     bool `json:"more,omitempty"`
	Progress
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
	Stop    *Halt     `json:"stop,omitempty"` // nil if nobody has stopped it
}

// Progress is how far a batch is. Matched is the sum of the other counts.
type Progress struct {
	Matched int64 `json:"matched"`
	Done    int64 `json:"done"`    // the order was carried out
	Skipped int64 `json:"skipped"` // the run has changed, and the order is not for it any more
	Failed  int64 `json:"failed"`
	// Errors are the first 100 runs that failed, and Skips the first 20 that were skipped.
	Errors []Item `json:"errors,omitempty"`
	Skips  []Item `json:"skips,omitempty"`
}

const mostErrors, mostSkips = 100, 20

// An Item is a run on which the order was not carried out, with the reason.
type Item struct {
	RunID string       `json:"run_id"` // or the ID of the list that no run has
	Code  journal.Code `json:"code"`
	Error string       `json:"error"`
}

// A Halt is the stop of a batch.
type Halt struct {
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// A state is the input of the run of a batch, and its result.
type state struct {
	ID   string    `json:"id"`
	Made time.Time `json:"made"`
	Spec Spec      `json:"spec"`           // without the list of runs
	Left []string  `json:"left,omitempty"` // runs of the list that it has not come to
	// Unknown are the IDs of the list that no run had when the batch was started.
	Unknown  []string       `json:"unknown,omitempty"`
	After    journal.Cursor `json:"after,omitzero"` // where the filter goes on
	IsOver   bool           `json:"over,omitempty"` // the filter selects no more runs
	Expected int            `json:"expected"`
	More     bool           `json:"more,omitempty"`
	Stop     *Halt          `json:"stop,omitempty"`
	Progress
}

// count adds the result of one step.
func (p *Progress) count(r result) {
	p.Matched += int64(r.Done + r.Skipped + r.Failed)
	p.Done += int64(r.Done)
	p.Skipped += int64(r.Skipped)
	p.Failed += int64(r.Failed)
	p.Errors = append(p.Errors, r.Errors[:min(len(r.Errors), mostErrors-len(p.Errors))]...)
	p.Skips = append(p.Skips, r.Skips[:min(len(r.Skips), mostSkips-len(p.Skips))]...)
}
