package perdure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Workflow is a definition: a name, a function, and options. It is created once, usually as a
// package variable, registered with engines, and started through them. Many goroutines may use
// it.
type Workflow[I, O any] struct {
	def sealed.Workflow
	err error // the error of the definition, which Register returns
}

// A WorkflowOption is an option of a workflow, for all its runs. [Retry] is the policy of its
// steps that have none. [Timeout] limits the whole run. [Replays] is the policy of its code.
// [Retention], [Listener], [About], [ByName], limit.Control, bus.Changes, steplog.Keep and
// deadletter.Automatic are others.
// For authors of patterns there are pattern.Accepts, pattern.Calling, pattern.CleansUp,
// pattern.MayCleanUp, pattern.Declared, pattern.UsualTimeout and pattern.Kind. Registration refuses
// a negative timeout, and warns of odd delays: see [Retry.Check].
type WorkflowOption interface{ ApplyToWorkflow(*sealed.Workflow) error }

func (r Retry) ApplyToWorkflow(w *sealed.Workflow) error {
	r, w.Odd.Retries = r.Check("retry")
	w.Next = r.next
	return nil
}

func (t Timeout) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Timed = true
	w.Timeout, w.Odd.Timeouts = definition.CheckTimeout("timeout", time.Duration(t))
	return nil
}

// ByName is an option of a workflow whose runs are replayed by name when another build has loaded
// them. An operation that is new in that build is performed, even if the journal has later
// operations, and one of them may be the same operation under an older name. See [Added].
var ByName WorkflowOption = byName{}

type byName struct{}

func (byName) ApplyToWorkflow(w *sealed.Workflow) error {
	w.ByName = true
	return nil
}

// Replays is the policy for workflow code that panics or returns a [RetryAfter] error several times
// in a row. Its delays set when the code is replayed. After its attempts the run is parked. The
// default is 10 attempts, 1 s, doubled each time, at most 5 min.
type Replays Retry

func (p Replays) ApplyToWorkflow(w *sealed.Workflow) error {
	r := Retry(p)
	if r.Attempts == 0 {
		r.Attempts = maxReplays
	}
	r, w.Odd.Replays = r.Check("replays")
	w.Panics = func(n int) (time.Duration, bool) { return r.next(n, nil) }
	if len(r.On) > 0 {
		return failure.Invalid("replays", "On has no meaning here")
	}
	return nil
}

const maxReplays = 10

// Define returns a workflow made of an ordinary function. Runs in the store refer to the workflow
// by name, so the name must stay when the function is renamed. The name has 1 to 255 characters
// of A-Z a-z 0-9 . _ : -
// [Engine.Register] returns the errors of the definition.
//
// fn is workflow code: it is called again from the top after a crash, and gets the recorded
// result of every durable operation that it has done. Between these operations it must decide by
// its input and those results alone; effects, clocks and random numbers belong in steps. A defer
// in fn must only free memory and locks.
//
// Names that begin with "perdure." are reserved for the engine.
func Define[I, O any](name string, fn func(context.Context, I) (O, error),
	opts ...WorkflowOption) *Workflow[I, O] {
	w := define(name, fn, opts...)
	if isOwn(name) && !w.def.Own {
		w.refuse(ownName(name))
	}
	return w
}

// isOwn reports whether the name is the name of one of the engine's own workflows.
// ownID refuses a workflow ID that a run of the engine may have.
func ownID(id string) error {
	return &Error{
		Code: journal.CodeInvalid, Op: "start",
		Message: "workflow ID " + failure.Quoted(id) + " is not valid",
		Hint:    "IDs that begin with " + kernel.OwnPrefix + " are the engine's",
	}
}

func isOwn(name string) bool { return strings.HasPrefix(name, kernel.OwnPrefix) }

func ownName(name string) error {
	return &Error{
		Code: journal.CodeInvalid, Message: "workflow " + failure.Quoted(name) + " is not valid",
		Hint: "names that begin with " + kernel.OwnPrefix + " are the engine's",
	}
}

