package journal

// A Preview has the effects that an operator's action would have. Paths are as a description of
// the run shows them.
type Preview struct {
	Run RunID // from which the new run would go on
	// Kept are the steps and children whose results the new run has from the start.
	Kept []string
	// Again are those that the run has come to, and that run again if the code comes to them. What
	// has undone or cancelled others is among them only if nothing else runs again: the new run
	// then goes on with its rollback.
	Again []string
	// Inherited are the kept steps that have a compensation: the new run would undo them.
	Inherited []string
	// Left are the steps among Again whose effects are there and could be undone. Neither run
	// undoes such an effect, unless the new run does the step again under the same key.
	Left []string
	// Renewed are the steps that run again under new idempotency keys: those that were undone, and
	// all in a fork.
	Renewed  []string
	Children []RunID // children that are retried with the run
}

// PreviewOf returns the preview of a continuation by the entries of a run and those that are kept.
func PreviewOf(run RunID, entries, kept []Entry, redone []string) (Preview, error) {
	p := Preview{Run: run, Renewed: redone}
	before, s, err := ended(entries)
	if err != nil {
		return p, err
	}
	has, after, err := ended(kept)
	if err != nil {
		return p, err
	}
	is, again := map[string]bool{}, map[string]bool{}
	for _, path := range has {
		is[path] = true
	}
	isBack := s.rollsBack()
	var back []string
	for _, path := range before {
		switch {
		case is[path]:
			p.Kept = append(p.Kept, path)
		case isBack(path):
			back = append(back, path)
		default:
			p.Again, again[path] = append(p.Again, path), true
		}
	}
	if len(p.Again) == 0 {
		p.Again = back
	}
	p.Inherited = after.Undoable()
	for _, path := range s.Undoable() {
		if again[path] {
			p.Left = append(p.Left, path)
		}
	}
	return p, nil
}

// rollsBack returns a function that reports whether a path is that of a step that undoes or cancels
// another one, or is within such a step.
func (s Snapshot) rollsBack() func(path string) bool {
	steps := map[string]bool{}
	for _, step := range s.Steps {
		steps[step.Path] = step.Phase == PhaseUndo || step.Phase == PhaseCancel
	}
	return func(path string) bool {
		for i := range path {
			if path[i] == '/' && steps[path[:i]] {
				return true
			}
		}
		return steps[path]
	}
}

// Inherited returns the paths of the steps of a journal that could be undone, without their phases:
// of a TCC, of its participants.
func Inherited(kept []Entry) ([]string, error) {
	_, s, err := ended(kept)
	if err != nil {
		return nil, err
	}
	var out []string
	s.undoable(func(t *Step) { out = append(out, t.participant()) })
	return out, nil
}

// ended returns the paths of the steps and children of a journal that have ended, in the order of
// their first entries, and of those that have not, if the run has ended; and the fold of the
// journal.
func ended(entries []Entry) ([]string, Snapshot, error) {
	a := NewAggregate("", "", "", 0)
	var paths []string
	known, over := map[string]bool{}, map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if err := a.Apply(*e); err != nil {
			return nil, Snapshot{}, err
		}
		path := a.Path(e.Op)
		switch e.Kind {
		case StepStarted, StepRetrying, StepCompleted, StepFailed, StepTimedOut, StepCancelled,
			ChildStarted, ChildCompleted:
			if !known[path] {
				known[path], paths = true, append(paths, path)
			}
			over[path] = over[path] || e.endsOperation()
		}
	}
	s := a.Snapshot()
	if s.Status.IsTerminal() {
		return paths, s, nil
	}
	var out []string
	for _, path := range paths {
		if over[path] {
			out = append(out, path)
		}
	}
	return out, s, nil
}
