package server_test

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store/memory"
)

// roles has the role that each operation needs. A new operation needs a line here.
var roles = map[auth.Role]string{
	auth.Public: "live ready begin-session end-session decide-by-token show-token " +
		"succeed-callback " +
		"fail-callback heartbeat-callback show-callback",
	auth.Viewer: "who-am-i openapi docs metrics list-workflows get-workflow get-topology " +
		"get-versions list-executions get-execution get-why get-history get-report get-graph " +
		"list-timers get-result get-statuses preview-retry preview-skip preview-fork " +
		"preview-compensate list-unrouted list-dead-letters count-dead-letters get-dead-letter " +
		"list-schedules get-schedule list-schedule-times preview-schedule preview-backfill " +
		"list-approvals list-limit-runs count-events " +
		"list-batches get-batch preview-batch list-limits list-pauses list-alerts doctor " +
		"list-workers get-database list-parked get-metrics get-pattern-metrics " +
		"count-executions list-errors list-dead-letter-errors " +
		"list-orchestrators list-registrations list-loops follow-execution follow-events " +
		"list-logs read-stream follow-stream store",
	auth.Operator: "start-execution start-executions send-signals signal-execution " +
		"cancel-execution suspend-execution resume-execution terminate-execution " +
		"retry-execution skip-execution fork-execution compensate-execution decide-execution " +
		"cancel-timer deliver-unrouted delete-dead-letter retry-dead-letter handle-dead-letter " +
		"set-schedule pause-schedule resume-schedule delete-schedule run-schedule " +
		"backfill-schedule decide-approval start-batch stop-batch set-limit reset-limit " +
		"pause-workflow resume-workflow set-alert reset-alert test-alert kill-process start-loop",
	auth.Admin: "list-keys rotate-key revoke-key list-acts get-configuration",
}

// reading are the operations that change nothing, although they are not a GET. The store reports by
// itself what it has written, and asks for more than the role of a viewer where it writes.
const reading = "preview-retry preview-skip preview-fork preview-compensate preview-backfill " +
	"preview-batch preview-schedule get-statuses show-callback show-token store"

// closed begins a server without an engine that runs, and without a connection: its routes are
// called directly.
func closed(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	db := memory.New()
	t.Cleanup(func() { db.Close() })
	c, err := perdure.NewClient(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(c, db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spec: P-10, B-18
func TestEachRouteHasItsRole(t *testing.T) {
	s := closed(t, server.Options{
		Authenticator: people(t), Feed: &server.Feed{}, Metrics: http.NotFoundHandler(),
		Kill: func() {},
	})
	left := map[string]auth.Role{}
	for role, names := range roles {
		for _, name := range strings.Fields(names) {
			left[name] = role
		}
	}
	for pattern, r := range s.Routes() {
		need, known := left[r.Name]
		if !known || need != r.Need {
			t.Errorf("%s (%s) needs the role %v; the table has %v, %v", pattern, r.Name, r.Need,
				need, known)
		}
		delete(left, r.Name)
		changes := !strings.HasPrefix(pattern, "GET ") &&
			!slices.Contains(strings.Fields(reading), r.Name)
		if changes != r.Audited {
			t.Errorf("%s: audited is %v, want %v", pattern, r.Audited, changes)
		}
		if changes && need == auth.Viewer {
			t.Errorf("%s changes something, and a viewer may do it", pattern)
		}
	}
	for name := range left {
		t.Errorf("there is no operation %s", name)
	}
}

// A credential is a way to sign a request, with its role.
type credential struct {
	name  string
	role  auth.Role
	valid bool
	show  func(r *http.Request)
}

func header(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", value) }
}

// credentialsOf returns all kinds of credentials, with a session of each role.
func credentialsOf(t *testing.T, tokens *auth.Tokens) []credential {
	all := []credential{
		{"none", auth.Public, false, func(*http.Request) {}},
		{"of another kind", auth.Public, false, header("Basic YWRhOmFkYQ==")},
		{"without a token", auth.Public, false, header("Bearer ")},
		{"in another form", auth.Public, false, header("Bearer  " + adminToken)},
		{"unknown", auth.Public, false, header("Bearer pdr_nobody")},
		{"two", auth.Public, false, func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + adminToken, "Bearer " + adminToken}
		}},
		{"too long", auth.Public, false, header("Bearer " + strings.Repeat("a", 1000))},
		{"an unknown session", auth.Public, false, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: auth.CookieName, Value: "nobody"})
		}},
		{"a token as a session", auth.Public, false, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: auth.CookieName, Value: adminToken})
		}},
	}
	for role, token := range map[auth.Role]string{
		auth.Viewer: viewerToken, auth.Operator: operatorToken, auth.Admin: adminToken,
	} {
		cookie, _, err := tokens.Login(token, false)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, credential{role.String(), role, true, header("Bearer " + token)},
			credential{"session of " + role.String(), role, true, func(r *http.Request) {
				r.AddCookie(cookie)
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			}})
	}
	return all
}

