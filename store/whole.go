package store

import (
	"errors"

	"github.com/perdure/perdure/journal"
)

// CutOff ends the entries of a claimed run before the first one that is missing, and sets Err.
// Such a run gets no messages.
func (r *Run) CutOff() {
	if whole, missing := (Range{}).Whole(r.Head.Number, r.Entries); missing != nil {
		r.Entries, r.Err, r.Inbox, r.More = whole, missing, nil, false
	}
}

// Whole returns the loaded entries of a range up to the first entry that is missing, with a
// CorruptError that names the missing one. Messages and ends are returned unchanged.
func (r Range) Whole(run journal.Number, entries []journal.Entry) ([]journal.Entry, error) {
	from := max(r.From, 1)
	switch {
	case r.Inbox || len(r.Ends) > 0 || len(entries) == 0:
		return entries, nil
	case r.Tail:
		from = entries[0].Seq
	}
	err := journal.Whole(run, from, entries)
	var missing *journal.CorruptError
	if errors.As(err, &missing) {
		entries = entries[:missing.Seq-from]
	}
	return entries, err
}
