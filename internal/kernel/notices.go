package kernel

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// An observed notifies observers of the entries of a run that have become durable, and of the
// places where the code of another build differs from the journal.
//
// Invariants: paths has every scope that code has come to, if there are observers. The pipeline
// notifies them of entries, in their order and without the run's mu, which guards paths and due.
// Notices that are not about entries come in no certain order. Only the pipeline touches unheard.
type observed struct {
	run     *run
	paths   map[int64]shown          // by the number of a scope
	due     map[journal.Op]time.Time // of timers that have fired, as yet untold
	unheard bool                     // a client has made the run, and nobody has heard of it
}

// fires records when a timer was due that fires now. It is called with the lock.
func (v *observed) fires(o *operation) {
	if !v.run.k.cfg.Observers.Wants(observe.TimerFired) {
		return
	}
	if v.due == nil {
		v.due = map[journal.Op]time.Time{}
	}
	v.due[o.id] = o.due
}

// fired returns when a timer was due that has fired.
func (v *observed) fired(op journal.Op) time.Time {
	v.run.mu.Lock()
	defer v.run.mu.Unlock()
	defer delete(v.due, op)
	return v.due[op]
}

// A shown has the path of a scope, and the path of the operation that the scope is about.
type shown struct{ path, base string }

func newObserved(r *run) observed { return observed{run: r} }

// isNews records that observers were not notified that the run was started.
func (v *observed) isNews() { v.unheard = true }

// name records the paths of a scope, if there are observers.
func (v *observed) name(s *scope) {
	r := v.run
	if r.k.cfg.Observers == nil || s.id == 0 { // the run's own scope has no path
		return
	}
	if v.paths == nil {
		v.paths = map[int64]shown{}
	}
	v.paths[s.id] = shown{s.path, s.base}
}

// notice returns a notice about the run.
func (v *observed) notice(kind observe.Kind) observe.Notice {
	h := v.run.identity()
	return observe.Notice{
		Kind: kind, At: v.run.k.Now(), Run: string(h.ID), WorkflowID: h.WorkflowID,
		Workflow: h.Workflow, Pattern: h.Pattern.String(), Trace: traceIn(v.run.start),
	}
}

// advise notifies observers of an operation, and does not wait for them.
func (v *observed) advise(kind observe.Kind, path, reason string) {
	n := v.notice(kind)
	n.Step, n.Reason = path, reason
	go v.run.k.observe(n)
}

// tellReplayed notifies observers how the code of another build differs from the journal. It is
// called when the code first waits for something that is not recorded, and when the code ends. By
// then, code that does the same as the journal has asked for every recorded operation. If code
// waits at an operation of its own, it may still ask for operations that are recorded further on,
// so tellReplayed reports nothing about these. The same holds for a clean-up before it runs.
func (v *observed) tellReplayed(ended bool) {
	r := v.run
	m := r.memo
	if m == nil || m.strict || m.retried || r.lent() {
		return
	}
	for _, rec := range m.unused() {
		in := rec.op.Scope
		s := m.scope(in)
		for _, op := range m.added(in) {
			s.stands = true
			v.advise(observe.ReplayDiffered, v.paths[in].path+op.String(), observe.OperationNew)
		}
		if s.opener != nil && !s.opener.asked { // its opener is reported
			continue
		}
		open := rec.moved || s.stands && rec.place > s.reached
		undoes := rec.class == isCleanup && rec.op.Name == undoName // code asks for it later
		if rec.told || undoes || m.planned[in] || open && !ended {
			continue
		}
		rec.told = true
		if !r.gone() {
			r.outside(journal.Entry{Kind: journal.OperationUnused, Op: rec.op})
		}
		v.advise(observe.ReplayDiffered, v.paths[in].path+rec.op.String(), observe.OperationUnused)
	}
}

