package present

import (
	"errors"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/callback"
)

// Callback returns the form of the wait of a token.
func Callback(w callback.Callback) api.Callback {
	out := api.Callback{RunID: w.RunID, Callback: w.Path, State: stateOf(w)}
	if !w.Due.IsZero() {
		due := w.Due.UTC()
		out.Due = &due
	}
	return out
}

func stateOf(w callback.Callback) string {
	switch {
	case w.Open:
		return "open"
	case errors.Is(w.Err, callback.ErrAnswered):
		return "answered"
	case errors.Is(w.Err, callback.ErrExpired):
		return "expired"
	}
	return "ended"
}
