package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Reusable returns the reusable history of a run that FAILED, was CANCELLED or TIMED_OUT, for a run
// that retries it from the place where it failed. The result is a journal that begins with the same
// start, and that the code replays up to that place. The given entries do not change.
//
// The cut is the place where things began to go wrong. In a FAILED run, it is the first of the
// records by which the run failed. These are the records that dead letters name. Without dead
// letters, they are the records of the errors that the run's failure contains. Without these too,
// it is the record of the last step or child that failed. In a run that ended in another way, or
// has no such record, the cut is where the end began.
//
// Each branch has a cut of its own: where its code may have begun to act on something that is done
// again.
//   - For the run's own code, it is where things began to go wrong.
//   - For a branch in which something failed then or later, it is that failure.
//   - For another branch, it is where the end began, where the branch was cancelled (what the
//     cancellation ended in it comes after the cut), or where it learned of something that began
//     outside it, which an entry records (Detail.Heard).
//
// No entry records the data that branches share by themselves, for example in a variable of a
// closure. A branch that learned of something only in this way is treated as one that does not know
// of it.
//
// Everything recorded before the cut is kept, including failures that the code has dealt with.
// After the cut, the results of operations that were going on at the cut and completed are kept,
// too. Operations that failed or had not ended are done again, and so is everything else after the
// cut. A step that was undone after the cut is done again, and the variables that it set are set
// again. A TCC that began to cancel after the cut is done again from the top; a TCC that had begun
// to cancel before goes on cancelling. If a failed step has waited in a branch of its own (named
// "gate:" and its name, for example), the operations that failed or came too late there are done
// again. Dead letters are written again. A checkpoint of a step's body stays, unless the step was
// undone.
//
// After the cut of the code that began it, a step's result also stays in two cases: the step
// belongs to a declaration, so that the code cannot have acted on a failure; or the result is in a
// transaction of the application, which must not be made twice. The run of a child must not be made
// twice either: it stays if its branch had only heard of something. For other steps, the journal
// does not show whether the code awaited the failed operation before it began the step. So the code
// may have begun the step because of the failure.
//
// A child that failed stays begun, and its end is left out: the retry goes on with that child, or
// with a run that retries it. The children in anew are begun again, and so are a child that undid
// everything (CANCELED, COMPENSATED) and one that was undone.
//
// Entries and scopes are numbered from the start again. No entry takes a message or is in the
// outbox: Detail.Taken has the number that a message had in the old inbox. Spilled payloads keep
// their names. The run is PENDING at the end. The caller sets Run and the detail of the start.
//
// Redone has the paths of the steps that were undone, and of the steps that undone phases belong
// to. The outside world may have seen these steps done and undone under the idempotency keys of the
// old run, so it might not do them again under the same keys.
//
// Reusable returns an error of CodeWrongState if such a step or child has a name that occurs more
// than once without a key, or is in a scope with such a name: the operations that are done again
// before it may change its occurrence. It returns the journal along with that error, because
// children in it may turn out to belong in anew.
func Reusable(entries []Entry, anew ...RunID) (kept []Entry, redone []string, err error) {
	c, err := Continued(entries, Continuation{Action: ActionRetry}, anew...)
	return c.Entries, c.Redone, err
}

// reuse finds what of the journal is kept.
func (s *reuse) find() {
	s.findKnowing()
	s.openGates()
	s.void()
	s.undo()
	s.restart()
	s.findNeeded()
}

type reuse struct {
	entries  []Entry
	how      Continuation
	target   *operation // the step that is skipped or from which on the run is forked; or nil
	step     Op         // of target
	whole    bool       // everything is kept but the end
	cut      int        // where things began to go wrong
	over     int        // where the end began
	culprits []int      // the records by which the run failed
	failures []int      // the failures that are done again, including culprits
	ops      map[Op]*operation
	left     map[Op]bool      // values that are made again
	reopened map[Op]bool      // branches that go on although they were cancelled
	voided   map[int64]bool   // scopes of clean-ups of such branches
	gone     []RunID          // children that are begun again
	bases    map[int64]string // of scopes: equal for scopes that are about the same scope
	paths    map[int64]string // of scopes, with a slash
	places   map[int64]*place // of scopes
	unheard  map[int64]int    // what the code would know if it had heard of nothing
	needed   map[int64]bool   // scopes with something that stays in any case
	anew     map[string]bool  // bases in which phases begin from the top
	undone   map[string]bool  // paths of steps that were undone or cancelled successfully
	carries  []bool           // by entry: it is in the new journal
}

