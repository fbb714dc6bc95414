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

// parameter returns a parameter of a route that huma does not answer.
func parameter(in, name, about string) *huma.Param {
	return &huma.Param{
		Name: name, In: in, Required: in == "path", Description: about,
		Schema: &huma.Schema{Type: huma.TypeString},
	}
}

// lastEventID is the header with which a caller goes on.
var lastEventID = parameter("header", "Last-Event-ID",
	"the ID of the last event that the caller has seen")

// register registers the routes of live events.
func (s liveRoutes) register() {
	s.stream(operation{
		id: "follow-execution", path: "/executions/{id}/events",
		summary: "The journal of a run as it grows, as server-sent events",
		about: "Each event is an entry, and its ID the number of the entry. After Last-Event-ID " +
			"they go on behind it. The last event is named end.",
	}, s.follow, parameter("path", "id", "a run ID or a workflow ID"), lastEventID)
	s.stream(operation{
		id: "follow-events", path: "/events",
		summary: "What the engine of this process does, as server-sent events",
		about: "The server remembers some thousand events for Last-Event-ID, and sends at most " +
			"2,000 a second. An event named reset means that some were missed: read again what " +
			"is shown.",
	}, s.followAll, parameter("query", "run", "a run ID or a workflow ID"),
		parameter("query", "workflow", "the name of a workflow"),
		parameter("query", "kind", "what happens, such as step succeeded"), lastEventID)
}

// stream registers a route of server-sent events, and documents it.
func (s liveRoutes) stream(o operation, h http.HandlerFunc, parameters ...*huma.Param) {
	o.method, o.need, o.group, o.path = http.MethodGet, auth.Viewer, "live", base+o.path
	s.handle(plainRoute{operation: o, parameters: parameters, kind: eventStream}, h)
}

// pageOfEvents is how many entries are read at a time.
const pageOfEvents = 500

// follow writes the entries of a run until it has ended.
func (s liveRoutes) follow(w http.ResponseWriter, r *http.Request) {
	after, err := lastNumber(r.Header.Get("Last-Event-ID"))
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	statuses, err := s.client.Statuses(r.Context(), r.PathValue("id"))
	if err == nil && !statuses[0].Found {
		_, err = s.client.Get(r.Context(), r.PathValue("id")) // the error has the reason
	}
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	e := s.begin(w, r, auth.Viewer)
	if e == nil {
		return
	}
	head := statuses[0].Head
	of, seen, over := api.JournalOf(head), after, head.Status.IsTerminal()
	for wait := s.moreOf(string(head.ID)); ; {
		entries, err := s.client.History(r.Context(), string(head.ID), seen+1, pageOfEvents)
		if err != nil && len(entries) == 0 {
			e.send("", "problem", s.problemOf(r.Context(), err))
			return
		}
		for _, entry := range entries {
			shown, err := s.entry(r.Context(), string(head.ID), of, entry)
			if err != nil {
				e.send("", "problem", s.problemOf(r.Context(), err))
				return
			}
			over = over || entry.Status.IsTerminal()
			if seen = entry.Seq; !e.send(strconv.FormatInt(seen, 10), "entry", shown) {
				return
			}
		}
		switch {
		case len(entries) == pageOfEvents:
		case over:
			e.send("", "end", Done{true})
			return
		case !wait(e):
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
			all, now, missed := s.o.Feed.after(last, func(n *observe.Notice) bool {
				return n.Run == run
			}, 1)
			last = now
			if missed || len(all) > 0 || !time.Now().Before(until) {
				return e.pause(closed)
			}
			if !e.pause(s.o.Feed.wait(last)) {
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
	wanted := func(n *observe.Notice) bool {
		any := func(name string, values ...string) bool {
			return !q.Has(name) || slices.Contains(values, q.Get(name))
		}
		return n.Run != "" && any("run", n.Run, n.WorkflowID) && any("workflow", n.Workflow) &&
			any("kind", string(n.Kind))
	}
	// Whoever has the head of the answer misses nothing from then on.
	last, reset := s.resume(r.Header.Get("Last-Event-ID"))
	e := s.begin(w, r, auth.Viewer)
	if e == nil {
		return
	}
	id := func(number int64) string { return fmt.Sprintf("%s-%d", s.epoch(), number) }
	for at := e.mark(id(last)); at; at = e.pause(s.o.Feed.wait(last)) {
		all, now, missed := s.o.Feed.after(last, wanted, eventsAtOnce)
		before := now
		if len(all) > 0 {
			before = all[0].number - 1
		}
		if (missed || reset) && !e.send(id(before), "reset", Done{true}) {
			return
		}
		for _, n := range all {
			if !e.send(id(n.number), "notice", present.Event(n.Notice)) {
				return
			}
		}
		last, reset = now, false
	}
}

// eventsAtOnce is how many events a caller gets at a time: nobody reads more than 2,000 a second,
// and to write them would cost the engine.
const eventsAtOnce = 200

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
