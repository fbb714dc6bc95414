package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/server/auth"
)

// live registers the routes of live events.
func (s liveRoutes) register() {
	s.stream(operation{
		id: "follow-execution", path: "/executions/{id}/events", group: "live",
		summary: "The journal of a run as it grows, as server-sent events",
		about: "Each event is an entry, and its ID the number of the entry. After Last-Event-ID " +
			"they go on behind it. The last event is named end.",
	}, s.follow)
	s.stream(operation{
		id: "follow-events", path: "/events", group: "live",
		summary: "What the engine of this process does, as server-sent events",
		about: "The parameters run, workflow and kind select events. The server remembers some " +
			"thousand events for Last-Event-ID. An event named reset means that some were " +
			"missed: read again what is shown.",
	}, s.followAll)
}

// stream registers a route of server-sent events, and documents it.
func (s liveRoutes) stream(o operation, h http.HandlerFunc) {
	o.method, o.need = http.MethodGet, auth.Viewer
	s.handle(o.method, base+o.path, route{name: o.id, need: o.need}, h)
	op := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: base + o.path, Summary: o.summary,
		Description: described(o), Tags: []string{o.group}, Extensions: roleOf(o),
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{
				"text/event-stream": {Schema: &huma.Schema{Type: "string"}},
			},
		}},
	}
	for _, part := range strings.Split(o.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: strings.TrimSuffix(name, "}"), In: "path", Required: true,
				Schema: &huma.Schema{Type: "string"},
			})
		}
	}
	s.api.OpenAPI().AddOperation(op)
}

// pageOfEvents is how many entries are read at a time.
const pageOfEvents = 500

// follow writes the entries of a run until it has ended.
func (s liveRoutes) follow(w http.ResponseWriter, r *http.Request) {
	after, err := lastNumber(r.Header.Get("Last-Event-ID"))
	if err != nil {
		problemOf(err).write(w)
		return
	}
	statuses, err := s.client.Statuses(r.Context(), r.PathValue("id"))
	if err == nil && !statuses[0].Found {
		_, err = s.client.Get(r.Context(), r.PathValue("id")) // the error has the reason
	}
	if err != nil {
		problemOf(err).write(w)
		return
	}
	e := s.begin(w, r, auth.Viewer)
	if e == nil {
		return
	}
	head := statuses[0].Head
	of, seen := api.JournalOf(head), int64(0)
	for wait := s.moreOf(string(head.ID)); ; {
		entries, err := s.client.History(r.Context(), string(head.ID), seen+1, pageOfEvents)
		if err != nil && len(entries) == 0 {
			e.send("", "problem", problemOf(err))
			return
		}
		for _, entry := range entries {
			shown := of.Entry(entry) // the names of scopes need all entries
			if seen = entry.Seq; seen > after && !e.send(strconv.FormatInt(seen, 10), "entry",
				shown) {
				return
			}
		}
		if len(entries) == pageOfEvents {
			continue
		}
		if n := len(entries); n > 0 && entries[n-1].Status.IsTerminal() || n == 0 && head.Status.
			IsTerminal() {
			e.send("", "end", Done{true})
			_ = e.conn.Flush() // the caller may be gone
			return
		}
		if !wait(e) {
			return
		}
	}
}

// moreOf returns a function that waits until a run may have more entries.
func (s liveRoutes) moreOf(run string) func(*events) bool {
	if s.o.Feed == nil {
		return func(e *events) bool { return e.pause(nil) }
	}
	last := s.o.Feed.last()
	return func(e *events) bool {
		for until := time.Now().Add(lookEvery); ; {
			all, now, missed, more := s.o.Feed.after(last)
			last = now
			if missed || slices.ContainsFunc(all, func(n observe.Notice) bool {
				return n.Run == run
			}) || !time.Now().Before(until) {
				return e.pause(closed)
			}
			if !e.pause(more) {
				return false
			}
		}
	}
}

// closed is a channel that is closed: there is no need to wait.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func lastNumber(id string) (int64, error) {
	if id == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("Last-Event-ID is not an ID of this stream")
	}
	return n, nil
}

// epoch is the process: its events have numbers of their own.
func (s liveRoutes) epoch() string { return strconv.FormatInt(s.began.UnixNano(), 36) }

// followAll writes what the feed gets.
func (s liveRoutes) followAll(w http.ResponseWriter, r *http.Request) {
	if s.o.Feed == nil {
		problem(http.StatusNotFound, string(journal.CodeNotFound),
			"this process has no engine whose events it could show",
			"ask a server that executes workflows").write(w)
		return
	}
	q := r.URL.Query()
	for name := range q {
		if name != "run" && name != "workflow" && name != "kind" {
			problem(http.StatusBadRequest, string(journal.CodeInvalid),
				"there is no parameter of that name: allowed are run, workflow and kind",
				"").write(w)
			return
		}
	}
	wanted := func(n observe.Notice) bool {
		any := func(name string, values ...string) bool {
			return !q.Has(name) || slices.Contains(values, q.Get(name))
		}
		return n.Run != "" && any("run", n.Run, n.WorkflowID) && any("workflow", n.Workflow) &&
			any("kind", string(n.Kind))
	}
	e := s.begin(w, r, auth.Viewer)
	if e == nil {
		return
	}
	last, reset := s.resume(r.Header.Get("Last-Event-ID"))
	for {
		all, now, missed, more := s.o.Feed.after(last)
		if (missed || reset) && !e.send("", "reset", Done{true}) {
			return
		}
		for i, n := range all {
			id := fmt.Sprintf("%s-%d", s.epoch(), now-int64(len(all)-1-i))
			if wanted(n) && !e.send(id, "notice", present.Event(n)) {
				return
			}
		}
		last, reset = now, false
		if len(all) > 0 {
			more = closed
		}
		if !e.pause(more) {
			return
		}
	}
}

// resume returns the number behind which a caller goes on. It reports whether the caller may have
// missed something.
func (s liveRoutes) resume(id string) (int64, bool) {
	if id == "" {
		return s.o.Feed.last(), false
	}
	epoch, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if epoch != s.epoch() || err != nil || n < 0 {
		return s.o.Feed.last(), true
	}
	return n, false
}
