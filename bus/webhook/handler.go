package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
)

// A Handler is an [http.Handler] that takes events in. It answers a POST with
//
//   - 204 when all of its events are handled,
//   - 400 for what is no event, and for events that were rejected; the text names all defects,
//   - 401 if it is not authorized, 413 if it is too large, 415 if its media type is none of
//     CloudEvents, 408 if its body does not come,
//   - 503 with Retry-After for any other error: the sender sends it again.
//
// Of a batch that has an event with a defect, no event is handled. Else its events are handled in
// order. One that is rejected does not hold up those behind it; any other error ends the batch.
// Those before it are handled then, and the sender sends the whole batch again: Handle has to know
// the events that it has seen, as it has with every sender that repeats.
//
// The time that a body may take is set by the server: give it a ReadTimeout, or slow senders hold
// connections and memory as long as they like. How many requests are served at once is up to the
// server, too.
type Handler struct {
	// Handle returns nil when the event is done, and that is durable. The error is a
	// [bus.Rejection] if another try does not change it. A panic is an error. Its context ends with
	// the request.
	Handle func(ctx context.Context, e event.Event) error
	// Authorize returns why a request must not send events; nil if it may. The sender does not see
	// the reason. It may read the body, as the check of a signature does. Nil means that anyone who
	// reaches the handler can send events.
	Authorize func(r *http.Request) error
	// MaxBytes limits a body, which may be a whole batch. 0 means 1 MiB. Headers are limited by the
	// server.
	MaxBytes int64
	// Origins are the senders, such as shop.example, that may deliver after they have asked for it
	// by OPTIONS: see https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md.
	// The element * allows all, and none means that nobody is allowed. This protects others from
	// being sent what they did not ask for, and nothing here: for that there is Authorize, which is
	// not asked about OPTIONS.
	Origins []string
	// Rate is how many requests a minute the answer to OPTIONS allows. 0 means any number. Nothing
	// counts them.
	Rate int
	Log  *slog.Logger // nil means slog.Default
}

const (
	maxBytes   = 1 << 20
	maxText    = 4 << 10 // of an answer
	retryAfter = 5       // seconds
)

// A refusal is an answer to a request that is not handled.
type refusal struct {
	code int
	text string
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP handles a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "private, no-store")
	var no *refusal
	switch r.Method {
	case http.MethodOptions:
		h.shake(w, r)
		return
	case http.MethodPost:
		no = h.post(w, r)
	default:
		w.Header().Set("Allow", methods)
		no = refuse(http.StatusMethodNotAllowed, "send events with POST")
	}
	if no == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	switch no.code {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, shortened(no.text), no.code)
}

// shortened returns a text that is not too long for an answer.
func shortened(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// post handles the events of a request.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) *refusal {
	limit := h.MaxBytes
	if limit == 0 {
		limit = maxBytes
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	var body bytes.Buffer
	source := io.TeeReader(http.MaxBytesReader(w, r.Body, limit), &body)
	if no := h.authorize(r, source); no != nil {
		return no
	}
	mode, no := modeOf(r.Header)
	if no != nil {
		return no
	}
	if _, err := io.Copy(io.Discard, source); err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			return tooLarge(limit)
		}
		h.log().DebugContext(r.Context(), "webhook: a body did not come", "error", err)
		return refuse(http.StatusRequestTimeout, "the body did not come")
	}
	all, err := read(mode, r.Header, body.Bytes())
	if err != nil {
		h.log().DebugContext(r.Context(), "webhook: no event", "error", err)
		return refuse(http.StatusBadRequest, "%v", err)
	}
	return h.handle(r.Context(), all)
}

func tooLarge(limit int64) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "the body is too large: allowed are %d bytes",
		limit)
}

// authorize asks whether a request may send events. What is read of its body is kept.
func (h *Handler) authorize(r *http.Request, body io.Reader) *refusal {
	if h.Authorize == nil {
		return nil
	}
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(body)
	err := guard.Call(func() error { return h.Authorize(asked) })
	switch {
	case err == nil:
		return nil
	case guard.AbortOf(err) != nil:
		h.log().WarnContext(r.Context(), "webhook: Authorize failed", "error", err)
		return refuse(http.StatusServiceUnavailable, "send it again")
	}
	h.log().DebugContext(r.Context(), "webhook: not authorized", "error", guard.Text(err))
	return refuse(http.StatusUnauthorized, "not authorized")
}

// handle handles events in order.
func (h *Handler) handle(ctx context.Context, events []event.Event) *refusal {
	var rejected []string
	for i := range events {
		e := &events[i]
		rejects, err := h.one(ctx, *e)
		if err == nil {
			continue
		}
		text := guard.Text(err)
		h.log().WarnContext(ctx, "webhook: event failed", "id", e.ID, "source", e.Source,
			"rejected", rejects, "error", text)
		if !rejects {
			return refuse(http.StatusServiceUnavailable,
				"event %d, %.100q, was not handled: send it again", i+1, e.ID)
		}
		rejected = append(rejected, fmt.Sprintf("event %d, %.100q, is rejected: %s", i+1, e.ID,
			text))
	}
	if rejected == nil {
		return nil
	}
	return &refusal{http.StatusBadRequest, strings.Join(rejected, "\n")}
}

// one handles an event. It reports whether an error is a rejection.
func (h *Handler) one(ctx context.Context, e event.Event) (rejects bool, err error) {
	err = guard.Call(func() error {
		err := h.Handle(ctx, e)
		rejects = bus.Rejects(err)
		return err
	})
	return rejects && guard.AbortOf(err) == nil, err
}

func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.Default()
	}
	return h.Log
}
