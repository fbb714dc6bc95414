package server_test

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

var (
	fuzzSeed = flag.Uint64("fuzz.seed", 0, "the seed of random requests; 0 for one by chance")
	fuzzSize = flag.Int("fuzz.size", 15, "how many random requests each operation gets")
)

// nasty are values that have broken programs.
var nasty = []string{
	"", " ", "-", "0", "-1", "1e3", "9223372036854775807", "9223372036854775808", "null", "true",
	"NaN", "1h", "-1s", "2562047h", "P1Y", "x", "..", "a/b", "%", "'", `"`, `\`, "' OR 1=1 --",
	"\x00", "\n", "\u202e", "\ufffd", "\xff", "😀", "$", "[", "{}", "run_1", "failing", "w-1",
	"status=failed", "* * * * *", "2020-01-01T00:00:00Z", "0000-00-00", "10/1s",
}

// A guesser makes random requests by the document of the API.
type guesser struct {
	*rand.Rand
	doc *document
}

func (g *guesser) one(all []string) string { return all[g.IntN(len(all))] }

func (g *guesser) text() string {
	if g.IntN(20) == 0 {
		return strings.Repeat(g.one(nasty), 200)
	}
	return g.one(nasty)
}

// body returns a value for a schema, which is broken now and then.
func (g *guesser) body(schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		return g.body(g.doc.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]], depth)
	}
	kind := schema["type"]
	if g.IntN(12) == 0 || depth > 5 {
		kind = g.one([]string{"string", "integer", "boolean", "null"})
	}
	switch kind {
	case "object":
		return g.object(schema, depth)
	case "array":
		items, _ := schema["items"].(map[string]any)
		all := make([]any, g.IntN(3))
		for i := range all {
			all[i] = g.body(items, depth+1)
		}
		return all
	case "integer", "number":
		return json.Number(g.one([]string{
			"0", "1", "-1", "2", "1e400", "1.5", "2147483648", "9223372036854775807", "-1e9",
		}))
	case "boolean":
		return g.IntN(2) == 0
	case "null":
		return nil
	case "string":
		return g.text()
	}
	return g.one(nasty) // any payload
}

func (g *guesser) object(schema map[string]any, depth int) any {
	out := map[string]any{}
	fields, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, _ := fields[name].(map[string]any)
		often := 3
		if slices.Contains(required, any(name)) {
			often = 20
		}
		if g.IntN(often) > 0 == (often == 20) || g.IntN(2) == 0 {
			out[name] = g.body(field, depth+1)
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok || g.IntN(15) == 0 {
		out[g.text()] = g.body(more, depth+1)
	}
	return out
}

// request returns a random request of an operation.
func (g *guesser) request(method, path string, op described) *http.Request {
	query, headers := url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			value := g.text()
			for value == "" {
				value = g.text()
			}
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(value), 1)
		case g.IntN(3) == 0 && p.In == "query":
			query.Set(p.Name, g.text())
		case g.IntN(3) == 0 && p.In == "header":
			headers.Set(p.Name, g.text())
		}
	}
	body := ""
	if op.RequestBody != nil && g.IntN(10) > 0 {
		text, _ := json.Marshal(g.body(op.RequestBody.Content["application/json"].Schema, 0))
		if body = string(text); g.IntN(12) == 0 && len(body) > 0 {
			i := g.IntN(len(body))
			body = body[:i] + g.one(nasty) + body[i:]
		}
	}
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	if u, err := url.ParseRequestURI(path + "?" + query.Encode()); err == nil {
		r.URL = u
	}
	r.Header = headers
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	return r
}

// No random request is answered by a 500, and each answer is as the document says.
//
// spec: P-10
func TestRandomRequestsDoNoHarm(t *testing.T) {
	seed := *fuzzSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-fuzz.seed=%d", seed)
	all := stores(t)
	all["memory"] = func(*testing.T) store.Store { return memory.New() }
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			w := open(t, setting{db: all[name](t), Options: server.Options{MaxBody: 1 << 20}})
			w.start("waiting", `{"id":"w-1"}`)
			w.ended(w.start("failing", `{"id":"failing"}`))
			g := &guesser{rand.New(rand.NewPCG(seed, 1)), w.doc}
			for range *fuzzSize {
				for _, path := range slices.Sorted(maps.Keys(w.doc.Paths)) {
					for method, op := range w.doc.Paths[path] {
						if strings.HasPrefix(op.OperationID, "follow-") {
							continue // these go on
						}
						w.survive(g.request(strings.ToUpper(method), path, op))
					}
				}
			}
		})
	}
}

// survive sends a request, and judges the answer.
func (w *world) survive(r *http.Request) {
	w.t.Helper()
	if r.URL.Query().Get("wait") != "" {
		q := r.URL.Query()
		q.Set("wait", "1ms")
		r.URL.RawQuery = q.Encode()
	}
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, r)
	answer := recorder.Result()
	answer.Request = r
	if recorder.Code >= 500 {
		w.t.Errorf("%s %q: status %d: %.300s", r.Method, r.URL.String(), recorder.Code,
			recorder.Body)
	}
	w.doc.check(w.t, w.server.Pattern(r), answer, recorder.Body.Bytes())
}

// The body of an operation may be anything.
func FuzzBody(f *testing.F) {
	s := closed(f, server.Options{})
	d := documentOf(f, s)
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		if op, ok := d.Paths[path]["post"]; ok && op.RequestBody != nil {
			paths = append(paths, path)
		}
	}
	for i, body := range []string{
		"", "{}", "[]", `{"id":"a"}`, `{"items":[{"id":"a"}]}`, `{"token":"x"}`, `{"a":{"b":[1]}}`,
		`{"order":{"action":"cancel"},"runs":["a"]}`, "\x00", `"\ud800"`, `{"ID":1}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		path := inBraces.ReplaceAllString(paths[int(which)%len(paths)], "1")
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body)))
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		if answer.Code >= 500 {
			t.Error(path, strconv.Quote(string(body)), answer.Code, answer.Body)
		}
	})
}
