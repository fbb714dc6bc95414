package telemetry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/docs/howto/telemetry"
	"github.com/perdure/perdure/store/memory"
)

var order = perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
	return perdure.Step(ctx, "pay", func(context.Context) (int, error) { return 1, nil })
})

// runs executes a run of order, and ends the engine.
func runs(t *testing.T, engine *perdure.Engine, err error) {
	t.Helper()
	if err == nil {
		err = engine.Register(order)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	run, err := order.Start(ctx, engine, 1)
	if err == nil {
		_, err = run.Result(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAnEngineIsMeasuredAndTraced(t *testing.T) {
	sent := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	mux := http.NewServeMux()
	engine, end, err := telemetry.Served(t.Context(), memory.New(), mux)
	runs(t, engine, err)
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body := <-sent; !strings.Contains(body, "orchestration.step") {
		t.Errorf("sent %q", body)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/prometheus", nil))
	const want = `perdure_steps_completed_total{name="order",step="pay",success="true"} 1`
	if !strings.Contains(answer.Body.String(), want) {
		t.Errorf("no %s in\n%s", want, answer.Body)
	}
}

func TestASummaryIsServed(t *testing.T) {
	engine, handler, err := telemetry.Summarised(memory.New())
	runs(t, engine, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", handler)
	mux.HandleFunc("GET /metrics/{pattern}", handler)
	for path, want := range map[string]string{
		"/metrics":      `"steps":{"total":1,"failed":0,"retried":0}`,
		"/metrics/saga": `"steps":{"total":0,"failed":0,"retried":0}`,
		"/metrics/sage": `there is no pattern "sage"`,
	} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: no %s in\n%s", path, want, answer.Body)
		}
	}
}
