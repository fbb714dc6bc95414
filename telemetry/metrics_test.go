package telemetry_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/telemetry"
)

// measured collects the metrics of a reader as lines, in order.
func measured(t *testing.T, r *sdkmetric.ManualReader) (lines []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			lines = append(lines, points(m)...)
		}
	}
	slices.Sort(lines)
	return lines
}

// points returns the points of a metric as lines.
func points(m metricdata.Metrics) (lines []string) {
	add := func(set attribute.Set, value string) {
		var labels []string
		for _, kv := range set.ToSlice() {
			labels = append(labels, string(kv.Key)+"="+kv.Value.String())
		}
		lines = append(lines, m.Name+"{"+strings.Join(labels, " ")+"} "+value)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, number(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, number(p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, fmt.Sprint(p.Count, " of ", p.Sum, m.Unit))
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, fmt.Sprint(p.Count, " of ", p.Sum, m.Unit))
		}
	}
	return lines
}

// measuring returns an engine whose metrics a reader has, and what ends that.
func measuring(t *testing.T, s *memory.Store, o perdure.Options) (*perdure.Engine,
	*sdkmetric.ManualReader, error) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	seen, err := telemetry.Metrics(p)
	if err != nil {
		return nil, nil, err
	}
	o.Observers = append(o.Observers, seen)
	eng, err := perdure.New(s, o)
	if err == nil {
		_, err = telemetry.Watch(p, eng.Load)
	}
	return eng, reader, err
}

