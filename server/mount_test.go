package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
)

// users is an authenticator of an application: the user is in a header that the application sets.
type users struct{}

// Authenticate implements auth.Authenticator.
func (users) Authenticate(r *http.Request) (auth.Identity, error) {
	switch r.Header.Get("X-User") {
	case "":
		return auth.Identity{}, auth.ErrNoCredential
	case "grace":
		return auth.Identity{Name: "grace", Role: auth.Operator}, nil
	case "eve":
		return auth.Identity{Name: "eve", Role: auth.Viewer}, nil
	case "down":
		return auth.Identity{}, errors.New("the directory does not answer")
	}
	return auth.Identity{}, auth.ErrBadCredential
}

// An application mounts two servers in its own mux, under prefixes, and says who its users are.
//
// spec: P-10, P-15
func TestAnApplicationMountsServers(t *testing.T) {
	one := begin(t, server.Options{Authenticator: users{}, Prefix: "/ops"})
	two := begin(t, server.Options{Authenticator: users{}, Prefix: "/a/b"})
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", one.server))
	mux.Handle("/a/b/", http.StripPrefix("/a/b", two.server))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) })
	ask := func(user, method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", user)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		return answer.Code, answer.Body.String()
	}
	for _, c := range []struct {
		user, method, path, body string
		want                     int
		has                      string
	}{
		{"grace", "POST", "/ops" + api + "/workflows/greet/start", `{"id":"m-1","input":"a"}`, 201, "m-1"},
		{"grace", "GET", "/ops" + api + "/executions/m-1/result?wait=1m", "", 200, "Hello, a"},
		{"grace", "GET", "/ops" + api + "/workflows/instances/m-1", "", 200, "m-1"},
		{"grace", "GET", "/a/b" + api + "/executions/m-1", "", 404, "not_found"},
		{"eve", "GET", "/a/b" + api + "/executions", "", 200, "items"},
		{"eve", "POST", "/a/b" + api + "/workflows/greet/start", "{}", 403, "forbidden"},
		{"", "GET", "/ops" + api + "/executions", "", 401, "unauthenticated"},
		{"mallory", "GET", "/ops" + api + "/executions", "", 401, "unauthenticated"},
		{"down", "GET", "/ops" + api + "/executions", "", 503, "unavailable"},
		{"", "GET", "/ops/healthz", "", 200, "ok"},
		// the engine of two runs when it has executed something
		{"grace", "POST", "/a/b" + api + "/workflows/greet/start", `{"id":"m-2","input":"b"}`, 201, "m-2"},
		{"grace", "GET", "/a/b" + api + "/executions/m-2/result?wait=1m", "", 200, "Hello, b"},
		{"", "GET", "/a/b/readyz", "", 200, "ok"},
		{"grace", "GET", "/ops/", "", 404, "no such address"},
		{"grace", "GET", "/ops" + api + "/executions/", "", 404, "no such address"},
		{"grace", "POST", "/ops" + api + "/session", `{"token":"x"}`, 405, "not allowed"},
		{"", "GET", api + "/executions", "", 418, ""},
		{"grace", "GET", "/ops/openapi.json", "", 200, `"servers":[{"url":"/ops"}]`},
		{"grace", "GET", "/a/b/openapi.json", "", 200, `"servers":[{"url":"/a/b"}]`},
		{"grace", "GET", "/a/b/docs", "", 200, "/a/b" + api},
	} {
		if status, text := ask(c.user, c.method, c.path, c.body); status != c.want ||
			!strings.Contains(text, c.has) {
			t.Errorf("%s %s by %q: status %d, want %d with %q: %.200s", c.method, c.path, c.user,
				status, c.want, c.has, text)
		}
	}
}
