// Package telemetry measures and traces an engine with OpenTelemetry:
//
//	metrics, err := telemetry.Metrics(meters)
//	options.Observers = append(options.Observers, metrics)
//	telemetry.Trace(&options, tracers)
//	engine, err := perdure.New(store, options)
//	stop, err := telemetry.Watch(meters, engine.Load)
//
// Any provider of OpenTelemetry will do; nil is the global one. Package telemetry/prometheus has
// one for metrics, with the handler that Prometheus asks. Package telemetry/otlp has one for
// traces, which sends them to a collector. The page docs/howto/telemetry.md lists the metrics.
package telemetry

// Scope is the name of the meter and of the tracer.
const Scope = "github.com/perdure/perdure/telemetry"
