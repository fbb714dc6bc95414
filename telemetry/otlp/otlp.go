// Package otlp sends spans to a collector, by OTLP over HTTP. The environment says where it is and
// how to send, as OpenTelemetry has it:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
//	OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20…
//	OTEL_SERVICE_NAME=shop
//	OTEL_TRACES_SAMPLER=parentbased_traceidratio
//	OTEL_TRACES_SAMPLER_ARG=0.1
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/telemetry"
)

// Configured reports whether the environment names a collector, and does not switch traces off.
func Configured() bool {
	to := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	return to != "" && os.Getenv("OTEL_TRACES_EXPORTER") != "none" &&
		os.Getenv("OTEL_SDK_DISABLED") != "true"
}

// New returns a provider that sends spans as the environment says. They are sent in batches, in the
// background: an engine does not wait, and spans are dropped while a collector does not keep up.
// Shutdown sends the rest. Of the protocols it has http/protobuf; another one is an error of code
// invalid.
func New(ctx context.Context) (*sdktrace.TracerProvider, error) {
	const http = "http/protobuf"
	if p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"),
		os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), http); p != http {
		return nil, &journal.Error{
			Code: journal.CodeInvalid, Op: "otlp",
			Message: fmt.Sprintf("the protocol %q is not supported", p),
			Hint:    "set OTEL_EXPORTER_OTLP_PROTOCOL to " + http + ", or leave it out",
		}
	}
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "perdure")), resource.WithTelemetrySDK(),
		resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(to), sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(telemetry.IDs{})), nil
}
