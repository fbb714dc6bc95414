package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/saga"
)

// A served is a command that serves the API, in this process.
type served struct {
	t     *testing.T
	url   string
	token string
	stop  func() result
}

// serveAPI runs a command with these workflows until the API is there.
func serveAPI(t *testing.T, workflows []perdure.Definition, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, stdout := io.Pipe()
	log, stderr := io.Pipe()
	code := make(chan int, 1)
	var text bytes.Buffer
	go func() {
		code <- run(ctx, "perdure", args, strings.NewReader(""), stdout, stderr, workflows...)
		_, _ = stdout.Close(), stderr.Close()
	}()
	urls, ended := make(chan string, 2), make(chan struct{})
	go func() {
		first := bufio.NewScanner(out)
		for first.Scan() {
			urls <- first.Text()
		}
	}()
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if _, url, ok := strings.Cut(lines.Text(), "the API is at "); ok {
				url, _, _ = strings.Cut(url, ": ")
				urls <- url
			}
		}
		urls <- "" // it did not begin
	}()
	s := &served{t: t, url: <-urls}
	stopped := false
	s.stop = func() result {
		cancel()
		if stopped {
			return result{}
		}
		stopped = true
		<-ended
		return result{<-code, "", text.String()}
	}
	t.Cleanup(func() { s.stop() })
	if s.url == "" {
		t.Fatal(s.stop())
	}
	return s
}

// ask sends a request, and returns the status and the body.
func (s *served) ask(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (s *served) want(status int, method, path, body string, headers ...string) string {
	s.t.Helper()
	got, text := s.ask(method, path, body, headers...)
	if got != status {
		s.t.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, text)
	}
	return text
}

const (
	apiBase = "/api/orchestration"
	whoAmI  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who-am-i"}}`
)

// spec: P-10, P-11, P-9, B-16
func TestDevHasWorkflowsOfEveryPatternAndTheAPI(t *testing.T) {
	t.Chdir(t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	t.Setenv(child, bare)
	s := serveAPI(t, nil, "dev", "--addr", taken.Addr().String())
	if s.url == "http://"+taken.Addr().String() || !strings.HasPrefix(s.url, "http://127.0.0.1:") {
		t.Errorf("the first line is %q", s.url)
	}
	if _, err := os.Stat(filepath.Join("perdure-dev", "perdure.db")); err != nil {
		t.Error(err)
	}
	for status := 0; status != 200; { // the engine begins beside the API
		status, _ = s.ask("GET", "/readyz", "")
	}
	for _, path := range []string{
		"/healthz", "/readyz", "/openapi.json", "/docs", apiBase + "/workflows",
		apiBase + "/workflows/order/topology", apiBase + "/workflows/instances",
		apiBase + "/executions", apiBase + "/dlq", apiBase + "/dlq/count", apiBase + "/schedules",
		apiBase + "/approvals", apiBase + "/doctor", apiBase + "/metrics",
		apiBase + "/metrics/SAGA",
	} {
		s.want(200, "GET", path, "")
	}
	s.want(404, "GET", apiBase+"/executions/nobody", "")
	s.want(404, "GET", apiBase+"/metrics/OPERA", "")
	s.want(404, "POST", "/mcp", whoAmI) // it is switched off
	s.want(421, "GET", "/healthz", "", "Host", "evil.example")

	for name, c := range map[string]struct{ input, status string }{
		"greet":    {`"ada"`, "COMPLETED"},
		"report":   {`{"date":"2026-11-28"}`, "COMPLETED"},
		"order":    {`{"id":"1","country":"XX"}`, "FAILED"},
		"transfer": {`{"from":"a","to":"b","cents":5}`, "CONFIRMED"},
	} {
		text := s.want(201, "POST", apiBase+"/workflows/"+name+"/start?wait=1m",
			`{"input":`+c.input+`}`)
		var out struct{ Status string }
		if err := json.Unmarshal([]byte(text), &out); err != nil || out.Status != c.status {
			t.Errorf("%s ended as %s: %v", name, text, err)
		}
	}
	s.want(201, "POST", apiBase+"/workflows/expense/start", `{"id":"e-1","input":{"cents":1}}`)
	s.want(201, "POST", apiBase+"/workflows/ticket/start", `{"id":"t-1","input":{"text":"?"}}`)
	s.want(200, "POST", apiBase+"/executions/e-1/signal/hurry", "")
	s.want(200, "POST", apiBase+"/approvals/e-1/manager",
		`{"approved":true,"role":"manager","data":{"account":"travel"}}`)
	s.want(200, "GET", apiBase+"/executions/e-1/result?wait=1m", "")
	s.want(200, "POST", apiBase+"/workflows/instances/t-1/signal/answer", `"yes"`)
	s.want(200, "GET", apiBase+"/executions/t-1/result?wait=1m", "")

	first := s.want(201, "POST", apiBase+"/workflows/greet/start", `{"input":"x"}`,
		"Idempotency-Key", "k-1")
	second := s.want(200, "POST", apiBase+"/workflows/greet/start", `{"input":"x"}`,
		"Idempotency-Key", "k-1")
	if strings.ReplaceAll(first, `"new":true`, `"new":false`) != second {
		t.Errorf("one key, two runs: %s and %s", first, second)
	}
	s.want(409, "POST", apiBase+"/workflows/greet/start", `{"input":"y"}`, "Idempotency-Key", "k-1")
	if r := s.stop(); r.code != exitOK {
		t.Error(r)
	}
}

// spec: B-18, P-13
func TestServeIsSafeByDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	hint := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), "perdure", args, strings.NewReader(""), &stdout, &stderr,
			scripted.Workflows...)
		result{code, stdout.String(), stderr.String()}.refused(t, exitUsage, "")
		return stderr.String()
	}
	if text := hint("serve", "--addr", "0.0.0.0:17434"); !strings.Contains(text, "tokens new") {
		t.Error(text)
	}
	if err := os.WriteFile("c.yaml", []byte("engine: {capacty: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := hint("serve", "--config", "c.yaml"); !strings.Contains(text, "engine.capacity") {
		t.Error(text)
	}
	if _, err := os.Stat("perdure.db"); err == nil {
		t.Error("a server that did not begin has made a database")
	}
}

