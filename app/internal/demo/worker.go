package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/schedule"
)

// inFlight limits how many runs a worker waits for at a time.
const inFlight = 4

// A workerSetup is the message that a worker gets at its start.
type workerSetup struct {
	Store string        `json:"store"`
	Lease time.Duration `json:"lease"` // on PostgreSQL
	World string        `json:"world"` // its address
	Jobs  []Job         `json:"jobs"`
}

// A workerEvent is a message of a worker to the supervisor about a run.
type workerEvent struct {
	Run      string `json:"run"`
	Accepted bool   `json:"accepted,omitempty"` // the run is durable and will not be lost
	Ended    bool   `json:"ended,omitempty"`
}

// A worker executes the runs of the demo.
type worker struct {
	engine *perdure.Engine

	mu  sync.Mutex
	out *json.Encoder
}

// Worker is the process that executes the runs. It starts every run of its setup. For a run
// that an earlier worker has started, the start returns that run, by its ID. Worker goes on
// until ctx or its input ends.
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
	// A run that waits is unloaded at once.
	engine, err := perdure.New(store, perdure.Options{IdleTimeout: -1})
	if err != nil {
		return err
	}
	// batches and schedules that somebody starts on the database of the demo
	all := append(workflows(newClient(setup.World)), batch.Workflow(), schedule.Workflow())
	if err := engine.Register(all...); err != nil {
		return err
	}
	running := make(chan error, 1)
	go func() {
		defer cancel()
		err := engine.Run(ctx)
		if ctx.Err() != nil && journal.CodeOf(err) == journal.CodeUnavailable {
			err = nil // its lease passed while it was paused, just before it was asked to end
		}
		running <- err
	}()
	w := &worker{engine: engine, out: json.NewEncoder(out)}
	err = w.startAll(ctx, setup.Jobs)
	if err != nil {
		cancel()
	}
	return errors.Join(<-running, err)
}

// startAll starts the runs and waits for inFlight of them at a time. It returns when all
// have ended, except for the runs that are planned to wait.
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
		return nil // it was asked to end
	}
	return errors.Join(errs...)
}

// start starts a run, or finds it, and waits until it has ended. If the engine loses its
// lease meanwhile, the result is unknown: start begins again, and finds the run.
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

// see is one attempt of start. It does not return how the run ended: that is in the store.
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
	// A failed run is not a failure of the worker.
	return w.tell(workerEvent{Run: j.ID, Ended: true})
}

func (w *worker) tell(e workerEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(e)
}