func define[I, O any](name string, fn func(context.Context, I) (O, error),
	opts ...WorkflowOption) *Workflow[I, O] {
	w := &Workflow[I, O]{}
	op := strings.TrimSpace("define " + name)
	w.def.Name, w.def.Next = name, defaultRetry.next
	_ = Replays{}.ApplyToWorkflow(&w.def)
	if !journal.ValidName(name) {
		w.refuse(failure.BadName("workflow", name))
	}
	if fn == nil {
		w.refuse(failure.Invalid(op, "a workflow needs a function"))
	}
	for _, v := range []struct {
		what string
		of   reflect.Type
	}{{"input", reflect.TypeFor[I]()}, {"output", reflect.TypeFor[O]()}} {
		if err := payload.Check(v.of); err != nil {
			w.refuse(&Error{
				Code: journal.CodeInvalid, Op: op,
				Message: fmt.Sprintf("the type of the %s is not valid: %v", v.what, err),
				Hint: "use structs with exported fields, or let the type have MarshalJSON and " +
					"UnmarshalJSON",
			})
		}
	}
	w.def.Decodes = func(input []byte) error {
		in, err := payload.Decode[I](input)
		if err == nil {
			return nil
		}
		return &Error{
			Code: journal.CodeInvalid, Op: "start " + name,
			Message: fmt.Sprintf("the input does not decode into %T", in), Err: err,
			Hint: "pass the JSON of a value of that type",
		}
	}
	for _, opt := range opts {
		if opt == nil {
			w.refuse(failure.Invalid(op, "an option is nil"))
		} else if err := opt.ApplyToWorkflow(&w.def); err != nil {
			w.refuse(err)
		}
	}
	w.def.Examined = sync.OnceValues(func() (definition.Outline, []definition.Issue) {
		return examine(&w.def)
	})
	body := func(ctx context.Context, input []byte) ([]byte, *journal.Failure) {
		in, err := payload.Decode[I](input)
		if err != nil {
			return nil, failure.Of(payload.DecodeError("input of "+name, in, err))
		}
		ctx = context.WithValue(ctx, inputKey{}, reflect.TypeFor[I]())
		return payload.Call(ctx, "output of", name, func(ctx context.Context) (O, error) {
			return fn(ctx, in)
		})
	}
	w.def.Body = deadLettered(w.def.DeadLetters, body)
	return w
}

// refuse adds an issue that refuses the definition. The first such issue is the error of a start.
func (w *Workflow[I, O]) refuse(err error) {
	w.err = cmp.Or(w.err, err)
	w.def.Odd.Definition = append(w.def.Odd.Definition, definition.Issue{
		Severity: definition.SeverityError, Message: strings.TrimPrefix(err.Error(), "perdure: "),
		Err: err,
	})
}

// Name returns the workflow's name.
func (w *Workflow[I, O]) Name() string { return w.def.Name }

func (w *Workflow[I, O]) definition() (*sealed.Workflow, error) {
	switch {
	case w == nil:
		return nil, errNilWorkflow
	case w.def.Examined == nil:
		return nil, failure.Invalid("register", "a workflow is made by Define")
	}
	return &w.def, nil
}

// A StartOption is an option of the start of a run: [ID], [Dedup], [Headers], [Attributes],
// [TriggeredBy], [SendKey] with [SendWithStart], schedule.At, backpressure.Named, pattern.DryRun or
// pattern.Mode.
type StartOption interface{ ApplyToStart(*sealed.Start) error }

// startOptionsOf returns the options of a start of a workflow. The definition def is nil if it is
// not known here.
func (c *Client) startOptionsOf(workflow string, def *sealed.Workflow,
	opts []StartOption) (sealed.Start, error) {
	o := sealed.Start{Dedup: c.sealed.Dedup}
	for _, opt := range opts {
		if opt == nil {
			return o, failure.Invalid("start "+workflow, "a nil option")
		}
		if err := opt.ApplyToStart(&o); err != nil {
			return o, err
		}
	}
	if len(o.Notes) > 0 && o.Headers == nil {
		o.Headers = map[string]string{}
	}
	maps.Copy(o.Headers, o.Notes)
	if o.Headers[sealed.HeaderDryRun] == "true" && !dryRuns(def) {
		return o, noDryRun(workflow, def)
	}
	if err := checkPolicy(workflow, def, o.Headers[sealed.HeaderPolicy]); err != nil {
		return o, err
	}
	return o, admits(def, o.Mode)
}

// accepts returns an error if the definition is known and refuses the input of a run.
func accepts(def *sealed.Workflow, input []byte) error {
	if def == nil || def.Accepts == nil {
		return nil
	}
	return def.Accepts(input)
}

