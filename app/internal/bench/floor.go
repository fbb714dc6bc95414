package bench

import (
	"context"
	"errors"

	"github.com/perdure/perdure/store/floor"
)

// mostFloor is how many runs the floor has at most beside runs that wait.
const mostFloor = 20_000

// floorShape is what the floor of a workload writes that it has no like of. For
// fanout it is as many runs of one step at a time as a run has steps, for resume a
// twentieth of the steps in runs like those of latency, and for runs that wait runs
// of one step.
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

// measureFloor measures once, in a database of its own beside d, which is
// removed.
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

// better gives the better figures of two floors.
func better(a, b *Floor) *Floor {
	f := *a
	f.StepsPerS, f.SyncsPerS = max(a.StepsPerS, b.StepsPerS), max(a.SyncsPerS, b.SyncsPerS)
	f.P50, f.SyncP50, f.CPUPerStep = min(a.P50, b.P50), min(a.SyncP50, b.SyncP50),
		min(a.CPUPerStep, b.CPUPerStep)
	return &f
}
