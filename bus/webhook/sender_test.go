package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/webhook"
	"github.com/perdure/perdure/event"
)

// events returns events with IDs.
func events(ids ...string) (all []event.Event) {
	for _, id := range ids {
		all = append(all, event.Event{ID: id, Source: "/s", Type: "t"})
	}
	return all
}

// A receiver answers as it is told, and keeps the headers that came.
type receiver struct {
	code int
	text string
	got  []http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.got = append(r.got, q.Header)
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(r.code)
	io.WriteString(w, r.text)
}

// spec: F-10
func TestTheErrorFollowsFromTheAnswer(t *testing.T) {
	r := &receiver{text: "because\n" + strings.Repeat("x", 100_000)}
	s := &webhook.Sender{URLs: map[string]string{"orders": serve(t, r)}}
	for code, want := range map[int]struct{ fails, rejects, large bool }{
		200: {}, 202: {}, 204: {}, 299: {},
		301: {fails: true}, 307: {fails: true}, 308: {fails: true},
		400: {true, true, false}, 401: {fails: true}, 403: {fails: true}, 404: {fails: true},
		408: {fails: true}, 410: {fails: true}, 413: {true, true, true},
		415: {true, true, false}, 422: {true, true, false}, 425: {fails: true},
		429: {fails: true},
		500: {fails: true}, 502: {fails: true}, 503: {fails: true},
	} {
		r.code, r.got = code, nil
		err := s.Publish(t.Context(), "orders", events("7"))
		rejection := bus.Rejection(nil)
		if (err != nil) != want.fails || errors.As(err, &rejection) != want.rejects ||
			errors.Is(err, bus.ErrTooLarge) != want.large {
			t.Errorf("%d: %v", code, err)
		}
		if len(r.got) != 1 {
			t.Errorf("%d: %d requests", code, len(r.got))
		}
		if err == nil {
			continue
		}
		for _, part := range []string{`event "7"`, `"orders"`, fmt.Sprint(code), `because\nx`} {
			if text := err.Error(); !strings.Contains(text, part) || len(text) > 600 {
				t.Errorf("%d: %q does not have %q, or is too long", code, text, part)
			}
		}
	}
}

// spec: F-10
func TestEventsAreSentInOrderUntilOneFails(t *testing.T) {
	in := &inbox{}
	s := &webhook.Sender{URL: func(topic string) string {
		if topic != "a" {
			return ""
		}
		return serve(t, &webhook.Handler{Handle: in.take, Log: quiet()})
	}}
	if err := s.To("a")(t.Context(), events("1", "2", "3")); err != nil {
		t.Error(err)
	}
	if got := in.ids(); got != " 1 2 3" {
		t.Errorf("%s have come", got)
	}
	in.fails = func(e event.Event) error {
		if e.ID == "2" {
			return errors.New("x")
		}
		return nil
	}
	rejection := bus.Rejection(nil)
	err := s.Publish(t.Context(), "a", events("1", "2", "3"))
	if err == nil || !strings.Contains(err.Error(), `event "2"`) || errors.As(err, &rejection) {
		t.Error(err)
	}
	if got := in.ids(); got != " 1 2" {
		t.Errorf("%s have come", got)
	}
	err = s.Publish(t.Context(), "a", events("1", "", "3"))
	if !errors.As(err, &rejection) || in.ids() != "" {
		t.Error("an event with a defect:", err)
	}
	if err := s.Publish(t.Context(), "b", events("1")); err == nil ||
		errors.As(err, &rejection) || !strings.Contains(err.Error(), `topic "b" has no URL`) {
		t.Error(err)
	}
}

// spec: F-10
func TestHeadersGoWithEachEvent(t *testing.T) {
	r := &receiver{code: 204}
	s := &webhook.Sender{
		URLs:    map[string]string{"a": strings.Replace(serve(t, r), "://", "://user:b@", 1)},
		Headers: http.Header{"authorization": {"Bearer secret"}, "X": {"1", "2"}},
	}
	for _, s.Binary = range []bool{true, false} {
		r.got = nil
		e := events("a b", "2")
		e[0].Subject, e[0].Extensions = "Euro € 😀", map[string]string{event.ExtCause: `"%"`}
		if err := s.Publish(t.Context(), "a", e); err != nil || len(r.got) != 2 {
			t.Fatal(err, r.got)
		}
		for _, h := range r.got {
			if strings.Join(h["Authorization"], ",") != "Bearer secret" || len(h["X"]) != 2 {
				t.Errorf("headers %v", h)
			}
		}
		h := r.got[0]
		if !s.Binary {
			if h.Get("content-type") != single || h.Get("ce-id") != "" {
				t.Errorf("headers %v", h)
			}
			continue
		}
		if h.Get("ce-id") != "a%20b" || h.Get("ce-causationid") != "%22%25%22" ||
			h.Get("ce-subject") != "Euro%20%E2%82%AC%20%F0%9F%98%80" {
			t.Errorf("headers %v", h)
		}
	}
	for _, name := range []string{"content-type", "ce-id", "Ce-X"} {
		s.Headers, r.got = http.Header{name: {"x"}}, nil
		if err := s.Publish(t.Context(), "a", events("1")); err == nil || r.got != nil ||
			!strings.Contains(err.Error(), "is not allowed") {
			t.Error(name, err)
		}
	}
}

// spec: F-10
func TestNoErrorHasASecret(t *testing.T) {
	r := &receiver{code: 400}
	url := serve(t, r)
	const token, password, query = "t0ken-t0ken-t0ken-t0ken", "passw0rd", "qu3ry"
	full := strings.Replace(url, "://", "://user:"+password+"@", 1) + "/?access_token=" + query
	s := &webhook.Sender{
		URLs: map[string]string{
			"a": full, "down": strings.Replace(full, "127.0.0.1:", "127.0.0.1:1/", 1),
			"bad": "http://user:" + password + "@a b/", "scheme": "ftp://a/?access_token=" + query,
			"control": full + "\n", "host": "http:///?" + query,
		},
		Headers: http.Header{"Authorization": {"Bearer " + token}, "Empty": {""}},
	}
	for topic := range s.URLs {
		for _, r.text = range []string{
			"you sent Bearer " + token, token, "you sent " + token[:18] + "…", password, query,
			"harmless",
		} {
			err := s.Publish(t.Context(), topic, events("1"))
			if err == nil {
				t.Fatal(topic, "works")
			}
			valid := !strings.Contains(err.Error(), "is not valid: it begins with")
			if valid != (topic == "a" || topic == "down") {
				t.Errorf("%s: %v", topic, err)
			}
			for _, secret := range []string{token, token[:18], password, query} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s, %.50q: %v", topic, r.text, err)
				}
			}
			if quoted := strings.Contains(err.Error(), "harmless"); topic == "a" &&
				quoted != (r.text == "harmless") {
				t.Errorf("%.50q: %v", r.text, err)
			}
		}
	}
}

// spec: F-10
func TestAReceiverThatDoesNotAnswerIsAnError(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer close(release)
	rejection := bus.Rejection(nil)
	s := &webhook.Sender{
		URLs: map[string]string{"a": url}, Client: &http.Client{Timeout: time.Millisecond},
	}
	err := s.Publish(t.Context(), "a", events("1"))
	if err == nil || errors.As(err, &rejection) || strings.Contains(err.Error(), url) {
		t.Error(err)
	}
	s.Client = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Publish(ctx, "a", events("1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
