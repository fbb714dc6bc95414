package howto

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store/memory"
)

var greet = perdure.Define("greet", func(_ context.Context, name string) (string, error) {
	return "Hello, " + name, nil
})

// A showing sends requests with a token.
type showing string

func (token showing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// spec: P-10
func TestAnAgentReadsTheRunsOfAnApplication(t *testing.T) {
	db := memory.New()
	engine, err := perdure.New(db, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = engine.Register(greet)
	}
	if err != nil {
		t.Fatal(err)
	}
	token, hash := auth.NewToken()
	who := &auth.Tokens{}
	err = who.Set([]auth.Credential{{Name: "helper", Role: auth.Viewer, Hash: hash}})
	mux := http.NewServeMux()
	if err == nil {
		err = Mount(mux, engine, db, who)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if _, err := greet.Start(ctx, engine, "ada", perdure.ID("g-1")); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	agent, err := mcp.NewClient(&mcp.Implementation{Name: "helper", Version: "1"}, nil).Connect(
		t.Context(), &mcp.StreamableClientTransport{
			Endpoint: s.URL + "/ops/mcp", HTTPClient: &http.Client{Transport: showing(token)},
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	result, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "list-executions"})
	if err != nil || result.IsError ||
		!strings.Contains(result.Content[0].(*mcp.TextContent).Text, `"g-1"`) {
		t.Errorf("%+v, %v", result, err)
	}
}
