package kernel

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// RunInfo is what workflow code can learn of its run.
type RunInfo struct {
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	Status     journal.Status
	Payload    []byte // the input, or what replaced it
	Headers    map[string]string
	Attributes map[string]string
	Started    time.Time
	Steps      []string // names of the steps that the code has run so far, in order
	Scope      string   // the path of the scope that it is asked in, with a slash at its end

	// Of a run that continues another one: that one, and when it began and ended.
	Predecessor      journal.RunID
	PredecessorBegan time.Time
	PredecessorEnded time.Time
}

// InfoOf gives what the run of ctx is: in workflow code, and in the body of a
// step.
func InfoOf(ctx context.Context) (RunInfo, error) {
	var s *scope
	var by *operation
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		s = v
	case *attempt:
		s, by = v.op.scope, v.op
	default:
		_, err := scopeOf(ctx, call{verb: "info"})
		return RunInfo{}, err
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	payload, err := r.readPayload()
	if err != nil {
		return RunInfo{}, err
	}
	if r.values.isChanged() {
		s.learns(by)
	}
	i := RunInfo{
		RunID: r.head().ID, WorkflowID: r.head().WorkflowID, Workflow: r.head().Workflow, Pattern: r.head().Pattern, Status: r.status(),
		Payload: payload, Attributes: maps.Clone(r.values.searchAttributes()), Started: r.head().Created, Steps: r.values.stepNames(),
		Scope: s.path,
	}
	if !r.gone() { // what it waits for beside, and what it will set, its code has not seen
		i.Status = r.values.knownStatus()
	}
	if d := r.start; d != nil {
		i.Headers, i.Predecessor, i.PredecessorBegan, i.PredecessorEnded = maps.Clone(d.Headers), d.Other, d.Began, d.Ended
	}
	return i, nil
}

// JournalOf gives the head of the run of ctx, and what of its journal is durable. It is
// called in the body of a step.
func JournalOf(ctx context.Context) (journal.Head, []journal.Entry, error) {
	s, err := StepOf(ctx, "report")
	if err != nil {
		return journal.Head{}, nil, err
	}
	head := s.Run()
	entries, err := s.a.op.run.k.wholeJournal(head.Number)
	if err != nil {
		return head, nil, unavailable("report", err)
	}
	return head, entries, nil
}

// wholeJournal reads the journal of a run with its payloads.
func (k *Kernel) wholeJournal(run journal.Number) (entries []journal.Entry, err error) {
	err = k.persist(func() error {
		entries, err = k.store.Load(context.Background(), run, store.Range{Payloads: true})
		return err
	})
	return entries, err
}

// readPayload returns the payload, and fetches it where it is still in the store. It is
// called, and returns, with the lock.
func (r *run) readPayload() ([]byte, error) {
	data, seq := r.values.lastPayload()
	if seq == 0 {
		return data, nil
	}
	r.reads(1)
	r.mu.Unlock()
	data, err := r.k.fetch(r.number(), seq)
	r.mu.Lock()
	r.reads(-1)
	if err != nil {
		return nil, unavailable("payload", err)
	}
	r.values.fetchedPayload(data, seq)
	data, _ = r.values.lastPayload()
	return data, nil
}

