package pattern

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sealed"
)

// declared is the option of a step of a declaration, which begins however those beside it
// end.
type declared struct{}

func (declared) ApplyToStep(o *sealed.Operation) error {
	o.Declared = true
	return nil
}

// A Task is what a declared pattern does under one name: a function whose argument is
// made of what the run knows, and whose result is kept as encoded.
type Task struct {
	Name  string
	Key   string        // tells apart tasks of one name
	Phase perdure.Phase // empty for none
	Call  TaskFunc

	Retry    *perdure.Retry // nil is the workflow's
	Timeout  time.Duration  // of an attempt; 0 is none, or what undoes a step five minutes
	Variable string         // that the result is stored as; empty for none
	Event    *StepEvent     // that tells of its success; nil for none
	Announce bool           // see [Announced]
}

// A TaskFunc is the body of a task: see [TaskOf].
type TaskFunc func(ctx context.Context, given Sources) (json.RawMessage, error)

// TaskOf makes the body of a task of a function, whose argument args make.
func TaskOf[A, R any](args *Arguments[A], fn func(context.Context, A) (R, error)) TaskFunc {
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

// NoResult makes the function of a step, a participant or a compensation of one that has no
// result:
//
//	mail := dag.Add(order, "mail", pattern.NoResult(post.Mail))
func NoResult[A any](fn func(context.Context, A) error) func(context.Context, A) (struct{}, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, in A) (struct{}, error) { return struct{}{}, fn(ctx, in) }
}

// Run does a task as a step of the workflow, and gives its result.
func (t Task) Run(ctx context.Context, given Sources) (json.RawMessage, error) {
	return perdure.Step(ctx, t.Name, t.body(given), t.options()...)
}

// Async does it beside the workflow.
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

// undoTimeout limits an attempt of a compensation that has no limit of its own: nothing
// else ends one that hangs.
const undoTimeout = 5 * time.Minute

func (t Task) limit() time.Duration {
	if t.Timeout == 0 && t.Phase == perdure.PhaseUndo {
		return undoTimeout
	}
	return t.Timeout
}

func (t Task) options() []perdure.StepOption {
	opts := make([]perdure.StepOption, 0, 6)
	if t.Phase != perdure.PhaseUndo { // which comes of a failure
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
	return opts
}

type announced struct{}

func (announced) ApplyToStep(o *sealed.Operation) error {
	o.Announced = true
	return nil
}

// Announced has the start of a step's first attempt recorded before the attempt
// begins. It rides with the record before it and costs no commit.
var Announced perdure.StepOption = announced{}
