package ui_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store/memory"
)

var update = flag.Bool("update", false, "write the types of the API for the page")

const typesFile = "src/lib/types.ts"

// A schema is the part of a schema in the document of the API that the types need.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	More       any                `json:"additionalProperties"`
}

func TestTheTypesOfThePageAreThoseOfTheAPI(t *testing.T) {
	want := typesOfTheAPI(t)
	if *update {
		if err := os.WriteFile(typesFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(typesFile)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what the document of the API says (%v): go test ./server/ui -update "+
			"writes it, then server/ui/check --write builds the page", typesFile, err)
	}
}

func typesOfTheAPI(t *testing.T) []byte {
	t.Helper()
	db := memory.New()
	engine, err := perdure.New(db, perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(engine, db, server.Options{Feed: &server.Feed{}, Kill: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	var doc struct {
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("// Made from the document of the API by go test ./server/ui -update.\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		if s.Properties == nil {
			fmt.Fprintf(&out, "\nexport type %s = %s\n", name, s.text())
			continue
		}
		fmt.Fprintf(&out, "\nexport interface %s {\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			optional := "?"
			if slices.Contains(s.Required, field) {
				optional = ""
			}
			fmt.Fprintf(&out, "  %s%s: %s\n", field, optional, s.Properties[field].text())
		}
		out.WriteString("}\n")
	}
	return out.Bytes()
}

// text returns a schema as a type.
func (s *schema) text() string {
	if s.Ref != "" {
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	kind, _ := s.Type.(string)
	switch kind {
	case "string", "boolean":
		return kind
	case "integer", "number":
		return "number"
	case "array":
		return s.Items.text() + "[]"
	case "object":
		if more, is := s.More.(map[string]any); is {
			var of schema
			text, _ := json.Marshal(more)
			_ = json.Unmarshal(text, &of) // it was JSON before
			return "Record<string, " + of.text() + ">"
		}
		return "Record<string, unknown>"
	}
	return "unknown"
}
