// Package shop has an order over three orchestrators: the order itself, its payment and its goods.
// They know of each other by events only.
package shop

import (
	"context"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/orchestrator"
)

// A World is the outside: the bank and the warehouse. A call has its effect once for each key.
type World interface {
	// Charge returns false if the bank refuses.
	Charge(ctx context.Context, key, order string) (bool, error)
	// Reserve takes goods for an order.
	Reserve(ctx context.Context, key, order string) error
	// Release puts them back.
	Release(ctx context.Context, key, order string) error
}

// placed is the schema of the data of order.placed.
var placed = schema.Of(`{
	"type": "object", "required": ["cents"], "additionalProperties": false,
	"properties": {"cents": {"type": "integer", "minimum": 1}}
}`)

type (
	turn  = orchestrator.Turn
	state = orchestrator.ChartState[struct{}]
	moves = map[string][]orchestrator.Transition[struct{}]
)

// order is the chart of an order: payment and goods may answer in either order.
var order = orchestrator.Chart[struct{}]{
	Start: "placed",
	States: map[string]state{
		"placed": {Entry: begin, On: moves{
			"payment.made": {{To: "paid"}}, "payment.refused": {{To: "refused"}},
			"goods.reserved": {{To: "reserved"}},
		}},
		"paid": {On: moves{"goods.reserved": {{To: "done"}}}},
		"reserved": {On: moves{
			"payment.made": {{To: "done"}}, "payment.refused": {{To: "releasing"}},
		}},
		"refused": {On: moves{"goods.reserved": {{To: "releasing"}}}},
		"releasing": {Entry: toGoods("goods.unwanted"), On: moves{
			"goods.released": {{To: "failed"}},
		}},
		"done":   {Entry: sold, Final: true},
		"failed": {Entry: failed, Final: true},
	},
}

// begin asks for the payment and the goods, each of which is an instance of its own.
func begin(_ context.Context, t *turn, _ *struct{}) error {
	t.Begin(event.Event{Type: "payment.wanted", Subject: "pay-" + t.Event.Subject})
	t.Begin(event.Event{Type: "goods.wanted", Subject: "goods-" + t.Event.Subject})
	return nil
}

// toGoods returns an action that sends an event to the goods of this order.
func toGoods(kind string) func(context.Context, *turn, *struct{}) error {
	return func(_ context.Context, t *turn, _ *struct{}) error {
		t.Emit(event.Event{Type: kind, Subject: "goods-" + t.Event.Subject,
			Extensions: map[string]string{event.ExtTo: "goods"}})
		return nil
	}
}

// sold sends the goods, and answers.
func sold(ctx context.Context, t *turn, none *struct{}) error {
	t.Answer(event.Event{Type: "order.done"})
	return toGoods("goods.sold")(ctx, t, none)
}

func failed(_ context.Context, t *turn, _ *struct{}) error {
	t.Answer(event.Event{Type: "order.failed"})
	return nil
}

// Orchestrators returns the three: orders, payments and goods.
func Orchestrators(w World) (orders, payments, goods *orchestrator.Durable) {
	define := func(source string, v orchestrator.Version) *orchestrator.Durable {
		return orchestrator.Define(orchestrator.Orchestrator{
			Source: source, Versions: []orchestrator.Version{v},
		})
	}
	return define("orders", orchestrator.Version{
			Initial: []string{"order.placed"}, Handle: order.Handle,
			Accepts: map[string]orchestrator.Schema{
				"order.placed": placed, "payment.made": nil, "payment.refused": nil,
				"goods.reserved": nil, "goods.released": nil,
			},
		}),
		define("payments", orchestrator.Version{
			Initial: []string{"payment.wanted"}, Handle: pay(w),
		}),
		define("goods", orchestrator.Version{Initial: []string{"goods.wanted"}, Handle: keep(w)})
}

// pay charges the card and answers. If the bank gives no answer, it asks again.
func pay(w World) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) error {
		made, err := w.Charge(ctx, t.Event.Key(), t.Parent)
		if err != nil {
			return orchestrator.Again(err)
		}
		kind := "payment.refused"
		if made {
			kind = "payment.made"
		}
		t.Answer(event.Event{Type: kind})
		t.Finish()
		return nil
	}
}

// keep reserves goods, until they are sold or unwanted.
func keep(w World) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) (err error) {
		switch t.Event.Type {
		case "goods.wanted":
			err = w.Reserve(ctx, t.Event.Key(), t.Parent)
			t.Answer(event.Event{Type: "goods.reserved"})
		case "goods.unwanted":
			err = w.Release(ctx, t.Event.Key(), t.Parent)
			t.Answer(event.Event{Type: "goods.released"})
			t.Finish()
		case "goods.sold":
			t.Finish()
		}
		if err != nil {
			return orchestrator.Again(err)
		}
		return nil
	}
}

// Check returns the defects of the chart of an order; nil if it has none.
func Check() error { return order.Check() }
