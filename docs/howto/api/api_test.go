package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/docs/howto/api"
	"github.com/perdure/perdure/store/memory"
)

// find is a directory with two users.
func find(r *http.Request) (string, []string, error) {
	switch name := r.Header.Get("X-User"); name {
	case "grace":
		return name, []string{"oncall"}, nil
	case "down":
		return "", nil, errors.New("the directory does not answer")
	default:
		return name, nil, nil
	}
}

// The users of an application use the API under its prefix, by their roles.
func TestUsersOfTheApplicationUseTheAPI(t *testing.T) {
	mux, db := http.NewServeMux(), memory.New()
	engine, err := api.Mount(mux, db, api.Users{Find: find})
	if err == nil {
		err = engine.Register(perdure.Define("greet", func(_ context.Context, name string) (string,
			error) {
			return "Hello, " + name, nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	const base = "/ops/api/orchestration"
	for _, c := range []struct {
		user, method, path, body string
		want                     int
		has                      string
	}{
		{"", "GET", base + "/executions", "", 401, "unauthenticated"},
		{"down", "GET", base + "/executions", "", 503, "unavailable"},
		{"eve", "POST", base + "/workflows/greet/start", `{}`, 403, "forbidden"},
		{"grace", "POST", base + "/workflows/greet/start?wait=1m", `{"input":"ada"}`, 201, "Hello, ada"},
		{"eve", "GET", base + "/session", "", 200, `"role":"viewer"`},
		{"eve", "GET", "/ops/openapi.json", "", 200, `"url":"/ops"`},
		{"", "GET", "/ops/readyz", "", 200, "ok"},
	} {
		r := httptest.NewRequest(c.method, "https://shop.example.com"+c.path,
			strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", c.user)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		if answer.Code != c.want || !strings.Contains(answer.Body.String(), c.has) {
			t.Errorf("%s %s by %q: status %d, want %d with %q: %s", c.method, c.path, c.user,
				answer.Code, c.want, c.has, answer.Body)
		}
	}
	r := httptest.NewRequest("GET", "https://other.example/ops/readyz", nil)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	if answer.Code != http.StatusMisdirectedRequest {
		t.Errorf("another host has status %d", answer.Code)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
