package perdure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// A Workflow is a definition: a name, a function, and options. It is made once,
// usually as a package variable, registered with engines, and started through
// them. It may be used by many goroutines.
type Workflow[I, O any] struct {
	def workflow
	err error // what is wrong with the definition, told by Register
}

// workflow is a definition without its types.
type workflow struct {
	kernel.Workflow
	retry     Retry
	retention *Retention // nil for the engine's
	about     About
	declared  Declared
	calling   Calling
	examined  func() (About, []Issue) // examine, the first time
	letters   DeadLetters
	odd       struct{ timeout, retry, replays []Issue } // of its options
}

// A WorkflowOption says how a workflow is run. A [Retry] is the policy of its
// steps that have none, a [Timeout] limits the whole run. Registration warns of what is
// negative or longer than a day, see [CheckTimeout] and [CheckRetry].
type WorkflowOption interface{ workflow(*workflow) error }

func (r Retry) workflow(w *workflow) error {
	w.retry, w.odd.retry = CheckRetry("retry", r)
	return nil
}

func (t Timeout) workflow(w *workflow) error {
	w.Timeout, w.odd.timeout = CheckTimeout("timeout", time.Duration(t))
	return nil
}

// ByName is an option of a workflow whose runs go on by name when another build has taken
// them up: an operation that is new there is performed, also where recorded ones that it
// may be another name of lie ahead. See [Added].
var ByName WorkflowOption = byName{}

type byName struct{}

func (byName) workflow(w *workflow) error {
	w.ByName = true
	return nil
}

// Replays says when the code of a run is replayed that panicked, or returned a
// [Retryable] error, in a row: after the policy's delays, and after its attempts
// the run is parked. Without it that is 10 attempts, 1 s, doubled each time, at
// most 5 min.
type Replays Retry

func (p Replays) workflow(w *workflow) error {
	r := Retry(p)
	if r.Attempts == 0 {
		r.Attempts = maxReplays
	}
	r, w.odd.replays = CheckRetry("replays", r)
	w.Panics = func(n int) (time.Duration, bool) { return r.next(n, nil) }
	if len(r.On) > 0 {
		return invalid("replays", "On has no meaning here")
	}
	return nil
}

const maxReplays = 10

// Define makes a workflow of an ordinary function. The name is what runs are
// found by in the store, so it outlives the function's; it has 1 to 255 of
// A-Z a-z 0-9 . _ : -. What is wrong with the definition is told by
// [Engine.Register].
//
// fn is workflow code: it is called again from the top after a crash, and gets
// the recorded result of everything that it did in durable operations. Between
// them it must decide by its input and those results alone; effects, clocks and
// random numbers belong in steps. A defer in it must only free memory and locks.
//
// Names that begin with "perdure." are the engine's.
func Define[I, O any](name string, fn func(context.Context, I) (O, error), opts ...WorkflowOption) *Workflow[I, O] {
	w := define(name, fn, opts...)
	if isOwn(name) {
		w.err = ownName(name)
	}
	return w
}

// isOwn says whether the name is one of the engine's own workflows.
func isOwn(name string) bool { return strings.HasPrefix(name, kernel.OwnPrefix) }

func ownName(name string) error {
	return &Error{
		Code: journal.CodeInvalid, Message: "workflow " + quoted(name) + " cannot be",
		Hint: "names that begin with " + kernel.OwnPrefix + " are the engine's",
	}
}

func define[I, O any](name string, fn func(context.Context, I) (O, error), opts ...WorkflowOption) *Workflow[I, O] {
	w := &Workflow[I, O]{}
	w.def.Name, w.def.retry = name, DefaultRetry
	_ = Replays{}.workflow(&w.def)
	switch {
	case !journal.ValidName(name):
		w.err = badName("workflow", name)
	case fn == nil:
		w.err = invalid("define "+name, "a workflow needs a function")
	}
	for _, opt := range opts {
		err := error(invalid("define "+name, "a nil option"))
		if opt != nil {
			err = opt.workflow(&w.def)
		}
		if w.err == nil {
			w.err = err
		}
	}
	w.def.examined = sync.OnceValues(w.def.examine)
	w.def.Next = w.def.retry.next
	body := func(ctx context.Context, input []byte) ([]byte, *journal.Failure) {
		in, err := decode[I](input)
		if err != nil {
			return nil, toFailure(decodeError("input of "+name, in, err))
		}
		return call(ctx, "output of", name, func(ctx context.Context) (O, error) { return fn(ctx, in) })
	}
	w.def.Body = w.def.letters.around(body)
	return w
}

