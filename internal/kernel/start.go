package kernel

import (
	"context"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Start asks for a new run, or for the one that its workflow ID stands for.
type Start struct {
	Workflow string
	Pattern  journal.Pattern
	ID       string // the workflow ID; empty for one of its own
	Input    []byte
	Headers  map[string]string
	// Attributes are search attributes that the run begins with.
	Attributes map[string]string
	Dedup      time.Duration // a run of the same workflow and ID that ended this long ago or less counts as the same
}

// A Started is what a start gives.
type Started struct {
	Head journal.Head
	New  bool
	run  *run // its residence here; nil without
}

// Start makes a run durable, or finds the one that its ID stands for. When it
// returns without an error, the run is never lost. When ctx ends first, the run
// may or may not be started: the same start with the same ID tells.
func (k *Kernel) Start(ctx context.Context, s Start) (Started, error) {
	op := "start " + s.Workflow
	if err := k.running(ctx, op); err != nil {
		return Started{}, err
	}
	if err := k.admitted(ctx); err != nil {
		return Started{}, err
	}
	r, err := k.prepare(s)
	if err != nil {
		return Started{}, err
	}
	r.mu.Lock()
	r.seal(r.seq)
	r.mu.Unlock()
	select {
	case <-r.begun:
	case <-r.done:
	case <-ctx.Done():
		return Started{}, &journal.Error{
			Code: journal.CodeUnavailable, Op: op, Message: "the store has not answered: the run may or may not be started", Err: context.Cause(ctx),
			Hint: "start it again under the same workflow ID",
		}
	case <-k.dead:
		return Started{}, &journal.Error{Code: journal.CodeStopped, Op: op, Message: "the engine has stopped: the run may or may not be started", Err: k.err}
	}
	return k.started(op, s, r)
}

// prepare makes the run and its first entry.
func (k *Kernel) prepare(s Start) (*run, error) {
	op := "start " + s.Workflow
	n, err := k.number()
	if err != nil {
		return nil, &journal.Error{Code: journal.CodeStopped, Op: op, Err: err}
	}
	spill, failure := k.spillOver("the input", &s.Input)
	if failure != nil {
		return nil, &journal.Error{Code: failure.Code, Op: op, Message: failure.Message}
	}
	now := time.Now()
	def := k.Lookup(s.Workflow)
	head := journal.Head{
		Number: n, ID: journal.MakeRunID(k.database(), n), WorkflowID: s.ID, Workflow: s.Workflow, Pattern: s.Pattern,
		Status: journal.Running, Owner: k.engine, Wake: now, Created: now, Chain: n, Keep: s.Dedup,
	}
	if s.ID == "" { // nobody else can have this one
		head.WorkflowID, head.Keep, s.Dedup = string(head.ID), 0, 0
	}
	r := k.newRun(head, def, nil)
	r.create = true
	if s.Dedup > 0 {
		r.since = now.Add(-s.Dedup)
	}
	r.input, r.payload = s.Input, s.Input
	r.attributes = s.Attributes
	r.start = &journal.Detail{Build: k.cfg.Build, Headers: s.Headers, Attributes: s.Attributes}
	if def == nil || !k.room(r) {
		r.leaveHead(journal.Pending, "", now)
		r.left = true
	}
	e := journal.Entry{Kind: journal.RunStarted, Status: r.head.Status, Data: s.Input, Spill: spill, Detail: r.start}
	if spill != 0 {
		e.Data = nil
	}
	r.append(e)
	if r.left {
		r.whenDurable(effect{do: k.look}) // a slot may have become free, or the workflow known, meanwhile
	}
	return r, nil
}

// room makes r resident where there is a slot for it.
func (k *Kernel) room(r *run) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.resident)+k.reserved >= k.cfg.Capacity {
		k.queued = true
		return false
	}
	k.resident[r.head.Number] = r
	return true
}

// admitted waits until there is room for what is not yet durable.
func (k *Kernel) admitted(ctx context.Context) error {
	let := make(chan struct{})
	k.gate.pass(func() { close(let) })
	select {
	case <-let:
		return nil
	case <-ctx.Done():
		return &journal.Error{Code: journal.CodeUnavailable, Op: "start", Message: "the engine has more to write than it may keep in memory", Err: context.Cause(ctx)}
	case <-k.dead:
		return k.err
	}
}

