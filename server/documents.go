package server

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/server/auth"
)

//go:embed docs.html
var docsText string

var docsPage = template.Must(template.New("docs").Parse(docsText))

// documents registers the description of the API, for programs and for readers.
func (s *Server) documents() {
	doc := sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })
	s.handle(plainRoute{
		operation: operation{
			id: "openapi", method: http.MethodGet, path: "/openapi.json", group: "documents",
			summary: "This document", need: auth.Viewer,
		}, kind: jsonType,
	}, func(w http.ResponseWriter, r *http.Request) {
		text, err := doc()
		if err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write(text) // the caller may be gone
	})
	s.handle(plainRoute{
		operation: operation{
			id: "docs", method: http.MethodGet, path: "/docs", group: "documents",
			summary: "This document for readers", need: auth.Viewer,
		}, kind: "text/html",
	}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := docsPage.Execute(w, s.reference()); err != nil {
			s.log.Warn("perdure: the page of the API was cut off", "error", err)
		}
	})
	s.mendDocument()
}

// agents registers the route of agents, if they are served.
func (s *Server) agents() error {
	if s.o.Agents == nil {
		return nil
	}
	doc, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return err
	}
	h, err := s.o.Agents(s, doc)
	if err == nil {
		const pattern = "POST /mcp"
		s.table[pattern] = route{name: "agents", need: auth.Viewer, json: true}
		s.mux.Handle(pattern, h)
	}
	return err
}

// mendDocument makes the document say what huma does not know: an error is a [Problem], and a
// list is never null.
func (s *Server) mendDocument() {
	registry := s.api.OpenAPI().Components.Schemas
	ours := registry.Schema(reflect.TypeFor[Problem](), true, "")
	theirs := registry.Schema(reflect.TypeFor[huma.ErrorModel](), true, "")
	for _, item := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op == nil {
				continue
			}
			for _, response := range op.Responses {
				for _, media := range response.Content {
					if media.Schema.Ref == theirs.Ref {
						media.Schema = ours
					}
				}
			}
		}
	}
	for _, t := range []reflect.Type{
		reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[huma.ErrorDetail](),
	} {
		delete(registry.Map(), schemaName(t, ""))
	}
	for _, schema := range registry.Map() {
		neverNull(schema)
	}
}

// neverNull makes a list in a schema one that is never null.
func neverNull(schema *huma.Schema) {
	if schema == nil {
		return
	}
	if schema.Type == huma.TypeArray {
		schema.Nullable = false
	}
	neverNull(schema.Items)
	for _, p := range schema.Properties {
		neverNull(p)
	}
	if more, is := schema.AdditionalProperties.(*huma.Schema); is {
		neverNull(more)
	}
}

// schemaNames has the names of schemas that are not made from the names of their types.
var schemaNames = map[string]string{
	"DeadletterLetter": "DeadLetter", "ObserveFigures": "Metrics", "ObserveDLQ": "DeadLetters",
	"AdminOrder": "Order",
}

// schemaName returns the name of the schema of a type: that of the type, and that of its package
// before it, if that is neither package api nor this one, because names of different packages may
// be equal. A page of a list of things is a ThingList.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "list[") {
		return schemaName(t.Field(0).Type, hint) + "List"
	}
	name := huma.DefaultSchemaNamer(t, hint)
	pkg := path.Base(t.PkgPath())
	if t.Name() != "" && pkg != "api" && pkg != "server" && pkg != "." &&
		!strings.EqualFold(pkg, name) {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if given := schemaNames[name]; given != "" {
		return given
	}
	return name
}

// A referenceGroup is a part of the page for readers.
type referenceGroup struct {
	Name       string
	Operations []referenceOperation
}

type referenceOperation struct {
	Method, Path, Summary, Description string
	Parameters                         []*huma.Param
	Body                               string // the schema of the body, as JSON
}

// reference returns the operations for readers, by group, in the order of their paths.
func (s *Server) reference() (groups []referenceGroup) {
	doc := s.api.OpenAPI()
	var paths []string
	for path := range doc.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	at := map[string]int{}
	for _, path := range paths {
		item := doc.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op == nil {
				continue
			}
			group := op.Tags[0]
			i, known := at[group]
			if !known {
				i = len(groups)
				at[group] = i
				groups = append(groups, referenceGroup{Name: group})
			}
			groups[i].Operations = append(groups[i].Operations, referenceOperation{
				Method: op.Method, Path: s.o.Prefix + path, Summary: op.Summary,
				Description: op.Description, Parameters: op.Parameters, Body: s.bodyOf(op),
			})
		}
	}
	return groups
}

// bodyOf returns the schema of an operation's body as text; empty if it has none.
func (s *Server) bodyOf(op *huma.Operation) string {
	if op.RequestBody == nil {
		return ""
	}
	media := op.RequestBody.Content["application/json"]
	if media == nil || media.Schema == nil {
		return ""
	}
	schema := media.Schema
	if schema.Ref != "" {
		schema = s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return ""
	}
	return string(text)
}