// Name is the workflow's name.
func (w *Workflow[I, O]) Name() string { return w.def.Name }

func (w *Workflow[I, O]) definition() (*workflow, error) {
	switch {
	case w == nil:
		return nil, invalid("register", "a nil workflow")
	case w.def.examined == nil:
		return nil, invalid("register", "a workflow is made by Define")
	}
	return &w.def, w.err
}

// A StartOption says how a run is started.
type StartOption interface{ start(*startOptions) error }

type startOptions struct {
	id         string
	dedup      time.Duration
	headers    map[string]string
	attributes map[string]string
	sendKey    string
	notes      map[string]string // headers of the engine's own
	mode       Mode              // that the start asks for; empty for none
}

// startOptionsOf returns how a run of a workflow is started, whose definition is nil where
// it is not known here.
func startOptionsOf(workflow string, def *workflow, opts []StartOption) (startOptions, error) {
	o := startOptions{dedup: defaultDedup}
	for _, opt := range opts {
		if opt == nil {
			return o, invalid("start "+workflow, "a nil option")
		}
		if err := opt.start(&o); err != nil {
			return o, err
		}
	}
	if len(o.notes) > 0 && o.headers == nil {
		o.headers = map[string]string{}
	}
	maps.Copy(o.headers, o.notes)
	if o.headers[headerDryRun] == "true" && !def.dryRuns() {
		return o, noDryRun(workflow, def)
	}
	if err := checkPressureName(workflow, def, o.headers[headerPressure]); err != nil {
		return o, err
	}
	return o, def.admits(o.mode)
}

// dryRuns reports whether a workflow can be walked through without doing anything.
func (w *workflow) dryRuns() bool {
	if w == nil {
		return false
	}
	about, _ := w.examined()
	return about.DryRuns
}

// noDryRun refuses a dry run: it would be one for real.
func noDryRun(workflow string, def *workflow) error {
	e := &Error{
		Code: journal.CodeInvalid, Op: "start " + workflow, Message: "only a graph can be walked through without doing anything",
		Hint: "start it without DryRun, or try it in a test",
	}
	if def == nil {
		e.Message = "this program does not know the workflow, so nothing says that a dry run of it would do nothing"
		e.Hint = "start it where it is registered, or give NewClient its definition"
	}
	return e
}

// spec returns what the kernel is asked to start. The pattern of a workflow that is not known
// here is written by the engine that takes the run up.
func (o startOptions) spec(workflow string, def *workflow, input []byte) kernel.Start {
	pattern := journal.PatternWorkflow
	if def != nil {
		pattern = def.Pattern
	}
	return kernel.Start{
		Workflow: workflow, Pattern: pattern, ID: o.id, Input: input, Dedup: o.dedup, Headers: o.headers, Attributes: o.attributes,
	}
}

// Headers are kept with a run and those that it continues as, for its code
// ([InfoOf]) and for observers: a trace context, a tenant.
type Headers map[string]string

func (h Headers) start(o *startOptions) error {
	o.headers = maps.Clone(h)
	return nil
}

// DryRun starts a run of a graph that walks through its declaration and does nothing: every
// step is skipped. A start of any other workflow is refused with it, and so is one by a
// [Client] that does not know the workflow.
var DryRun StartOption = dryRun{}

type dryRun struct{}

func (dryRun) start(o *startOptions) error {
	o.note(headerDryRun, "true")
	return nil
}

// TriggeredBy notes what has started a run, for its [Report].
type TriggeredBy string

func (t TriggeredBy) start(o *startOptions) error {
	o.note(headerTriggered, clip(string(t)))
	return nil
}

func (o *startOptions) note(name, value string) {
	if o.notes == nil {
		o.notes = map[string]string{}
	}
	o.notes[name] = value
}

