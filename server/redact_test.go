package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store/remote"
)

// A safeBuffer is a buffer for many goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(text)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const canary = "canary-4711"

// A field that is hidden is seen by an admin only, wherever it is. Nothing else is hidden.
//
// spec: P-10, B-18
func TestAHiddenFieldIsHiddenEverywhere(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t), Redact: []string{"card"}})
	w.token = adminToken
	secret := fmt.Sprintf(`{"Card":"%s","open":"seen-4711","deep":[{"CARD":{"n":"%[1]s"}}]}`, canary)
	id := w.start("echo", `{"id":"e-1","input":`+secret+`,"headers":{"card":"`+canary+
		`"},"attributes":{"card":"`+canary+`"}}`)
	w.want(200, "POST", api+"/executions/e-1/signal/other", secret)
	w.ended(id)
	w.start("waiting", `{"id":"w-1","input":`+secret+`}`)
	w.want(200, "POST", api+"/executions/w-1/signal/other", secret)
	w.want(200, "POST", api+"/executions/nobody-yet/signal/other", secret)
	w.ended(w.start("failing", `{"id":"f-1","input":`+secret+`}`))
	w.want(200, "PUT", api+"/schedules/s-1", `{"workflow":"echo","every":"24h","input":`+secret+
		`,"headers":{"card":"`+canary+`"}}`)
	w.want(201, "POST", api+"/batches", `{"runs":["f-1"],"order":{"action":"retry","input":`+
		secret+`}}`)
	for path, hides := range map[string]bool{
		"/executions/e-1": true, "/executions/e-1/history": true, "/executions/e-1/result": true,
		"/executions/e-1/report": false, "/executions/e-1/graph": false, "/executions": false,
		"/executions/w-1": true, "/executions/w-1/history": true, "/executions/w-1/why": false,
		"/signals/unrouted": true, "/dlq": true, "/schedules": true, "/schedules/s-1": true,
		"/batches": true, "/executions/e-1/events": true,
	} {
		for _, who := range []struct {
			token string
			sees  bool
		}{{viewerToken, false}, {operatorToken, false}, {adminToken, true}} {
			w.token = who.token
			var text string
			if strings.HasSuffix(path, "/events") {
				text = fmt.Sprint(w.follow(t.Context(), api+path, "").rest())
			} else {
				_, text = w.ask("GET", api+path, "")
			}
			if got := strings.Contains(text, canary); got != (who.sees && hides) {
				t.Errorf("%s with %s: the canary is seen: %v in %.900s", path, who.token, got,
					text)
			}
			if hides && !strings.Contains(text, "seen-4711") {
				t.Errorf("%s with %s: another field is not seen: %.500s", path, who.token, text)
			}
			if hides && strings.Contains(text, "[redacted]") == who.sees {
				t.Errorf("%s with %s: %.500s", path, who.token, text)
			}
		}
	}
	w.token = viewerToken
	status, text := w.ask("POST", api+"/statuses", `{"ids":["e-1"]}`)
	if status != 200 || strings.Contains(text, canary) {
		t.Error(text)
	}
}

// Who must not see a value does not find it by a filter either.
//
// spec: P-10, B-18
func TestAHiddenFieldIsInNoFilter(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t), Redact: []string{"card"}})
	w.token = adminToken
	w.ended(w.start("failing", `{"id":"f-1","attributes":{"Card":"4711","shop":"rome"}}`))
	const batch = `{"filter":"attr.Card=4711","order":{"action":"retry"}}`
	for token, want := range map[string]int{viewerToken: 403, operatorToken: 403, adminToken: 200} {
		w.token = token
		p := w.want(want, "GET", api+"/executions?filter=attr.Card%3D4711", "")
		if hint, _ := p["hint"].(string); want == 403 && !strings.Contains(hint, "filter") {
			t.Error(p)
		}
		w.want(want, "GET", api+"/executions?filter=attr.Card%3D1", "")
		w.want(want, "GET", api+"/executions/counts?filter=attr.Card%3D1", "")
		w.want(want, "GET", api+"/executions/errors?filter=attr.Card%3D1", "")
		w.want(want, "POST", api+"/batch-previews", batch)
		if got := itemsOf(t, w.want(200, "GET", api+"/executions?filter=attr.shop%3Drome",
			"")); len(got) != 1 {
			t.Error(got)
		}
		db, err := remote.Open(t.Context(), w.http.URL, remote.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		c, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.List(t.Context(), perdure.Query{Attributes: map[string]string{"Card": "1"}})
		if is := journal.CodeOf(err) == journal.CodeUnauthorised; is != (want == 403) {
			t.Errorf("with %s: %v", token, err)
		}
	}
	w.token = operatorToken
	w.want(403, "POST", api+"/batches", batch)
}

// A token is in no log, no act and no answer.
//
// spec: P-10, B-18
func TestATokenIsNeverTold(t *testing.T) {
	var log safeBuffer
	tokens := make(chan string, 10)
	w := open(t, setting{tokens: tokens, Options: server.Options{
		Authenticator: people(t), Address: "postgres://perdure@db/runs",
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}})
	var said strings.Builder
	ask := func(method, path, body string, headers ...string) {
		_, text := w.ask(method, path, body, headers...)
		said.WriteString(text)
	}
	w.token = operatorToken
	id := w.start("paying", "")
	token := <-tokens
	for _, path := range []string{"", "/history", "/report", "/why", "/graph"} {
		ask("GET", api+"/executions/"+id+path, "")
	}
	ask("GET", api+"/session", "")
	ask("GET", "/openapi.json", "")
	ask("GET", "/docs", "")
	for _, body := range []string{
		`{"token":"` + token + `"}`, `{"token":"` + token + `","x":1}`, `{"token":"` + token + `"`,
		`{"token":"` + token + `x"}`, `{"token":["` + token + `"]}`,
	} {
		for _, path := range []string{
			"/callbacks/show", "/callbacks/fail", "/callbacks/heartbeat", "/approval-tokens",
			"/approval-tokens/show",
		} {
			ask("POST", api+path, body)
		}
	}
	w.token = ""
	for _, secret := range []string{adminToken, adminToken + "x"} {
		for _, body := range []string{
			`{"token":"` + secret + `"}`, `{"token":"` + secret + `"`, `{"Token":"` + secret + `"}`,
		} {
			ask("POST", api+"/session", body)
		}
		ask("GET", api+"/executions", "", "Authorization", "Bearer "+secret+"x")
		ask("GET", api+"/executions", "", "Authorization", "Basic "+secret)
	}
	for _, secret := range []string{token, viewerToken, operatorToken, adminToken} {
		if strings.Contains(said.String(), secret) {
			t.Errorf("an answer has the token %s", secret)
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has the token %s: %s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "fail-callback") {
		t.Error("the log has no acts")
	}
}

// What a caller sends is one line of the log, whatever it is.
//
// spec: P-10, B-18
func TestALogLineIsOneLine(t *testing.T) {
	var log safeBuffer
	w := begin(t, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.ask("POST", api+"/executions/%20level=INFO%20msg=%22admin%20login%22/cancel", "")
	w.ask("POST", api+"/executions/a%E2%80%A8b%1b[31m/cancel", "")
	w.ask("POST", api+"/executions/a%0D%0Alevel=INFO/cancel", "")
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "msg=\"admin login\"") ||
			strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x1b\u2028") {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(log.String(), "cancel-execution") {
		t.Error("the log has no acts")
	}
}
