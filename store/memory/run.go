package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A run is a head, its journal and its inbox. The slices and the map are only appended to or
// replaced as a whole, so that a copy of a run keeps the earlier state.
type run struct {
	head journal.Head
	rows []row // in ascending order of sequence
	// inbox is in ascending order of number. Some of its messages were taken, but never the first.
	inbox []*message
	read  int // number of taken messages in inbox
	// taken are the messages that this run took, in the order in which it took them.
	taken      []*message
	continued  bool              // a successor has its inbox
	attributes map[string]string // search attributes
	// seen is the sequence that the last row but output had when the last crash was counted.
	seen int64
	// given is the number of the last message that its engine was given.
	given   int64
	claimed bool        // claimed, and its head was not written since
	ordered store.Order // what no owner has seen
	commit  int64       // the last group that changed it
}

// A row is a stored entry. Its detail is encoded, so that it is not shared with anybody.
type row struct {
	entry  journal.Entry // without its detail
	detail []byte
}

// newRow returns the stored form of an entry. It fails if the detail cannot be encoded.
func newRow(e journal.Entry) (row, error) {
	detail, err := journal.EncodeDetail(e.Detail)
	if err != nil {
		return row{}, err
	}
	e.Detail, e.At = nil, stored(e.At)
	return row{entry: e, detail: detail}, nil
}

// read returns the entry of a row, or a CorruptError.
func (r row) read() (journal.Entry, error) {
	e := r.entry
	detail, err := journal.DecodeDetail(r.detail)
	if err != nil {
		return e, &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: err.Error()}
	}
	e.Detail = detail
	return e, e.Check()
}

// last returns the sequence of the last row; zero if there is none.
func (r *run) last() int64 {
	if len(r.rows) == 0 {
		return 0
	}
	return r.rows[len(r.rows)-1].entry.Seq
}

// lastProgress returns the sequence of the last row that is not output; zero if there is none.
func (r *run) lastProgress() int64 {
	for _, row := range slices.Backward(r.rows) {
		if !row.entry.Kind.IsOutput() {
			return row.entry.Seq
		}
	}
	return 0
}

// from returns the rows from a sequence on.
func (r *run) from(seq int64) []row {
	i, _ := slices.BinarySearchFunc(r.rows, seq, func(r row, seq int64) int {
		return cmp.Compare(r.entry.Seq, seq)
	})
	return r.rows[i:]
}

// isOpen reports whether the run has not ended.
func (r *run) isOpen() bool { return r.head.Ended.IsZero() }

// isFree reports whether the run may be claimed when its wake time has come.
func (r *run) isFree() bool {
	return r.isOpen() && r.head.Owner == 0 && !r.head.Wake.IsZero()
}

// insert adds a run to the data.
func (d *data) insert(r *run) {
	d.runs[r.head.Number] = r
	d.byID[r.head.WorkflowID] = append(d.byID[r.head.WorkflowID], r)
	d.byNumber = slices.Insert(d.byNumber, d.position(r.head.Number), r)
	d.byAge = slices.Insert(d.byAge, ageIn(d.byAge, r.head.Cursor()), r)
}

// remove removes a run from the maps and lists of runs. It does not touch gone.
func (d *data) remove(r *run) {
	id, i := r.head.WorkflowID, d.position(r.head.Number)
	delete(d.runs, r.head.Number)
	d.byNumber = slices.Delete(d.byNumber, i, i+1)
	i = ageIn(d.byAge, r.head.Cursor())
	d.byAge = slices.Delete(d.byAge, i, i+1)
	d.byID[id] = slices.DeleteFunc(d.byID[id], func(o *run) bool { return o == r })
	if len(d.byID[id]) == 0 {
		delete(d.byID, id)
	}
}

// position returns the position that a number has or would have in byNumber.
func (d *data) position(n journal.Number) int {
	i, _ := slices.BinarySearchFunc(d.byNumber, n, func(r *run, n journal.Number) int {
		return cmp.Compare(r.head.Number, n)
	})
	return i
}

// ageIn returns the position that a cursor has or would have in runs in the order of creation.
func ageIn(runs []*run, c journal.Cursor) int {
	i, _ := slices.BinarySearchFunc(runs, c, func(r *run, c journal.Cursor) int {
		return r.head.Cursor().Compare(c)
	})
	return i
}

// holds returns the run that has the workflow ID of a new run: the open run, or else the run of the
// same workflow that ended last, not before since. It returns nil if there is none, and only open
// runs count if since is zero.
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

// open returns the open run with a workflow ID; nil if there is none.
func (d *data) open(workflowID string) *run {
	if r := d.newest(workflowID); r != nil && r.isOpen() {
		return r
	}
	return nil
}

// newest returns the run that a workflow ID stands for: the open run, or else the run that ended
// last; nil if there is none.
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

// endedAfter reports whether the run is newer than o; both have ended and have the same workflow
// ID.
func (r *run) endedAfter(o *run) bool {
	if !r.head.Ended.Equal(o.head.Ended) {
		return r.head.Ended.After(o.head.Ended)
	}
	return r.head.Number > o.head.Number
}

// storedHead returns a head as a database would return it.
func storedHead(h journal.Head) journal.Head {
	h.Wake, h.Created, h.Ended = stored(h.Wake), stored(h.Created), stored(h.Ended)
	return h
}

// stored returns a time as a database would return it: in UTC, without the monotonic clock.
func stored(t time.Time) time.Time { return t.Round(0).UTC() }