// Attributes are search attributes that a run begins with. See [SetAttribute].
type Attributes map[string]string

func (a Attributes) start(o *startOptions) error {
	for name, value := range a {
		if err := checkAttribute(name, value); err != nil {
			return err
		}
	}
	o.attributes = maps.Clone(a)
	return nil
}

// ID is the workflow ID of a run: what the application calls it. At most one
// open run has it. A start whose ID has an open run of the same workflow, or one
// that ended within the dedup window, gives that run.
type ID string

func (id ID) start(o *startOptions) error {
	if !journal.ValidName(string(id)) {
		return badName("workflow ID", string(id))
	}
	o.id = string(id)
	return nil
}

// Dedup is how far back a start looks for a run of its ID that has ended: one that
// ended that lately, it gives instead of making another. Without it that is 24
// hours; 0 means open runs only. A run that it makes is kept as long after its end.
type Dedup time.Duration

func (d Dedup) start(o *startOptions) error {
	if d < 0 {
		return invalid("start", "a dedup window of %v", time.Duration(d))
	}
	o.dedup = time.Duration(d)
	return nil
}

const defaultDedup = 24 * time.Hour

// Start starts a run, or finds the one that its [ID] stands for; [Run.New] tells
// which. When it returns without an error the run is durable and will end, in
// this process or another one. It waits for the engine to run. When ctx ends
// first, the error says that the outcome is unknown; the same start with the
// same ID tells.
func (w *Workflow[I, O]) Start(ctx context.Context, c Caller, in I, opts ...StartOption) (*Run[O], error) {
	data, err := w.input(c, in)
	if err != nil {
		return nil, err
	}
	s, err := c.client().start(ctx, w.def.Name, &w.def, data, opts)
	if err != nil {
		return nil, err
	}
	return &Run[O]{c.client(), s}, nil
}

// input encodes the input of a run that c is to start.
func (w *Workflow[I, O]) input(c Caller, in I) ([]byte, error) {
	op := "start " + w.def.Name
	if w.err != nil {
		return nil, w.err
	}
	if k := c.client().k; k != nil && k.Lookup(w.def.Name) != &w.def.Workflow {
		return nil, &Error{
			Code: journal.CodeUnregistered, Op: op, Message: "the engine does not know this workflow", Hint: "pass it to Register first",
		}
	}
	data, err := encode(in)
	if err != nil {
		return nil, &Error{Code: journal.CodeEncode, Op: op, Message: fmt.Sprintf("an input of type %T does not encode", in), Err: err}
	}
	return data, nil
}

// Get gives the run of this workflow with that run ID, or the one that a workflow
// ID stands for: the open one, else the newest.
func (w *Workflow[I, O]) Get(ctx context.Context, c Caller, id string) (*Run[O], error) {
	head, err := c.client().desk.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if head.Workflow != w.def.Name {
		return nil, &Error{
			Code: journal.CodeNotFound, Op: "get " + id, Message: "it is a run of workflow " + head.Workflow + ", not of " + w.def.Name,
		}
	}
	return &Run[O]{c.client(), kernel.Started{Head: head}}, nil
}

// A Run is a handle on one run. It may be used by many goroutines.
type Run[O any] struct {
	c *Client
	s kernel.Started
}

// RunID is the run's own ID.
func (r *Run[O]) RunID() journal.RunID { return r.s.Head.ID }

// ID is the run's workflow ID; it is the run ID where none was given.
func (r *Run[O]) ID() string { return r.s.Head.WorkflowID }

// New says whether the start that gave this handle made the run.
func (r *Run[O]) New() bool { return r.s.New }

// Result waits for the run to end and gives its output; of one that continues as
// new, that of the last run of the chain. A run that failed gives
// the error that it recorded; one that was cancelled or timed out an [Error]
// with that code. The end of ctx ends only the waiting.
func (r *Run[O]) Result(ctx context.Context) (O, error) {
	_, out, err := r.c.runs.Wait(ctx, r.s)
	return result[O]("output of run", string(r.s.Head.ID), out, err)
}

// RawRun is a run of a workflow whose types this program need not know.
type RawRun = Run[json.RawMessage]
