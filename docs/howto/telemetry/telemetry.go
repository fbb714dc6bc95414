// Package telemetry has the code of the how-to page about metrics and traces.
package telemetry

import (
	"context"
	"encoding/json"
	"net/http"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/telemetry"
	"github.com/perdure/perdure/telemetry/otlp"
	"github.com/perdure/perdure/telemetry/prometheus"
)

// Instrumented returns an engine that is measured and traced.
func Instrumented(db store.Store, meters metric.MeterProvider, tracers trace.TracerProvider) (
	*perdure.Engine, error) {
	metrics, err := telemetry.Metrics(meters)
	if err != nil {
		return nil, err
	}
	options := perdure.Options{Observers: []observe.Observer{metrics}}
	telemetry.Trace(&options, tracers)
	engine, err := perdure.New(db, options)
	if err != nil {
		return nil, err
	}
	_, err = telemetry.Watch(meters, engine.Load)
	return engine, err
}

// Served returns an instrumented engine, whose metrics are at /prometheus, and what sends the last
// spans when the program ends.
func Served(ctx context.Context, db store.Store, mux *http.ServeMux) (*perdure.Engine,
	func(context.Context) error, error) {
	meters, endpoint, err := prometheus.New()
	if err != nil {
		return nil, nil, err
	}
	mux.Handle("GET /prometheus", endpoint)
	tracers, err := otlp.New(ctx)
	if err != nil {
		return nil, nil, err
	}
	engine, err := Instrumented(db, meters, tracers)
	return engine, tracers.Shutdown, err
}

// Summarised returns an engine with a handler that shows what it has done.
func Summarised(db store.Store) (*perdure.Engine, http.HandlerFunc, error) {
	summary := observe.NewSummary()
	engine, err := perdure.New(db, perdure.Options{
		Observers: []observe.Observer{summary.Observer()},
	})
	return engine, func(w http.ResponseWriter, r *http.Request) {
		figures, err := summary.Read(engine.Load(), r.PathValue("pattern"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(figures)
	}, err
}