// noticeOf has the kind of notice for each kind of entry. Kinds without a notice are not in the
// map.
var noticeOf = map[journal.Kind]observe.Kind{
	journal.RunStarted: observe.RunStarted, journal.RunClaimed: observe.RunClaimed,
	journal.RunCompleted: observe.RunEnded, journal.RunFailed: observe.RunEnded,
	journal.RunCancelled: observe.RunEnded, journal.RunTimedOut: observe.RunEnded,
	journal.RunSuspended: observe.RunParked, journal.RunResumed: observe.RunResumed,
	journal.RunRetrying: observe.RunRetrying, journal.RunContinued: observe.RunContinued,
	journal.StepStarted: observe.StepStarted, journal.StepSkipped: observe.StepSkipped,
	journal.StepCompleted: observe.StepSucceeded, journal.StepFailed: observe.StepFailed,
	journal.StepTimedOut: observe.StepFailed, journal.StepRetrying: observe.StepRetrying,
	journal.StepCancelled:  observe.StepCancelled,
	journal.SignalConsumed: observe.SignalDelivered, journal.TimerFired: observe.TimerFired,
	journal.ChildStarted: observe.ChildStarted, journal.ChildCompleted: observe.ChildEnded,
	journal.DecisionSought:         observe.RunParked,
	journal.CompensationStarted:    observe.CompensationStarted,
	journal.StepCompensated:        observe.StepCompensated,
	journal.StepCompensationFailed: observe.StepCompensationFailed,
	journal.PhaseStarted:           observe.PhaseStarted,
	journal.PhaseCompleted:         observe.PhaseCompleted,
	journal.PhaseFailed:            observe.PhaseFailed, journal.DeadLettered: observe.DeadLettered,
}

// ofParticipant has the kind of notice that replaces another kind if the step is a TCC's
// participant.
var ofParticipant = map[observe.Kind]observe.Kind{
	observe.StepStarted:   observe.ParticipantStarted,
	observe.StepSucceeded: observe.ParticipantSucceeded,
	observe.StepFailed:    observe.ParticipantFailed,
}

// tell notifies observers of the entries of a durable change.
func (v *observed) tell(c *store.Change) {
	r := v.run
	if r.k.cfg.Observers == nil {
		return
	}
	if v.unheard {
		v.unheard = false
		r.k.tellStart(r.identity(), traceIn(r.start))
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		kind := kindOf(e)
		if kind == "" || !r.k.cfg.Observers.Wants(kind) {
			continue
		}
		r.k.observe(v.noticeOf(kind, e))
	}
}

// kindOf returns the kind of notice for an entry; empty for none.
func kindOf(e *journal.Entry) observe.Kind {
	kind, d := noticeOf[e.Kind], e.Detail
	switch {
	case d == nil:
	case e.Kind == journal.StepSkipped && d.Reason == journal.ReasonDuplicate:
		return observe.StepDuplicate
	case e.Kind == journal.PhaseStarted && d.Phase == journal.PhaseComposition:
		return observe.CompositionStarted
	case d.Phase == journal.PhaseComposition:
		return observe.CompositionEnded
	case e.Kind == journal.SignalConsumed && len(d.Choices) > 0: // the answer to a DecisionSought
		return observe.RunResumed
	case e.Kind == journal.StepCompleted && d.Then != "": // its visit goes on
		return observe.StepProgressed
	case e.Kind == journal.ValueRecorded && d.Mail != 0:
		return observe.SignalDelivered
	case d.Phase != "" && d.Phase != journal.PhaseUndo && ofParticipant[kind] != "":
		return ofParticipant[kind]
	}
	return kind
}

// tellTaken notifies observers of detached children that were not started because another run has
// their workflow ID. Nobody else is notified of these.
func (v *observed) tellTaken(cs []store.Change) {
	r := v.run
	for i := range cs {
		c := &cs[i]
		if !c.Create || c.Verdict == store.Written || len(c.Else) > 0 ||
			!r.k.cfg.Observers.Wants(observe.ChildEnded) {
			continue
		}
		n := v.notice(observe.ChildEnded)
		n.Other, n.Reason = string(c.Head.ID), journal.Failed.String()
		n.Err = taken("child", c.Head.WorkflowID, c.Found).Error()
		r.k.observe(n)
	}
}

// tellBegun notifies observers that an attempt begins, if no entry of its own records that.
func (a *attempt) tellBegun() {
	r := a.op.run
	kind := observe.StepStarted
	if phase := a.op.work.Phase; phase != "" && phase != journal.PhaseUndo {
		kind = observe.ParticipantStarted
	}
	if a.announced != 0 || !r.k.cfg.Observers.Wants(kind) {
		return
	}
	since := time.Since(a.began)
	n := r.observed.notice(kind)
	n.At = n.At.Add(-since)
	n.Phase, n.Step, n.Attempt = a.op.work.Phase, a.op.path(), a.n
	r.observed.nameChange(&n, a.op.id.Name, false)
	r.k.observe(n)
}

