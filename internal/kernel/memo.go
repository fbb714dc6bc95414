package kernel

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// A class is the kind of operation that an identity belongs to. The same identity with another
// class is a mismatch.
type class uint8

const (
	isStep class = iota + 1
	isAsync
	isScope
	isWait
	isNote
	isVersion
	isSignal
	isTimer
	isChild
	isDecision
	isCleanup
	isLock
)

var classNames = [...]string{
	isStep: "a step", isAsync: "an async step", isScope: "a branch or scope", isWait: "a wait",
	isNote:    "a recorded value",
	isVersion: "a version", isSignal: "a wait for a signal", isTimer: "a timer", isChild: "a child",
	isDecision: "a wait for an operator", isCleanup: "a clean-up",
	isLock: "a wait for a slot",
}

func (c class) String() string { return classNames[c] }

// A memo has the facts of a journal. It is a pure function of the entries: it uses no clock, store
// or goroutine. Replayed workflow code asks it for the record of each operation.
//
// It is built once, when a run is claimed, and never added to, because replay asks only for entries
// that were there at the claim.
type memo struct {
	ops       map[journal.Op]*record
	scopes    map[int64]*scopeMemo
	order     []*record // by first entry
	strict    bool      // one build wrote the whole journal and replays it
	continued bool      // the run continues another one as new
	// the run retries another one: its journal has only a part of that run's operations
	retried bool
	// the code of the run was called: an entry of the run, and not of one that it retries, shows it
	admitted bool
	begun    string // the build that called it first
	limited  bool   // the run began with asks for slots or tokens
	// the run that this one waits for, to end like it
	joins    journal.RunID
	given    *journal.Entry // the entry with the inputs that the run has gathered; nil for none
	build    string         // the build that wrote last
	failures int            // panics of the run's code in a row, at the end of the journal
	last     int64
	planned  map[int64]bool   // the scopes of clean-ups; nil for none
	writes   []*journal.Entry // of the step whose result comes next
	undoable bool             // a step has completed that an option of it undoes
	ends     *journal.Entry   // the end that the run cleans up for; nil for none
	phase    journal.Status   // the status that code has set last, by the entry phaseAt; else 0
	phaseAt  int64
	// suspended is the last entry by which the run was parked.
	suspended int64
	// it was parked because an operation is new, and nobody has decided yet
	doubted bool
	// an operator has decided: under this build the run goes on by name
	byName   bool
	recorded map[journal.Op]bool // operations that are recorded as added; nil for none
	idle     []*record           // operations that the build that wrote last recorded as unused
	begins   []*journal.Entry    // the variables that the run begins with
	tccs     int                 // TCCs within the run that carry out a decision
	replay   replay
	outputs  outputs
}

// A record has the entries of one operation.
type record struct {
	op      journal.Op
	class   class
	first   int64
	asked   bool
	ended   *journal.Entry // the entry that ended the operation; nil while there is none
	opens   int64          // the scope that the operation opened
	attempt int            // the highest attempt that was begun or has failed
	failed  bool           // that attempt has failed; the next one is due at due
	unbegun bool           // that attempt is announced, and its body was not called
	due     time.Time
	began   time.Time     // when the attempt began, if that is recorded
	other   journal.RunID // the run ID of the child
	policy  string
	last    *journal.Failure
	held    int64            // the entry that records a wait for a token; 0 for none
	writes  []*journal.Entry // the variables and keys that the body has set with its result
	output  bool             // the body has put out something
	parts   map[string]int64 // by stream: the part that counts; nil for none
	// it has no place in the order of this code (see moves), or another build added it
	moved bool
	place int  // its place among the records of its scope, counted from 1; 0 for none
	told  bool // observers have heard that another build does not use it
	once  map[string]*journal.Entry
}

// A scopeMemo counts the operations of one scope. One goroutine performs the operations of a scope,
// so all entries but the results of async steps are recorded in program order.
type scopeMemo struct {
	records []*record
	asked   int
	reached int // the furthest place that code has asked for
	// operations asked for since the last recorded one; at most fewMissed
	missed []journal.Op
	stands bool    // its code came to wait after one of the missed
	opener *record // nil for the run's own scope
}

// fewMissed limits how many operations observers hear of that are new in another build.
const fewMissed = 100

// A replay is the part of a memo that tells code which does again what it did before from code that
// goes on. Code does things again until it has come to all recorded operations and knows their
// outcomes. If it was waiting when the journal ended, it does until it learns something new. Code
// of another build may not come to all that is recorded: its replay is over when it waits.
type replay struct {
	left   int  // operations of all scopes that code has not come to
	waited bool // code had gone as far as it could when the journal ended
	passed bool // code has asked for an operation that is new
}

