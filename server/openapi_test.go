package server_test

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure/server"
)

// The document is judged by the schema of the OpenAPI Initiative for version 3.1 (of 7 October
// 2022), and each schema in it by that of JSON Schema 2020-12, which OpenAPI 3.1 uses.
//
// spec: P-10
func TestTheDocumentIsValid(t *testing.T) {
	text, err := os.ReadFile("testdata/openapi-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	judge, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const name = "https://spec.openapis.org/oas/3.1/schema/2022-10-07"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, judge); err != nil {
		t.Fatal(err)
	}
	official, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []server.Options{
		{}, {Prefix: "/ops"},
		{
			Authenticator: people(t), Feed: &server.Feed{}, Metrics: http.NotFoundHandler(),
			Kill: func() {},
		},
	} {
		d := documentOf(t, closed(t, o))
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.text))
		if err == nil {
			err = official.Validate(v)
		}
		if err != nil {
			t.Error(err)
		}
		for name := range d.Components.Schemas {
			if _, err := d.compiler.Compile(where + "#/components/schemas/" + name); err != nil {
				t.Error(name, err)
			}
		}
	}
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// spec: P-10
func TestTheDocumentDescribesEachRoute(t *testing.T) {
	s := closed(t, server.Options{
		Authenticator: people(t), Feed: &server.Feed{}, Metrics: http.NotFoundHandler(),
	})
	d, ids, documented := documentOf(t, s), map[string]bool{}, 0
	for path, item := range d.Paths {
		for method, op := range item {
			documented++
			name := strings.ToUpper(method) + " " + path
			route, known := s.Routes()[name]
			switch {
			case !known:
				t.Errorf("%s is in the document and not in the table", name)
			case op.OperationID != route.Name || ids[op.OperationID]:
				t.Errorf("%s: the operation ID is %q, want %q, once", name, op.OperationID,
					route.Name)
			case op.Summary == "":
				t.Errorf("%s has no summary", name)
			}
			ids[op.OperationID] = true
			// without security of its own, an operation has that of the document
			if open := len(op.Security) == 1 && len(op.Security[0]) == 0; open !=
				(route.Need == 0) {
				t.Errorf("%s needs the role %v, and its security is %v", name, route.Need,
					op.Security)
			}
			described := map[string]bool{}
			for _, p := range op.Parameters {
				if p.Description == "" {
					t.Errorf("%s: the parameter %s is not described", name, p.Name)
				}
				described[p.In+" "+p.Name] = true
			}
			for _, part := range inBraces.FindAllStringSubmatch(path, -1) {
				if !described["path "+part[1]] {
					t.Errorf("%s: {%s} is not described", name, part[1])
				}
			}
			if _, ok := op.Responses["default"]; !ok {
				t.Errorf("%s has no errors", name)
			}
		}
	}
	// The protocol of package store/remote is not a part of the document.
	if all := len(s.Routes()) - 1; documented != all {
		t.Errorf("%d operations in the document, %d in the table", documented, all)
	}
	if strings.Contains(string(d.text), "$schema") || strings.Contains(string(d.text), "InBody") {
		t.Error("the document has names of the library")
	}
}
