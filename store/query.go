package store

import (
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Range selects entries of one journal, messages of one inbox, or the ends of runs.
type Range struct {
	From     int64 // first sequence; 0 and 1 are the same
	Limit    int   // 0: all
	Tail     bool  // the last Limit entries instead of the first; From is ignored
	Payloads bool  // spilled payloads come with their entries

	// Inbox selects untaken messages instead of entries; their Seq is the number of the
	// message. Run 0 stands for the unrouted ones, with the workflow ID in Detail.To and the
	// time when they expire in Detail.Due.
	Inbox bool
	Name  string // with Inbox: messages of this name only

	// Ends selects instead the last entry of each of these runs that has ended, in this order. The
	// run of the call is ignored. There are at most MaxLimit.
	Ends []journal.Number
}

// A Filter selects heads. A zero field does not restrict the selection. Of a range of time, From is
// in it and To is not.
type Filter struct {
	Run         journal.RunID
	Runs        []journal.RunID // any of these; at most MaxLimit
	WorkflowID  string
	WorkflowIDs []string // any of these; at most MaxLimit

	// Newest limits the runs of each workflow ID to one: the open run, else the one that ended
	// last; of several that ended at the same time, the one with the highest number.
	Newest bool

	Workflow  string
	Workflows []string // any of these; at most MaxLimit
	Without   string   // runs of workflows whose names do not begin with this
	Patterns  []journal.Pattern
	Parent    journal.Number
	Owner     journal.EngineID // open runs of this engine
	Open      bool             // open runs only
	Busy      time.Time        // open runs that an engine owns, or that are due by then
	// Stale selects open runs whose journals have got no entry since then. It is compared with the
	// time of the last entry.
	Stale                  time.Time
	Statuses               []journal.Status
	CreatedFrom, CreatedTo time.Time
	EndedFrom, EndedTo     time.Time // runs that have ended
	// Error is a part of Head.Error. Upper and lower case of A to Z are the same.
	Error      string
	Attributes map[string]string // all of these

	After journal.Cursor // the cursor that the previous page returned
	Limit int            // 0: DefaultLimit; at most MaxLimit
	// Looks is the number of runs that Find looks at for one page. 0: MaxLooks, which is also the
	// most. For Count it is the number of each kind, and MaxCounted stands for MaxLooks.
	Looks int
}

// DefaultLimit and MaxLimit bound the number of heads that one Find returns.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// MaxLooks bounds the number of runs that one Find looks at.
const MaxLooks = 2_000

// Page returns the number of heads that the filter asks for.
func (f *Filter) Page() int {
	switch {
	case f.Limit <= 0:
		return DefaultLimit
	case f.Limit > MaxLimit:
		return MaxLimit
	}
	return f.Limit
}

// Look returns the number of runs that Find looks at.
func (f *Filter) Look() int {
	if f.Looks <= 0 || f.Looks > MaxLooks {
		return MaxLooks
	}
	return f.Looks
}

// Names returns the workflows of the filter: any of these; nil for all workflows. If Workflow and
// Workflows exclude each other, it returns an empty list that is not nil.
func (f *Filter) Names() []string {
	switch {
	case f.Workflow == "" && len(f.Workflows) == 0:
		return nil
	case f.Workflow == "":
		return f.Workflows
	case len(f.Workflows) == 0 || slices.Contains(f.Workflows, f.Workflow):
		return []string{f.Workflow}
	}
	return []string{}
}

// IsEmpty reports whether the filter excludes all runs, because its workflows or its workflow IDs
// exclude each other.
func (f *Filter) IsEmpty() bool {
	names, ids := f.Names(), f.IDs()
	return names != nil && len(names) == 0 || ids != nil && len(ids) == 0
}

// IDs returns the workflow IDs of the filter, in the manner of Names.
func (f *Filter) IDs() []string {
	g := Filter{Workflow: f.WorkflowID, Workflows: f.WorkflowIDs}
	return g.Names()
}

// Lower returns a text with a to z instead of A to Z. Other letters stay as they are.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// A Purge removes expired runs (Head.Expires) and expired unrouted messages, in one
// transaction and at most Limit rows. A run stays while
//
//   - an entry of it is in the outbox;
//   - its chain goes on, and the run is the first of the chain or has not continued as new.
//
// The head of a run goes in one transaction. From then on nobody finds the run, it stands for no
// workflow ID, and no engine claims it. Its entries, messages, attributes and payloads are removed
// with it, as far as the limit allows. The next purges, of any caller, first remove the rest. The
// messages that it has not taken stay if a successor has its inbox, and so does a payload that
// another run names.
type Purge struct {
	Engine journal.EngineID // whose right to write is checked; zero: a client
	Now    time.Time
	// Unsaid are retentions by workflow, for ended runs without one of their own (Head.Retain),
	// which earlier versions wrote. At most Limit of those runs get it now, and then this purge
	// removes nothing.
	Unsaid map[string]journal.Retention
	Limit  int // rows at a time; 0: PurgeRows
}

// PurgeRows is the default of Purge.Limit. A purge also stops after PurgeBytes of payloads. So one
// purge takes some milliseconds.
const (
	PurgeRows  = 1000
	PurgeBytes = 4 << 20
)

// Rows returns how many rows the purge may remove.
func (p *Purge) Rows() int {
	if p.Limit <= 0 {
		return PurgeRows
	}
	return p.Limit
}

// Heads returns how many runs may go at a time: a tenth of the rows, to leave room for their
// entries and messages.
func (p *Purge) Heads() int { return (p.Rows() + 9) / 10 }

// Purged counts what a purge has removed.
type Purged struct {
	Runs     int
	Unrouted int
	Rows     int  // of any kind, heads and unrouted messages too
	More     bool // there is more to remove
}