// note notes an entry. Code that has panicked does not wait anywhere.
func (p *replay) note(e *journal.Entry) {
	if e.Status != 0 {
		p.waited = e.Status == journal.Waiting && e.Kind != journal.RunRetrying
	}
}

// goesOn notes that code has asked for an operation that is not recorded.
func (p *replay) goesOn(c class) {
	if p.left == 0 && c != isWait && c != isVersion {
		p.passed = true
	}
}

// goesOver reports whether code does again what it did before. known is false while a recorded
// outcome waits for the code.
func (p *replay) goesOver(known bool) bool {
	return !p.passed && (p.waited || p.left > 0 || !known)
}

// newMemo reads a journal. If build wrote all of it, replay is strict.
func newMemo(entries []journal.Entry, build string) *memo {
	m := &memo{
		ops: make(map[journal.Op]*record, len(entries)), scopes: map[int64]*scopeMemo{},
		strict: true, last: int64(len(entries)),
	}
	for i := range entries {
		m.add(&entries[i])
	}
	if m.limited && !m.admitted && !m.retried { // nothing is done yet that could be cleaned up
		m.planned = nil
	}
	m.strict = m.strict && m.build == build
	if m.build != build {
		m.forget()
	}
	return m
}

func (m *memo) add(e *journal.Entry) {
	if e.Detail != nil && e.Detail.Build != "" {
		m.strict = m.strict && (m.build == "" || m.build == e.Detail.Build)
		if m.build != e.Detail.Build {
			m.forget()
		}
		m.build = e.Detail.Build
	}
	if e.Kind == journal.RunStarted && e.Detail != nil && e.Detail.Retried != "" {
		m.strict, m.retried = false, true
	}
	if e.Kind == journal.RunStarted && e.Detail != nil {
		m.continued, m.limited = e.Detail.Other != "" && !m.retried, e.Detail.Limited
	}
	if !m.admitted && m.admits(e) {
		m.admitted, m.begun = true, m.build
	}
	switch e.Kind {
	case journal.RunRetrying:
		m.failures = e.Detail.Failures
	case journal.StatusChanged, journal.RunClaimed, journal.StepOutput, journal.StepLogged:
	default:
		m.failures = 0
	}
	m.replay.note(e)
	m.tccs += decides(e)
	m.outputs.note(e)
	switch e.Kind {
	case journal.StepCompleted:
		m.undoable = m.undoable || e.Detail != nil && e.Detail.OwnUndo
	case journal.CleanupPlanned:
		m.plans(e.Seq)
	case journal.StatusChanged:
		if e.Detail != nil && e.Detail.Other != "" {
			m.joins = e.Detail.Other
		}
	case journal.RunStarted, journal.RunClaimed:
		if e.Kind == journal.RunClaimed && e.Detail != nil && e.Detail.Gathered != nil {
			m.given = e
		}
		if e.Detail != nil && e.Detail.CleansUp {
			m.plans(journal.ImpliedCleanup)
		}
	case journal.RunClosing:
		m.ends = e
	case journal.RunSuspended:
		m.suspended, m.doubted = e.Seq, m.doubted || e.Op.Name != ""
	case journal.RunResumed:
		m.byName, m.doubted = m.byName || m.doubted, false
	case journal.OperationAdded:
		if m.recorded == nil {
			m.recorded = map[journal.Op]bool{}
		}
		m.recorded[e.Op] = true
	case journal.OperationUnused:
		if r := m.ops[e.Op]; r != nil {
			r.told = true
			m.idle = append(m.idle, r)
		}
	case journal.ValueRecorded:
		if setsPhase(e) {
			m.phase, m.phaseAt = e.Status, e.Seq
		}
	case journal.VariableSet:
		if e.Op.IsZero() {
			m.begins = append(m.begins, e)
			return
		}
	}
	c := classOf(e)
	if c == 0 {
		return
	}
	if e.Detail != nil && e.Detail.ByStep {
		if e.Kind != journal.SignalConsumed { // that message is not in the inbox any more
			m.writes = append(m.writes, e)
		}
		return
	}
	r := m.ops[e.Op]
	if r == nil {
		r = &record{op: e.Op, class: c, first: e.Seq, moved: m.recorded[e.Op] || moves(e)}
		m.ops[e.Op] = r
		m.order = append(m.order, r)
		if !r.moved {
			s := m.scope(e.Op.Scope)
			s.records = append(s.records, r)
			r.place = len(s.records)
			m.replay.left++
		}
	}
	r.add(e)
	if r.ended == e && len(m.writes) > 0 && (c == isStep || c == isAsync) {
		r.writes, m.writes = m.writes, nil
	}
	if r.opens == e.Seq {
		m.scope(e.Seq).opener = r
	}
}

