package pattern

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
)

// A Condition decides whether a step of a declared pattern runs. Holds is called in workflow code:
// it must decide by its arguments alone, and do nothing else.
type Condition interface {
	// Check returns an error if the condition is not valid. It is called when the definition is
	// registered.
	Check() error
	// Holds decides. An error fails the step.
	Holds(ctx context.Context, k View) (bool, error)
}

// A View has the encoded values that a condition decides by. They must not be changed.
type View struct {
	Input   json.RawMessage
	Results map[string]json.RawMessage // of completed steps
	Headers map[string]string

	// Variables reads variables of the run when the condition asks for them, as [Variables] does:
	// the variables of these names that exist, or all variables if no name is given. A condition
	// costs what it reads. Nil means that there are no variables.
	Variables func(names ...string) (map[string]json.RawMessage, error)
}

// If is a condition in Go. See [Condition] for its limits.
type If func(ctx context.Context, k View) (bool, error)

// Check returns an error if the function is nil.
func (f If) Check() error {
	if f == nil {
		return failure.Invalid("condition", "a condition needs a function")
	}
	return nil
}

// Holds calls the function.
func (f If) Holds(ctx context.Context, k View) (bool, error) { return f(ctx, k) }

// Evaluate evaluates a condition. A panic in it is an error.
func Evaluate(ctx context.Context, c Condition, k View) (holds bool, err error) {
	err = guard.Try(func() error {
		holds, err = c.Holds(ctx, k)
		return err
	})
	return holds && err == nil, err
}
