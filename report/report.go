// Package report describes how a run went, or how far it has come: step by step, from its journal.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Run is the report of a run: how it went, or how far it has come. It is made from the run's
// journal and is available as long as that is kept. It is a copy and never changes.
type Run struct {
	Name        string // name of the workflow
	RunID       string
	WorkflowID  string
	Pattern     journal.Pattern
	Status      journal.Status
	TriggeredBy string
	DryRun      bool
	Started     time.Time
	Ended       time.Time     // zero while the run is open
	Duration    time.Duration // from start to end; of an open run, from start to last entry
	Layers      [][]string    // IDs of the declared steps when the run began; nil for none
	Steps       []Step        // in the order of their starts
	Headers     map[string]string
	Variables   map[string]json.RawMessage
	Keys        []string // idempotency keys that the run has used, in order
	Phase       string   // of a TCC: the phase that began last
	Err         error    // error of the run; nil while it is open and after a success
	Suppressed  error    // error that a failure callback has suppressed
	Undo        *Undo
	Successor   string // run that it continued as; empty for none
}

// A Step is the report of one step or participant.
type Step struct {
	ID     string // path of the step
	Status journal.StepStatus
	// Attempts includes attempts that an operator asked for. For a participant it is the number in
	// its last phase.
	Attempts int
	Latency  time.Duration
	Result   json.RawMessage // for a participant, the result of its try
	Err      error
	Started  time.Time
	Ended    time.Time
	Phases   []Phase // of a participant; nil for a step
	retries  int
	failed   int64 // number of the entry of the last failure, also of a compensation
}

// A Phase is the report of one phase of a participant.
type Phase struct {
	Phase    string // TRY, CONFIRM or CANCEL
	Status   journal.StepStatus
	Attempts int
	Latency  time.Duration
	Err      error
}

// An Undo is the report of the compensations of a run.
type Undo struct {
	Policy   string
	Steps    []Undone // in the order of their verdicts
	Duration time.Duration
	All      bool // every compensation succeeded
}

// An Undone is the report of the compensation of one step.
type Undone struct {
	ID       string
	Undone   bool
	Err      error // of the compensation, or the reason why it was passed over
	Attempts int
	Duration time.Duration
	Result   json.RawMessage
}

// Success reports whether the run is COMPLETED or CONFIRMED.
func (r Run) Success() bool { return r.Status.IsSuccess() }

// Step returns the report of a step. If the step has not begun, the report has the status PENDING
// and found is false.
func (r Run) Step(id string) (s Step, found bool) {
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.ID == id })
	if i < 0 {
		return Step{ID: id, Status: journal.StepIsPending}, false
	}
	return r.Steps[i], true
}

// Failed returns the steps that have failed, and those whose compensation or phase has failed. They
// are in the order of the failures.
func (r Run) Failed() []Step {
	failed := r.which(func(s Step) bool { return s.Status.IsFailure() })
	slices.SortStableFunc(failed, func(a, b Step) int { return cmp.Compare(a.failed, b.failed) })
	return failed
}

// Completed returns the steps that are DONE or CONFIRMED.
func (r Run) Completed() []Step {
	return r.which(func(s Step) bool { return s.Status.IsDone() })
}

// Compensated returns the steps that were undone.
func (r Run) Compensated() []Step {
	return r.which(func(s Step) bool { return s.Status == journal.StepIsCompensated })
}

func (r Run) which(is func(Step) bool) []Step {
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return !is(s) })
}

// Retries returns the number of attempts of all steps and phases, not counting the first attempt of
// each. Compensations do not count.
func (r Run) Retries() int {
	n := 0
	for _, s := range r.Steps {
		n += s.retries
	}
	return n
}

// ResultOf returns the result of a step. It returns false if the step has no result.
func ResultOf[T any](r Run, step string) (T, bool, error) {
	s, _ := r.Step(step)
	if s.Result == nil {
		var zero T
		return zero, false, nil
	}
	v, err := payload.Decode[T](s.Result)
	if err != nil {
		return v, false, payload.DecodeError("result of step "+step, v, err)
	}
	return v, true, nil
}

