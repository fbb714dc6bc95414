package dag

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/jsontype"
)

// A Registry has the values that a document names.
type Registry struct {
	Handlers map[string]Func // functions of steps
	// Compensations undo steps. In their argument, the source step=result is the result of the step
	// that is undone.
	Compensations map[string]Func
	Workflows     map[string]Child               // workflows of children
	Policies      map[string]backpressure.Policy // limits for the number of steps at once
	Errors        map[string]error               // errors that are retried
	Condition     func(text string) (pattern.Condition, error)
}

// A Func is a function of a step without its types: see [Handler].
type Func struct {
	call   pattern.TaskFunc
	check  func(pattern.SourceTypes) []definition.Issue
	result reflect.Type
}

// Handler makes a [Func] from a function whose argument is made like the argument of a step.
func Handler[A, R any](fn func(context.Context, A) (R, error)) Func {
	if fn == nil {
		return Func{}
	}
	args := pattern.NewArguments[A]()
	return Func{pattern.TaskOf(args, fn), args.Check, reflect.TypeFor[R]()}
}

// A Child is a workflow without its types: see [ChildOf].
type Child struct {
	run func(ctx context.Context, c *child, async bool, input json.RawMessage) (json.RawMessage,
		error)
	input  reflect.Type
	result reflect.Type
}

// ChildOf makes a [Child] from a workflow.
func ChildOf[I, O any](wf *perdure.Workflow[I, O]) Child {
	if wf == nil {
		return Child{}
	}
	return Child{func(ctx context.Context, c *child, async bool,
		input json.RawMessage) (json.RawMessage, error) {
		in, err := pattern.Decode[I](input)
		if err != nil {
			return nil, err
		}
		return runChild(ctx, c, async, wf, in)
	}, reflect.TypeFor[I](), reflect.TypeFor[ChildResult[O]]()}
}

// Read makes a graph from a document in JSON:
//
//	{
//	  "name": "fulfil", "version": "3", "description": "…",
//	  "mode": "ASYNC", "trigger": "order.placed", "timeout": "72h",
//	  "retry": {"attempts": 3, "first": "1s", "cap": "5m", "factor": 2, "jitter": 0.1,
//	            "on": ["busy"]},
//	  "publish_events": true, "concurrency": 4, "output": "ship",
//	  "steps": [
//	    {"id": "check", "handler": "check"},
//	    {"id": "charge", "handler": "charge", "undo": "refund", "after": ["check"],
//	     "timeout": "30s", "variable": "receipt"},
//	    {"id": "gift", "handler": "wrap", "after": ["check"], "when": "input.gift",
//	     "async": true, "order": 1},
//	    {"id": "bill", "after": ["charge"],
//	     "child": {"workflow": "billing", "input": "charge", "any_outcome": true}},
//	    {"id": "ship", "handler": "ship", "after": ["charge"],
//	     "event": {"topic": "orders", "type": "shipped", "key": "order"},
//	     "wait": {"signal": {"name": "packed", "within": "24h"},
//	              "timer": {"name": "cool-off", "after": "1h"},
//	              "any": {"within": "48h", "gates": [{"signal": "picked-up"},
//	                                                 {"timer": "evening", "after": "8h"}]}}}
//	  ]
//	}
//
// Times have the format of [time.ParseDuration]. The input of a child is the result of the step
// that "input" names; without "input" it is the input of the graph. "backpressure" names a policy,
// and replaces "concurrency". "all" replaces "any". A child may be "detached".
//
// Read reports all defects at once, each with its place, as a [definition.Error]. Anything that is
// not known is refused. A named compensation that does not exist is a warning, which is reported
// when the graph is registered.
func Read(document []byte, r Registry) (*Graph[json.RawMessage], error) {
	d := &reader{registry: r}
	if d.registry.Condition == nil {
		d.registry.Condition = func(string) (pattern.Condition, error) {
			return nil, &perdure.Error{
				Code: perdure.CodeInvalid, Op: "condition",
				Message: "nothing here reads conditions",
			}
		}
	}
	form := d.graph(document)
	g := New[json.RawMessage](form.name, form.options...)
	form.fill(g.def)
	p := newPlan(g.def.declared)
	issues := slices.Concat(d.issues, form.placed(p.issues), form.placed(p.graph.Check()))
	for _, i := range issues {
		if i.Severity == definition.SeverityError {
			return nil, &definition.Error{Workflow: form.name, Issues: issues}
		}
	}
	return g, nil
}

