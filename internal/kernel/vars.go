package kernel

import (
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
)

// Variables and idempotency keys are what the code of a run and the bodies of its
// steps share. What a body sets is recorded with its result, and counts when that is
// delivered: so workflow code sees the same on replay, of several writers the one
// whose record is later wins, and what a failed attempt has set never was.

// SetVariable sets a variable of the run of ctx, or removes it where data is nil.
func SetVariable(ctx context.Context, name string, data []byte) error {
	d := &journal.Detail{VariableDetail: journal.VariableDetail{Variable: name}}
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		return noted(TakeNote(ctx, Note{Kind: journal.VariableSet, Name: name, Detail: d, Produce: func() ([]byte, *journal.Failure) { return data, nil }}))
	}
	spill, f := a.spillOver("variable "+name, data)
	if f != nil {
		return &journal.Error{Code: f.Code, Op: "set " + name, Message: f.Message}
	}
	d.ByStep = true
	a.write(journal.Entry{Kind: journal.VariableSet, Data: data, Spill: spill, Detail: d})
	return nil
}

func noted(out Outcome, err error) error {
	if err == nil && out.Failure != nil {
		err = &journal.Error{Code: out.Failure.Code, Message: out.Failure.Message}
	}
	return err
}

// write keeps what the body has set until the attempt has succeeded.
func (a *attempt) write(e journal.Entry) {
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	a.writes = append(a.writes, e)
}

// Variables returns variables of the run of ctx, in the body of a step with what that has
// set: those of the names that are there, or all where there are no names. It copies no
// others.
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

// Variable returns one of them, and false where there is none.
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
	for i := range a.writes {
		e := &a.writes[i]
		if e.Kind == journal.VariableSet && (len(names) == 0 || slices.Contains(names, e.Detail.Variable)) {
			setVariable(&entries, e)
		}
	}
	return a.op.scope, entries, nil
}

// valueOf gives the payload of an entry that may be in the store still.
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

// AddKey says whether the run of ctx uses an idempotency key for the first time, and
// remembers it. In the body of a step it is remembered with the result; of bodies that
// run at one time and add the same key it is new to one.
func AddKey(ctx context.Context, key string) (bool, error) {
	e := journal.Entry{Kind: journal.KeyAdded, Data: []byte(key)}
	a, ok := ctx.Value(contextKey{}).(*attempt)
	if !ok {
		known, err := HasKey(ctx, key)
		if err != nil || known {
			return false, err
		}
		return true, noted(TakeNote(ctx, Note{Kind: e.Kind, Name: ownNames + "key", Produce: func() ([]byte, *journal.Failure) { return e.Data, nil }}))
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

// holds says whether the keys that an attempt has added are its: it goes on, or has
// succeeded.
func (a *attempt) holds() bool { return a != nil && (a.op.attempt == a || a.won) }

// HasKey says whether the run of ctx has used an idempotency key.
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
