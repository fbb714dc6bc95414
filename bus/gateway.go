package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Gateway brings events to runs: by its type, an event starts workflows, is sent to a run as a
// signal, or wakes the waits for it ([Wait]). A workflow registers itself by an option:
//
//	var inbound = bus.NewGateway()
//
//	var fulfil = perdure.Define("fulfil", ..., inbound.Starts("order.placed", bus.Route{
//		Field: "order.id",
//	}))
//
// An event that comes twice starts one run and is sent once. A run is known by its workflow ID, for
// as long as the route says, and a signal by the key of its event, as long as the run is kept. Many
// goroutines may use a gateway.
type Gateway struct {
	mu     sync.Mutex
	routes map[string][]Registration // by type of event
	counts map[string]int64
}

// NewGateway returns a gateway without routes.
func NewGateway() *Gateway {
	return &Gateway{routes: map[string][]Registration{}, counts: map[string]int64{}}
}

// A Route describes how an event finds its run.
type Route struct {
	// Field is a field of the event's data, such as order.id, that has the workflow ID: a text or a
	// number. If neither Field nor ID is set, the ID is that of the event; for a signal, it is the
	// subject of the event.
	Field string
	// ID returns the workflow ID, instead of Field.
	ID func(e *event.Event) (string, error)
	// Known is how long after the end of its run an event that comes again starts no other one.
	// Zero means 24 hours.
	Known time.Duration
	// If is a condition: other events go past this route. Nil means all events.
	If func(e *event.Event) bool
}

// An Effect is one of the three ways in which a route uses an event.
type Effect string

// The effects.
const (
	// It starts a run of a workflow, with the data as its input, and its traceparent as a header.
	EffectStart  Effect = "start"
	EffectSignal Effect = "signal" // it is sent to a run as a signal, with the data as its payload
	EffectWake   Effect = "wake"   // it wakes the waits whose value a field of its data has
)

// A Registration is one route of a gateway.
type Registration struct {
	Type   string `json:"type"` // of events
	Effect Effect `json:"effect"`
	Name   string `json:"name,omitempty"` // of the workflow or signal
	Field  string `json:"field,omitempty"`

	route Route
}

// Starts returns an option of a workflow that registers it: events of a type start its runs.
func (g *Gateway) Starts(kind string, r Route) perdure.WorkflowOption {
	return starts{g, kind, r}
}

type starts struct {
	*Gateway
	kind  string
	route Route
}

// ApplyToWorkflow registers the workflow, whose outline then has the type of the event.
func (s starts) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Outline.Trigger, w.Outline.IDField = s.kind, s.route.Field
	return s.Start(s.kind, w.Name, s.route)
}

// Adopt registers the workflows that name the event which starts them (About.Trigger), with the
// field for the workflow ID. all is what [perdure.Engine.Workflows] returns.
func (g *Gateway) Adopt(all []perdure.Registered) error {
	var errs []error
	for _, w := range all {
		if kind := w.Outline.Trigger; kind != "" && !g.has(kind, w.Name) {
			errs = append(errs, g.Start(kind, w.Name, Route{Field: w.Outline.IDField}))
		}
	}
	return errors.Join(errs...)
}

// has reports whether events of a type start a workflow.
func (g *Gateway) has(kind, workflow string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.routes[kind], func(r Registration) bool {
		return r.Effect == EffectStart && r.Name == workflow
	})
}

// Start makes events of a type start runs of a workflow, by its name.
func (g *Gateway) Start(kind, workflow string, r Route) error {
	return g.register(Registration{kind, EffectStart, workflow, r.Field, r})
}

// Signal makes events of a type signals to runs. A signal to a workflow ID that no open run has is
// kept for one: see [perdure.Signal.Send].
func (g *Gateway) Signal(kind, signal string, r Route) error {
	return g.register(Registration{kind, EffectSignal, signal, r.Field, r})
}

// Wake makes events of a type wake the waits for a field of their data: see [Wait].
func (g *Gateway) Wake(kind, field string) error {
	if field == "" {
		return errors.New("bus: a wake-up needs a field")
	}
	return g.register(Registration{kind, EffectWake, "", field, Route{Field: field}})
}

