package perdure

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Client starts runs, sends them messages and reads them, on a store that an engine uses: in
// this process, in another one, or later. It executes nothing. An [Engine] is also a Client. Many
// goroutines may call its methods.
//
// A write is durable when the call returns. With the context of workflow code, a write is refused
// with an [Error] of code misuse, because a replay would repeat it: make it in a step.
//
// A Client without an engine only asks: a run that it cancels or suspends is cancelled or suspended
// when an engine has read the message. It polls the store for the end of a run.
type Client struct {
	sealed sealed.Client
	tx     *transaction  // the transaction that starts and signals are written in; nil for none
	newID  func() string // [Options].NewID; may be nil
}

// A Caller is an [Engine] or a [Client].
type Caller interface {
	client() *Client
	In(tx any) *Client
	Sealed() *sealed.Client
}

func (c *Client) client() *Client { return c }

// clientOf returns the client of a caller. It refuses a nil caller.
func clientOf(op string, c Caller) (*Client, error) {
	engine, isEngine := c.(*Engine)
	if c == nil || isEngine && engine == nil || c.client() == nil {
		return nil, &Error{
			Code: journal.CodeInvalid, Op: op, Message: "a nil caller is not valid",
			Hint: "pass an Engine or a Client",
		}
	}
	return c.client(), nil
}

// Sealed is for other packages of this module, such as admin.
func (c *Client) Sealed() *sealed.Client {
	if c == nil {
		return nil
	}
	return &c.sealed
}

// NewClient returns a client of a store that this process has opened. A second process on an
// SQLite file uses one. The client uses the definitions of workflows only to check starts by
// name: the input, and whether a dry run and a mode are allowed. [Options.NewClient] returns one
// with options.
func NewClient(ctx context.Context, s store.Store, workflows ...Definition) (*Client, error) {
	return Options{}.NewClient(ctx, s, workflows...)
}

// NewClient returns a client as the function [NewClient] does, with the Build, Trace, Clock, NewID,
// Dedup, MaxPayload, SpillOver and KeepUnrouted of the options. The others are of engines.
func (o Options) NewClient(ctx context.Context, s store.Store, workflows ...Definition) (*Client,
	error) {
	if err := o.check("new client"); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, failure.Invalid("new client", "a store is needed")
	}
	known := make(map[string]*sealed.Workflow, len(workflows))
	for _, w := range workflows {
		def, err := definitionOf(w)
		if err == nil {
			err = definition.NewError(def.Name, def.Odd.Definition, false)
		}
		if err != nil {
			return nil, err
		}
		known[def.Name] = def
	}
	c, err := kernel.NewClient(ctx, s, o.kernel())
	if err != nil {
		return nil, err
	}
	return &Client{
		sealed: sealed.Client{
			FrontEnd: &c.FrontEnd,
			Runs:     c,
			Known:    func(name string) *sealed.Workflow { return known[name] },
			Dedup:    o.dedup(),
		},
		newID: o.NewID,
	}, nil
}

// Start starts a run of a workflow by name with the bytes of its input. [Workflow.Start] is the
// typed form. By default it asks for a run that nobody waits for. With the option
// pattern.ModeSync it asks for a run whose end the caller waits for. A graph of the other mode is
// refused.
//
// If the client knows the workflow, an input that is not of its type is refused, with an [Error] of
// code invalid. The workflow need not be registered yet: until an engine knows it, the run is
// PENDING, and [Client.Describe] shows the reason. That engine then records the pattern of the run.
// It cannot refuse a run that exists: if the client does not know the workflow, the mode has no
// effect, and a run whose input is not of its type fails.
func (c *Client) Start(ctx context.Context, workflow string, input []byte,
	opts ...StartOption) (*Run[json.RawMessage], error) {
	def, err := c.named(workflow)
	if err != nil {
		return nil, err
	}
	if def != nil {
		if err := def.Decodes(input); err != nil {
			return nil, err
		}
	}
	s, err := c.start(ctx, workflow, def, append([]byte{}, input...), unwaited(opts))
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, s}, nil
}

