package bench

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/floor"
)

// rounds is how often floor and engine are measured.
const rounds = 5

// A round has the figures of the floor and then of the engine for the same runs.
type round struct {
	floor floor.Result
	took  []time.Duration // of each run of the engine, ascending
	total time.Duration
	cpu   time.Duration
}

// measureRounds measures engine and floor in turn, each on a database of its own that stays
// open. Each ratio is the median of the ratios of the rounds.
func measureRounds(ctx context.Context, d *database, o Options) (r *Report, err error) {
	bare := d.beside()
	if err := bare.remove(); err != nil {
		return nil, err
	}
	fs, err := bare.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fs.Close(), bare.remove()) }()
	s, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	j := newJob(o)
	w := perdure.Define("bench-sequential", j.sequential)
	e, err := startEngine(ctx, s, w)
	if err != nil {
		return nil, err
	}
	all := make([]round, min(rounds, o.Runs))
	for i := range all {
		runs := o.Runs*(i+1)/len(all) - o.Runs*i/len(all)
		if all[i], err = measureRound(ctx, fs, j, w, e, runs, o); err != nil {
			return nil, errors.Join(err, e.stop())
		}
	}
	r = newReport(o)
	r.Store = d.String()
	r.RSS, r.Commits = thousandths(residentMB()), s.commits.Load()
	if err := errors.Join(e.stop(), s.Close()); err != nil {
		return nil, err
	}
	r.BytesPerStep = thousandths(float64(d.size(ctx)) / float64(o.Runs*o.Steps))
	r.sum(all, o)
	r.Floor.SyncsPerS, r.Floor.SyncP50, err = syncs(d)
	return r, err
}

// measureRound measures one round.
func measureRound(ctx context.Context, fs *counting, j *job, w *perdure.Workflow[[]byte, []byte],
	e *engine, runs int, o Options) (r round, err error) {
	r.floor, err = floor.Run(ctx, fs, floor.Options{
		Runs: runs, Steps: o.Steps, InFlight: o.InFlight, Payload: o.Payload,
	})
	if err != nil {
		return r, unavailable("measure the floor", err)
	}
	began, cpu := time.Now(), processTime()
	r.took, err = j.load(ctx, w, e, runs, o.InFlight)
	r.total, r.cpu = time.Since(began), processTime()-cpu
	return r, err
}

// sum sets the figures of a report from rounds.
func (r *Report) sum(all []round, o Options) {
	var took []time.Duration
	var total, cpu time.Duration
	var speed, p50 []float64
	for _, one := range all {
		took = append(took, one.took...)
		total += one.total
		cpu += one.cpu
		steps := float64(len(one.took)*o.Steps) / one.total.Seconds()
		speed = append(speed, steps/one.floor.StepsPerS)
		p50 = append(p50, float64(one.took[len(one.took)/2])/float64(one.floor.P50))
	}
	slices.Sort(took)
	r.set(took, total, cpu, o.Runs)
	r.Rounds = len(all)
	speedRatio, p50Ratio := thousandths(median(speed)), thousandths(median(p50))
	r.RatioSteps, r.RatioP50 = &speedRatio, &p50Ratio
	of := func(f func(floor.Result) float64) float64 {
		var v []float64
		for _, one := range all {
			v = append(v, f(one.floor))
		}
		return thousandths(median(v))
	}
	r.Floor = &Floor{
		Runs: o.Runs, Steps: o.Steps, InFlight: o.InFlight,
		StepsPerS: of(func(f floor.Result) float64 { return f.StepsPerS }),
		P50:       of(func(f floor.Result) float64 { return ms(f.P50) }),
		CPUPerStep: of(func(f floor.Result) float64 {
			return float64(f.CPU.Microseconds()) / float64(max(1, f.Steps))
		}),
	}
}

// median returns the median, and leaves the slice as it is.
func median[T cmp.Ordered](v []T) T {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

// syncs measures the disk under d. It returns zeros if d is not a file of this machine.
func syncs(d *database) (perSecond, p50 float64, err error) {
	if d.path == "" {
		return 0, 0, nil
	}
	n, half, err := floor.Disk(filepath.Dir(d.path))
	if err != nil {
		return 0, 0, unavailable("measure the disk", err)
	}
	return thousandths(n), ms(half), nil
}
