package journal

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// An Aggregate is the state of a run, folded from its journal. Nothing but the entries decides that
// state: two aggregates that applied the same entries are equal. An Aggregate is for one goroutine
// at a time.
//
// Apply adds an entry that is recorded already. Raise adds a new one, which is Uncommitted until
// Committed marks it as durable.
type Aggregate struct {
	state       Snapshot
	byOp        map[Op]int
	scopes      map[int64]Op    // by the sequence that names the scope
	homes       map[int64]int64 // the scopes that clean-ups and standing-in scopes are about
	waits       openWaits       // these replace state.Waits, which is nil
	uncommitted []Entry
}

// NewAggregate returns the aggregate of a run without entries.
func NewAggregate(run RunID, workflowID, workflow string, pattern Pattern) *Aggregate {
	return &Aggregate{
		state: Snapshot{Run: run, WorkflowID: workflowID, Workflow: workflow, Pattern: pattern},
		byOp:  map[Op]int{}, scopes: map[int64]Op{}, homes: map[int64]int64{},
	}
}

// Restore returns the aggregate that a snapshot was taken of.
func Restore(s Snapshot) *Aggregate {
	a := &Aggregate{
		state:  s.clone(),
		byOp:   map[Op]int{},
		scopes: map[int64]Op{},
		homes:  map[int64]int64{},
	}
	for i, step := range a.state.Steps {
		a.byOp[step.Op] = i
		if step.Opens != 0 {
			a.scopes[step.Opens] = step.Op
		}
		if step.StandsFor != 0 {
			a.homes[step.Opens] = step.StandsFor
		}
	}
	for _, c := range a.state.Cleanups {
		a.scopes[c.Opens] = c.Op
		a.homes[c.Opens] = c.Op.Scope
	}
	for _, w := range a.state.Waits {
		a.waits.begin(w)
	}
	a.state.Waits = nil
	return a
}

// Snapshot returns a copy of the state.
func (a *Aggregate) Snapshot() Snapshot {
	s := a.state
	s.Waits = a.waits.open()
	return s.clone()
}

// Uncommitted returns a copy of the raised entries that are not durable yet.
func (a *Aggregate) Uncommitted() []Entry { return slices.Clone(a.uncommitted) }

// Committed marks every entry up to seq as durable.
func (a *Aggregate) Committed(seq int64) {
	a.uncommitted = slices.DeleteFunc(a.uncommitted, func(e Entry) bool { return e.Seq <= seq })
}

// Raise applies a new entry with the next sequence and keeps it as uncommitted. It fails if Apply
// does.
func (a *Aggregate) Raise(e Entry) error {
	e.Seq = a.state.Seq + 1
	if err := a.Apply(e); err != nil {
		return err
	}
	a.uncommitted = append(a.uncommitted, e)
	return nil
}

// Apply applies the next entry. It fails and changes nothing if the entry does not follow the last
// one, or if the run has ended: an ended run never changes. The caller must not change what e
// points to afterwards.
func (a *Aggregate) Apply(e Entry) error {
	if err := a.follows(&e); err != nil {
		return err
	}
	d := e.Detail
	if d == nil {
		d = &Detail{}
	}
	a.applyRun(&e, d)
	a.applyShown(&e, d)
	a.applyStep(&e, d)
	if a.state.Status.IsTerminal() {
		a.endVisits(-1, e.At)
		a.endBranches()
	}
	a.applyWait(&e, d)
	if a.state.Status.IsTerminal() {
		for i := range a.state.Steps {
			if s := &a.state.Steps[i]; s.ForStep != "" {
				a.endBeside(s, e.At)
			}
		}
	}
	return nil
}

// follows returns an error if e is not a valid next entry.
func (a *Aggregate) follows(e *Entry) error {
	reason := ""
	switch s := &a.state; {
	case e.Kind.onlyMessage():
		reason = "a message of kind " + e.Kind.String() + " is not an entry of a journal"
	case e.Seq != s.Seq+1:
		reason = "it does not follow entry " + strconv.FormatInt(s.Seq, 10)
	case s.Status.IsTerminal():
		reason = "the run has ended " + s.Status.String()
	case (e.Kind == RunStarted) != (e.Seq == 1):
		reason = "a run begins with its start, once"
	case e.Seq == 1 && !e.Status.IsOpen():
		reason = "a run begins with an open status"
	case e.Kind.EndsRun() != e.Status.IsTerminal():
		reason = "a terminal status comes with the entry that ends the run"
	case e.Op.Scope < 0 || e.Op.Scope >= e.Seq, e.Detail != nil && e.Detail.StandsFor >= e.Seq:
		reason = "its scope is not open"
	case e.Kind == ScopeOpened && a.opens(e.Op):
		reason = "its scope was opened before"
	default:
		return nil
	}
	return &CorruptError{Run: e.Run, Seq: e.Seq, Reason: reason}
}

