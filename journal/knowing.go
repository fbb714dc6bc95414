package journal

import (
	"cmp"
	"iter"
	"strings"
)

// A place describes a scope of the old journal: the goroutine that its code is part of, and the
// entry from which on that code may know of something that is done again.
type place struct {
	in     int64 // the scope that it was opened or planned in
	branch bool  // it has a goroutine of its own
	// neither it nor a scope around it is recorded as a branch: old journals record none
	old    bool
	stands int64 // the scope that it stands for; 0 for none
	faulty bool  // something in it made the run fail
	// the entry that cancelled it or a scope around it, or that began the end
	until int
	knows int // the first entry with which its code may have acted on something that is done again
}

// knows returns the first entry with which the code of a scope may have acted on something that is
// done again.
func (s *reuse) knows(scope int64) int {
	if p := s.places[scope]; p != nil {
		return p.knows
	}
	return s.cut
}

// knowsOfChildren returns the first entry from which on children that were begun in a scope do not
// count. A scope of a journal that records no branches may have been a branch.
func (s *reuse) knowsOfChildren(scope int64) int {
	if p := s.places[scope]; p != nil && p.old && !p.faulty && len(s.culprits) > 0 {
		return len(s.entries)
	}
	return s.knows(scope)
}

// findKnowing finds that entry for every scope. Code knows of a failure in its own branch, and in
// the branches that it has opened, because it awaits these. It knows of a failure beside it only if
// it has heard of something there (findHeard). A scope without a goroutine knows what the code that
// opened it knows. The search is done twice: first as if no branch had heard of anything, with the
// result kept in unheard, and then with everything that the branches had heard.
func (s *reuse) findKnowing() {
	s.learnFrom(func() {})
	s.unheard = map[int64]int{}
	for scope, p := range s.places {
		s.unheard[scope] = p.knows
	}
	s.learnFrom(s.findHeard)
}

// learnFrom finds what scopes know, from what was heard and what has failed.
func (s *reuse) learnFrom(heard func()) {
	opened := s.findPlaces()
	heard()
	for _, i := range s.culprits {
		for p := range s.around(s.entries[i].Op.Scope) {
			p.faulty, p.knows = true, min(p.knows, i)
		}
	}
	s.failures = s.culprits
	for i := s.cut; i < s.over; i++ {
		e := &s.entries[i]
		if p := s.places[opened[e.Op]]; e.Kind == ScopeCancelled && p != nil {
			p.until = min(p.until, s.stopsOf(i, opened[e.Op]))
		}
		if e.fails() && !s.isDealtWith(i) {
			s.failures = append(s.failures, i)
			s.learn(i)
		}
	}
	for i := range s.entries {
		s.settle(i)
	}
}

// around returns a scope and the scopes around it, from the inside out, without that of the run
// itself.
func (s *reuse) around(scope int64) iter.Seq[*place] {
	return func(yield func(*place) bool) {
		for scope != 0 {
			p := s.places[scope]
			if p == nil || !yield(p) {
				return
			}
			scope = p.in
		}
	}
}

// stopsOf returns the first of the stops that were recorded with the cancellation of a branch. The
// operations that the cancellation ended in that branch precede it in the journal.
func (s *reuse) stopsOf(i int, branch int64) int {
	for i > 1 && s.entries[i-1].isStop() && s.isWithin(s.entries[i-1].Op.Scope, branch) {
		i--
	}
	return i
}

// isWithin reports whether a scope is the scope of, or inside it.
func (s *reuse) isWithin(scope, of int64) bool {
	for scope != of && s.places[scope] != nil && scope != 0 {
		scope = s.places[scope].in
	}
	return scope == of
}

// findHeard finds the branches that have learned of something outside them after the first failure.
// From there on these branches and those around them may know of it.
func (s *reuse) findHeard() {
	for i := s.cut; i < s.over; i++ {
		e := &s.entries[i]
		if e.Detail == nil || !e.Detail.Heard {
			continue
		}
		for p := range s.around(e.Op.Scope) {
			p.knows = min(p.knows, i)
		}
	}
}

// settle makes a scope that the entry opens know what the scopes around it know.
func (s *reuse) settle(i int) {
	e := &s.entries[i]
	p := s.places[e.Seq]
	if p == nil || s.places[p.in] == nil {
		return
	}
	in := s.places[p.in]
	p.old = p.old && (p.in == 0 || in.old)
	p.until = min(p.until, in.until)
	p.knows = min(p.knows, p.until)
	if !p.branch || i >= in.knows && !s.isOfDeclared(e) { // it was opened by code that knew
		p.knows = min(p.knows, in.knows)
	}
}

// findPlaces finds the scopes. It returns the sequences of the opened ones, by the operation that
// opened them. Everything that a clean-up does is a consequence of the end that it is for.
func (s *reuse) findPlaces() map[Op]int64 {
	opened := map[Op]int64{}
	s.places = map[int64]*place{
		0:              {until: s.over, knows: s.cut},
		ImpliedCleanup: {until: s.cut, knows: s.cut},
	}
	for i := range s.entries {
		switch e := &s.entries[i]; e.Kind {
		case ScopeOpened:
			opened[e.Op] = e.Seq
			d := cmp.Or(e.Detail, &Detail{})
			s.places[e.Seq] = &place{
				in: e.Op.Scope, branch: d.Branch, old: !d.Branch, stands: d.StandsFor,
				until: s.over, knows: s.over,
			}
		case CleanupPlanned:
			s.places[e.Seq] = &place{in: e.Op.Scope, until: s.cut, knows: s.cut}
		}
	}
	return opened
}

// isDealtWith reports whether the code around a failure went on after it, until it failed by
// another one.
func (s *reuse) isDealtWith(i int) bool {
	for p := range s.around(s.entries[i].Op.Scope) {
		if p.faulty && i < p.knows {
			return true
		}
	}
	return false
}

// learn records that the code of a scope, and of the scopes around it, may know of a failure in it.
// Code that made the run fail knew of another failure before.
func (s *reuse) learn(i int) {
	for p := range s.around(s.entries[i].Op.Scope) {
		if !p.faulty {
			p.knows = min(p.knows, i)
		}
	}
}

// isOfDeclaration reports whether an operation is a completed step of a declaration, and began
// before the end of the run began.
func (s *reuse) isOfDeclaration(r *operation) bool {
	return r != nil && r.declared && !r.again && r.end > 0 && r.first < s.over &&
		s.entries[r.end].Kind == StepCompleted && !s.comesAfter(r)
}

// comesAfter reports whether an operation may depend on the step from which on the run is forked:
// it began after the end of that step.
func (s *reuse) comesAfter(r *operation) bool {
	t := s.target
	return t != nil && s.how.Action == ActionFork && !s.beganBefore(r, max(t.first, t.end))
}

// isOfDeclared reports whether an entry has opened a branch of such a step, which is beside it and
// is named, for example, "gate:" and the step's name.
func (s *reuse) isOfDeclared(e *Entry) bool {
	_, name, isBranch := strings.Cut(e.Op.Name, ":")
	return isBranch &&
		s.isOfDeclaration(s.ops[Op{Scope: e.Op.Scope, Name: name, Key: e.Op.Key, Occ: 1}])
}
