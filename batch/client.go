package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// MaxCount is the maximum number of runs that a preview counts.
const MaxCount = 10_000

// A Plan describes the runs that a batch would have. It is the result of [Preview].
type Plan struct {
	// Filter is that of the batch with the conditions that it is completed by.
	Filter string
	Count  int            // of the runs that it would have
	More   bool           // there are more than Count
	First  []journal.Head // the first of them, at most 10
	// Statuses are the numbers of the counted runs by status.
	Statuses map[journal.Status]int
	// LeftOut is the number of runs that meet the conditions of a filter, and are left out because
	// their workflow ID has a later run.
	LeftOut int
	// Unknown are the IDs of a list that no run has.
	Unknown []string
}

const mostFirst = 10

// Preview returns the runs that a batch would have, and changes nothing. It counts at most
// [MaxCount] of them.
func Preview(ctx context.Context, c perdure.Caller, spec Spec) (Plan, error) {
	const op = "preview batch"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Plan{}, err
	}
	now := client.FrontEnd.Now().Round(0).UTC()
	spec, q, err := spec.complete(op, now)
	if err != nil {
		return Plan{}, err
	}
	p, _, err := preview(ctx, c, client, spec, q, now)
	return p, err
}

// preview also returns the IDs of a list: the run IDs of the runs that are there, each once, and
// the IDs that are unknown.
func preview(ctx context.Context, c perdure.Caller, client *sealed.Client, spec Spec,
	q perdure.Query, now time.Time) (p Plan, ids []string, err error) {
	p.Filter = spec.Filter
	if spec.isList() {
		ids, err = p.look(ctx, client, spec.Runs)
		return p, ids, err
	}
	lister, is := c.(interface {
		List(context.Context, perdure.Query) ([]journal.Head, journal.Cursor, error)
	})
	if !is {
		return p, nil, errCaller
	}
	q.Limit = store.MaxLimit
	for {
		heads, next, err := lister.List(ctx, q)
		if err != nil {
			return p, nil, err
		}
		found := len(heads)
		if heads, err = spec.current(ctx, client, heads, now); err != nil {
			return p, nil, err
		}
		p.LeftOut += found - len(heads)
		room := min(len(heads), MaxCount-p.Count)
		for _, h := range heads[:room] {
			p.count(h)
		}
		if p.Count == MaxCount {
			p.More = room < len(heads) || !next.IsZero()
			return p, nil, nil
		}
		if q.After = next; next.IsZero() {
			return p, nil, nil
		}
	}
}

// count adds a run.
func (p *Plan) count(h journal.Head) {
	if p.Statuses == nil {
		p.Statuses = map[journal.Status]int{}
	}
	p.Statuses[h.Status]++
	if p.Count++; len(p.First) < mostFirst {
		p.First = append(p.First, h)
	}
}

