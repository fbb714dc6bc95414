package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// A Sender is a [bus.Sender] that sends each event to a URL by POST. An event is sent when the
// receiver has answered with a status of 200 to 299. How durable it is then is up to the receiver.
//
// A sender tries once: who calls it repeats, as an engine does with its publisher. An error is a
// [bus.Rejection] if another try does not change it: for an event with a defect, and for a status
// of 400, 413, 415 or 422. For 413 it is a [bus.ErrTooLarge], too. Redirects are not followed; they
// are errors.
//
// No error has the headers, the URL, or an answer that repeats a value of the headers or of the
// URL's password and query. Its fields do not change once it has published.
type Sender struct {
	URLs map[string]string // by topic
	// URL returns the URL of a topic that URLs does not have; empty for none. Nil means that there
	// are no others.
	URL func(topic string) string
	// Binary sends an event as headers and a body, where they can carry it, and an empty content
	// type as application/json. Else an event is sent as JSON, in structured mode.
	Binary bool
	// Headers are added to each request, such as Authorization. Content-Type and headers that begin
	// with ce- are not allowed: they are of the event.
	Headers http.Header
	// Client sends the requests, for other transports and times. Nil means one that takes 30 s at
	// most.
	Client *http.Client
}

// To returns a function that publishes to a topic: the Publish of an orchestrator.
func (s *Sender) To(topic string) func(ctx context.Context, events []event.Event) error {
	return func(ctx context.Context, events []event.Event) error {
		return s.Publish(ctx, topic, events)
	}
}

// Publish sends events to the URL of a topic, one after the other. It sends none if one has a
// defect. After another error, those before the one that it names are sent, and those behind it are
// not.
func (s *Sender) Publish(ctx context.Context, topic string, events []event.Event) error {
	to, err := s.target(topic)
	if err != nil {
		return err
	}
	for i := range events {
		if err := events[i].Check(); err != nil {
			return bus.Reject(fmt.Errorf("webhook: event %.100q: %w", events[i].ID, err))
		}
	}
	client := s.client()
	for i := range events {
		if err := s.post(ctx, client, to, &events[i]); err != nil {
			return fmt.Errorf("webhook: event %.100q to topic %.100q: %w", events[i].ID, topic, err)
		}
	}
	return nil
}

// target returns the URL of a topic. Its error does not have the URL, which may have a secret.
func (s *Sender) target(topic string) (*url.URL, error) {
	raw := s.URLs[topic]
	if raw == "" && s.URL != nil {
		raw = s.URL(topic)
	}
	if raw == "" {
		return nil, fmt.Errorf("webhook: topic %.100q has no URL", topic)
	}
	to, err := url.Parse(raw)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, fmt.Errorf("webhook: the URL of topic %.100q is not valid: it begins with "+
			"https:// or http:// and a host", topic)
	}
	for name := range s.Headers {
		if name = http.CanonicalHeaderKey(name); name == cehttp.ContentType ||
			strings.HasPrefix(name, prefix) {
			return nil, fmt.Errorf("webhook: header %.100q is not allowed: it is of the event",
				name)
		}
	}
	return to, nil
}

// client returns a client that follows no redirects.
func (s *Sender) client() *http.Client {
	c := http.Client{Timeout: 30 * time.Second}
	if s.Client != nil {
		c = *s.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// post sends an event.
func (s *Sender) post(ctx context.Context, c *http.Client, to *url.URL, e *event.Event) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return cause(err)
	}
	m := message{Event: e}
	if !s.Binary || !fits(e) {
		if m.json, err = json.Marshal(e); err != nil {
			return err
		}
	}
	if err := cehttp.WriteRequest(ctx, &m, r); err != nil {
		return err
	}
	for name, values := range s.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	answer, err := c.Do(r)
	if err != nil {
		return cause(err)
	}
	defer answer.Body.Close()
	return s.judge(answer, to)
}

// cause returns an error without the URL.
func cause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// maxAnswer limits what is read of an answer. If there is no more, its connection is used again.
const maxAnswer = 16 << 10

// judge returns the error of an answer; nil if the event is sent.
func (s *Sender) judge(answer *http.Response, to *url.URL) error {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // what came of it is enough
	code := answer.StatusCode
	if code >= 200 && code <= 299 {
		return nil
	}
	err := fmt.Errorf("the receiver answers %d %s%s", code, http.StatusText(code),
		s.quoted(string(body), to))
	switch code {
	case http.StatusRequestEntityTooLarge:
		return bus.Reject(fmt.Errorf("%w: %w", bus.ErrTooLarge, err))
	case http.StatusBadRequest, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity: // it is about the event
		return bus.Reject(err)
	}
	return err // a secret that is not valid yet, or a receiver that is not there, may pass
}

// quoted returns the beginning of an answer's body for an error. It is empty if the body is, and if
// it repeats a secret.
func (s *Sender) quoted(body string, to *url.URL) string {
	body = strings.TrimSpace(body)
	if body == "" {
		return ""
	}
	for _, secret := range s.secrets(to) {
		// The beginning is enough: who repeats it may have cut it.
		if strings.Contains(body, secret[:min(len(secret), 16)]) {
			return ", and repeats a secret"
		}
	}
	return fmt.Sprintf(": %.300q", body)
}

// secrets returns the values that no error may have, whole and without a first word such as Bearer.
func (s *Sender) secrets(to *url.URL) []string {
	var all []string
	add := func(values ...string) {
		for _, v := range values {
			words := strings.Fields(v)
			if len(words) > 0 {
				all = append(all, v, words[len(words)-1])
			}
		}
	}
	for _, values := range s.Headers {
		add(values...)
	}
	for _, values := range to.Query() {
		add(values...)
	}
	if password, is := to.User.Password(); is {
		add(password)
	}
	return all
}