// dryRuns reports whether a workflow supports dry runs, which have no effects.
func dryRuns(w *sealed.Workflow) bool {
	if w == nil {
		return false
	}
	about, _ := w.Examined()
	return about.DryRuns
}

// noDryRun refuses a dry run: the run would have effects.
func noDryRun(workflow string, def *sealed.Workflow) error {
	e := &Error{
		Code: journal.CodeInvalid, Op: "start " + workflow,
		Message: "only a graph can be walked through without doing anything",
		Hint:    "start it without DryRun, or try it in a test",
	}
	if def == nil {
		e.Message = "this program does not know the workflow, so nothing says that a dry run of " +
			"it would do nothing"
		e.Hint = "start it where it is registered, or give NewClient its definition"
	}
	return e
}

// takesPolicy reports whether a workflow uses a backpressure policy.
func takesPolicy(w *sealed.Workflow) bool {
	if w == nil || w.Declared == nil {
		return false
	}
	about, _ := w.Examined()
	return about.Backpressure
}

// checkPolicy refuses a name that no policy has, and a policy that would change nothing. An empty
// name means no policy.
func checkPolicy(workflow string, def *sealed.Workflow, name string) error {
	if name == "" {
		return nil
	}
	if takesPolicy(def) {
		_, err := backpressure.Lookup(name)
		return err
	}
	e := &Error{
		Code: journal.CodeInvalid, Op: "start " + workflow,
		Message: "the workflow uses no backpressure policy",
		Hint:    "graphs, sagas and compositions of TCCs do; start it without backpressure.Named",
	}
	if def == nil {
		e.Message = "this program does not know the workflow, nor whether it uses a backpressure " +
			"policy"
		e.Hint = "start it where it is registered, or pass its definition to NewClient"
	}
	return e
}

// Headers are kept with a run, for its code ([InfoOf]) and for people: a trace context, a tenant.
// The runs that it continues as have them too, and so have its children. A header has the form of a
// name, which does not begin with "perdure:", and a value of at most 8,192 bytes.
type Headers map[string]string

func (h Headers) ApplyToStart(o *sealed.Start) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if err := checkHeader(name, h[name]); err != nil {
			return err
		}
	}
	o.Headers = maps.Clone(h)
	return nil
}

// checkHeader returns an error for a header that is not valid.
func checkHeader(name, value string) error {
	switch {
	case !journal.ValidName(name):
		return failure.BadName("header", name)
	case strings.HasPrefix(name, "perdure:"):
		return failure.Reserved("header", name)
	case len(value) > maxHeader:
		return &Error{
			Code: journal.CodeTooLarge, Op: "header " + name,
			Message: fmt.Sprintf("the value has %d bytes; the limit is %d", len(value), maxHeader),
			Hint:    "keep it in the input of the run, or in a variable",
		}
	}
	return nil
}

// Set adds headers to those of the run of ctx, in workflow code or in the body of a step, as
// [SetVariable] sets variables. An empty value removes a header. Children and successors that
// begin later have the headers as they are then. It returns an [Error] of code invalid for a name
// that is not valid, and of code too_large for a value that is too long; headers before it in the
// order of names are set.
func (h Headers) Set(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := h[name]
		if err := checkHeader(name, value); err != nil {
			return err
		}
		var data []byte
		if value != "" {
			data = []byte(value)
		}
		if err := kernel.SetHeader(ctx, name, data); err != nil {
			return err
		}
	}
	return nil
}

// maxHeader is the largest value of a header, in bytes. Headers are never in rows of their own.
const maxHeader = 8 << 10

// TriggeredBy records the trigger of a run, for its report.
type TriggeredBy string

func (t TriggeredBy) ApplyToStart(o *sealed.Start) error {
	o.Note(sealed.HeaderTriggered, failure.Clip(string(t)))
	return nil
}

// Attributes are search attributes that a run begins with. See [SetAttribute].
type Attributes map[string]string

func (a Attributes) ApplyToStart(o *sealed.Start) error {
	for name, value := range a {
		if err := checkAttribute(name, value); err != nil {
			return err
		}
	}
	o.Attributes = maps.Clone(a)
	return nil
}

// ID is the workflow ID of a run: the name that the application has for it. Allowed are 1 to 255
// bytes of printable UTF-8 without spaces; IDs that begin with "perdure." are the engine's. At most
// one open run has it. If the ID has an open run of the same workflow, or one that ended within the
// dedup window, a start returns that run.
type ID string

