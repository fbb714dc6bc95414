package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store/memory"
)

const whoAmI = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who-am-i"}}`

// spec: P-10, B-18
func TestWithoutCredentialsOnlyThisMachineIsAnswered(t *testing.T) {
	w := &world{t: t}
	w.serve(memory.New(), server.Options{Hosts: []string{"perdure.example"}})
	for _, c := range []struct {
		status  int
		from    string
		headers []string
	}{
		{200, "127.0.0.1:1", nil},
		{200, "[::1]:1", []string{"Host", "perdure.example:7433"}},
		{200, "127.0.0.1:1", []string{"Sec-Fetch-Site", "same-origin"}},
		{403, "192.0.2.1:1", nil},
		{403, "192.0.2.1:1", []string{"X-Forwarded-For", "127.0.0.1"}},
		{421, "127.0.0.1:1", []string{"Host", "evil.example"}},
		{403, "127.0.0.1:1", []string{"Sec-Fetch-Site", "cross-site"}},
		{403, "127.0.0.1:1", []string{"Origin", "https://evil.example"}},
		{415, "127.0.0.1:1", []string{"Content-Type", "text/plain"}},
	} {
		r := messageFrom(c.from, whoAmI, append([]string{"Host", "localhost"}, c.headers...)...)
		seen := httptest.NewRecorder()
		if w.server.ServeHTTP(seen, r); seen.Code != c.status {
			t.Errorf("%+v: %d %s", c, seen.Code, seen.Body)
		}
	}
}

// spec: P-10
func TestARequestHasOneMessage(t *testing.T) {
	w := begin(t)
	status, text := w.post("[" + whoAmI + "," + strings.Replace(whoAmI, "1", "2", 1) + "]")
	if status != http.StatusOK || strings.Count(text, `"result"`) != 1 ||
		!strings.Contains(text, "one message") {
		t.Errorf("%d %s", status, text)
	}
}

// spec: P-10
func TestOnlyMessagesAreSentToAgentsAddress(t *testing.T) {
	w := begin(t)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := httptest.NewRequest(method, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+w.tokens[auth.Viewer])
		seen := httptest.NewRecorder()
		if w.server.ServeHTTP(seen, r); seen.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, seen.Code)
		}
	}
	without, err := server.New(w.engine, memory.New(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := httptest.NewRecorder()
	without.ServeHTTP(seen, messageFrom("127.0.0.1:1", whoAmI, "Host", "localhost"))
	if seen.Code != http.StatusNotFound {
		t.Errorf("a server without agents answers %d", seen.Code)
	}
}

// A connection has a limit for the arrival of a request.
type connection struct {
	*httptest.ResponseRecorder
	limits []time.Time
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.limits = append(c.limits, t)
	return nil
}

// spec: P-10
func TestTheTimeForAnArrivalDoesNotBoundTheAnswer(t *testing.T) {
	w := &world{t: t}
	w.serve(memory.New(), server.Options{})
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	w.server.ServeHTTP(c, messageFrom("127.0.0.1:1", whoAmI, "Host", "localhost"))
	if c.Code != http.StatusOK || len(c.limits) == 0 ||
		!c.limits[len(c.limits)-1].IsZero() {
		t.Errorf("%d, with the limits %v", c.Code, c.limits)
	}
}
