// Command kafka starts runs by records of a Kafka topic. A producer that knows nothing of this
// module writes orders, many of them twice; each order is one run, also when the consumer begins
// again in between.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/kafkabus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/store/sqlite"
)

// An Order is the data of an event order.placed.
type Order struct {
	ID string `json:"id"`
}

// Inbound brings the events to their workflows.
var Inbound = bus.NewGateway()

// Ship is started by order.placed. Its workflow ID is the order.
var Ship = perdure.Define("ship", func(ctx context.Context, o Order) (string, error) {
	return perdure.Step(ctx, "pack", func(context.Context) (string, error) {
		return "parcel of " + o.ID, nil
	})
}, Inbound.Starts("order.placed", bus.Route{Field: "id"}))

func main() {
	servers := flag.String("brokers", "", "servers, by commas; without, one in this process")
	dir := flag.String("dir", ".", "where the runs are kept")
	flag.Parse()
	if err := run(context.Background(), *servers, *dir); err != nil {
		log.Fatalln(err)
	}
}

const topic = "orders"

func run(ctx context.Context, servers, dir string) error {
	if servers == "" {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
		if err != nil {
			return err
		}
		defer c.Close()
		servers = strings.Join(c.ListenAddrs(), ",")
	}
	at := kgo.SeedBrokers(strings.Split(servers, ",")...)
	store, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	engine, err := perdure.New(store, perdure.Options{})
	if err == nil {
		err = engine.Register(Ship)
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = engine.Run(ctx) })
	for _, until := range []int{20, 30} { // the second consumer goes on where the first one stopped
		if err := produce(ctx, at, until); err != nil {
			return err
		}
		if err := consume(ctx, at, engine, until); err != nil {
			return err
		}
	}
	return nil
}

// produce writes the orders below a number, each twice, as any client of Kafka could.
func produce(ctx context.Context, at kgo.Opt, until int) error {
	client, err := kgo.NewClient(at, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for i := range 2 * until {
		id := fmt.Sprint("order-", i%until)
		records = append(records, &kgo.Record{
			Key: []byte(id), Value: fmt.Appendf(nil, `{"specversion": "1.0", "id": "e-%s",
				"source": "/shop", "type": "order.placed", "data": {"id": %q}}`, id, id),
		})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// consume takes events until so many runs have ended.
func consume(ctx context.Context, at kgo.Opt, engine *perdure.Engine, want int) error {
	broker := kafkabus.New(kafkabus.Options{}, at)
	defer broker.Close()
	consumer := bus.Consumer{
		Broker: broker, Topics: []string{topic}, Group: "shipping",
		Handle: func(ctx context.Context, e event.Event) error {
			return Inbound.On(ctx, engine.Client, e)
		},
		DeadLetter: bus.Letters{Admin: admin.New(engine)}.Keep,
	}
	here, stop := context.WithTimeout(ctx, time.Minute)
	var consuming sync.WaitGroup
	consuming.Go(func() { _ = consumer.Run(here) })
	n := 0
	for ; n < want && here.Err() == nil; time.Sleep(50 * time.Millisecond) {
		runs, _, err := engine.List(ctx, perdure.Query{
			Workflow: "ship", Statuses: []perdure.RunStatus{perdure.StatusCompleted},
		})
		if err != nil {
			log.Println(err)
		}
		n = len(runs)
	}
	stop()
	consuming.Wait()
	if n != want {
		return errors.New("the runs do not end")
	}
	fmt.Printf("%d orders, %d runs, %d events handled\n", want, n,
		Inbound.Counts()["order.placed"])
	return nil
}
