package pattern

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
)

// declared is the option of a step of a declaration. Such a step begins however the steps beside it
// end.
type declared struct{}

func (declared) ApplyToStep(o *sealed.Operation) error {
	o.Declared = true
	return nil
}

// A Task is a named piece of work of a declared pattern: a function whose argument is made of
// values that the run knows, and whose encoded result is kept.
type Task struct {
	Name  string
	Key   string        // separates tasks of one name
	Phase perdure.Phase // empty for no phase
	Call  TaskFunc

	Retry    *perdure.Retry // nil means the policy of the workflow
	Timeout  time.Duration  // of an attempt; 0 means none, or 5 min for a compensation
	Variable string         // the variable that stores the result; empty for none
	Event    *StepEvent     // emitted at its success; nil for none
	Announce bool           // see [Announced]
	Undo     bool           // it has a compensation
	Occ      int            // of a compensation: the occurrence of the step; 0 for the first
}

// A TaskFunc is the body of a task: see [TaskOf].
type TaskFunc func(ctx context.Context, given Sources) (json.RawMessage, error)

// TaskOf makes the body of a task from a function. args makes the argument of the function, and
// [Arguments.Check] then checks the type of the result too.
func TaskOf[A, R any](args *Arguments[A], fn func(context.Context, A) (R, error)) TaskFunc {
	args.parts.result = reflect.TypeFor[R]()
	return func(ctx context.Context, given Sources) (json.RawMessage, error) {
		in, err := args.Fill(ctx, given)
		if err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return Encode(out)
	}
}

// NoResult makes the function of a step, a participant or a compensation from a function that
// has no result:
//
//	mail := dag.Add(order, "mail", pattern.NoResult(post.Mail))
func NoResult[A any](fn func(context.Context, A) error) func(context.Context, A) (struct{}, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, in A) (struct{}, error) { return struct{}{}, fn(ctx, in) }
}

// Run runs a task as a step of the workflow, and returns its result.
func (t Task) Run(ctx context.Context, given Sources) (json.RawMessage, error) {
	return perdure.Step(ctx, t.Name, t.body(given), t.options()...)
}

// Async runs the task beside the workflow.
func (t Task) Async(ctx context.Context, given Sources) *perdure.Future[json.RawMessage] {
	return perdure.Async(ctx, t.Name, t.body(given), t.options()...)
}

func (t Task) body(given Sources) func(context.Context) (json.RawMessage, error) {
	return func(ctx context.Context) (json.RawMessage, error) {
		out, err := t.Call(context.WithValue(ctx, sourcesKey{}, given), given)
		if err != nil {
			return nil, err
		}
		if t.Variable != "" {
			if err := perdure.SetVariable(ctx, t.Variable, out); err != nil {
				return nil, err
			}
		}
		if t.Event != nil {
			if err := t.Event.emit(ctx, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// undoTimeout limits an attempt of a compensation that has no limit of its own: nothing else ends
// an attempt that hangs.
const undoTimeout = 5 * time.Minute

func (t Task) limit() time.Duration {
	if t.Timeout == 0 && t.Phase == perdure.PhaseUndo {
		return undoTimeout
	}
	return t.Timeout
}

func (t Task) options() []perdure.StepOption {
	opts := make([]perdure.StepOption, 0, 7)
	if t.Phase != perdure.PhaseUndo { // a compensation begins after a failure
		opts = append(opts, declared{})
	}
	if t.Key != "" {
		opts = append(opts, perdure.Key(t.Key))
	}
	if t.Phase != "" {
		opts = append(opts, t.Phase)
	}
	if t.Retry != nil {
		opts = append(opts, *t.Retry)
	}
	if limit := t.limit(); limit > 0 {
		opts = append(opts, perdure.Timeout(limit))
	}
	if t.Announce {
		opts = append(opts, Announced)
	}
	if t.Occ > 0 {
		opts = append(opts, occurrence(t.Occ))
	}
	if t.Undo {
		opts = append(opts, undoable{})
	}
	return opts
}

// Skipped reports whether an operator has skipped the task, and returns the output that the
// operator has set. Whoever runs the task asks first, and then neither does what comes before the
// task nor undoes it.
func (t Task) Skipped(ctx context.Context, given Sources) (out json.RawMessage, is bool,
	err error) {
	is, async, err := kernel.Skipped(ctx, t.Phase.Of(t.Name), t.Key)
	switch {
	case err != nil || !is:
		return nil, false, err
	case async:
		out, err = t.Async(ctx, given).Await(ctx)
	default:
		out, err = t.Run(ctx, given)
	}
	return out, true, err
}

// occurrence is the option of a compensation of a step that is not the first of its name.
type occurrence int

func (n occurrence) ApplyToStep(o *sealed.Operation) error {
	o.Of = int(n)
	return nil
}

// undoable is the option of a step that has a compensation.
type undoable struct{}

func (undoable) ApplyToStep(o *sealed.Operation) error {
	o.Undo = true
	return nil
}

type announced struct{}

func (announced) ApplyToStep(o *sealed.Operation) error {
	o.Announced = true
	return nil
}

// Announced records the start of a step's first attempt before the attempt begins. The record is
// committed with the record before it and costs no commit of its own.
var Announced perdure.StepOption = announced{}
