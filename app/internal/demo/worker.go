package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// inFlight is how many orders a worker has in hand at a time.
const inFlight = 4

// workerSetup is what the supervisor tells a worker at its start.
type workerSetup struct {
	Store  string  `json:"store"`
	World  string  `json:"world"` // its address
	Orders []Order `json:"orders"`
}

// workerEvent is what a worker tells the supervisor of an order.
type workerEvent struct {
	Order    string `json:"order"`
	Accepted bool   `json:"accepted,omitempty"` // the order is durable: it will not be lost
	Ended    bool   `json:"ended,omitempty"`
}

// A worker fulfils orders.
type worker struct {
	engine *perdure.Engine
	orders *orders

	mu  sync.Mutex
	out *json.Encoder
}

// Worker is the process that fulfils orders. It starts every order that it is
// told of; those that an earlier worker has started it finds under their IDs.
// It returns when all have ended, or when ctx or its input ends.
func Worker(ctx context.Context, in io.Reader, out io.Writer) error {
	var setup workerSetup
	if err := json.NewDecoder(in).Decode(&setup); err != nil {
		return notByHand(WorkerCommand, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // it ends when the supervisor does
		cancel()
	}()
	store, err := sqlite.Open(setup.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	engine, err := perdure.New(store, perdure.Options{})
	if err != nil {
		return err
	}
	w := &worker{engine: engine, orders: fulfilment(newClient(setup.World)), out: json.NewEncoder(out)}
	if err := engine.Register(w.orders); err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() {
		defer cancel()
		running <- engine.Run(ctx)
	}()
	err = w.fulfilAll(ctx, setup.Orders)
	cancel()
	return errors.Join(<-running, err)
}

// fulfilAll has a few orders in hand at a time and returns when all have ended.
func (w *worker) fulfilAll(ctx context.Context, all []Order) error {
	slots := make(chan struct{}, inFlight)
	errs := make([]error, len(all))
	var hands sync.WaitGroup
	for i, o := range all {
		slots <- struct{}{}
		hands.Go(func() {
			errs[i] = w.fulfil(ctx, o)
			<-slots
		})
	}
	hands.Wait()
	return errors.Join(errs...)
}

// fulfil starts an order, or finds it, and waits until it has ended. How it
// ended is not told: who wants to know reads the store.
func (w *worker) fulfil(ctx context.Context, o Order) error {
	run, err := w.orders.Start(ctx, w.engine, o, perdure.ID(o.ID))
	if err != nil {
		return err
	}
	if err := w.tell(workerEvent{Order: o.ID, Accepted: true}); err != nil {
		return err
	}
	_, _ = run.Result(ctx) // an order that fails is no failure of the worker
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.tell(workerEvent{Order: o.ID, Ended: true})
}

func (w *worker) tell(e workerEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(e)
}
