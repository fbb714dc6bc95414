package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// A run is a head and its journal.
type run struct {
	head journal.Head
	rows []row // by ascending sequence
	seen int64 // sequence of the last row when its last crash was counted
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

// storedHead gives a head as a database would give it back.
func storedHead(h journal.Head) journal.Head {
	h.Wake, h.Created, h.Ended = stored(h.Wake), stored(h.Created), stored(h.Ended)
	return h
}

// stored gives a time as a database would give it back: in UTC, without the
// reading of the monotonic clock.
func stored(t time.Time) time.Time { return t.Round(0).UTC() }