// named returns the definition of a workflow that is to be started by name; nil if the client does
// not know it.
func (c *Client) named(workflow string) (*sealed.Workflow, error) {
	switch {
	case !journal.ValidName(workflow):
		return nil, failure.BadName("workflow", workflow)
	case isOwn(workflow):
		return nil, ownName(workflow)
	}
	return c.sealed.Known(workflow), nil
}

func (c *Client) start(ctx context.Context, workflow string, def *sealed.Workflow, input []byte,
	opts []StartOption) (kernel.Started, error) {
	if err := kernel.Outside(ctx, "start "+workflow); err != nil {
		return kernel.Started{}, err
	}
	spec, err := c.specOf(workflow, def, input, opts)
	if err != nil {
		return kernel.Started{}, err
	}
	if c.tx == nil {
		return c.sealed.Runs.Start(ctx, spec)
	}
	frontEnd, err := c.frontEnd(ctx, "start "+workflow)
	if err != nil {
		return kernel.Started{}, err
	}
	return frontEnd.Begin(ctx, spec)
}

// Cancel ends a run, by run ID or workflow ID, as CANCELLED with a reason. Steps and branches that
// still run are cancelled first, and the clean-ups of the workflow are done. If no other engine has
// the run, Cancel on an engine returns when it is durable that the run ends as CANCELLED.
// Otherwise, and on a client without an engine, it returns when the request is durable. A run that
// is cancelled already is left unchanged. For a run that ended in another way, it returns an
// [Error] of code wrong_state that names its status.
func (c *Client) Cancel(ctx context.Context, id, reason string) error {
	if err := c.outside(ctx, "cancel "+id); err != nil {
		return err
	}
	return c.sealed.Runs.Cancel(ctx, id, kernel.Why{Reason: failure.Clip(reason)})
}

// Suspend parks a run, by run ID or workflow ID, until it is resumed. Steps in flight end, and
// their results are kept. Nothing new begins, and timers and messages are held. Only a cancel and
// the timeout of the whole run end it. Suspend returns when the suspension is durable. If another
// engine has the run, it returns when the request is durable.
func (c *Client) Suspend(ctx context.Context, id, reason string) error {
	if err := c.outside(ctx, "suspend "+id); err != nil {
		return err
	}
	return c.sealed.Runs.Suspend(ctx, id, kernel.Why{Reason: failure.Clip(reason)})
}

// Resume lets a parked run go on, by run ID or workflow ID, and returns when that is durable. If
// another engine has the run, it returns when the request is durable. For a run that is not
// SUSPENDED, it returns an [Error] of code wrong_state.
func (c *Client) Resume(ctx context.Context, id string) error {
	if err := c.outside(ctx, "resume "+id); err != nil {
		return err
	}
	return c.sealed.Runs.Resume(ctx, id, kernel.Why{})
}

// Retry starts a run that goes on from the point where another run, by run ID or workflow ID, has
// failed: from the failed step, or from where it was CANCELLED or TIMED_OUT, or where its code
// failed by itself. The new run has the workflow ID, input, headers, attributes and reusable
// history of the old run; see [journal.Reusable] for what is kept and what is done again. Its
// steps have the idempotency keys of the old run. Steps that were undone there have new keys.
// Open timers and waits begin again. The new run has the signals that nobody had taken, and those
// that only what is done again had taken. An update without a reply is not among them.
//
// Children go on too. An open child is adopted. A child that was FAILED, CANCELLED or TIMED_OUT is
// retried in the same commit, and so are its own children; the child's dead letter counts the
// retry. A child that ended well is not started again. While a child is being cancelled, the error
// has the code conflict. If a child that failed no longer exists, the code is not_found.
//
// The error is an [Error] of code wrong_state in these cases:
//
//   - the run has another status;
//   - a [StepTx] committed after a failure in the run, or a branch that had received something
//     began a child, and several operations without a [Key] have the name of that step or child;
//   - another run has had the workflow ID since. While that run is open, the code is conflict.
//
// If the run was retried already, Retry returns the run that was made then, and [Run.New] is
// false.
func (c *Client) Retry(ctx context.Context, id string) (*Run[json.RawMessage], error) {
	if err := c.outside(ctx, "retry "+id); err != nil {
		return nil, err
	}
	s, err := c.sealed.FrontEnd.GoOn(ctx, id, kernel.Request{
		Continuation: journal.Continuation{Action: journal.ActionRetry},
	})
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, s}, nil
}