// opens reports whether op has opened a scope.
func (a *Aggregate) opens(op Op) bool {
	i, known := a.byOp[op]
	return known && a.state.Steps[i].Opens != 0
}

func (a *Aggregate) applyRun(e *Entry, d *Detail) {
	s := &a.state
	s.Seq, s.Last = e.Seq, e.At
	s.Events++
	if e.Status != 0 {
		s.Status, s.Reason, s.By, s.Due = e.Status, "", "", time.Time{}
	}
	if d.Build != "" {
		s.Build, s.Unused = d.Build, nil
	}
	if d.Layers != nil {
		s.Layers = d.Layers
	}
	switch e.Kind {
	case RunStarted:
		s.Started = e.At
		s.Predecessor, s.PredecessorStarted, s.PredecessorEnded = d.Other, d.Began, d.Ended
		s.Origin = OriginOf(d)
	case RunContinued:
		s.Successor = d.Other
	case RunClosing:
		s.Ending, s.By, s.Mode = d.Outcome, d.By, d.Mode
	case OperationUnused:
		s.Unused = append(s.Unused, a.path(e.Op))
	case CleanupPlanned:
		s.Cleanups = append(s.Cleanups, Cleanup{Op: e.Op, Path: a.path(e.Op), Opens: e.Seq})
		a.scopes[e.Seq], a.homes[e.Seq] = e.Op, e.Op.Scope
	case DecisionSought:
		if e.Status == Suspended {
			s.Reason = d.Reason
		}
	case RunRetrying:
		s.Failure, s.Due, s.Failures = d.Failure, d.Due, d.Failures
	case RunSuspended:
		s.Reason, s.By, s.Failure = d.Reason, d.By, d.Failure
		s.Failures = max(s.Failures, d.Failures)
	}
	switch e.Kind {
	case RunRetrying, RunSuspended, RunClaimed, StatusChanged, ResultDiscarded, StepOutput,
		StepLogged:
	default: // the code went on, or an operator resumed it: panics are counted from 0 again
		s.Failures = 0
	}
	if e.Kind.EndsRun() {
		s.Ended, s.Failure, s.Reason, s.Ending = e.At, d.Failure, d.Reason, 0
		s.By, s.Mode = d.By, d.Mode
	}
}

// applyShown applies entries that set the payload, published values, variables, attributes or
// markers.
func (a *Aggregate) applyShown(e *Entry, d *Detail) {
	s := &a.state
	switch e.Kind {
	case RunStarted, PayloadSet:
		s.Payload, s.PayloadSeq = e.Data, 0
		if e.Spill != 0 {
			s.PayloadSeq = e.Seq
		}
	case StatePublished:
		put(&s.Published, e.Op.Name, Published{Data: e.Data, Seq: e.Seq, At: e.At})
	case VariableSet:
		if e.Data == nil && e.Spill == 0 {
			delete(s.Variables, d.Variable)
			break
		}
		put(&s.Variables, d.Variable, Published{Data: e.Data, Seq: e.Seq, At: e.At})
	case HeaderSet:
		s.Headers = maps.Clone(s.Headers)
		if e.Data == nil {
			delete(s.Headers, d.Variable)
			break
		}
		put(&s.Headers, d.Variable, string(e.Data))
	case StepOutput:
		a.applyOutput(e, d)
	case KeyAdded:
		s.Keys = append(s.Keys, string(e.Data))
	case AttributeSet:
		if e.Data == nil {
			delete(s.Attributes, e.Op.Name)
			break
		}
		put(&s.Attributes, e.Op.Name, string(e.Data))
	case VersionMarked:
		version := d.Version
		if before, known := s.Versions[e.Op.Name]; known {
			version = min(version, before)
		}
		put(&s.Versions, e.Op.Name, version)
	}
	if e.Kind == RunStarted && len(d.Attributes) > 0 {
		s.Attributes = maps.Clone(d.Attributes)
	}
	if e.Kind == RunStarted && len(d.Headers) > 0 {
		s.Headers = d.Headers
	}
}

