package journal

import (
	"slices"
	"strings"
)

// A Continuation describes how a run goes on from one that has ended.
type Continuation struct {
	Action Action
	// Step is the path of the step that is skipped, or from which on the run is forked.
	Step string
	// The output of the skipped step; Spill is its number if it is stored in rows of its own.
	Output []byte
	Spill  Number
	By     string // the operator
	Reason string
}

// A Carried is the history with which a run begins that goes on from another one.
type Carried struct {
	Entries []Entry  // its journal
	Redone  []string // the paths of the steps that were undone
	// Signals are the signals that entries had taken which are not in the new journal: nothing that
	// came of them is left. Each is a message, and Seq is its number in the old inbox; 0 if a run
	// before that one had it.
	Signals []Entry
}

// Continued returns what a run begins with that goes on from a run which has ended. The given
// entries do not change. It depends on the action which entries are kept:
//
//   - A retry keeps the reusable history: see [Reusable].
//   - A skip keeps the same. The record of the failed step is replaced by one that the step has
//     completed, with the given output. What the step had done in branches of its own is left out.
//   - A fork keeps what a retry would keep if the step had failed. So the step runs again, and so
//     does everything whose code may know of the step's result: what its code began after that
//     result, and what came after the result in a branch that has heard of it. Steps that run again
//     keep their idempotency keys, unless they were undone. If the step is a phase of a participant
//     of a TCC, the TCC begins from the top.
//   - A compensation keeps everything except the end and the clean-ups before it: the code comes to
//     its end again, and undoes.
//
// Continued returns an error of CodeNotFound for a path that the run does not have, and of
// CodeWrongState if the action is not possible with the step, or if the journal does not allow it.
//
// It returns what is carried along with an error about the journal, because children in it may turn
// out to belong in anew.
func Continued(entries []Entry, how Continuation, anew ...RunID) (Carried, error) {
	if len(entries) == 0 {
		return Carried{}, nil
	}
	s := newReuse(entries, how, anew...)
	c := choice{s}
	if err := c.findTarget(); err != nil {
		return Carried{}, err
	}
	c.moveCut()
	s.find()
	if err := c.mayKeepSkip(); err != nil {
		return Carried{}, err
	}
	err := s.mistakable()
	if s.whole {
		err = nil
	}
	kept := s.keep()
	return Carried{kept, s.redone(), s.released()}, err
}

// newReuse returns the survey of a journal.
func newReuse(entries []Entry, how Continuation, anew ...RunID) *reuse {
	s := &reuse{
		entries: entries, how: how, ops: map[Op]*operation{}, left: map[Op]bool{},
		reopened: map[Op]bool{}, undone: map[string]bool{}, gone: anew,
		whole: how.Action == ActionCompensate,
	}
	s.findCut()
	s.findBases()
	s.survey()
	return s
}

// A choice is the step that an operator has chosen for a skip or a fork.
type choice struct{ *reuse }

// Named returns the continuation with the path of the step that is skipped, if it has none and the
// run failed by one step.
func (c Continuation) Named(entries []Entry) (Continuation, error) {
	if c.Action != ActionSkip || c.Step != "" || len(entries) == 0 {
		return c, nil
	}
	s := newReuse(entries, c)
	err := choice{s}.findFailed()
	return s.how, err
}

// findTarget finds the step that is skipped, or from which on the run is forked.
func (s choice) findTarget() error {
	if s.how.Action != ActionSkip && s.how.Action != ActionFork {
		return nil
	}
	var paths []string
	named := map[Op]bool{}
	for i := range s.entries {
		e := &s.entries[i]
		if r := s.ops[e.Op]; r != nil && !named[e.Op] && e.isTarget() {
			named[e.Op] = true
			path := s.paths[e.Op.Scope] + e.Op.String()
			visit := s.visitOf(e.Op, r)
			if visit == e.Op {
				paths = append(paths, path)
			} else if of := s.paths[visit.Scope] + visit.String(); s.how.Action == ActionSkip &&
				of == s.how.Step {
				path = of // the visit fails by its last operation
			}
			if path == s.how.Step {
				s.target, s.step = r, e.Op
			}
		}
	}
	if s.target == nil {
		return &Error{
			Code: CodeNotFound, Op: string(s.how.Action),
			Message: "the run has not come to a step " + s.how.Step,
			Hint:    "it has come to " + listed(paths),
		}
	}
	if s.how.Action == ActionSkip {
		return s.maySkip()
	}
	return s.mayFork()
}

// visitOf returns the operation that an operation goes on with; itself if it is none that goes on.
func (s choice) visitOf(op Op, r *operation) Op {
	if r.goesOn {
		op.Occ = 1
	}
	return op
}