// Decide answers a run that waits in [Park]. The name is a path, as [Client.Describe] and
// admin.Client.Parked show it, or a bare name if the run asks for only one decision of that name.
// Otherwise the error has the code conflict and lists the paths. A name or path that the run does
// not ask for returns an [Error] of code not_found; a choice that is not offered, of code invalid;
// a run that has ended, of code wrong_state. Decide answers only that one wait: a second answer
// that comes before the run has taken the first changes nothing. To repeat the last decision under
// that name, with the same choice and data, changes nothing either. So a caller that does not know
// whether its answer arrived can send it again.
func (c *Client) Decide(ctx context.Context, id, name string, d Decision) error {
	if err := c.outside(ctx, "decide "+name+" of "+id); err != nil {
		return err
	}
	return c.sealed.FrontEnd.Decide(ctx, id, name, kernel.Decided{
		Choice: d.Choice, Data: d.Data, By: failure.Clip(d.By), Reason: failure.Clip(d.Reason),
	})
}

// CancelTimer ends a timer of a run before its time. The timer is identified by its path: the name,
// after the scopes that it is in. If the run has no such timer open when it reads the message,
// nothing happens.
func (c *Client) CancelTimer(ctx context.Context, id, timer, reason string) error {
	if err := c.outside(ctx, "cancel timer "+timer+" of "+id); err != nil {
		return err
	}
	return c.sealed.FrontEnd.CancelTimer(ctx, id, timer, failure.Clip(reason))
}

// History returns the durable journal of a run, by run ID or workflow ID, from a sequence number
// on. A limit of 0 means all entries.
func (c *Client) History(ctx context.Context, id string, from int64, limit int) ([]journal.Entry,
	error) {
	_, entries, err := c.sealed.FrontEnd.History(ctx, id, from, limit)
	return entries, err
}

// Get returns the run with that run ID, or the run that a workflow ID stands for: the open run,
// or the newest if none is open.
func (c *Client) Get(ctx context.Context, id string) (*Run[json.RawMessage], error) {
	head, err := c.sealed.FrontEnd.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, kernel.Started{Head: head}}, nil
}

// A Status is the status of one run, as [Client.Statuses] returns it.
type Status struct {
	Found  bool
	Head   journal.Head
	Output json.RawMessage // of a run that has ended; nil if it has none
	Err    error           // the error that the run ended with
}

// IsTerminal reports whether the run has ended.
func (s Status) IsTerminal() bool { return s.Head.Status.IsTerminal() }

// IsSuccess reports whether the run has ended as its author hoped.
func (s Status) IsSuccess() bool { return s.Head.Status.IsSuccess() }

// Statuses returns the statuses of up to 1,000 runs, by run IDs and workflow IDs, in the order of
// ids. A run that does not exist has Found false. It makes at most three queries to the store,
// however many runs there are. Reading changes nothing.
func (c *Client) Statuses(ctx context.Context, ids ...string) ([]Status, error) {
	heads, err := c.sealed.FrontEnd.Stand(ctx, ids)
	if err != nil {
		return nil, err
	}
	outcomes, err := c.sealed.FrontEnd.Outcomes(ctx, heads)
	if err != nil {
		return nil, err
	}
	out := make([]Status, len(heads))
	for i, h := range heads {
		out[i] = Status{Found: h.Number != 0, Head: h}
		if o, ok := outcomes[h.Number]; ok {
			out[i].Output, out[i].Err = o.Data, failure.Err(o.Failure)
		}
	}
	return out, nil
}

