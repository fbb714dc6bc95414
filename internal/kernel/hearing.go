package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// A branch knows the operations that it began itself, and those of the branches within it. Anything
// else that it learns about its run, it has heard of. The first entry of the next operation that it
// begins records that (journal.Detail.Heard): a failure beside the branch may be the cause of the
// operation, so a retry does it again. The replay of a branch hears the same again. If plain Go
// code shares something, such as a variable of a closure, the engine does not see it.

// A hearing is the reason for a mark: the branch b has heard something for the n-th time. Without
// b, the body of a step has heard something.
type hearing struct {
	b *branch
	n int
}

// listens reports whether it matters what the code of the scope learns. It does not for the run's
// own code, which begins everything, nor for a clean-up, which comes of an end.
func (s *scope) listens() bool { return s.branch != nil && s.branch.op != nil }

// hears records that workflow code learns the state of an operation.
func (s *scope) hears(o *operation) {
	if s.listens() &&
		(!o.scope.within(
			s.branch.scope,
		) || o.opened != nil && o.opened.branch.told < o.opened.branch.heard) {
		s.branch.heard++
	}
}

// within reports whether s is the scope of, or in it.
func (s *scope) within(of *scope) bool {
	for ; s != nil && s != of; s = s.parent {
	}
	return s != nil
}

// learns records that workflow code learns a value that others may have set. If the body of a step
// learns it, by is the operation of the step, and its next entry has the mark.
func (s *scope) learns(by *operation) {
	switch {
	case !s.listens():
	case by == nil:
		s.branch.heard++
	default:
		s.run.mark(by.id, hearing{})
	}
}

// setOwn reports whether the scope's branch itself has set all those variables.
func (s *scope) setOwn(names []string) bool {
	for _, name := range names {
		e := s.run.values.variable(name)
		if e == nil || !slices.Contains(s.around(), e.Op.Scope) {
			return false
		}
	}
	return len(names) > 0
}

// around returns the scope and the scopes around it in its branch.
func (s *scope) around() (ids []int64) {
	for ; s != nil; s = s.parent {
		if ids = append(ids, s.id); s == s.branch.scope {
			break
		}
	}
	return ids
}

// tells marks an operation that a branch begins: its first entry records that the branch has heard
// something since the last such entry.
func (b *branch) tells(op journal.Op, rec *record) {
	switch {
	case b.told == b.heard:
	case rec == nil || rec.ended == nil && rec.attempt == 0 && len(rec.once) > 0:
		// a retry has kept nothing else of the operation
		b.run.mark(op, hearing{b, b.heard})
	default:
		b.told = b.heard
	}
}

// A marks has the operations whose next entry records that their branch, or the body of a step, has
// heard something. The mu of the run guards it.
type marks map[journal.Op]hearing

func (m *marks) add(op journal.Op, h hearing) {
	if *m == nil {
		*m = marks{}
	}
	(*m)[op] = h
}

// of returns the detail of an entry that is appended, with the mark if the entry gets one.
func (m marks) of(e *journal.Entry) *journal.Detail {
	h, ok := m[e.Op]
	if !ok {
		return e.Detail
	}
	delete(m, e.Op)
	if h.b != nil {
		h.b.told = max(h.b.told, h.n)
	}
	return heard(e.Detail)
}

// heard returns a detail with the mark.
func heard(d *journal.Detail) *journal.Detail {
	var own journal.Detail
	if d != nil {
		own = *d
	}
	own.Heard = true
	return &own
}
