package world

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// Start starts a run.
func Start[I, O any](
	w *World, wf *perdure.Workflow[I, O], in I, opts ...perdure.StartOption,
) *perdure.Run[O] {
	w.T.Helper()
	run, err := wf.Start(context.Background(), w.Engine, in, opts...)
	if err != nil {
		w.T.Fatal(err)
	}
	return run
}

// StartAndSettle starts a run and lets it come to where it waits.
func StartAndSettle[I, O any](
	w *World, wf *perdure.Workflow[I, O], in I, opts ...perdure.StartOption,
) *perdure.Run[O] {
	w.T.Helper()
	run := Start(w, wf, in, opts...)
	synctest.Wait()
	return run
}

// Result starts a run and waits for its end.
func Result[I, O any](
	w *World, wf *perdure.Workflow[I, O], in I, opts ...perdure.StartOption,
) (*perdure.Run[O], O, error) {
	w.T.Helper()
	run := Start(w, wf, in, opts...)
	ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
	defer cancel()
	out, err := run.Result(ctx)
	return run, out, err
}

// OutcomeOf waits for the end of a run that this engine or another one began.
func OutcomeOf[I, O any](w *World, wf *perdure.Workflow[I, O], id string) (O, error) {
	w.T.Helper()
	run, err := wf.Get(context.Background(), w.Engine, id)
	if err != nil {
		w.T.Fatal(err)
	}
	return run.Result(context.Background())
}
