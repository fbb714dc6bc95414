package orchestrator_test

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// An order waits for its payment and then asks for the shipment.
func ExampleOrchestrator() {
	order := func(_ context.Context, t *orchestrator.Turn) error {
		switch t.Event.Type {
		case "order.placed":
			t.Emit(event.Event{Type: "payment.wanted", Data: t.Event.Data})
			return t.Become("waits for its payment")
		case "payment.made":
			t.Emit(event.Event{Type: "shipment.wanted"})
			t.Finish()
			return t.Become("paid")
		}
		return nil
	}
	orders := orchestrator.Orchestrator{
		Source:   "/orders",
		Memory:   &orchestrator.Local[orchestrator.Record]{},
		Versions: []orchestrator.Version{{Initial: []string{"order.placed"}, Handle: order}},
		Publish: func(_ context.Context, events []event.Event) error {
			for _, e := range events {
				fmt.Println(e.Subject+":", e.Type)
			}
			return nil
		},
	}
	for _, e := range []event.Event{
		{ID: "1", Source: "/shop", Type: "order.placed", Subject: "order-7", Data: []byte("1250")},
		{ID: "1", Source: "/shop", Type: "order.placed", Subject: "order-7", Data: []byte("1250")},
		{ID: "2", Source: "/bank", Type: "payment.made", Subject: "order-7"},
		{ID: "3", Source: "/bank", Type: "payment.made", Subject: "order-8"},
	} {
		fmt.Println(orders.On(context.Background(), e))
	}
	// Output:
	// order-7: payment.wanted
	// handled <nil>
	// duplicate <nil>
	// order-7: shipment.wanted
	// handled <nil>
	// ignored <nil>
}