// nameChange names the change of state that a notice is about.
func (v *observed) nameChange(n *observe.Notice, step string, timedOut bool) {
	outcome := observe.Outcome(n.Kind, n.Status)
	if timedOut {
		outcome = observe.TimedOut
	}
	if outcome == "" {
		return
	}
	var c observe.Changes
	if def := v.run.def; def != nil && def.Changes != nil {
		c = *def.Changes
	}
	n.Change = c.Of(n.Workflow, step, outcome)
}

// noticeOf returns the notice of that kind about an entry.
func (v *observed) noticeOf(kind observe.Kind, e *journal.Entry) observe.Notice {
	r := v.run
	n := v.notice(kind)
	n.At, n.Took = e.At, e.Took
	if e.Status != 0 {
		n.Status = e.Status.String()
	}
	path := ""
	if !e.Op.IsZero() {
		path = v.pathOf(e)
	}
	switch kind {
	case observe.SignalDelivered:
		n.Signal = e.Op.Name
		if e.Kind == journal.ValueRecorded || e.Detail != nil && e.Detail.ByStep {
			n.Signal = e.Detail.Reason
		}
	case observe.TimerFired:
		n.Timer, n.Due = path, v.fired(e.Op)
	case observe.StepStarted, observe.StepSucceeded, observe.StepFailed, observe.StepRetrying,
		observe.StepCancelled,
		observe.ParticipantStarted, observe.ParticipantSucceeded, observe.ParticipantFailed:
		n.Step, n.Attempt = path, e.Attempt()
	default:
		n.Step = path
	}
	v.nameChange(&n, e.Op.Name, e.Kind == journal.StepTimedOut)
	switch kind {
	case observe.RunEnded, observe.RunContinued, observe.CompositionEnded:
		n.Took = max(e.At.Sub(r.created()), 0) // a successor may begin just after now
	}
	if kind == observe.RunEnded {
		r.mu.Lock()
		n.DeadLettered = r.deadLetters.any()
		r.mu.Unlock()
	}
	d := e.Detail
	if d == nil {
		return n
	}
	n.Reason, n.Phase, n.Other = d.Reason, d.Phase, string(d.Other)
	if kind != observe.TimerFired {
		n.Due = d.Due
	}
	n.Attempt = max(n.Attempt, d.Attempt, d.Failures)
	switch kind {
	case observe.StepProgressed:
		n.Reason = d.Then
	case observe.ChildEnded:
		n.Reason = d.Outcome.String()
	case observe.SignalDelivered:
		n.Reason, n.SentIn = "", d.SentIn
	}
	if f := d.Failure; f != nil {
		n.Err = f.Text()
		if c := f.ClassOf(); c != nil {
			refused := c.Class == journal.ClassPermanent && kind == observe.ParticipantFailed &&
				d.Phase == journal.PhaseTry
			n.Benign = c.Class == journal.ClassBenign || refused
		}
	}
	return n
}

// pathOf returns the path of the operation of an entry. If the entry is a fact, it returns the path
// of the operation that the fact is about.
func (v *observed) pathOf(e *journal.Entry) string {
	r := v.run
	op, in := e.Op, shown{}
	if op.Scope != 0 {
		r.mu.Lock()
		in = v.paths[op.Scope]
		r.mu.Unlock()
	}
	if e.Kind.IsFact() {
		op.Occ = 1
		return in.base + op.String()
	}
	return in.path + op.String()
}

// An observers has the observers of a kernel, if there are any. It notifies them of events that
// belong to no run.
type observers struct {
	set  *observe.Set
	time clock
}

// observe passes a notice on to the observers. One without a time is of now.
func (v observers) observe(n observe.Notice) {
	if n.At.IsZero() {
		n.At = v.time.Now()
	}
	v.set.Tell(n)
}

