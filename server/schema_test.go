package server_test

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure/server"
)

// A document is the OpenAPI document of a server, and judges its answers.
type document struct {
	text       []byte
	Paths      map[string]map[string]described `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]bool // operation and status of the answers so far
}

// A described is an operation of the document.
type described struct {
	OperationID string                `json:"operationId"`
	Summary     string                `json:"summary"`
	Security    []map[string][]string `json:"security"`
	Parameters  []parameter           `json:"parameters"`
	RequestBody *content              `json:"requestBody"`
	Responses   map[string]content    `json:"responses"`
}

type parameter struct {
	Name        string         `json:"name"`
	In          string         `json:"in"`
	Required    bool           `json:"required"`
	Description string         `json:"description"`
	Schema      map[string]any `json:"schema"`
}

type content struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

const where = "https://perdure.example/openapi.json"

func documentOf(t testing.TB, s *server.Server) *document {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	r.Header.Set("Authorization", "Bearer "+adminToken)
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	d := &document{text: answer.Body.Bytes(), seen: map[string]bool{}}
	if err := json.Unmarshal(d.text, d); err != nil {
		t.Fatal(err, answer.Body)
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.text))
	if err != nil {
		t.Fatal(err)
	}
	d.compiler = jsonschema.NewCompiler()
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(where, whole); err != nil {
		t.Fatal(err)
	}
	return d
}

// operation returns the operation of a pattern of a route.
func (d *document) operation(pattern string) (described, bool) {
	method, path, _ := strings.Cut(pattern, " ")
	op, ok := d.Paths[path][strings.ToLower(method)]
	return op, ok
}

// check judges an answer by the schema of its operation and status.
func (d *document) check(t testing.TB, pattern string, answer *http.Response, text []byte) {
	t.Helper()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	op, known := d.operation(pattern)
	status := strconv.Itoa(answer.StatusCode)
	method, path, _ := strings.Cut(pattern, " ")
	at := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(
		path) + "/" + strings.ToLower(method) + "/responses/"
	switch _, own := op.Responses[status]; {
	case pattern == "" || !known:
		if answer.Request.Method == http.MethodHead {
			return
		}
		at = "#/components/schemas/Problem"
		if kind != "application/problem+json" {
			t.Errorf("%s: %s is of type %q, no problem: %.300s", answer.Request.URL, status, kind,
				text)
			return
		}
	case own:
		at += status
	case answer.StatusCode < 400:
		t.Errorf("%s has no status %s in the document", pattern, status)
		return
	default:
		at += "default"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[op.OperationID+" "+status] = true
	if answer.Request.Method == http.MethodHead || !strings.HasSuffix(kind, "json") {
		return
	}
	if known && pattern != "" {
		at += "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
	}
	schema, err := d.compiler.Compile(where + at)
	if err != nil {
		t.Errorf("%s %s: %v", pattern, status, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("%s: the answer of status %s is not as the document says: %v\n%.400s", pattern,
			status, err, text)
	}
}
