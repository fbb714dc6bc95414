package mcp_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/mcp"
)

// spec: P-10
func TestAnAgentSeesTheToolsOfItsRole(t *testing.T) {
	w := begin(t)
	sees := map[auth.Role]map[string]bool{}
	for role := range w.tokens {
		sees[role] = map[string]bool{}
		for name, tool := range w.as(role).tools() {
			sees[role][name] = true
			if role == auth.Viewer && !tool.Annotations.ReadOnlyHint {
				t.Errorf("a viewer sees %s, which changes something", name)
			}
		}
	}
	for name, least := range map[string]auth.Role{
		"list-executions": auth.Viewer, "preview-retry": auth.Viewer, "who-am-i": auth.Viewer,
		"start-execution": auth.Operator, "delete-schedule": auth.Operator,
		"list-keys": auth.Admin, "rotate-key": auth.Admin,
		// no tools: streams, and what has a credential of its own
		"follow-events": auth.Admin + 1, "follow-execution": auth.Admin + 1,
		"succeed-callback": auth.Admin + 1, "decide-by-token": auth.Admin + 1,
		"begin-session": auth.Admin + 1, "store": auth.Admin + 1, "metrics": auth.Admin + 1,
	} {
		for role := range sees {
			if sees[role][name] != (role >= least) {
				t.Errorf("the role %s sees %s: %v", role, name, sees[role][name])
			}
		}
	}
	if _, err := w.connect(showing{}); err == nil || !strings.Contains(err.Error(),
		"Unauthorized") {
		t.Errorf("without a credential: %v", err)
	}
	if _, err := w.connect(bearer("wrong")); err == nil {
		t.Error("it takes any token")
	}
}

// spec: P-10
func TestEachOperationWithARoleIsAToolWithHints(t *testing.T) {
	w := begin(t)
	tools := w.as(auth.Admin).tools()
	seen := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+w.tokens[auth.Viewer])
	w.server.ServeHTTP(seen, r)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Tags        []string
			Role        string `json:"x-role"`
			Parameters  []struct{ Name string }
		}
	}
	if err := json.Unmarshal(seen.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	count := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			if op.Role == "public" || op.Tags[0] == "live" {
				continue
			}
			count++
			tool := tools[op.OperationID]
			if tool == nil {
				t.Errorf("%s %s is no tool", method, path)
				continue
			}
			schema := tool.InputSchema.(map[string]any)
			properties := schema["properties"].(map[string]any)
			names := len(op.Parameters)
			for _, name := range []string{"body", "skip"} {
				if properties[name] != nil {
					names++
				}
			}
			if text, _ := json.Marshal(schema); strings.Contains(string(text), "$ref") ||
				len(properties) != names {
				t.Errorf("%s has the schema %s", op.OperationID, text)
			}
			hints := tool.Annotations
			if hints.ReadOnlyHint != (op.Role == "viewer" || method == "get") ||
				hints.ReadOnlyHint != (properties["skip"] != nil) ||
				hints.IdempotentHint != (hints.ReadOnlyHint || method != "post") {
				t.Errorf("%s has the hints %+v", op.OperationID, hints)
			}
		}
	}
	if count != len(tools) || count < 60 {
		t.Errorf("%d operations, %d tools", count, len(tools))
	}
	var added []string
	for name, tool := range tools {
		if !tool.Annotations.ReadOnlyHint && !*tool.Annotations.DestructiveHint {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	if want := []string{
		"backfill-schedule", "fork-execution", "retry-dead-letter", "retry-execution",
		"run-schedule", "signal-execution", "skip-execution", "start-execution",
	}; !slices.Equal(added, want) {
		t.Errorf("tools that only add are %q", added)
	}
	body := tools["start-execution"].InputSchema.(map[string]any)["properties"].(args)["body"]
	if fields := body.(args)["properties"].(args); fields["input"] == nil {
		t.Errorf("the body of a start has the fields %v", slices.Collect(maps.Keys(fields)))
	}
}

// spec: P-10
func TestTwoAgentsAtATimeAreTwoCallers(t *testing.T) {
	w := begin(t)
	var all sync.WaitGroup
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} {
		a := w.as(role)
		for range 20 {
			all.Go(func() {
				texts, isError := a.texts("who-am-i", nil)
				if !strings.Contains(texts[0], "an "+role.String()) || isError {
					t.Errorf("the %s is %s", role, texts)
				}
			})
		}
	}
	all.Wait()
}