// started gives what became of a start.
func (k *Kernel) started(op string, s Start, r *run) (Started, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case refusal(r.refusal):
		return Started{}, &journal.Error{Code: journal.CodeInvalid, Op: op, Message: "the store refuses it", Err: r.refusal}
	case r.durable == 0 && r.verdict == store.Written:
		return Started{}, &journal.Error{
			Code: journal.CodeStopped, Op: op, Message: "the engine has stopped: the run may or may not be started", Err: r.refusal,
			Hint: "start it again under the same workflow ID",
		}
	case r.verdict == store.Taken:
		return Started{}, taken(op, s.ID, r.found)
	case r.verdict == store.Exists:
		return Started{Head: r.found, run: k.residentRun(r.found.Number)}, nil
	}
	return Started{Head: r.head, New: true, run: r}, nil
}

// Wait waits for a run to end and gives its head and how it ended; of one that
// continues as new, the last run of the chain. The end of ctx ends only the
// waiting.
func (k *Kernel) Wait(ctx context.Context, s Started) (journal.Head, Outcome, error) {
	if s.run != nil {
		select {
		case <-s.run.done:
		case <-ctx.Done():
			return journal.Head{}, Outcome{}, waited(ctx, s.Head)
		case <-k.dead:
			return journal.Head{}, Outcome{}, k.err
		}
		s.run.mu.Lock()
		head, out, ended := s.run.head, s.run.result, s.run.end != nil && s.run.refusal == nil && s.run.durable == s.run.seq
		s.run.mu.Unlock()
		if ended && head.Status != journal.ContinuedAsNew {
			return head, out, nil
		}
	}
	id := s.Head.ID
	ch := k.awaitEnd(s.Head.Number)
	defer func() {
		if ch != nil {
			k.awaited(ch)
		}
	}()
	for {
		head, err := k.Find(ctx, string(id))
		if err != nil {
			return journal.Head{}, Outcome{}, err
		}
		if head.Status.IsTerminal() {
			out, err := k.outcome(ctx, head)
			if err != nil || head.Status != journal.ContinuedAsNew {
				return head, out, err
			}
			id = out.Detail.Other
			if ch != nil {
				k.awaited(ch)
				ch = nil
			}
			continue
		}
		if ch == nil { // of the next one of the chain: it may end before it is waited for
			ch = k.awaitEnd(head.Number)
			continue
		}
		select {
		case <-ch.ended:
		case <-ctx.Done():
			return journal.Head{}, Outcome{}, waited(ctx, s.Head)
		case <-k.dead:
			return journal.Head{}, Outcome{}, k.err
		}
	}
}

func waited(ctx context.Context, h journal.Head) error {
	return &journal.Error{
		Code: journal.CodeTimedOut, Op: "wait for " + string(h.ID), Message: "the run goes on", Err: context.Cause(ctx),
	}
}

// An ending is what those wait for who want the end of a run that is not in
// memory.
type ending struct {
	run     journal.Number
	ended   chan struct{} // closed when the run has ended in this engine
	waiters int
}

func (k *Kernel) awaitEnd(n journal.Number) *ending {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.ends[n]
	if e == nil {
		e = &ending{run: n, ended: make(chan struct{})}
		k.ends[n] = e
	}
	e.waiters++
	return e
}

// awaited says that one of those who wait does so no more.
func (k *Kernel) awaited(e *ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.waiters--; e.waiters == 0 && k.ends[e.run] == e {
		delete(k.ends, e.run)
	}
}

// outcome reads how a run ended from its last entry.
func (d *Desk) outcome(ctx context.Context, h journal.Head) (Outcome, error) {
	entries, err := d.store.Load(ctx, h.Number, store.Range{From: h.Last, Limit: 1, Payloads: true})
	if err != nil {
		return Outcome{}, unavailable("read "+string(h.ID), err)
	}
	if len(entries) == 0 {
		return Outcome{}, &journal.Error{Code: journal.CodeCorrupt, Op: "read " + string(h.ID), Message: "its last entry is not there"}
	}
	return outcomeOf(&entries[0]), nil
}
