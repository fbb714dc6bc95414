package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/server"
)

// Bodies that arrive at one time have a bound together. Who has no role cannot keep out those who
// have one, and what has no body is answered all the same.
//
// spec: P-10, B-18
func TestAllBodiesTogetherHaveABound(t *testing.T) {
	const statuses, show = "/statuses", "/callbacks/show"
	synctest.Test(t, func(t *testing.T) {
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
		want := func(path, token string, status int) *http.Response {
			t.Helper()
			got := ask("POST", path, token, 2, strings.NewReader("{}"))
			if got.StatusCode != status {
				t.Errorf("%s: status %d, want %d", path, got.StatusCode, status)
			}
			return got
		}
		// hold sends requests whose bodies do not end before they are released.
		hold := func(path, token string, n int, length int64) (release func()) {
			body, end := io.Pipe()
			for range n {
				go ask("POST", path, token, length, body)
			}
			synctest.Wait()
			return func() {
				end.Close()
				synctest.Wait()
			}
		}
		release := hold(show, "", 4, 16<<20)
		want(show, "", 503)
		want(statuses, viewerToken, 400) // it has no IDs
		release()
		want(show, "", 400)
		for _, length := range []int64{16 << 20, 1 << 40, -1} {
			release = hold(statuses, viewerToken, 16, length)
			full := want(statuses, viewerToken, 503)
			if full.Header.Get("Retry-After") == "" ||
				full.Header.Get("Content-Type") != "application/problem+json" {
				t.Error(full.Header)
			}
			if got := ask("GET", "/executions", viewerToken, 0, nil); got.StatusCode != 200 {
				t.Errorf("a request without a body: %s", got.Status)
			}
			release()
			want(statuses, viewerToken, 400)
		}
	})
}
