// Package prometheus has the endpoint that Prometheus asks for the metrics of an engine:
//
//	meters, handler, err := prometheus.New()
//	metrics, err := telemetry.Metrics(meters)
//	http.Handle("GET /prometheus", handler)
//
// The name of a metric there has underscores for dots, and its unit and kind at its end:
// perdure.steps.duration is perdure_steps_duration_seconds. Labels are as they are.
package prometheus

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// New returns a provider of meters, and the handler that shows what they have measured. It shows
// nothing else: neither metrics of the Go runtime nor those of other providers. The caller may
// shut the provider down at the end of the program, and need not.
func New() (*sdkmetric.MeterProvider, http.Handler, error) {
	all := prometheus.NewRegistry()
	e, err := exporter.New(exporter.WithRegisterer(all), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, nil, err
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(e)),
		promhttp.HandlerFor(all, promhttp.HandlerOpts{}), nil
}