// moves reports whether the entry has no place in the order of the code: a timer of the
// predecessor, a version that was decided for code which ran before it, and the clean-up that
// undoes steps.
func moves(e *journal.Entry) bool {
	return e.Kind == journal.TimerRegistered && e.Detail.Other != "" ||
		e.Kind == journal.VersionMarked && e.Detail.Version == 0 ||
		e.Kind == journal.CleanupPlanned && e.Op.Name == undoName
}

// forget drops the facts that hold only for the build that wrote last, because another one replays.
func (m *memo) forget() {
	m.byName, m.doubted = false, false
	for _, r := range m.idle {
		r.told = false
	}
	m.idle = nil
}

func (m *memo) plans(scope int64) {
	if m.planned == nil {
		m.planned = map[int64]bool{}
	}
	m.planned[scope] = true
}

func classOf(e *journal.Entry) class {
	switch e.Kind {
	case journal.StepStarted, journal.StepCompleted, journal.StepFailed, journal.StepTimedOut,
		journal.StepCancelled, journal.StepRetrying, journal.CheckpointSaved, journal.StepHeld,
		journal.StepOutput, journal.StepLogged:
		if e.Detail != nil && e.Detail.Async {
			return isAsync
		}
		return isStep
	case journal.ScopeOpened, journal.ScopeCancelled:
		return isScope
	case journal.WaitEnded:
		return isWait
	case journal.ValueRecorded, journal.PayloadSet, journal.StatePublished, journal.AttributeSet,
		journal.VariableSet, journal.HeaderSet, journal.KeyAdded:
		return isNote
	case journal.CompensationStarted, journal.StepCompensated, journal.StepCompensationFailed,
		journal.PhaseStarted, journal.PhaseCompleted, journal.PhaseFailed,
		journal.StepSkipped, journal.DeadLettered:
		return isNote
	case journal.EventEmitted:
		if e.Op.Name == eventNote {
			return isNote
		}
	case journal.VersionMarked:
		return isVersion
	case journal.WaitStarted:
		return isSignal
	case journal.SignalConsumed, journal.SignalNoticed:
		return isSignal
	case journal.TimerRegistered, journal.TimerFired, journal.TimerCancelled:
		return isTimer
	case journal.ChildStarted, journal.ChildCompleted:
		return isChild
	case journal.DecisionSought:
		return isDecision
	case journal.CleanupPlanned:
		return isCleanup
	case journal.SlotAsked, journal.SlotTaken:
		return isLock
	case journal.SlotFreed:
		return isNote
	}
	return 0
}

func (r *record) add(e *journal.Entry) {
	switch e.Kind {
	case journal.ScopeOpened, journal.CleanupPlanned:
		r.opens = e.Seq
	case journal.StepHeld:
		r.held = e.Seq
		r.unbegun = r.unbegun || e.Detail != nil && e.Detail.AtMostOnce
	case journal.StepStarted:
		r.unbegun = false
		r.attempt, r.failed, r.began, r.held = e.Attempt(), false, e.At, 0
	case journal.StepRetrying:
		r.held = 0
		r.attempt, r.failed, r.due, r.last = e.Attempt(), true, e.Detail.Due, e.Detail.Failure
	case journal.CheckpointSaved:
		if r.once == nil {
			r.once = map[string]*journal.Entry{}
		}
		r.once[e.Detail.Once] = e
	case journal.StepOutput, journal.StepLogged:
		r.output = true
		r.addOutput(e.Detail.OutputDetail, e.Seq)
	case journal.WaitStarted, journal.TimerRegistered, journal.DecisionSought, journal.SlotAsked:
		if e.Detail != nil {
			r.due = e.Detail.Due
		}
	case journal.ChildStarted:
		r.other, r.policy = e.Detail.Other, e.Detail.Policy
	default:
		r.ended = e
	}
}

// addOutput records which part of a stream counts.
func (r *record) addOutput(d journal.OutputDetail, seq int64) {
	switch {
	case d.Void:
		delete(r.parts, d.Stream)
	case d.Stream != "" && d.Part == 0:
		if r.parts == nil {
			r.parts = map[string]int64{}
		}
		r.parts[d.Stream] = seq
	}
}

func (m *memo) scope(id int64) *scopeMemo {
	s := m.scopes[id]
	if s == nil {
		s = &scopeMemo{}
		m.scopes[id] = s
	}
	return s
}