// A form is a document that was read.
type form struct {
	name         string
	about        perdure.About
	options      []perdure.WorkflowOption
	mode         Mode
	events       bool
	backpressure backpressure.Policy
	output       string
	steps        []*step
}

// fill puts the form into a definition.
func (f *form) fill(d *declaration) {
	d.output, d.events.On, d.backpressure = f.output, f.events, f.backpressure
	for _, s := range f.steps {
		if s.id != "" { // else the issue is in the list already
			d.steps = append(d.steps, s)
		}
	}
	if f.mode != "" {
		d.mode = f.mode
	}
}

// placed returns the issues with the place in the document instead of the ID of the step.
func (f *form) placed(issues []definition.Issue) []definition.Issue {
	at := map[string]int{}
	for i, s := range f.steps {
		if _, known := at[s.id]; !known && s.id != "" {
			at[s.id] = i
		}
	}
	for i := range issues {
		where := issues[i].Where
		for id := where; id != ""; id = before(id) {
			if n, known := at[id]; known {
				issues[i].Where = place("steps", strconv.Itoa(n)) + where[len(id):]
				break
			}
		}
	}
	return issues
}

// before returns the part of a place before its last dot.
func before(where string) string { return where[:max(strings.LastIndexByte(where, '.'), 0)] }

// place returns the path of a place within another place.
func place(at, within string) string {
	if at == "" {
		return within
	}
	return at + "." + within
}

// graph reads a document.
func (d *reader) graph(document []byte) *form {
	f := &form{}
	at, named := "", false
	d.object(at, document, fields{
		"name": func(at string, v json.RawMessage) { f.name, named = d.name(at, v), true },
		"version": func(at string, v json.RawMessage) {
			f.about.Version = read[string](d, at, v)
		},
		"description": func(at string, v json.RawMessage) {
			f.about.Description = read[string](d, at, v)
		},
		"trigger": func(at string, v json.RawMessage) { f.about.Trigger = d.name(at, v) },
		"mode":    func(at string, v json.RawMessage) { f.mode = Mode(read[string](d, at, v)) },
		"timeout": func(at string, v json.RawMessage) {
			f.options = append(f.options, perdure.Timeout(d.duration(at, v)))
		},
		"retry": func(at string, v json.RawMessage) {
			r := d.retry(at, v)
			if err := r.Validate(); err != nil {
				d.issues = append(d.issues, definition.Wrong(at, err))
			}
			f.options = append(f.options, r)
		},
		"publish_events": func(at string, v json.RawMessage) { f.events = read[bool](d, at, v) },
		"concurrency": func(at string, v json.RawMessage) {
			d.limit(at, f, backpressure.Limit(number(d, at, v, 0, math.MaxInt)))
		},
		"backpressure": func(at string, v json.RawMessage) {
			d.limit(at, f, lookUp(d, at, v, d.registry.Policies))
		},
		"output": func(at string, v json.RawMessage) { f.output = d.name(at, v) },
		"steps": func(at string, v json.RawMessage) {
			d.list(at, v, func(at string, v json.RawMessage) {
				f.steps = append(f.steps, d.step(at, v))
			})
		},
	})
	if !named {
		d.complain("name", "it is needed")
	}
	if f.options = append(f.options, f.about); f.mode == "" {
		f.mode = Sync
	}
	return f
}

