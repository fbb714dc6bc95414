package kernel

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The policies for a child when its parent ends. A cancelled parent cancels its children, unless
// they are detached: see [journal.ChildDetached].
const (
	childStays = ""       // the child goes on, and nobody hears of its end
	ChildEnds  = "cancel" // the child is cancelled, however the parent ends
)

// A Child is a run of another workflow that workflow code starts as part of its own.
type Child struct {
	Name string // of the operation
	Key  string
	Change
	Workflow string
	Pattern  journal.Pattern
	ID       string // its workflow ID; empty for one of its own
	Input    []byte
	Keep     time.Duration
	Policy   string // one of the above
	// Headers are added to those of the run, which the child gets as well.
	Headers    map[string]string
	Attributes map[string]string // the search attributes that the child begins with
	Variables  bool              // the child begins with the variables of the run
	// Once makes a run of the workflow ID that has ended count as an open one does: the child fails
	// before it begins.
	Once bool
}

// StartChild starts a run as part of this one and returns the operation that ends with the child.
// The operation of a detached child ends when the child is durable. The same operation of a run
// never starts two children.
func StartChild(ctx context.Context, c Child) (*Operation, journal.RunID, error) {
	what := call{"child", c.Name}
	s, err := scopeOf(ctx, what)
	if err != nil {
		return nil, "", err
	}
	r, over := s.run, s.overBefore(ctx)
	spill, failure := s.spillOver("the input", &c.Input)
	if failure != nil {
		return nil, "", &journal.Error{
			Code: failure.Code, Op: what.String(), Message: failure.Message,
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := s.enter(what); err != nil {
		return nil, "", err
	}
	op, rec := s.ask(asked{c.Name, c.Key, isChild, c.Change, false})
	o := &operation{
		run: r, scope: s, id: op, class: isChild, want: want{from: childName}, policy: c.Policy,
	}
	if rec != nil {
		o.child, o.policy = rec.other, rec.policy
		if rec.ended != nil {
			o.recorded(rec.ended)
			return (*Operation)(o), o.child, nil
		}
	} else if over != nil {
		r.operations.track(o)
		o.endBy(over)
		return (*Operation)(o), "", nil
	} else if err := o.create(c, spill); err != nil {
		return nil, "", err
	}
	if o.policy == journal.ChildDetached {
		o.settled, o.delivered = true, true
		return (*Operation)(o), o.child, nil
	}
	r.operations.track(o)
	o.run.operations.begin(o)
	if o.listen(nil); !o.settled {
		o.wait()
		if rec != nil && r.memo.retried {
			r.adoption.add(o)
		}
	}
	return (*Operation)(o), o.child, nil
}

// given returns the entries of the variables that a child begins with. They are copies of the
// variables of the run. The code of the run does not see them, so it learns nothing by this. It is
// called, and returns, with the lock.
func (s *scope) given() (entries []journal.Entry, err error) {
	variables := s.run.values.variablesOf(nil)
	if len(variables) == 0 {
		return nil, nil
	}
	s.branch.withoutLock(func() {
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			data, failed := s.valueOf(variables[name])
			if err = failed; err != nil {
				return
			}
			spill, f := s.spillOver("variable "+name, &data)
			if f != nil {
				err = &journal.Error{Code: f.Code, Op: "variable " + name, Message: f.Message}
				return
			}
			entries = append(entries, withPayload(journal.Entry{
				Kind:   journal.VariableSet,
				Detail: &journal.Detail{VariableDetail: journal.VariableDetail{Variable: name}},
			}, data, spill))
		}
	})
	if err != nil {
		return nil, err
	}
	return entries, s.ended()
}

// create records the child and makes it durable with that record. A child whose workflow ID is
// taken ends as failed, before it has begun.
func (o *operation) create(c Child, spill journal.Number) error {
	r := o.run
	var begins []journal.Entry
	if c.Variables {
		var err error
		if begins, err = o.scope.given(); err != nil {
			return err
		}
	}
	n, err := r.k.number()
	if err != nil {
		return &journal.Error{Code: journal.CodeStopped, Op: "child " + c.Name, Err: err}
	}
	now := r.k.Now()
	o.child = journal.MakeRunID(r.k.database(), n)
	head := journal.Head{
		Number: n, ID: o.child, WorkflowID: c.ID, Workflow: c.Workflow, Pattern: c.Pattern,
		Status: journal.Pending, Wake: now, Created: now, Chain: n, Parent: r.number(),
		Keep:   c.Keep,
		Retain: r.k.retention(c.Workflow),
	}
	if c.ID == "" {
		head.WorkflowID = string(o.child)
	}
	start := withPayload(journal.Entry{
		Kind: journal.RunStarted, Status: journal.Pending,
		Detail: &journal.Detail{
			CodeDetail: journal.CodeDetail{Build: r.k.cfg.Build},
			StartDetail: journal.StartDetail{
				Headers:    r.k.trace.child(r, r.values.inherited(c.Headers)),
				Attributes: c.Attributes,
			},
		},
	}, c.Input, spill)
	entries := append([]journal.Entry{start}, begins...)
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = n, int64(i+1), now
	}
	change := &store.Change{Run: n, Create: true, Head: &head, Entries: entries}
	if c.Once {
		change.Since = time.Unix(0, 1)
	}
	if c.Policy == journal.ChildDetached {
		head.Parent = 0
	} else {
		f := &journal.Failure{
			Code: journal.CodeConflict,
			Message: "the workflow ID " + head.WorkflowID + " of child " + o.path() +
				" is held by another run",
		}
		change.Else = []store.Post{{
			Run:     r.number(),
			Message: childEnded(now, o.child, o.child, journal.Failed, Outcome{Failure: f}, 0),
		}}
	}
	r.append(journal.Entry{Kind: journal.ChildStarted, Op: o.id, Detail: &journal.Detail{
		Other: o.child, Policy: c.Policy,
	}})
	r.send(outgoing{create: change})
	return nil
}

