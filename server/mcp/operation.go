package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/server/auth"
)

// A description has what tools need of the OpenAPI document.
type description struct {
	Paths      map[string]map[string]operation // by path and method
	Components struct{ Schemas map[string]any }
}

// An operation is an operation of the API.
type operation struct {
	ID          string `json:"operationId"`
	Summary     string
	Description string
	Role        string `json:"x-role"`
	Parameters  []parameter
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema map[string]any }
	}
	Responses map[string]struct{ Content map[string]any }

	method, path string
	need         auth.Role
	body         any // its schema, whole; nil for none
}

type parameter struct {
	Name     string
	In       string // path, query or header
	Required bool
	Schema   map[string]any
}

// operationsOf returns the operations of an OpenAPI document that are tools.
func operationsOf(document []byte) (all []operation, err error) {
	var doc description
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("mcp: the OpenAPI document: %w", err)
	}
	for path, item := range doc.Paths {
		for method, o := range item {
			var has bool
			if o.need, has = auth.ParseRole(o.Role); !has || o.streams() {
				continue
			}
			o.method, o.path = strings.ToUpper(method), path
			if o.RequestBody != nil {
				o.body = doc.whole(o.RequestBody.Content["application/json"].Schema)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// streams reports whether an operation answers by a stream of events.
func (o operation) streams() bool {
	for _, answer := range o.Responses {
		if answer.Content["text/event-stream"] != nil {
			return true
		}
	}
	return false
}

// whole returns a schema with the schemas that it refers to. Within itself, a schema allows
// anything.
func (d *description) whole(v any, within ...string) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, is := v["$ref"].(string); is {
			if slices.Contains(within, ref) {
				return map[string]any{}
			}
			return d.whole(d.Components.Schemas[path.Base(ref)],
				append(slices.Clip(within), ref)...)
		}
		out := make(map[string]any, len(v))
		for name, part := range v {
			out[name] = d.whole(part, within...)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, part := range v {
			out[i] = d.whole(part, within...)
		}
		return out
	}
	return v
}

// reads reports whether an operation changes nothing: whatever a viewer may do only reads.
func (o operation) reads() bool { return o.method == "GET" || o.need == auth.Viewer }

// adds are the operations that only add a run or a signal to what is there. What else changes
// something may replace or end something, too.
var adds = map[string]bool{
	"start-execution": true, "retry-execution": true, "skip-execution": true,
	"fork-execution": true, "retry-dead-letter": true, "signal-execution": true,
	"run-schedule": true, "backfill-schedule": true,
}

const (
	limitName, bodyName, skipName = "limit", "body", "skip" // of arguments

	// fewItems is how many items a list has if the caller does not say how many.
	fewItems = 20
)

// tool returns the description of an operation for agents.
func (o operation) tool() *sdk.Tool {
	properties, required := map[string]any{}, []string{}
	for _, p := range o.Parameters {
		schema := maps.Clone(p.Schema)
		if p.Name == limitName {
			schema["default"] = p.limit()
		}
		if properties[p.Name] = schema; p.Required {
			required = append(required, p.Name)
		}
	}
	if o.body != nil {
		if properties[bodyName] = o.body; o.RequestBody.Required {
			required = append(required, bodyName)
		}
	}
	if o.reads() {
		properties[skipName] = map[string]any{
			"type": "integer", "minimum": 0, "default": 0,
			"description": "how many bytes of the answer to leave out; for the next part of a " +
				"long one",
		}
	}
	destroys := !o.reads() && !adds[o.ID]
	return &sdk.Tool{
		Name: o.ID, Description: o.Summary + ". " + o.Description,
		InputSchema: map[string]any{
			"type": "object", "properties": properties, "required": required,
			"additionalProperties": false,
		},
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: o.reads(), DestructiveHint: &destroys,
			IdempotentHint: o.reads() || o.method == "PUT" || o.method == "DELETE",
		},
	}
}

// limit returns how many items a list has if the caller does not say how many.
func (p parameter) limit() int {
	if n, is := p.Schema["default"].(float64); is {
		return min(int(n), fewItems)
	}
	return fewItems
}
