package barrier

import (
	"errors"

	"github.com/perdure/perdure"
)

// The errors of what comes at the wrong time. They are permanent, and registered: they
// are found in recorded errors too. The function was not called.
var (
	// ErrCancelled is of a try, a confirm or a step whose cancel or undo was there before.
	ErrCancelled = errors.New("it was cancelled or undone before")

	// ErrNotTried is of a confirm without a try.
	ErrNotTried = errors.New("it was not tried")
)

// They are the first of these names: who could register others imports this package.
var _ = errors.Join(
	perdure.RegisterError("barrier.cancelled", ErrCancelled),
	perdure.RegisterError("barrier.not-tried", ErrNotTried),
)

func invalid(message string) error {
	return &perdure.Error{Code: "invalid", Op: "barrier", Message: message}
}

// refused is a permanent error of a delivery.
func (d delivery) refused(why error) error {
	return perdure.Permanent(&perdure.Error{Code: "wrong_state", Op: "barrier " + d.name, Err: why})
}
