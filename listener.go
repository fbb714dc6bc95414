package perdure

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/report"
)

// A Listener is told when runs have ended: after the end is durable, and at least
// once, also when the process dies between the end and the call. It is an option
// of a workflow, then it hears of the workflow's runs; [Engine.Listen] adds one to
// an engine, for the workflows that this knows. Nobody is told that a run continues
// as new.
//
// What it returns, and a panic in it, are told to observers and change nothing. It
// is called for at most 16 runs at a time; while it blocks, others go on. An engine
// that stops waits for it as for a step; then the context of the call ends, and
// what was not told is told by the next engine.
type Listener struct {
	Workflow string      // of the runs that it hears of; empty for all
	Statuses []RunStatus // the ends that it hears of; none for all
	Call     func(context.Context, Ended) error
}

// An Ended is a run that has ended.
type Ended struct {
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Status     RunStatus
	Payload    []byte // that it had last
	Output     []byte
	Err        error // that it ended with; nil where it succeeded
	Started    time.Time
	Ended      time.Time

	report func() (report.Run, error)
}

// Report gives the report of the run.
func (e Ended) Report() (report.Run, error) { return e.report() }

func (l Listener) ApplyToWorkflow(w *sealed.Workflow) error {
	l.Workflow = w.Name
	k, err := l.kernel()
	if err == nil {
		w.Listeners = append(w.Listeners, k)
	}
	return err
}

func (l Listener) kernel() (*kernel.Listener, error) {
	if l.Call == nil {
		return nil, failure.Invalid("listener", "a listener needs a function")
	}
	for _, s := range l.Statuses {
		if !s.IsTerminal() || s == journal.ContinuedAsNew {
			return nil, failure.Invalid("listener", "nobody is told of %v", s)
		}
	}
	return kernel.NewListener(l.Workflow, slices.Clone(l.Statuses),
		func(ctx context.Context, e kernel.End) error {
			payload, err := e.Payload()
			if err != nil {
				return err
			}
			return l.Call(ctx, Ended{
				RunID: e.Head.ID, WorkflowID: e.Head.WorkflowID, Workflow: e.Head.Workflow,
				Status:  e.Head.Status,
				Payload: payload, Output: e.Outcome.Data, Err: failure.Err(e.Outcome.Failure),
				Started: e.Head.Created, Ended: e.Head.Ended,
				report: func() (report.Run, error) {
					entries, err := e.Journal()
					if err != nil {
						return report.Run{}, err
					}
					return report.New(e.Head, entries)
				},
			})
		}), nil
}

// Listen has a listener told of the ends of runs from now on, until the function
// that it gives is called. After a restart it hears of what it was not told only
// if it is added before Run.
func (e *Engine) Listen(l Listener) (stop func(), err error) {
	k, err := l.kernel()
	if err != nil {
		return nil, err
	}
	return e.k.Listen(k), nil
}

// A StepInfo is what is known of a step that is executed. See [StepOf].
type StepInfo struct {
	Step    string // its path
	Attempt int
	Run     journal.Head
	Phase   Phase // empty for none
	// the path of what it is a phase of: debit for try:debit; without a phase its own
	Of string

	// Keys is the run whose idempotency keys the step has: its own, or of those that this
	// run retries the first since which the step was not undone.
	Keys journal.RunID
}

func infoOfStep(s kernel.StepInfo) StepInfo {
	n, _ := s.Attempt()
	return StepInfo{
		Step: s.Name(), Attempt: n, Run: s.Run(), Phase: Phase(s.Phase()), Of: s.Of(),
		Keys: s.Keys(),
	}
}

// around makes what the kernel calls of what the application gave.
func around(f func(context.Context, StepInfo, func(context.Context) error) error) func(
	context.Context, kernel.StepInfo, func(context.Context) *journal.Failure) *journal.Failure {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, s kernel.StepInfo,
		body func(context.Context) *journal.Failure) *journal.Failure {
		var own *journal.Failure
		err := f(ctx, infoOfStep(s), func(ctx context.Context) error {
			own = body(ctx)
			return failure.Live(own)
		})
		if err == nil || failure.IsOnly(err, own) { // nothing went wrong, or nothing else
			return own
		}
		return failure.Of(err)
	}
}
