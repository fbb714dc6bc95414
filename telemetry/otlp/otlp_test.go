package otlp_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/telemetry"
	"github.com/perdure/perdure/telemetry/otlp"
)

// alone removes what the environment says of collectors.
func alone(t *testing.T) {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_EXPORTER",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		t.Setenv(name, "")
	}
}

// spec: P-8
func TestSpansAreSentToTheCollectorOfTheEnvironment(t *testing.T) {
	for _, service := range []string{"", "shop"} {
		alone(t)
		got := make(chan []byte, 10)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- append([]byte(r.Method+" "+r.URL.Path+" "+r.Header.Get("x-key")+"\n"), body...)
		}))
		defer collector.Close()
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
		t.Setenv("OTEL_SERVICE_NAME", service)
		p, err := otlp.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer(telemetry.Scope).Start(t.Context(), "orchestration.execution")
		span.End()
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		sent := <-got
		if service == "" {
			service = "perdure"
		}
		for _, want := range []string{
			"POST /v1/traces secret\n", "orchestration.execution", "service.name", service,
		} {
			if !bytes.Contains(sent, []byte(want)) {
				t.Errorf("sent %q without %q", sent, want)
			}
		}
	}
}

// spec: P-8
func TestTheEnvironmentDecidesWhetherSpansAreSent(t *testing.T) {
	for env, want := range map[string]bool{
		"":                                     false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://a": true,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a":                            true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://a OTEL_TRACES_EXPORTER=none":         false,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a OTEL_SDK_DISABLED=true":     false,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://a OTEL_TRACES_EXPORTER=otlp": false,
	} {
		alone(t)
		for _, pair := range strings.Fields(env) {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
		if got := otlp.Configured(); got != want {
			t.Errorf("%q: %v, want %v", env, got, want)
		}
	}
}

// spec: P-8
func TestAProtocolThatIsNotSupportedIsAnError(t *testing.T) {
	alone(t)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, err := otlp.New(t.Context()); journal.CodeOf(err) != journal.CodeInvalid {
		t.Error(err)
	}
}