// An operation is one of the old journal, with its first and last entry.
type operation struct {
	first, end int // its first entry, and its terminal record; 0 if there is none
	phase      string
	heard      int  // its last entry that records that its branch had heard of something; else 0
	declared   bool // it begins however the operations beside it end
	goesOn     bool // it is part of the visit that its first occurrence began
	again      bool // it is done again although it completed
	afresh     bool // it is done again from its beginning; a child of it begins anew
	undone     bool // its effect was undone
}

// findCut finds where things began to go wrong.
func (s *reuse) findCut() {
	end := len(s.entries) - 1
	closing := slices.IndexFunc(s.entries, func(e Entry) bool { return e.Kind == RunClosing })
	if s.cut = closing; closing < 0 {
		closing, s.cut = end, end
		for s.cut > 1 && s.entries[s.cut-1].isStop() {
			s.cut-- // by the end
		}
	}
	s.over = s.cut
	if s.whole {
		s.over = closing
	}
	if last := &s.entries[end]; last.Kind == RunFailed {
		s.culprits = culprits(s.entries[:closing], s.entries, last.Failure())
	}
}

// culprits returns the records by which a run failed, among the entries before the end began. These
// are the records of the errors that the run ended with. They are also the records that dead
// letters are about, if they have the same failure, or if the code has only undone and reported
// after them.
func culprits(before, all []Entry, f *Failure) []int {
	last := true
	found := deadLettered(before, all, func(e *Entry) bool {
		last = last && !e.goesOn()
		return last || e.Kind == DeadLettered && f.Find(func(link *Failure) bool {
			return link.isOf(e.Failure())
		}) != nil
	})
	f.Find(func(link *Failure) bool {
		found = append(found, lastFailed(before, func(c *Entry) bool {
			return link.isOf(c.Failure()) &&
				!slices.ContainsFunc(found, func(i int) bool { return &before[i] == c })
		})...)
		return false
	})
	if len(found) == 0 {
		found = deadLettered(before, all, func(*Entry) bool { return true })
	}
	if len(found) > 0 {
		return found
	}
	return lastFailed(before, func(c *Entry) bool {
		return c.Kind == StepFailed || c.Kind == StepTimedOut || c.Kind == ChildCompleted
	})
}

// deadLettered returns the records that those dead letters are about for which is returns true. It
// calls is for all entries, the last one first.
func deadLettered(before, all []Entry, is func(*Entry) bool) []int {
	var found []int
	for i := range slices.Backward(all) {
		if e := &all[i]; is(e) && e.Kind == DeadLettered {
			found = append(found, lastFailed(before, func(c *Entry) bool {
				return c.isAbout(e.Op) && c.Op.Scope == e.Op.Scope
			},
				func(c *Entry) bool { return c.isAbout(e.Op) })...)
		}
	}
	return found
}

// goesOn reports whether the entry shows that the code had not given up.
func (e *Entry) goesOn() bool {
	switch e.Kind {
	case StepCompleted, SignalConsumed, TimerFired, ChildCompleted:
		undoes := e.Detail != nil && (e.Detail.Phase == PhaseUndo || e.Detail.Phase == PhaseCancel)
		return e.Failure() == nil && !undoes && !strings.HasPrefix(e.Op.Name, "perdure:")
	}
	return false
}

// lastFailed returns the last record of a failure for which one of those functions returns true;
// the first function that finds any decides.
func lastFailed(entries []Entry, those ...func(*Entry) bool) []int {
	for _, is := range those {
		for i := range slices.Backward(entries) {
			if e := &entries[i]; e.fails() && is(e) {
				return []int{i}
			}
		}
	}
	return nil
}

// fails reports whether the entry records something that may have made the code fail. A failed undo
// is not that.
func (e *Entry) fails() bool {
	switch e.Kind {
	case ChildCompleted:
		return e.Failure() != nil || e.Detail != nil && e.Detail.Outcome != 0 &&
			!e.Detail.Outcome.IsSuccess()
	case StepFailed, StepTimedOut, StepCancelled, WaitEnded, TimerCancelled, ValueRecorded:
		return e.Failure() != nil && e.Detail.Phase != PhaseUndo
	}
	return false
}

// isAbout reports whether a fact with that name and key, in any scope, may be about the operation
// of the entry: the step, or a phase of it.
func (e *Entry) isAbout(fact Op) bool {
	name := e.Op.Name
	if e.Detail != nil && e.Detail.Phase != "" {
		name = strings.TrimPrefix(name, strings.ToLower(e.Detail.Phase)+":")
	}
	return name == fact.Name && e.Op.Key == fact.Key
}

