package kernel

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A family has the runs that one request starts: the run that goes on from the requested run, and
// one for each child, and child of a child, that has not ended well.
type family struct {
	front   *FrontEnd
	o       writer
	op      string
	request Request
	spill   journal.Number // of the new input; 0 if it is in a row of its own
	changes []store.Change // the run of the request is the first
}

// A plan has what is done for one run of a family.
type plan struct {
	entries         []journal.Entry // of the old run
	journal.Carried                 // to the new run
	inherited       []string        // in a fork: the paths of kept steps that may be undone
	failed          []journal.Head  // the children that are retried
}

// goOn adds the run that goes on from another one, and the runs that retry its children.
func (f *family) goOn(ctx context.Context, old journal.Head) error {
	p, err := f.plan(ctx, old)
	if err != nil {
		return err
	}
	if err := f.add(ctx, old, p); err != nil {
		return err
	}
	f.request = Request{Continuation: journal.Continuation{
		Action: journal.ActionRetry, By: f.request.By, Reason: f.request.Reason,
	}}
	for _, child := range p.failed {
		if err := f.goOn(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// plan finds what the new run keeps, and which children are retried. An open child stays as it is:
// it reports its end to the run that goes on in its parent's place.
func (f *family) plan(ctx context.Context, old journal.Head) (plan, error) {
	p := plan{}
	var refused error
	var err error
	if p.entries, err = f.read(ctx, old); err != nil {
		return p, err
	}
	if f.request.Continuation, err = f.request.Named(p.entries); err != nil {
		return p, err
	}
	if p.Carried, refused = f.carried(p.entries); refused != nil && p.Entries == nil {
		return p, refused
	}
	children := openChildren(p.Entries)
	lines, err := f.front.lines(ctx, children)
	if err != nil {
		return p, err
	}
	var anew []journal.RunID
	for _, child := range children {
		line, known := lines[child]
		switch status := line.last.Status; {
		case !known && neverBegan(p.entries, child), status == journal.Canceled,
			status == journal.Compensated:
			anew = append(anew, child)
		case !known:
			return p, &journal.Error{
				Code: journal.CodeNotFound, Op: f.op,
				Message: "child " + string(child) + " was removed when its retention was over",
				Hint: "what it has done is not known any more: start the workflow anew with what " +
					"is left to do",
			}
		case status == journal.Failed, status == journal.Cancelled, status == journal.TimedOut:
			if line.newer.Number != 0 {
				return p, superseded(f.op, line.last, line.newer)
			}
			p.failed = append(p.failed, line.last)
		case !status.IsTerminal():
			if err := f.mayAdopt(ctx, line.last); err != nil {
				return p, err
			}
		}
	}
	if anew != nil {
		p.Carried, refused = f.carried(p.entries, anew...)
	}
	if refused != nil {
		return p, refused
	}
	if f.request.Action == journal.ActionFork {
		if p.inherited, err = journal.Inherited(p.Entries); err != nil {
			return p, &journal.Error{Code: journal.CodeCorrupt, Op: f.op, Err: err}
		}
	}
	return p, f.mayCompensate(old, p.entries)
}

// mayCompensate returns an error if a run is to be compensated that has nothing to undo.
func (f *family) mayCompensate(old journal.Head, entries []journal.Entry) error {
	if f.request.Action != journal.ActionCompensate {
		return nil
	}
	a := journal.NewAggregate(old.ID, old.WorkflowID, old.Workflow, old.Pattern)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return &journal.Error{Code: journal.CodeCorrupt, Op: f.op, Err: err}
		}
	}
	s := a.Snapshot()
	code := s.Layers == nil && old.Pattern != journal.PatternMachine
	undoable, own := s.Undoable(), false
	for i := range s.Steps {
		if t := &s.Steps[i]; t.OwnUndo {
			own = true
		} else if code && slices.Contains(undoable, t.Path) {
			return wrongState(f.op, old, "step "+t.Path+" belongs to a saga or TCC within a code "+
				"workflow, and only its code can undo that")
		}
	}
	switch {
	case code && !own:
		return wrongState(f.op, old, "only graphs, sagas and machines can be compensated, and "+
			"code workflows whose steps have an Undo")
	case len(undoable) == 0:
		return wrongState(f.op, old, "it has nothing to undo")
	}
	return nil
}

// carried returns what is carried from a journal to the new run.
func (f *family) carried(
	entries []journal.Entry, anew ...journal.RunID,
) (journal.Carried, error) {
	c, err := journal.Continued(entries, f.request.Continuation, anew...)
	var refused *journal.Error
	if errors.As(err, &refused) {
		refused.Op = f.op
	}
	return c, err
}

// signals returns the signals for the new run, in the order in which they were sent: those that it
// takes again, and those that the old run has not taken. A message without its reply is for no run:
// its sender was told that the run has ended.
func (f *family) signals(ctx context.Context, old journal.Head, p *plan) ([]journal.Entry, error) {
	replied := map[string]bool{}
	for i := range p.entries {
		if e := &p.entries[i]; e.Kind == journal.ValueRecorded && e.Op.Name == ReplyName {
			replied[e.Op.Key] = true
		}
	}
	unread, err := f.front.Read(ctx, old, store.Range{Inbox: true})
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(append(p.Signals, unread...), func(e journal.Entry) bool {
		return e.Kind != journal.SignalReceived || e.Detail != nil &&
			strings.HasPrefix(e.Detail.Message, journal.UpdateID) && !replied[e.Detail.Message]
	})
	for i := range all {
		d := journal.Detail{}
		if e := &all[i]; e.Detail != nil {
			d = *e.Detail
		}
		d.Message, d.Passed = "", d.MessageID()
		all[i].Detail = &d
	}
	slices.SortStableFunc(all, func(a, b journal.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// read returns the journal of a run.
func (f *family) read(ctx context.Context, h journal.Head) ([]journal.Entry, error) {
	entries, err := f.front.store.Load(ctx, h.Number, store.Range{})
	switch {
	case err != nil:
		return nil, unavailable(f.op, err)
	case len(entries) == 0:
		return nil, &journal.Error{
			Code: journal.CodeNotFound, Op: f.op,
			Message: "run " + string(h.ID) + " is not here any more",
		}
	}
	return entries, nil
}

// mayAdopt returns an error if an open child is about to be cancelled, for example by the end of
// its parent: the child would fail the run that adopts it.
func (f *family) mayAdopt(ctx context.Context, child journal.Head) error {
	inbox, err := f.front.Read(ctx, child, store.Range{Inbox: true, Name: controlName})
	if err != nil {
		return err
	}
	entries, err := f.front.Read(ctx, child, store.Range{})
	if err != nil {
		return err
	}
	ends := func(e journal.Entry) bool {
		return e.Kind == journal.CancelAsked || e.Kind == journal.RunClosing
	}
	if slices.ContainsFunc(inbox, ends) || slices.ContainsFunc(entries, ends) {
		return &journal.Error{
			Code: journal.CodeConflict, Op: f.op,
			Message: "child " + string(
				child.ID,
			) + " of workflow " + child.Workflow + " is being ended",
			Hint: "retry when it has ended",
		}
	}
	return nil
}

// add adds the run that goes on from another one, and the messages about it to the dead letters of
// that one.
func (f *family) add(ctx context.Context, old journal.Head, p plan) error {
	d := f.front
	signals, err := f.signals(ctx, old, &p)
	if err != nil {
		return err
	}
	n, err := f.o.number()
	if err != nil {
		return noNumber(f.op, err)
	}
	now := d.Now()
	// it ends after that run, and so another request finds it
	created := later(now, old.Ended.Add(1))
	id := journal.MakeRunID(d.database(), n)
	start := f.start(old, p, id)
	for i := range p.Entries {
		p.Entries[i].Run = n
	}
	first := &p.Entries[0]
	first.At, first.Detail = created, start
	if f.request.NewInput {
		first.Data, first.Spill = f.request.Input, f.spill
	}
	c := store.Change{
		Run: n, Create: true, Since: old.Ended.Add(1), Shares: old.Number, Entries: p.Entries,
		Head: &journal.Head{
			Number: n, ID: id, WorkflowID: old.WorkflowID, Workflow: old.Workflow,
			Pattern: old.Pattern,
			Status:  journal.Pending, Wake: now, Created: created, Chain: old.Chain,
			Parent: old.Parent, Keep: keepWith(old, created),
		},
	}
	for _, deadLetter := range start.DeadLetters {
		c.Posts = append(c.Posts, news(now, deadLetter, "retried/"+string(old.ID), News{
			Retried: &Retrial{Run: id, At: now},
		}))
	}
	for _, m := range signals {
		c.Posts = append(c.Posts, store.Post{Run: n, Message: m})
	}
	f.changes = append(f.changes, c)
	return nil
}

// keepWith returns how long a run that goes on from another one is kept after its end: at least as
// long as that one. If it went earlier, nothing would show that the other run may not go on again.
func keepWith(old journal.Head, now time.Time) time.Duration {
	if old.Retain == "" { // an earlier version has ended it
		return old.Keep
	}
	expires := old.Expires()
	if expires.IsZero() {
		return math.MaxInt64
	}
	return max(old.Keep, expires.Sub(now))
}

// start returns the detail of the first entry of the run id, which goes on from another one.
func (f *family) start(old journal.Head, p plan, id journal.RunID) *journal.Detail {
	start := journal.Detail{}
	if before := p.entries[0].Detail; before != nil {
		start = *before
	}
	q := f.request
	start.Build, start.Retried, start.Tell = f.front.build, old.ID, false
	start.Action, start.From, start.NewInput = q.Action, q.Step, q.NewInput
	if q.Action == journal.ActionRetry {
		start.Action = "" // as before there were others
	}
	start.By, start.Reason = q.By, q.Reason
	switch q.Action {
	case journal.ActionCompensate:
		start.Undoes = old.ID
	case journal.ActionFork:
		start.Undoes = ""
	}
	start.Due, start.DeadLetters = time.Time{}, nil // it begins at once
	if old.Status != journal.Completed {
		start.DeadLetters = openDeadLetters(p.entries)
	}
	start.Keys, start.Renewed = keys(&start, q.Action, old.ID, id, p)
	return &start
}

// keys returns the runs whose idempotency keys a new run uses, by the start of the old one: those
// of the old run, but for steps that were undone. A fork repeats steps on purpose and uses its own,
// but for what it may still do about steps that it keeps.
func keys(
	before *journal.Detail, by journal.Action, old, id journal.RunID, p plan,
) (all journal.RunID, except map[string]journal.RunID) {
	except = map[string]journal.RunID{}
	if by == journal.ActionFork {
		for _, path := range p.inherited {
			except[path] = cmp.Or(before.KeysOf(path), old)
		}
		return "", except
	}
	maps.Copy(except, before.Renewed)
	for _, path := range p.Redone {
		except[path] = id
	}
	return cmp.Or(before.Keys, old), except
}

// openChildren returns the children that the run of a journal waits for.
func openChildren(entries []journal.Entry) []journal.RunID {
	over := map[journal.Op]bool{}
	for i := range entries {
		if k := entries[i].Kind; k == journal.ChildCompleted || k == journal.WaitEnded {
			over[entries[i].Op] = true
		}
	}
	var out []journal.RunID
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.ChildStarted &&
			e.Detail.Policy != journal.ChildDetached &&
			!over[e.Op] {
			out = append(out, e.Detail.Other)
		}
	}
	return out
}

// neverBegan reports whether another run had the workflow ID of a child, by its parent's journal.
func neverBegan(entries []journal.Entry, child journal.RunID) bool {
	return slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return e.Kind == journal.ChildCompleted && e.Detail != nil && e.Detail.Other == child &&
			e.Failure() != nil && e.Failure().Code == journal.CodeConflict
	})
}

// A line is the chain of runs of a child.
type line struct {
	last  journal.Head // the open run of the chain, or else the last one
	newer journal.Head // the run of another chain that has had the workflow ID since; zero for none
}

// lines returns the chains of children, by the run ID that each began with. A child that is gone,
// or was never there, is left out.
func (d *FrontEnd) lines(
	ctx context.Context, children []journal.RunID,
) (map[journal.RunID]line, error) {
	out := make(map[journal.RunID]line, len(children))
	for some := range slices.Chunk(children, store.MaxLimit) {
		first, err := d.byRun(ctx, some)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(some))
		// a child without a workflow ID of its own has its run ID as workflow ID
		for i, child := range some {
			ids[i] = cmp.Or(first[child].WorkflowID, string(child))
		}
		heads, _, err := d.Heads(ctx, store.Filter{
			WorkflowIDs: ids, Newest: true, Limit: store.MaxLimit,
		})
		if err != nil {
			return nil, err
		}
		newest := make(map[string]journal.Head, len(heads))
		for _, h := range heads {
			newest[h.WorkflowID] = h
		}
		for i, child := range some {
			l, err := d.line(ctx, child, first[child], newest[ids[i]])
			if err != nil {
				return nil, err
			}
			if l.last.Number != 0 {
				out[child] = l
			}
		}
	}
	return out, nil
}

