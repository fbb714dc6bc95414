// Package noise makes a bus as bad as buses can be.
package noise

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/perdure/perdure/event"
)

var errLater, errLost = errors.New("not now"), errors.New("the answer is lost")

// On returns a handler that does not hear of some events at once, so that others overtake them,
// hears of some twice, and loses some answers.
func On(handle func(context.Context, event.Event) error) func(context.Context, event.Event) error {
	return func(ctx context.Context, e event.Event) error {
		if rand.IntN(4) == 0 {
			return errLater
		}
		for range 1 + rand.IntN(2) {
			if err := handle(ctx, e); err != nil {
				return err
			}
		}
		if rand.IntN(4) == 0 {
			return errLost
		}
		return nil
	}
}
