// Package bench measures the engine: the steps per second, the duration of a run, the CPU
// time and memory, and the ratio to the limit of the disk.
//
// Figures of different machines do not compare, and the speed of a shared machine changes
// from one second to the next. Therefore a floor is measured in the same invocation on the
// same disk. If floor and engine can write the same runs, they are measured in rounds, in
// turn. Otherwise the floor is measured before and after the engine.
package bench

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
)

// fanoutRepeats is the number of repeats of the fanout workload. The median of a few
// repeats would be chance.
const fanoutRepeats = 21

// Run measures one workload. It removes its files and databases unless Keep is set.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o, err = o.filled(); err != nil {
		return nil, err
	}
	d, err := newDatabase(o)
	if err != nil {
		return nil, err
	}
	if !o.Keep {
		defer func() { err = errors.Join(err, d.remove()) }()
	}
	switch {
	case o.Store.Kind == place.Memory:
		return measure(ctx, d, o)
	case o.Workload == Sequential || o.Workload == Latency:
		return measureRounds(ctx, d, o)
	}
	var before *Floor
	// The memory of sleepers would fit into the memory that a floor has left.
	if o.Workload != Sleepers {
		if before, err = measureFloor(ctx, d, o); err != nil {
			return nil, err
		}
	}
	if report, err = measure(ctx, d, o); err != nil {
		return nil, err
	}
	after, err := measureFloor(ctx, d, o)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = after
	}
	report.Floor = better(before, after)
	return report, nil
}

// measure measures the engine alone.
func measure(ctx context.Context, d *database, o Options) (*Report, error) {
	r := newReport(o)
	j, runs := newJob(o), o.Runs
	var err error
	switch o.Workload {
	case Resume:
		err = r.measureResume(ctx, d, j)
	case Fanout:
		r.Repeats = fanoutRepeats
		runs *= fanoutRepeats
		err = r.measureLoad(ctx, d, j, perdure.Define("bench-fanout", j.fanout), runs)
		r.FanoutMS = r.P50
	case Sleepers:
		err = r.measureSleepers(ctx, d, o)
	case Signals:
		err = r.measureSignals(ctx, d, o)
	case Timers:
		err = r.measureTimers(ctx, d, o)
	default:
		err = r.measureLoad(ctx, d, j, perdure.Define("bench-sequential", j.sequential), runs)
	}
	r.Store = d.String()
	r.BytesPerStep = thousandths(float64(d.size(ctx)) / float64(runs*o.Steps))
	return r, err
}

func (r *Report) measureLoad(ctx context.Context, d *database, j *job,
	w *perdure.Workflow[[]byte, []byte], runs int) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	e, err := startEngine(ctx, s, w)
	if err != nil {
		return err
	}
	began, cpu := time.Now(), processTime()
	took, err := j.load(ctx, w, e, runs, r.InFlight)
	total, used := time.Since(began), processTime()-cpu
	r.RSS, r.Commits = thousandths(residentMB()), s.commits.Load()
	if stopped := e.stop(); err == nil {
		err = stopped
	}
	if err == nil {
		r.set(took, total, used, runs)
	}
	return err
}

func (r *Report) measureResume(ctx context.Context, d *database, j *job) error {
	var m resumption
	began, cpu := time.Now(), processTime()
	if err := m.build(ctx, d, j); err != nil {
		return err
	}
	total, used := time.Since(began), processTime()-cpu
	r.RSS, r.Commits = thousandths(m.rss), m.commits
	if err := m.goOn(ctx, d, j); err != nil {
		return err
	}
	r.set(m.took, total, used, 1)
	r.ResumeS, r.FirstStepMS, r.LastStepMS = thousandths(m.resume.Seconds()), ms(m.first),
		ms(m.last)
	return nil
}

func newReport(o Options) *Report {
	return &Report{
		Workload: o.Workload,
		Runs:     o.Runs, Steps: o.Steps, InFlight: o.InFlight, Payload: o.Payload,
	}
}
