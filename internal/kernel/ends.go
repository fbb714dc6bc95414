package kernel

import (
	"context"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A termination is an end that a run may come to.
type termination struct {
	last journal.Entry  // the terminal record
	why  string         // the reason for the operations that are cancelled
	end  *journal.Error // the error that workflow code gets
	out  Outcome        // of the run
}

// mode returns the mode of a cancel; empty for none.
func (t termination) mode() journal.Action {
	if t.last.Detail == nil {
		return ""
	}
	return t.last.Detail.Mode
}

// completedWith returns the end of a run whose function has returned.
func completedWith(data []byte, spill journal.Number) termination {
	return termination{
		last: withPayload(
			journal.Entry{Kind: journal.RunCompleted, Status: journal.Completed}, data, spill,
		),
		why: "workflow completed", out: Outcome{Data: data},
		end: &journal.Error{Code: journal.CodeCompleted, Message: "the workflow has returned"},
	}
}

// withPayload returns an entry with a payload, which may be in rows of its own.
func withPayload(e journal.Entry, data []byte, spill journal.Number) journal.Entry {
	if e.Spill = spill; spill == 0 {
		e.Data = data
	}
	return e
}

// failedBy returns the end of a run that is FAILED with that failure.
func failedBy(f *journal.Failure) termination {
	return termination{
		last: journal.Entry{
			Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{Failure: f},
		},
		why: "workflow failed: " + f.Text(), out: Outcome{Failure: f},
		end: &journal.Error{
			Code: journal.CodeFailed, Message: "the workflow has failed: " + f.Text(),
		},
	}
}

// endedAs returns the end of a run with that status, output and failure.
func endedAs(
	status journal.Status, data []byte, spill journal.Number, f *journal.Failure,
) termination {
	e := withPayload(journal.Entry{Kind: kindOfEnd(status), Status: status}, data, spill)
	if f != nil {
		e.Detail = &journal.Detail{Failure: f, Reason: f.Message}
	}
	why := "workflow ended as " + status.String()
	return termination{
		last: e, why: why, out: Outcome{Data: data, Failure: f},
		end: &journal.Error{Code: journal.CodeCompleted, Message: "the " + why},
	}
}

// kindOfEnd returns the kind of the terminal record of a status.
func kindOfEnd(s journal.Status) journal.Kind {
	switch s {
	case journal.Cancelled, journal.Canceled:
		return journal.RunCancelled
	case journal.TimedOut:
		return journal.RunTimedOut
	}
	if s.IsSuccess() {
		return journal.RunCompleted
	}
	return journal.RunFailed
}

// cancelledBy returns the end of a run that is CANCELLED. mail is the number of the message that
// asked for it; 0 if the reason is another one.
func cancelledBy(by Why, mail int64) termination {
	why := "workflow cancelled: " + by.Reason
	if by.Mode == journal.ActionTerminate {
		why = "workflow terminated: " + by.Reason
	}
	f := &journal.Failure{Code: journal.CodeCancelled, Message: why}
	d := &journal.Detail{
		Failure:       f,
		Reason:        by.Reason,
		By:            by.By,
		MessageDetail: journal.MessageDetail{Mail: mail, Mode: by.Mode},
	}
	return termination{
		last: journal.Entry{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: d},
		why:  why, out: Outcome{Failure: f},
		end: &journal.Error{Code: journal.CodeCancelled, Message: why},
	}
}

// timedOut returns the end of a run that is TIMED_OUT.
func timedOut() termination {
	f := &journal.Failure{Code: journal.CodeTimedOut, Message: "workflow timed out"}
	return termination{
		last: journal.Entry{
			Kind: journal.RunTimedOut, Status: journal.TimedOut,
			Detail: &journal.Detail{Failure: f},
		},
		why: f.Message, out: Outcome{Failure: f},
		end: &journal.Error{Code: journal.CodeTimedOut, Message: f.Message},
	}
}

// ofChildren returns the reason for which the children that end with the run are cancelled. If the
// run itself is cancelled, it is the reason of that.
func (t *termination) ofChildren() string {
	if d := t.last.Detail; t.last.Kind == journal.RunCancelled && d != nil && d.Reason != "" {
		return d.Reason
	}
	return "parent " + strings.TrimPrefix(t.why, "workflow ")
}

// terminate ends the run: first every step still running is cancelled, in the
// order of the starts, then the run's own terminal record follows (L-12 of the
// spec). No record waits for a step's goroutine. Contexts end, and branches
// hear of it, when the records are durable. With the record go the messages to
// the parent and to children.
func (r *run) terminate(t termination) {
	e := t.last
	for _, o := range r.operations.running() {
		switch o.class {
		case isScope:
			r.append(journal.Entry{
				Kind: journal.ScopeCancelled, Op: o.id, Detail: &journal.Detail{Reason: t.why},
			})
		case isStep, isAsync:
			o.stop(t.why)
		case isChild:
			if endsWith(o.policy, e.Status) {
				r.send(cancelOf(r, o.child, t.ofChildren(), e.Detail))
			}
		}
	}
	steps, children := r.memo.leftOpen(e.Status)
	for _, rec := range steps {
		d := &journal.Detail{
			Reason:     t.why,
			StepDetail: journal.StepDetail{Async: rec.class == isAsync},
		}
		r.append(journal.Entry{Kind: journal.StepCancelled, Op: rec.op, Detail: d})
	}
	for _, rec := range children {
		r.send(cancelOf(r, rec.other, t.ofChildren(), e.Detail))
	}
	r.deadline.stop()
	r.endBy(t.end)
	if r.follows() && e.Kind != journal.RunContinued {
		r.append(changeOf(r, &e, observe.Outcome(observe.RunEnded, e.Status.String())))
	}
	now := r.k.Now()
	r.endHead(
		&e, now, r.last()+1,
		r.deadLetters.keep(r.start, e.Status, r.head().Keep, r.k.cfg.KeepDeadLettered),
	)
	if r.k.tells(r.head()) {
		d := journal.Detail{}
		if e.Detail != nil {
			d = *e.Detail
		}
		d.Tell = true
		e.Detail = &d
	}
	r.append(e)
	out := r.ending.outcome()
	if r.head().Parent != 0 && e.Kind != journal.RunContinued {
		child := journal.MakeRunID(r.k.database(), r.head().Chain)
		r.send(outgoing{post: &store.Post{
			Run: r.head().Parent, Follow: store.FollowRetry,
			Message: childEnded(now, child, r.id(), e.Status, out, e.Spill),
		}})
	}
	for _, p := range r.deadLetters.settle(now, r.id(), r.start, e.Status, out.Failure) {
		r.send(outgoing{post: &p})
	}
	r.seal()
}

// ContinueAsNew ends the run of ctx and starts a successor with that input under the same workflow
// ID, from the beginning and with an empty journal. In the same commit the successor gets the
// messages that were not taken and the named timers that have not fired. ContinueAsNew returns the
// termination error.
func ContinueAsNew(ctx context.Context, input []byte) error {
	what := call{verb: "continue as new"}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	spill, failure := s.spillOver("the input", &input)
	if failure != nil {
		return &journal.Error{Code: failure.Code, Op: what.String(), Message: failure.Message}
	}
	return finishRun(ctx, what, func(r *run) *journal.Error {
		return r.continueAsNew(input, spill)
	})
}

func (r *run) continueAsNew(input []byte, spill journal.Number) *journal.Error {
	if c := r.ending.closing(); c != nil { // no entry comes after that
		c.deliver()
		return c.end
	}
	n, err := r.k.number()
	if err != nil {
		return &journal.Error{Code: journal.CodeStopped, Op: "continue as new", Err: err}
	}
	id := journal.MakeRunID(r.k.database(), n)
	timers := r.operations.openTimers(r.memo, r.id())
	end := &journal.Error{Code: journal.CodeCompleted, Message: "the workflow has continued as new"}
	r.terminate(termination{
		last: journal.Entry{
			Kind: journal.RunContinued, Status: journal.ContinuedAsNew,
			Detail: &journal.Detail{Other: id},
		},
		why: "workflow continued as new", end: end,
	})
	now := r.k.Now()
	// so that the successor is the newer run, whatever the clocks of nodes show
	created := later(now, r.head().Ended.Add(1))
	start := &journal.Detail{
		CodeDetail: journal.CodeDetail{Build: r.k.cfg.Build},
		Other:      r.id(),
		StartDetail: journal.StartDetail{
			Headers: r.values.allHeaders(), Attributes: r.values.searchAttributes(),
			Began: r.created(), Ended: r.head().Ended,
		},
	}
	entries := append([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Pending, Data: input, Spill: spill,
			Detail: start,
		},
	}, timers...)
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = n, int64(i+1), created
	}
	if spill != 0 {
		entries[0].Data = nil
	}
	h := r.head()
	r.send(outgoing{create: &store.Change{Run: n, Create: true, From: h.Number, Entries: entries,
		Head: &journal.Head{
			Number: n, ID: id, WorkflowID: h.WorkflowID, Workflow: h.Workflow, Pattern: h.Pattern,
			Status: journal.Pending, Wake: now, Created: created, Chain: h.Chain, Parent: h.Parent,
			Keep:   h.Keep,
			Retain: r.k.retention(h.Workflow),
		}}})
	return end
}
