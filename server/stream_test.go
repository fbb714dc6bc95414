package server_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
)

// A live is one server-sent event.
type live struct{ id, name, data string }

// A stream is an answer of server-sent events.
type stream struct {
	w      *world
	answer *http.Response
	lines  *bufio.Scanner
	last   string // the last ID
	beats  int    // the number of comments
}

// follow begins a stream behind the last ID, if there is one.
func (w *world) follow(ctx context.Context, path, last string) *stream {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url()+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.cookie != nil {
		r.AddCookie(w.cookie)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := w.client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.doc.check(w.t, w.server.Pattern(r), answer, nil)
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: status %d", path, answer.StatusCode)
	}
	s := &stream{w: w, answer: answer, lines: bufio.NewScanner(answer.Body), last: last}
	s.lines.Buffer(nil, 1<<20)
	return s
}

func (s *stream) close() { s.answer.Body.Close() }

// next returns the next event. It reports whether there is one.
func (s *stream) next() (e live, ok bool) {
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "id":
			e.id, s.last = value, value
		case "event":
			e.name = value
		case "data":
			e.data += value
		case "":
			if value != "" {
				s.beats++
			} else if e.data != "" {
				return e, true
			}
		}
	}
	return live{}, false
}

// rest returns the events to the end of the stream.
func (s *stream) rest() (all []live) {
	for e, ok := s.next(); ok; e, ok = s.next() {
		all = append(all, e)
	}
	return all
}
