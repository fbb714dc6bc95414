package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"

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
	live    bool // its answer goes on
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
	runs.output()
	runs.many()
	ops.letters()
	ops.schedules()
	ops.approvals()
	ops.batches()
	ops.settings()
	state.operations()
	state.kill()
	state.remembered()
	state.configuration()
	live.register()
	s.storeCalls()
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
	format := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) },
		Unmarshal: unmarshal,
	}
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
	reads  bool // it changes nothing, although it is a POST
	status int  // of success; 0 for 200
	other  int  // another status of success; 0 for none
	about  string
}

func (o operation) changes() bool { return o.method != http.MethodGet && !o.reads }

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
	s.table[pattern] = route{name: o.id, need: o.need, audited: o.changes(), json: true}
	op := documented(o)
	op.Path = base + o.path
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // it has arrived
	huma.Register(&plainAPI{s.api}, op, func(ctx context.Context, in *I) (*answer[T], error) {
		v, status, err := do(ctx, in)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		if status == 0 {
			status = http.StatusOK
		}
		return &answer[T]{status, v}, nil
	})
	both(&op, o.other)
}

// both documents another status of success, with the same content; 0 for none.
func both(op *huma.Operation, status int) {
	if status != 0 {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     op.Responses[strconv.Itoa(op.DefaultStatus)].Content,
		}
	}
}

// documented returns an operation as the document of the API has it.
func documented(o operation) huma.Operation {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary,
		Description: described(o), Tags: []string{o.group}, DefaultStatus: o.status,
		Responses: map[string]*huma.Response{}, Extensions: roleOf(o),
	}
	if op.DefaultStatus == 0 {
		op.DefaultStatus = http.StatusOK
	}
	if o.need == auth.Public {
		op.Security = []map[string][]string{{}}
	}
	return op
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

// humaContext is huma's context: a field named Context would hide its method.
type humaContext = huma.Context

type plainContext struct{ humaContext }

// Unwrap lets huma find its own context.
func (c plainContext) Unwrap() huma.Context { return c.humaContext }

func (c plainContext) SetStatus(code int) {
	if code == http.StatusUnprocessableEntity {
		code = http.StatusBadRequest
	}
	c.humaContext.SetStatus(code)
}

// A plainRoute is an operation that huma does not answer. Its path is a whole one.
type plainRoute struct {
	operation
	parameters   []*huma.Param
	body, answer reflect.Type // nil for none
	kind         string       // the media type of the answer, if that is not JSON
}

// handle registers a route that huma does not answer, and documents it.
func (s *Server) handle(p plainRoute, h http.HandlerFunc) {
	s.table[p.method+" "+p.path] = route{
		name: p.id, need: p.need, audited: p.changes(), json: p.body != nil,
		live: p.kind == eventStream,
	}
	s.mux.HandleFunc(p.method+" "+p.path, h)
	op := documented(p.operation)
	schema := func(t reflect.Type) *huma.Schema {
		return s.api.OpenAPI().Components.Schemas.Schema(t, true, "")
	}
	success := &huma.Response{Description: http.StatusText(op.DefaultStatus)}
	switch {
	case p.answer != nil:
		success.Content = mediaOf(jsonType, schema(p.answer))
	case p.kind == jsonType:
		success.Content = mediaOf(p.kind, &huma.Schema{Type: huma.TypeObject})
	case p.kind != "":
		success.Content = mediaOf(p.kind, &huma.Schema{Type: huma.TypeString})
	}
	op.Parameters = p.parameters
	op.Responses[strconv.Itoa(op.DefaultStatus)] = success
	both(&op, p.other)
	op.Responses["default"] = &huma.Response{
		Description: "Error", Content: mediaOf(problemType, schema(reflect.TypeFor[Problem]())),
	}
	if p.body != nil {
		op.RequestBody = &huma.RequestBody{
			Required: true, Content: mediaOf(jsonType, schema(p.body)),
		}
	}
	s.api.OpenAPI().AddOperation(&op)
}

const (
	jsonType    = "application/json"
	eventStream = "text/event-stream"
)

func mediaOf(kind string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: schema}}
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