// request returns a request for a pattern, with something for each part of its path.
func request(pattern string) *http.Request {
	method, path, _ := strings.Cut(pattern, " ")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		switch {
		case part == "{number}":
			parts[i] = "1"
		case strings.HasPrefix(part, "{"):
			parts[i] = "x"
		}
	}
	r := httptest.NewRequest(method, strings.Join(parts, "/"), nil)
	r.RemoteAddr = "192.0.2.1:4711"
	return r
}

// spec: P-10, B-18
func TestARouteIsOpenToThoseWithItsRole(t *testing.T) {
	tokens := people(t)
	s := closed(t, server.Options{
		Authenticator: tokens, Metrics: http.NotFoundHandler(), Hosts: []string{"example.com"},
		Kill: func() {},
	})
	all := credentialsOf(t, tokens)
	for _, pattern := range slices.Sorted(maps.Keys(s.Routes())) {
		r := s.Routes()[pattern]
		if r.Name == "end-session" {
			continue // it ends the sessions of this table
		}
		for _, c := range all {
			want := 0 // what the handler says
			switch {
			case r.Need == auth.Public:
			case !c.valid:
				want = http.StatusUnauthorized
			case c.role < r.Need:
				want = http.StatusForbidden
			}
			req := request(pattern)
			c.show(req)
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, req)
			got := answer.Code
			refused := got == http.StatusUnauthorized || got == http.StatusForbidden
			// after too many failures, 429 stands for 401
			if got == http.StatusTooManyRequests && want == http.StatusUnauthorized {
				continue
			}
			if want != 0 && got != want || want == 0 && (refused || got >= 500) {
				t.Errorf("%s with %s: status %d, want %d (0: not refused): %s", pattern, c.name,
					got, want, answer.Body)
			}
		}
	}
}

// What is no route tells nobody that it is none.
//
// spec: P-10
func TestAnAddressThatIsNoneNeedsACredential(t *testing.T) {
	s := closed(t, server.Options{Authenticator: people(t)})
	for _, path := range []string{
		"/", "/nothing", "/debug/pprof/", "/metrics", "/.env", server.Base,
		server.Base + "/nothing", server.Base + "/executions/x/y/z",
	} {
		for token, want := range map[string]int{"": 401, viewerToken: 404} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if token != "" {
				header("Bearer " + token)(r)
			}
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			if answer.Code != want {
				t.Errorf("%s with %q: status %d, want %d", path, token, answer.Code, want)
			}
		}
	}
}

// spec: P-10, B-18
func TestWithoutCredentialsOnlyTheSameMachineIsServed(t *testing.T) {
	s := closed(t, server.Options{})
	for _, peer := range []struct {
		addr, host string
		want       int
	}{
		{"127.0.0.1:1", "localhost:8080", 200},
		{"127.9.9.9:1", "127.0.0.1", 200},
		{"[::1]:1", "[::1]:80", 200},
		{"[::ffff:127.0.0.1]:1", "localhost.", 200},
		{"192.0.2.1:1", "localhost", 403},
		{"10.0.0.1:1", "127.0.0.1", 403},
		{"[fe80::1%lo]:1", "localhost", 403},
		{"0.0.0.0:1", "localhost", 403},
		{"", "localhost", 403},
		{"@", "localhost", 403},
		{"127.0.0.1:1", "attacker.example", 421},
		{"127.0.0.1:1", "localhost.attacker.example", 421},
		{"127.0.0.1:1", "127.0.0.1.nip.io", 421},
		{"127.0.0.1:1", "", 421},
	} {
		for _, header := range []string{"", "X-Forwarded-For", "X-Real-Ip", "Forwarded"} {
			r := httptest.NewRequest(http.MethodGet, server.Base+"/executions", nil)
			r.RemoteAddr, r.Host = peer.addr, peer.host
			switch header {
			case "":
			case "Forwarded":
				r.Header.Set(header, "for=127.0.0.1;host=localhost")
			default:
				r.Header.Set(header, "127.0.0.1")
				r.Header.Set("X-Forwarded-Host", "localhost")
			}
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			if answer.Code != peer.want {
				text, _ := io.ReadAll(answer.Body)
				t.Errorf("%+v with %s: status %d: %s", peer, header, answer.Code, text)
			}
		}
	}
}