// survey finds the begin and the end of each operation.
func (s *reuse) survey() {
	for i := range s.entries {
		e := &s.entries[i]
		if e.Kind == SlotAsked || e.Kind == SlotFreed { // the new run has no slot of the old one
			s.left[e.Op] = true
		}
		if !e.isOperation() {
			continue
		}
		r := s.ops[e.Op]
		if r == nil {
			r = &operation{first: i}
			s.ops[e.Op] = r
		}
		if e.Detail != nil && e.Detail.Phase != "" {
			r.phase = e.Detail.Phase
		}
		r.declared = r.declared || e.Detail != nil && e.Detail.Declared
		r.goesOn = r.goesOn || e.Detail != nil && e.Detail.GoesOn
		if e.Detail != nil && e.Detail.Heard {
			r.heard = i
		}
		if e.endsOperation() {
			r.end = i
		}
	}
}

// isOperation reports whether the entry stays only if the operation that it belongs to has ended.
func (e *Entry) isOperation() bool {
	switch e.Kind {
	case StepStarted, StepCompleted, StepFailed, StepTimedOut, StepCancelled, StepRetrying,
		CheckpointSaved, EventEmitted, StepHeld, StepOutput, StepLogged,
		WaitStarted, WaitEnded, SignalConsumed, SignalNoticed, DecisionSought, TimerRegistered,
		TimerFired, TimerCancelled, ChildStarted, ChildCompleted:
		return true
	case VariableSet, HeaderSet, KeyAdded:
		return e.Detail != nil && e.Detail.ByStep
	}
	return false
}

// endsOperation reports whether the entry is the last one of its operation.
func (e *Entry) endsOperation() bool {
	switch e.Kind {
	case SignalConsumed: // a step takes messages before its own record
		return e.Detail == nil || !e.Detail.ByStep
	case StepCompleted, StepFailed, StepTimedOut, StepCancelled, WaitEnded, SignalNoticed,
		TimerFired, TimerCancelled, ChildCompleted:
		return true
	case ChildStarted: // nobody waits for the end of this child
		return e.Detail != nil && e.Detail.Policy == ChildDetached
	}
	return false
}

// isStop reports whether the entry records that an operation was ended by the cancellation of
// something around it, or by its own code, in a call that a replay makes again.
func (e *Entry) isStop() bool {
	switch e.Kind {
	case ScopeCancelled:
		return true
	case StepCancelled, TimerCancelled, WaitEnded:
		return e.Detail == nil || !e.Detail.ByWait && !e.Detail.ByMessage()
	}
	return false
}

// isNote reports whether the entry stays if it comes before the cut.
func (e *Entry) isNote() bool {
	switch e.Kind {
	case ValueRecorded, PayloadSet, StatePublished, AttributeSet, VariableSet, HeaderSet,
		KeyAdded,
		VersionMarked,
		ScopeOpened, ScopeCancelled, CleanupPlanned:
		return true
	}
	return e.Kind.IsFact() && e.Kind != DeadLettered // that is settled, or written again
}

// undo finds the steps that were undone after the cut: a fact records it, or the operation that
// undoes the step completed.
func (s *reuse) undo() {
	for i := range s.entries {
		e, fact := &s.entries[i], Op{}
		if i < s.knows(e.Op.Scope) && !s.voided[e.Op.Scope] {
			continue
		}
		name, undoes := strings.CutPrefix(e.Op.Name, strings.ToLower(PhaseUndo)+":")
		switch {
		case e.Kind == StepCompensated:
			fact = Op{Scope: e.Op.Scope, Name: e.Op.Name, Key: e.Op.Key, Occ: e.about()}
		case e.Kind == StepCompleted && undoes && e.Detail != nil && e.Detail.Phase == PhaseUndo:
			fact = Op{
				Scope: e.Op.Scope, Name: name, Key: e.Op.Key, Occ: cmp.Or(e.Detail.Of, e.Op.Occ),
			}
		default:
			continue
		}
		for op, r := range s.ops { // the step may be undone in a scope of its own
			if op.Name == fact.Name && op.Key == fact.Key &&
				(op.Occ == fact.Occ || r.goesOn) &&
				s.bases[op.Scope] == s.bases[fact.Scope] {
				s.redo(op, r)
			}
		}
	}
}

// about returns the occurrence of the step that a fact is about.
func (e *Entry) about() int {
	if e.Detail == nil {
		return 1
	}
	return max(e.Detail.Of, 1)
}

