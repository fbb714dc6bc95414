package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/perdure/perdure/observe"
)

// The bounds of the buckets of histograms.
var (
	short = []float64{
		.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300,
	}
	long = []float64{
		.01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600,
		30 * 24 * 3600,
	}
	sizes = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
)

// metrics are the instruments of an engine, and the labels that they have had.
type metrics struct {
	started, completed                    metric.Int64Counter
	stepsCompleted, retries, comps, dlq   metric.Int64Counter
	duration, stepDuration, commits, lags metric.Float64Histogram
	batches                               metric.Int64Histogram
	runs, steps, names                    labels
}

// Metrics returns an observer that counts and measures what an engine does, for its options. Runs
// that the engine starts for itself, such as those of dead letters, do not count. A provider of
// nil is the global one. The error is the provider's.
func Metrics(p metric.MeterProvider) (observe.Observer, error) {
	m := &metrics{runs: labels{of: "pattern"}, steps: labels{of: "step"}}
	err := m.make(meterOf(p))
	return observe.Observer{See: m.see, Direct: true, Kinds: []observe.Kind{
		observe.RunStarted, observe.RunEnded, observe.RunContinued, observe.DeadLettered,
		observe.StepSucceeded, observe.StepFailed, observe.StepRetrying,
		observe.ParticipantSucceeded, observe.ParticipantFailed, observe.CompensationStarted,
		observe.TimerFired, observe.Committed,
	}}, err
}

func meterOf(p metric.MeterProvider) metric.Meter {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return p.Meter(Scope)
}

// make makes the instruments.
func (m *metrics) make(by metric.Meter) error {
	var errs []error
	counter := func(name, unit, about string) metric.Int64Counter {
		c, err := by.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, about string, bounds []float64) metric.Float64Histogram {
		h, err := by.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	m.started = counter("perdure.executions.started", "{execution}", "Runs that were started.")
	m.completed = counter("perdure.executions.completed", "{execution}", "Runs that have ended.")
	m.duration = seconds("perdure.executions.duration", "Time from the start of a run to its end.",
		long)
	m.stepsCompleted = counter("perdure.steps.completed", "{step}",
		"Steps that have ended, after their last attempt.")
	m.stepDuration = seconds("perdure.steps.duration", "Time of the last attempt of a step.", short)
	m.retries = counter("perdure.steps.retries", "{attempt}",
		"Attempts that have failed, and after which there is another one.")
	m.comps = counter("perdure.compensations.started", "{compensation}",
		"Runs that have begun to undo their steps.")
	m.dlq = counter("perdure.dlq.entries", "{entry}", "Runs that were dead-lettered.")
	m.commits = seconds("perdure.commit.duration", "Time of a commit to the store.", short)
	m.lags = seconds("perdure.timer.lag", "How late timers have fired.", short)
	var err error
	m.batches, err = by.Int64Histogram("perdure.commit.size", metric.WithUnit("{entry}"),
		metric.WithDescription("Journal entries of a commit."),
		metric.WithExplicitBucketBoundaries(sizes...))
	return errors.Join(append(errs, err)...)
}

func (m *metrics) see(n observe.Notice) {
	ctx := context.Background()
	switch n.Kind {
	case observe.Committed:
		m.commits.Record(ctx, n.Took.Seconds())
		m.batches.Record(ctx, int64(n.Rows))
		return
	case observe.TimerFired:
		m.lags.Record(ctx, max(n.At.Sub(n.Due), 0).Seconds())
		return
	}
	if n.Own() {
		return
	}
	switch n.Kind {
	case observe.CompensationStarted:
		m.comps.Add(ctx, 1, m.names.cell(n.Workflow, "").plain)
	case observe.DeadLettered:
		m.dlq.Add(ctx, 1, m.names.cell(n.Workflow, "").plain)
	case observe.RunStarted, observe.RunEnded, observe.RunContinued:
		m.run(ctx, &n)
	default:
		m.step(ctx, &n)
	}
}

// run measures the start or the end of a run.
func (m *metrics) run(ctx context.Context, n *observe.Notice) {
	c := m.runs.cell(n.Workflow, n.Pattern)
	if n.Kind == observe.RunStarted {
		m.started.Add(ctx, 1, c.plain)
		return
	}
	m.duration.Record(ctx, n.Took.Seconds(), c.plain)
	m.completed.Add(ctx, 1, c.ended(n.Succeeded()))
}

// step measures the end of a step, or of an attempt that there is another one after.
func (m *metrics) step(ctx context.Context, n *observe.Notice) {
	c := m.steps.cell(n.Workflow, stepOf(n.Step))
	if n.Kind == observe.StepRetrying {
		m.retries.Add(ctx, 1, c.plain)
		return
	}
	m.stepsCompleted.Add(ctx, 1, c.ended(n.Succeeded()))
	m.stepDuration.Record(ctx, n.Took.Seconds(), c.plain)
}

// Watch measures how much an engine has to do, whenever its metrics are collected, until stop is
// called. Load is the engine's. A provider of nil is the global one.
func Watch(p metric.MeterProvider, load func() observe.Load) (stop func() error, err error) {
	by := meterOf(p)
	var errs []error
	gauge := func(name, unit, about string) metric.Int64ObservableGauge {
		g, err := by.Int64ObservableGauge(name, metric.WithUnit(unit),
			metric.WithDescription(about))
		errs = append(errs, err)
		return g
	}
	active := gauge("perdure.executions.active", "{execution}", "Runs in memory.")
	owned := gauge("perdure.runs.owned", "{run}", "Runs in memory, by their patterns.")
	queue := gauge("perdure.queue.depth", "{change}",
		"Runs and calls whose changes wait for the commit before them.")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r, err := by.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l, all := load(), 0
		for pattern, n := range l.Runs {
			all += n
			o.ObserveInt64(owned, int64(n),
				metric.WithAttributes(attribute.String("pattern", pattern)))
		}
		o.ObserveInt64(active, int64(all))
		o.ObserveInt64(queue, int64(l.Queue))
		return nil
	}, active, owned, queue)
	if err != nil {
		return nil, err
	}
	return r.Unregister, nil
}
