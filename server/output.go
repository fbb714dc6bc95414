package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
)

// A StreamPage is a part of a stream of a run.
type StreamPage struct {
	RunID string      `json:"run_id" doc:"the run whose offsets these are"`
	Items []api.Chunk `json:"items" nullable:"false"`
	Next  int64       `json:"next" doc:"the offset behind which the next page begins"`
	Ended bool        `json:"ended" doc:"the run has ended: nothing comes behind this page"`
}

// output registers the routes of what steps put out while they go on.
func (s runRoutes) output() {
	const group = "executions"
	add(s.Server, operation{
		id: "list-logs", method: http.MethodGet, path: "/executions/{id}/logs", group: group,
		summary: "Log lines that are kept of the steps of a run", need: auth.Viewer,
	}, func(ctx context.Context, in *struct {
		RunIn
		Step    string `query:"step" maxLength:"4096" doc:"the path of a step"`
		Attempt int    `query:"attempt" minimum:"0" doc:"the number of an attempt; 0 for all"`
		After   int64  `query:"after" minimum:"0" doc:"lines of later entries only: the seq of a line, or next of the page before"`
		Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"the longest page; the lines of its last entry are never parted"`
	}) (list[api.LogLine], error) {
		lines, err := steplog.Read(ctx, s.client, in.ID, steplog.Query{
			Step: in.Step, Attempt: in.Attempt, After: in.After,
		})
		var out []api.LogLine
		for i, l := range lines {
			if i >= in.Limit && l.Entry != lines[i-1].Entry {
				return listOf(out, strconv.FormatInt(lines[i-1].Entry, 10)), err
			}
			out = append(out, present.LogLine(l))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "read-stream", method: http.MethodGet, path: "/executions/{id}/streams/{stream}",
		group: group, summary: "Chunks of a stream of a run", need: auth.Viewer,
		about: "They are those that count now. A chunk that is void takes back the chunks of " +
			"its part that an earlier page had.",
	}, func(ctx context.Context, in *struct {
		RunIn
		Stream string `path:"stream" maxLength:"255" doc:"the name of a stream"`
		After  int64  `query:"after" minimum:"0" doc:"next of the page before"`
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
	}) (StreamPage, error) {
		p, err := stream.New[json.RawMessage](in.Stream).Read(ctx, s.client, in.ID, in.After,
			in.Limit)
		out := StreamPage{RunID: p.RunID, Items: []api.Chunk{}, Next: p.Next, Ended: p.Ended}
		for _, c := range p.Chunks {
			out.Items = append(out.Items, present.Chunk(c))
		}
		return out, err
	})
	liveRoutes(s).stream(operation{
		id: "follow-stream", path: "/executions/{id}/streams/{stream}/events",
		summary: "A stream of a run as it grows, as server-sent events",
		about: "The events are named chunk and void, and the last one end. The ID of an event is " +
			"the offset; after Last-Event-ID they go on behind it.",
	}, s.followStream, parameter("path", "id", "a run ID or a workflow ID"),
		parameter("path", "stream", "the name of a stream"), lastEventID)
}

// followStream writes the chunks of a stream until the run has ended.
func (s runRoutes) followStream(w http.ResponseWriter, r *http.Request) {
	after, err := lastNumber(r.Header.Get("Last-Event-ID"))
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	run, err := s.client.Get(r.Context(), r.PathValue("id"))
	if err == nil && !journal.ValidName(r.PathValue("stream")) {
		err = invalid("the name of the stream is not valid")
	}
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	e := s.begin(w, r, auth.Viewer)
	if e == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	chunks, failed := make(chan stream.Chunk[json.RawMessage]), make(chan error, 1)
	go func() {
		defer close(chunks)
		of := stream.New[json.RawMessage](r.PathValue("stream"))
		for c, err := range of.Follow(ctx, s.client, run.RunID(), after) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case chunks <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	if e.each(chunks) {
		select {
		case err := <-failed:
			e.send("", "problem", s.problemOf(r.Context(), err))
		default:
			e.send("", "end", Done{true})
		}
		_ = e.conn.Flush() // the caller may be gone
	}
}

// each sends chunks until there are no more. It reports whether the caller may get more.
func (e *events) each(chunks <-chan stream.Chunk[json.RawMessage]) bool {
	for {
		select {
		case c, open := <-chunks:
			name := "chunk"
			if c.Void {
				name = "void"
			}
			if !open {
				return true
			}
			if !e.send(strconv.FormatInt(c.Offset, 10), name, present.Chunk(c)) ||
				!e.flush() {
				return false
			}
		case <-e.r.Context().Done():
			return false
		case <-e.beat():
			if !e.alive() {
				return false
			}
		}
	}
}
