package mcp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/mcp"
	"github.com/perdure/perdure/store"
)

// spec: P-10
func TestAnAgentPagesThroughRuns(t *testing.T) {
	w := begin(t)
	for i := range 25 {
		if _, err := greet.Start(t.Context(), w.engine, "ada",
			perdure.ID(fmt.Sprint("g-", i))); err != nil {
			t.Fatal(err)
		}
	}
	a := w.as(auth.Viewer)
	page := a.want("list-executions", nil)
	if items := page["items"].([]any); len(items) != 20 {
		t.Errorf("a page has %d runs", len(items))
	}
	rest := a.want("list-executions", args{"cursor": page["next"]})
	if items := rest["items"].([]any); len(items) != 5 || rest["next"] != nil {
		t.Errorf("the last page has %d runs, and the next is %v", len(items), rest["next"])
	}
	some := a.want("list-executions", args{
		"workflow": []string{"greet", "pay"}, "limit": 3, "open": false,
	})
	if items := some["items"].([]any); len(items) != 3 {
		t.Errorf("with limit 3 it has %d runs", len(items))
	}
}

// spec: P-10
func TestAnOperatorsAgentStartsARunAndAViewersDoesNot(t *testing.T) {
	w := begin(t)
	start := args{
		"name": "greet", "wait": "1m", "body": args{"input": "ada"}, "Idempotency-Key": "k-1",
	}
	p := w.as(auth.Viewer).refused("start-execution", start)
	if p.Code != "forbidden" || p.Hint == "" || p.Status != http.StatusForbidden {
		t.Errorf("a viewer gets %+v", p)
	}
	operator := w.as(auth.Operator)
	if list := operator.want("list-executions", nil)["items"].([]any); len(list) != 0 {
		t.Errorf("a viewer has started %v", list)
	}
	if out := operator.want("start-execution", start); out["output"] != "Hello, ada" ||
		out["new"] != true || out["workflow_id"] != "k-1" {
		t.Error(out)
	}
	if out := operator.want("start-execution", start); out["new"] != false {
		t.Errorf("the same key starts another run: %v", out)
	}
	// A header of the message is none of the operation.
	if status, text := w.post(strings.Replace(whoAmI, `"who-am-i"`, `"start-execution","arguments":`+
		`{"name":"greet"}`, 1), "Authorization", "Bearer "+w.tokens[auth.Operator],
		"Idempotency-Key", "outer"); status != http.StatusOK || strings.Contains(text, "outer") ||
		!strings.Contains(text, "run_id") {
		t.Errorf("%d %s", status, text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.acts) != 4 || w.acts[0].Status != http.StatusForbidden ||
		w.acts[1].By != "an operator" || w.acts[1].From != "127.0.0.1" ||
		w.acts[1].Action != "start-execution" || w.acts[1].Status != http.StatusCreated {
		t.Errorf("the audit has %+v", w.acts)
	}
}

// spec: P-10, B-18
func TestAnAgentSeesWhatItsRoleMaySee(t *testing.T) {
	w := begin(t)
	if _, err := pay.Start(t.Context(), w.engine, map[string]string{"card": "4711", "to": "bob"},
		perdure.ID("p-1")); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[auth.Role]string{
		auth.Viewer: "[redacted]", auth.Operator: "[redacted]", auth.Admin: "4711",
	} {
		texts, _ := w.as(role).texts("get-history", args{"id": "p-1"})
		if text := strings.Join(texts, ""); !strings.Contains(text, want) ||
			!strings.Contains(text, "bob") || strings.Contains(text, "4711") != (want == "4711") {
			t.Errorf("the role %s sees %s", role, text)
		}
	}
}

// spec: P-10
func TestProblemsAreResultsWithACode(t *testing.T) {
	w := begin(t)
	a := w.as(auth.Operator)
	for _, c := range []struct {
		tool string
		in   args
		code string
		says string
	}{
		{"get-execution", args{"id": "nobody"}, "not_found", ""},
		{"get-execution", args{"id": ".."}, "not_found", ".."},
		{"get-execution", args{"id": "../doctor"}, "not_found", "../doctor"},
		{"get-execution", args{"id": "a?b=c#d{id}%2f"}, "not_found", "a?b=c#d{id}%2f"},
		{"get-execution", nil, "invalid", "id is missing"},
		{"get-execution", args{"id": ""}, "invalid", "id is missing"},
		{"get-execution", args{"id": args{"run": 1}}, "invalid", "id is not valid"},
		{"get-execution", args{"id": "a\nb"}, "invalid", "control characters"},
		{"get-execution", args{"id": "x", "limit": 1}, "invalid", "no argument limit"},
		{"get-execution", args{"id": "x", "body": args{}}, "invalid", "no argument body"},
		{"get-execution", args{"id": "x", "skip": -1}, "invalid", "skip is not valid"},
		{"start-execution", args{"name": "greet", "skip": 1}, "invalid", "no argument skip"},
		{"start-execution", args{"name": "greet", "Idempotency-Key": "a\nb"}, "invalid", "control"},
		{"start-execution", args{"name": "greet", "body": args{"inptu": 1}}, "invalid", ""},
		{"set-limit", args{"name": "x"}, "invalid", ""},
		{"list-executions", args{"limit": "many"}, "invalid", ""},
		{"list-executions", args{"limit": []int{1, 2}}, "invalid", "twice"},
	} {
		if p := a.refused(c.tool, c.in); p.Code != c.code || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s %v: %+v", c.tool, c.in, p)
		}
	}
	if p := a.refused("get-result", args{"id": "nobody", "wait": "soon"}); p.Code != "invalid" ||
		p.Detail == "" {
		t.Errorf("%+v", p)
	}
	if p := a.refused("rotate-key", nil); p.Code != "forbidden" || p.Hint == "" {
		t.Errorf("%+v", p)
	}
}

