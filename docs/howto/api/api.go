// Package api has the code of the how-to page about the API over HTTP.
package api

import (
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// Users find the user of a request in the session that the application has.
type Users struct {
	// Find returns the user and their groups; an empty name if there is no session.
	Find func(r *http.Request) (name string, groups []string, err error)
}

// Authenticate implements auth.Authenticator.
func (u Users) Authenticate(r *http.Request) (auth.Identity, error) {
	name, groups, err := u.Find(r)
	switch {
	case err != nil:
		return auth.Identity{}, err // answered with 503: nobody can be told now
	case name == "":
		return auth.Identity{}, auth.ErrNoCredential // answered with 401
	}
	who := auth.Identity{Name: name, Role: auth.Viewer, Session: true}
	for _, g := range groups {
		if g == "oncall" {
			who.Role = auth.Operator
		}
	}
	return who, nil
}

// Mount adds the API to the mux of an application, under /ops, and returns its engine.
func Mount(mux *http.ServeMux, db store.Store, users Users) (*perdure.Engine, error) {
	feed, summary := &server.Feed{}, observe.NewSummary()
	engine, err := perdure.New(db, perdure.Options{
		Observers: []observe.Observer{feed.Observer(), summary.Observer()},
	})
	if err != nil {
		return nil, err
	}
	ops, err := server.New(engine, db, server.Options{
		Authenticator: users, Prefix: "/ops", Hosts: []string{"shop.example.com"},
		Feed: feed, Summary: summary,
	})
	if err != nil {
		return nil, err
	}
	mux.Handle("/ops/", http.StripPrefix("/ops", ops))
	return engine, nil
}

// Listen serves a mux with limits against slow and greedy callers.
func Listen(mux *http.ServeMux, address string) error {
	s := server.HTTPServer(mux)
	s.Addr = address
	return s.ListenAndServe()
}
