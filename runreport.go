package perdure

import (
	"cmp"
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
	Layers      [][]string    // the IDs of the steps of its declaration, layer by layer, as it was when the run began; nil without one
	Steps       []StepReport  // in the order of their starts
	Headers     map[string]string
	Variables   map[string]json.RawMessage
	Keys        []string // idempotency keys that it has used, in order
	Phase       Phase    // of a TCC: the last that it began
	Err         error    // that it ended with; nil where it succeeded, and while it is open
	Suppressed  error    // that an error callback has made a success of
	Undo        *UndoReport
	Successor   journal.RunID // that it has continued as; empty where it has not
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
	failed   int64 // the entry that says that it has failed, or its compensation
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
// order in which they did.
func (r Report) Failed() []StepReport {
	failed := r.which(func(s StepReport) bool { return s.Status.IsFailure() })
	slices.SortStableFunc(failed, func(a, b StepReport) int { return cmp.Compare(a.failed, b.failed) })
	return failed
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

// Report returns the report of a run, by run ID or workflow ID. Of a run with a row that
// cannot be read, or is missing, it tells what comes before that row, with an [Error] of
// code corrupt.
func (c *Client) Report(ctx context.Context, id string) (Report, error) {
	head, entries, err := c.desk.History(ctx, id, 0, 0)
	if err != nil && !isDamaged(err) {
		return Report{}, err
	}
	r, unfit := reportOf(head, entries)
	if err = cmp.Or(err, unfit); err != nil {
		r.Status = head.Status
	}
	return r, err
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
	headerPressure  = "perdure:pressure"
)

// reportOf folds a journal.
func reportOf(h journal.Head, entries []journal.Entry) (Report, error) {
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	f := newReporter(a)
	var err error
	for i := range entries {
		if err = a.Apply(entries[i]); err != nil {
			err = &Error{Code: journal.CodeCorrupt, Op: "read " + string(h.ID), Err: err}
			break
		}
		f.add(&entries[i])
	}
	s := a.Snapshot()
	r := Report{
		Name: h.Workflow, RunID: h.ID, WorkflowID: h.WorkflowID, Pattern: h.Pattern, Status: s.Status,
		TriggeredBy: s.Headers[headerTriggered], DryRun: s.Headers[headerDryRun] == "true",
		Started: s.Started, Ended: s.Ended, Duration: s.Last.Sub(s.Started),
		Layers: s.Layers, Headers: maps.Clone(s.Headers), Keys: s.Keys, Phase: f.phase, Suppressed: f.suppressed, Successor: s.Successor,
	}
	if r.Pattern == journal.PatternTCC {
		r.Phase = or(r.Phase, PhaseTry)
	}
	if s.Predecessor != "" {
		r.TriggeredBy = "continued " + string(s.Predecessor)
	}
	delete(r.Headers, headerDryRun)
	delete(r.Headers, headerTriggered)
	delete(r.Headers, headerPressure)
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
	return r, err
}

// A reporter collects what the fold of a journal leaves out.
type reporter struct {
	of         *journal.Aggregate
	byStep     map[string]*StepReport
	order      []*StepReport
	results    map[journal.Op]json.RawMessage
	took       map[journal.Op]time.Duration
	failed     map[string]int64 // the last entry that says so, by path
	policy     string
	began      time.Time
	last       time.Time
	undo       map[string]*UndoneStep
	undoOrder  []*UndoneStep
	phase      Phase
	suppressed error
}

func newReporter(a *journal.Aggregate) *reporter {
	return &reporter{
		of: a, byStep: map[string]*StepReport{}, undo: map[string]*UndoneStep{}, failed: map[string]int64{},
		took: map[journal.Op]time.Duration{}, results: map[journal.Op]json.RawMessage{},
	}
}

func (f *reporter) add(e *journal.Entry) {
	switch e.Kind {
	case journal.StepCompleted:
		f.results[e.Op] = e.Data
		f.took[e.Op] += e.Took
	case journal.StepFailed, journal.StepTimedOut, journal.StepRetrying:
		f.took[e.Op] += e.Took
		f.failed[f.of.Path(e.Op)] = e.Seq
	case journal.PhaseStarted:
		if e.Detail.Phase != journal.PhaseComposition {
			f.phase = Phase(e.Detail.Phase)
		}
	case journal.CompensationStarted:
		if f.began.IsZero() {
			f.began = e.At
		}
		if f.policy == "" || f.of.About(e.Op).Scope == 0 { // that of the run, if it has one
			f.policy = e.Detail.Reason
		}
		f.last = e.At
	case journal.StepCompensated, journal.CompensationFailure:
		f.verdict(f.of.Path(f.of.About(e.Op)), e)
	case journal.ValueRecorded:
		if e.Op.Name == suppressedNote && f.of.About(e.Op).Scope == 0 && e.Failure() != nil { // of the run as a whole
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
	f.last, f.failed[step] = e.At, e.Seq
}

// steps makes the reports of steps out of the fold of them.
func (f *reporter) steps(all []journal.Step) []StepReport {
	for _, s := range all {
		switch phase := Phase(s.Phase); {
		case s.Opens != 0 || s.Op.Name == callbackStep:
		case phase == "":
			f.step(s.Path, s)
		default:
			path := f.of.Path(f.of.About(s.Op))
			at := strings.LastIndexByte(path, '/') + 1
			path = path[:at] + strings.TrimPrefix(path[at:], phase.named(""))
			if phase == PhaseUndo {
				f.compensation(path, s)
				continue
			}
			f.step(path, s)
		}
	}
	slices.SortStableFunc(f.order, func(a, b *StepReport) int { return a.Started.Compare(b.Started) })
	var out []StepReport
	for _, s := range f.order {
		out = append(out, *s)
	}
	return out
}

// compensation takes in a step that was to undo another one.
func (f *reporter) compensation(of string, s journal.Step) {
	if u := f.undo[of]; u != nil {
		u.Attempts += s.Attempts
		u.Duration += f.took[s.Op]
		if u.Undone {
			u.Result = f.results[s.Op]
		}
	}
}

func (f *reporter) step(id string, s journal.Step) {
	r := f.byStep[id]
	if r == nil {
		r = &StepReport{ID: id, Started: s.Started, Result: f.results[s.Op]}
		f.byStep[id] = r
		f.order = append(f.order, r)
	}
	r.Status, r.Attempts, r.Ended = s.Status, s.Attempts, s.Ended
	r.retries += max(s.Attempts-1, 0)
	r.Latency += f.took[s.Op]
	r.Err = nil
	switch {
	case s.Status.IsFailure():
		r.Err, r.failed = fromFailure(s.Failure), f.failed[s.Path]
	case s.Status == journal.StepIsRetrying && s.Failure != nil:
		r.Err = fromFailure(s.Failure)
	case s.Status == journal.StepIsCancelled:
		r.Err = errors.New(s.Reason)
	}
	if s.Phase != "" {
		r.add(PhaseReport{Phase: Phase(s.Phase), Status: s.Status, Attempts: s.Attempts, Latency: f.took[s.Op], Err: r.Err})
	}
}

// add adds what was done in a phase; an operator may have had it done again.
func (r *StepReport) add(p PhaseReport) {
	last := len(r.Phases) - 1
	if last >= 0 && r.Phases[last].Phase == p.Phase {
		p.Attempts += r.Phases[last].Attempts
		p.Latency += r.Phases[last].Latency
		r.Phases = r.Phases[:last]
	}
	r.Phases, r.Attempts = append(r.Phases, p), p.Attempts
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
