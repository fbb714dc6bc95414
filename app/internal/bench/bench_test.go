package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

func TestEveryWorkloadHasDefaults(t *testing.T) {
	for _, w := range Workloads() {
		o, err := Options{Workload: w}.filled()
		if err != nil || o.Runs < 1 || o.Steps < 1 || o.InFlight < 1 || o.Payload != 100 {
			t.Errorf("%s: %+v, %v", w, o, err)
		}
		shape, same := floorShape(o)
		if wrote := shape.Runs * shape.Steps; same && wrote != o.Runs*o.Steps {
			t.Errorf("%s: the floor writes %d steps", w, wrote)
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
	a := &Floor{StepsPerS: 100, P50: 4, CPUPerStep: 9, SyncsPerS: 1, SyncP50: 2, sameShaped: true}
	b := &Floor{StepsPerS: 50, P50: 1, CPUPerStep: 5, SyncsPerS: 3, SyncP50: 1, sameShaped: true}
	want := Floor{StepsPerS: 100, P50: 1, CPUPerStep: 5, SyncsPerS: 3, SyncP50: 1, sameShaped: true}
	r := Report{Steps: 10, Floor: better(a, b)}
	if *r.Floor != want {
		t.Errorf("the better is %+v, want %+v", *r.Floor, want)
	}
	ms := time.Millisecond
	r.set([]time.Duration{ms, 2 * ms, 3 * ms}, time.Second, 100*ms, 5)
	r.compare()
	if r.RunsPerS != 5 || r.StepsPerS != 50 || r.P50 != 2 || r.P99 != 3 || r.CPUPerStep != 2000 {
		t.Errorf("it says %+v", r)
	}
	if *r.RatioSteps != 0.5 || *r.RatioP50 != 2 {
		t.Errorf("ratios %v and %v", *r.RatioSteps, *r.RatioP50)
	}
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	took := []time.Duration{3, 1, 2}
	if m := median(took); m != 2 || took[0] != 3 {
		t.Errorf("%v of %v", m, took)
	}
}
