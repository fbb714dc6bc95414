package demo

import (
	"fmt"
	"math/rand/v2"
)

// A Plan is what a seed foretells.
type Plan struct {
	Seed    uint64
	Orders  []Order
	Refused map[string]bool // orders that the carrier will not take
	Stock   int             // what there is in the beginning
	Kills   []Target        // where the worker is killed
}

// A Target is a call of an order.
type Target struct {
	Order  string `json:"order"`
	Action Action `json:"action"`
}

// firstOrder is the number of the first order: customers trust a shop that has
// sold something.
const firstOrder = 1001

// fewestOrders is enough to see one that is shipped and one that is not.
const fewestOrders = 5

// DefaultOrders is how many orders a demo with that many kills has.
func DefaultOrders(kills int) int { return max(fewestOrders, kills+2) }

// NewPlan gives the plan of a seed. Every fourth order or so is refused, and
// always at least one. It fails where there are fewer calls than kills.
func NewPlan(seed uint64, orders, kills int) (Plan, error) {
	p := Plan{Seed: seed, Refused: map[string]bool{}, Stock: 10}
	random := rand.New(rand.NewPCG(seed, 0))
	never := random.IntN(orders)
	var calls []Target
	for i := range orders {
		o := Order{
			ID:       fmt.Sprintf("ord-%d", firstOrder+i),
			Quantity: 1 + random.IntN(3),
			Cents:    int64(500 + random.IntN(9500)),
		}
		if random.IntN(4) == 0 || i == never {
			p.Refused[o.ID] = true
		}
		p.Orders = append(p.Orders, o)
		p.Stock += o.Quantity
		for _, a := range p.Actions(o.ID) {
			calls = append(calls, Target{o.ID, a})
		}
	}
	if kills > len(calls) {
		return Plan{}, fmt.Errorf("%s with %s: too few for %s", counted(orders, "order"), counted(len(calls), "call"), counted(kills, "kill"))
	}
	random.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	p.Kills = calls[:kills]
	return p, nil
}

// Actions are the calls that an order makes, in order.
func (p Plan) Actions(order string) []Action {
	if p.Refused[order] {
		return []Action{Reserve, Charge, Ship, Refund, Release}
	}
	return []Action{Reserve, Charge, Ship}
}

// Left is the stock after every order.
func (p Plan) Left() int {
	left := p.Stock
	for _, o := range p.Orders {
		if !p.Refused[o.ID] {
			left -= o.Quantity
		}
	}
	return left
}