// redo marks an operation that was undone to be done again, with everything that was done for it in
// a branch of its own.
func (s *reuse) redo(op Op, r *operation) {
	if r.undone {
		return
	}
	r.undone = true
	if r.goesOn {
		op.Occ = 1
	}
	s.undone[s.bases[op.Scope]+op.String()] = true
	s.rerun(op, r, s.redo)
}

// rerun marks an operation to be done from its beginning. It calls each for every operation that
// was done for it in a branch of its own.
func (s *reuse) rerun(op Op, r *operation, each func(Op, *operation)) {
	r.again, r.afresh = true, true
	within := s.branchesOf(op, len(s.entries), func(e *Entry) bool {
		return e.Detail != nil && e.Detail.ForStep == op.Name
	})
	for _, e := range within {
		if inner := s.ops[e.Op]; inner != nil {
			each(e.Op, inner)
		}
	}
}

// findBases finds the scope that each scope is about. A clean-up is about the scope in which it was
// planned, a scope that stands for another one is about that one, and any other scope is about
// itself.
func (s *reuse) findBases() {
	s.bases = map[int64]string{0: "", ImpliedCleanup: ""}
	paths := map[int64]string{}
	s.paths = paths
	for i := range s.entries {
		e := &s.entries[i]
		if e.Kind != CleanupPlanned && e.Kind != ScopeOpened {
			continue
		}
		paths[e.Seq] = paths[e.Op.Scope] + e.Op.String() + "/"
		switch {
		case e.Kind == CleanupPlanned:
			s.bases[e.Seq] = s.bases[e.Op.Scope]
		case e.Detail != nil && e.Detail.StandsFor != 0:
			s.bases[e.Seq] = s.bases[e.Detail.StandsFor]
		default:
			s.bases[e.Seq] = paths[e.Seq]
		}
	}
}

// restart finds the TCCs that began to cancel after the cut, and the participants of these that
// have cancelled.
func (s *reuse) restart() {
	s.anew = map[string]bool{}
	if s.forksPhase() {
		s.anew[s.bases[s.step.Scope]] = true
	}
	cancelling := map[string]bool{} // before the cut
	for i := range s.entries {
		if e := &s.entries[i]; i < s.knows(e.Op.Scope) && !s.voided[e.Op.Scope] &&
			e.Kind == PhaseStarted && e.Detail != nil && e.Detail.Phase == PhaseCancel {
			cancelling[s.bases[e.Op.Scope]] = true
		}
	}
	for op, r := range s.ops {
		base := s.bases[op.Scope]
		if r.phase != PhaseCancel || max(r.first, r.end) < s.knows(op.Scope) &&
			!s.voided[op.Scope] || cancelling[base] {
			continue
		}
		s.anew[base] = true
	}
	for op, r := range s.ops {
		base := s.bases[op.Scope]
		if !s.anew[base] || r.phase != PhaseTry && r.phase != PhaseConfirm &&
			r.phase != PhaseCancel {
			continue
		}
		r.again = true
		if r.phase == PhaseCancel && r.end > 0 && s.entries[r.end].Kind == StepCompleted {
			s.undone[base+ofPhase(op, PhaseCancel)] = true
		}
	}
}

// ofPhase returns the name of the step that an operation is a phase of.
func ofPhase(op Op, phase string) string {
	op.Name, op.Occ = strings.TrimPrefix(op.Name, strings.ToLower(phase)+":"), 1
	return op.String()
}

// openGates finds the steps that failed because of a failure in a branch of their own, and marks
// that failure to be done again. Such a branch is beside the step, and is named, for example,
// "gate:" and the step's name.
func (s *reuse) openGates() {
	for _, i := range s.failures {
		all := s.branchesOf(s.entries[i].Op, i, func(*Entry) bool { return true })
		if !slices.ContainsFunc(all, (*Entry).spoils) {
			continue
		}
		for _, e := range all {
			switch r := s.ops[e.Op]; {
			case e.Kind == ScopeCancelled:
				s.reopened[e.Op] = true
			case e.Kind == ValueRecorded && e.fails():
				s.left[e.Op] = true
			case r == nil:
			case e.spoils(), e.Kind == WaitEnded, e.Kind == TimerCancelled, e.Kind == StepCancelled:
				// also what was given up with it
				r.again = true
			}
		}
	}
}

