package pattern

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
)

// A Condition decides whether a step of a declared pattern runs. Holds is called in
// workflow code: it must decide by what it is given alone, and do nothing else.
type Condition interface {
	// Check says what is wrong with it, when the definition is registered.
	Check() error
	// Holds decides. An error fails the step.
	Holds(ctx context.Context, k View) (bool, error)
}

// A View is what a condition decides by, as encoded. It is not to be changed.
type View struct {
	Input   json.RawMessage
	Results map[string]json.RawMessage // of steps that are done
	Headers map[string]string

	// Variables reads variables of the run when the condition asks, as [Variables] does:
	// those of the names that are there, or all of them where no name is given. A condition
	// costs what it reads. nil: there are none.
	Variables func(names ...string) (map[string]json.RawMessage, error)
}

// If is a condition in Go. See [Condition] for what it must not do.
type If func(ctx context.Context, k View) (bool, error)

// Check says that there is no function.
func (f If) Check() error {
	if f == nil {
		return failure.Invalid("condition", "a condition needs a function")
	}
	return nil
}

// Holds calls the function.
func (f If) Holds(ctx context.Context, k View) (bool, error) { return f(ctx, k) }

// Evaluate asks a condition. A panic in it is an error.
func Evaluate(ctx context.Context, c Condition, k View) (holds bool, err error) {
	err = guard.Try(func() error {
		holds, err = c.Holds(ctx, k)
		return err
	})
	return holds && err == nil, err
}