// spec: P-7, P-15
func TestMetricsSayWhatHasHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		eng, reader, err := measuring(t, memory.New(), perdure.Options{IdleTimeout: 24 * time.Hour})
		defer serve(t, eng, err, s.all()...)()
		ctx := t.Context()
		for _, start := range []func() error{
			func() error { _, err := s.order.Start(ctx, eng, 2); return err },
			func() error { _, err := s.lost.Start(ctx, eng, 0); return err },
			func() error { _, err := s.loop.Start(ctx, eng, 0); return err },
			func() error { _, err := s.trip.Start(ctx, eng, 0); return err },
			func() error { _, err := s.pay.Start(ctx, eng, 0); return err },
		} {
			if err := start(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		if _, err := s.order.Start(ctx, eng, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := slices.DeleteFunc(measured(t, reader), func(line string) bool {
			return strings.HasPrefix(line, "perdure.commit.")
		})
		want := []string{
			"perdure.compensations.started{name=trip} 1",
			"perdure.dlq.entries{name=lost} 1",
			"perdure.dlq.entries{name=trip} 1",
			"perdure.executions.active{} 1",
			"perdure.executions.completed{name=loop pattern=WORKFLOW success=true} 2",
			"perdure.executions.completed{name=lost pattern=WORKFLOW success=false} 1",
			"perdure.executions.completed{name=order pattern=WORKFLOW success=true} 1",
			"perdure.executions.completed{name=pay pattern=TCC success=true} 1",
			"perdure.executions.completed{name=trip pattern=SAGA success=false} 1",
			"perdure.executions.duration{name=loop pattern=WORKFLOW} 2 of 0s",
			"perdure.executions.duration{name=lost pattern=WORKFLOW} 1 of 0s",
			"perdure.executions.duration{name=order pattern=WORKFLOW} 1 of 3840s",
			"perdure.executions.duration{name=pay pattern=TCC} 1 of 0s",
			"perdure.executions.duration{name=trip pattern=SAGA} 1 of 0s",
			"perdure.executions.started{name=loop pattern=WORKFLOW} 2",
			"perdure.executions.started{name=lost pattern=WORKFLOW} 1",
			"perdure.executions.started{name=order pattern=WORKFLOW} 2",
			"perdure.executions.started{name=pay pattern=TCC} 1",
			"perdure.executions.started{name=trip pattern=SAGA} 1",
			"perdure.queue.depth{} 0",
			"perdure.runs.owned{pattern=WORKFLOW} 1",
			"perdure.steps.completed{name=order step=ship success=true} 4",
			"perdure.steps.completed{name=pay step=confirm:debit success=true} 1",
			"perdure.steps.completed{name=pay step=try:debit success=true} 1",
			"perdure.steps.completed{name=trip step=charge success=false} 1",
			"perdure.steps.completed{name=trip step=reserve success=true} 1",
			"perdure.steps.completed{name=trip step=undo:reserve success=true} 1",
			"perdure.steps.duration{name=order step=ship} 4 of 0s",
			"perdure.steps.duration{name=pay step=confirm:debit} 1 of 0s",
			"perdure.steps.duration{name=pay step=try:debit} 1 of 0s",
			"perdure.steps.duration{name=trip step=charge} 1 of 0s",
			"perdure.steps.duration{name=trip step=reserve} 1 of 0s",
			"perdure.steps.duration{name=trip step=undo:reserve} 1 of 0s",
			"perdure.steps.retries{name=order step=ship} 4",
			"perdure.timer.lag{} 1 of 0s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("measured:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// spec: P-7
func TestCommitsAreMeasured(t *testing.T) {
	var seen, rows int
	eng, reader, err := measuring(t, memory.New(), perdure.Options{Observers: []observe.Observer{{
		Kinds: []observe.Kind{observe.Committed},
		See:   func(n observe.Notice) { seen++; rows += n.Rows },
	}}})
	s := newShop()
	stop := serve(t, eng, err, s.all()...)
	if _, err := s.pay.Execute(t.Context(), eng, 1); err != nil {
		t.Fatal(err)
	}
	stop()
	lines := strings.Join(measured(t, reader), "\n")
	if want := fmt.Sprintf("perdure.commit.size{} %d of %d{entry}\n", seen, rows); seen == 0 ||
		!strings.Contains(lines, want) {
		t.Errorf("no %q in\n%s", want, lines)
	}
	want := fmt.Sprintf("perdure.commit.duration{} %d of ", seen)
	if !strings.Contains(lines, want) {
		t.Errorf("no %q in\n%s", want, lines)
	}
}

// spec: P-7
func TestAQueueAndTheRunsInMemoryAreMeasuredUntilTheWatchStops(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	load := observe.Load{Runs: map[string]int{"SAGA": 3, "TCC": 4}, Queue: 5}
	stop, err := telemetry.Watch(p, func() observe.Load { return load })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"perdure.executions.active{} 7", "perdure.queue.depth{} 5",
		"perdure.runs.owned{pattern=SAGA} 3", "perdure.runs.owned{pattern=TCC} 4",
	}
	if got := measured(t, reader); !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := measured(t, reader); len(got) != 0 {
		t.Errorf("measured %q after the end", got)
	}
}

// spec: P-7
func TestLabelsAreBounded(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	o, err := telemetry.Metrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	const more = 3
	for i := range telemetry.MostLabels + more {
		name := fmt.Sprint("w", i)
		o.See(observe.Notice{Kind: observe.RunStarted, Workflow: name, Pattern: "SAGA"})
		o.See(observe.Notice{Kind: observe.DeadLettered, Workflow: name})
		o.See(observe.Notice{Kind: observe.StepSucceeded, Workflow: "w", Step: name})
		o.See(observe.Notice{
			Kind: observe.StepSucceeded, Workflow: "keyed",
			Step: fmt.Sprintf("a[%d]/ship[%d]#%d/send", i, i, i+2),
		})
	}
	got := measured(t, reader)
	for _, line := range []string{
		fmt.Sprintf("perdure.executions.started{name=other pattern=other} %d", more),
		fmt.Sprintf("perdure.dlq.entries{name=other} %d", more),
		fmt.Sprintf("perdure.steps.completed{name=keyed step=a/ship/send success=true} %d",
			telemetry.MostLabels+more),
		// one is that of the steps with keys
		fmt.Sprintf("perdure.steps.completed{name=other step=other success=true} %d", more+1),
	} {
		if !slices.Contains(got, line) {
			t.Errorf("no line %s", line)
		}
	}
	// four metrics with at most so many workflows or steps, and one more line each
	if most := 4 * (telemetry.MostLabels + 1); len(got) > most {
		t.Errorf("%d lines, at most %d", len(got), most)
	}
}

// spec: P-15
func TestWithoutAProviderTheGlobalOneMeasures(t *testing.T) {
	was, reader := otel.GetMeterProvider(), sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(was) })
	o, err := telemetry.Metrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.See(observe.Notice{Kind: observe.CompensationStarted, Workflow: "w"})
	if got := measured(t, reader); !slices.Equal(got,
		[]string{"perdure.compensations.started{name=w} 1"}) {
		t.Errorf("measured %q", got)
	}
}