// spec: B-18, P-13
func TestServeTakesCredentialsFromItsConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	made := perdureCommand(t, "tokens", "new", "ada", "--role", "operator")
	_, line, ok := strings.Cut(strings.TrimSpace(made.stderr), "add to auth.tokens: ")
	if made.code != exitOK || !ok {
		t.Fatal(made)
	}
	conf := "listen: {address: '127.0.0.1:0', prefix: /ops}\nauth.tokens: ['" + line + "']\n" +
		"audit.file: audit.jsonl\nswitches.mcp: true\n"
	if err := os.WriteFile("c.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := perdureCommand(t, "serve", "--config", "c.yaml", "--print-config", "--capacity", "5")
	for _, want := range []string{"c.yaml:1", "127.0.0.1:0", "--capacity", "PERDURE_ENGINE_DRAIN"} {
		if shown.code != exitOK || !strings.Contains(shown.stdout, want) {
			t.Errorf("%q is not in %s", want, shown.stdout)
		}
	}
	s := serveAPI(t, scripted.Workflows, "serve", "--config", "c.yaml")
	s.want(200, "GET", "/healthz", "")
	s.want(401, "GET", apiBase+"/executions", "")
	s.token = strings.TrimSpace(made.stdout)
	s.want(200, "GET", apiBase+"/executions", "")
	me := s.want(200, "POST", "/mcp", whoAmI, "Accept", "*/*")
	if !strings.Contains(me, "ada") {
		t.Error(me)
	}
	s.want(201, "POST", apiBase+"/workflows/greet/start", `{"id":"a-1","input":"x"}`)
	s.want(403, "GET", apiBase+"/keys", "")
	s.want(409, "POST", apiBase+"/executions/a-1/resume", `{"reason":"mine"}`)
	r := s.stop()
	if r.code != exitOK || strings.Contains(r.stderr, s.token) {
		t.Error(r)
	}
	audit, err := os.ReadFile("audit.jsonl")
	for _, want := range []string{`"by":"ada"`, `"action":"start-execution"`, `"status":409`} {
		if err != nil || !strings.Contains(string(audit), want) {
			t.Errorf("%q is not in the audit: %s", want, fmt.Sprint(string(audit), err))
		}
	}
	if strings.Contains(string(audit), s.token) {
		t.Error("the audit has the token")
	}
}

