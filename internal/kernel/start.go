package kernel

import (
	"cmp"
	"context"
	"time"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Start is a request for a new run, or for the run that its workflow ID stands for.
type Start struct {
	Workflow string
	Pattern  journal.Pattern
	ID       string // the workflow ID; empty for one of its own
	Input    []byte
	Headers  map[string]string
	// Attributes are the search attributes that the run begins with.
	Attributes map[string]string
	// a run of the same workflow and ID that ended this long ago or less counts as the same
	Dedup time.Duration
	// At is when the run begins at the earliest; zero for at once.
	At time.Time
}

// due returns when a run that is started now begins; zero for at once.
func (s *Start) due(now time.Time) time.Time {
	if !s.At.After(now) {
		return time.Time{}
	}
	return s.At.UTC().Round(0)
}

// A Started is the result of a start.
type Started struct {
	Head journal.Head
	New  bool
	run  *run // its activation here; nil if there is none
}

const (
	unsureStart = "the run may or may not be started"
	againStart  = "start it again under the same workflow ID"
)

// start makes a run durable, or finds the run that its ID stands for.
func (k *Kernel) start(ctx context.Context, s Start) (Started, error) {
	r, err := k.begin(ctx, s)
	if err != nil {
		return Started{}, err
	}
	return k.begun(ctx, s, r)
}

// begin makes a run, which the pipeline makes durable.
func (k *Kernel) begin(ctx context.Context, s Start) (*run, error) {
	op := "start " + s.Workflow
	if err := k.running(ctx, op); err != nil {
		return nil, err
	}
	if err := k.admitted(ctx, op); err != nil {
		return nil, err
	}
	k.awake(ctx)
	r, err := k.prepare(k.trace.start(ctx, s))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.seal()
	r.mu.Unlock()
	return r, nil
}

// begun waits until the run of a start is durable, or until the run that the ID stands for is
// found.
func (k *Kernel) begun(ctx context.Context, s Start, r *run) (Started, error) {
	op := "start " + s.Workflow
	select {
	case <-r.begun:
	case <-r.done:
	case <-ctx.Done():
		return Started{}, &journal.Error{
			Code: journal.CodeUnavailable, Op: op, Message: "the store has not answered: " +
				unsureStart, Err: context.Cause(ctx),
			Hint: againStart,
		}
	case <-k.dead:
		return Started{}, k.stopped(op, unsureStart, againStart)
	}
	r.mu.Lock()
	met := r.admission.met
	r.mu.Unlock()
	if met != nil { // the run is durable; the end of ctx leaves open which run stands for it
		select {
		case <-met:
		case <-r.done:
		case <-ctx.Done():
		case <-k.dead:
		}
	}
	found, err := k.started(op, s, r)
	if into := r.admission.stands(); err == nil && into != "" {
		if head, err := k.Find(ctx, string(into)); err == nil {
			return Started{Head: head, run: k.loadedRun(head.Number)}, nil
		}
	}
	return found, err
}

// prepare makes the run and its first entry.
func (k *Kernel) prepare(s Start) (*run, error) {
	op := "start " + s.Workflow
	n, err := k.number()
	if err != nil {
		return nil, &journal.Error{Code: journal.CodeStopped, Op: op, Err: err}
	}
	def := k.Lookup(s.Workflow)
	asks, under, failure := k.limitsOf(def, s.Input)
	if failure != nil {
		return nil, &journal.Error{Code: failure.Code, Op: op, Message: failure.Message}
	}
	spill, failure := k.persistPayload("the input", &s.Input)
	if failure != nil {
		return nil, &journal.Error{Code: failure.Code, Op: op, Message: failure.Message}
	}
	now := k.Now()
	if s.ID == "" { // nobody else can have its workflow ID
		s.Dedup = 0
	}
	r := k.newRun(k.headOf(&s, n, def, now), def, nil)
	since := time.Time{}
	if s.Dedup > 0 {
		since = now.Add(-s.Dedup)
	}
	r.admission.under = under
	r.beginNew(since)
	r.start = &journal.Detail{
		Due:         s.due(now),
		CodeDetail:  journal.CodeDetail{Build: k.cfg.Build},
		StartDetail: journal.StartDetail{Headers: s.Headers, Attributes: s.Attributes},
	}
	r.values.begin(s.Input, 0, &r.start.StartDetail)
	switch due := r.start.Due; {
	case !due.IsZero():
		r.leaveHead(journal.Pending, beginsAt(due), due)
		r.leave()
	case def == nil || k.rules.Load().IsPaused(def.Name) || !k.takeSlot(r):
		r.leaveHead(journal.Pending, "", now)
		r.leave()
	default:
		r.ending.imply(def.CleansUp && len(asks) == 0)
		r.start.CleansUp, r.start.Layers = def.CleansUp, def.Layers
		r.start.Limited = len(asks) > 0
	}
	e := journal.Entry{
		Kind: journal.RunStarted, Status: r.status(), Data: s.Input, Spill: spill, Detail: r.start,
	}
	if spill != 0 {
		e.Data = nil
	}
	r.append(e)
	switch due := r.start.Due; {
	case !due.IsZero():
		r.whenDurable(effect{do: func() { k.wakeBy(due) }})
	case r.hasLeft():
		// a slot may have become free, or the workflow known, meanwhile
		r.whenDurable(effect{do: k.look})
	case len(asks) > 0:
		if asks[0].Slot == rules.OneSlot && def.Singleton == singletonJoins {
			r.admission.met = make(chan struct{})
		}
		r.admission.askFirst(asks, func() {
			r.ending.imply(def.CleansUp)
			r.root.call()
		})
	}
	return r, nil
}

// headOf returns the head of a new run that this engine executes.
func (k *Kernel) headOf(s *Start, n journal.Number, def *Workflow, now time.Time) journal.Head {
	head := journal.Head{
		Number: n, ID: journal.MakeRunID(k.database(), n), WorkflowID: s.ID, Workflow: s.Workflow,
		Pattern: s.Pattern,
		Status:  journal.Running, Owner: k.engine, Wake: now, Created: now, Chain: n, Keep: s.Dedup,
		Retain: k.retention(s.Workflow),
	}
	head.WorkflowID = cmp.Or(head.WorkflowID, string(head.ID))
	if def != nil && def.First != 0 {
		head.Status = def.First
	}
	return head
}

// admitted waits until there is room for what is not yet durable.
func (k *Kernel) admitted(ctx context.Context, op string) error {
	let := make(chan struct{})
	k.gate.pass(func() { close(let) })
	select {
	case <-let:
		return nil
	case <-ctx.Done():
		return &journal.Error{
			Code: journal.CodeUnavailable, Op: op, Message: "the engine has more to write than " +
				"it may keep in memory", Err: context.Cause(ctx),
		}
	case <-k.dead:
		return k.cause()
	}
}

// started returns the result of a start.
func (k *Kernel) started(op string, s Start, r *run) (Started, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict, found := r.startedAs()
	switch {
	case refusal(r.refusedBy()):
		return Started{}, &journal.Error{
			Code: journal.CodeInvalid, Op: op, Message: "the store refuses it", Err: r.refusedBy(),
		}
	case r.noneDurable() && verdict == store.Written:
		return Started{}, k.stopped(op, unsureStart, againStart)
	case verdict == store.Taken:
		return Started{}, taken(op, s.ID, found)
	case verdict == store.Exists:
		return Started{Head: found, run: k.loadedRun(found.Number)}, nil
	}
	return Started{Head: r.head(), New: true, run: r}, nil
}

// outcome returns the outcome of a run by its last entry.
func (d *FrontEnd) outcome(ctx context.Context, h journal.Head) (Outcome, error) {
	entries, err := d.store.Load(ctx, h.Number, store.Range{From: h.Last, Limit: 1, Payloads: true})
	if err != nil {
		return Outcome{}, unavailable("read "+string(h.ID), err)
	}
	if len(entries) == 0 {
		return Outcome{}, &journal.Error{
			Code: journal.CodeCorrupt, Op: "read " + string(h.ID),
			Message: "its last entry is not there",
		}
	}
	return outcomeOf(&entries[0]), nil
}
