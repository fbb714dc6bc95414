package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"

	"github.com/perdure/perdure/event"
)

// A message is an event for the SDK's writers. The event of the SDK itself has no part in it: it
// writes a source anew, and extensions as numbers.
type message struct {
	*event.Event
	json []byte // of structured mode; nil in binary mode
}

// ReadEncoding returns the mode.
func (m *message) ReadEncoding() binding.Encoding {
	if m.json != nil {
		return binding.EncodingStructured
	}
	return binding.EncodingBinary
}

// ReadStructured writes the event in structured mode.
func (m *message) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if m.json == nil {
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, format.JSON, bytes.NewReader(m.json))
}

// ReadBinary writes the event in binary mode.
func (m *message) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	for _, a := range spec.V1.Attributes() {
		if _, value := m.GetAttribute(a.Kind()); value != nil {
			if err := w.SetAttribute(a, value); err != nil {
				return err
			}
		}
	}
	for name := range m.Extensions {
		if err := w.SetExtension(name, m.GetExtension(name)); err != nil {
			return err
		}
	}
	if m.Data == nil {
		return nil
	}
	return w.SetData(bytes.NewReader(m.Data))
}

// GetAttribute returns the value of a header; nil for none.
func (m *message) GetAttribute(kind spec.Kind) (spec.Attribute, any) {
	a, value := spec.V1.AttributeFromKind(kind), m.attribute(kind)
	switch {
	case value == "":
		return a, nil
	case kind == spec.DataContentType: // it is the one header that is as it is
		return a, value
	}
	return a, encoded(value)
}

func (m *message) attribute(kind spec.Kind) string {
	switch kind {
	case spec.SpecVersion:
		return spec.V1.String()
	case spec.ID:
		return m.ID
	case spec.Source:
		return m.Source
	case spec.Type:
		return m.Type
	case spec.Subject:
		return m.Subject
	case spec.DataSchema:
		return m.Schema
	case spec.Time:
		if !m.Time.IsZero() {
			return m.Time.UTC().Format(time.RFC3339Nano)
		}
	case spec.DataContentType:
		if m.ContentType == "" && m.Data != nil {
			return "application/json"
		}
		return m.ContentType
	}
	return ""
}

// GetExtension returns the value of an extension's header; nil for none.
func (m *message) GetExtension(name string) any {
	if value, found := m.Extensions[name]; found {
		return encoded(value)
	}
	return nil
}

// Finish does nothing: the event is the caller's.
func (m *message) Finish(error) error { return nil }

// fits reports whether headers and a body can carry an event. They cannot say that there is data of
// no bytes, nor have any content type.
func fits(e *event.Event) bool {
	kind := e.ContentType
	return (e.Data == nil || len(e.Data) > 0) && strings.TrimSpace(kind) == kind &&
		!strings.ContainsFunc(kind, func(r rune) bool { return r < ' ' || r > '~' }) &&
		!isFormat(kind)
}

// isFormat reports whether a content type is one of CloudEvents, whose messages are in structured
// or batched mode.
func isFormat(contentType string) bool {
	return format.IsFormat(strings.ToLower(strings.TrimSpace(contentType)))
}

// A collector is an event that the SDK reads from a message in binary mode.
type collector struct {
	event.Event
	errs []error
}

// Start begins with an empty event.
func (c *collector) Start(context.Context) error { return nil }

// SetAttribute takes the value of a header.
func (c *collector) SetAttribute(a spec.Attribute, value any) error {
	raw, _ := value.(string)
	text := decoded(raw)
	switch a.Kind() {
	case spec.ID:
		c.ID = text
	case spec.Source:
		c.Source = text
	case spec.Type:
		c.Type = text
	case spec.Subject:
		c.Subject = text
	case spec.DataSchema:
		c.Schema = text
	case spec.DataContentType:
		c.ContentType = raw
	case spec.Time:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			c.errs = append(c.errs, fmt.Errorf(
				"time %.100q is not valid: write it as 2026-03-07T14:30:00Z", text))
		}
		c.Time = t
	}
	return nil
}

// SetExtension takes the value of an extension's header.
func (c *collector) SetExtension(name string, value any) error {
	raw, _ := value.(string)
	if c.Extensions == nil {
		c.Extensions = map[string]string{}
	}
	c.Extensions[name] = decoded(raw)
	return nil
}

// SetData reads the body.
func (c *collector) SetData(data io.Reader) (err error) {
	c.Data, err = io.ReadAll(data)
	return err
}

// End has nothing left to do.
func (c *collector) End(context.Context) error { return nil }