// Of returns the report of the run of ctx. It is called in the body of a step. The report has all
// that was durable before that step began.
func Of(ctx context.Context) (Run, error) {
	head, entries, err := kernel.JournalOf(ctx)
	if err != nil {
		return Run{}, err
	}
	return New(head, entries)
}

// New makes the report of a run from its journal. If an entry does not fit, the error is of code
// corrupt, and the report has the entries before it.
func New(h journal.Head, entries []journal.Entry) (Run, error) {
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	f := newReporter(a)
	var err error
	for i := range entries {
		if err = a.Apply(entries[i]); err != nil {
			err = &journal.Error{Code: journal.CodeCorrupt, Op: "read " + string(h.ID), Err: err}
			break
		}
		f.add(&entries[i])
	}
	s := a.Snapshot()
	r := Run{
		Name: h.Workflow, RunID: string(h.ID), WorkflowID: h.WorkflowID, Pattern: h.Pattern,
		Status: s.Status, Started: s.Started, Ended: s.Ended, Duration: s.Last.Sub(s.Started),
		TriggeredBy: s.Headers[sealed.HeaderTriggered],
		DryRun:      s.Headers[sealed.HeaderDryRun] == "true",
		Layers:      s.Layers, Headers: maps.Clone(s.Headers), Keys: s.Keys, Phase: f.phase,
		Suppressed: f.suppressed, Successor: string(s.Successor),
	}
	if r.Pattern == journal.PatternTCC {
		r.Phase = cmp.Or(r.Phase, journal.PhaseTry)
	}
	if s.Predecessor != "" {
		r.TriggeredBy = "continued " + string(s.Predecessor)
	}
	delete(r.Headers, sealed.HeaderDryRun)
	delete(r.Headers, sealed.HeaderTriggered)
	delete(r.Headers, sealed.HeaderPolicy)
	delete(r.Headers, sealed.HeaderSchedule)
	if s.Status.IsTerminal() && s.Failure != nil {
		r.Err = failure.Err(s.Failure)
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
	byStep     map[string]*Step
	order      []*Step
	results    map[journal.Op]json.RawMessage
	took       map[journal.Op]time.Duration
	failed     map[string]int64 // the last entry that says so, by path
	policy     string
	began      time.Time
	last       time.Time
	undo       map[string]*Undone
	undoOrder  []*Undone
	phase      string
	suppressed error
}

func newReporter(a *journal.Aggregate) *reporter {
	return &reporter{
		of: a, byStep: map[string]*Step{}, undo: map[string]*Undone{}, failed: map[string]int64{},
		took: map[journal.Op]time.Duration{}, results: map[journal.Op]json.RawMessage{},
	}
}

func (f *reporter) add(e *journal.Entry) {
	switch e.Kind {
	case journal.StepCompleted:
		op, over := visitOf(e)
		if over {
			f.results[op] = e.Data
		}
		f.took[op] += e.Took
	case journal.StepFailed, journal.StepTimedOut, journal.StepRetrying:
		op, _ := visitOf(e)
		if e.Data != nil { // with which it has decided to fail
			f.results[op] = e.Data
		}
		f.took[op] += e.Took
		f.failed[f.of.Path(op)] = e.Seq
	case journal.PhaseStarted:
		if e.Detail.Phase != journal.PhaseComposition {
			f.phase = e.Detail.Phase
		}
	case journal.CompensationStarted:
		if f.began.IsZero() {
			f.began = e.At
		}
		if f.policy == "" || f.of.About(e.Op).Scope == 0 { // that of the run, if it has one
			f.policy = e.Detail.Reason
		}
		f.last = e.At
	case journal.StepCompensated, journal.StepCompensationFailed:
		f.verdict(f.of.Path(f.of.AboutNth(e.Op, ofStep(e))), e)
	case journal.ValueRecorded:
		ofRun := e.Op.Name == sealed.SuppressedError && f.of.About(e.Op).Scope == 0
		if ofRun && e.Failure() != nil {
			f.suppressed = failure.Err(e.Failure())
		}
	}
}

// visitOf returns the operation that an entry of a step counts for, and whether the step is over
// with a result: a visit of a machine may have several operations.
func visitOf(e *journal.Entry) (op journal.Op, over bool) {
	op, over = e.Op, true
	if d := e.Detail; d != nil {
		if over = d.Then == ""; d.GoesOn {
			op.Occ = 1
		}
	}
	return op, over
}

// ofStep returns the occurrence of the step that a fact is about; 0 for the first.
func ofStep(e *journal.Entry) int {
	if e.Detail == nil {
		return 0
	}
	return e.Detail.Of
}

// verdict takes in what became of a compensation; of several verdicts the last counts.
func (f *reporter) verdict(step string, e *journal.Entry) {
	u := f.undo[step]
	if u == nil {
		u = &Undone{ID: step}
		f.undo[step] = u
		f.undoOrder = append(f.undoOrder, u)
	}
	u.Undone, u.Err = e.Kind == journal.StepCompensated, nil
	if e.Failure() != nil {
		u.Err = failure.Err(e.Failure())
	}
	f.last, f.failed[step] = e.At, e.Seq
}

// steps makes the reports of steps out of the fold of them.
func (f *reporter) steps(all []journal.Step) []Step {
	for _, s := range all {
		switch phase := s.Phase; {
		case s.Opens != 0 || s.Op.Name == sealed.CallbackStep:
		case phase == "":
			f.step(s.Path, s)
		default:
			path := f.of.Path(f.of.AboutNth(s.Op, s.Of))
			at := strings.LastIndexByte(path, '/') + 1
			path = path[:at] + strings.TrimPrefix(path[at:], strings.ToLower(phase)+":")
			if phase == journal.PhaseUndo {
				f.compensation(path, s)
				continue
			}
			f.step(path, s)
		}
	}
	slices.SortStableFunc(f.order, func(a, b *Step) int { return a.Started.Compare(b.Started) })
	var out []Step
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
		r = &Step{ID: id, Started: s.Started, Result: f.results[s.Op]}
		f.byStep[id] = r
		f.order = append(f.order, r)
	}
	r.Status, r.Attempts, r.Ended = s.Status, s.Attempts, s.Ended
	r.retries += max(s.Attempts-1, 0)
	r.Latency += f.took[s.Op]
	r.Err = nil
	switch {
	case s.Status.IsFailure():
		r.Err, r.failed = failure.Err(s.Failure), f.failed[s.Path]
	case s.Status == journal.StepIsRetrying && s.Failure != nil:
		r.Err = failure.Err(s.Failure)
	case s.Status == journal.StepIsCancelled:
		r.Err = errors.New(s.Reason)
	}
	if s.Phase != "" {
		r.add(Phase{
			Phase: s.Phase, Status: s.Status, Attempts: s.Attempts, Latency: f.took[s.Op],
			Err: r.Err,
		})
	}
}

// add adds what was done in a phase; an operator may have had it done again.
func (r *Step) add(p Phase) {
	last := len(r.Phases) - 1
	if last >= 0 && r.Phases[last].Phase == p.Phase {
		p.Attempts += r.Phases[last].Attempts
		p.Latency += r.Phases[last].Latency
		r.Phases = r.Phases[:last]
	}
	r.Phases, r.Attempts = append(r.Phases, p), p.Attempts
}

func (f *reporter) undone() *Undo {
	if f.began.IsZero() {
		return nil
	}
	u := &Undo{Policy: f.policy, Duration: f.last.Sub(f.began), All: true}
	for _, s := range f.undoOrder {
		u.Steps = append(u.Steps, *s)
		u.All = u.All && s.Undone
	}
	return u
}

// Stack returns the stack of the panic that err's chain records, as text. It is empty if there is
// none.
func Stack(err error) string { return failure.Stack(err) }
