package bench

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// probed is the number of steps at either end of a long run that are measured.
const probed = 300

// A life is the part of a long run that one engine executes.
type life struct {
	job     *job
	took    []time.Duration // of each step, or of its replay
	reached chan struct{}   // closed when the step after the long journal begins
	goOn    bool            // ends that step
}

// workflow returns a workflow with the steps one after the other, and then a step in which
// the first life ends.
func (l *life) workflow() *perdure.Workflow[[]byte, []byte] {
	return perdure.Define("bench-resume", func(ctx context.Context, _ []byte) ([]byte, error) {
		for range l.job.steps {
			began := time.Now()
			if err := l.job.verify(perdure.Step(ctx, "step", l.job.body)); err != nil {
				return nil, err
			}
			l.took = append(l.took, time.Since(began))
		}
		return perdure.Step(ctx, "pause", l.pause)
	})
}

func (l *life) pause(ctx context.Context) ([]byte, error) {
	close(l.reached)
	if !l.goOn {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.job.payload, nil
}

// await waits for the step after the long journal.
func (l *life) await(ctx context.Context, e *engine) error {
	select {
	case <-l.reached:
		return nil
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A resumption has the figures of the resume workload, besides the time of its building.
type resumption struct {
	took []time.Duration // of every step, ascending
	// first and last are medians of steps at the beginning and at the end of the journal.
	first, last time.Duration
	resume      time.Duration
	rss         float64 // while the built run is loaded
	commits     int64
}

const longRun = "bench-long-run"

// build runs the steps, and stops the engine before the run has ended.
func (r *resumption) build(ctx context.Context, d *database, j *job) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	l := &life{job: j, reached: make(chan struct{}), took: make([]time.Duration, 0, j.steps)}
	w := l.workflow()
	e, err := startEngine(ctx, s, w)
	if err != nil {
		return err
	}
	_, err = w.Start(ctx, e.Engine, j.payload, perdure.ID(longRun))
	if err == nil {
		err = l.await(ctx, e)
	}
	r.rss = residentMB()
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	n := min(probed, len(l.took))
	r.first, r.last = median(l.took[:n]), median(l.took[len(l.took)-n:])
	r.took, r.commits = l.took, s.commits.Load()
	slices.Sort(r.took)
	return nil
}

// goOn resumes the run on a new engine, and waits for its end.
func (r *resumption) goOn(ctx context.Context, d *database, j *job) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	l := &life{job: j, reached: make(chan struct{}), goOn: true}
	w := l.workflow()
	began := time.Now()
	e, err := startEngine(ctx, s, w)
	if err != nil {
		return err
	}
	if err = l.await(ctx, e); err == nil {
		r.resume = time.Since(began)
		err = r.finish(ctx, w, e, j)
	}
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	return err
}

func (r *resumption) finish(ctx context.Context, w *perdure.Workflow[[]byte, []byte], e *engine,
	j *job) error {
	run, err := w.Get(ctx, e.Engine, longRun)
	if err != nil {
		return err
	}
	return j.verify(run.Result(ctx))
}
