package bench

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/perdure/perdure/store/floor"
)

// floorShape is what the floor of a workload writes: the same runs, where that
// can be compared. For fanout it is as many runs of one step at a time as a run
// has steps, and for resume a twentieth of the steps in runs like those of
// latency.
func floorShape(o Options) (shape floor.Options, same bool) {
	switch o.Workload {
	case Fanout:
		return floor.Options{Runs: o.Runs * o.Steps * fanoutRepeats, Steps: 1, InFlight: o.Steps, Payload: o.Payload}, false
	case Resume:
		d := defaults[Latency]
		runs := max(1, o.Steps/d.Steps/20)
		return floor.Options{Runs: runs, Steps: d.Steps, InFlight: d.InFlight, Payload: o.Payload}, false
	}
	return floor.Options{Runs: o.Runs, Steps: o.Steps, InFlight: o.InFlight, Payload: o.Payload}, true
}

// measureFloor measures once, in a database of its own beside d, which is
// removed.
func measureFloor(ctx context.Context, d *database, o Options) (*Floor, error) {
	own := d.beside()
	if err := own.remove(); err != nil {
		return nil, err
	}
	s, err := own.open()
	if err != nil {
		return nil, err
	}
	shape, same := floorShape(o)
	f := &Floor{Runs: shape.Runs, Steps: shape.Steps, InFlight: shape.InFlight, sameShaped: same}
	result, err := floor.Run(ctx, s, shape)
	f.StepsPerS, f.P50 = round(result.StepsPerS), ms(result.P50)
	f.CPUPerStep = round(float64(result.CPU.Microseconds()) / float64(max(1, result.Steps)))
	if err := errors.Join(err, s.Close(), own.remove()); err != nil {
		return nil, unavailable("measure the floor", err)
	}
	syncs, p50, err := floor.Disk(filepath.Dir(d.path))
	if err != nil {
		return nil, unavailable("measure the disk", err)
	}
	f.SyncsPerS, f.SyncP50 = round(syncs), ms(p50)
	return f, nil
}

// better gives the better figures of two floors.
func better(a, b *Floor) *Floor {
	f := *a
	f.StepsPerS, f.SyncsPerS = max(a.StepsPerS, b.StepsPerS), max(a.SyncsPerS, b.SyncsPerS)
	f.P50, f.SyncP50, f.CPUPerStep = min(a.P50, b.P50), min(a.SyncP50, b.SyncP50), min(a.CPUPerStep, b.CPUPerStep)
	return &f
}
