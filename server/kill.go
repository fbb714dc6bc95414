package server

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strconv"

	"github.com/perdure/perdure/server/auth"
)

// Killed is the answer of a process that dies now.
type Killed struct {
	PID int `json:"pid" doc:"the process that dies"`
}

// kill registers the route by which people try what a crash does, if this server offers it.
func (s stateRoutes) kill() {
	if s.o.Kill == nil {
		return
	}
	s.handle(plainRoute{
		operation: operation{
			id: "kill-process", method: http.MethodPost, path: base + "/process/kill",
			group: "operations", summary: "Kill the process of this server, as kill -9 does",
			need: auth.Operator, status: http.StatusAccepted,
			about: "It is there on a server for trying only, such as that of perdure dev, which " +
				"starts another process at once. Nothing is cleaned up before.",
		}, answer: reflect.TypeFor[Killed](),
	}, func(w http.ResponseWriter, r *http.Request) {
		text, err := json.Marshal(Killed{os.Getpid()})
		if err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		// With its length, the answer is whole before the handler returns.
		w.Header().Set("Content-Type", jsonType)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(text)                      // the caller may be gone
		_ = http.NewResponseController(w).Flush() // not every writer has it
		s.o.Kill()
	})
}
