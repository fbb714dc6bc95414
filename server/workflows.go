package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// A Topology is the order of the steps that a workflow declares before it runs.
type Topology struct {
	Workflow string              `json:"workflow"`
	Layers   [][]string          `json:"layers,omitempty"` // of a graph, saga or TCC
	Graph    *definition.Graph   `json:"graph,omitempty"`
	Diagram  *definition.Diagram `json:"diagram,omitempty"` // of a step machine
	Mermaid  string              `json:"mermaid,omitempty" doc:"the drawing, as text for Mermaid"`
}

func (s runRoutes) workflows() {
	const group = "workflows"
	add(s.Server, operation{
		id: "list-workflows", method: http.MethodGet, path: "/workflows", group: group,
		summary: "The workflows of this process and of the living engines", need: auth.Viewer,
	}, s.listWorkflows)
	add(s.Server, operation{
		id: "get-workflow", method: http.MethodGet, path: "/workflows/{name}", group: group,
		summary: "The definition of a workflow", need: auth.Viewer,
	}, func(ctx context.Context, in *WorkflowIn) (api.Definition, error) {
		all, err := s.listWorkflows(ctx, nil)
		if err != nil {
			return api.Definition{}, err
		}
		for _, d := range all.Items {
			if d.Name == in.Name {
				return d, nil
			}
		}
		return api.Definition{}, unknownWorkflow(in.Name)
	})
	add(s.Server, operation{
		id: "get-topology", method: http.MethodGet, path: "/workflows/{name}/topology",
		group: group, summary: "The steps that a workflow declares, and their order",
		need: auth.Viewer,
		about: "A workflow that this process does not have, and one in plain code, have no steps " +
			"to show before they run.",
	}, s.topology)
	add(s.Server, operation{
		id: "get-versions", method: http.MethodGet, path: "/workflows/{name}/versions",
		group: group, summary: "The builds and version markers that its runs need",
		need: auth.Viewer,
	}, func(ctx context.Context, in *WorkflowIn) (api.Versions, error) {
		v, err := s.admin.Versions(ctx, in.Name)
		return present.Versions(v), err
	})
	addStatus(s.Server, operation{
		id: "start-execution", method: http.MethodPost, path: "/workflows/{name}/start",
		group: group, summary: "Start a run", status: http.StatusCreated, other: http.StatusOK,
		need: auth.Operator,
		about: "The answer has status 201 for a new run, and 200 for one that is there already: " +
			"one of the same id, or of the same Idempotency-Key, that is open or ended within " +
			"dedup. The same key with another input is refused. A workflow that no living " +
			"engine has is refused, unless force is set. With wait, and for a graph of mode " +
			"SYNC, the answer comes when the run has ended, with its result, or when the wait " +
			"is over.",
	}, s.start)
}

func unknownWorkflow(name string) error {
	return &perdure.Error{
		Code: journal.CodeNotFound, Op: "workflow " + name,
		Message: "neither this process nor a living engine has it",
	}
}

