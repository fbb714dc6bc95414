package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Status is the status of a schedule.
type Status string

// The statuses.
const (
	Active   Status = "active"
	Paused   Status = "paused"
	Finished Status = "finished" // it has started as many runs as Spec.Times says
	Deleted  Status = "deleted"
	Broken   Status = "broken" // it cannot go on: see Schedule.Problem
)

// A Schedule is a schedule as it is now.
type Schedule struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Problem is the reason why it is Broken.
	Problem string `json:"problem,omitempty"`
	Spec    Spec   `json:"spec"`
	Paused  *Halt  `json:"paused,omitempty"`
	// Next is the next nominal time. It is nil if there is none, or if it is not known yet: that of
	// a fixed delay while a run is open.
	Next *Time `json:"next,omitempty"`
	// Left is how many runs the timetable still starts, if Spec.Times is set.
	Left int `json:"left,omitempty"`
	// Open is the run that the schedule waits for; nil with Allow.
	Open *Run `json:"open,omitempty"`
	// Previous is the run that ended last, Success the last one that succeeded. Recent are at most
	// the last 10 runs, oldest first. With Allow they are as they were when the last run started.
	Previous *Run  `json:"previous,omitempty"`
	Success  *Run  `json:"success,omitempty"`
	Recent   []Run `json:"recent,omitempty"`
	// Started and Missed count runs, and nominal times that started none. Misses are the last 10
	// reasons, oldest first.
	Started   int64     `json:"started"`
	Missed    int64     `json:"missed"`
	Misses    []Miss    `json:"misses,omitempty"`
	Backfills []Filling `json:"backfills,omitempty"` // that go on or wait
	Created   time.Time `json:"created"`
	Changed   time.Time `json:"changed"` // of the spec
	By        Note      `json:"by,omitzero"`
	Revision  int       `json:"revision"`
	// Declared is the spec that code has declared, if the schedule has another one.
	Declared *Spec `json:"declared,omitempty"`

	state *state
}

// Coming returns the next n nominal times, 1 to 1,000. Of a fixed delay only the first is known.
func (s Schedule) Coming(n int) ([]Time, error) {
	if n < 1 || n > 1000 {
		return nil, invalid("next", "", "%d times is not valid: allowed are 1 to 1000", n)
	}
	if s.Status != Active || s.state == nil {
		return nil, nil
	}
	return s.state.next(n)
}

// workflowID returns the workflow ID of a schedule.
func workflowID(name string) string { return workflowName + ":" + name }

func checkName(op, name string) error {
	if len(name) > maxName || !journal.ValidName(name) {
		return invalid(op, "", "name %s is not valid: allowed are 1 to %d of A-Z a-z 0-9 . _ : -",
			failure.Quoted(name), maxName)
	}
	return nil
}

// Set creates a schedule of that name, or replaces the spec of the one that exists. It returns when
// the change is durable. A new or changed schedule begins with its next future time; runs that it
// has started go on. The spec is checked first, and so is the input, if the workflow is known here.
func Set(ctx context.Context, c perdure.Caller, name string, spec Spec, by Note) error {
	op := "set schedule " + name
	client, err := opened(ctx, op, name, c)
	if err != nil {
		return err
	}
	if spec, err = ready(client, op, spec); err != nil {
		return err
	}
	return post(ctx, client, op, name, change{Set: &spec, Note: by})
}

// opened returns the client for a change.
func opened(ctx context.Context, op, name string, c perdure.Caller) (*sealed.Client, error) {
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	if err := checkName(op, name); err != nil {
		return nil, err
	}
	return client, client.Outside(ctx, op)
}

// ready returns the spec with its defaults.
func ready(c *sealed.Client, op string, spec Spec) (Spec, error) {
	spec, err := spec.complete(op)
	if err != nil {
		return spec, err
	}
	def := c.Known(spec.Workflow)
	if def == nil {
		return spec, nil
	}
	if err := def.Decodes(spec.Input); err != nil {
		return spec, failure.Within(op, err)
	}
	if def.Accepts == nil {
		return spec, nil
	}
	return spec, def.Accepts(spec.Input)
}

