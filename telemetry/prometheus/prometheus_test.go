package prometheus_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/telemetry"
	"github.com/perdure/perdure/telemetry/prometheus"
)

// spec: P-7
func TestTheEndpointShowsMetricsAndNothingElse(t *testing.T) {
	meters, endpoint, err := prometheus.New()
	if err != nil {
		t.Fatal(err)
	}
	o, err := telemetry.Metrics(meters)
	if err != nil {
		t.Fatal(err)
	}
	o.See(observe.Notice{Kind: observe.DeadLettered, Workflow: "order"})
	answer := httptest.NewRecorder()
	endpoint.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	want := "# HELP perdure_dlq_entries_total Runs that were dead-lettered.\n" +
		"# TYPE perdure_dlq_entries_total counter\n" +
		"perdure_dlq_entries_total{name=\"order\"} 1\n"
	if got := answer.Body.String(); got != want || answer.Code != 200 ||
		!strings.HasPrefix(answer.Header().Get("content-type"), "text/plain") {
		t.Errorf("%d %v\n%s", answer.Code, answer.Header(), got)
	}
}
