package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// A run is a head, its journal and its inbox. What the slices and the map have
// is only appended to or replaced as a whole, so that a copy of a run is how it
// was.
type run struct {
	head       journal.Head
	rows       []row             // by ascending sequence
	inbox      []*message        // by ascending number; some were taken, the first was not
	read       int               // how many of those were taken
	taken      []*message        // by this run, in the order in which it has taken them
	continued  bool              // a successor has its inbox
	attributes map[string]string // what lists are searched by
	seen       int64             // sequence of the last row when its last crash was counted
	given      int64             // number of the last message that its engine was given
	claimed    bool              // and its head not written since
	commit     int64             // the last group that changed it
}

// A row is an entry as it is stored: the detail in its encoded form, so that
// nothing in it is shared with anybody.
type row struct {
	entry  journal.Entry // without its detail
	detail []byte
}

// newRow gives the stored form of an entry. It fails where the detail does not
// encode.
func newRow(e journal.Entry) (row, error) {
	detail, err := journal.EncodeDetail(e.Detail)
	if err != nil {
		return row{}, err
	}
	e.Detail, e.At = nil, stored(e.At)
	return row{entry: e, detail: detail}, nil
}

// read gives the entry of a row, or a CorruptError.
func (r row) read() (journal.Entry, error) {
	e := r.entry
	detail, err := journal.DecodeDetail(r.detail)
	if err != nil {
		return e, &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: err.Error()}
	}
	e.Detail = detail
	return e, e.Check()
}

// last is the sequence of the last row; zero without.
func (r *run) last() int64 {
	if len(r.rows) == 0 {
		return 0
	}
	return r.rows[len(r.rows)-1].entry.Seq
}

// from gives the rows from a sequence on.
func (r *run) from(seq int64) []row {
	i, _ := slices.BinarySearchFunc(r.rows, seq, func(r row, seq int64) int {
		return cmp.Compare(r.entry.Seq, seq)
	})
	return r.rows[i:]
}

// isOpen says whether the run has not ended.
func (r *run) isOpen() bool { return r.head.Ended.IsZero() }

// isFree says whether the run may be claimed once its wake time has come.
func (r *run) isFree() bool {
	return r.isOpen() && r.head.Owner == 0 && !r.head.Wake.IsZero()
}

// insert adds a run.
func (d *data) insert(r *run) {
	d.runs[r.head.Number] = r
	d.byID[r.head.WorkflowID] = append(d.byID[r.head.WorkflowID], r)
	d.byNumber = slices.Insert(d.byNumber, d.position(r.head.Number), r)
}

// remove removes a run.
func (d *data) remove(r *run) {
	id, i := r.head.WorkflowID, d.position(r.head.Number)
	delete(d.runs, r.head.Number)
	d.byNumber = slices.Delete(d.byNumber, i, i+1)
	d.byID[id] = slices.DeleteFunc(d.byID[id], func(o *run) bool { return o == r })
	if len(d.byID[id]) == 0 {
		delete(d.byID, id)
	}
}

// position is where a number is in byNumber, or would be.
func (d *data) position(n journal.Number) int {
	i, _ := slices.BinarySearchFunc(d.byNumber, n, func(r *run, n journal.Number) int {
		return cmp.Compare(r.head.Number, n)
	})
	return i
}

// holds gives the run that the workflow ID of a new one stands for: the open
// one, else the one of the same workflow that ended last, at since or later.
func (d *data) holds(h *journal.Head, since time.Time) *run {
	var recent *run
	for _, r := range d.byID[h.WorkflowID] {
		if r.isOpen() {
			return r
		}
		if since.IsZero() || r.head.Workflow != h.Workflow || r.head.Ended.Before(since) {
			continue
		}
		if recent == nil || !r.head.Ended.Before(recent.head.Ended) {
			recent = r
		}
	}
	return recent
}

// open gives the open run of a workflow ID; nil for none.
func (d *data) open(workflowID string) *run {
	if r := d.newest(workflowID); r != nil && r.isOpen() {
		return r
	}
	return nil
}

// newest gives the run that a workflow ID stands for: the open one, else the one
// that ended last; nil for none.
func (d *data) newest(workflowID string) *run {
	var newest *run
	for _, r := range d.byID[workflowID] {
		if r.isOpen() {
			return r
		}
		if newest == nil || r.endedAfter(newest) {
			newest = r
		}
	}
	return newest
}

// endedAfter says which of two ended runs of a workflow ID is the newer one.
func (r *run) endedAfter(o *run) bool {
	if !r.head.Ended.Equal(o.head.Ended) {
		return r.head.Ended.After(o.head.Ended)
	}
	return r.head.Number > o.head.Number
}

// storedHead gives a head as a database would give it back.
func storedHead(h journal.Head) journal.Head {
	h.Wake, h.Created, h.Ended = stored(h.Wake), stored(h.Created), stored(h.Ended)
	return h
}

// stored gives a time as a database would give it back: in UTC, without the
// reading of the monotonic clock.
func stored(t time.Time) time.Time { return t.Round(0).UTC() }