// void finds the clean-ups of branches that go on again. They count as made after the cut: what
// they have undone is done again, and they are planned again.
func (s *reuse) void() {
	again := map[int64]bool{}
	s.voided = map[int64]bool{}
	for i := range s.entries {
		e := &s.entries[i]
		switch e.Kind {
		case ScopeOpened:
			again[e.Seq] = again[e.Op.Scope] || s.reopened[e.Op]
			s.voided[e.Seq] = s.voided[e.Op.Scope]
		case CleanupPlanned:
			s.voided[e.Seq] = again[e.Op.Scope] || s.voided[e.Op.Scope]
		}
	}
}

// spoils reports whether the entry may have made its branch fail.
func (e *Entry) spoils() bool {
	return e.fails() || e.Kind == TimerFired && strings.HasPrefix(e.Op.Name, "perdure:")
}

// branchesOf returns the entries before end in those branches of a step for which those returns
// true.
func (s *reuse) branchesOf(step Op, end int, those func(*Entry) bool) (all []*Entry) {
	within := map[int64]bool{}
	for j := range s.entries[:end] {
		e := &s.entries[j]
		_, name, isBranch := strings.Cut(e.Op.Name, ":")
		own := isBranch && e.Op.Scope == step.Scope && name == step.Name && e.Op.Key == step.Key &&
			those(e)
		if e.Kind == ScopeOpened {
			within[e.Seq] = own || within[e.Op.Scope]
		} else if within[e.Op.Scope] {
			all = append(all, e)
		}
	}
	return all
}

// redone returns the paths of what was undone.
func (s *reuse) redone() []string {
	if len(s.undone) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(s.undone))
}

// keep returns the new journal.
func (s *reuse) keep() []Entry {
	numbers := map[int64]int64{0: 0} // new sequences, by the old ones
	var out []Entry
	input := &s.entries[0]
	s.carries = make([]bool, len(s.entries))
	for i := range s.entries {
		if e := &s.entries[i]; e.Kind == RunClaimed && e.Detail != nil && e.Detail.Gathered != nil {
			input = e
		}
	}
	status := Pending
	for i := range s.entries {
		e := s.entries[i]
		scope, opened := numbers[e.Op.Scope]
		if i > 0 && (!opened || !s.isKept(i, &e)) {
			continue
		}
		if s.isSkipped(i) {
			e = s.how.result(e)
		}
		if e.Kind != ValueRecorded || !e.Status.IsOpen() || e.Status == Waiting {
			e.Status = 0
		}
		if i == 0 {
			e.Status, e.Data, e.Spill = Pending, input.Data, input.Spill
		}
		s.carries[i] = true
		numbers[e.Seq] = int64(len(out) + 1)
		e.Seq, e.Op.Scope, e.Detail = numbers[e.Seq], scope, e.Detail.carried(numbers)
		status = cmp.Or(e.Status, status)
		out = append(out, e)
	}
	if status != Pending {
		out = append(out, Entry{
			Run: out[0].Run, Seq: int64(len(out) + 1), Kind: StatusChanged, Status: Pending,
			At: s.entries[len(s.entries)-1].At,
		})
	}
	return out
}

// released returns the signals that entries had taken which are not in the new journal. A decision
// of an operator, or an answer to a callback, is for an operation that is not there any more. The
// signals that a skipped step had taken, also in branches of its own, stay taken.
func (s *reuse) released() (out []Entry) {
	for i := range s.entries {
		e, own := &s.entries[i], s.entries[i].Detail
		r, name := s.ops[e.Op], e.Op.Name
		switch {
		case s.carries[i], own == nil, !own.ByMessage():
			continue
		case e.Kind == ValueRecorded, e.Kind == SignalConsumed && own.ByStep:
			if name = own.Reason; e.Data == nil && e.Spill == 0 { // an older version has written it
				continue
			}
		case e.Kind != SignalConsumed, name == CallbackName,
			s.entries[r.first].Kind == DecisionSought:
			continue
		}
		if r != nil && s.how.Action == ActionSkip && (s.isSkipped(r.end) || r.afresh) {
			continue
		}
		out = append(out, Entry{
			Seq: own.Mail, Kind: SignalReceived, Op: Op{Name: name}, At: e.At, Data: e.Data,
			Spill: e.Spill, Detail: &Detail{
				By:            own.By,
				MessageDetail: MessageDetail{Message: own.Message, Passed: own.Passed},
			},
		})
	}
	return out
}

