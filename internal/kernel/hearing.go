package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
)

// A branch knows what it began itself, and what those within it did. What else it learns of
// its run it has heard, and the next operation that it begins says so in its first entry
// (journal.Detail.Heard): it may come of what failed beside the branch, and a retry does it
// again. The replay of a branch hears the same again. What plain Go code shares, a variable
// of a closure, nobody sees.

// A hearing is what an operation is marked for: the n-th time that the branch has heard
// something; nil where the body of a step has.
type hearing struct {
	b *branch
	n int
}

// listens reports whether it matters what the code of the scope learns. The run's own code
// begins everything, and a clean-up comes of an end.
func (s *scope) listens() bool { return s.branch != nil && s.branch.op != nil }

// hears records that workflow code learns how an operation stands.
func (s *scope) hears(o *operation) {
	if s.listens() && (!o.scope.within(s.branch.scope) || o.opened != nil && o.opened.branch.told < o.opened.branch.heard) {
		s.branch.heard++
	}
}

// within reports whether a scope is another one, or in it.
func (s *scope) within(of *scope) bool {
	for ; s != nil && s != of; s = s.parent {
	}
	return s != nil
}

// learns records that workflow code learns something that others may have set. In the body
// of a step, whose operation by is, that is known by its next entry.
func (s *scope) learns(by *operation) {
	switch {
	case !s.listens():
	case by == nil:
		s.branch.heard++
	default:
		s.run.mark(by.id, hearing{})
	}
}

// setOwn reports whether the scope's branch has set all those variables, itself.
func (s *scope) setOwn(names []string) bool {
	for _, name := range names {
		e := s.run.values.variable(name)
		if e == nil || !slices.Contains(s.around(), e.Op.Scope) {
			return false
		}
	}
	return len(names) > 0
}

// around returns the scope and those around it in its branch.
func (s *scope) around() (ids []int64) {
	for ; s != nil; s = s.parent {
		if ids = append(ids, s.id); s == s.branch.scope {
			break
		}
	}
	return ids
}

// tells has the first entry of an operation that a branch begins say what the branch has
// heard since the last one that did.
func (b *branch) tells(op journal.Op, rec *record) {
	switch {
	case b.told == b.heard:
	case rec == nil || rec.ended == nil && rec.attempt == 0 && len(rec.once) > 0: // a retry has left nothing else of it
		b.run.mark(op, hearing{b, b.heard})
	default:
		b.told = b.heard
	}
}

// marks are the operations whose next entry says that their branch has heard something, or
// that the body of a step has. They are guarded by their run's mu.
type marks map[journal.Op]hearing

func (m *marks) add(op journal.Op, h hearing) {
	if *m == nil {
		*m = marks{}
	}
	(*m)[op] = h
}

// of returns the detail of an entry that is appended, marked if it is to be.
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