// What a server with keys has written is read with the same keys, at the server and in the file,
// and not without them.
//
// spec: B-18, B-19
func TestServeEncryptsAndTheCommandLineReads(t *testing.T) {
	t.Chdir(t.TempDir())
	made := perdureCommand(t, "tokens", "new", "ada", "--role", "operator")
	_, line, _ := strings.Cut(strings.TrimSpace(made.stderr), "add to auth.tokens: ")
	key, err := codec.MakeKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("keys", []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := "listen.address: 127.0.0.1:0\nauth.tokens: ['" + line + "']\n" +
		"encryption.keys: file:keys\nredact: [card]\n"
	if err := os.WriteFile("c.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	failing := perdure.Define("failing", func(ctx context.Context, _ json.RawMessage) (int, error) {
		return perdure.Step(ctx, "charge", func(context.Context) (int, error) {
			return 0, perdure.Permanent(errors.New("no"))
		})
	})
	s := serveAPI(t, append(slices.Clip(scripted.Workflows), failing), "serve", "--config",
		"c.yaml")
	s.token = strings.TrimSpace(made.stdout)
	s.want(201, "POST", apiBase+"/workflows/greet/start?wait=1m", `{"id":"a-1","input":"canary"}`)
	s.want(201, "POST", apiBase+"/workflows/failing/start?wait=1m",
		`{"id":"f-1","input":{"card":"4711","n":1}}`)
	if text := s.want(200, "GET", apiBase+"/executions/f-1", ""); strings.Contains(text, "4711") {
		t.Error("the API shows what is to be hidden: ", text)
	}
	t.Setenv("PERDURE_TOKEN", s.token)
	if r := perdureCommand(t, "runs", "history", "a-1", "--store", s.url); r.code != exitOK ||
		!strings.Contains(r.stdout, "canary") {
		t.Error(r)
	}
	if r := perdureCommand(t, "runs", "history", "f-1", "--store", s.url); r.code != exitOK ||
		strings.Contains(r.stdout, "4711") || !strings.Contains(r.stdout, "[redacted]") {
		t.Error(r)
	}
	// The command line would write the hidden field as it has read it.
	if r := perdureCommand(t, "runs", "retry", "f-1", "--store", s.url); r.code == exitOK ||
		!strings.Contains(r.stderr, "hidden") {
		t.Error(r)
	}
	s.want(200, "POST", apiBase+"/executions/f-1/retry", `{"reason":"again"}`)
	if r := s.stop(); r.code != exitOK {
		t.Error(r)
	}
	t.Setenv("PERDURE_TOKEN", "")
	if r := perdureCommand(t, "runs", "history", "a-1"); strings.Contains(r.stdout, "canary") {
		t.Error("it is in the clear: ", r)
	}
	t.Setenv("PERDURE_ENCRYPTION_KEYS", "file:keys")
	if r := perdureCommand(t, "runs", "history", "a-1"); r.code != exitOK ||
		!strings.Contains(r.stdout, "canary") {
		t.Error(r)
	}
	if r := perdureCommand(t, "runs", "history", "f-1"); !strings.Contains(r.stdout, "4711") {
		t.Error("a retry over the API has lost a hidden field: ", r)
	}
}

