package journal

import "slices"

// stays reports whether an operation stays whatever its code knew, because no idempotency key
// prevents its effect from happening twice. There are two such operations. One is a step whose
// result is in a transaction of the application. The other is a child of a branch that knew only by
// hearing: a second child is another run, with keys of its own. An operation that was undone does
// not stay, nor does one that undoes a step.
func (s *reuse) stays(r *operation) bool {
	if r == nil || r.phase == PhaseUndo {
		return false
	}
	first, end := &s.entries[r.first], &s.entries[r.end]
	if first.Kind == ChildStarted {
		return s.hadHeard(r) && !r.afresh && !s.calledOff(r) && !s.isGone(first) &&
			!s.isDropped(first)
	}
	return !r.again && end.Kind == StepCompleted && end.Detail != nil && end.Detail.Tx
}

// hadHeard reports whether the branch of an operation knew of something that is done again when the
// operation began, and knew it only by hearing.
func (s *reuse) hadHeard(r *operation) bool {
	scope := s.entries[r.first].Op.Scope
	return r.first >= s.knows(scope) && r.first < s.unheard[scope]
}

// isGone reports whether an entry has begun a child that is begun again.
func (s *reuse) isGone(e *Entry) bool {
	return e.Kind == ChildStarted && e.Detail != nil && slices.Contains(s.gone, e.Detail.Other)
}

// findNeeded finds the scopes that contain such operations, and the scopes that these stand for.
func (s *reuse) findNeeded() {
	s.needed = map[int64]bool{}
	for op, r := range s.ops {
		if s.stays(r) {
			s.need(op.Scope)
		}
	}
}

func (s *reuse) need(scope int64) {
	for ; scope > 0 && s.places[scope] != nil && !s.needed[scope]; scope = s.places[scope].in {
		s.needed[scope] = true
		s.need(s.places[scope].stands)
	}
}

// isNeeded reports whether an entry belongs to an operation that stays, or opens a scope with one.
// Of a child that stays, only its start and a successful end are needed. Any other end is left out,
// so that the retry waits for the child again.
func (s *reuse) isNeeded(e *Entry) bool {
	r := s.ops[e.Op]
	switch {
	case e.Kind == ScopeOpened, e.Kind == CleanupPlanned:
		return s.needed[e.Seq]
	case !e.isOperation() || !s.stays(r):
		return false
	}
	return s.entries[r.first].Kind != ChildStarted || e.Kind == ChildStarted ||
		e.Kind == ChildCompleted && !e.fails()
}

// mistakable returns an error if an operation that would otherwise be done again stays, and its
// name, or the name of a scope around it, occurs more than once. The code that is done again may
// ask for that name more often than before, and would get the result of another operation.
func (s *reuse) mistakable() error {
	times := map[Op]int{}
	for i := range s.entries {
		if e := &s.entries[i]; !e.Kind.IsFact() {
			name := e.Op
			name.Occ = 0
			times[name] = max(times[name], e.Op.Occ)
		}
	}
	for i := range s.entries {
		e := &s.entries[i]
		name := e.Op
		name.Occ = 0
		if times[name] < 2 || !s.isNeeded(e) || s.holds(i, e) {
			continue
		}
		what, did := "step ", "has a transaction that committed"
		switch e.Kind {
		case ChildStarted, ChildCompleted:
			what, did = "child ", "has begun"
		case ScopeOpened, CleanupPlanned:
			what, did = "scope ", "has a transaction that committed, or a child that has begun,"
		}
		return &Error{
			Code: CodeWrongState, Op: "retry",
			Message: what + s.bases[e.Op.Scope] + e.Op.String() + " " + did +
				" after a failure, and its name occurs more than once: a retry could take it for " +
				"another operation",
			Hint: "start a new run for the rest of the work, and from now on give each of these " +
				"operations a Key",
		}
	}
	return nil
}