// spec: P-10
func TestAnAgentMayShowTheCookieOfASession(t *testing.T) {
	w := begin(t)
	answer, err := http.Post(w.http.URL+"/api/orchestration/session", "application/json",
		strings.NewReader(`{"token":"`+w.tokens[auth.Operator]+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	cookie := answer.Cookies()[0]
	a, err := w.connect(showing{"Cookie", cookie.Name + "=" + cookie.Value})
	if err != nil {
		t.Fatal(err)
	}
	if me := a.want("who-am-i", nil); me["session"] != true || me["role"] != "operator" {
		t.Error(me)
	}
}

// Clients of older versions begin with a handshake, whatever they are told to send next.
//
// spec: P-10
func TestAClientOfAnOlderVersionIsServed(t *testing.T) {
	w := begin(t)
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
			`"capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`: `"2025-06-18"`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                      ``,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`:                              `"get-why"`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"who-am-i"}}`: `viewer`,
	} {
		status, text := w.post(message, "MCP-Protocol-Version", "2025-06-18")
		if status/100 != 2 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", message, status, text)
		}
	}
}

// spec: P-10
func TestASchemaMayReferToItself(t *testing.T) {
	doc := `{"paths":{"/trees":{"post":{"operationId":"plant","x-role":"viewer",
		"parameters":[{"name":"limit","in":"query","schema":{"type":"integer"}}],
		"requestBody":{"content":{"application/json":{
		"schema":{"$ref":"#/components/schemas/Tree"}}}}}}},
		"components":{"schemas":{"Tree":{"type":"object","properties":{
		"left":{"$ref":"#/components/schemas/Tree"},
		"any":{"oneOf":[{"$ref":"#/components/schemas/Leaf"}]}}},"Leaf":{"type":"string"}}}}`
	h, err := mcp.New(http.NotFoundHandler(), []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	seen := httptest.NewRecorder()
	r := messageFrom("127.0.0.1:1", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	h.ServeHTTP(seen, r.WithContext(auth.NewContext(r.Context(), auth.Identity{Role: auth.Viewer})))
	for _, want := range []string{
		`"left":{}`, `"any":{"oneOf":[{"type":"string"}]}`, `"limit":{"default":20,`,
	} {
		if text := seen.Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	seen = httptest.NewRecorder()
	h.ServeHTTP(seen, messageFrom("127.0.0.1:1", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
	if text := seen.Body.String(); !strings.Contains(text, `"tools":[]`) {
		t.Errorf("a caller without a role sees %s", text)
	}
	if _, err := mcp.New(http.NotFoundHandler(), []byte(`[]`)); err == nil {
		t.Error("any text is an OpenAPI document")
	}
}

// spec: P-10
func TestAnAnswerMayBeWrittenInPieces(t *testing.T) {
	doc := `{"paths":{"/letters":{"get":{"operationId":"letters","x-role":"viewer"}}}}`
	h, err := mcp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, piece := range []string{"ab", "cd", "ef", "gh"} {
			_, _ = io.WriteString(w, piece)
		}
	}), []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for skip, want := range map[string]string{"0": "abcdefgh", "3": "defgh", "4": "efgh", "8": ""} {
		seen := httptest.NewRecorder()
		h.ServeHTTP(seen, messageFrom("127.0.0.1:1", `{"jsonrpc":"2.0","id":1,"method":`+
			`"tools/call","params":{"name":"letters","arguments":{"skip":`+skip+`}}}`))
		if text := seen.Body.String(); !strings.Contains(text, `[{"type":"text","text":"`+want+`"}]`) {
			t.Errorf("without %s bytes: %s", skip, text)
		}
	}
}
