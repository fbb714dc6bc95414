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

// A Client starts runs, sends them messages and reads them, on a store that an
// engine uses: in this process, in another one, or later. It executes nothing.
// An [Engine] is one too. Its methods may be called by many goroutines.
//
// What is written is durable when the call returns. A client of its own asks: a
// run that it cancels or suspends is so when an engine has read the message. It
// hears of the end of a run by asking the store now and then.
type Client struct {
	sealed sealed.Client
	tx     *transaction // that starts and signals are written in; nil for none
}

// A Caller is an [Engine] or a [Client].
type Caller interface {
	client() *Client
	In(tx any) *Client
	Sealed() *sealed.Client
}

func (c *Client) client() *Client { return c }

// Sealed is for other packages of this module, such as admin.
func (c *Client) Sealed() *sealed.Client { return &c.sealed }

// NewClient gives a client of a store that this process has opened. A second
// process on an SQLite file is one. Of the workflows that it is given it knows what may be
// asked of them when they are started by name: a dry run, and a mode.
func NewClient(ctx context.Context, s store.Store, workflows ...Definition) (*Client, error) {
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
	c, err := kernel.NewClient(ctx, s, executableBuild(), defaultMaxPayload, defaultSpillOver,
		defaultKeep)
	if err != nil {
		return nil, err
	}
	return &Client{
		sealed: sealed.Client{
			FrontEnd: &c.FrontEnd,
			Runs:     c,
			Known:    func(name string) *sealed.Workflow { return known[name] },
		},
	}, nil
}

// Start starts a run of a workflow by name with the bytes of its input, as [Workflow.Start] does by
// type. It asks for a run that nobody waits for unless opts say pattern.ModeSync, which is for a
// caller who waits for the end: a graph of the other mode is refused.
//
// Nobody need know the workflow yet: the run is then PENDING, and [Client.Describe] says
// why, until an engine does. That one then writes what pattern the run has. It cannot
// refuse a run that is there, so a mode that the caller does not know has no effect.
func (c *Client) Start(ctx context.Context, workflow string, input []byte,
	opts ...StartOption) (*Run[json.RawMessage], error) {
	if !journal.ValidName(workflow) {
		return nil, failure.BadName("workflow", workflow)
	}
	if isOwn(workflow) {
		return nil, ownName(workflow)
	}
	s, err := c.start(ctx, workflow, c.sealed.Known(workflow), append([]byte{}, input...),
		unwaited(opts))
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, s}, nil
}

func (c *Client) start(ctx context.Context, workflow string, def *sealed.Workflow, input []byte,
	opts []StartOption) (kernel.Started, error) {
	if err := kernel.Outside(ctx, "start "+workflow); err != nil {
		return kernel.Started{}, err
	}
	o, err := startOptionsOf(workflow, def, opts)
	if err == nil {
		err = accepts(def, input)
	}
	if err != nil {
		return kernel.Started{}, err
	}
	if c.tx == nil {
		return c.sealed.Runs.Start(ctx, o.Spec(workflow, def, input))
	}
	desk, err := c.desk(ctx, "start "+workflow)
	if err != nil {
		return kernel.Started{}, err
	}
	return desk.Begin(ctx, o.Spec(workflow, def, input))
}

// Cancel ends a run, by run ID or workflow ID, as CANCELLED with a reason: what
// still runs is cancelled first, and a workflow with clean-ups does those. On the
// engine that has the run, or of one that none has, it returns when it is durable
// that the run ends so; on another engine, and on a client of its own, when it is
// durable that it was asked to. A run that is cancelled already is
// left as it is; one that ended otherwise gives an [Error] of code wrong_state
// that names its status.
func (c *Client) Cancel(ctx context.Context, id, reason string) error {
	if err := c.outside("cancel " + id); err != nil {
		return err
	}
	return c.sealed.Runs.Cancel(ctx, id, failure.Clip(reason))
}

// Suspend parks a run, by run ID or workflow ID, until it is resumed: steps in flight
// end, and their results are kept; nothing new begins, timers and messages are held, and
// only its overall timeout and a cancel end it. It returns when that is durable, or,
// where another engine has the run, when it is durable that it was asked to.
func (c *Client) Suspend(ctx context.Context, id, reason string) error {
	if err := c.outside("suspend " + id); err != nil {
		return err
	}
	return c.sealed.Runs.Suspend(ctx, id, failure.Clip(reason))
}

// Resume lets a parked run go on, by run ID or workflow ID, and returns when
// that is durable, or, where another engine has the run, when it is durable that it was
// asked to. A run that is not SUSPENDED gives an [Error] of code
// wrong_state.
func (c *Client) Resume(ctx context.Context, id string) error {
	if err := c.outside("resume " + id); err != nil {
		return err
	}
	return c.sealed.Runs.Resume(ctx, id)
}

