package bench

import (
	"context"
	"errors"

	"github.com/perdure/perdure/store/floor"
)

// mostFloor limits the runs of the floor for workloads whose runs wait.
const mostFloor = 20_000

// floorShape returns the runs of the floor for a workload that the floor cannot repeat
// exactly. For fanout these are runs of one step, as many at a time as a run has steps. For
// resume they are runs like those of latency, with a twentieth of the steps. For runs that
// wait they are runs of one step.
func floorShape(o Options) floor.Options {
	if o.waits() {
		return floor.Options{
			Runs: min(o.Runs, mostFloor), Steps: 1, InFlight: o.InFlight, Payload: o.Payload,
		}
	}
	if o.Workload == Fanout {
		return floor.Options{
			Runs: o.Runs * o.Steps * fanoutRepeats, Steps: 1, InFlight: o.Steps, Payload: o.Payload,
		}
	}
	d := defaults[Latency]
	runs := max(1, o.Steps/d.Steps/20)
	return floor.Options{Runs: runs, Steps: d.Steps, InFlight: d.InFlight, Payload: o.Payload}
}

// measureFloor measures the floor once, in a database of its own beside d, and removes that
// database.
func measureFloor(ctx context.Context, d *database, o Options) (*Floor, error) {
	own := d.beside()
	if err := own.remove(); err != nil {
		return nil, err
	}
	s, err := own.open(ctx)
	if err != nil {
		return nil, err
	}
	shape := floorShape(o)
	f := &Floor{Runs: shape.Runs, Steps: shape.Steps, InFlight: shape.InFlight}
	result, err := floor.Run(ctx, s, shape)
	f.StepsPerS, f.P50 = thousandths(result.StepsPerS), ms(result.P50)
	f.CPUPerStep = thousandths(float64(result.CPU.Microseconds()) / float64(max(1, result.Steps)))
	if err := errors.Join(err, s.Close(), own.remove()); err != nil {
		return nil, unavailable("measure the floor", err)
	}
	f.SyncsPerS, f.SyncP50, err = syncs(d)
	return f, err
}

// better returns the better figures of two floors.
func better(a, b *Floor) *Floor {
	f := *a
	f.StepsPerS, f.SyncsPerS = max(a.StepsPerS, b.StepsPerS), max(a.SyncsPerS, b.SyncsPerS)
	f.P50, f.SyncP50, f.CPUPerStep = min(a.P50, b.P50), min(a.SyncP50, b.SyncP50),
		min(a.CPUPerStep, b.CPUPerStep)
	return &f
}
