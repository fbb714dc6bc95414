package journal

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// A Step is what a journal says of one step or branch.
type Step struct {
	Op       Op
	Path     string // Op with the scopes it is in: branch/label
	Opens    int64  // the scope that it opened, where it is a branch or scope; else 0
	Status   StepStatus
	Attempts int
	Started  time.Time // of the first attempt; of a sequential step as its result tells it
	Ended    time.Time // zero while it is not terminal
	Due      time.Time // of the next attempt, while it is RETRYING
	Failure  *Failure  // of the last attempt that failed
	Reason   string    // why it was cancelled
}

// A Snapshot is a run's state at one entry of its journal. It is an immutable
// copy: it shares nothing with the aggregate that gave it.
type Snapshot struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Seq        int64 // of the last entry applied
	Started    time.Time
	Last       time.Time // when the last entry was written
	Ended      time.Time
	Failure    *Failure  // that the run ended by, or that its code last panicked with
	Reason     string    // why it is suspended or was cancelled
	Due        time.Time // when its code is replayed, while it waits for that
	Failures   int       // panics of its code in a row
	Build      string    // that wrote last
	Events     int
	Steps      []Step // in the order of their first entries
	Attributes map[string]string
}

// An Aggregate is a run as the fold of its journal. An execution's state is
// what its entries say, and nothing else: two aggregates that applied the same
// entries are equal. It is used by one goroutine at a time.
//
// Entries come in by Apply (they are recorded already) or by Raise (they are
// new). What was raised is Uncommitted until Committed says that it is durable.
type Aggregate struct {
	state       Snapshot
	byOp        map[Op]int
	scopes      map[int64]Op // by the sequence that names them
	uncommitted []Entry
}

// NewAggregate gives the aggregate of a run that nothing has happened to.
func NewAggregate(run RunID, workflowID, workflow string, pattern Pattern) *Aggregate {
	return &Aggregate{
		state: Snapshot{Run: run, WorkflowID: workflowID, Workflow: workflow, Pattern: pattern},
		byOp:  map[Op]int{}, scopes: map[int64]Op{},
	}
}

// Restore gives the aggregate that a snapshot was taken of.
func Restore(s Snapshot) *Aggregate {
	a := &Aggregate{state: s.clone(), byOp: map[Op]int{}, scopes: map[int64]Op{}}
	for i, step := range a.state.Steps {
		a.byOp[step.Op] = i
		if step.Opens != 0 {
			a.scopes[step.Opens] = step.Op
		}
	}
	return a
}

// Snapshot gives a copy of the state.
func (a *Aggregate) Snapshot() Snapshot { return a.state.clone() }

// Uncommitted gives a copy of what was raised and is not yet durable.
func (a *Aggregate) Uncommitted() []Entry { return slices.Clone(a.uncommitted) }

// Committed says that every entry up to seq is durable.
func (a *Aggregate) Committed(seq int64) {
	a.uncommitted = slices.DeleteFunc(a.uncommitted, func(e Entry) bool { return e.Seq <= seq })
}

// Raise gives a new entry the next sequence, applies it and keeps it as
// uncommitted. It fails where Apply does.
func (a *Aggregate) Raise(e Entry) error {
	e.Seq = a.state.Seq + 1
	if err := a.Apply(e); err != nil {
		return err
	}
	a.uncommitted = append(a.uncommitted, e)
	return nil
}

// Apply takes in the next entry. It fails, and changes nothing, where the entry
// cannot be the next one, or where the run is terminal: a terminal run never
// changes again. What e points to must not be changed afterwards.
func (a *Aggregate) Apply(e Entry) error {
	if err := a.follows(&e); err != nil {
		return err
	}
	d := e.Detail
	if d == nil {
		d = &Detail{}
	}
	a.applyRun(&e, d)
	a.applyStep(&e, d)
	return nil
}

// follows says whether e can be the next entry.
func (a *Aggregate) follows(e *Entry) error {
	reason := ""
	switch s := &a.state; {
	case e.Seq != s.Seq+1:
		reason = "not the entry that follows " + strconv.FormatInt(s.Seq, 10)
	case s.Status.IsTerminal():
		reason = "the run had ended " + s.Status.String()
	case (e.Kind == RunStarted) != (e.Seq == 1):
		reason = "a run begins with its start, once"
	case e.Seq == 1 && !e.Status.IsOpen():
		reason = "a run begins with an open status"
	case e.Kind.EndsRun() != e.Status.IsTerminal():
		reason = "a terminal status comes with the entry that ends the run"
	case e.Op.Scope < 0 || e.Op.Scope >= e.Seq:
		reason = "its scope is not open"
	case e.Kind == ScopeOpened && a.opens(e.Op):
		reason = "its scope was opened before"
	default:
		return nil
	}
	return &CorruptError{Run: e.Run, Seq: e.Seq, Reason: reason}
}

// opens says whether op has opened a scope.
func (a *Aggregate) opens(op Op) bool {
	i, known := a.byOp[op]
	return known && a.state.Steps[i].Opens != 0
}

