// Package event has CloudEvents of version 1.0: the events that come in from outside, and those
// that go out.
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// An Event is a CloudEvent of version 1.0, as https://github.com/cloudevents/spec defines it. Its
// JSON is that of the structured mode. Two events with one source and one ID are the same event.
type Event struct {
	ID      string
	Source  string // a URI reference: who has sent it
	Type    string
	Subject string    // the instance that it is about
	Time    time.Time // when it happened; zero if it does not say so
	Schema  string    // a URI of the schema of the data; empty for none
	// ContentType is the media type of the data. Empty means JSON.
	ContentType string
	Data        []byte // nil for none
	// Extensions are further attributes, such as traceparent. Names are of a to z and 0 to 9.
	Extensions map[string]string
}

// The names of extensions that orchestrators read and set.
const (
	ExtParent    = "parentsubject" // the subject of the instance that has started this one
	ExtInitiator = "initiator"     // who has sent the first event of the instance
	ExtReplyTo   = "replyto"       // who wants the answer, in place of the source
	ExtTo        = "to"            // the only one that the event is for
	ExtCause     = "causationid"   // the ID of the event that this one follows from
	ExtTrace     = "traceparent"   // see W3C Trace Context
	ExtState     = "tracestate"    // belongs to traceparent
)

// Kind is the kind ([perdure.Event].Kind) of what a run emits that is an event of this package: its
// data is the event in JSON.
const Kind = "CLOUD_EVENT"

// own are the attributes that are no extensions.
var own = []string{
	"specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype",
	"data", "data_base64",
}

// Check returns all defects of an event, joined; nil if it has none.
func (e *Event) Check() error {
	var all []error
	add := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	for _, a := range [][2]string{{"id", e.ID}, {"source", e.Source}, {"type", e.Type}} {
		if a[1] == "" {
			add("%s is missing", a[0])
		}
	}
	for _, a := range [][2]string{
		{"id", e.ID}, {"source", e.Source}, {"type", e.Type}, {"subject", e.Subject},
		{"dataschema", e.Schema}, {"datacontenttype", e.ContentType},
	} {
		if !validAttribute(a[1]) {
			add("%s %.100q is not valid: allowed is text without control characters", a[0], a[1])
		}
	}
	if _, err := url.Parse(e.Source); err != nil {
		add("source %.100q is not valid: it is a URI reference", e.Source)
	}
	if u, err := url.Parse(e.Schema); e.Schema != "" && (err != nil || !u.IsAbs()) {
		add("dataschema %.100q is not valid: it is an absolute URI", e.Schema)
	}
	if y := e.Time.UTC().Year(); !e.Time.IsZero() && (y < 1 || y > 9999) {
		add("time is not valid: its year is %d", y)
	}
	if e.Data != nil && e.IsJSON() && !json.Valid(e.Data) {
		add("data is not JSON, as datacontenttype says")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		switch value := e.Extensions[name]; {
		case !validExtension(name):
			add("extension %.100q is not valid: allowed are names of a to z and 0 to 9 that no "+
				"attribute has", name)
		case value == "" || !validAttribute(value):
			add("extension %s %.100q is not valid: allowed is text without control characters",
				name, value)
		}
	}
	return errors.Join(all...)
}

// Key returns 32 hexadecimal digits that are the same for the same event, which is one of the same
// source and ID.
func (e *Event) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(e.Source), e.Source, e.ID))
	return hex.EncodeToString(sum[:16])
}

// IsJSON reports whether the content type is that of JSON.
func (e *Event) IsJSON() bool {
	media, _, _ := strings.Cut(e.ContentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == "application/json" || media == "text/json" ||
		strings.HasSuffix(media, "+json")
}

// validAttribute reports whether a text may be the value of an attribute.
func validAttribute(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r == utf8.RuneError ||
			r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
	})
}

func validExtension(name string) bool {
	return name != "" && len(name) <= 100 && !slices.Contains(own, name) &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9')
		})
}

// MarshalJSON returns the event in the JSON format of CloudEvents. It refuses an event with a
// defect.
func (e Event) MarshalJSON() ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	all := map[string]any{"specversion": "1.0", "id": e.ID, "source": e.Source, "type": e.Type}
	for name, value := range map[string]string{
		"subject": e.Subject, "dataschema": e.Schema, "datacontenttype": e.ContentType,
	} {
		if value != "" {
			all[name] = value
		}
	}
	if !e.Time.IsZero() {
		all["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	switch {
	case e.Data == nil:
	case e.IsJSON():
		all["data"] = json.RawMessage(e.Data)
	default:
		all["data_base64"] = e.Data
	}
	for name, value := range e.Extensions {
		all[name] = value
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads an event in the JSON format of CloudEvents. It returns all defects of the
// event, joined. Extensions that are numbers or booleans are kept as their texts.
func (e *Event) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw == nil {
		return errors.New("an event is a JSON object")
	}
	*e = Event{}
	r := attributes{raw: raw}
	if v := r.text("specversion"); v != "1.0" {
		r.add("specversion %.100q is not valid: it is 1.0", v)
	}
	e.ID, e.Source, e.Type, e.Subject = r.text("id"), r.text("source"), r.text("type"),
		r.text("subject")
	e.Schema, e.ContentType = r.text("dataschema"), r.text("datacontenttype")
	if at := r.text("time"); at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			r.add("time %.100q is not valid: write it as 2026-03-07T14:30:00Z", at)
		}
		e.Time = t
	}
	r.data(e)
	for name := range raw {
		if slices.Contains(own, name) {
			continue
		}
		if value := r.scalar(name); value != "" {
			if e.Extensions == nil {
				e.Extensions = map[string]string{}
			}
			e.Extensions[name] = value
		}
	}
	return errors.Join(errors.Join(r.errs...), e.Check())
}

// An attributes reads the members of an event.
type attributes struct {
	raw  map[string]json.RawMessage
	errs []error
}

func (a *attributes) add(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

// has returns a member; null counts as none.
func (a *attributes) has(name string) (json.RawMessage, bool) {
	v, found := a.raw[name]
	return v, found && string(v) != "null"
}

func (a *attributes) text(name string) (s string) {
	if v, found := a.has(name); found && json.Unmarshal(v, &s) != nil {
		a.add("%s is not valid: it is a text", name)
	}
	return s
}

// scalar returns the text of a member that is a text, a number or a boolean.
func (a *attributes) scalar(name string) string {
	v, found := a.has(name)
	switch {
	case !found:
		return ""
	case v[0] == '"':
		return a.text(name)
	case v[0] == '{' || v[0] == '[':
		a.add("extension %.100q is not valid: it is a text, a number or a boolean", name)
		return ""
	}
	return string(v)
}

// data reads the data of an event, whose content type is known.
func (a *attributes) data(e *Event) {
	plain, isPlain := a.raw["data"]
	coded, isCoded := a.has("data_base64")
	switch {
	case isPlain && isCoded:
		a.add("data and data_base64 are two ways to give the data: one is allowed")
	case isCoded:
		if e.Data = []byte{}; json.Unmarshal(coded, &e.Data) != nil {
			a.add("data_base64 is not valid: it is base64")
		}
	case isPlain && e.IsJSON():
		e.Data = plain
	case isPlain:
		e.Data = []byte(a.text("data"))
	}
}
