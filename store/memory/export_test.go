package memory

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// Lose removes an entry, which nothing outside of tests can.
func (s *Store) Lose(run journal.Number, seq int64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	r := s.data.runs[run]
	r.rows = slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool { return row.entry.Seq == seq })
	return nil
}