// Leaving says whether the run of ctx leaves memory without having ended.
func Leaving(ctx context.Context) bool {
	s, err := scopeOf(ctx, call{verb: "leaving"})
	if err != nil {
		return false
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return s.run.hasLeft()
}

// EndingBy gives how the run of ctx, a clean-up, will end; nil where it has not failed.
func EndingBy(ctx context.Context) (*journal.Failure, error) {
	s, err := inside(ctx, call{verb: "ending"})
	if err != nil {
		return nil, err
	}
	defer s.run.mu.Unlock()
	if top := s.top(); top.cause != nil {
		return top.cause, nil
	}
	return s.run.ending.outcome().Failure, nil
}

// top is the outermost of the scopes that one is in.
func (s *scope) top() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// EndingAs gives the status that the run of ctx, a clean-up, will end with.
func EndingAs(ctx context.Context) (journal.Status, error) {
	s, err := inside(ctx, call{verb: "ending"})
	if err != nil {
		return 0, err
	}
	defer s.run.mu.Unlock()
	if s.top().cause != nil {
		return journal.Cancelled, nil
	}
	if c := s.run.ending.closing(); c != nil {
		return c.last.Status, nil
	}
	return 0, &journal.Error{Code: journal.CodeMisuse, Op: "ending", Message: "called outside a clean-up"}
}

// Over gives the termination error where the run, or the branch, of ctx is over or ends.
func Over(ctx context.Context) error {
	s, err := scopeOf(ctx, call{verb: "over"})
	if err != nil {
		return err
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.stay()
	return s.ended()
}

// Fail ends the run of ctx as FAILED with f. It gives the termination error.
func Fail(ctx context.Context, f *journal.Failure) error {
	return finishRun(ctx, call{verb: "fail"}, func(r *run) *journal.Error { return r.finish(failedBy(f), false) })
}

// CancelRun ends the run of ctx as CANCELLED. It gives the termination error.
func CancelRun(ctx context.Context, reason string) error {
	return finishRun(ctx, call{verb: "cancel"}, func(r *run) *journal.Error { return r.finish(cancelledBy(reason, 0), false) })
}

// EndRun ends the run of ctx with that status, output and failure. It gives the
// termination error.
func EndRun(ctx context.Context, status journal.Status, data []byte, f *journal.Failure) error {
	what := call{"end", status.String()}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	spill, failure := s.spillOver("the output", &data)
	if failure != nil {
		return &journal.Error{Code: failure.Code, Op: what.String(), Message: failure.Message}
	}
	return finishRun(ctx, what, func(r *run) *journal.Error { return r.finish(endedAs(status, data, spill, f), false) })
}

func finishRun(ctx context.Context, what call, end func(*run) *journal.Error) error {
	s, err := inside(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	defer r.mu.Unlock()
	r.tellReplayed(true)
	return end(r)
}

// tellReplayed tells what another build makes of the journal: when its code first
// waits for what is not recorded, and when it ends. A replay that goes as the run
// went has asked for everything by then. Of code that stands at an operation of
// its own nobody knows what it will ask for that is recorded further on; nor of a
// clean-up, before it runs.
func (r *run) tellReplayed(ended bool) {
	m := r.memo
	if m == nil || m.strict || m.retried || r.lent() {
		return
	}
	for _, rec := range m.unused() {
		in := rec.op.Scope
		s := m.scope(in)
		for _, op := range m.added(in) {
			s.stands = true
			r.advise(observe.ReplayDiffered, r.paths[in].path+op.String(), observe.OperationNew)
		}
		if s.opener != nil && !s.opener.asked { // that one is told
			continue
		}
		open := rec.moved || s.stands && rec.place > s.reached
		if rec.told || m.planned[in] || open && !ended {
			continue
		}
		rec.told = true
		if !r.gone() {
			r.outside(journal.Entry{Kind: journal.OperationUnused, Op: rec.op})
		}
		r.advise(observe.ReplayDiffered, r.paths[in].path+rec.op.String(), observe.OperationUnused)
	}
}

// noticeOf says which notice tells of an entry of a kind; those that tell
// nothing to observers are left out.
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
	journal.DecisionSought:      observe.RunParked,
	journal.CompensationStarted: observe.CompensationStarted, journal.StepCompensated: observe.StepCompensated,
	journal.CompensationFailure: observe.CompensationFailed,
	journal.PhaseStarted:        observe.PhaseStarted, journal.PhaseCompleted: observe.PhaseCompleted,
	journal.PhaseFailed: observe.PhaseFailed, journal.DeadLettered: observe.DeadLettered,
}

// ofParticipant says which notice tells the same of a TCC's participant.
var ofParticipant = map[observe.Kind]observe.Kind{
	observe.StepStarted: observe.ParticipantStarted, observe.StepSucceeded: observe.ParticipantSucceeded, observe.StepFailed: observe.ParticipantFailed,
}

// tell tells observers of the entries of a change, which are durable.
func (r *run) tell(c *store.Change) {
	if r.k.cfg.Observers == nil {
		return
	}
	if r.unheard {
		r.unheard = false
		r.k.tellStart(r.head())
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		kind := kindOf(e)
		if kind == "" || !r.k.cfg.Observers.Wants(kind) {
			continue
		}
		r.k.observe(r.noticeOf(kind, e))
	}
}

// kindOf says which notice tells of an entry; empty where none does.
func kindOf(e *journal.Entry) observe.Kind {
	kind, d := noticeOf[e.Kind], e.Detail
	switch {
	case d == nil:
	case e.Kind == journal.StepSkipped && d.Reason == journal.Duplicate:
		return observe.StepDuplicate
	case e.Kind == journal.PhaseStarted && d.Phase == journal.PhaseComposition:
		return observe.CompositionStarted
	case d.Phase == journal.PhaseComposition:
		return observe.CompositionEnded
	case e.Kind == journal.SignalConsumed && len(d.Choices) > 0: // the answer to a DecisionSought
		return observe.RunResumed
	case e.Kind == journal.ValueRecorded && d.Mail != 0:
		return observe.SignalDelivered
	case d.Phase != "" && d.Phase != journal.PhaseUndo && ofParticipant[kind] != "":
		return ofParticipant[kind]
	}
	return kind
}

// tellMade tells observers of the runs that a group has made: children, successors,
// and those that are started with a signal.
func (k *Kernel) tellMade(cs []store.Change) {
	for i := range cs {
		if c := &cs[i]; c.Create && c.Verdict == store.Written {
			k.tellStart(*c.Head)
		}
	}
}

// tellTaken tells observers of detached children that were not started, because
// another run holds their workflow ID: nobody else hears of them.
func (r *run) tellTaken(cs []store.Change) {
	for i := range cs {
		c := &cs[i]
		if !c.Create || c.Verdict == store.Written || len(c.Else) > 0 || !r.k.cfg.Observers.Wants(observe.ChildEnded) {
			continue
		}
		n := r.notice(observe.ChildEnded)
		n.Other, n.Reason = string(c.Head.ID), journal.Failed.String()
		n.Err = taken("child", c.Head.WorkflowID, c.Found).Error()
		r.k.observe(n)
	}
}

// tellStart tells observers that a run was started.
func (k *Kernel) tellStart(h journal.Head) {
	if k.cfg.Observers.Wants(observe.RunStarted) {
		k.observe(observe.Notice{
			Kind: observe.RunStarted, At: h.Created, Run: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow,
			Pattern: h.Pattern.String(), Status: journal.Pending.String(),
		})
	}
	if h.Pattern == journal.PatternTCC && k.cfg.Observers.Wants(observe.PhaseStarted) { // it begins with its first phase
		k.observe(observe.Notice{
			Kind: observe.PhaseStarted, At: h.Created, Run: string(h.ID), WorkflowID: h.WorkflowID, Workflow: h.Workflow,
			Pattern: h.Pattern.String(), Status: journal.Trying.String(), Phase: journal.PhaseTry,
		})
	}
}

// tellBegun tells observers that an attempt begins which has no record of its own.
func (a *attempt) tellBegun() {
	r := a.op.run
	kind := observe.StepStarted
	if phase := a.op.work.Phase; phase != "" && phase != journal.PhaseUndo {
		kind = observe.ParticipantStarted
	}
	if a.announced || !r.k.cfg.Observers.Wants(kind) {
		return
	}
	n := r.notice(kind)
	n.Phase = a.op.work.Phase
	n.At, n.Step, n.Attempt = a.began, a.op.path(), a.n
	r.k.observe(n)
}

// noticeOf gives the notice of that kind about an entry.
func (r *run) noticeOf(kind observe.Kind, e *journal.Entry) observe.Notice {
	n := r.notice(kind)
	n.At, n.Took = e.At, e.Took
	if e.Status != 0 {
		n.Status = e.Status.String()
	}
	path := ""
	if !e.Op.IsZero() {
		path = r.pathOf(e)
	}
	switch kind {
	case observe.SignalDelivered:
		n.Signal = e.Op.Name
		if e.Kind == journal.ValueRecorded {
			n.Signal = e.Detail.Reason
		}
	case observe.TimerFired:
		n.Timer = path
	case observe.StepStarted, observe.StepSucceeded, observe.StepFailed, observe.StepRetrying, observe.StepCancelled,
		observe.ParticipantStarted, observe.ParticipantSucceeded, observe.ParticipantFailed:
		n.Step, n.Attempt = path, e.Attempt()
	default:
		n.Step = path
	}
	if kind == observe.RunEnded {
		n.Took = max(e.At.Sub(r.head().Created), 0) // a successor may begin just after now
	}
	d := e.Detail
	if d == nil {
		return n
	}
	n.Due, n.Reason, n.Phase, n.Other = d.Due, d.Reason, d.Phase, string(d.Other)
	n.Attempt = max(n.Attempt, d.Attempt, d.Failures)
	switch kind {
	case observe.ChildEnded:
		n.Reason = d.Outcome.String()
	case observe.SignalDelivered:
		n.Reason = ""
	}
	if f := d.Failure; f != nil {
		n.Err = f.Message
		c := f.ClassOf()
		n.Benign = c != nil && c.Class == journal.ClassBenign
	}
	return n
}

// pathOf shows the operation of an entry with the scopes it is in; of a fact what it is
// about.
func (r *run) pathOf(e *journal.Entry) string {
	op, in := e.Op, shown{}
	if op.Scope != 0 {
		r.mu.Lock()
		in = r.paths[op.Scope]
		r.mu.Unlock()
	}
	if e.Kind.IsFact() {
		op.Occ = 1
		return in.base + op.String()
	}
	return in.path + op.String()
}

func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}