// post sends a change that sets a spec to a schedule, or starts the schedule.
func post(ctx context.Context, c *sealed.Client, op, name string, ch change) error {
	if c.Live != nil && c.Live.Lookup(workflowName) == nil {
		return &perdure.Error{
			Code: journal.CodeUnregistered, Op: op,
			Message: "this engine does not execute schedules",
			Hint:    "pass schedule.Workflow() to Register",
		}
	}
	if old, err := get(ctx, c, op, name); err == nil && old.Status == Deleted && old.state.isOpen {
		return &perdure.Error{
			Code: journal.CodeConflict, Op: op, Message: "the schedule is being deleted",
			Hint: "set it again when an engine has taken that in",
		}
	} else if err != nil && journal.CodeOf(err) != journal.CodeNotFound {
		return err
	}
	data, err := encode(c.FrontEnd.Now(), ch)
	if err != nil {
		return err
	}
	first, err := json.Marshal(state{definition: definition{Name: name}})
	if err != nil {
		return err
	}
	_, err = c.FrontEnd.SignalWithStart(ctx, kernel.Signal{Name: changes, Data: data}, kernel.Start{
		Workflow: workflowName, ID: workflowID(name), Input: first,
		Pattern:    journal.PatternWorkflow,
		Attributes: map[string]string{attribute: name},
	})
	return err
}

// encode returns the message of a change that is made now.
func encode(now time.Time, ch change) ([]byte, error) {
	if ch.At.IsZero() {
		ch.At = now.Round(0).UTC()
	}
	ch.Note = Note{failure.Clip(ch.By), failure.Clip(ch.Why)}
	return json.Marshal(ch)
}

// tell sends a change to a schedule that exists.
func tell(ctx context.Context, c *sealed.Client, op string, s Schedule, ch change) error {
	data, err := encode(c.FrontEnd.Now(), ch)
	if err != nil {
		return err
	}
	d, err := c.FrontEnd.Signal(ctx, kernel.Signal{ID: s.state.run, Name: changes, Data: data})
	if err == nil && d.NotDelivered {
		return noSchedule(op)
	}
	return err
}

func noSchedule(op string) error {
	return &perdure.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no schedule has this name",
		Hint: "perdure schedules list shows them",
	}
}

// Pause pauses a schedule: it starts nothing by itself until [Resume]. Its open run goes on. It
// returns when the change is durable. A schedule that is paused gets the new reason.
func Pause(ctx context.Context, c perdure.Caller, name string, by Note) error {
	_, err := alter(ctx, c, "pause schedule "+name, name, change{Pause: true, Note: by}, nil)
	return err
}

// alter sends a change to an open schedule, if check accepts the schedule.
func alter(ctx context.Context, c perdure.Caller, op, name string, ch change,
	check func(Schedule) error) (Schedule, error) {
	client, err := opened(ctx, op, name, c)
	if err != nil {
		return Schedule{}, err
	}
	s, err := get(ctx, client, op, name)
	if err != nil {
		return s, err
	}
	switch s.Status {
	case Finished, Deleted:
		return s, &perdure.Error{
			Code: journal.CodeWrongState, Op: op, Message: "the schedule is " + string(s.Status),
			Hint: "set it again",
		}
	}
	if check != nil {
		if err := check(s); err != nil {
			return s, err
		}
	}
	return s, tell(ctx, client, op, s, ch)
}

// Resume lets a schedule that is paused go on, with its next future time. It returns when the
// change is durable. For a schedule that is not paused, it returns an error of code wrong_state.
func Resume(ctx context.Context, c perdure.Caller, name string, by Note) error {
	op := "resume schedule " + name
	_, err := alter(ctx, c, op, name, change{Resume: true, Note: by}, func(s Schedule) error {
		if s.Paused != nil {
			return nil
		}
		return &perdure.Error{
			Code: journal.CodeWrongState, Op: op, Message: "the schedule is not paused",
		}
	})
	return err
}

