package memory

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// Lose removes an entry. Only tests can do that.
func (s *Store) Lose(run journal.Number, seq int64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	r := s.data.runs[run]
	r.rows = slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool {
		return row.entry.Seq == seq
	})
	return nil
}

// Written calls f and counts the messages in inboxes that were written anew.
func (s *Store) Written(f func()) (int64, error) {
	before := map[**message]bool{}
	for _, r := range s.data.byNumber {
		if len(r.inbox) > 0 {
			before[&r.inbox[0]] = true
		}
	}
	f()
	written := int64(0)
	for _, r := range s.data.byNumber {
		if len(r.inbox) > 0 && !before[&r.inbox[0]] {
			written += int64(len(r.inbox))
		}
	}
	return written, nil
}
