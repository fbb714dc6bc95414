package kernel

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/perdure/perdure/journal"
)

// A RunInfo describes a run to its workflow code.
type RunInfo struct {
	RunID      journal.RunID
	WorkflowID string
	Workflow   string
	Pattern    journal.Pattern
	Status     journal.Status
	Payload    []byte // the input, or the payload that replaced it
	Headers    map[string]string
	Attributes map[string]string
	Started    time.Time
	Steps      []string // the names of the steps that the code has run so far, in order
	Scope      string   // the path of the scope of the call, with a slash at its end

	// The run that this one continues, and when that run began and ended.
	Predecessor      journal.RunID
	Undoes           journal.RunID // the completed run whose effects it undoes; empty for none
	PredecessorBegan time.Time
	PredecessorEnded time.Time
}

// CodeOf returns the run whose workflow code has ctx, and reports whether that code does again what
// it did before. It returns false if ctx is not that of workflow code.
func CodeOf(ctx context.Context) (h journal.Head, again, is bool) {
	s, is := ctx.Value(contextKey{}).(*scope)
	if !is {
		return journal.Head{}, false, false
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head(), r.replays(r.memo), true
}

// InfoOf returns the state of the run of ctx: in workflow code, and in the body of a step.
func InfoOf(ctx context.Context) (RunInfo, error) {
	var s *scope
	var by *operation
	var body *attempt
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		s = v
	case *attempt:
		s, by, body = v.op.scope, v.op, v
	default:
		_, err := scopeOf(ctx, call{verb: "info"})
		return RunInfo{}, err
	}
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	payload, err := s.payloadNow()
	if err != nil {
		return RunInfo{}, err
	}
	if r.values.isChanged() {
		s.learns(by)
	}
	h := r.head()
	i := RunInfo{
		RunID: h.ID, WorkflowID: h.WorkflowID, Workflow: h.Workflow, Pattern: h.Pattern,
		Status: h.Status, Payload: payload, Attributes: maps.Clone(r.values.searchAttributes()),
		Headers: maps.Clone(r.values.allHeaders()), Started: h.Created,
		Steps: r.values.stepNames(), Scope: s.path,
	}
	if !r.gone() { // the code has seen neither the waits beside it nor the statuses still to be set
		i.Status = r.values.knownStatus()
	}
	if d := r.start; d != nil {
		i.Predecessor, i.PredecessorBegan, i.PredecessorEnded = d.Other, d.Began, d.Ended
		i.Undoes = d.Undoes
	}
	if body != nil {
		for e := range body.written(journal.HeaderSet) {
			i.Headers = with(i.Headers, e.Detail.Variable, e.Data)
		}
	}
	return i, nil
}

// JournalOf returns the head of the run of ctx, and the durable entries of its journal. It is
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

// Runs returns the heads of the runs of workflow IDs, in their order, with a zero head for an ID
// that no run has. It is called in the body of a step.
func Runs(ctx context.Context, ids []string) ([]journal.Head, error) {
	s, err := StepOf(ctx, "runs")
	if err != nil {
		return nil, err
	}
	return s.a.op.run.k.Stand(ctx, ids)
}

// OwnerOf returns the engine of the application that executes the step of ctx. It is called in the
// body of a step.
func OwnerOf(ctx context.Context) (any, error) {
	s, err := StepOf(ctx, "engine")
	if err != nil {
		return nil, err
	}
	return s.a.op.run.k.owner, nil
}

// Skipped reports whether an operator has skipped a step of the scope of ctx, and whether the step
// was an async one.
func Skipped(ctx context.Context, name, key string) (skipped, async bool, err error) {
	s, err := inside(ctx, call{"skipped", name})
	if err != nil {
		return false, false, err
	}
	defer s.run.mu.Unlock()
	rec := s.run.memo.recordOf(journal.Op{Scope: s.id, Name: name, Key: key, Occ: 1})
	if rec == nil || rec.ended == nil || rec.ended.Detail == nil || !rec.ended.Detail.Skipped {
		return false, false, nil
	}
	return true, rec.class == isAsync, nil
}

// payloadNow returns the payload of the run, and fetches it if it is still in the store. It is
// called, and returns, with the lock.
func (s *scope) payloadNow() ([]byte, error) {
	r := s.run
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

// Leaving reports whether the run of ctx leaves memory without having ended.
func Leaving(ctx context.Context) bool {
	s, err := scopeOf(ctx, call{verb: "leaving"})
	if err != nil {
		return false
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return s.run.hasLeft()
}

// EndingBy returns the failure that the run of ctx, a clean-up, will end with; nil if the run has
// not failed.
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

// top returns the outermost scope that s is in.
func (s *scope) top() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// EndingAs returns the status that the run of ctx, a clean-up, will end with.
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
	return 0, &journal.Error{
		Code: journal.CodeMisuse, Op: "ending", Message: "called outside a clean-up",
	}
}

// Undoes reports whether the run of ctx, a clean-up, is cancelled with compensation.
func Undoes(ctx context.Context) (bool, error) {
	s, err := inside(ctx, call{verb: "ending"})
	if err != nil {
		return false, err
	}
	defer s.run.mu.Unlock()
	d := s.run.ending.detail()
	return s.top().cause == nil && d != nil && d.Mode == journal.ActionCompensate, nil
}

// Over returns the termination error if the run, or the branch, of ctx is over or ends.
func Over(ctx context.Context) error {
	what := call{verb: "over"}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return err
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if err := s.stay(what); err != nil {
		return err
	}
	return s.ended()
}

// IsEnd reports whether err is the error that ends the run of ctx, as EndRun, Fail and CancelRun
// return it. A clean-up that returns that error has not failed.
func IsEnd(ctx context.Context, err error) bool {
	s, outside := scopeOf(ctx, call{verb: "end"})
	if outside != nil {
		return false
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	c := s.run.ending.closing()
	var end *journal.Error
	return c != nil && errors.As(err, &end) && end == c.end
}

// Fail ends the run of ctx as FAILED with f. It returns the termination error.
func Fail(ctx context.Context, f *journal.Failure) error {
	return finishRun(
		ctx, call{verb: "fail"},
		func(r *run) *journal.Error { return r.finish(failedBy(f), false) },
	)
}

// CancelRun ends the run of ctx as CANCELLED. It returns the termination error.
func CancelRun(ctx context.Context, reason string) error {
	return finishRun(
		ctx, call{verb: "cancel"},
		func(r *run) *journal.Error { return r.finish(cancelledBy(Why{Reason: reason}, 0), false) },
	)
}

// EndRun ends the run of ctx with that status, output and failure. It returns the termination
// error.
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
	return finishRun(
		ctx, what,
		func(r *run) *journal.Error { return r.finish(endedAs(status, data, spill, f), false) },
	)
}

func finishRun(ctx context.Context, what call, end func(*run) *journal.Error) error {
	s, err := inside(ctx, what)
	if err != nil {
		return err
	}
	r := s.run
	defer r.mu.Unlock()
	r.observed.tellReplayed(true)
	return end(r)
}
