package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server/auth"
)

// A route is one address with a method, and what a caller needs for it.
type route struct {
	name    string // of the operation
	need    auth.Role
	audited bool // it changes something
	json    bool // its body, if any, is JSON
	raw     bool // the handler bounds the body
}

// base is the path under which the operations are.
const base = "/api/orchestration"

// The routes, by what they are about.
type (
	runRoutes   struct{ *Server } // runs, and the workflows that they are of
	adminRoutes struct{ *Server } // what operators decide and set
	stateRoutes struct{ *Server } // the process, the database and the caller
	liveRoutes  struct{ *Server } // live events
)

// routes registers all routes. A route that is not in the table is refused to callers without a
// role, so none is open by mistake.
func (s *Server) routes() {
	s.api = humago.New(s.mux, s.config())
	state, runs, ops, live := stateRoutes{s}, runRoutes{s}, adminRoutes{s}, liveRoutes{s}
	state.health()
	state.session()
	runs.workflows()
	runs.executions()
	runs.actions()
	ops.letters()
	ops.schedules()
	ops.approvals()
	ops.batches()
	ops.settings()
	state.operations()
	live.register()
	s.direct()
	s.documents()
}

func (s *Server) config() huma.Config {
	c := huma.DefaultConfig("Perdure", "1")
	c.Info.Description = "Runs of workflows: start them, read them, act on them. A start or " +
		"signal that is answered with success is durable. An {id} is a run ID, or a workflow ID, " +
		"which stands for its open run, or else its newest. /workflows/instances is another name " +
		"of /executions, with all that is below it."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no links to schemas in answers
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}
	c.Formats = map[string]huma.Format{
		"application/json": format,
		"json":             format, // of types such as application/problem+json
	}
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{s.transform}
	server := s.o.Prefix
	if server == "" {
		server = "/"
	}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Data](),
		reflect.TypeFor[json.RawMessage]())
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[schedule.Spec](),
		reflect.TypeFor[api.ScheduleSpec]())
	c.Servers = []*huma.Server{{URL: server}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer"},
		"session": {Type: "apiKey", In: "cookie", Name: auth.CookieName},
	}
	c.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	return c
}

// schemaName returns the name of the schema of a type. Those of other packages than api and this
// one have the name of their package before them, because names of different packages may be equal.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if pkg := path.Base(t.PkgPath()); t.Name() != "" && pkg != "api" && pkg != "server" &&
		pkg != "." {
		return strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// transform returns an answer in its last form: problems instead of the library's errors, and
// payloads without the fields that the caller must not see.
func (s *Server) transform(ctx huma.Context, _ string, v any) (any, error) {
	if m, is := v.(*huma.ErrorModel); is {
		return of(m), nil
	}
	return s.hide.answer(who(ctx.Context()), v), nil
}

// An operation is one thing that the API does.
type operation struct {
	id, method, path, summary, group string

	need   auth.Role
	status int // of success; 0 for 200
	about  string
}

// An answer is the result of an operation.
type answer[T any] struct {
	Status int
	Body   T
}

// nothing is the input of an operation that needs none.
type nothing struct{}

// add registers an operation. Its path is below base. The errors of do become problems.
func add[I, T any](s *Server, o operation, do func(context.Context, *I) (T, error)) {
	addStatus(s, o, func(ctx context.Context, in *I) (T, int, error) {
		v, err := do(ctx, in)
		return v, o.status, err
	})
}

// addStatus is add for an operation that chooses the status of its success.
func addStatus[I, T any](s *Server, o operation, do func(context.Context, *I) (T, int, error)) {
	pattern := o.method + " " + base + o.path
	changes := o.method != http.MethodGet
	s.table[pattern] = route{name: o.id, need: o.need, audited: changes, json: true}
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: base + o.path, Summary: o.summary,
		Description: described(o), Tags: []string{o.group}, DefaultStatus: o.status,
		MaxBodyBytes: s.o.MaxBody, BodyReadTimeout: -1, Extensions: roleOf(o),
	}
	if o.need == auth.Public {
		op.Security = []map[string][]string{{}}
	}
	huma.Register(&plainAPI{s.api}, op, func(ctx context.Context, in *I) (*answer[T], error) {
		v, status, err := do(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		if status == 0 {
			status = http.StatusOK
		}
		return &answer[T]{status, v}, nil
	})
}

func roleOf(o operation) map[string]any { return map[string]any{"x-role": o.need.String()} }

func described(o operation) string {
	need := "It needs the role " + o.need.String() + "."
	if o.need == auth.Public {
		need = "It needs no credential."
	}
	if o.about == "" {
		return need
	}
	return o.about + " " + need
}

// plainAPI is huma's API, with status 400 where huma has 422.
type plainAPI struct{ huma.API }

// Config lets huma find its configuration.
func (p *plainAPI) Config() huma.Config {
	return p.API.(interface{ Config() huma.Config }).Config()
}

// Adapter implements huma.API.
func (p *plainAPI) Adapter() huma.Adapter { return plainAdapter{p.API.Adapter()} }

type plainAdapter struct{ huma.Adapter }

func (a plainAdapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	a.Adapter.Handle(op, func(ctx huma.Context) { handler(plainContext{ctx}) })
}

// inner is huma's context under another name: a field named Context would hide its method.
type inner = huma.Context

type plainContext struct{ inner }

// Unwrap lets huma find its own context.
func (c plainContext) Unwrap() huma.Context { return c.inner }

func (c plainContext) SetStatus(code int) {
	if code == http.StatusUnprocessableEntity {
		code = http.StatusBadRequest
	}
	c.inner.SetStatus(code)
}

// handle registers a route that huma does not answer.
func (s *Server) handle(method, path string, rt route, h http.HandlerFunc) {
	s.table[method+" "+path] = rt
	s.mux.HandleFunc(method+" "+path, h)
}

// A list is a page of a list.
type list[T any] struct {
	Items []T `json:"items" nullable:"false"`
	// Next is the cursor of the next page; empty if there is none.
	Next string `json:"next,omitempty" doc:"the cursor of the next page; missing if there is none"`
}

func listOf[T any](items []T, next string) list[T] {
	if items == nil {
		items = []T{}
	}
	return list[T]{items, next}
}
