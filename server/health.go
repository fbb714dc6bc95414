package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// health registers the routes that others than people ask: whether the process lives, whether it
// is ready, and its metrics.
func (s stateRoutes) health() {
	open := func(name string) route { return route{name: name, need: auth.Public} }
	s.handle(http.MethodGet, "/healthz", open("live"), func(w http.ResponseWriter,
		_ *http.Request) {
		state(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.handle(http.MethodGet, "/readyz", open("ready"), s.ready)
	if s.o.Metrics != nil {
		s.handle(http.MethodGet, "/metrics", route{name: "metrics", need: auth.Viewer},
			s.o.Metrics.ServeHTTP)
	}
}

// readyWithin is how long the database may take to answer a question of a balancer.
const readyWithin = 3 * time.Second

// ready answers 200 if the database answers and, where this process has an engine, the engine runs.
// It tells nobody more than that.
func (s stateRoutes) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	info, err := store.Brief(ctx, s.store)
	if err != nil {
		s.log.Warn("perdure: not ready: the database does not answer", "error", err)
		state(w, http.StatusServiceUnavailable, map[string]string{
			"status": "unavailable", "store": "does not answer",
		})
		return
	}
	engine := "none"
	if slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return !e.Expired }) {
		engine = "ok"
	}
	if s.engine != nil && engine == "none" {
		state(w, http.StatusServiceUnavailable, map[string]string{
			"status": "unavailable", "store": "ok", "engine": "does not run",
		})
		return
	}
	state(w, http.StatusOK, map[string]string{"status": "ok", "store": "ok", "engine": engine})
}

func state(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}
