package server_test

import (
	"testing"

	"github.com/perdure/perdure/server"
)

// spec: P-10, R-28
func TestARunIsStartedReadAndWaitedFor(t *testing.T) {
	w := begin(t, server.Options{})
	id := w.start("greet", `{"id":"g-1","input":"ada"}`)
	if out := w.ended(id); out["output"] != "Hello, ada" || out["status"] != "COMPLETED" {
		t.Error(out)
	}
	for _, path := range []string{
		"/executions/g-1", "/workflows/instances/g-1", "/executions/" + id + "/why",
		"/executions/g-1/report", "/executions/g-1/history", "/executions/g-1/graph",
		"/executions/g-1/timers", "/executions?status=completed",
		"/workflows/instances?status=COMPLETED", "/workflows", "/workflows/trip",
		"/workflows/trip/topology", "/dlq", "/dlq/count", "/schedules", "/approvals", "/doctor",
		"/metrics", "/metrics/SAGA", "/signals/unrouted", "/limits", "/pauses", "/alerts",
		"/keys", "/workers", "/database", "/parked", "/orchestrators", "/batches",
		"/events/registrations", "/session", "/workflows/greet/versions",
	} {
		w.want(200, "GET", api+path, "")
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		w.want(200, "GET", path, "")
	}
	if p := w.want(404, "GET", api+"/executions/nobody", ""); p["code"] != "not_found" ||
		p["status"] != 404.0 {
		t.Error(p)
	}
}