func (a *Aggregate) applyRun(e *Entry, d *Detail) {
	s := &a.state
	s.Seq, s.Last = e.Seq, e.At
	s.Events++
	if e.Status != 0 {
		s.Status, s.Reason, s.Due = e.Status, "", time.Time{}
	}
	if d.Build != "" {
		s.Build = d.Build
	}
	switch e.Kind {
	case RunStarted:
		s.Started = e.At
	case RunRetrying:
		s.Failure, s.Due, s.Failures = d.Failure, d.Due, d.Failures
	case RunSuspended:
		s.Reason, s.Failure = d.Reason, d.Failure
		s.Failures = max(s.Failures, d.Failures)
	case AttributeSet:
		if s.Attributes == nil {
			s.Attributes = map[string]string{}
		}
		s.Attributes[e.Op.Name] = string(e.Data)
	}
	switch e.Kind {
	case RunRetrying, RunSuspended, RunClaimed, StatusChanged:
	default: // the code went on, or an operator let it: panics are counted anew
		s.Failures = 0
	}
	if e.Kind.EndsRun() {
		s.Ended, s.Failure, s.Reason = e.At, d.Failure, d.Reason
	}
}

// stepStatus says what an entry of a kind makes of its step.
var stepStatus = map[Kind]StepStatus{
	ScopeOpened: StepIsRunning, ScopeCancelled: StepIsCancelled,
	StepStarted: StepIsRunning, StepCompleted: StepIsDone, StepFailed: StepIsFailed,
	StepTimedOut: StepIsTimedOut, StepCancelled: StepIsCancelled, StepSkipped: StepIsSkipped,
	StepRetrying: StepIsRetrying, StepCompensated: StepIsCompensated,
	CompensationFailure: StepIsCompensationFailed,
}

func (a *Aggregate) applyStep(e *Entry, d *Detail) {
	status := stepStatus[e.Kind]
	if status == "" {
		return
	}
	i, known := a.byOp[e.Op]
	if !known {
		i = len(a.state.Steps)
		a.byOp[e.Op] = i
		a.state.Steps = append(a.state.Steps, Step{Op: e.Op, Path: a.path(e.Op), Started: e.Began()})
	}
	step := &a.state.Steps[i]
	if e.Kind == ScopeOpened {
		step.Opens = e.Seq
		a.scopes[e.Seq] = e.Op
	}
	step.Status, step.Due = status, d.Due
	step.Attempts = max(step.Attempts, e.Attempt())
	if d.Failure != nil {
		step.Failure = d.Failure
	}
	if status == StepIsCancelled {
		step.Reason = d.Reason
	}
	if status.IsTerminal() {
		step.Ended = e.At
	}
}

func (s Snapshot) clone() Snapshot {
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].Failure = s.Steps[i].Failure.clone()
	}
	s.Failure = s.Failure.clone()
	s.Attributes = maps.Clone(s.Attributes)
	return s
}

// A Summary is what a projection keeps of a run.
type Summary struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Steps      map[string]StepStatus // by path
	First      time.Time             // of the first entry
	Last       time.Time             // of the last one
	Failure    string                // its message; empty without
	Events     int
}

// A Projection is a view over many runs: a fold of their entries into
// summaries, by ID, by status and by pattern. It is used by one goroutine at a
// time.
type Projection struct {
	runs  map[RunID]*Aggregate
	order []RunID
}

// NewProjection gives a projection of no runs.
func NewProjection() *Projection { return &Projection{runs: map[RunID]*Aggregate{}} }

// Apply takes in the next entry of a run. The head tells names and pattern,
// which entries do not repeat.
func (p *Projection) Apply(h Head, e Entry) error {
	a := p.runs[h.ID]
	if a == nil {
		a = NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
		p.runs[h.ID] = a
		p.order = append(p.order, h.ID)
	}
	return a.Apply(e)
}

// Run gives the summary of one run, and false where the projection has none.
func (p *Projection) Run(id RunID) (Summary, bool) {
	a := p.runs[id]
	if a == nil {
		return Summary{}, false
	}
	return a.summary(), true
}

// ByStatus gives the summaries of the runs in a status, in the order in which
// the runs were first seen.
func (p *Projection) ByStatus(s Status) []Summary {
	return p.list(func(a *Aggregate) bool { return a.state.Status == s })
}

// ByPattern gives the summaries of the runs of a pattern, in the order in
// which the runs were first seen.
func (p *Projection) ByPattern(pt Pattern) []Summary {
	return p.list(func(a *Aggregate) bool { return a.state.Pattern == pt })
}

func (p *Projection) list(ok func(*Aggregate) bool) []Summary {
	var out []Summary
	for _, id := range p.order {
		if a := p.runs[id]; ok(a) {
			out = append(out, a.summary())
		}
	}
	return out
}

func (a *Aggregate) summary() Summary {
	s := &a.state
	out := Summary{
		Run: s.Run, WorkflowID: s.WorkflowID, Workflow: s.Workflow, Pattern: s.Pattern,
		Status: s.Status, Steps: map[string]StepStatus{}, First: s.Started, Last: s.Last, Events: s.Events,
	}
	if s.Failure != nil {
		out.Failure = s.Failure.Message
	}
	for i := range s.Steps {
		out.Steps[s.Steps[i].Path] = s.Steps[i].Status
	}
	return out
}

func (a *Aggregate) path(op Op) string {
	if scope, ok := a.scopes[op.Scope]; ok && op.Scope != 0 {
		return a.path(scope) + "/" + op.String()
	}
	return op.String()
}
