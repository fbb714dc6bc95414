package journal

// isCommitted reports whether an operation is a step whose result is in a transaction of
// the application's, and that was not undone. What undoes a step is done whenever that is.
func (s *salvage) isCommitted(r *salvaged) bool {
	if r == nil || r.again || r.end == 0 || r.phase == PhaseUndo {
		return false
	}
	end := &s.entries[r.end]
	return end.Kind == StepCompleted && end.Detail != nil && end.Detail.Tx
}

// findNeeded finds the scopes in which such transactions were, and those that these stand
// for.
func (s *salvage) findNeeded() {
	s.needed = map[int64]bool{}
	for op, r := range s.ops {
		if s.isCommitted(r) {
			s.need(op.Scope)
		}
	}
}

func (s *salvage) need(scope int64) {
	for ; scope > 0 && s.places[scope] != nil && !s.needed[scope]; scope = s.places[scope].in {
		s.needed[scope] = true
		s.need(s.places[scope].stands)
	}
}

// isNeeded reports whether an entry stays because of a transaction that has committed.
func (s *salvage) isNeeded(e *Entry) bool {
	if e.Kind == ScopeOpened || e.Kind == CleanupPlanned {
		return s.needed[e.Seq]
	}
	return e.isOperation() && s.isCommitted(s.ops[e.Op])
}

// mistakable returns an error where a transaction stays for nothing but having committed,
// and its name, or that of a scope around it, occurs again: what is done anew may ask for
// that name more often than before, and would be taken for another one.
func (s *salvage) mistakable() error {
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
		what := "step "
		if !e.isOperation() {
			what = "scope "
		}
		return &Error{
			Code: CodeWrongState, Op: "salvage",
			Message: what + s.bases[e.Op.Scope] + e.Op.String() + " has a transaction that committed after something had failed, and its name occurs more than once: a retry could take it for another one",
			Hint:    "start a new run for what is left to do, and give each of them a Key from now on",
		}
	}
	return nil
}