// findFailed finds the step by which the run failed.
func (s choice) findFailed() error {
	var paths []string
	for _, i := range s.culprits {
		op := s.entries[i].Op
		r := s.ops[op]
		if r == nil {
			continue
		}
		path := s.paths[op.Scope] + s.visitOf(op, r).String()
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if len(paths) != 1 {
		e := &Error{
			Code: CodeInvalid, Op: string(ActionSkip), Message: "the step to skip is needed",
		}
		if len(paths) > 1 {
			e.Hint = "the run failed by " + listed(paths)
		}
		return e
	}
	s.how.Step = paths[0]
	return nil
}

// isTarget reports whether the operation of an entry can be named in a skip or a fork. What a body
// has recorded comes before the entry of its step.
func (e *Entry) isTarget() bool {
	switch e.Kind {
	case EventEmitted, VariableSet, HeaderSet, KeyAdded, CheckpointSaved, StepOutput, StepLogged:
		return false
	case SignalConsumed:
		return e.Detail == nil || !e.Detail.ByStep
	}
	return !strings.HasPrefix(e.Op.Name, "perdure:")
}

// maySkip returns an error if the step has not failed, or is one that must not be skipped.
func (s choice) maySkip() error {
	end := &s.entries[s.target.end]
	why := ""
	switch {
	case s.target.phase == PhaseUndo:
		why = "it is a compensation: decide about it in the rollback"
	case s.target.phase == PhaseTry, s.target.phase == PhaseConfirm:
		why = "a participant of a TCC that has not tried cannot confirm: retry the run"
	case s.target.end != 0 && end.Detail != nil && end.Detail.Skipped:
		why = "it is skipped already: fork the run from it"
	case s.target.end == 0 || !end.fails() || end.Kind == WaitEnded || end.Kind == TimerCancelled:
		why = "it has not failed"
	}
	if why == "" {
		// what was done for it in a branch of its own is not done again
		all := s.branchesOf(s.step, len(s.entries), func(*Entry) bool { return true })
		for _, e := range all {
			if inner := s.ops[e.Op]; inner != nil {
				inner.again, inner.afresh = true, true
			}
		}
		return nil
	}
	return &Error{
		Code: CodeWrongState, Op: string(ActionSkip),
		Message: "step " + s.how.Step + " is not skipped: " + why,
	}
}

// mayFork returns an error for a step that is not one of the run's forward steps. If the step is a
// phase of a participant of a TCC, it makes the first participant's try the target.
func (s choice) mayFork() error {
	if s.target.phase == PhaseUndo || s.target.first >= s.over {
		return &Error{
			Code: CodeWrongState, Op: string(ActionFork),
			Message: "step " + s.how.Step + " is part of a rollback or clean-up: a fork from it " +
				"is not possible",
		}
	}
	if !s.forksPhase() {
		return nil
	}
	base := s.bases[s.step.Scope]
	for i := range s.entries {
		op := s.entries[i].Op
		if r := s.ops[op]; r != nil && r.phase == PhaseTry && s.bases[op.Scope] == base {
			s.target, s.step = r, op
			return nil
		}
	}
	return nil
}

// moveCut moves the cut to the first of the records by which the run failed, and to the step from
// which on it is forked.
func (s choice) moveCut() {
	if t := s.target; t != nil && s.how.Action == ActionFork {
		s.culprits = append(s.culprits, max(t.first, t.end))
		s.forkAt(s.step, t)
	}
	for _, i := range s.culprits {
		s.cut = min(s.cut, i)
	}
}

// forkAt marks the step from which on the run is forked to be done from its beginning.
func (s choice) forkAt(op Op, r *operation) {
	if !r.afresh {
		s.rerun(op, r, s.forkAt)
	}
}

// forksPhase reports whether the run is forked from a phase of a participant of a TCC.
func (s *reuse) forksPhase() bool {
	if s.target == nil || s.how.Action != ActionFork {
		return false
	}
	switch s.target.phase {
	case PhaseTry, PhaseConfirm, PhaseCancel:
		return true
	}
	return false
}

// isSkipped reports whether the entry is the failure of the step that is skipped.
func (s *reuse) isSkipped(i int) bool {
	return s.target != nil && s.how.Action == ActionSkip && i == s.target.end
}

// mayKeepSkip makes the scope of a skipped step stay. It returns an error if the run went on after
// the failure of the step, or if steps that are done again could shift its occurrence.
func (s choice) mayKeepSkip() error {
	if s.target == nil || s.how.Action != ActionSkip {
		return nil
	}
	s.need(s.step.Scope)
	failed := &s.entries[s.target.end]
	why := ""
	if s.holds(s.target.end, failed) {
		why = "the run went on after its failure: fork the run from it"
	}
	for op, r := range s.ops {
		if op.Scope == s.step.Scope && op.Name == s.step.Name && op.Key == s.step.Key &&
			op.Occ < s.step.Occ && !s.isKept(r.end, &s.entries[r.end]) {
			why = "a step of the same name and no Key is done again before it"
		}
	}
	if why == "" {
		return nil
	}
	return &Error{
		Code: CodeWrongState, Op: string(ActionSkip),
		Message: "step " + s.how.Step + " is not skipped: " + why,
	}
}

// result returns the record of a failed step as that of a step which an operator has skipped.
func (c Continuation) result(e Entry) Entry {
	was := e.Detail
	e.Data, e.Spill, e.Took = c.Output, c.Spill, 0
	if c.Spill != 0 {
		e.Data = nil
	}
	d := &Detail{By: c.By, Reason: c.Reason, Phase: was.Phase, Other: was.Other, Heard: was.Heard}
	if e.Kind == ChildCompleted {
		d.Outcome = Completed
	} else {
		e.Kind, d.StepDetail = StepCompleted, StepDetail{
			Async: was.Async, Declared: was.Declared, Skipped: true,
			VisitDetail: VisitDetail{GoesOn: was.GoesOn},
		}
	}
	e.Detail = d
	return e
}

// listed returns at most 20 paths as a list.
func listed(paths []string) string {
	if len(paths) == 0 {
		return "no step"
	}
	if len(paths) > 20 {
		paths = append(slices.Clone(paths[:20]), "others")
	}
	return strings.Join(paths, ", ")
}
