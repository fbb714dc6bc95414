package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/floor"
)

func TestEveryWorkloadHasDefaults(t *testing.T) {
	for _, w := range Workloads() {
		o, err := Options{Workload: w}.filled()
		if err != nil || o.Runs < 1 || o.Steps < 1 || o.InFlight < 1 || o.Payload != 100 {
			t.Errorf("%s: %+v, %v", w, o, err)
		}
		if shape := floorShape(o); shape.Runs < 1 || shape.Steps < 1 || shape.InFlight < 1 {
			t.Errorf("%s: the floor is %+v", w, shape)
		}
	}
	if _, err := (Options{Workload: "no"}).filled(); journal.CodeOf(err) != journal.CodeInvalid {
		t.Errorf("no workload: %v", err)
	}
}

func TestResultsAreVerified(t *testing.T) {
	j, broken := newJob(Options{Payload: 3}), errors.New("broken")
	if err := j.verify(j.body(t.Context())); err != nil {
		t.Error(err)
	}
	if err := j.verify([]byte("xx"), nil); !errors.Is(err, errMangled) {
		t.Errorf("another payload: %v", err)
	}
	if err := j.verify(nil, broken); !errors.Is(err, broken) {
		t.Errorf("an error: %v", err)
	}
}

func TestReportComparesWithTheBetterFloor(t *testing.T) {
	a := &Floor{StepsPerS: 100, P50: 4, CPUPerStep: 9, SyncsPerS: 1, SyncP50: 2}
	b := &Floor{StepsPerS: 50, P50: 1, CPUPerStep: 5, SyncsPerS: 3, SyncP50: 1}
	want := Floor{StepsPerS: 100, P50: 1, CPUPerStep: 5, SyncsPerS: 3, SyncP50: 1}
	r := Report{Steps: 10, Floor: better(a, b)}
	if *r.Floor != want {
		t.Errorf("the better is %+v, want %+v", *r.Floor, want)
	}
	ms := time.Millisecond
	r.set([]time.Duration{ms, 2 * ms, 3 * ms}, time.Second, 100*ms, 5)
	if r.RunsPerS != 5 || r.StepsPerS != 50 || r.P50 != 2 || r.P99 != 3 || r.CPUPerStep != 2000 {
		t.Errorf("it says %+v", r)
	}
}

func TestRatiosAreMediansOfRounds(t *testing.T) {
	ms := time.Millisecond
	one := func(p50, total time.Duration) round {
		return round{
			floor: floor.Result{StepsPerS: 100, P50: ms, Steps: 10, CPU: 10 * ms},
			took:  []time.Duration{ms, p50, 9 * ms}, total: total, cpu: 30 * ms,
		}
	}
	r := Report{Steps: 10}
	r.sum([]round{one(2*ms, time.Second), one(3*ms, 600*ms), one(8*ms, 500*ms)}, Options{Runs: 9, Steps: 10})
	if *r.RatioSteps != 0.5 || *r.RatioP50 != 3 || r.Rounds != 3 || r.CPU != 0.09 || r.CPUPerStep != 1000 || r.P50 != 3 {
		t.Errorf("%+v, ratios %v and %v", r, *r.RatioSteps, *r.RatioP50)
	}
	if r.Floor.StepsPerS != 100 || r.Floor.P50 != 1 || r.Floor.CPUPerStep != 1000 {
		t.Errorf("floor %+v", r.Floor)
	}
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	took := []time.Duration{3, 1, 2}
	if m := median(took); m != 2 || took[0] != 3 {
		t.Errorf("%v of %v", m, took)
	}
}
