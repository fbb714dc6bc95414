package server

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/perdure/perdure/server/auth"
)

// unattendedHeader is the header of a request that nobody has caused: a page that is open reads
// again and again by itself. Such a request keeps no session alive.
const unattendedHeader = "Perdure-Unattended"

// A Caller is the sender of a request.
type Caller struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Session bool   `json:"session" doc:"the request has shown the cookie of a session"`
	// Kills is about the server: here it spares pages another request.
	Kills bool `json:"kills,omitempty" doc:"this server is for trying: kill-process kills it"`
}

func (s *Server) callerOf(id auth.Identity) Caller {
	return Caller{id.Name, id.Role.String(), id.Session, s.o.Kill != nil}
}

// session registers the routes of sessions, which pages use instead of tokens.
func (s stateRoutes) session() {
	add(s.Server, operation{
		id: "who-am-i", method: http.MethodGet, path: "/session", group: "session",
		summary: "Who the caller is, and what it may do", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (Caller, error) { return s.callerOf(who(ctx)), nil })
	tokens, _ := s.o.Authenticator.(*auth.Tokens)
	if tokens == nil {
		return
	}
	s.handle(plainRoute{
		operation: operation{
			id: "begin-session", method: http.MethodPost, path: base + "/session",
			group: "session", summary: "Begin a session: the answer sets its cookie",
			need: auth.Public, about: "The token is the credential.",
		}, body: reflect.TypeFor[Login](), answer: reflect.TypeFor[Caller](),
	}, func(w http.ResponseWriter, r *http.Request) { s.login(w, r, tokens) })
	s.handle(plainRoute{
		operation: operation{
			id: "end-session", method: http.MethodDelete, path: base + "/session",
			group: "session", summary: "End the session of the cookie", need: auth.Public,
			status: http.StatusNoContent,
		},
	}, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, tokens.Sessions.End(r, isSecure(r)))
		w.WriteHeader(http.StatusNoContent)
	})
}

// A Login is the body of a request that begins a session.
type Login struct {
	Token string `json:"token"`
}

func (s stateRoutes) login(w http.ResponseWriter, r *http.Request, tokens *auth.Tokens) {
	var in Login
	if err := readStrict(r, &in); err != nil {
		err.write(w)
		return
	}
	cookie, id, err := tokens.Login(in.Token, isSecure(r))
	if err != nil {
		s.badCredential(w, peerOf(r)).write(w)
		return
	}
	introduce(r.Context(), id)
	tokens.Sessions.End(r, isSecure(r)) // the one before
	http.SetCookie(w, cookie)
	state(w, http.StatusOK, s.callerOf(id))
}

// isSecure reports whether the caller's connection is encrypted. A proxy in front that ends TLS
// says so; whoever lies about it only gets a stricter cookie.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// authenticateEvery is how often the caller of an answer that goes on is looked at again.
const authenticateEvery = 30 * time.Second

// stillMay reports whether the caller of a request may still do it.
func (s *Server) stillMay(r *http.Request, need auth.Role) bool {
	if s.o.Authenticator == nil {
		return true
	}
	id, err := s.o.Authenticator.Authenticate(r)
	return err == nil && id.Role >= need
}