// Commands read the store and the keys of its payloads from the file of the configuration, which
// the variable or the flag names. The variables and flags go before the file.
//
// spec: P-13, B-19
func TestCommandsReadTheFileOfTheConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	key := "a:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	conf := "store: sqlite:shop.db\nencryption.keys: '" + key + "'\n" +
		"listen.address: '127.0.0.1:0'\n"
	if err := os.WriteFile("c.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveAPI(t, scripted.Workflows, "serve", "--config", "c.yaml")
	s.want(201, "POST", apiBase+"/workflows/greet/start?wait=1m", `{"id":"a-1","input":"ada"}`)
	s.stop()
	conf += "alerts.smtp: file:/nowhere\n" // a secret that only the server may read
	if err := os.WriteFile("c.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	reads := func(args ...string) result {
		return perdureCommand(t, append([]string{"runs", "history", "a-1"}, args...)...)
	}
	if r := reads("--config", "c.yaml"); r.code != exitOK || !strings.Contains(r.stdout, "ada") {
		t.Errorf("with --config: %+v", r)
	}
	if r := reads(); r.code == exitOK {
		t.Errorf("without the file: %+v", r)
	}
	if r := reads("--store", "shop.db"); r.code == exitOK && strings.Contains(r.stdout, "ada") {
		t.Errorf("without the keys: %+v", r)
	}
	t.Setenv("PERDURE_CONFIG", "c.yaml")
	if r := reads(); r.code != exitOK || !strings.Contains(r.stdout, "ada") {
		t.Errorf("with PERDURE_CONFIG: %+v", r)
	}
	if r := reads("--store", "other.db"); r.code == exitOK {
		t.Errorf("--store does not go before the file: %+v", r)
	}
	if err := os.WriteFile("c.yaml", []byte("stor: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reads().refused(t, exitUsage, "c.yaml:1: there is no key stor")
}

// The application gets what the configuration says of orchestrators. A program that does not ask
// for it is not served with it.
//
// spec: P-13
func TestTheApplicationGetsTheKeysOfOrchestrators(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PERDURE_ORCHESTRATORS_REDIS", "redis://127.0.0.1:18199")
	t.Setenv("PERDURE_ORCHESTRATORS_TTL", "1h")
	serve := func(use func(context.Context, Orchestrators) error) result {
		var stdout, stderr bytes.Buffer
		code := runApplication(t.Context(), "perdure", []string{"serve", "--addr", "off"},
			strings.NewReader(""), &stdout, &stderr,
			Application{Workflows: scripted.Workflows, Orchestrators: use})
		return result{code, stdout.String(), stderr.String()}
	}
	serve(nil).refused(t, exitUsage, "orchestrators.redis is set")
	var got Orchestrators
	r := serve(func(_ context.Context, in Orchestrators) error {
		got = in
		return errors.New("that is enough")
	})
	want := Orchestrators{"redis://127.0.0.1:18199", "orchestration:", time.Hour}
	if r.code == exitOK || !strings.Contains(r.stderr, "that is enough") || got != want {
		t.Errorf("%+v, %+v, want %+v", r, got, want)
	}
	if _, err := os.Stat("perdure.db"); err == nil {
		t.Error("a server that did not begin has made a database")
	}
}

// spec: P-13
func TestServeWithoutThePatternOfItsWorkflowsDoesNotBegin(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PERDURE_PATTERNS_OFF", "workflow")
	r := perdureCommandOf(t, scripted.Workflows, "serve", "--addr", "off")
	r.refused(t, exitUsage, "pattern WORKFLOW is switched off")
	order := saga.New[int]("only")
	saga.Add(order, "a", func(context.Context, int) (int, error) { return 1, nil })
	s := serveAPI(t, []perdure.Definition{order}, "serve", "--addr", "127.0.0.1:0")
	s.want(201, "POST", apiBase+"/workflows/only/start?wait=1m", `{"input":1}`)
	s.want(200, "GET", apiBase+"/schedules", "")
}

// Traces are on where the environment names a collector, unless they are switched off. A protocol
// that is not supported shows which of the two it is.
//
// spec: P-13
func TestTracesAreOnWhereThereIsACollector(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_EXPORTER",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
	serves := func() {
		t.Helper()
		r := serveAPI(t, scripted.Workflows, "serve", "--addr", "127.0.0.1:0").stop()
		if r.code != exitOK {
			t.Error(r)
		}
	}
	serves()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:18198")
	r := perdureCommandOf(t, scripted.Workflows, "serve", "--addr", "127.0.0.1:0")
	r.refused(t, exitUsage, `the protocol "grpc" is not supported`)
	t.Setenv("PERDURE_TRACES", "false")
	serves()
}