// look finds the runs of a list.
func (p *Plan) look(ctx context.Context, c *sealed.Client, list []string) (ids []string,
	err error) {
	seen := map[string]bool{}
	for len(list) > 0 {
		some := list[:min(len(list), store.MaxLimit)]
		list = list[len(some):]
		heads, err := c.FrontEnd.Stand(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, h := range heads {
			id := cmp.Or(string(h.ID), some[i])
			if seen[id] {
				continue
			}
			seen[id] = true
			if h.Number == 0 {
				p.Unknown = append(p.Unknown, id)
				continue
			}
			ids = append(ids, id)
			p.count(h)
		}
	}
	return ids, nil
}

var errCaller = invalid("batch", "pass an Engine or a Client", "a nil caller is not valid")

// workflowID returns the workflow ID of a batch.
func workflowID(id string) string { return workflowName + ":" + id }

// Start starts a batch and returns it when it is durable. Until an engine that has [Workflow] takes
// it up, it is [Pending]. A batch without any run ends as done.
func Start(ctx context.Context, c perdure.Caller, spec Spec) (Batch, error) {
	const op = "start batch"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Batch{}, err
	}
	if err := client.Outside(ctx, op); err != nil {
		return Batch{}, err
	}
	if client.Live != nil && client.Live.Lookup(workflowName) == nil {
		return Batch{}, &perdure.Error{
			Code: journal.CodeUnregistered, Op: op, Message: "this engine does not execute batches",
			Hint: "pass batch.Workflow() to Register",
		}
	}
	now := client.FrontEnd.Now().Round(0).UTC()
	spec, q, err := spec.complete(op, now)
	if err != nil {
		return Batch{}, err
	}
	plan, ids, err := preview(ctx, c, client, spec, q, now)
	if err != nil {
		return Batch{}, err
	}
	s := state{
		ID: strings.ToLower(rand.Text()[:10]), Made: now, Spec: spec, Left: ids,
		Unknown: plan.Unknown,
		IsOver:  spec.isList(), Expected: plan.Count + len(plan.Unknown), More: plan.More,
	}
	s.Spec.Runs, s.Spec.Order.Reason = nil, failure.Clip(spec.Order.Reason)
	data, err := json.Marshal(s)
	if err != nil {
		return Batch{}, err
	}
	started, err := client.Runs.Start(ctx, kernel.Start{
		Workflow: workflowName, ID: workflowID(s.ID), Input: data, Pattern: journal.PatternWorkflow,
	})
	if err != nil {
		return Batch{}, err
	}
	return read(ctx, client, started.Head)
}

// Get returns a batch. If there is none, it returns an error of code not_found. A batch that has
// ended is found for as long as its run is kept.
func Get(ctx context.Context, c perdure.Caller, id string) (Batch, error) {
	const op = "get batch"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Batch{}, err
	}
	return get(ctx, client, op, id)
}

func get(ctx context.Context, c *sealed.Client, op, id string) (Batch, error) {
	if !journal.ValidName(id) {
		return Batch{}, failure.Within(op, failure.BadName("batch", id))
	}
	op += " " + id
	h, err := c.FrontEnd.Find(ctx, workflowID(id))
	if journal.CodeOf(err) == journal.CodeNotFound {
		return Batch{}, &perdure.Error{
			Code: journal.CodeNotFound, Op: op, Message: "no batch has this ID",
			Hint: "perdure batch list shows them",
		}
	}
	if err != nil {
		return Batch{}, err
	}
	return read(ctx, c, h)
}

// A Query selects batches.
type Query struct {
	Open  bool           // only those that have not ended
	After journal.Cursor // the cursor that the last page returned
	Limit int            // 0 means 100; at most 1,000
}

// List returns batches, newest first, and the cursor of the next page, which is zero if there is
// none. A page may have fewer batches than its limit.
func List(ctx context.Context, c perdure.Caller, q Query) ([]Batch, journal.Cursor, error) {
	const op = "list batches"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	if q.Limit < 0 || q.Limit > store.MaxLimit {
		return nil, journal.Cursor{}, invalid(op, "", "limit %d is not valid: allowed are 0 to %d",
			q.Limit, store.MaxLimit)
	}
	heads, next, err := client.FrontEnd.Heads(ctx, store.Filter{
		Workflow: workflowName, Open: q.Open, After: q.After, Limit: q.Limit,
	})
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	var out []Batch
	for _, h := range heads {
		if h.Status == journal.ContinuedAsNew {
			continue
		}
		b, err := read(ctx, client, h)
		if err != nil {
			return nil, journal.Cursor{}, err
		}
		out = append(out, b)
	}
	return out, next, nil
}

