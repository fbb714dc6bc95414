package server_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/server"
)

// Each request that may change something leaves one act, also if it fails or the role of its caller
// is not enough. A request without a valid credential leaves none: nobody is known to have sent
// it, and strangers must not fill the record. A failed login leaves one. A read leaves none.
//
// spec: P-10, B-18
func TestEachChangeLeavesAnAct(t *testing.T) {
	var mu sync.Mutex
	var acts []server.Act
	w := begin(t, server.Options{Authenticator: people(t), Audit: func(a server.Act) {
		mu.Lock()
		defer mu.Unlock()
		acts = append(acts, a)
	}})
	for _, c := range []struct {
		token, method, path, body string
		status                    int
		by, action                string // empty for none
	}{
		{operatorToken, "POST", "/workflows/waiting/start", `{"id":"w-1"}`, 201, "oskar",
			"start-execution"},
		{operatorToken, "POST", "/workflows/waiting/start", `{"id":"w-1"}`, 200, "oskar",
			"start-execution"},
		{viewerToken, "POST", "/workflows/waiting/start", "{}", 403, "vera", "start-execution"},
		{operatorToken, "POST", "/workflows/waiting/start", "{", 400, "oskar", "start-execution"},
		{operatorToken, "POST", "/keys/rotate", "", 403, "oskar", "rotate-key"},
		{adminToken, "POST", "/keys/rotate", "", 200, "ada", "rotate-key"},
		{operatorToken, "POST", "/workflows/instances/w-1/cancel", `{"reason":"x"}`, 200, "oskar",
			"cancel-execution"},
		{operatorToken, "POST", "/executions/nobody/cancel", "", 404, "oskar", "cancel-execution"},
		{operatorToken, "DELETE", "/dlq/nothing", "", 404, "oskar", "delete-dead-letter"},
		{"", "POST", "/session", `{"token":"` + adminToken + `"}`, 200, "ada", "begin-session"},
		{"", "POST", "/session", `{"token":"guess"}`, 401, "", "begin-session"},
		{"", "POST", "/callbacks/succeed", `{"token":"x"}`, 401, "", "succeed-callback"},
		{"", "POST", "/workflows/waiting/start", "{}", 401, "", ""},
		{"guess", "POST", "/workflows/waiting/start", "{}", 401, "", ""},
		{operatorToken, "POST", "/nothing", "{}", 404, "", ""},
		{operatorToken, "PUT", "/executions", "{}", 405, "", ""},
		{viewerToken, "GET", "/executions", "", 200, "", ""},
		{viewerToken, "POST", "/statuses", `{"ids":["w-1"]}`, 200, "", ""},
		{viewerToken, "POST", "/executions/w-1/fork/preview", `{"step":"x"}`, 404, "", ""},
		{"", "POST", "/callbacks/show", `{"token":"x"}`, 401, "", ""},
		{"", "POST", "/approval-tokens/show", `{"token":"x"}`, 401, "", ""},
	} {
		mu.Lock()
		acts = nil
		mu.Unlock()
		w.token = c.token
		w.want(c.status, c.method, api+c.path, c.body)
		mu.Lock()
		switch {
		case c.action == "":
			if len(acts) != 0 {
				t.Errorf("%s %s left %+v", c.method, c.path, acts)
			}
		case len(acts) != 1:
			t.Errorf("%s %s left %d acts", c.method, c.path, len(acts))
		case acts[0].Action != c.action || acts[0].By != c.by || acts[0].Status != c.status ||
			acts[0].From != "127.0.0.1" || acts[0].At.IsZero() ||
			!strings.HasPrefix(acts[0].Path, api):
			t.Errorf("%s %s left %+v", c.method, c.path, acts[0])
		}
		mu.Unlock()
	}
}

// An answerLog is an answer that records what comes first.
type answerLog struct {
	*httptest.ResponseRecorder
	order []string
}

// WriteHeader implements http.ResponseWriter.
func (a *answerLog) WriteHeader(code int) {
	a.order = append(a.order, "answer")
	a.ResponseRecorder.WriteHeader(code)
}

// Nobody hears of an action before the audit has.
//
// spec: P-10, B-18
func TestTheAuditHearsOfAnActionFirst(t *testing.T) {
	var answer *answerLog
	w := begin(t, server.Options{Authenticator: people(t), Audit: func(a server.Act) {
		answer.order = append(answer.order, fmt.Sprint("act ", a.Status))
	}})
	for _, c := range []struct {
		token, method, path, body string
		status                    int
	}{
		{operatorToken, "POST", "/workflows/waiting/start", `{"id":"w-1"}`, 201},
		{viewerToken, "POST", "/workflows/waiting/start", "{}", 403},
		{operatorToken, "POST", "/workflows/waiting/start", "{", 400},
		{operatorToken, "DELETE", "/dlq/nothing", "", 404},
		{"", "POST", "/session", `{"token":"` + adminToken + `"}`, 200},
		{"", "POST", "/session", `{"token":"guess"}`, 401},
		{operatorToken, "DELETE", "/session", "", 204},
	} {
		r := httptest.NewRequest(c.method, api+c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer = &answerLog{ResponseRecorder: httptest.NewRecorder()}
		w.server.ServeHTTP(answer, r)
		got, want := strings.Join(answer.order, ", "), fmt.Sprintf("act %d, answer", c.status)
		if got != want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, want)
		}
	}
}
