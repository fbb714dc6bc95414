package kernel

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// The code of a run and the bodies of its steps share variables and idempotency keys. A body's
// variables and keys are recorded with its result, and count when the result is delivered. So
// workflow code sees the same on replay: if there are several writers, the writer with the latest
// record wins, and a failed attempt has set nothing.

// SetVariable sets a variable of the run of ctx, or removes it if data is nil.
func SetVariable(ctx context.Context, name string, data []byte) error {
	return set(ctx, journal.VariableSet, name, name, data)
}

// SetHeader sets a header of the run of ctx, or removes it if data is nil.
func SetHeader(ctx context.Context, name string, data []byte) error {
	return set(ctx, journal.HeaderSet, "header:"+name, name, data)
}

// set records the value of a variable or header. The note is called op.
func set(ctx context.Context, kind journal.Kind, op, name string, data []byte) error {
	d := &journal.Detail{VariableDetail: journal.VariableDetail{Variable: name}}
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		return noted(
			TakeNote(ctx, Note{
				Kind: kind, Name: op, Detail: d,
				Produce: func() ([]byte, *journal.Failure) { return data, nil },
			}),
		)
	}
	d.ByStep = true
	e := journal.Entry{Kind: kind, Data: data, Detail: d}
	if kind == journal.VariableSet {
		var f *journal.Failure
		if e.Spill, f = a.spillOver("variable "+name, data); f != nil {
			return &journal.Error{Code: f.Code, Op: "set " + name, Message: f.Message}
		}
	}
	a.write(e)
	return nil
}

func noted(out Outcome, err error) error {
	if err == nil && out.Failure != nil {
		err = &journal.Error{Code: out.Failure.Code, Message: out.Failure.Message}
	}
	return err
}

// write keeps an entry of the body until the attempt has succeeded.
func (a *attempt) write(e journal.Entry) {
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	a.writes = append(a.writes, e)
}

// written returns the entries of a kind that the body has written.
func (a *attempt) written(kind journal.Kind) iter.Seq[*journal.Entry] {
	return func(yield func(*journal.Entry) bool) {
		for i := range a.writes {
			if e := &a.writes[i]; e.Kind == kind && !yield(e) {
				return
			}
		}
	}
}

// Variables returns variables of the run of ctx: those of the names that exist, or all if there are
// no names. In the body of a step they include those that the body has set. It copies no others.
func Variables(ctx context.Context, names ...string) (map[string][]byte, error) {
	s, entries, err := variables(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(entries))
	for name, e := range entries {
		if out[name], err = s.valueOf(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Variable returns one variable, and false if there is none.
func Variable(ctx context.Context, name string) ([]byte, bool, error) {
	out, err := Variables(ctx, name)
	data, found := out[name]
	return data, found, err
}

func variables(ctx context.Context, names []string) (*scope, map[string]*journal.Entry, error) {
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		s, err := inside(ctx, call{verb: "variables"})
		if err != nil {
			return nil, nil, err
		}
		defer s.run.mu.Unlock()
		if !s.setOwn(names) {
			s.learns(nil)
		}
		return s, s.run.values.variablesOf(names), nil
	}
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.op.scope.setOwn(names) {
		a.op.scope.learns(a.op)
	}
	entries := r.values.variablesOf(names)
	for e := range a.written(journal.VariableSet) {
		if len(names) == 0 || slices.Contains(names, e.Detail.Variable) {
			setVariable(&entries, e)
		}
	}
	return a.op.scope, entries, nil
}

// valueOf returns the payload of an entry, and fetches it if it is still in the store.
func (s *scope) valueOf(e *journal.Entry) ([]byte, error) {
	r := s.run
	seq := storedAt(e)
	if seq == 0 {
		return e.Data, nil
	}
	r.mu.Lock()
	r.reads(1)
	r.mu.Unlock()
	data, err := r.k.fetch(r.number(), seq)
	r.mu.Lock()
	r.reads(-1)
	r.mu.Unlock()
	if err != nil {
		return nil, unavailable("variable "+e.Detail.Variable, err)
	}
	return data, nil
}

// AddKey records an idempotency key, and reports whether the run of ctx uses it for the first time.
// In the body of a step it is recorded with the result. If bodies that run at one time add the same
// key, it is new to one of them.
func AddKey(ctx context.Context, key string) (bool, error) {
	e := journal.Entry{Kind: journal.KeyAdded, Data: []byte(key)}
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		known, err := HasKey(ctx, key)
		if err != nil || known {
			return false, err
		}
		return true, noted(
			TakeNote(ctx, Note{
				Kind: e.Kind, Name: ownNames + "key",
				Produce: func() ([]byte, *journal.Failure) { return e.Data, nil },
			}),
		)
	}
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	a.op.scope.learns(a.op)
	if r.values.hasKey(key, true) {
		return false, nil
	}
	r.values.claimKey(key, a)
	e.Detail = &journal.Detail{VariableDetail: journal.VariableDetail{ByStep: true}}
	a.writes = append(a.writes, e)
	return true, nil
}

// holds reports whether the keys that an attempt has added are its own: the attempt goes on, or has
// succeeded.
func (a *attempt) holds() bool { return a != nil && (a.op.attempt == a || a.won) }

// HasKey reports whether the run of ctx has used an idempotency key.
func HasKey(ctx context.Context, key string) (bool, error) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		r := a.op.run
		r.mu.Lock()
		defer r.mu.Unlock()
		a.op.scope.learns(a.op)
		return r.values.hasKey(key, true), nil
	}
	s, err := inside(ctx, call{verb: "keys"})
	if err != nil {
		return false, err
	}
	defer s.run.mu.Unlock()
	s.learns(nil)
	return s.run.values.hasKey(key, false), nil
}

// traceHeader is the header of a run that its events carry on, by W3C Trace Context. The one that a
// run was started with says in which trace it is.
const traceHeader = "traceparent"

// traceOf returns the trace that the events of a run belong to; empty for none.
func traceOf(r *run) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values.allHeaders()[traceHeader]
}

// traceIn returns the trace context that a run was started in, by the detail of its first entry.
func traceIn(start *journal.Detail) string {
	if start == nil {
		return ""
	}
	return start.Headers[traceHeader]
}

// A tracing passes trace contexts on.
type tracing struct{ observe.Trace }

// start adds the trace context of a call to a start that has none.
func (t tracing) start(ctx context.Context, s Start) Start {
	if t.Caller != nil && s.Headers[traceHeader] == "" {
		s.Headers = traced(s.Headers, t.Caller(ctx))
	}
	return s
}

// signal adds the trace context of a call to a signal.
func (t tracing) signal(ctx context.Context, s Signal) Signal {
	if t.Caller != nil {
		s.SentIn = t.Caller(ctx)
	}
	return s
}

// step returns the context of the body of a step, with what traces add.
func (t tracing) step(a *attempt) context.Context {
	r := a.op.run
	if t.Step == nil || rules.IsOwn(r.identity().Workflow) {
		return a.ctx
	}
	return t.Step(a.ctx, string(r.id()), traceIn(r.start), a.op.path())
}

// child adds the trace context of a run to the headers of its child, in place of the one that the
// run was started in.
func (t tracing) child(of *run, headers map[string]string) map[string]string {
	in := traceIn(of.start)
	if t.Run == nil || headers[traceHeader] != in {
		return headers
	}
	return traced(headers, t.Run(string(of.id()), in))
}

// traced returns headers with a trace context, unless that is empty.
func traced(headers map[string]string, in string) map[string]string {
	if in == "" {
		return headers
	}
	headers = maps.Clone(headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[traceHeader] = in
	return headers
}
