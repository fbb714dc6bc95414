package server

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// health registers the routes that others than people ask: whether the process lives, whether it
// is ready, and its metrics.
func (s stateRoutes) health() {
	health := func(id, path, summary string, other int) plainRoute {
		return plainRoute{
			operation: operation{
				id: id, method: http.MethodGet, path: path, group: "health", summary: summary,
				need: auth.Public, other: other,
			}, answer: reflect.TypeFor[Health](),
		}
	}
	s.handle(health("live", "/healthz", "Whether the process lives", 0),
		func(w http.ResponseWriter, _ *http.Request) {
			state(w, http.StatusOK, Health{Status: "ok"})
		})
	s.handle(health("ready", "/readyz", "Whether the database answers and the engine runs",
		http.StatusServiceUnavailable), s.ready)
	if s.o.Metrics != nil {
		s.handle(plainRoute{
			operation: operation{
				id: "metrics", method: http.MethodGet, path: "/metrics", group: "health",
				summary: "Metrics in the format of Prometheus", need: auth.Viewer,
			}, kind: "text/plain",
		}, s.o.Metrics.ServeHTTP)
	}
}

// Health is the state of a process.
type Health struct {
	Status string `json:"status" doc:"ok or unavailable"`
	Store  string `json:"store,omitempty"`
	Engine string `json:"engine,omitempty"`
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
		state(w, http.StatusServiceUnavailable, Health{
			Status: "unavailable", Store: "does not answer",
		})
		return
	}
	engine := s.standing(info)
	if s.engine != nil && engine != engineOK {
		state(w, http.StatusServiceUnavailable, Health{
			Status: "unavailable", Store: "ok", Engine: engine,
		})
		return
	}
	state(w, http.StatusOK, Health{Status: "ok", Store: "ok", Engine: engine})
}

const engineOK = "ok"

// standing returns how the engine of this process stands; without one, whether any engine lives.
func (s stateRoutes) standing(info store.Info) string {
	own := journal.EngineID(0)
	if s.engine != nil {
		own, _ = s.engine.Sealed().Live.Loops()
	}
	for _, e := range info.Engines {
		switch {
		case e.Expired, s.engine != nil && e.ID != own:
		case s.engine != nil && !e.Drain.Until.IsZero():
			return "stops"
		default:
			return engineOK
		}
	}
	if s.engine == nil {
		return "none"
	}
	return "does not run"
}

func state(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}
