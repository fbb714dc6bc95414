package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
)

// The page has the addresses that are nobody else's. It needs no credential; the API behind it
// does.
//
// spec: B-17, P-10
func TestThePageHasTheAddressesThatAreLeft(t *testing.T) {
	tokens := &auth.Tokens{}
	_, hash := auth.NewToken()
	ada := auth.Credential{Name: "ada", Role: auth.Viewer, Hash: hash}
	if err := tokens.Set([]auth.Credential{ada}); err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the page at "+r.URL.Path)
	})
	with := begin(t, server.Options{
		Authenticator: tokens, Page: page, Hosts: []string{"127.0.0.1"},
	})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/runs/a", 200},
		{"GET", "/assets/a.js", 200}, {"GET", "/apis", 200}, {"POST", "/", 401},
		{"GET", "/runs/", 401}, {"GET", "/a//b", 401},
		{"GET", "/api", 401}, {"GET", "/api/orchestration/nothing", 401}, {"GET", "/mcp", 401},
		{"GET", "/api/orchestration/executions", 401}, {"GET", "/docs", 401},
		{"GET", "/docs/more", 401}, {"GET", "/metrics", 401}, {"GET", "/openapi.json", 401},
		{"GET", "/healthz", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, with.http.URL+c.path,
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		isPage := c.status == 200 && c.path != "/healthz" && c.method == "GET"
		if answer.StatusCode != c.status ||
			isPage != strings.HasPrefix(string(text), "the page at ") {
			t.Errorf("%s %s: %d %s", c.method, c.path, answer.StatusCode, text)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", with.http.URL, http.NoBody)
	r.Host = "evil.example"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("the page is shown under a name that is not allowed: %d", answer.StatusCode)
	}
}
