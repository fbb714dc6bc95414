package server

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/perdure/perdure/server/auth"
)

// A ConfigurationKey is a key of the configuration of a server, with its value in force.
type ConfigurationKey struct {
	Name    string `json:"name"`
	Value   string `json:"value" doc:"of a secret, whether it is set"`
	Default string `json:"default"`
	From    string `json:"from" doc:"default, a place in a file, a variable or a flag"`
	// IsChanged is set if the value is not the default.
	IsChanged bool   `json:"is_changed"`
	Variable  string `json:"variable,omitempty" doc:"the variable that sets it"`
	About     string `json:"about,omitempty"`
}

// A Configuration is how a server is configured, and what it is.
type Configuration struct {
	Version string             `json:"version" doc:"of the module of the program"`
	Go      string             `json:"go"`
	System  string             `json:"system"`
	Build   string             `json:"build,omitempty" doc:"of the engine here"`
	Began   time.Time          `json:"began"`
	Keys    []ConfigurationKey `json:"keys" nullable:"false"`
}

// configuration registers how the server is configured.
func (s stateRoutes) configuration() {
	add(s.Server, operation{
		id: "get-configuration", method: http.MethodGet, path: "/configuration",
		group:   "operations",
		summary: "How this server is configured, without secrets, and its version",
		need:    auth.Admin,
		about:   "A program that is configured by its code has no keys.",
	}, func(context.Context, *nothing) (Configuration, error) {
		out := Configuration{
			Version: "(devel)", Go: runtime.Version(),
			System: runtime.GOOS + "/" + runtime.GOARCH, Began: s.began.UTC(),
			Keys: listOf(s.o.Configuration, "").Items,
		}
		if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
			out.Version = b.Main.Version
		}
		if s.engine != nil {
			out.Build = s.engine.Sealed().Live.Config().Build
		}
		return out, nil
	})
}