// listWorkflows returns the workflows of this process, and the names of those that other engines
// say they have.
func (s runRoutes) listWorkflows(ctx context.Context, _ *nothing) (list[api.Definition], error) {
	var out []api.Definition
	has := map[string]bool{}
	if s.engine != nil {
		for _, w := range s.engine.Workflows() {
			if !present.IsReserved(w.Name) {
				out = append(out, present.Definition(w))
				has[w.Name] = true
			}
		}
	}
	info, err := store.Brief(ctx, s.store)
	if err != nil {
		return list[api.Definition]{}, unavailable(err)
	}
	for _, e := range info.Engines {
		for _, name := range e.Workflows {
			if !e.Expired && !has[name] && !present.IsReserved(name) {
				out = append(out, api.Definition{Name: name})
				has[name] = true
			}
		}
	}
	slices.SortFunc(out, func(a, b api.Definition) int {
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	return listOf(out, ""), nil
}

func unavailable(err error) error {
	return &perdure.Error{Code: journal.CodeUnavailable, Op: "read the database", Err: err}
}

func (s runRoutes) topology(ctx context.Context, in *WorkflowIn) (Topology, error) {
	if s.engine != nil {
		for _, w := range s.engine.Workflows() {
			if w.Name == in.Name {
				return topologyOf(w), nil
			}
		}
	}
	all, err := s.listWorkflows(ctx, nil)
	if err != nil {
		return Topology{}, err
	}
	if !slices.ContainsFunc(all.Items, func(d api.Definition) bool { return d.Name == in.Name }) {
		return Topology{}, unknownWorkflow(in.Name)
	}
	return Topology{Workflow: in.Name}, nil
}

func topologyOf(w perdure.Registered) Topology {
	t := Topology{Workflow: w.Name, Graph: w.Outline.Graph, Diagram: w.Outline.Diagram}
	switch {
	case t.Graph != nil:
		t.Layers, t.Mermaid = t.Graph.Layers(), t.Graph.Mermaid()
	case t.Diagram != nil:
		t.Mermaid = t.Diagram.Mermaid()
	}
	return t
}

type startIn struct {
	WorkflowIn
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"the same key starts one run"`
	Wait string `query:"wait" maxLength:"40" default:"0s" doc:"how long to wait for the end, up to 5m"`
	Body *startBody
}

type startBody struct {
	ID    string          `json:"id,omitempty" maxLength:"255" doc:"the workflow ID; missing for a new one"`
	Input json.RawMessage `json:"input,omitempty" doc:"missing means null"`
	Dedup string          `json:"dedup,omitempty" maxLength:"40" doc:"how far back an ended run counts, such as 24h; 0s for open runs only"`
	At    *time.Time      `json:"at,omitempty" doc:"when the run begins"`
	Delay string          `json:"delay,omitempty" maxLength:"40" doc:"how long after now the run begins, such as 90s"`
	Force bool            `json:"force,omitempty" doc:"start it also if no living engine has the workflow"`

	Attributes map[string]string `json:"attributes,omitempty" maxProperties:"100" doc:"search attributes"`
	Headers    map[string]string `json:"headers,omitempty" maxProperties:"100"`
}

// A StartedRun is the answer to a start. If the caller has waited for the end, and the run has
// ended, it has the result.
type StartedRun struct {
	api.Started
	Status string     `json:"status,omitempty"` // of a run that was waited for
	Output api.Data   `json:"output,omitzero"`
	Error  *api.Error `json:"error,omitempty"`
}

func (s runRoutes) start(ctx context.Context, in *startIn) (StartedRun, int, error) {
	wait, err := span("wait", in.Wait)
	if err != nil {
		return StartedRun{}, 0, err
	}
	if s.modeOf(in.Name) == pattern.ModeSync && wait == 0 {
		wait = maxWait
	}
	started, status, err := s.startOne(ctx, in, wait > 0)
	out := StartedRun{Started: started}
	if err != nil || wait == 0 {
		return out, status, err
	}
	ended, _, err := s.result(ctx, &resultIn{RunIn: RunIn{out.RunID}, Wait: wait.String()})
	out.Status, out.Output, out.Error = ended.Status, ended.Output, ended.Error
	return out, status, err
}

// modeOf returns the mode of a workflow of this process; empty if it has none.
func (s runRoutes) modeOf(name string) pattern.Mode {
	if s.engine != nil {
		for _, w := range s.engine.Workflows() {
			if w.Name == name {
				return pattern.Mode(w.Outline.Mode)
			}
		}
	}
	return ""
}

// unregistered returns an error if neither this process nor a living engine has a workflow.
func (s runRoutes) unregistered(ctx context.Context, name string) error {
	if s.engine != nil && slices.ContainsFunc(s.engine.Workflows(),
		func(w perdure.Registered) bool { return w.Name == name }) {
		return nil
	}
	info, err := store.Brief(ctx, s.store)
	if err != nil {
		return unavailable(err)
	}
	return present.Unregistered(info, name, "(force starts it all the same, for a later engine)")
}

// startOne starts a run, or finds the one that its ID stands for.
func (s runRoutes) startOne(ctx context.Context, in *startIn, waits bool) (api.Started, int,
	error) {
	body := in.Body
	if body == nil {
		body = &startBody{}
	}
	opts, err := body.options(s.now(), in.Key)
	if err == nil && !body.Force {
		err = s.unregistered(ctx, in.Name)
	}
	if err != nil {
		return api.Started{}, 0, err
	}
	if waits {
		opts = append(opts, pattern.ModeSync)
	}
	input := orNull(body.Input)
	run, err := s.client.Start(ctx, in.Name, input, opts...)
	if err != nil {
		return api.Started{}, 0, err
	}
	out := api.Started{RunID: run.RunID(), WorkflowID: run.ID(), New: run.New()}
	switch {
	case out.New:
		return out, http.StatusCreated, nil
	case in.Key != "":
		return out, http.StatusOK, s.sameInput(ctx, out.RunID, input)
	}
	return out, http.StatusOK, nil
}

// options returns the options of a start. A key stands for the workflow ID if there is none.
func (b *startBody) options(now time.Time, key string) ([]perdure.StartOption, error) {
	var opts []perdure.StartOption
	id := b.ID
	switch {
	case id == "":
		id = key
	case key != "" && key != id:
		return nil, invalid("an Idempotency-Key stands for the id: leave out one of them")
	}
	if id != "" {
		opts = append(opts, perdure.ID(id))
	}
	if b.Dedup != "" {
		d, err := span("dedup", b.Dedup)
		if err != nil {
			return nil, err
		}
		opts = append(opts, perdure.Dedup(d))
	}
	switch {
	case b.At != nil && b.Delay != "":
		return nil, invalid("at and delay are two ways to set a time: choose one")
	case b.At != nil:
		opts = append(opts, schedule.At(*b.At))
	case b.Delay != "":
		d, err := span("delay", b.Delay)
		if err != nil {
			return nil, err
		}
		opts = append(opts, schedule.At(now.Add(d)))
	}
	if len(b.Attributes) > 0 {
		opts = append(opts, perdure.Attributes(b.Attributes))
	}
	if len(b.Headers) > 0 {
		opts = append(opts, perdure.Headers(b.Headers))
	}
	return opts, nil
}

// sameInput returns an error if the run of a key was started with another input.
func (s runRoutes) sameInput(ctx context.Context, run string, input []byte) error {
	first, err := s.client.History(ctx, run, 1, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	var a, b bytes.Buffer
	if json.Compact(&a, first[0].Data) == nil && json.Compact(&b, input) == nil &&
		bytes.Equal(a.Bytes(), b.Bytes()) {
		return nil
	}
	return &perdure.Error{
		Code: journal.CodeConflict, Op: "start", Message: "the Idempotency-Key was used with " +
			"another input, for run " + run, Hint: "use a new key for another start",
	}
}

// maxSpan bounds durations in requests.
const maxSpan = 100 * 365 * 24 * time.Hour

func span(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxSpan {
		return 0, invalid(name + " is not valid: allowed are durations such as 90s or 24h, up to " +
			"100 years")
	}
	return d, nil
}

func invalid(message string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Message: message}
}