// Retry starts a run that goes on from where another one, by run ID or workflow ID, has
// failed: from the failed step, or where it was CANCELLED or TIMED_OUT, or its code failed
// by itself. The new run has the workflow ID, input, headers and attributes of the old
// one, and what that had done before; see [journal.Reusable] for what is kept and what is
// done anew. Its steps have the idempotency keys of the old run, but for those that were
// undone there: these have new ones. Open timers and waits begin anew, and messages
// that nobody took stay with the old run.
//
// Children go on too: one that is open is adopted, one that was FAILED, CANCELLED or
// TIMED_OUT is retried in the same commit, as its own children are, and its dead letter
// counts that. What ended well is not done again. While a child is being cancelled the
// code is conflict, and where one that failed is not here any more, not_found.
//
// A run in another status gives an [Error] of code wrong_state. So does a run in which a
// [StepTx] committed after a failure, or a branch began a child after it had heard of
// something, if the name of that step or child occurs more than once without a [Key]. So does
// one after which another run has had the workflow ID; while that is open, the code is
// conflict. A run that was retried already gives the run which that made, and [Run.New] is
// false.
func (c *Client) Retry(ctx context.Context, id string) (*Run[json.RawMessage], error) {
	if err := c.outside("retry " + id); err != nil {
		return nil, err
	}
	s, err := c.sealed.FrontEnd.Retry(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, s}, nil
}

// Decide answers a run that waits in [Park]: at a path, as [Client.Describe] and
// admin.Client.Parked show it, or under a name, where the run asks for one decision of that
// name only; else the code is conflict, and the error lists the paths. A name or path that
// the run does not ask for gives an [Error] of code not_found, a choice that is none of
// its choices one of code invalid, and a run that has ended one of code wrong_state. It
// answers that one wait: a second answer that comes before the run has taken the first
// changes nothing. The decision that was made last under that name may be made again, with
// the same choice and data, which changes nothing either: who has not heard of an answer
// repeats it.
func (c *Client) Decide(ctx context.Context, id, name string, d Decision) error {
	if err := c.outside("decide " + name + " of " + id); err != nil {
		return err
	}
	return c.sealed.FrontEnd.Decide(ctx, id, name, kernel.Decided{
		Choice: d.Choice, Data: d.Data, Reason: failure.Clip(d.Reason),
	})
}

// CancelTimer ends a timer of a run before its time, by its path: the name, with
// the scopes it is in. Where the run has no such timer open when it reads the
// message, nothing happens.
func (c *Client) CancelTimer(ctx context.Context, id, timer, reason string) error {
	if err := c.outside("cancel timer " + timer + " of " + id); err != nil {
		return err
	}
	return c.sealed.FrontEnd.CancelTimer(ctx, id, timer, failure.Clip(reason))
}

// History gives the journal of a run, by run ID or workflow ID, from a sequence
// on; limit 0 gives all. It is what is durable.
func (c *Client) History(ctx context.Context, id string, from int64, limit int) ([]journal.Entry,
	error) {
	_, entries, err := c.sealed.FrontEnd.History(ctx, id, from, limit)
	return entries, err
}

// Get gives the run with that run ID, or the one that a workflow ID stands for:
// the open one, else the newest.
func (c *Client) Get(ctx context.Context, id string) (*Run[json.RawMessage], error) {
	head, err := c.sealed.FrontEnd.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Run[json.RawMessage]{c, kernel.Started{Head: head}}, nil
}

// A Status is what [Client.Statuses] tells of a run.
type Status struct {
	Found  bool
	Head   journal.Head
	Output json.RawMessage // of a run that has ended; nil where it has none
	Err    error           // that it ended with
}

// IsTerminal says whether the run has ended, IsSuccess whether as it should.
func (s Status) IsTerminal() bool { return s.Head.Status.IsTerminal() }

// IsSuccess says whether the run has ended as its author hoped.
func (s Status) IsSuccess() bool { return s.Head.Status.IsSuccess() }

// Statuses tells of many runs, by run IDs and workflow IDs, at most 1,000, in the
// order asked; one that is not there is not Found. It asks the store three times
// at most, however many there are. Reading changes nothing.
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

// A Query says which runs are meant; zero fields do not limit.
type Query struct {
	WorkflowID string
	Workflow   string
	Parent     journal.RunID // that has started them, also where another run retries that
	Open       bool          // that have not ended
	Statuses   []RunStatus
	Attributes map[string]string // search attributes: all of these
	After      journal.Number    // the cursor that the page before gave
	Limit      int               // 0 for 100; at most 1,000
}