// applyOutput applies a chunk of a stream, or the end of the validity of a part of it.
func (a *Aggregate) applyOutput(e *Entry, d *Detail) {
	s := a.state.Streams[d.Stream]
	s.Last = e.Seq
	if s.Parts = maps.Clone(s.Parts); d.Void {
		delete(s.Parts, d.Part)
	} else {
		part := cmp.Or(d.Part, e.Seq)
		put(&s.Parts, part, s.Parts[part]+int64(e.OutputSize()))
		s.Written += int64(e.OutputSize())
	}
	put(&a.state.Streams, d.Stream, s)
}

// put sets a value of a map, which it makes if necessary.
func put[K comparable, V any](m *map[K]V, name K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[name] = v
}

// stepStatus has the status that an entry of a kind sets for its step.
var stepStatus = map[Kind]StepStatus{
	ScopeOpened: StepIsRunning, ScopeCancelled: StepIsCancelled,
	StepStarted: StepIsRunning, StepCompleted: StepIsDone, StepFailed: StepIsFailed,
	StepTimedOut: StepIsTimedOut, StepCancelled: StepIsCancelled, StepSkipped: StepIsSkipped,
	StepRetrying: StepIsRetrying, StepCompensated: StepIsCompensated,
	StepCompensationFailed: StepIsCompensationFailed,
}

// inPhase maps these statuses to those of a TCC's participants.
var inPhase = map[string]map[StepStatus]StepStatus{
	PhaseTry: {
		StepIsDone: StepIsTried, StepIsFailed: StepIsTryFailed, StepIsTimedOut: StepIsTryFailed,
	},
	PhaseConfirm: {
		StepIsRunning: StepIsConfirming, StepIsDone: StepIsConfirmed,
		StepIsFailed: StepIsConfirmFailed, StepIsTimedOut: StepIsConfirmFailed,
	},
	PhaseCancel: {
		StepIsRunning: StepIsCanceling, StepIsDone: StepIsCanceled,
		StepIsFailed: StepIsCancelFailed, StepIsTimedOut: StepIsCancelFailed,
	},
}

// ReasonDuplicate is the reason of a StepSkipped whose effect existed already: the step is done.
const ReasonDuplicate = "duplicate"

// IsFact reports whether entries of this kind record a fact about a step. The fact comes from an
// operation with another name, or from none. A step may have several facts.
func (k Kind) IsFact() bool {
	switch k {
	case StepSkipped, CompensationStarted, StepCompensated, StepCompensationFailed, PhaseStarted,
		PhaseCompleted, PhaseFailed, DeadLettered:
		return true
	}
	return false
}

func (a *Aggregate) applyStep(e *Entry, d *Detail) {
	status := stepStatus[e.Kind]
	if status == "" {
		return
	}
	if s := inPhase[d.Phase][status]; s != "" {
		status = s
	}
	if e.Kind == StepSkipped && d.Reason == ReasonDuplicate {
		status = StepIsDone
	}
	if e.Kind == StepCompleted && d.Skipped {
		status = StepIsSkipped
	}
	if d.GoesOnWith() != "" {
		status = StepIsRunning
	}
	op := e.Op
	switch {
	case e.Kind.IsFact():
		op = a.AboutNth(op, d.Of)
	case d.GoesOn:
		op.Occ = 1
	}
	i, known := a.byOp[op]
	if !known {
		i = len(a.state.Steps)
		a.byOp[op] = i
		a.state.Steps = append(a.state.Steps, Step{
			Op: op, Path: a.path(op), Phase: d.Phase, Of: d.Of, Started: e.Began(),
		})
	}
	step := &a.state.Steps[i]
	if e.Kind == ScopeOpened {
		a.applyScope(step, e, d)
	}
	step.Status, step.Due, step.Then = status, d.Due, d.GoesOnWith()
	if d.Failure != nil {
		step.Failure = d.Failure
	}
	if status == StepIsCancelled || d.Skipped {
		step.Reason, step.By = d.Reason, d.By
	}
	step.Undo, step.OwnUndo = step.Undo || d.Undo, step.OwnUndo || d.OwnUndo
	if !e.Kind.IsFact() { // a fact about a step is not an attempt of it
		step.Attempts = max(step.Attempts, e.Attempt())
	}
	if status.IsTerminal() && (step.Ended.IsZero() || !e.Kind.IsFact()) {
		step.Ended = e.At
	}
	switch {
	case e.Kind == ScopeCancelled && step.ForStep == "":
		a.endVisits(step.Opens, e.At)
	case step.ForStep == "":
	case e.Kind == ScopeCancelled:
		a.endBeside(step, e.At)
	case e.Kind == ScopeOpened:
		a.beginBeside(step.beside(), e.At)
	}
}

