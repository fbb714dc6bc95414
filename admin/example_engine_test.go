package admin_test

import (
	"context"
	"log"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

type Payment struct{ Cents int }

var Paid = perdure.NewSignal[Payment]("paid")

// newEngine returns an engine that runs, and a function that stops it.
func newEngine(workflows ...perdure.Definition) (e *perdure.Engine, stop func()) {
	return newEngineOn(memory.New(), perdure.Options{}, workflows...)
}

// newEngineOn is newEngine with options, on a store that exists already.
func newEngineOn(s store.Store, o perdure.Options,
	workflows ...perdure.Definition) (e *perdure.Engine, stop func()) {
	e, err := perdure.New(s, o)
	if err == nil {
		err = e.Register(workflows...)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
}

// startRun starts a run of a workflow and returns without waiting.
func startRun[I, O any](e *perdure.Engine, w *perdure.Workflow[I, O], in I,
	opts ...perdure.StartOption) *perdure.Run[O] {
	run, err := w.Start(context.Background(), e, in, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return run
}

// untilStatus waits until a run has a status, and returns its description.
func untilStatus(
	c *perdure.Client, id string, statuses ...journal.Status,
) perdure.Description {
	for {
		d, err := c.Describe(context.Background(), id)
		if err != nil {
			log.Fatal(err)
		}
		if slices.Contains(statuses, d.Head.Status) {
			return d
		}
		<-time.After(time.Millisecond)
	}
}
