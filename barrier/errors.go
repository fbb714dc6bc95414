package barrier

import (
	"errors"

	"github.com/perdure/perdure"
)

// The errors of deliveries that come at the wrong time. They are permanent and registered, so that
// recorded errors match them, too. The function was not called.
var (
	// ErrCancelled is the error of a try, a confirm or a step that comes after its cancel or undo.
	ErrCancelled = errors.New("it was cancelled or undone before")

	// ErrNotTried is the error of a confirm without a try.
	ErrNotTried = errors.New("it was not tried")
)

// No other package registers these names first: it would have to import this one.
var _ = errors.Join(
	perdure.RegisterError("barrier.cancelled", ErrCancelled),
	perdure.RegisterError("barrier.not-tried", ErrNotTried),
)

func invalid(message string) error {
	return &perdure.Error{Code: "invalid", Op: "barrier", Message: message}
}

// refused returns a permanent error of a delivery.
func (d delivery) refused(why error) error {
	return perdure.Permanent(&perdure.Error{Code: "wrong_state", Op: "barrier " + d.name, Err: why})
}
