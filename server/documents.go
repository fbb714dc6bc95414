package server

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/server/auth"
)

//go:embed docs.html
var docsText string

var docsPage = template.Must(template.New("docs").Parse(docsText))

// documents registers the description of the API, for programs and for readers.
func (s *Server) documents() {
	s.describeProblems()
	doc := sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })
	s.handle(http.MethodGet, "/openapi.json", route{name: "openapi", need: auth.Viewer},
		func(w http.ResponseWriter, _ *http.Request) {
			text, err := doc()
			if err != nil {
				problemOf(err).write(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // the caller may be gone
		})
	s.handle(http.MethodGet, "/docs", route{name: "docs", need: auth.Viewer},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if err := docsPage.Execute(w, s.reference()); err != nil {
				s.log.Warn("perdure: the page of the API was cut off", "error", err)
			}
		})
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
		s.handle(http.MethodPost, "/mcp", route{name: "agents", need: auth.Viewer, json: true},
			h.ServeHTTP)
	}
	return err
}

// describeProblems replaces the library's form of an error in the document by that of a [Problem].
func (s *Server) describeProblems() {
	registry := s.api.OpenAPI().Components.Schemas
	ours := registry.Schema(reflect.TypeFor[Problem](), false, "")
	if theirs := registry.Map()["ErrorModel"]; theirs != nil {
		*theirs = *ours
	}
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
