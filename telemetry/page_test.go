package telemetry_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/telemetry"
)

// described returns the kind, the unit and the labels of a metric, as the page has them.
func described(m metricdata.Metrics) string {
	kind := "histogram"
	switch m.Data.(type) {
	case metricdata.Sum[int64]:
		kind = "counter"
	case metricdata.Gauge[int64]:
		kind = "gauge"
	}
	labels := regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(points(m)[0], -1)
	var names []string
	for _, l := range labels {
		names = append(names, l[1])
	}
	return strings.TrimSpace(kind + " | " + m.Unit + " | " + strings.Join(names, ", "))
}

// spec: P-7
func TestThePageListsTheMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	o, err := telemetry.Metrics(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range o.Kinds {
		o.See(observe.Notice{Kind: kind, Workflow: "w", Step: "s", Pattern: "SAGA"})
	}
	if _, err := telemetry.Watch(p, func() observe.Load {
		return observe.Load{Runs: map[string]int{"SAGA": 1}}
	}); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	exist := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		exist[m.Name] = described(m)
	}
	page, err := os.ReadFile("../docs/howto/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(perdure\\.[a-z.]+)` \\| (.*) \\|[^|]*\\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = m[2]
	}
	if !maps.Equal(exist, listed) {
		for _, name := range slices.Sorted(maps.Keys(exist)) {
			t.Errorf("%s is %q, the page has %q", name, exist[name], listed[name])
		}
		t.Errorf("the page lists %q", slices.Sorted(maps.Keys(listed)))
	}
}
