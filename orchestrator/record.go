package orchestrator

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/perdure/perdure/event"
)

// A Record is the whole of what a memory keeps of an instance. It is written as one value. So a
// crash leaves no state without the events that follow from it, and consumes no event twice.
type Record struct {
	State  json.RawMessage `json:"state,omitempty"` // of the handler; nil for none
	Ended  End             `json:"ended,omitempty"`
	Broken string          `json:"broken,omitempty"` // the error of the handler
	// Version is the URI of the version that the instance has begun with.
	Version string `json:"version,omitempty"`
	// The subject of the instance that has started this one; empty for none.
	Parent string `json:"parent,omitempty"`
	// Who has sent the first event, and hears of errors.
	Initiator string `json:"initiator,omitempty"`
	// Outbox are the events of the handler that may not be emitted yet, in order.
	Outbox []event.Event `json:"outbox,omitempty"`
	// Unclean means that the instance has finished, and the memory may not have cleaned up yet.
	Unclean bool `json:"unclean,omitempty"`
	// Seen has when each event was consumed, in seconds since 1970, by a short form of the event's
	// key. An event takes some 30 bytes of it, for as long as it is remembered.
	Seen map[string]int64 `json:"seen,omitempty"`
}

// An End is how an instance has ended; empty while it goes on.
type End string

// The ends.
const (
	InstanceFinished End = "finished" // the handler has come to its end
	InstanceBroken   End = "broken"   // the handler has returned an error
)

// begun returns the record of an instance that an event creates.
func begun(e *event.Event) Record {
	return Record{
		Parent:    e.Extensions[event.ExtParent],
		Initiator: cmp.Or(e.Extensions[event.ExtInitiator], e.Source),
	}
}

// Rest returns the record without the state of the handler: what has to stay after a clean-up.
func (r Record) Rest() Record {
	r.State = nil
	return r
}

// has reports whether an event was consumed.
func (r *Record) has(e *event.Event) bool {
	_, found := r.Seen[short(e)]
	return found
}

// short returns a short form of an event's key: 96 bits of it.
func short(e *event.Event) string {
	key, _ := hex.DecodeString(e.Key()) // it is hexadecimal
	return base64.RawURLEncoding.EncodeToString(key[:12])
}

// consumes returns the record after an event, without the events that are forgotten by now.
func (r Record) consumes(e *event.Event, now time.Time, remember time.Duration) Record {
	seen := map[string]int64{short(e): now.Unix()}
	for key, at := range r.Seen {
		if now.Sub(time.Unix(at, 0)) <= remember {
			seen[key] = at
		}
	}
	r.Seen = seen
	return r
}
