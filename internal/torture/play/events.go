package play

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// Tally is an orchestrator whose instances keep the numbers that their events have, in a list. Each
// event is answered by one with its number. The type tally.end ends an instance.
var Tally = orchestrator.Define(orchestrator.Orchestrator{
	Source: "tally",
	Versions: []orchestrator.Version{{
		Initial: []string{"tally.begin"},
		Accepts: map[string]orchestrator.Schema{
			"tally.begin": nil, "tally.add": nil, "tally.end": nil,
		},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			var all []int
			if _, err := t.State(&all); err != nil {
				return err
			}
			var n int
			if err := json.Unmarshal(t.Event.Data, &n); err != nil {
				return err
			}
			t.Answer(event.Event{Type: "tally.added", Data: t.Event.Data})
			if rand.IntN(10) == 0 {
				return orchestrator.Again(perdure.RetryAfter(handlesAgain, ErrMeant))
			}
			if t.Event.Type == "tally.end" {
				t.Finish()
			}
			return t.Become(append(all, n))
		},
	}},
}, keep)

// handlesAgain is short because one instance may have 230 events, of which a tenth fail.
const handlesAgain = 10 * time.Millisecond

// Hears is the workflow that events start ([Inbound]), and that another event wakes.
const Hears = "hears"

// Heard is the data of these events.
type Heard struct {
	ID    string `json:"id"`
	Value int    `json:"value"`
}

// Inbound returns the gateway to the workflow.
func Inbound() (*bus.Gateway, error) {
	g := bus.NewGateway()
	return g, errors.Join(
		g.Start("torture.asked", Hears, bus.Route{Field: "id"}), g.Wake("torture.told", "id"))
}

func defineEvents() []perdure.Definition {
	return []perdure.Definition{Tally, perdure.Define(Hears,
		func(ctx context.Context, asked Heard) (int, error) {
			told, err := bus.Wait[Heard](ctx, "torture.told", "id", asked.ID)
			return told.Value, err
		}, keep, bus.Changes{Publish: true})}
}