// isKept reports whether an entry is in the new journal.
func (s *reuse) isKept(i int, e *Entry) bool {
	if s.whole {
		return i < s.over && (e.Kind == DeadLettered || e.isNote() ||
			e.isOperation() && s.ops[e.Op].end > 0)
	}
	return s.isSkipped(i) || s.isNeeded(e) || s.holds(i, e)
}

// holds reports whether an entry is in the new journal even if nothing in it had to stay.
func (s *reuse) holds(i int, e *Entry) bool {
	r := s.ops[e.Op]
	base := s.bases[e.Op.Scope]
	switch {
	case s.left[e.Op], s.isDropped(e), e.Kind == ScopeCancelled && s.reopened[e.Op]:
		return false
	case s.anew[base] && e.isOfPhase():
		return false
	case s.isGone(e):
		return false
	case e.isOperation():
		return s.counts(i, e, r)
	case e.Kind == ScopeOpened && s.isOfDeclared(e):
		return true
	case e.Kind == PhaseStarted, e.Kind == PhaseCompleted, e.Kind == PhaseFailed:
		return i < s.knows(e.Op.Scope) && !s.anew[base]
	}
	return i < s.knows(e.Op.Scope) && e.isNote()
}

// isDropped reports whether an entry is in the clean-up of a branch that goes on again, or
// of a TCC that begins from the top.
func (s *reuse) isDropped(e *Entry) bool {
	base := s.bases[e.Op.Scope]
	return s.voided[e.Op.Scope] || s.anew[base] && base != "" && e.Kind != ScopeOpened &&
		e.Kind != CleanupPlanned
}

// counts reports whether an entry of an operation is in the new journal.
func (s *reuse) counts(i int, e *Entry, r *operation) bool {
	cut := s.knows(e.Op.Scope)
	if e.Kind == ChildStarted || e.Kind == ChildCompleted {
		cut = s.knowsOfChildren(e.Op.Scope)
	}
	switch {
	case !r.again && r.end > 0 && (r.end < cut || s.wasGoingOn(r, cut)), s.isOfDeclaration(r):
		return true
	case e.Kind == ChildStarted:
		return !r.afresh && i < cut && !s.calledOff(r)
	}
	return !r.again && e.Kind == CheckpointSaved && i < cut
}

// isOfPhase reports whether the entry belongs to a phase, or to a decision about one.
func (e *Entry) isOfPhase() bool {
	word, _, found := strings.Cut(e.Op.Name, ":")
	return found && slices.Contains([]string{PhaseTry, PhaseConfirm, PhaseCancel},
		strings.ToUpper(word))
}

// wasGoingOn reports whether an operation had begun before the cut of its scope and completed after
// it. The first attempt of a sequential step has no record of its own: its result has the time when
// it began.
func (s *reuse) wasGoingOn(r *operation, cut int) bool {
	end := &s.entries[r.end]
	if r.heard >= cut {
		return false
	}
	switch end.Kind {
	case StepCompleted, SignalConsumed, SignalNoticed, TimerFired:
	case ChildCompleted:
		return !end.fails() && r.first < cut
	case ChildStarted:
		return r.first < cut
	default:
		return false
	}
	return s.beganBefore(r, cut)
}

// beganBefore reports whether an operation that has ended had begun before an entry.
func (s *reuse) beganBefore(r *operation, cut int) bool {
	first := &s.entries[r.first]
	switch first.Kind {
	case StepOutput, StepLogged: // the attempt had begun before that
		return r.first < cut || s.entries[r.end].Began().Before(s.entries[cut].At)
	case SignalConsumed:
		if first.Detail == nil || !first.Detail.ByStep {
			break
		}
		fallthrough
	case StepCompleted, EventEmitted, VariableSet, HeaderSet, KeyAdded:
		return s.entries[r.end].Began().Before(s.entries[cut].At)
	}
	return r.first < cut
}

// calledOff reports whether a child has undone everything it did.
func (s *reuse) calledOff(r *operation) bool {
	end := s.entries[r.end].Detail
	return r.end > 0 && end != nil && (end.Outcome == Canceled || end.Outcome == Compensated)
}

// carried returns the detail of an entry for the journal of another run.
func (d *Detail) carried(numbers map[int64]int64) *Detail {
	if d == nil || d.Mail == 0 && !d.Tell && d.StandsFor == 0 && d.Seen == 0 &&
		d.Part == 0 {
		return d
	}
	own := *d
	own.Seen = 0
	own.StandsFor, own.Part = numbers[d.StandsFor], numbers[d.Part]
	own.Taken, own.Mail, own.Tell = cmp.Or(d.Mail, d.Taken), 0, false
	return &own
}