// recovered notifies observers that the store answers again, unless it answered at once.
func (v observers) recovered(tries int) {
	if tries > 1 {
		v.observe(observe.Notice{Kind: observe.StoreRecovered, Attempt: tries})
	}
}

func (v observers) listenerFailed(h journal.Head, err error) {
	text := guard.Text(err)
	if a := guard.AbortOf(err); a != nil {
		text += "\n" + a.Stack()
	}
	v.observe(observe.Notice{
		Kind: observe.ListenerFailed, Run: string(h.ID), WorkflowID: h.WorkflowID,
		Workflow: h.Workflow,
		Pattern:  h.Pattern.String(), Status: h.Status.String(), Err: text,
	})
}

// tellMade notifies observers of the runs that a group has made: children, successors, and runs
// that were started with a signal.
func (v observers) tellMade(cs []store.Change) {
	for i := range cs {
		if c := &cs[i]; c.Create && c.Verdict == store.Written {
			v.tellStart(*c.Head, traceIn(c.Entries[0].Detail))
		}
	}
}

// tellStart notifies observers that a run was started, in that trace context.
func (v observers) tellStart(h journal.Head, in string) {
	if v.set.Wants(observe.RunStarted) {
		v.observe(observe.Notice{
			Kind: observe.RunStarted, At: h.Created, Run: string(h.ID), WorkflowID: h.WorkflowID,
			Workflow: h.Workflow,
			Pattern:  h.Pattern.String(), Status: journal.Pending.String(), Trace: in,
		})
	}
	// it begins with its first phase
	if h.Pattern == journal.PatternTCC && v.set.Wants(observe.PhaseStarted) {
		v.observe(observe.Notice{
			Kind: observe.PhaseStarted, At: h.Created, Run: string(h.ID), WorkflowID: h.WorkflowID,
			Workflow: h.Workflow,
			Pattern:  h.Pattern.String(), Status: journal.Trying.String(), Trace: in,
			Phase: journal.PhaseTry,
		})
	}
}

// changed returns the event of the change of state that an entry of the run is about. It returns
// false if it is about none, or about the end of the run, whose event comes before its entry.
func changed(r *run, e *journal.Entry) (journal.Entry, bool) {
	outcome := observe.Outcome(noticeOf[e.Kind], "")
	switch {
	case e.Kind == journal.RunClaimed && r.memo != nil && !r.memo.admitted: // the run begins
		outcome = observe.Started
	case e.Kind == journal.StepTimedOut:
		outcome = observe.TimedOut
	case e.Kind == journal.RunStarted && e.Status == journal.Pending: // it begins later
		return journal.Entry{}, false
	case outcome == "", noticeOf[e.Kind] == observe.RunEnded, kindOf(e) == observe.StepProgressed:
		return journal.Entry{}, false
	}
	return changeOf(r, e, outcome), true
}

// A change is the data of an event about a change of state.
type change struct {
	Workflow   string `json:"workflow"`
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	Step       string `json:"step,omitempty"`
	Outcome    string `json:"outcome"`
	Attempt    int    `json:"attempt,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// changeOf returns the event of an outcome that an entry is about, or comes before.
func changeOf(r *run, e *journal.Entry, outcome string) journal.Entry {
	h := r.head()
	c := change{
		Workflow: h.Workflow, WorkflowID: h.WorkflowID, RunID: string(h.ID), Outcome: outcome,
	}
	if !e.Op.IsZero() {
		c.Step = e.Op.String()
	}
	if d := e.Detail; d != nil {
		c.Attempt, c.Reason = d.Attempt, d.Reason
		if d.Failure != nil {
			c.Reason = d.Failure.Text()
		}
	}
	data, _ := json.Marshal(c) //nolint:errchkjson // texts and a number
	return journal.Entry{
		Kind: journal.EventEmitted, Op: e.Op, Data: data, Detail: &journal.Detail{
			EventDetail: journal.EventDetail{
				Event:     r.def.Changes.Of(h.Workflow, e.Op.Name, outcome),
				Execution: observe.ChangeKind, Trace: r.values.allHeaders()[traceHeader],
			},
			Tell: r.k.subscribed(),
			MessageDetail: journal.MessageDetail{
				Message: string(h.ID) + "/change/" + strconv.FormatInt(r.last()+1, 10),
			},
		},
	}
}
