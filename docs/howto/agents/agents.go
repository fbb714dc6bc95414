// Package howto is the code of the page about agents.
package howto

import (
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/mcp"
	"github.com/perdure/perdure/store"
)

// Mount serves the API under /ops/, and agents at /ops/mcp.
func Mount(mux *http.ServeMux, engine *perdure.Engine, db store.Store, who *auth.Tokens) error {
	api, err := server.New(engine, db, server.Options{
		Prefix: "/ops", Authenticator: who, Agents: mcp.New,
	})
	if err != nil {
		return err
	}
	mux.Handle("/ops/", http.StripPrefix("/ops", api))
	return nil
}