// ask returns the record of an operation, nil if there is none, and an error if the code does not
// fit the journal.
func (m *memo) ask(op journal.Op, c class) (*record, error) {
	r := m.ops[op]
	switch {
	case r != nil && r.class != c:
		return nil, fmt.Errorf(
			"the code attempts %s %q, the journal records %s %q as entry %d", c, op, r.class, op,
			r.first,
		)
	case r != nil:
		if !r.asked {
			r.asked = true
			if s := m.scopes[op.Scope]; !r.moved {
				s.asked++
				m.replay.left -= max(r.place-s.reached, 0)
				s.reached = max(s.reached, r.place)
			}
		}
		return r, nil
	case !m.strict && c != isWait && c != isVersion: // a part of these is never recorded
		if s := m.scopes[op.Scope]; s != nil && !s.stands && s.reached < len(s.records) &&
			len(s.missed) < fewMissed {
			s.missed = append(s.missed, op)
		}
	case m.strict && c != isWait && c != isVersion:
		// these may be recorded later than code asks for them
		if missed := m.unasked(op.Scope); missed != nil {
			return nil,
				fmt.Errorf("the code attempts %s %q, the journal records %s %q as entry %d, and "+
					"the same build wrote it",
					c, op, missed.class, missed.op, missed.first)
		}
	}
	m.replay.goesOn(c)
	return nil, nil
}

// ahead returns the recorded operation of the scope that lies ahead when another build's code asks
// for an operation without a record; nil if there is none. It is the first of that class, or else
// the first. An operation that the code has passed without asking for it was removed, and does not
// count.
func (m *memo) ahead(scope int64, c class) *record {
	s := m.scopes[scope]
	if m.strict || m.retried || c == isWait || s == nil {
		return nil
	}
	var first *record
	for _, r := range s.records[s.reached:] {
		switch {
		case r.asked:
		case r.class == c:
			return r
		case first == nil:
			first = r
		}
	}
	return first
}

// closing returns an error if the code of a scope ends too early.
func (m *memo) closing(scope int64) error {
	if !m.strict {
		return nil
	}
	if missed := m.unasked(scope); missed != nil {
		return fmt.Errorf(
			"the code ends, the journal records %s %q as entry %d, and the same build wrote it",
			missed.class, missed.op, missed.first,
		)
	}
	return nil
}

// unasked returns the first recorded operation of a scope that code has not asked for, or nil.
func (m *memo) unasked(scope int64) *record {
	s := m.scopes[scope]
	if s == nil || s.asked == len(s.records) {
		return nil
	}
	i := slices.IndexFunc(s.records, func(r *record) bool { return !r.asked })
	return s.records[i]
}

// added returns the operations of a scope that another build did not record, although code asked
// for them before a recorded operation. It returns each once.
func (m *memo) added(scope int64) []journal.Op {
	s := m.scopes[scope]
	if s == nil {
		return nil
	}
	out := s.missed
	s.missed = nil
	return out
}

// unused returns the recorded operations that code has not asked for, in order.
func (m *memo) unused() []*record {
	var out []*record
	for _, r := range m.order {
		if !r.asked {
			out = append(out, r)
		}
	}
	return out
}

// leftOpen returns the steps that have begun and not ended by the journal, in the order in which
// they began, and the children that are cancelled if the run ends with that status. It leaves out
// operations that code has asked for.
func (m *memo) leftOpen(status journal.Status) (steps, children []*record) {
	if m == nil {
		return nil, nil
	}
	for _, r := range m.order {
		switch {
		case r.asked || r.ended != nil:
		case r.attempt > 0 || r.once != nil || r.output:
			steps = append(steps, r)
		case r.class == isChild && endsWith(r.policy, status):
			children = append(children, r)
		}
	}
	return steps, children
}

// reaches returns the last sequence of the journal that the run was claimed with; 0 for a new run,
// which has no memo.
func (m *memo) reaches() int64 {
	if m == nil {
		return 0
	}
	return m.last
}

// recordOf returns the record of an operation, or nil.
func (m *memo) recordOf(op journal.Op) *record {
	if m == nil {
		return nil
	}
	return m.ops[op]
}

// timerAhead reports whether the journal has an open timer of that path that code has not asked for
// yet.
func (m *memo) timerAhead(path string) bool {
	return slices.ContainsFunc(m.order, func(r *record) bool {
		return r.class == isTimer && !r.asked && r.ended == nil && m.path(r.op) == path
	})
}

// path returns the path of an operation.
func (m *memo) path(op journal.Op) string {
	path := op.String()
	for s := m.scopes[op.Scope]; s != nil && s.opener != nil; s = m.scopes[s.opener.op.Scope] {
		path = s.opener.op.String() + "/" + path
	}
	return path
}

// admits reports whether an entry shows that the code of the run was called.
func (m *memo) admits(e *journal.Entry) bool {
	switch e.Kind {
	case journal.RunClaimed:
		return true
	case journal.RunStarted:
		return e.Status != journal.Pending && !m.limited
	case journal.StatusChanged, journal.RunSuspended, journal.RunResumed:
		return false
	}
	return m.limited && !m.retried
}

// continues reports whether the run continues another one as new.
func (m *memo) continues() bool { return m != nil && m.continued }
