package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/server"
)

// Bodies that arrive at one time have a bound together. Who has no role cannot keep out those who
// have one, and what has no body is answered all the same.
//
// spec: P-10, B-18
func TestAllBodiesTogetherHaveABound(t *testing.T) {
	s := closed(t, server.Options{Authenticator: people(t), Hosts: []string{"example.com"}})
	ask := func(method, path, token string, length int64, body io.Reader) *http.Response {
		r := httptest.NewRequest(method, api+path, body)
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		seen := httptest.NewRecorder()
		s.ServeHTTP(seen, r)
		return seen.Result()
	}
	small := func(method, path, token string) *http.Response {
		return ask(method, path, token, 2, strings.NewReader("{}"))
	}
	const statuses, show = "/statuses", "/callbacks/show"
	until := func(path, token string, want int) *http.Response {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			got := small("POST", path, token)
			if got.StatusCode == want {
				return got
			}
			if time.Now().After(end) {
				t.Fatalf("%s: status %d, want %d", path, got.StatusCode, want)
			}
		}
	}
	hold := func(path, token string, n int, length int64) (release func()) {
		body, end := io.Pipe()
		done := make(chan int)
		for range n {
			go func() {
				got := http.StatusServiceUnavailable // until there is room for it
				for got == http.StatusServiceUnavailable {
					got = ask("POST", path, token, length, body).StatusCode
				}
				done <- got
			}()
		}
		return func() {
			end.Close()
			for range n {
				<-done
			}
		}
	}
	release := hold(show, "", 4, 16<<20)
	until(show, "", 503)
	if got := small("POST", statuses, viewerToken); got.StatusCode != 400 { // it has no IDs
		t.Errorf("strangers keep others out: %s", got.Status)
	}
	release()
	until(show, "", 400)
	for _, length := range []int64{16 << 20, 1 << 40, -1} {
		release = hold(statuses, viewerToken, 16, length)
		full := until(statuses, viewerToken, 503)
		if full.Header.Get("Retry-After") == "" ||
			full.Header.Get("Content-Type") != "application/problem+json" {
			t.Error(full.Header)
		}
		if got := ask("GET", "/executions", viewerToken, 0, nil); got.StatusCode != 200 {
			t.Errorf("a request without a body: %s", got.Status)
		}
		release()
		until(statuses, viewerToken, 400)
	}
}
