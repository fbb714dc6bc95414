package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/mcp"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A world is a server with an engine, as agents see it.
type world struct {
	t      *testing.T
	engine *perdure.Engine
	server *server.Server
	http   *httptest.Server
	tokens map[auth.Role]string

	mu   sync.Mutex
	acts []server.Act
}

var greet = perdure.Define("greet", func(_ context.Context, name string) (string, error) {
	return "Hello, " + name, nil
})

var pay = perdure.Define("pay", func(context.Context, map[string]string) (string, error) {
	return "paid", nil
})

// begin begins a server with tokens on an engine in memory.
func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, tokens: map[auth.Role]string{}}
	var all []auth.Credential
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		token, hash := auth.NewToken()
		w.tokens[role] = token
		all = append(all, auth.Credential{Name: "an " + role.String(), Role: role, Hash: hash})
	}
	tokens := &auth.Tokens{}
	if err := tokens.Set(all); err != nil {
		t.Fatal(err)
	}
	w.serve(memory.New(), server.Options{
		Authenticator: tokens, Redact: []string{"card"}, Audit: w.audit, MaxBody: 1 << 20,
	})
	return w
}

func (w *world) audit(a server.Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, a)
}

func (w *world) serve(db store.Store, o server.Options) {
	w.t.Helper()
	o.Agents, o.Logger = mcp.New, slog.New(slog.DiscardHandler)
	var err error
	if w.engine, err = perdure.New(db, perdure.Options{Logger: o.Logger}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine.Register(greet, pay); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	if w.server, err = server.New(w.engine, db, o); err != nil {
		w.t.Fatal(err)
	}
	w.http = httptest.NewUnstartedServer(w.server)
	w.http.Config = server.HTTPServer(w.server)
	w.http.Start()
	w.t.Cleanup(func() {
		w.http.CloseClientConnections()
		w.http.Close()
		stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		_ = db.Close()
	})
}

// A showing sends requests with a header.
type showing struct{ name, value string }

func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if s.value != "" {
		r.Header.Set(s.name, s.value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func bearer(token string) showing { return showing{"Authorization", "Bearer " + token} }

// An agent is a client of the protocol.
type agent struct {
	t *testing.T
	*sdk.ClientSession
}

// connect returns an agent whose requests show a header.
func (w *world) connect(s showing) (*agent, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(w.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: w.http.URL + "/mcp", HTTPClient: &http.Client{Transport: s}, MaxRetries: -1,
	}, nil)
	if err == nil {
		w.t.Cleanup(func() { _ = session.Close() }) // the server may be gone
	}
	return &agent{w.t, session}, err
}

// as returns an agent with the token of a role.
func (w *world) as(role auth.Role) *agent {
	w.t.Helper()
	a, err := w.connect(bearer(w.tokens[role]))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// tools returns the tools that the agent sees, by name.
func (a *agent) tools() map[string]*sdk.Tool {
	a.t.Helper()
	list, err := a.ListTools(a.t.Context(), nil)
	if err != nil || list.CacheScope != "private" {
		a.t.Fatal(list, err)
	}
	out := map[string]*sdk.Tool{}
	for _, tool := range list.Tools {
		out[tool.Name] = tool
	}
	return out
}

type args = map[string]any

// texts calls a tool, and returns the texts of its result.
func (a *agent) texts(tool string, in args) (out []string, isError bool) {
	a.t.Helper()
	result, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range result.Content {
		out = append(out, c.(*sdk.TextContent).Text)
	}
	return out, result.IsError
}

// want calls a tool, which succeeds with one JSON object.
func (a *agent) want(tool string, in args) map[string]any {
	a.t.Helper()
	texts, isError := a.texts(tool, in)
	var out map[string]any
	if err := json.Unmarshal([]byte(texts[0]), &out); err != nil || isError || len(texts) > 1 {
		a.t.Fatalf("%s %v: %q, an error: %v; %v", tool, in, texts, isError, err)
	}
	return out
}

// refused calls a tool, which fails with a problem.
func (a *agent) refused(tool string, in args) server.Problem {
	a.t.Helper()
	texts, isError := a.texts(tool, in)
	var p server.Problem
	if err := json.Unmarshal([]byte(texts[0]), &p); err != nil || !isError {
		a.t.Fatalf("%s %v: %q, an error: %v; %v", tool, in, texts, isError, err)
	}
	return p
}

// post sends a message as it is from this machine, as a viewer unless a header shows somebody else.
func (w *world) post(message string, headers ...string) (int, string) {
	r := messageFrom("127.0.0.1:1", message, append([]string{
		"Authorization", "Bearer " + w.tokens[auth.Viewer],
	}, headers...)...)
	seen := httptest.NewRecorder()
	w.server.ServeHTTP(seen, r)
	return seen.Code, seen.Body.String()
}

// messageFrom returns a request with a message.
func messageFrom(address, message string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(message))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	return r
}