// register adds a route, in place of one of the same effect, name and field.
func (g *Gateway) register(r Registration) error {
	if r.Type == "" {
		return errors.New("bus: a route needs a type of events")
	}
	if r.Effect != EffectWake && !journal.ValidName(r.Name) {
		return fmt.Errorf("bus: name %.100q is not valid: allowed are 1 to 255 of "+
			"A-Z a-z 0-9 . _ : -", r.Name)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(g.routes[r.Type]), func(o Registration) bool {
		return o.Effect == r.Effect && o.Name == r.Name && o.Field == r.Field
	})
	g.routes[r.Type] = append(all, r)
	return nil
}

// Registrations returns the routes, in the order of their types.
func (g *Gateway) Registrations() []Registration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Registration
	for _, kind := range slices.Sorted(maps.Keys(g.routes)) {
		all = append(all, g.routes[kind]...)
	}
	return all
}

// Handles reports whether there is a route for a type of events.
func (g *Gateway) Handles(kind string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.routes[kind]) > 0
}

// CountUnknown is the name under which events of types without a route are counted.
const CountUnknown = "unknown"

// Counts returns how many events the gateway has handled, by type; those without a route are
// together, as [CountUnknown].
func (g *Gateway) Counts() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// On brings an event to its runs. An event of an unknown type is counted, and is no error. The
// error is a [Rejection] if another try does not change it: an event without the field, an ID that
// is not valid, or one that a run of another workflow has.
func (g *Gateway) On(ctx context.Context, c *perdure.Client, e event.Event) error {
	if err := e.Check(); err != nil {
		return Reject(fmt.Errorf("bus: event %.100q: %w", e.ID, err))
	}
	g.mu.Lock()
	routes := g.routes[e.Type]
	g.mu.Unlock()
	var all []error
	for i := range routes {
		r := &routes[i]
		err := guard.Call(func() error { return r.take(ctx, c, &e) })
		if err != nil {
			all = append(all, fmt.Errorf("bus: %s %s by event %.100q: %w", r.Effect, r.Name, e.ID,
				err))
		}
	}
	if len(all) == 0 {
		g.count(e.Type, len(routes) > 0)
	}
	return worst(all)
}

func (g *Gateway) count(kind string, known bool) {
	if !known {
		kind = CountUnknown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[kind]++
}

// take lets a route have an event.
func (r *Registration) take(ctx context.Context, c *perdure.Client, e *event.Event) error {
	if r.route.If != nil && !r.route.If(e) {
		return nil
	}
	id, err := r.id(e)
	if err != nil {
		if r.Effect == EffectWake {
			return nil // nobody waits for it
		}
		return Reject(err)
	}
	data := e.Data
	if data == nil {
		data = []byte("null")
	}
	switch r.Effect {
	case EffectStart:
		known := perdure.Dedup(or(r.route.Known, 24*time.Hour))
		opts := []perdure.StartOption{perdure.ID(id), known}
		if trace := e.Extensions[event.ExtTrace]; trace != "" {
			opts = append(opts, perdure.Headers{event.ExtTrace: trace})
		}
		_, err = c.Start(ctx, r.Name, data, opts...)
	case EffectSignal:
		_, err = c.Send(ctx, id, r.Name, data, perdure.SendKey(e.Key()))
	default:
		return wake(ctx, c, e, r.Field, id)
	}
	switch journal.CodeOf(err) {
	case journal.CodeInvalid, journal.CodeConflict, journal.CodeTooLarge, journal.CodeDecode:
		return Reject(err)
	}
	return err
}

// id returns the workflow ID that an event is for; of a wake-up, the value of the field.
func (r *Registration) id(e *event.Event) (string, error) {
	switch {
	case r.route.ID != nil:
		return r.route.ID(e)
	case r.route.Field != "":
		return Field(e, r.route.Field)
	case r.Effect == EffectSignal:
		return e.Subject, nil
	}
	return e.ID, nil
}

// Field returns a field of an event's data, which is a text, a number or a boolean. Dots lead into
// objects: order.id.
func Field(e *event.Event, path string) (string, error) {
	at := json.RawMessage(e.Data)
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil || object[name] == nil {
			return "", fmt.Errorf("the data has no field %s", path)
		}
		at = object[name]
	}
	var v any
	if err := json.Unmarshal(at, &v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case float64, bool:
		return string(at), nil
	}
	return "", fmt.Errorf("field %s is no text, number or boolean", path)
}