func (id ID) ApplyToStart(o *sealed.Start) error {
	if !journal.ValidWorkflowID(string(id)) {
		return failure.BadWorkflowID(string(id))
	}
	if isOwn(string(id)) {
		return ownID(string(id))
	}
	o.ID = string(id)
	return nil
}

// Dedup is the dedup window of a start: how far back the start looks for a run of its ID that has
// ended. If such a run ended within the window, the start returns it and starts no other. The
// default is that of Options.Dedup, and 24 hours for a client without an engine and for a child; 0
// means open runs only. A run that the start makes is kept at least that
// long after its end.
type Dedup time.Duration

func (d Dedup) ApplyToStart(o *sealed.Start) error {
	if d < 0 {
		return failure.Invalid("start", "Dedup %v is not valid: at least 0", time.Duration(d))
	}
	o.Dedup = time.Duration(d)
	return nil
}

const defaultDedup = 24 * time.Hour

// Start starts a run, or finds the run that its [ID] stands for; [Run.New] reports which. When it
// returns without an error, the run is durable and will end, in this process or another one.
// Start waits for the engine to run. If ctx ends first, the error states that the outcome is
// unknown. To learn the outcome, start again with the same ID. If ctx has ended before the call,
// nothing is started.
func (w *Workflow[I, O]) Start(ctx context.Context, c Caller, in I, opts ...StartOption) (*Run[O],
	error) {
	client, err := clientOf("start "+w.def.Name, c)
	if err != nil {
		return nil, err
	}
	data, err := w.input(client, in)
	if err != nil {
		return nil, err
	}
	s, err := client.start(ctx, w.def.Name, &w.def, data, opts)
	if err != nil {
		return nil, err
	}
	return &Run[O]{client, s}, nil
}

// input encodes the input of a run that c is to start.
func (w *Workflow[I, O]) input(c *Client, in I) ([]byte, error) {
	op := "start " + w.def.Name
	if w.err != nil {
		return nil, w.err
	}
	if k := c.sealed.Live; k != nil && k.Lookup(w.def.Name) != &w.def.Workflow {
		e := &Error{
			Code: journal.CodeUnregistered, Op: op, Message: "the engine does not know this " +
				"workflow", Hint: "pass it to Register first",
		}
		if k.Lookup(w.def.Name) != nil {
			e.Message = "the engine knows another definition of this name"
			e.Hint = "start the definition that was passed to Register, or start by name with " +
				"Client.Start"
		}
		return nil, e
	}
	data, err := payload.Encode(in)
	if err != nil {
		return nil, &Error{
			Code: journal.CodeEncode, Op: op,
			Message: fmt.Sprintf("an input of type %T does not encode", in), Err: err,
		}
	}
	return data, nil
}

// Get returns the run of this workflow with that run ID, or the run that a workflow ID stands
// for: the open run, or the newest if none is open.
func (w *Workflow[I, O]) Get(ctx context.Context, c Caller, id string) (*Run[O], error) {
	client, err := clientOf("get "+id, c)
	if err != nil {
		return nil, err
	}
	head, err := client.sealed.FrontEnd.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if head.Workflow != w.def.Name {
		return nil, &Error{
			Code: journal.CodeNotFound, Op: "get " + id, Message: "it is a run of workflow " +
				head.Workflow + ", not of " + w.def.Name,
		}
	}
	return &Run[O]{client, kernel.Started{Head: head}}, nil
}

// A Run is a handle on one run. A Run[json.RawMessage] is a handle on a run of any workflow. Many
// goroutines may use it.
type Run[O any] struct {
	c *Client
	s kernel.Started
}

// RunID returns the run's own ID.
func (r *Run[O]) RunID() string { return string(r.s.Head.ID) }

// ID returns the run's workflow ID. It is the run ID if no workflow ID was set.
func (r *Run[O]) ID() string { return r.s.Head.WorkflowID }

// New reports whether the start that returned this handle made the run.
func (r *Run[O]) New() bool { return r.s.New }

// Result waits for the run to end and returns its output. If the run continues as new, it returns
// the output of the last run of the chain. If the run failed, it returns the recorded error. If
// the run was cancelled or timed out, it returns an [Error] with that code. The end of ctx ends
// only the waiting.
func (r *Run[O]) Result(ctx context.Context) (O, error) {
	_, out, err := r.c.sealed.Runs.Wait(ctx, r.s)
	return result[O]("output of run", string(r.s.Head.ID), out, err)
}