func (a *Aggregate) applyScope(step *Step, e *Entry, d *Detail) {
	step.Opens, step.StandsFor, step.ForStep = e.Seq, d.StandsFor, d.ForStep
	a.scopes[e.Seq] = e.Op
	if d.StandsFor != 0 {
		a.homes[e.Seq] = d.StandsFor
	}
}

// beside returns the operation of the step that the branch of a scope performs.
func (s *Step) beside() Op { return Op{Scope: s.Op.Scope, Name: s.ForStep, Key: s.Op.Key, Occ: 1} }

// beginBeside starts the step that the branch of a scope performs.
func (a *Aggregate) beginBeside(op Op, at time.Time) {
	if _, known := a.byOp[op]; !known {
		a.byOp[op] = len(a.state.Steps)
		a.state.Steps = append(a.state.Steps, Step{
			Op: op, Path: a.path(op), Status: StepIsRunning, Attempts: 1, Started: at,
		})
	}
}

// endBeside cancels the step that the branch of a scope performs, unless it has ended.
func (a *Aggregate) endBeside(scope *Step, at time.Time) {
	if i, known := a.byOp[scope.beside()]; known && !a.state.Steps[i].Status.IsTerminal() {
		a.state.Steps[i].Status, a.state.Steps[i].Ended = StepIsCancelled, at
	}
}

// endVisits cancels the steps of a scope whose visits are between two operations; those of all
// scopes if the scope is negative.
func (a *Aggregate) endVisits(scope int64, at time.Time) {
	for i := range a.state.Steps {
		s := &a.state.Steps[i]
		if s.Then != "" && (scope < 0 || s.Op.Scope == scope) {
			s.Status, s.Then, s.Ended = StepIsCancelled, "", at
		}
	}
}

// endBranches ends the branches of a run that ends. Those in which something is open are cancelled.
// The others have returned, which has no entry: so the time of that is not known.
func (a *Aggregate) endBranches() {
	open := map[int64]bool{}
	within := func(scope int64) {
		for op, is := a.scopes[scope]; is && !open[scope]; op, is = a.scopes[scope] {
			open[scope] = true
			scope = op.Scope
		}
	}
	for _, w := range a.waits.open() {
		within(w.Op.Scope)
	}
	for i := range a.state.Steps {
		if s := &a.state.Steps[i]; s.Opens == 0 && !s.Status.IsTerminal() {
			within(s.Op.Scope)
		}
	}
	for i := range a.state.Steps {
		s := &a.state.Steps[i]
		switch {
		case s.Opens == 0 || s.Status != StepIsRunning:
		case open[s.Opens]:
			s.Status = StepIsCancelled
		default:
			s.Status = StepIsDone
		}
	}
}

// About returns the operation that a fact, or a step in a phase, is about. That operation is in the
// scope in which the clean-up was planned, or in the scope that the scope of op stands for. It is
// the first occurrence there.
func (a *Aggregate) About(op Op) Op { return a.AboutNth(op, 1) }

// AboutNth is [Aggregate.About] for the n-th occurrence there, which the detail of the entry has
// (Detail.Of); 0 stands for the first.
func (a *Aggregate) AboutNth(op Op, n int) Op {
	op.Scope, op.Occ = a.home(op.Scope), max(n, 1)
	return op
}

// home returns the scope that the operations in a scope are about.
func (a *Aggregate) home(scope int64) int64 {
	for scope != ImpliedCleanup {
		next, is := a.homes[scope]
		if !is {
			return scope
		}
		scope = next
	}
	return 0
}

// ImpliedCleanup is the scope of a clean-up that a workflow is known to plan first: the sequence of
// the run's start.
const ImpliedCleanup = 1

// Path returns an operation with the scopes that it is in.
func (a *Aggregate) Path(op Op) string { return a.path(op) }

func (a *Aggregate) path(op Op) string {
	if scope, ok := a.scopes[op.Scope]; ok && op.Scope != 0 {
		return a.path(scope) + "/" + op.String()
	}
	return op.String()
}