// byRun returns the heads of those of the runs that are there.
func (d *FrontEnd) byRun(
	ctx context.Context, runs []journal.RunID,
) (map[journal.RunID]journal.Head, error) {
	heads, _, err := d.Heads(ctx, store.Filter{Runs: runs, Limit: store.MaxLimit})
	out := make(map[journal.RunID]journal.Head, len(heads))
	for _, h := range heads {
		out[h.ID] = h
	}
	return out, err
}

// line returns the chain of a child, by its first run, if that is there, and the run that its
// workflow ID stands for; zero if there is neither.
func (d *FrontEnd) line(
	ctx context.Context, child journal.RunID, first, newest journal.Head,
) (line, error) {
	chain, ok := child.Number(d.database())
	switch {
	case !ok:
		return line{}, nil
	case newest.Chain == chain:
		return line{last: newest}, nil
	case first.Number == 0:
		return line{}, nil
	}
	last, err := d.lastOf(ctx, first)
	return line{last: last, newer: newest}, err
}

// lastOf returns the last run of a chain whose workflow ID another chain has by now.
func (d *FrontEnd) lastOf(ctx context.Context, first journal.Head) (journal.Head, error) {
	f := store.Filter{WorkflowID: first.WorkflowID, Limit: store.MaxLimit}
	for {
		heads, next, err := d.Heads(ctx, f)
		if err != nil {
			return journal.Head{}, err
		}
		for _, h := range heads {
			if h.Chain == first.Chain {
				return h, nil
			}
		}
		if f.After = next; next.IsZero() {
			return first, nil
		}
	}
}