// A Description is the state of one run, as [Client.Describe] returns it.
type Description struct {
	Head  journal.Head
	State journal.Snapshot // the fold of the journal
	// Why states in words why an open run does not go on by itself now. It is empty for a run that
	// goes on, or has ended.
	Why string
	// Waits are what an open run waits for: the waits of State that are not over, the steps that
	// are tried again later, and the slot that a run needs to begin.
	Waits []journal.Wait
	// GoesOnAs is the run that goes on from this one by an operator's action, and GoesOnBy is that
	// action. State.Origin is the run that this one goes on from.
	GoesOnAs string
	GoesOnBy string
	// Unread are at most 100 messages that the run has not taken. For a run that has ended, they
	// are the messages that nobody took.
	Unread []Message
	// Running are the paths of steps that this engine executes. Abandoned are the paths of steps
	// that were given up while their code still runs.
	Running   []string
	Abandoned []string
}

// Describe returns everything that is known of a run, by run ID or workflow ID. If a row of the
// run is missing or cannot be read, it returns the state before that row, with an [Error] of code
// corrupt.
func (c *Client) Describe(ctx context.Context, id string) (Description, error) {
	head, entries, err := c.sealed.FrontEnd.History(ctx, id, 1, 0)
	if head.Number == 0 {
		return Description{}, err
	}
	a := journal.NewAggregate(head.ID, head.WorkflowID, head.Workflow, head.Pattern)
	var closing time.Time
	for i := range entries {
		if entries[i].Kind == journal.RunClosing {
			closing = entries[i].At
		}
		if e := a.Apply(entries[i]); e != nil && err == nil {
			err = &Error{Code: journal.CodeCorrupt, Op: "describe " + id, Err: e}
			break
		}
	}
	now := c.sealed.FrontEnd.Now()
	d := Description{Head: head, State: a.Snapshot()}
	loaded := false
	if c.sealed.Live != nil {
		live := c.sealed.Live.Live(head.Number)
		d.Running, d.Abandoned, loaded = live.Running, live.Abandoned, live.Loaded
	}
	inbox, e := c.sealed.FrontEnd.Unread(ctx, string(head.ID), 0, unreadPage)
	err = cmp.Or(err, e)
	d.Unread = messagesOf(kernel.Signals(inbox))
	slots, e := c.slots(ctx, now, d)
	err = cmp.Or(err, e)
	s := standing{d, now, inbox, slots, closing}
	d.Why, d.Waits = s.why(), s.waits()
	if head.Status.IsTerminal() && err == nil {
		var as journal.Origin
		as, err = c.sealed.FrontEnd.GoesOnAs(ctx, head)
		d.GoesOnAs, d.GoesOnBy = string(as.Run), string(as.Action)
	}
	if failure.IsDamaged(err) && head.Cause == "" && !head.Status.IsTerminal() {
		d.Why = "its journal is damaged: an engine that takes it up parks it"
	}
	elsewhere := c.sealed.Live == nil || head.Owner != 0 && !loaded
	if !loaded && !head.Status.IsTerminal() && head.Status != journal.Suspended &&
		head.Status != journal.CompensationFailed {
		info, e := c.sealed.FrontEnd.Info(ctx)
		paused, lacking := pausedBy(now, info, head), ""
		if head.Owner == 0 {
			lacking = sealed.Lacking(info, head.Workflow)
		}
		switch {
		case e != nil:
			err = cmp.Or(err, e)
		case paused != "":
			d.Why = paused
		case lacking != "" && (isDue(now, head) || d.Why == ""):
			d.Why = lacking
		case lacking != "":
			d.Why += "; " + lacking
		case !elsewhere:
		case sealed.Living(info):
			d.Why = cmp.Or(unheard(info, head.Owner), d.Why)
		case d.Why == "", head.Status == journal.Pending && !held(now, head):
			d.Why = "no engine has the store"
		default:
			d.Why += "; no engine has the store"
		}
	}
	return d, err
}

// unreadPage limits the messages that a description has.
const unreadPage = 100