// RunNow asks for a run now, also of a schedule that is paused. While a run of the schedule is
// open, the run waits for its end, except with Allow. RunNow returns the workflow ID of the run
// when the request is durable. Of several requests of one instant, one starts a run.
func RunNow(ctx context.Context, c perdure.Caller, name string, by Note) (id string, err error) {
	op := "run schedule " + name
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return "", err
	}
	at := client.FrontEnd.Now().Round(0).UTC()
	_, err = alter(ctx, c, op, name, change{Run: true, At: at, Note: by}, func(s Schedule) error {
		if len(s.state.Wanted) < maxWanted {
			return nil
		}
		return &perdure.Error{
			Code: journal.CodeTooLarge, Op: op,
			Message: fmt.Sprintf("%d requests wait already", maxWanted),
		}
	})
	if err != nil {
		return "", err
	}
	return runID(name, start{At: at, Cause: ByRequest}), nil
}

// Delete ends a schedule. Its open run goes on. It returns when the change is durable. A schedule
// that code declares comes back with the next engine that has the code.
func Delete(ctx context.Context, c perdure.Caller, name string, by Note) error {
	_, err := alter(ctx, c, "delete schedule "+name, name, change{Delete: true, Note: by}, nil)
	return err
}

// Get returns a schedule, with the changes that are durable and that no engine has taken in yet. If
// there is none, it returns an error of code not_found. A schedule that is finished or deleted is
// found for as long as its run is kept.
func Get(ctx context.Context, c perdure.Caller, name string) (Schedule, error) {
	op := "get schedule " + name
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Schedule{}, err
	}
	if err := checkName(op, name); err != nil {
		return Schedule{}, err
	}
	return get(ctx, client, op, name)
}

func get(ctx context.Context, c *sealed.Client, op, name string) (Schedule, error) {
	h, err := c.FrontEnd.Find(ctx, workflowID(name))
	if journal.CodeOf(err) == journal.CodeNotFound {
		return Schedule{}, noSchedule(op)
	}
	if err != nil {
		return Schedule{}, err
	}
	return read(ctx, c, h)
}

// A Query selects schedules.
type Query struct {
	Workflow string         // that they start; empty for all
	All      bool           // finished and deleted ones too
	After    journal.Cursor // the cursor that the last page returned
	Limit    int            // 0 means 100; at most 1,000
}

// List returns schedules, newest first, and the cursor of the next page, which is zero if there is
// none. A page may have fewer schedules than its limit.
func List(ctx context.Context, c perdure.Caller, q Query) ([]Schedule, journal.Cursor, error) {
	client, err := sealed.ClientOf("list schedules", c)
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	heads, next, err := client.FrontEnd.Heads(ctx, store.Filter{
		Workflow: workflowName, Open: !q.All, After: q.After, Limit: q.Limit,
	})
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	var out []Schedule
	for _, h := range heads {
		if h.Status == journal.ContinuedAsNew {
			continue
		}
		s, err := read(ctx, client, h)
		if err != nil {
			return nil, journal.Cursor{}, err
		}
		isListed := q.All || s.Status != Deleted && s.Status != Finished
		if isListed && (q.Workflow == "" || s.Spec.Workflow == q.Workflow) {
			out = append(out, s)
		}
	}
	return out, next, nil
}

// Count returns the number of schedules that are not finished or deleted.
func Count(ctx context.Context, c perdure.Caller) (n int, err error) {
	client, err := sealed.ClientOf("count schedules", c)
	if err != nil {
		return 0, err
	}
	f := store.Filter{Workflow: workflowName, Open: true, Limit: store.MaxLimit}
	for {
		heads, next, err := client.FrontEnd.Heads(ctx, f)
		if n += len(heads); err != nil || next.IsZero() {
			return n, err
		}
		f.After = next
	}
}

