package orchestrator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/perdure/perdure/event"
)

// A Turn is the part of an event's handling that the handler sees and decides.
type Turn struct {
	Event     event.Event
	Parent    string // the subject of the instance that has started this one; empty for none
	Initiator string // who has sent the first event
	source    string // the orchestrator
	state     json.RawMessage
	ends      bool
	emits     []event.Event
}

// State decodes the state of the instance, and returns false if it has none yet.
func (t *Turn) State(v any) (bool, error) {
	if t.state == nil {
		return false, nil
	}
	return true, json.Unmarshal(t.state, v)
}

// Become sets the state that is stored when the handler returns.
func (t *Turn) Become(v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		t.state = data
	}
	return err
}

// Finish ends the instance: later events are ignored.
func (t *Turn) Finish() { t.ends = true }

// Emit sends an event when the handler has returned. Its ID follows from that of the event which is
// handled, its source is the orchestrator, and an empty subject means the same subject.
func (t *Turn) Emit(e event.Event) { t.emits = append(t.emits, e) }

// Begin sends the first event of a child: of an instance with a subject of its own, whose parent is
// this instance, and whose answer comes back to it.
func (t *Turn) Begin(e event.Event) {
	t.Emit(with(e, map[string]string{
		event.ExtParent: t.Event.Subject, event.ExtInitiator: t.source,
	}))
}

// Answer sends an event to the initiator: about its own instance if that is the parent of this one,
// and else about this one.
func (t *Turn) Answer(e event.Event) {
	if e.Subject == "" {
		e.Subject = t.Parent
	}
	t.Emit(with(e, map[string]string{event.ExtTo: t.Initiator}))
}

// with returns an event with more extensions. Those that it has stay, and empty ones are left out.
func with(e event.Event, more map[string]string) event.Event {
	all := map[string]string{}
	for name, value := range more {
		if value != "" {
			all[name] = value
		}
	}
	maps.Copy(all, e.Extensions)
	e.Extensions = all
	return e
}

// follow returns the n-th event that follows from an event, with its own attributes. Its ID is
// always the same.
func follow(n int, e event.Event, from *event.Event, source string) event.Event {
	sum := sha256.New()
	for _, s := range []string{from.Source, from.ID, from.Subject, source} {
		fmt.Fprintf(sum, "%d %s ", len(s), s)
	}
	e.ID = hex.EncodeToString(sum.Sum(nil)[:16]) + "-" + strconv.Itoa(n)
	e.Source = source
	if e.Subject == "" {
		e.Subject = from.Subject
	}
	more := map[string]string{event.ExtCause: from.ID}
	if e.Extensions[event.ExtTrace] == "" { // else it has a trace of its own
		more[event.ExtTrace] = from.Extensions[event.ExtTrace]
		more[event.ExtState] = from.Extensions[event.ExtState]
	}
	return with(e, more)
}
