package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/webhook"
	"github.com/perdure/perdure/event"
)

var _ bus.Sender = (*webhook.Sender)(nil)

// An inbox is a handler's function that keeps what it gets.
type inbox struct {
	mu     sync.Mutex
	events []event.Event
	fails  func(e event.Event) error // nil for never
}

func (b *inbox) take(_ context.Context, e event.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	if b.fails != nil {
		return b.fails(e)
	}
	return nil
}

// taken returns the events since the last call.
func (b *inbox) taken() []event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.events
	b.events = nil
	return all
}

// ids returns the IDs of the events since the last call, each behind a space.
func (b *inbox) ids() (all string) {
	for _, e := range b.taken() {
		all += " " + e.ID
	}
	return all
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// An answer is the answer to a request.
type answer struct {
	code   int
	header http.Header
	text   string
}

// ask sends a request with headers, which are names and values in turn.
func ask(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

var at = time.Date(2026, 3, 7, 14, 30, 0, 123456789, time.UTC)

// samples are events that have to come out as they went in.
func samples() map[string]event.Event {
	least := event.Event{ID: "1", Source: "/s", Type: "t"}
	with := func(change func(e *event.Event)) event.Event {
		e := least
		change(&e)
		return e
	}
	return map[string]event.Event{
		"the least": least,
		"all attributes": {
			ID: "a-1", Source: "https://shop.example/orders?a=1&b=%2F#c", Type: "order.placed",
			Subject: "order/7", Time: at, Schema: "https://shop.example/v1?x=%20",
			ContentType: "application/json; charset=utf-8", Data: []byte(`{"a":[1,2.50,null]}`),
			Extensions: map[string]string{
				event.ExtTrace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
				"tracestate":   "a=1,b=2", "x1": "true", "9": "1.5", "big": "123456789012345678",
			},
		},
		"unicode": with(func(e *event.Event) {
			e.ID, e.Source, e.Type = "ü 1", "/läden/€?q=ö%2F", "größe"
			e.Subject = " \"日本\" 😀 100%41\\ "
			e.Extensions = map[string]string{"x": "a, b; c=\"d\"", "y": "%", "z": "%zz \u00a0"}
			e.Data = []byte(`"日本 "`)
		}),
		"a quoted subject": with(func(e *event.Event) { e.Subject = `"a"` }),
		"text": with(func(e *event.Event) {
			e.ContentType, e.Data = "text/plain; charset=utf-8", []byte("héllo\r\n")
		}),
		"bytes": with(func(e *event.Event) {
			e.ContentType, e.Data = "application/octet-stream", []byte{0, 255, 10, 13, 34}
		}),
		"no bytes of data": with(func(e *event.Event) {
			e.ContentType, e.Data = "application/octet-stream", []byte{}
		}),
		"null": with(func(e *event.Event) {
			e.ContentType, e.Data = "application/json", []byte("null")
		}),
		"a type without data": with(func(e *event.Event) { e.ContentType = "text/csv" }),
		"an event as data": with(func(e *event.Event) {
			e.ContentType, e.Data = "application/cloudevents+json", []byte(`{"id":"inner"}`)
		}),
		"a batch as data": with(func(e *event.Event) {
			e.ContentType, e.Data = "Application/CloudEvents-Batch+json", []byte(`[]`)
		}),
		"a content type of unicode": with(func(e *event.Event) {
			e.ContentType, e.Data = "text/plain; name=ü", []byte("a")
		}),
		"a content type with a percent sign": with(func(e *event.Event) {
			e.ContentType, e.Data = `text/plain; name="%41"`, []byte("a")
		}),
		"a content type with spaces": with(func(e *event.Event) {
			e.ContentType, e.Data = " text/plain ", []byte("a")
		}),
	}
}

// spec: F-10, F-11
func TestEventsComeOutAsTheyWentIn(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take})
	for name, e := range samples() {
		for _, binary := range []bool{false, true} {
			s := &webhook.Sender{URLs: map[string]string{"a": url}, Binary: binary}
			if err := s.Publish(t.Context(), "a", []event.Event{e}); err != nil {
				t.Errorf("%s, binary %v: %v", name, binary, err)
				continue
			}
			want := e
			if binary && e.ContentType == "" && e.Data != nil {
				want.ContentType = "application/json" // as it is documented
			}
			if got := in.taken(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("%s, binary %v: %+v has come, want %+v", name, binary, got, want)
			}
		}
	}
}

// spec: F-11
func TestABatchComesInAsItWentOut(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take})
	var sent []event.Event
	for _, e := range samples() {
		sent = append(sent, e)
	}
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	a := ask(t, "POST", url, string(body), "content-type",
		"application/cloudevents-batch+json; charset=UTF-8")
	if a.code != 204 || a.text != "" {
		t.Errorf("answer %+v", a)
	}
	if got := in.taken(); !reflect.DeepEqual(got, sent) {
		t.Errorf("%+v has come, want %+v", got, sent)
	}
	if a := ask(t, "POST", url, "[]", "content-type", batch); a.code != 204 {
		t.Errorf("an empty batch: %+v", a)
	}
}

const (
	single = "application/cloudevents+json"
	batch  = "application/cloudevents-batch+json"
)
