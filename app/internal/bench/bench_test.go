package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/floor"
	"github.com/perdure/perdure/store/memory"
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

func TestRunsThatOnlyWaitHaveNoSteps(t *testing.T) {
	for _, o := range []Options{
		{Workload: Sleepers, Steps: 2}, {Workload: Signals, Steps: 2}, {Workload: Timers, Steps: 2},
		{Workload: Sleepers, Idle: -1}, {Workload: Sleepers, Idle: 2 * time.Hour},
	} {
		if _, err := o.filled(); journal.CodeOf(err) != journal.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Every call of the engine must be counted, so that a count of zero proves that an idle
// engine makes none.
func TestCallsOfAStoreAreCounted(t *testing.T) {
	s := &counting{Store: memory.New()}
	ctx := t.Context()
	claimed, err := s.Claim(ctx, store.Join{Now: time.Now()})
	if err != nil || s.engine.Load() != int64(claimed.Engine) {
		t.Fatalf("engine %d, %v, counted as %d", claimed.Engine, err, s.engine.Load())
	}
	for _, call := range []func() error{
		func() error {
			return s.Commit(ctx, &store.Group{Engine: claimed.Engine, Now: time.Now()})
		},
		func() error { _, err := s.Load(ctx, 1, store.Range{}); return err },
		func() error { return s.Spill(ctx, claimed.Engine, 1, nil) },
		func() error { _, _, err := s.Find(ctx, store.Filter{}); return err },
		func() error { _, err := s.Purge(ctx, store.Purge{Engine: claimed.Engine}); return err },
		func() error { _, err := s.Info(ctx); return err },
	} {
		before := s.calls.Load()
		if err := call(); err != nil || s.calls.Load() != before+1 {
			t.Errorf("%d calls, %v", s.calls.Load()-before, err)
		}
	}
	if h, err := s.owned(ctx); h != nil || err != nil || s.calls.Load() != 7 ||
		s.commits.Load() != 1 {
		t.Errorf("%+v, %v, %d calls, %d commits", h, err, s.calls.Load(), s.commits.Load())
	}
}

func TestACountIsOverWithItsLastNotice(t *testing.T) {
	c := newCount(2)
	c.see(observe.Notice{})
	select {
	case <-c.all:
		t.Fatal("after one of two")
	default:
	}
	c.see(observe.Notice{})
	<-c.all
	if c.at.IsZero() {
		t.Error("it has no time")
	}
}

func TestTextHasWhatJSONHas(t *testing.T) {
	var text, object strings.Builder
	r := &Report{Timing: &Timing{Early: 0, LateP99: 1.5}}
	if err := errors.Join(r.Text(&text), r.JSON(&object)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"early", "late_p99_ms", "workload"} {
		if !strings.Contains("\n"+text.String(), "\n"+key+" ") ||
			!strings.Contains(object.String(), "  \""+key+"\": ") {
			t.Errorf("no %s in\n%s%s", key, text.String(), object.String())
		}
	}
	if strings.Contains(text.String()+object.String(), "wake_per_s") {
		t.Error("it tells of sleepers")
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
	r.sum([]round{one(2*ms, time.Second), one(3*ms, 600*ms), one(8*ms, 500*ms)},
		Options{Runs: 9, Steps: 10})
	if *r.RatioSteps != 0.5 || *r.RatioP50 != 3 || r.Rounds != 3 || r.CPU != 0.09 ||
		r.CPUPerStep != 1000 || r.P50 != 3 {
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