func (d *reader) limit(at string, f *form, p backpressure.Policy) {
	if f.backpressure != nil {
		d.complain(at, "set concurrency or backpressure, not both")
	}
	f.backpressure = p
}

// step reads one step.
func (d *reader) step(at string, v json.RawMessage) *step {
	s := &step{}
	has := map[string]bool{}
	mark := func(word string, read func(at string, v json.RawMessage)) func(string,
		json.RawMessage) {
		return func(at string, v json.RawMessage) { has[word] = true; read(at, v) }
	}
	undo := ""
	d.object(at, v, fields{
		"id": mark("id", func(at string, v json.RawMessage) { s.id = d.name(at, v) }),
		"handler": mark("handler", func(at string, v json.RawMessage) {
			s.be(lookUp(d, at, v, d.registry.Handlers))
		}),
		"child": mark("child", func(at string, v json.RawMessage) { d.child(at, v, s) }),
		"after": func(at string, v json.RawMessage) {
			d.list(at, v, func(at string, v json.RawMessage) {
				if id := d.name(at, v); id != "" {
					s.after = append(s.after, id)
				}
			})
		},
		"order":    func(at string, v json.RawMessage) { s.order = read[int](d, at, v) },
		"when":     func(at string, v json.RawMessage) { s.condition = d.condition(at, v) },
		"timeout":  func(at string, v json.RawMessage) { s.timeout = d.duration(at, v) },
		"retry":    func(at string, v json.RawMessage) { r := d.retry(at, v); s.retry = &r },
		"async":    func(at string, v json.RawMessage) { s.async = read[bool](d, at, v) },
		"undo":     func(at string, v json.RawMessage) { undo = d.name(at, v) },
		"event":    func(at string, v json.RawMessage) { s.event = d.event(at, v) },
		"variable": func(at string, v json.RawMessage) { s.variable = d.name(at, v) },
		"wait":     func(at string, v json.RawMessage) { d.wait(at, v, s) },
	})
	if has["handler"] == has["child"] {
		d.complain(at, "it needs a handler or a child, not both")
	}
	if !has["id"] {
		d.complain(place(at, "id"), "it is needed")
	}
	if c := d.registry.Compensations[undo]; c.call != nil {
		s.undo, s.undoCheck = c.call, c.check
	} else if undo != "" {
		s.note(definition.SeverityWarning, "undo", "there is no compensation %s", undo)
	}
	return s
}

// be sets the function of the step.
func (s *step) be(f Func) { s.call, s.check, s.result = f.call, f.check, f.result }

// child reads the child of a step.
func (d *reader) child(at string, v json.RawMessage, s *step) {
	c, of, from, named := &child{}, Child{}, "", false
	d.object(at, v, fields{
		"workflow": func(at string, v json.RawMessage) {
			of, named = lookUp(d, at, v, d.registry.Workflows), true
		},
		"input":       func(at string, v json.RawMessage) { from = d.name(at, v) },
		"detached":    func(at string, v json.RawMessage) { c.detached = read[bool](d, at, v) },
		"any_outcome": func(at string, v json.RawMessage) { c.any = read[bool](d, at, v) },
	})
	if !named {
		d.complain(place(at, "workflow"), "it is needed")
	}
	s.word, s.result = childWord, of.result
	s.check = func(types pattern.SourceTypes) []definition.Issue {
		if from == "" {
			return nil
		}
		message := ""
		switch result, known := types.Result(from); {
		case !known:
			message = "there is no step " + from
		case !jsontype.Fits(result, of.input):
			message = fmt.Sprintf("the workflow's input is of type %v, and the result of %s "+
				"of type %v", of.input, from, result)
		default:
			return nil
		}
		return []definition.Issue{
			{Severity: definition.SeverityError, Where: "child.input", Message: message},
		}
	}
	s.before = func(ctx context.Context, s *step, given pattern.Sources) (json.RawMessage, error) {
		in := given.Input
		if from != "" {
			if in, _ = given.Result(from); in == nil { // the step was skipped, or has no result
				in = json.RawMessage("null")
			}
		}
		return of.run(ctx, c, s.async, in)
	}
}