// childEnded returns the message that tells a parent of the end of its child. The parent knows the
// child by its first run; the message also has the last one.
func childEnded(
	now time.Time, child, last journal.RunID, status journal.Status, out Outcome,
	spill journal.Number,
) journal.Entry {
	e := journal.Entry{
		Kind: journal.ChildCompleted, At: now,
		Op: journal.Op{Name: childName, Key: string(child)}, Data: out.Data, Spill: spill,
		Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{Message: "ended/" + string(last)}, Other: child,
			Outcome: status, Failure: out.Failure,
		},
	}
	if spill != 0 {
		e.Data = nil
	}
	return e
}

// asksCancel returns the message by which a run cancels its child.
func asksCancel(
	now time.Time, parent, child journal.RunID, n journal.Number, reason string,
	mode journal.Action,
) *store.Post {
	return &store.Post{Run: n, Follow: store.FollowChain, Force: true, Message: journal.Entry{
		Kind: journal.CancelAsked, At: now, Op: journal.Op{Name: controlName},
		Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{
				Message: "parent/" + string(parent) + "/" + string(child), Mode: mode,
			},
			Reason: reason,
		},
	}}
}

// CancelChild asks a child to end. Its operation ends when the child has.
func (f *Operation) CancelChild(ctx context.Context, reason string) error {
	o := (*operation)(f)
	n, ok := o.child.Number(o.run.k.database())
	if !ok {
		return nil
	}
	_, err := TakeNote(ctx, Note{
		Kind: journal.ValueRecorded, Name: "cancel:" + o.id.Name, Key: o.id.Key,
		Detail: &journal.Detail{Reason: reason, Other: o.child},
		post:   asksCancel(o.run.k.Now(), o.run.id(), o.child, n, reason, ""),
	})
	return err
}

// endsWith reports whether a child with that policy is cancelled when its run ends with that
// status.
func endsWith(policy string, status journal.Status) bool {
	return policy == ChildEnds || policy == childStays && status == journal.Cancelled
}