// List returns runs by query, newest first, and the cursor of the next page; zero
// when there is none. Runs of the engine's own workflows, such as dead letters, are
// found only by the name of that.
func (c *Client) List(ctx context.Context, q Query) ([]journal.Head, journal.Number, error) {
	f := store.Filter{
		WorkflowID: q.WorkflowID, Workflow: q.Workflow, Open: q.Open, Statuses: q.Statuses,
		Attributes: q.Attributes, After: q.After, Limit: q.Limit,
	}
	if q.Workflow == "" {
		f.Without = kernel.OwnPrefix
	}
	if q.Parent != "" {
		h, err := c.sealed.FrontEnd.Find(ctx, string(q.Parent))
		if err != nil {
			return nil, 0, err
		}
		f.Parent = h.Number
	}
	return c.sealed.FrontEnd.Heads(ctx, f)
}

// A Description is what is known of a run.
type Description struct {
	Head  journal.Head
	State journal.Snapshot // the fold of the journal
	// Why says in words why an open run does not go on by itself now; empty where
	// it does or has ended.
	Why string
	// Unread are messages that the run has not taken, at most 100; of one that has
	// ended those that nobody took.
	Unread []Message
	// Running and Abandoned are paths of steps: those that this engine executes,
	// and those that were given up while their code goes on.
	Running   []string
	Abandoned []string
}

// Describe tells all that is known of a run, by run ID or workflow ID. Of a run
// with a row that cannot be read, or is missing, it tells what comes before that row,
// with an [Error] of code corrupt.
func (c *Client) Describe(ctx context.Context, id string) (Description, error) {
	head, entries, err := c.sealed.FrontEnd.History(ctx, id, 1, 0)
	if head.Number == 0 {
		return Description{}, err
	}
	a := journal.NewAggregate(head.ID, head.WorkflowID, head.Workflow, head.Pattern)
	for i := range entries {
		if e := a.Apply(entries[i]); e != nil && err == nil {
			err = &Error{Code: journal.CodeCorrupt, Op: "describe " + id, Err: e}
			break
		}
	}
	d := Description{Head: head, State: a.Snapshot()}
	if c.sealed.Live != nil {
		live := c.sealed.Live.Live(head.Number)
		d.Running, d.Abandoned = live.Running, live.Abandoned
	}
	d.Why = c.why(d)
	if failure.IsDamaged(err) && head.Cause == "" && !head.Status.IsTerminal() {
		d.Why = "its journal is damaged: an engine that takes it up parks it"
	}
	if c.sealed.Live == nil && !head.Status.IsTerminal() && head.Status != journal.Suspended &&
		head.Status != journal.CompensationFailed {
		info, e := c.sealed.FrontEnd.Info(ctx)
		switch {
		case e != nil:
			err = cmp.Or(err, e)
		case sealed.Living(info):
		case d.Why == "", head.Status == journal.Pending:
			d.Why = "no engine has the store"
		default:
			d.Why += "; no engine has the store"
		}
	}
	unread, e := c.sealed.FrontEnd.Unread(ctx, string(head.ID), 0, unreadPage)
	if err == nil {
		err = e
	}
	d.Unread = messagesOf(unread)
	return d, err
}

const unreadPage = 100

// why says why an open run does not go on by itself.
func (c *Client) why(d Description) string {
	waits := d.State.Waits
	if d.State.Ending != 0 && len(waits) == 0 {
		return "it cleans up before it ends as " + d.State.Ending.String()
	}
	switch d.Head.Status {
	case journal.Pending:
		if c.sealed.Live != nil && c.sealed.Live.Lookup(d.Head.Workflow) == nil {
			return "no engine here knows workflow " + d.Head.Workflow
		}
		return "it waits for an engine with a free slot"
	case journal.Suspended, journal.CompensationFailed:
		if d.Head.Cause != "" {
			return "parked: " + d.Head.Cause
		}
	case journal.Waiting:
		if d.Head.Cause != "" {
			return "its code failed and is replayed at " + d.Head.Wake.Format(time.RFC3339) + ": " +
				d.Head.Cause
		}
		if len(waits) == 0 {
			return "a step failed and is tried again"
		}
	default:
		return ""
	}
	for _, w := range waits {
		// a timer that moved along may never be asked for
		if w.Kind != journal.WaitTimer || w.Due.After(time.Now()) {
			return waitsFor(w)
		}
	}
	return ""
}

// waitsFor says in words what a wait is for.
func waitsFor(w journal.Wait) string {
	due := ""
	if !w.Due.IsZero() {
		due = w.Due.UTC().Format(time.RFC3339)
	}
	switch w.Kind {
	case journal.WaitTimer:
		return "it waits for timer " + w.Path + ", due " + due
	case journal.WaitChild:
		return "it waits for child " + w.Path + ", run " + string(w.Child)
	case journal.WaitDecision:
		return "it waits for an operator's decision " + w.Path + ": " + w.Reason
	}
	if due != "" {
		return "it waits for signal " + w.Path + ", until " + due
	}
	return "it waits for signal " + w.Path
}