func (d *reader) condition(at string, v json.RawMessage) pattern.Condition {
	text, ok := readOK[string](d, at, v)
	if !ok {
		return nil
	}
	c, err := d.registry.Condition(text)
	switch {
	case err != nil:
		d.complain(at, "%v", err)
		return nil
	case c == nil:
		d.complain(at, "it gives no condition")
	}
	return c
}

func (d *reader) event(at string, v json.RawMessage) *pattern.StepEvent {
	e := &pattern.StepEvent{}
	d.object(at, v, fields{
		"topic": func(at string, v json.RawMessage) { e.Topic = read[string](d, at, v) },
		"type":  func(at string, v json.RawMessage) { e.Type = d.name(at, v) },
		"key":   func(at string, v json.RawMessage) { e.Key = read[string](d, at, v) },
	})
	return e
}

// wait reads the gates of a step.
func (d *reader) wait(at string, v json.RawMessage, s *step) {
	add := func(read func(at string, v json.RawMessage) gate) func(string, json.RawMessage) {
		return func(at string, v json.RawMessage) {
			issues := len(d.issues)
			if g := read(at, v); len(d.issues) == issues {
				s.wait(g)
			}
		}
	}
	several := func(kind gateKind) func(string, json.RawMessage) gate {
		return func(at string, v json.RawMessage) gate { return d.several(kind, at, v) }
	}
	d.object(at, v, fields{
		"signal": add(d.signal), "timer": add(d.timer), "all": add(several(forAll)),
		"any": add(several(forAny)),
	})
}

func (d *reader) signal(at string, v json.RawMessage) gate {
	g, one := gate{kind: forSignal}, Gate{}
	d.object(at, v, fields{
		"name":   func(at string, v json.RawMessage) { one.signal = d.name(at, v) },
		"within": func(at string, v json.RawMessage) { g.within = d.duration(at, v) },
	})
	if one.signal == "" {
		d.complain(at, "it needs a name")
	}
	g.of = []Gate{one}
	return g
}

func (d *reader) timer(at string, v json.RawMessage) gate {
	var one Gate
	d.object(at, v, fields{
		"name":  func(at string, v json.RawMessage) { one.timer = d.name(at, v) },
		"after": func(at string, v json.RawMessage) { one.after = d.duration(at, v) },
	})
	if one.timer == "" {
		d.complain(at, "it needs a name")
	}
	return gate{kind: forTimer, of: []Gate{one}}
}

func (d *reader) several(kind gateKind, at string, v json.RawMessage) gate {
	g := gate{kind: kind}
	d.object(at, v, fields{
		"within": func(at string, v json.RawMessage) { g.within = d.duration(at, v) },
		"gates": func(at string, v json.RawMessage) {
			d.list(at, v, func(at string, v json.RawMessage) { g.of = append(g.of, d.gate(at, v)) })
		},
	})
	return g
}

// gate reads one of several gates.
func (d *reader) gate(at string, v json.RawMessage) (g Gate) {
	d.object(at, v, fields{
		"signal": func(at string, v json.RawMessage) { g.signal = d.name(at, v) },
		"timer":  func(at string, v json.RawMessage) { g.timer = d.name(at, v) },
		"after":  func(at string, v json.RawMessage) { g.after = d.duration(at, v) },
	})
	if (g.signal == "") == (g.timer == "") || g.signal != "" && g.after != 0 {
		d.complain(at, "it is a signal, or a timer and after how long")
	}
	return g
}

func lookUp[T any](d *reader, at string, v json.RawMessage, known map[string]T) (found T) {
	name, ok := readOK[string](d, at, v)
	if !ok {
		return found
	}
	found, is := known[name]
	if !is || reflect.ValueOf(&found).Elem().IsZero() {
		d.complain(at, "there is no %q here", name)
	}
	return found
}