// cancelOf returns the message that cancels a child of a run, with compensation if the run ends so.
// It is empty if the child has no number here.
func cancelOf(r *run, child journal.RunID, why string, d *journal.Detail) outgoing {
	n, ok := child.Number(r.k.database())
	if !ok {
		return outgoing{}
	}
	mode := journal.Action("")
	if d != nil && d.Mode == journal.ActionCompensate {
		mode = d.Mode
	}
	return outgoing{post: asksCancel(r.k.Now(), r.id(), child, n, why, mode)}
}

// An adoption has the children that an earlier run of the chain has begun, until their ends are
// asked for.
//
// Invariant: while it has children, or a request for their ends is in progress, exactly one
// goroutine asks. The mu of the run guards it.
type adoption struct {
	run      *run
	children []*operation
	asking   bool
}

func newAdoption(r *run) adoption { return adoption{run: r} }

// add asks the store for the end of a child that may have told the earlier run. A child that ends
// from now on tells this one. It is called with the lock.
func (d *adoption) add(o *operation) {
	d.children = append(d.children, o)
	if d.asking {
		return
	}
	d.asking = true
	d.run.inbox.hold()
	go d.ask()
}

// take removes the children whose ends are to be asked for, and returns them.
func (d *adoption) take() []*operation {
	some := d.children
	d.children = nil
	return some
}

// end records that nobody asks any more.
func (d *adoption) end() { d.asking = false }

// ask asks for the ends of all children that have been added meanwhile.
func (d *adoption) ask() {
	r := d.run
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.gone() {
		some := d.take()
		if len(some) == 0 {
			break
		}
		r.mu.Unlock()
		ends, err := r.k.endsOf(some)
		r.mu.Lock()
		if err != nil { // the engine is over, as its next claim will report
			r.k.look()
			break
		}
		for i, o := range some {
			if e := ends[i]; e.Kind != 0 && !o.settled && !r.gone() {
				o.outcome.Data = e.Data
				if e.Spill != 0 {
					e.Data = nil
				}
				o.settle(e)
			}
		}
	}
	d.end()
	r.inbox.letGo()
	if !r.gone() {
		r.dispatch()
	}
}

// endsOf returns the ends of children, in the form that their parent records; zero for a child that
// is open. It waits as long as the store does not answer.
func (k *Kernel) endsOf(children []*operation) ([]journal.Entry, error) {
	ids := make([]journal.RunID, len(children))
	for i, o := range children {
		ids[i] = o.child
	}
	out := make([]journal.Entry, len(children))
	err := k.persist(func() error {
		lines, err := k.lines(context.Background(), ids)
		if err != nil {
			return err
		}
		heads := make([]journal.Head, 0, len(lines))
		for _, l := range lines {
			heads = append(heads, l.last)
		}
		for some := range slices.Chunk(heads, store.MaxLimit) {
			ends, err := k.Outcomes(context.Background(), some)
			if err != nil {
				return err
			}
			for i, child := range ids {
				out[i] = endOf(child, lines[child].last, ends, out[i])
			}
		}
		for i, child := range ids {
			if lines[child].last.Number == 0 {
				out[i] = goneChild(child)
			}
		}
		return nil
	})
	for i := range out {
		if err == nil && len(out[i].Data) > 0 {
			out[i].Spill, _ = k.persistPayload("the output of child "+string(ids[i]), &out[i].Data)
		}
	}
	return out, err
}

// goneChild returns the end of a child that was removed before its parent heard of its end.
func goneChild(child journal.RunID) journal.Entry {
	return journal.Entry{Kind: journal.ChildCompleted, Detail: &journal.Detail{
		Other: child, Outcome: journal.Failed, Failure: &journal.Failure{
			Code:    journal.CodeNotFound,
			Message: "child " + string(child) + " was removed when its retention was over",
		},
	}}
}

// endOf returns the end of a child if ends has it, or else the known entry.
func endOf(
	child journal.RunID, last journal.Head, ends map[journal.Number]Outcome, known journal.Entry,
) journal.Entry {
	out, ended := ends[last.Number]
	if !ended || last.Status == journal.ContinuedAsNew {
		return known
	}
	return journal.Entry{
		Kind: journal.ChildCompleted, Data: out.Data,
		Detail: &journal.Detail{Other: child, Outcome: last.Status, Failure: out.Failure},
	}
}
