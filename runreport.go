package perdure

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Report tells how a run went, or how far it has come. It is made of the run's
// journal, so there is one of every run as long as that is kept. It is a copy: it never
// changes.
type Report struct {
	Name        string // of the workflow
	RunID       journal.RunID
	WorkflowID  string
	Pattern     journal.Pattern
	Status      journal.Status
	TriggeredBy string
	DryRun      bool
	Started     time.Time
	Ended       time.Time     // zero while it is open
	Duration    time.Duration // from start to end; of an open run to its last entry
	Steps       []StepReport  // in the order of their starts
	Headers     map[string]string
	Variables   map[string]json.RawMessage
	Keys        []string // idempotency keys that it has used, in order
	Phase       Phase    // of a TCC: the last that it began
	Err         error    // that it ended with; nil where it succeeded, and while it is open
	Suppressed  error    // that an error callback has made a success of
	Undo        *UndoReport
}

// A StepReport tells of one step or participant.
type StepReport struct {
	ID       string // its path
	Status   journal.StepStatus
	Attempts int // that were made, also after an operator had asked for more; of a participant in its last phase
	Latency  time.Duration
	Result   json.RawMessage // of a participant that of its try
	Err      error
	Started  time.Time
	Ended    time.Time
	Phases   []PhaseReport // of a participant
	retries  int
}

// A PhaseReport tells what a participant did in one phase.
type PhaseReport struct {
	Phase    Phase
	Status   journal.StepStatus
	Attempts int
	Latency  time.Duration
	Err      error
}

// An UndoReport tells of compensations.
type UndoReport struct {
	Policy   string
	Steps    []UndoneStep // in the order of their verdicts
	Duration time.Duration
	All      bool // every compensation succeeded
}

// An UndoneStep tells of the compensation of one step.
type UndoneStep struct {
	ID       string
	Undone   bool
	Err      error // of the compensation; also of one that was passed over
	Attempts int
	Duration time.Duration
	Result   json.RawMessage
}

// Success says whether the run has ended as its author hoped.
func (r Report) Success() bool { return r.Status.IsSuccess() }

// Step gives the report of a step; one that has not begun is PENDING, and found is
// false.
func (r Report) Step(id string) (s StepReport, found bool) {
	i := slices.IndexFunc(r.Steps, func(s StepReport) bool { return s.ID == id })
	if i < 0 {
		return StepReport{ID: id, Status: journal.StepIsPending}, false
	}
	return r.Steps[i], true
}

// Failed gives the steps that have failed, or whose compensation or phase has, in the
// order of their starts.
func (r Report) Failed() []StepReport {
	return r.which(func(s StepReport) bool { return s.Status.IsFailure() })
}

// Completed gives the steps that have done what they are for.
func (r Report) Completed() []StepReport {
	return r.which(func(s StepReport) bool { return s.Status.IsDone() })
}

// Compensated gives the steps that were undone.
func (r Report) Compensated() []StepReport {
	return r.which(func(s StepReport) bool { return s.Status == journal.StepIsCompensated })
}

func (r Report) which(is func(StepReport) bool) []StepReport {
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s StepReport) bool { return !is(s) })
}

// Retries is how many attempts were made beyond the first ones.
func (r Report) Retries() int {
	n := 0
	for _, s := range r.Steps {
		n += s.retries
	}
	return n
}

// ResultOf gives the result of a step, and false where it has none.
func ResultOf[T any](r Report, step string) (T, bool, error) {
	s, _ := r.Step(step)
	if s.Result == nil {
		var zero T
		return zero, false, nil
	}
	v, err := Decode[T](s.Result)
	return v, err == nil, err
}

// Report gives the report of a run, by run ID or workflow ID.
func (c *Client) Report(ctx context.Context, id string) (Report, error) {
	head, entries, err := c.desk.History(ctx, id, 0, 0)
	if err != nil {
		return Report{}, err
	}
	return reportOf(head, entries)
}

// Report gives the report of the run as it is now.
func (r *Run[O]) Report(ctx context.Context) (Report, error) {
	return r.c.Report(ctx, string(r.s.Head.ID))
}

// Outcome waits as [Run.Result] does and tells how the run has ended as a value: only
// what keeps the caller from hearing of it is an error.
func (r *Run[O]) Outcome(ctx context.Context) (Outcome[O], error) {
	head, out, err := r.c.runs.Wait(ctx, r.s)
	if err != nil {
		return Outcome[O]{}, err
	}
	o := Outcome[O]{Status: head.Status}
	if out.Failure != nil {
		o.Err = fromFailure(out.Failure)
	}
	if len(out.Data) > 0 {
		var failed error
		if o.Output, failed = decode[O](out.Data); failed != nil {
			return o, decodeError("output of run "+string(head.ID), o.Output, failed)
		}
	}
	return o, nil
}

// ReportOf gives the report of the run of ctx in the body of a step: what had become
// durable before that step began is in it.
func ReportOf(ctx context.Context) (Report, error) {
	head, entries, err := kernel.JournalOf(ctx)
	if err != nil {
		return Report{}, err
	}
	return reportOf(head, entries)
}

// The headers by which a start says what it is.
const (
	headerDryRun    = "perdure:dry-run"
	headerTriggered = "perdure:triggered-by"
)

