package kernel

import (
	"context"
	"strconv"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// RunInfo is what workflow code can learn of its run.
type RunInfo struct {
	Run        journal.RunID
	WorkflowID string
	Workflow   string
	Status     journal.Status
	Input      []byte
	Steps      []string // names of the steps that the code has run so far, in order
}

// InfoOf gives what the run of ctx is: in workflow code, and in the body of a
// step.
func InfoOf(ctx context.Context) (RunInfo, error) {
	var r *run
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		r = v.run
	case *attempt:
		r = v.op.run
	default:
		_, err := scopeOf(ctx, call{verb: "info"})
		return RunInfo{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.head.Status
	if status == journal.Waiting && !r.gone() {
		status = journal.Running
	}
	return RunInfo{
		Run: r.head.ID, WorkflowID: r.head.WorkflowID, Workflow: r.head.Workflow, Status: status,
		Input: r.input, Steps: append([]string(nil), r.names...),
	}, nil
}

// Fail ends the run of ctx as FAILED with f. It gives the termination error.
func Fail(ctx context.Context, f *journal.Failure) error {
	return finishRun(ctx, call{verb: "fail"}, func(r *run) *journal.Error { return r.fail(f) })
}

// CancelRun ends the run of ctx as CANCELLED. It gives the termination error.
func CancelRun(ctx context.Context, reason string) error {
	return finishRun(ctx, call{verb: "cancel"}, func(r *run) *journal.Error { return r.cancel(reason) })
}

func finishRun(ctx context.Context, what call, end func(*run) *journal.Error) error {
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := s.enter(what); err != nil {
		return err
	}
	return end(r)
}

// tellUnused tells of recorded operations that another build did not ask for.
func (r *run) tellUnused() {
	if r.memo.strict || r.k.cfg.Observe == nil {
		return
	}
	for _, rec := range r.memo.unused() {
		r.advise(observe.ReplayDiffered, rec.op.String(), "recorded, and unused by this build")
	}
}

// noticeOf says which notice tells of an entry of a kind; those that tell
// nothing to observers are left out.
var noticeOf = map[journal.Kind]observe.Kind{
	journal.RunStarted: observe.RunStarted, journal.RunClaimed: observe.RunClaimed,
	journal.RunCompleted: observe.RunEnded, journal.RunFailed: observe.RunEnded,
	journal.RunCancelled: observe.RunEnded, journal.RunTimedOut: observe.RunEnded,
	journal.RunSuspended: observe.RunParked, journal.RunResumed: observe.RunResumed,
	journal.RunRetrying: observe.RunRetrying, journal.StepStarted: observe.StepStarted,
	journal.StepCompleted: observe.StepSucceeded, journal.StepFailed: observe.StepFailed,
	journal.StepTimedOut: observe.StepFailed, journal.StepRetrying: observe.StepRetrying,
	journal.StepCancelled: observe.StepCancelled,
}

// tell tells observers of the entries of a change, which are durable.
func (r *run) tell(c *store.Change) {
	if r.k.cfg.Observe == nil {
		return
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		kind := noticeOf[e.Kind]
		if kind == "" {
			continue
		}
		n := r.notice(kind)
		n.At, n.Took, n.Attempt = e.At, e.Took, e.Attempt()
		if e.Status != 0 {
			n.Status = e.Status.String()
		}
		if !e.Op.IsZero() {
			n.Step = r.pathOf(e.Op)
		}
		if d := e.Detail; d != nil {
			n.Due, n.Reason = d.Due, d.Reason
			if d.Failures > 0 {
				n.Attempt = d.Failures
			}
			if f := d.Failure; f != nil {
				n.Err = f.Message
				c := f.ClassOf()
				n.Benign = c != nil && c.Class == journal.ClassBenign
			}
		}
		r.k.observe(n)
	}
}

// pathOf shows an operation with the scopes it is in.
func (r *run) pathOf(op journal.Op) string {
	if op.Scope == 0 {
		return op.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[op.Scope] + op.String()
}

func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}