// read returns the schedule of a run.
func read(ctx context.Context, c *sealed.Client, h journal.Head) (Schedule, error) {
	s, problem, err := stateOf(ctx, c, h)
	if err != nil {
		return Schedule{}, err
	}
	out := Schedule{
		Name: s.Name, Status: Active, Problem: problem, Spec: s.Spec, Paused: s.Paused,
		Left: s.Left, Open: s.Open, Previous: s.Previous, Success: s.Success, Recent: s.Recent,
		Started: s.Started, Missed: s.Missed, Misses: s.Misses, Backfills: s.Backfills,
		Created: s.Created, Changed: s.Changed, By: s.By, Revision: s.Revision, state: s,
	}
	if s.Own {
		out.Declared = s.Declared
	}
	switch {
	case s.Deleted:
		out.Status = Deleted
	case s.isFinished():
		out.Status = Finished
	case problem != "":
		out.Status = Broken
	case s.Paused != nil:
		out.Status = Paused
	}
	if out.Status != Active {
		return out, nil
	}
	next, err := s.next(1)
	if err != nil {
		out.Status, out.Problem = Broken, err.Error()
	} else if len(next) > 0 {
		out.Next = &next[0]
	}
	return out, nil
}

// stateOf returns the state of a schedule by the journal and the inbox of its run, and the reason
// for which it does not go on. It reads the inbox first, so a change that is taken meanwhile is in
// the journal.
func stateOf(ctx context.Context, c *sealed.Client, h journal.Head) (*state, string, error) {
	unread, err := c.FrontEnd.Unread(ctx, string(h.ID), 0, maxUnread)
	if err != nil {
		return nil, "", err
	}
	h, entries, err := c.FrontEnd.History(ctx, string(h.ID), 1, 0)
	if err != nil {
		return nil, "", err
	}
	if h.Status == journal.ContinuedAsNew {
		next, err := c.FrontEnd.Find(ctx, h.WorkflowID)
		if err != nil {
			return nil, "", err
		}
		return stateOf(ctx, c, next)
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return nil, "", corrupt(h, err)
		}
	}
	shown := a.Snapshot()
	s := &state{}
	if err := json.Unmarshal(shown.Payload, s); err != nil {
		return nil, "", corrupt(h, err)
	}
	if err := s.overlay(shown.Published); err != nil {
		return nil, "", corrupt(h, err)
	}
	s.run, s.isOpen = string(h.ID), !h.Status.IsTerminal()
	if h.Status.IsTerminal() {
		problem := ""
		s.Deleted = s.Deleted || h.Status == journal.Cancelled
		if h.Status != journal.Completed && h.Status != journal.Cancelled {
			problem = "its run is " + h.Status.String()
		}
		return s, problem, nil
	}
	s.receiveAll(entries, unread)
	problem := s.Broken
	if h.Status == journal.Suspended {
		problem = cmp.Or(h.Cause, "its run is suspended")
	}
	return s, problem, nil
}

// receiveAll takes in the changes that the shown state does not have: the last one that the run has
// taken, unless the run has shown its state or waits again since, and those that it has not taken.
func (s *state) receiveAll(entries, unread []journal.Entry) {
	var fresh []journal.Entry
	taken := map[int64]bool{}
	for _, e := range entries {
		switch e.Kind {
		case journal.StatePublished, journal.WaitStarted:
			fresh = nil
		case journal.SignalConsumed:
			taken[e.Detail.Mail] = true
			fresh = []journal.Entry{e}
		}
	}
	for _, m := range unread {
		if !taken[m.Seq] {
			fresh = append(fresh, m)
		}
	}
	for _, m := range fresh {
		if ch, is := changeOf(m.Data); is && m.Op.Name == changes {
			s.receive(ch, m.At)
		}
	}
}

func corrupt(h journal.Head, err error) error {
	return &perdure.Error{Code: journal.CodeCorrupt, Op: "read " + h.WorkflowID, Err: err}
}

// overlay replaces the parts of the state that were published since.
func (s *state) overlay(shown map[string]journal.Published) error {
	if p, is := shown[publishedDefinition]; is {
		s.definition = definition{}
		if err := json.Unmarshal(p.Data, &s.definition); err != nil {
			return err
		}
	}
	p, is := shown[publishedProgress]
	if !is {
		return nil
	}
	s.progress = progress{}
	return json.Unmarshal(p.Data, &s.progress)
}

// maxUnread limits the changes that Get takes in.
const maxUnread = 1000