// reportOf folds a journal.
func reportOf(h journal.Head, entries []journal.Entry) (Report, error) {
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	f := reporter{byStep: map[string]*StepReport{}, undo: map[string]*UndoneStep{}, took: map[string]time.Duration{}, results: map[string]json.RawMessage{}}
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return Report{}, &Error{Code: journal.CodeCorrupt, Op: "read " + string(h.ID), Err: err}
		}
		f.add(&entries[i], a.Path(entries[i].Op))
	}
	s := a.Snapshot()
	r := Report{
		Name: h.Workflow, RunID: h.ID, WorkflowID: h.WorkflowID, Pattern: h.Pattern, Status: s.Status,
		TriggeredBy: s.Headers[headerTriggered], DryRun: s.Headers[headerDryRun] == "true",
		Started: s.Started, Ended: s.Ended, Duration: s.Last.Sub(s.Started),
		Headers: maps.Clone(s.Headers), Keys: s.Keys, Phase: f.phase, Suppressed: f.suppressed,
	}
	if r.Pattern == journal.PatternTCC {
		r.Phase = or(r.Phase, PhaseTry)
	}
	if s.Predecessor != "" {
		r.TriggeredBy = "continued " + string(s.Predecessor)
	}
	delete(r.Headers, headerDryRun)
	delete(r.Headers, headerTriggered)
	if s.Status.IsTerminal() && s.Failure != nil {
		r.Err = fromFailure(s.Failure)
	}
	for name, v := range s.Variables {
		if r.Variables == nil {
			r.Variables = map[string]json.RawMessage{}
		}
		r.Variables[name] = v.Data
	}
	r.Steps, r.Undo = f.steps(s.Steps), f.undone()
	return r, nil
}

// A reporter collects what the fold of a journal leaves out.
type reporter struct {
	byStep     map[string]*StepReport
	order      []*StepReport
	results    map[string]json.RawMessage // by path
	took       map[string]time.Duration
	policy     string
	began      time.Time
	last       time.Time
	undo       map[string]*UndoneStep
	undoOrder  []*UndoneStep
	phase      Phase
	suppressed error
}

func (f *reporter) add(e *journal.Entry, path string) {
	switch e.Kind {
	case journal.StepCompleted:
		f.results[path] = e.Data
		f.took[path] += e.Took
	case journal.StepFailed, journal.StepTimedOut, journal.StepRetrying:
		f.took[path] += e.Took
	case journal.PhaseStarted:
		f.phase = Phase(e.Detail.Phase)
	case journal.CompensationStarted:
		if f.began.IsZero() {
			f.policy, f.began = e.Detail.Reason, e.At
		}
		f.last = e.At
	case journal.StepCompensated, journal.CompensationFailure:
		op := e.Op
		f.verdict(strings.TrimSuffix(path, op.String())+journal.Op{Name: op.Name, Key: op.Key, Occ: 1}.String(), e)
	case journal.ValueRecorded:
		if e.Op.Name == suppressedNote && e.Failure() != nil {
			f.suppressed = fromFailure(e.Failure())
		}
	}
}

// verdict takes in what became of a compensation; of several verdicts the last counts.
func (f *reporter) verdict(step string, e *journal.Entry) {
	u := f.undo[step]
	if u == nil {
		u = &UndoneStep{ID: step}
		f.undo[step] = u
		f.undoOrder = append(f.undoOrder, u)
	}
	u.Undone, u.Err = e.Kind == journal.StepCompensated, nil
	if e.Failure() != nil {
		u.Err = fromFailure(e.Failure())
	}
	f.last = e.At
}

// steps makes the reports of steps out of the fold of them.
func (f *reporter) steps(all []journal.Step) []StepReport {
	for _, s := range all {
		path, phase := s.Path, Phase(s.Phase)
		if s.Opens != 0 || s.Op.Name == callbackStep {
			continue
		}
		if phase != "" { // one thing, however often it was asked for
			of := journal.Op{Name: strings.TrimPrefix(s.Op.Name, phase.named("")), Key: s.Op.Key, Occ: 1}
			path = strings.TrimSuffix(path, s.Op.String()) + of.String()
		}
		if phase == PhaseUndo {
			if u := f.undo[path]; u != nil {
				u.Attempts, u.Duration, u.Result = s.Attempts, f.took[s.Path], f.results[s.Path]
			}
			continue
		}
		f.step(path, phase, s)
	}
	slices.SortStableFunc(f.order, func(a, b *StepReport) int { return a.Started.Compare(b.Started) })
	var out []StepReport
	for _, s := range f.order {
		out = append(out, *s)
	}
	return out
}

func (f *reporter) step(id string, phase Phase, s journal.Step) {
	r := f.byStep[id]
	if r == nil {
		r = &StepReport{ID: id, Started: s.Started, Result: f.results[s.Path]}
		f.byStep[id] = r
		f.order = append(f.order, r)
	}
	r.Status, r.Attempts, r.Ended = s.Status, s.Attempts, s.Ended
	r.retries += max(s.Attempts-1, 0)
	r.Latency += f.took[s.Path]
	r.Err = nil
	if s.Failure != nil && s.Status != journal.StepIsDone {
		r.Err = fromFailure(s.Failure)
	}
	if s.Status == journal.StepIsCancelled && r.Err == nil {
		r.Err = errors.New(s.Reason)
	}
	if phase == "" {
		return
	}
	now := PhaseReport{Phase: phase, Status: s.Status, Attempts: s.Attempts, Latency: f.took[s.Path], Err: r.Err}
	if n := len(r.Phases); n > 0 && r.Phases[n-1].Phase == phase {
		now.Attempts += r.Phases[n-1].Attempts
		now.Latency += r.Phases[n-1].Latency
		r.Phases = r.Phases[:n-1]
	}
	r.Phases, r.Attempts = append(r.Phases, now), now.Attempts
}

func (f *reporter) undone() *UndoReport {
	if f.began.IsZero() {
		return nil
	}
	u := &UndoReport{Policy: f.policy, Duration: f.last.Sub(f.began), All: true}
	for _, s := range f.undoOrder {
		u.Steps = append(u.Steps, *s)
		u.All = u.All && s.Undone
	}
	return u
}
