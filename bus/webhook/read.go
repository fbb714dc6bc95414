package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// modeOf returns the mode of a message by its headers, or why there is none.
func modeOf(h http.Header) (binding.Encoding, *refusal) {
	if c := h.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return 0, refuse(http.StatusUnsupportedMediaType,
			"content-encoding %.100q is not supported: send the body as it is", c)
	}
	if len(h[cehttp.ContentType]) > 1 {
		return 0, refuse(http.StatusBadRequest, "header content-type is there twice")
	}
	kind := h.Get(cehttp.ContentType)
	switch f := format.Lookup(kind); {
	case f == format.JSON && isUnicode(kind):
		return binding.EncodingStructured, nil
	case f == format.JSONBatch && isUnicode(kind):
		return binding.EncodingBatch, nil
	case f == nil && !isFormat(kind) && hasAttribute(h):
		return binding.EncodingBinary, nil
	}
	return 0, refuse(http.StatusUnsupportedMediaType,
		"content-type %.100q is no CloudEvent: send %s, %s, or the attributes as headers, such as "+
			"ce-specversion", kind, format.JSON.MediaType(), format.JSONBatch.MediaType())
}

// isUnicode reports whether the charset of a content type is UTF-8.
func isUnicode(contentType string) bool {
	_, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	return err == nil && (charset == "" || charset == "utf-8" || charset == "us-ascii")
}

// prefix begins the name of an attribute's header.
const prefix = "Ce-"

func hasAttribute(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// read returns the events of a message, or all that is wrong with them.
func read(mode binding.Encoding, h http.Header, body []byte) ([]event.Event, error) {
	switch mode {
	case binding.EncodingBatch:
		return batched(body)
	case binding.EncodingStructured:
		m := bus.Decode(body)
		return []event.Event{m.Event}, m.Bad
	}
	e, err := binary(h, body)
	return []event.Event{e}, err
}

// batched returns the events of a batch. One that has a defect spoils all of them.
func batched(body []byte) ([]event.Event, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, fmt.Errorf("a batch is a JSON array of events: %w", err)
	}
	if raw == nil {
		return nil, errors.New("a batch is a JSON array of events: it is null")
	}
	all := make([]event.Event, len(raw))
	var errs []error
	for i := range raw {
		m := bus.Decode(raw[i])
		all[i] = m.Event
		if m.Bad != nil {
			errs = append(errs, fmt.Errorf("event %d of the batch: %w", i+1, m.Bad))
		}
	}
	return all, errors.Join(errs...)
}

// binary returns the event of a message in binary mode.
func binary(h http.Header, body []byte) (event.Event, error) {
	c, own := collector{}, http.Header{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		switch values := h[name]; {
		case name == prefix: // the SDK would panic
			c.errs = append(c.errs, errors.New("header ce- has no name behind it"))
		case name != cehttp.ContentType && !strings.HasPrefix(name, prefix):
		case len(values) > 1:
			c.errs = append(c.errs, fmt.Errorf("header %.100q is there twice", name))
			fallthrough
		default:
			own[name] = values[:1]
		}
	}
	version := http.CanonicalHeaderKey(prefix + spec.SpecVersion.String())
	if v := own.Get(version); decoded(v) != spec.V1.String() {
		c.errs = append(c.errs, fmt.Errorf("specversion %.100q is not valid: it is 1.0", v))
	}
	own.Set(version, spec.V1.String()) // so that the other defects are found, too
	var data io.ReadCloser
	if len(body) > 0 {
		data = io.NopCloser(bytes.NewReader(body))
	}
	err := cehttp.NewMessage(own, data).ReadBinary(context.Background(), &c)
	return c.Event, errors.Join(errors.Join(c.errs...), err, c.Check())
}
