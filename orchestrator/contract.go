package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/event"
)

// A Version is one version of an orchestrator: the contract of its events, and its handler. An
// instance stays on the version that it began with.
type Version struct {
	// URI names the version. An event that creates an instance asks for a version by its schema
	// (dataschema); without one it gets the newest version.
	URI string
	// Initial are the types of events that create an instance. A stateless handler has none.
	Initial []string
	// Accepts has the types of events that the handler takes, each with the schema of its data. A
	// nil schema allows any data. A nil map allows all types. [SystemError] is always allowed.
	Accepts map[string]Schema
	// Emits has the types of events that the handler may emit, in the same way.
	Emits map[string]Schema
	// Handle is called with one event at a time for a subject. After a crash it may be called again
	// with an event: only one call has an effect on the state and the events. An error, or a panic,
	// marks the instance as broken, and is sent to the initiator; but see [Again].
	Handle func(ctx context.Context, t *Turn) error
}

// A Schema checks the data of events. Package event/schema has JSON schemas. Many goroutines use
// it.
type Schema interface {
	// Check returns an error that names each place where the data does not match.
	Check(data json.RawMessage) error
}

// SystemError is the type of the event by which an initiator hears of a broken instance. Its data
// is an object with "error".
const SystemError = "sys.orchestrator.error"

// check returns how an event breaks the contract of one direction.
func check(e *event.Event, types map[string]Schema, does string) error {
	schema, found := types[e.Type]
	switch {
	case types == nil, e.Type == SystemError:
		return nil
	case !found:
		return fmt.Errorf("type %.100q is not valid: the contract %s %s", e.Type, does,
			strings.Join(slices.Sorted(maps.Keys(types)), ", "))
	case schema == nil:
		return nil
	case !e.IsJSON():
		return fmt.Errorf("datacontenttype %.100q is not valid: the contract wants JSON",
			e.ContentType)
	}
	if err := schema.Check(e.Data); err != nil {
		return fmt.Errorf("data of %s: %w", e.Type, err)
	}
	return nil
}

// contract returns the contract of the version for people and tools.
func (v *Version) contract() definition.Contract {
	return definition.Contract{
		URI: v.URI, Initial: v.Initial, Accepts: types(v.Accepts), Emits: types(v.Emits),
	}
}

// types returns the types of one direction, sorted; nil for all types.
func types(of map[string]Schema) []definition.EventType {
	if of == nil {
		return nil
	}
	all := make([]definition.EventType, 0, len(of))
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		t := definition.EventType{Type: kind, Checked: of[kind] != nil}
		if s, has := of[kind].(interface{ Text() json.RawMessage }); has && json.Valid(s.Text()) {
			t.Schema = s.Text()
		}
		all = append(all, t)
	}
	return all
}

// defects returns all defects of a version.
func (v *Version) defects() error {
	var all []error
	if v.Handle == nil {
		all = append(all, fmt.Errorf("version %q has no handler", v.URI))
	}
	for _, kind := range v.Initial {
		if _, found := v.Accepts[kind]; v.Accepts != nil && !found {
			all = append(all, fmt.Errorf(
				"version %q has the initial type %q, and does not accept it", v.URI, kind))
		}
	}
	return errors.Join(all...)
}

// A versions has the versions of an orchestrator or stateless handler, the newest last.
type versions []Version

// defects returns all defects of the versions.
func (vs versions) defects() error {
	var all []error
	if len(vs) == 0 {
		all = append(all, errors.New("there is no version"))
	}
	seen := map[string]bool{}
	for i := range vs {
		if seen[vs[i].URI] {
			all = append(all, fmt.Errorf("two versions have the URI %q", vs[i].URI))
		}
		seen[vs[i].URI] = true
		all = append(all, vs[i].defects())
	}
	return errors.Join(all...)
}

// of returns the version of a URI; the newest one for none.
func (vs versions) of(uri string) (*Version, error) {
	if len(vs) == 0 {
		return nil, errors.New("there is no version")
	}
	if uri == "" {
		return &vs[len(vs)-1], nil
	}
	known := make([]string, len(vs))
	for i := range vs {
		if vs[i].URI == uri {
			return &vs[i], nil
		}
		known[i] = fmt.Sprintf("%q", vs[i].URI)
	}
	return nil, fmt.Errorf("version %.100q is not known: allowed are %s", uri,
		strings.Join(known, ", "))
}

// refuse returns how an event breaks the contract whatever its instance is, as a [Violation].
func (vs versions) refuse(e *event.Event) error {
	var all []error
	for i := range vs {
		err := check(e, vs[i].Accepts, "accepts")
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	if len(all) == 0 {
		return nil
	}
	return &Violation{e.ID, all[len(all)-1]}
}

// creates reports whether a type of event creates an instance, with any of the versions.
func (vs versions) creates(kind string) bool {
	return slices.ContainsFunc(vs, func(v Version) bool { return slices.Contains(v.Initial, kind) })
}
