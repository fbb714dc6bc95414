package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
)

// errMangled is the error of a result that differs from the result of the step.
var errMangled = errors.New("a result is not what its step returned")

// A job is the workflow of a benchmark. Its steps only return the payload. Its input and
// output are the payload too.
type job struct {
	payload []byte
	steps   int
}

func newJob(o Options) *job {
	return &job{payload: bytes.Repeat([]byte("x"), o.Payload), steps: o.Steps}
}

func (j *job) body(context.Context) ([]byte, error) { return j.payload, nil }

func (j *job) verify(got []byte, err error) error {
	if err == nil && !bytes.Equal(got, j.payload) {
		err = errMangled
	}
	return err
}

// sequential runs the steps one after the other.
func (j *job) sequential(ctx context.Context, _ []byte) ([]byte, error) {
	for range j.steps {
		if err := j.verify(perdure.Step(ctx, "step", j.body)); err != nil {
			return nil, err
		}
	}
	return j.payload, nil
}

// fanout runs all steps at the same time.
func (j *job) fanout(ctx context.Context, _ []byte) ([]byte, error) {
	steps := make([]*perdure.Future[[]byte], j.steps)
	for i := range steps {
		steps[i] = perdure.Async(ctx, "step", j.body)
	}
	for _, s := range steps {
		if err := j.verify(s.Await(ctx)); err != nil {
			return nil, err
		}
	}
	return j.payload, nil
}

// load completes runs of a workflow, inFlight at a time. It returns the time of each run
// from the call that starts it to its result, in ascending order.
func (j *job) load(ctx context.Context, w *perdure.Workflow[[]byte, []byte], e *engine, runs,
	inFlight int) ([]time.Duration, error) {
	return each(ctx, e, runs, inFlight, func(ctx context.Context, _ int) error {
		return j.complete(ctx, w, e)
	})
}

// each calls do for each run, inFlight at a time. It returns the duration of each call, in
// ascending order.
func each(ctx context.Context, e *engine, runs, inFlight int,
	do func(ctx context.Context, n int) error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })
	defer stop()
	took := make([]time.Duration, runs)
	var next atomic.Int64
	var callers sync.WaitGroup
	for range min(inFlight, runs) {
		callers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= runs {
					return
				}
				began := time.Now()
				if err := do(ctx, n); err != nil {
					cancel(fmt.Errorf("run %d: %w", n+1, err))
				}
				took[n] = time.Since(began)
			}
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.Sort(took)
	return took, nil
}

// complete starts a run and waits for its result.
func (j *job) complete(ctx context.Context, w *perdure.Workflow[[]byte, []byte], e *engine) error {
	run, err := w.Start(ctx, e.Engine, j.payload)
	if err != nil {
		return err
	}
	return j.verify(run.Result(ctx))
}
