package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// Options set how a server answers. The zero value is the default: it answers callers on the same
// machine only.
type Options struct {
	// Authenticator returns the sender of a request. Nil allows only callers on the same machine,
	// and these everything. With an [auth.Tokens], callers can also begin sessions.
	Authenticator auth.Authenticator
	// Hosts are the names by which callers may call the server, without ports. Without an
	// Authenticator, localhost and the loopback addresses are allowed too. None, with an
	// Authenticator, allows all.
	Hosts []string
	// Prefix is the path under which the handler is mounted, such as /ops. The documents of the API
	// name it; requests come without it, see [http.StripPrefix].
	Prefix string
	// Address is the address of the database in answers to admins, without its password.
	Address string
	// Program is the name of the program in the commands that answers quote; empty for perdure.
	Program string

	Feed    *Feed            // source of live events of all runs; nil for none
	Summary *observe.Summary // counts what the engine does; nil for none
	Metrics http.Handler     // for /metrics, in the format of Prometheus; nil for none
	// Agents makes the handler of /mcp, for agents; nil for none. Package server/mcp has one. It
	// gets the server and its OpenAPI document, where x-role is the role that an operation needs.
	// Its requests have passed the gate as those of a viewer.
	Agents func(api http.Handler, document []byte) (http.Handler, error)
	// Page answers GET requests for addresses that are not those of the API or of another part of
	// the server; nil for none. Package server/ui has one. It is asked without a credential.
	Page http.Handler
	// Kill ends this process at once and does not return. It is for servers on which people try
	// what a crash does: whoever has the role of an operator may call it. Nil offers it to nobody.
	Kill func()
	// Gateways and Orchestrators are shown. They have no effect.
	Gateways      []*bus.Gateway
	Orchestrators []Orchestrator

	// Configuration has the keys of the configuration in force, for admins to see. Its values must
	// have no secrets. Empty if the program is configured by its code.
	Configuration []ConfigurationKey

	// Stale is how long a busy run may get no entry before the doctor finds it; 0 means 1 h.
	Stale time.Duration
	// Redact are names of fields. In payloads, the values of fields with these names, in upper or
	// lower case, are replaced for everybody who is not an admin. Nor may they filter by search
	// attributes of these names.
	Redact []string
	// Audit hears of each action that a caller has asked for: also of one that the role of the
	// caller does not allow, and of each attempt to begin a session. It is called when the action
	// is done, and must return soon: the caller gets the answer after its return. Nil logs it.
	Audit  func(Act)
	Logger *slog.Logger // nil for slog.Default
	// MaxBody bounds the body of a request in bytes; 0 means 16 MB. All bodies in flight together
	// have at most 256 MB, or MaxBody if that is more.
	MaxBody int64
}

// An Orchestrator is an event-driven orchestrator, as the API shows it.
type Orchestrator struct {
	Source  string   `json:"source"`
	Accepts []string `json:"accepts"` // types of events
}

const defaultMaxBody = 16 << 20

// A Server answers the requests of the API. Many goroutines may call its methods.
type Server struct {
	o       Options
	client  *perdure.Client
	engine  *perdure.Engine // nil if there is none in this process
	admin   *admin.Client
	store   store.Store
	began   time.Time
	log     *slog.Logger
	hide    redactor
	mux     *http.ServeMux
	api     huma.API
	table   map[string]route // by pattern
	origins *http.CrossOriginProtection
	failed  auth.Failures
	hosts   map[string]bool // nil for all
	summary *observe.Summary

	acts acts

	bodies, others budget // of bodies in flight: see deliver
}

// New returns a server for an engine or a client and its store. The store stays the caller's, who
// closes it when the server has answered the last request.
func New(c perdure.Caller, s store.Store, o Options) (*Server, error) {
	srv := &Server{
		o: o, store: s, began: time.Now(), log: o.Logger, hide: newRedactor(o.Redact),
		mux: http.NewServeMux(), table: map[string]route{},
		origins: http.NewCrossOriginProtection(),
	}
	switch c := c.(type) {
	case *perdure.Engine:
		if c != nil {
			srv.engine, srv.client, srv.admin = c, c.Client, admin.New(c)
		}
	case *perdure.Client:
		if c != nil {
			srv.client, srv.admin = c, admin.New(c)
		}
	}
	switch {
	case srv.client == nil:
		return nil, errors.New("server: an engine or a client is needed")
	case s == nil:
		return nil, errors.New("server: a store is needed")
	}
	if srv.log == nil {
		srv.log = slog.Default()
	}
	if srv.o.MaxBody <= 0 {
		srv.o.MaxBody = defaultMaxBody
	}
	srv.bodies.left = max(bodiesOfCallers, srv.o.MaxBody)
	srv.others.left = max(bodiesOfOthers, srv.o.MaxBody)
	if srv.o.Program == "" {
		srv.o.Program = "perdure"
	}
	if srv.summary = o.Summary; srv.summary == nil {
		srv.summary = observe.NewSummary()
	}
	srv.hosts = allowed(o)
	srv.routes()
	if err := srv.agents(); err != nil {
		return nil, err
	}
	return srv, nil
}

// readTimeout is how long a request may take to arrive.
const readTimeout = 30 * time.Second

// HTTPServer returns a server for a handler, with limits that keep slow and greedy callers from
// doing harm. The caller sets its address and serves.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: readTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// whoKey is the key of the caller in the context of a request: a login sets it later.
type whoKey struct{}

// who returns the caller of a request.
func who(ctx context.Context) auth.Identity {
	if id, _ := ctx.Value(whoKey{}).(*auth.Identity); id != nil {
		return *id
	}
	return auth.Identity{}
}

// hidden returns what is hidden from the caller of a request.
func (s *Server) hidden(ctx context.Context) redactor {
	if who(ctx).Role >= auth.Admin {
		return nil
	}
	return s.hide
}

// introduce sets the caller of a request whose credential is in its body.
func introduce(ctx context.Context, caller auth.Identity) {
	if id, _ := ctx.Value(whoKey{}).(*auth.Identity); id != nil {
		*id = caller
	}
}

// by returns the note of an action: its author is the caller, whatever the body says.
func by(ctx context.Context, reason string) admin.Note {
	return admin.Note{By: who(ctx).Name, Reason: reason}
}

// now returns the time by the clock of the engine or client.
func (s *Server) now() time.Time { return s.client.Sealed().FrontEnd.Now() }
