package tcc

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Participant is a participant of a TCC. Its functions get an A, which is the TCC's input, or a
// struct with tags: see [pattern.Arguments]. Its methods build it, and return it.
type Participant[A, R any] struct {
	p    *participant
	args *pattern.Arguments[A]
}

// A participant is a [Participant] without its types. It never changes in a plan.
type participant struct {
	d        *declaration
	id       string
	order    int
	optional bool
	result   reflect.Type
	event    *pattern.StepEvent
	check    map[perdure.Phase]func(pattern.SourceTypes) []definition.Issue
	call     map[perdure.Phase]pattern.TaskFunc
	retry    map[perdure.Phase]*perdure.Retry
	timeout  map[perdure.Phase]time.Duration
}

// always is the key of settings for every phase.
const always = perdure.Phase("")

// Add adds a participant with its try. Mistakes in it are reported when the TCC is registered.
func Add[I, A, R any](t *TCC[I], id string, try func(context.Context, A) (R,
	error)) *Participant[A, R] {
	args := pattern.NewArguments[A]()
	p := &participant{
		d: t.def, id: id, result: reflect.TypeFor[R](),
		check: map[perdure.Phase]func(pattern.SourceTypes) []definition.Issue{},
		call:  map[perdure.Phase]pattern.TaskFunc{},
		retry: map[perdure.Phase]*perdure.Retry{}, timeout: map[perdure.Phase]time.Duration{},
	}
	p.set(perdure.PhaseTry, try == nil, pattern.TaskOf(args, try), args.Check)
	t.def.participants = append(t.def.participants, p)
	return &Participant[A, R]{p, args}
}

// set sets the function of a participant for a phase.
func (p *participant) set(phase perdure.Phase, missing bool, call pattern.TaskFunc,
	check func(pattern.SourceTypes) []definition.Issue) {
	switch {
	case missing:
		return // reported when the definition is complete
	case p.call[phase] != nil:
		p.d.complain(definition.SeverityError, p.id+"."+string(phase), "two functions")
	}
	p.call[phase], p.check[phase] = call, check
}

// ID returns the participant's ID.
func (p *Participant[A, R]) ID() string { return p.p.id }

// Confirm sets the function that is called after all have tried. It gets the argument and the
// result of the participant's try.
func (p *Participant[A, R]) Confirm(
	fn func(ctx context.Context, in A, tried R) error) *Participant[A, R] {
	p.p.set(perdure.PhaseConfirm, fn == nil, p.then(fn), nil)
	return p
}

// Cancel sets the function that is called when the TCC is cancelled. It gets the argument and the
// result of the participant's try.
func (p *Participant[A, R]) Cancel(
	fn func(ctx context.Context, in A, tried R) error) *Participant[A, R] {
	p.p.set(perdure.PhaseCancel, fn == nil, p.then(fn), nil)
	return p
}

// then makes the body of a phase after the try.
func (p *Participant[A, R]) then(
	fn func(ctx context.Context, in A, tried R) error) pattern.TaskFunc {
	return func(ctx context.Context, given pattern.Sources) (json.RawMessage, error) {
		in, err := p.args.Fill(ctx, given)
		if err != nil {
			return nil, err
		}
		var tried R
		if data, _ := given.Tried(p.p.id); data != nil {
			if tried, err = pattern.Decode[R](data); err != nil {
				return nil, err
			}
		}
		return nil, fn(ctx, in, tried)
	}
}

// ConfirmWith sets the confirm, like [Participant.Confirm], to a function whose argument is made by
// tags, such as try=debit. The result of the function is the result in the event of
// [Participant.Event].
func ConfirmWith[A, R, C, U any](p *Participant[A, R], fn func(context.Context, C) (U,
	error)) *Participant[A, R] {
	args := pattern.NewArguments[C]()
	p.p.set(perdure.PhaseConfirm, fn == nil, pattern.TaskOf(args, fn), args.Check)
	return p
}

// CancelWith sets the cancel, like [Participant.Cancel], to a function whose argument is made by
// tags.
func CancelWith[A, R, C, U any](p *Participant[A, R], fn func(context.Context, C) (U,
	error)) *Participant[A, R] {
	args := pattern.NewArguments[C]()
	p.p.set(perdure.PhaseCancel, fn == nil, pattern.TaskOf(args, fn), args.Check)
	return p
}

// Order sorts the participants. Participants with equal numbers keep the order of their
// declaration.
func (p *Participant[A, R]) Order(n int) *Participant[A, R] {
	p.p.order = n
	return p
}

// Optional lets the TCC go on without the participant if its try fails.
func (p *Participant[A, R]) Optional() *Participant[A, R] {
	p.p.optional = true
	return p
}

// Retry sets the participant's retry policy for the given phases. Without phases, it is for all
// phases that have no policy of their own.
func (p *Participant[A, R]) Retry(r perdure.Retry, phases ...perdure.Phase) *Participant[A, R] {
	for _, phase := range orAlways(phases) {
		policy := p.p.d.policy(p.p.id+".retry", r)
		p.p.retry[phase] = &policy
	}
	return p
}

// Timeout limits one attempt in the given phases. Without phases, it is for all phases that have no
// limit of their own.
func (p *Participant[A, R]) Timeout(limit time.Duration,
	phases ...perdure.Phase) *Participant[A, R] {
	for _, phase := range orAlways(phases) {
		p.p.timeout[phase] = p.p.d.limit(p.p.id+".timeout", limit)
	}
	return p
}

func orAlways(phases []perdure.Phase) []perdure.Phase {
	if len(phases) == 0 {
		return []perdure.Phase{always}
	}
	return phases
}

// Event sends the publisher an event when the participant has confirmed. The event has the result
// of the confirm, or of the try if the confirm has no result.
func (p *Participant[A, R]) Event(e pattern.StepEvent) *Participant[A, R] {
	p.p.event = &e
	return p
}

// Of returns the result of the participant's try in a run. It returns false if there is no result.
func (p *Participant[A, R]) Of(r Result) (R, bool, error) {
	return report.ResultOf[R](r.Run, p.p.id)
}

// frozen returns a copy of the participant, for a plan.
func (p *participant) frozen(d *declaration) *participant {
	f := *p
	f.d = d
	f.check, f.call, f.retry, f.timeout = maps.Clone(p.check), maps.Clone(p.call),
		maps.Clone(p.retry), maps.Clone(p.timeout)
	return &f
}

// task returns the task of the participant in a phase.
func (p *participant) task(phase perdure.Phase) pattern.Task {
	t := pattern.Task{
		Name: p.id, Phase: phase, Call: p.call[phase], Retry: &p.d.retry, Timeout: p.d.timeout,
	}
	for _, of := range []perdure.Phase{always, phase} {
		if r := p.retry[of]; r != nil {
			t.Retry = r
		}
		if limit, set := p.timeout[of]; set {
			t.Timeout = limit
		}
	}
	if e := p.d.events.Step(p.event); phase == perdure.PhaseConfirm && e != nil {
		t.Event, t.Call = e, orTried(p.id, t.Call)
	}
	return t
}

// orTried returns a body that calls another body. If that has no result, its result is the result
// of the participant's try.
func orTried(id string, call pattern.TaskFunc) pattern.TaskFunc {
	return func(ctx context.Context, given pattern.Sources) (json.RawMessage, error) {
		out, err := call(ctx, given)
		if err == nil && out == nil {
			out, _ = given.Tried(id)
		}
		return out, err
	}
}
