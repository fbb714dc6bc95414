package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Load gives entries of one journal in order. Where a row cannot be read it
// gives those before it and a CorruptError.
func (s *Store) Load(_ context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	run := s.data.runs[n]
	if run == nil {
		return nil, nil
	}
	rows := run.from(r.From)
	if r.Limit > 0 && len(rows) > r.Limit {
		rows = rows[:r.Limit]
	}
	var entries []journal.Entry
	for _, row := range rows {
		e, err := row.read()
		if err == nil && r.Payloads {
			err = s.data.fill(&e)
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// fill gives an entry its spilled payload.
func (d *data) fill(e *journal.Entry) error {
	if e.Spill == 0 {
		return nil
	}
	payload, ok := d.spilled[e.Spill]
	if !ok {
		return &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: "its payload is not there"}
	}
	e.Data = payload
	return nil
}

// Spill keeps one large payload. It may be sent again.
func (s *Store) Spill(_ context.Context, engine journal.EngineID, id journal.Number, payload []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.data.fence(engine); err != nil {
		return err
	}
	if payload == nil {
		payload = []byte{}
	}
	s.data.spilled[id] = payload
	return nil
}

// Find gives heads by filter, newest first.
func (s *Store) Find(_ context.Context, f store.Filter) ([]journal.Head, journal.Number, error) {
	if err := s.enter(); err != nil {
		return nil, 0, err
	}
	defer s.leave()
	var heads []journal.Head
	for _, r := range slices.Backward(s.data.candidates(f)) {
		if !matches(f, &r.head) {
			continue
		}
		if len(heads) == f.Page() {
			return heads, heads[len(heads)-1].Number, nil
		}
		heads = append(heads, r.head)
	}
	return heads, 0, nil
}

// candidates gives runs by ascending number, among them all that match.
func (d *data) candidates(f store.Filter) []*run {
	if f.Run != "" {
		n, ok := f.Run.Number(d.database)
		if r := d.runs[n]; ok && r != nil {
			return []*run{r}
		}
		return nil
	}
	if f.WorkflowID != "" {
		return slices.SortedFunc(slices.Values(d.byID[f.WorkflowID]), byNumber)
	}
	runs := d.byNumber
	if f.After != 0 {
		runs = runs[:d.position(f.After)]
	}
	return runs
}

func byNumber(a, b *run) int { return cmp.Compare(a.head.Number, b.head.Number) }

func matches(f store.Filter, h *journal.Head) bool {
	switch {
	case f.After != 0 && h.Number >= f.After:
		return false
	case f.WorkflowID != "" && h.WorkflowID != f.WorkflowID:
		return false
	case f.Workflow != "" && h.Workflow != f.Workflow:
		return false
	case f.Owner != 0 && (h.Owner != f.Owner || !h.Ended.IsZero()):
		return false
	}
	return len(f.Statuses) == 0 || slices.Contains(f.Statuses, h.Status)
}