// spec: P-10
func TestAnUnknownToolIsAnError(t *testing.T) {
	a := begin(t).as(auth.Admin)
	for _, name := range []string{"drop-database", "follow-events", "decide-by-token"} {
		_, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: name})
		if err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// spec: P-10
func TestArgumentsHaveTheBoundsOfTheAPI(t *testing.T) {
	w := begin(t)
	a := w.as(auth.Operator)
	if p := a.refused("get-execution", args{"id": strings.Repeat("x", 600)}); p.Code != "invalid" {
		t.Errorf("%+v", p)
	}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	status, text := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`+
		`"start-execution","arguments":{"name":"greet","body":{"input":`+deep+`}}}}`,
		"Authorization", "Bearer "+w.tokens[auth.Operator])
	if status != http.StatusOK || !strings.Contains(text, "nested more than") {
		t.Errorf("%d %s", status, text)
	}
	huge := args{"name": "greet", "body": args{"input": strings.Repeat("x", 2<<20)}}
	if _, err := a.CallTool(t.Context(), &sdk.CallToolParams{
		Name: "start-execution", Arguments: huge,
	}); err == nil || !strings.Contains(err.Error(), "Too Large") {
		t.Errorf("more than a body may have: %v", err)
	}
	if list := w.as(auth.Viewer).want("list-executions", nil)["items"].([]any); len(list) != 0 {
		t.Errorf("it has started %v", list)
	}
}

// spec: P-10
func TestALongAnswerComesInParts(t *testing.T) {
	w := begin(t)
	run, err := greet.Start(t.Context(), w.engine, strings.Repeat("äöü€𝄞", 10_000),
		perdure.ID("long"))
	if err == nil {
		_, err = run.Result(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, w.http.URL+
		"/api/orchestration/executions/long/history?limit=20", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := bearer(w.tokens[auth.Viewer]).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	whole, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	a, all, parts := w.as(auth.Viewer), "", 0
	for more := true; more; parts++ {
		texts, isError := a.texts("get-history", args{"id": "long", "skip": len(all)})
		if all += texts[0]; isError || len(texts[0]) > 32_000 || len(texts[0]) == 0 {
			t.Fatalf("a part of %d bytes; an error: %v", len(texts[0]), isError)
		}
		if more = len(texts) > 1; more && !strings.Contains(texts[1],
			fmt.Sprint("with skip ", len(all), ".")) {
			t.Fatal(texts[1])
		}
	}
	if all != strings.TrimSpace(string(whole)) || parts < 5 {
		t.Errorf("%d parts have %d bytes of %d", parts, len(all), len(whole))
	}
	if texts, _ := a.texts("who-am-i", args{"skip": 1000}); len(texts) != 2 ||
		!strings.Contains(texts[1], "bytes only") {
		t.Errorf("behind the end is %q", texts)
	}
	texts, _ := w.as(auth.Operator).texts("start-execution", args{
		"name": "greet", "wait": "1m", "body": args{"input": strings.Repeat("x", 50_000)},
	})
	if len(texts) != 2 || !strings.Contains(texts[1], "Do not call the tool again") {
		t.Errorf("the answer to a start is %d texts", len(texts))
	}
}

// A failing store panics when it is asked about itself.
type failing struct{ store.Store }

func (failing) Info(context.Context) (store.Info, error) { panic("the store is broken") }

// spec: P-10
func TestAToolThatPanicsEndsNothingElse(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	w := begin(t)
	var err error
	w.server, err = server.New(w.engine, failing{}, server.Options{Agents: mcp.New})
	if err != nil {
		t.Fatal(err)
	}
	_, text := w.post(strings.Replace(whoAmI, "who-am-i", "get-database", 1), "Host", "localhost")
	if !strings.Contains(text, "its log has the reason") || strings.Contains(text, "broken") ||
		!strings.Contains(log.String(), "the store is broken") {
		t.Errorf("%s; the log has %s", text, log.String())
	}
	if _, text = w.post(whoAmI, "Host", "localhost"); !strings.Contains(text, "admin") {
		t.Error(text)
	}
}