// Stop stops a batch after the runs that it is doing, at most 100. One that no engine has taken up
// does none. It returns when the request is durable. The rest of the runs stays as it is. For a
// batch that has ended or is stopped already, it returns an error of code wrong_state.
func Stop(ctx context.Context, c perdure.Caller, id, by, reason string) error {
	const op = "stop batch"
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return err
	}
	if err := client.Outside(ctx, op); err != nil {
		return err
	}
	b, err := get(ctx, client, op, id)
	if err != nil {
		return err
	}
	ended := func(s Status) error {
		return &perdure.Error{
			Code: journal.CodeWrongState, Op: op + " " + b.ID,
			Message: "the batch is " + string(s) + " already",
		}
	}
	if b.Status != Pending && b.Status != Running {
		return ended(b.Status)
	}
	data, err := json.Marshal(Halt{
		At: client.FrontEnd.Now().Round(0).UTC(), By: failure.Clip(by),
		Reason: failure.Clip(reason),
	})
	if err != nil {
		return err
	}
	d, err := client.FrontEnd.Signal(ctx, kernel.Signal{ID: b.RunID, Name: stopName, Data: data})
	if err == nil && d.NotDelivered {
		return ended(Done)
	}
	return err
}

// read returns the batch of a run, by its journal and its inbox. It reads the inbox first, so a
// stop that is taken meanwhile is in the journal.
func read(ctx context.Context, c *sealed.Client, h journal.Head) (Batch, error) {
	unread, err := c.FrontEnd.Unread(ctx, string(h.ID), 0, mostUnread)
	if err != nil {
		return Batch{}, err
	}
	h, entries, err := c.FrontEnd.History(ctx, string(h.ID), 1, 0)
	if err != nil {
		return Batch{}, err
	}
	if h.Status == journal.ContinuedAsNew {
		if h, err = c.FrontEnd.Find(ctx, h.WorkflowID); err != nil {
			return Batch{}, err
		}
		return read(ctx, c, h)
	}
	s, err := stateOf(h, entries)
	if err != nil {
		return Batch{}, corrupt(h, err)
	}
	for _, m := range append(entries, unread...) {
		isStop := m.Kind == journal.SignalConsumed || m.Kind == journal.SignalReceived
		if isStop && m.Op.Name == stopName && s.Stop == nil {
			s.Stop = haltOf(m.Data)
		}
	}
	out := Batch{
		ID: s.ID, RunID: string(h.ID), Spec: s.Spec, Expected: s.Expected, More: s.More,
		Progress: s.Progress, Created: s.Made, Stop: s.Stop,
	}
	out.Status, out.Problem = statusOf(h, s)
	if h.Status.IsTerminal() {
		out.Ended = h.Ended.UTC()
	}
	return out, nil
}

// mostUnread is the number of messages that are looked at for a stop.
const mostUnread = 100

// stateOf returns the state of a batch by its journal.
func stateOf(h journal.Head, entries []journal.Entry) (*state, error) {
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return nil, err
		}
	}
	shown, s := a.Snapshot(), &state{}
	if err := json.Unmarshal(shown.Payload, s); err != nil {
		return nil, err
	}
	return s, s.overlay(shown.Published)
}

// statusOf returns the status of a batch, and the reason if it is Broken.
func statusOf(h journal.Head, s *state) (Status, string) {
	switch {
	case h.Status == journal.Completed && s.Stop != nil, h.Status == journal.Cancelled:
		return Stopped, ""
	case h.Status == journal.Completed:
		return Done, ""
	case h.Status.IsTerminal():
		return Broken, cmp.Or(h.Error, "its run is "+h.Status.String())
	case h.Status == journal.Suspended:
		return Broken, cmp.Or(h.Cause, "its run is suspended")
	case s.Stop != nil:
		return Stopping, ""
	case h.Status == journal.Pending && s.Matched == 0:
		return Pending, ""
	}
	return Running, ""
}

func corrupt(h journal.Head, err error) error {
	return &perdure.Error{Code: journal.CodeCorrupt, Op: "read " + h.WorkflowID, Err: err}
}

// overlay replaces the parts of the state that were published since.
func (s *state) overlay(shown map[string]journal.Published) error {
	counts, items := tally{Progress: s.Progress, Stop: s.Stop}, s.Progress
	for name, to := range map[string]any{publishedTally: &counts, publishedItems: &items} {
		if p, is := shown[name]; is {
			if err := json.Unmarshal(p.Data, to); err != nil {
				return err
			}
		}
	}
	s.Progress, s.Stop = counts.Progress, counts.Stop
	s.Errors, s.Skips = items.Errors, items.Skips
	return nil
}
