// Command events has hundreds of orders over three orchestrators, whose process is killed again and
// again, while the bus between them doubles events, loses answers and lets events overtake each
// other. In the end each order is paid and sold once, or has failed and has everything back.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/examples/events/shop"
	"github.com/perdure/perdure/examples/internal/kill"
	"github.com/perdure/perdure/examples/internal/ledger"
	"github.com/perdure/perdure/examples/internal/noise"
	"github.com/perdure/perdure/orchestrator"
)

func main() { kill.Main(300, work, judge) }

// names returns the names of all orders by the seed: those of the poor cannot be paid.
func names(p kill.Plan) []string {
	random, all := rand.New(rand.NewPCG(p.Seed, 1)), make([]string, p.Count)
	for i := range all {
		all[i] = fmt.Sprint([]string{"rich", "rich", "poor"}[random.IntN(3)], "-", i)
	}
	return all
}

// An outside is the bank, the warehouse, and the customers, who hear of the ends of their orders.
type outside struct{ *ledger.Ledger }

func (o outside) Charge(ctx context.Context, key, order string) (bool, error) {
	if strings.HasPrefix(order, "poor") {
		return false, nil
	}
	return true, o.Give(ctx, key, order, "charged")
}

func (o outside) Reserve(ctx context.Context, key, order string) error {
	return o.Give(ctx, key, order, "reserved")
}

func (o outside) Release(ctx context.Context, key, order string) error {
	return o.Take(ctx, key, order, "reserved")
}

// Hear handles the events that are sent to the customers.
func (o outside) Hear(ctx context.Context, e event.Event) error {
	return o.Give(ctx, e.Key(), e.Subject, e.Type)
}

// work is the worker: the three orchestrators, the bus between them, and the customers.
func work(ctx context.Context, p kill.Plan) error {
	book, err := ledger.Open(p.Dir)
	if err != nil {
		return err
	}
	out, started := outside{book}, make(chan *perdure.Engine, 1)
	engine := sync.OnceValue(func() *perdure.Engine { return <-started })
	orders, payments, goods := shop.Orchestrators(out)
	on := func(d *orchestrator.Durable) func(context.Context, event.Event) error {
		return func(ctx context.Context, e event.Event) error {
			_, err := d.On(ctx, engine(), e)
			return err
		}
	}
	deliver := noise.On(bus.Router{
		{Source: "orders", Types: []string{"order.placed"}, On: on(orders)},
		{Source: "payments", Types: []string{"payment.wanted"}, On: on(payments)},
		{Source: "goods", Types: []string{"goods.wanted"}, On: on(goods)},
		{Source: "/customers", On: out.Hear},
	}.Handle)
	// What the orchestrators emit is in the outbox of the store until a handler has taken it.
	e, err := p.Engine(ctx, perdure.Options{Publisher: bus.Relay(deliver)}, orders, payments, goods)
	if err != nil {
		return err
	}
	started <- e
	var all sync.WaitGroup
	for _, order := range names(p) {
		all.Go(func() { place(ctx, order, out, deliver) })
	}
	all.Wait()
	return nil
}

// place places an order until it is taken, and prints it when the customer has heard of its end.
func place(ctx context.Context, order string, out outside,
	deliver func(context.Context, event.Event) error) {
	for deliver(ctx, event.Event{
		ID: order, Source: "/customers", Type: "order.placed", Subject: order,
		Data: []byte(`{"cents": 100}`),
	}) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	for given := []string(nil); !strings.Contains(sorted(given), "order."); {
		time.Sleep(50 * time.Millisecond)
		var err error
		if given, _, _, err = out.Of(order); err != nil {
			log.Fatalln(err)
		}
	}
	fmt.Println(order)
}

// judge compares the ledger and the runs with the orders.
func judge(ctx context.Context, client *perdure.Client, p kill.Plan) error {
	book, err := ledger.Open(p.Dir)
	if err != nil {
		return err
	}
	var checks kill.Checks
	counts, repeated := map[string]int{}, 0
	for _, order := range names(p) {
		given, taken, again, err := book.Of(order)
		run, failed := client.Report(ctx, "orders:"+order)
		pay, unpaid := client.Report(ctx, "payments:pay-"+order)
		if err := errors.Join(err, failed, unpaid); err != nil {
			return err
		}
		repeated += again
		rich := strings.HasPrefix(order, "rich")
		checks.That("each order and its payment is one run, which has ended", order,
			run.Status == perdure.StatusCompleted && pay.Status == perdure.StatusCompleted)
		counts[order[:4]+" "+run.Status.String()]++
		checks.That("each effect of each order has happened once", order,
			!rich || sorted(given) == "charged order.done reserved" && taken == nil)
		checks.That("an order that cannot be paid has its goods back", order,
			rich || sorted(given) == "order.failed reserved" && sorted(taken) == "reserved")
	}
	fmt.Printf("%v\n%d calls came again, and changed nothing\n", counts, repeated)
	return checks.Print()
}

func sorted(things []string) string {
	return strings.Join(slices.Sorted(slices.Values(things)), " ")
}
