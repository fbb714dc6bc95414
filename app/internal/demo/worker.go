package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// inFlight is how many runs a worker waits for at a time.
const inFlight = 4

// workerSetup is what the supervisor tells a worker at its start.
type workerSetup struct {
	Store string        `json:"store"`
	Lease time.Duration `json:"lease"` // on PostgreSQL
	World string        `json:"world"` // its address
	Jobs  []Job         `json:"jobs"`
}

// workerEvent is what a worker tells the supervisor of a run.
type workerEvent struct {
	Run      string `json:"run"`
	Accepted bool   `json:"accepted,omitempty"` // it is durable: it will not be lost
	Ended    bool   `json:"ended,omitempty"`
}

// A worker executes the runs of the demo.
type worker struct {
	engine *perdure.Engine

	mu  sync.Mutex
	out *json.Encoder
}

// Worker is the process that executes the runs. It starts every run that it is
// told of; those that an earlier worker has started it finds under their IDs. It
// goes on until ctx or its input ends.
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
	at, err := place.Parse("", setup.Store)
	if err != nil {
		return err
	}
	store, err := at.With(setup.Lease).Open(ctx, place.Engine)
	if err != nil {
		return err
	}
	defer store.Close()
	// what waits leaves memory at once
	engine, err := perdure.New(store, perdure.Options{IdleTimeout: -1})
	if err != nil {
		return err
	}
	if err := engine.Register(workflows(newClient(setup.World))...); err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() {
		defer cancel()
		running <- engine.Run(ctx)
	}()
	w := &worker{engine: engine, out: json.NewEncoder(out)}
	err = w.startAll(ctx, setup.Jobs)
	if err != nil {
		cancel()
	}
	return errors.Join(<-running, err)
}

// startAll waits for a few runs at a time and returns when all have ended, but
// for those that wait by themselves.
func (w *worker) startAll(ctx context.Context, all []Job) error {
	slots := make(chan struct{}, inFlight)
	errs := make([]error, len(all))
	var hands sync.WaitGroup
	for i, j := range all {
		slots <- struct{}{}
		hands.Go(func() {
			errs[i] = w.start(ctx, j)
			<-slots
		})
	}
	hands.Wait()
	if ctx.Err() != nil {
		return nil // it was told to leave
	}
	return errors.Join(errs...)
}

// start starts a run, or finds it, and waits until it has ended. Where the engine has
// lost its lease meanwhile, nobody knows: it begins anew, and finds the run.
func (w *worker) start(ctx context.Context, j Job) error {
	for {
		err := w.see(ctx, j)
		if code := journal.CodeOf(err); code != journal.CodeUnavailable &&
			code != journal.CodeStopped {
			return err
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// see is start, once. How the run ended is not told: who wants to know reads the store.
func (w *worker) see(ctx context.Context, j Job) error {
	run, err := w.engine.Start(ctx, j.Workflow, j.Input, perdure.ID(j.ID), pattern.ModeSync)
	if err != nil {
		return err
	}
	if err := w.tell(workerEvent{Run: j.ID, Accepted: true}); err != nil || j.Waits != 0 {
		return err
	}
	_, err = run.Result(ctx)
	if code := journal.CodeOf(err); ctx.Err() != nil || code == journal.CodeUnavailable ||
		code == journal.CodeStopped {
		return errors.Join(ctx.Err(), err)
	}
	// a run that fails is no failure of the worker
	return w.tell(workerEvent{Run: j.ID, Ended: true})
}

func (w *worker) tell(e workerEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(e)
}
