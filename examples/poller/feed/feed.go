// Package feed has the workflow of a poller that reads the times of its predecessor.
package feed

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/schedule"
)

// A Source returns the orders that were made after a time, until another.
type Source func(ctx context.Context, after, until time.Time) ([]string, error)

// A Batch is the result of a run: the orders of a period.
type Batch struct {
	After  time.Time `json:"after"`
	Until  time.Time `json:"until"`
	Orders []string  `json:"orders"`
}

// Poll returns the workflow that polls a source, with its schedule.
func Poll(source Source, every time.Duration) *perdure.Workflow[struct{}, Batch] {
	return perdure.Define("poll", func(ctx context.Context, _ struct{}) (Batch, error) {
		times, _, err := schedule.TimesOf(ctx)
		if err != nil {
			return Batch{}, err
		}
		// The period is one of nominal times, not of clocks. So the periods of two runs meet, also
		// if a run was late, failed, or was made again after a crash.
		b := Batch{After: times.Time.Add(-every), Until: times.Time}
		if times.Success != nil {
			b.After = times.Success.Time
		}
		b.Orders, err = perdure.Step(ctx, "fetch", func(ctx context.Context) ([]string, error) {
			return source(ctx, b.After, b.Until)
		}, perdure.Retry{Attempts: 3, First: time.Second})
		return b, err
	}, schedule.Declare("poll-orders", schedule.Spec{
		Every: every, Description: "Takes the new orders of the shop",
	}))
}
