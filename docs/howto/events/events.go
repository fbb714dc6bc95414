// Package howto is the code of the page about events.
package howto

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/orchestrator"
)

// An Order is the data of order.placed. Money is in cents.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

var placed = schema.Of(`{
	"type": "object", "required": ["id", "cents"],
	"properties": {"id": {"type": "string"}, "cents": {"type": "integer", "minimum": 1}}
}`)

// Orders waits for the payment of each order and then asks for its shipment.
var Orders = orchestrator.Define(orchestrator.Orchestrator{
	Source: "orders",
	Versions: []orchestrator.Version{{
		Initial: []string{"order.placed"},
		Accepts: map[string]orchestrator.Schema{"order.placed": placed, "payment.made": nil},
		Handle:  handle,
	}},
})

func handle(_ context.Context, t *orchestrator.Turn) error {
	switch t.Event.Type {
	case "order.placed":
		t.Emit(event.Event{Type: "payment.wanted", Data: t.Event.Data})
		return t.Become("unpaid")
	case "payment.made":
		t.Emit(event.Event{Type: "shipment.wanted"})
		t.Finish()
		return t.Become("paid")
	}
	return nil
}

// Inbound brings events to workflows.
var Inbound = bus.NewGateway()

// Greet is started by each order.placed, and knows its run by the order.
var Greet = perdure.Define("greet", func(ctx context.Context, o Order) (string, error) {
	type shipment struct {
		Order string `json:"order"`
		Track string `json:"track"`
	}
	s, err := bus.Wait[shipment](ctx, "shipment.sent", "order", o.ID, perdure.Within(72*time.Hour))
	return s.Track, err
}, Inbound.Starts("order.placed", bus.Route{Field: "id"}))

// Options sends what runs emit to a broker.
func Options(b bus.Broker, letters bus.Letters) perdure.Options {
	out := bus.Outbound{To: b, Topic: "shop", DeadLetter: letters.Keep}
	return perdure.Options{Publisher: out.Publish}
}

// Consume takes events from a broker until ctx ends.
func Consume(ctx context.Context, b bus.Broker, engine *perdure.Engine) error {
	router := bus.Router{
		{Source: "orders", Types: []string{"order.placed", "payment.made"},
			On: func(ctx context.Context, e event.Event) error {
				_, err := Orders.On(ctx, engine, e)
				return err
			}},
		{Source: "workflows", Types: []string{"order.placed", "shipment.sent"},
			On: func(ctx context.Context, e event.Event) error {
				return Inbound.On(ctx, engine.Client, e)
			}},
	}
	letters := bus.Letters{Admin: admin.New(engine)}
	consumer := bus.Consumer{
		Broker: b, Topics: []string{"shop"}, Group: "orders", Handle: router.Handle,
		DeadLetter: letters.Keep,
	}
	return consumer.Run(ctx)
}
