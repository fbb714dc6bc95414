// Package howto is the code of the page about streams and log lines.
package howto

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
)

// Words has the words of an answer.
var Words = stream.New[string]("words")

// A Model answers questions, word by word.
type Model interface {
	Ask(ctx context.Context, question string, say func(word string) error) (string, error)
}

// Ask returns a workflow that asks the model.
func Ask(m Model) *perdure.Workflow[string, string] {
	return perdure.Define("ask", func(ctx context.Context, question string) (string, error) {
		return perdure.Step(ctx, "model", func(ctx context.Context) (string, error) {
			return m.Ask(ctx, question, func(word string) error {
				return Words.Push(ctx, word)
			})
		})
	})
}

// Show collects the words that count.
func Show(ctx context.Context, c perdure.Caller, runID string) ([]string, error) {
	var all []stream.Chunk[string]
	for chunk, err := range Words.Follow(ctx, c, runID, 0) {
		switch {
		case err != nil:
			return nil, err
		case chunk.Void:
			all = without(all, chunk.Part)
		default:
			all = append(all, chunk)
		}
	}
	return words(all), nil
}

func without(all []stream.Chunk[string], part int64) (kept []stream.Chunk[string]) {
	for _, c := range all {
		if c.Part != part {
			kept = append(kept, c)
		}
	}
	return kept
}

func words(all []stream.Chunk[string]) (out []string) {
	for _, c := range all {
		out = append(out, c.Value)
	}
	return out
}

// Events serves a stream as server-sent events. A browser that lost its connection goes on after
// the last event that it has seen.
func Events(c perdure.Caller) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
		w.Header().Set("Content-Type", "text/event-stream")
		for chunk, err := range Words.Follow(r.Context(), c, r.PathValue("run"), after) {
			event, data := "chunk", []byte(nil)
			switch {
			case err != nil:
				return // the browser comes again
			case chunk.Void:
				event, data = "void", strconv.AppendInt(nil, chunk.Part, 10)
			default:
				data, _ = json.Marshal(chunk.Value)
			}
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", chunk.Offset, event, data)
			if f, is := w.(http.Flusher); is {
				f.Flush()
			}
		}
		fmt.Fprint(w, "event: end\ndata:\n\n")
	}
}

// Logs makes the default logger keep the lines of steps.
func Logs(next slog.Handler) { slog.SetDefault(slog.New(steplog.Handler(next))) }

// Charge logs what it does.
var Charge = perdure.Define("charge", func(ctx context.Context, cents int) (int, error) {
	return perdure.Step(ctx, "bank", func(ctx context.Context) (int, error) {
		slog.InfoContext(ctx, "charging", "cents", cents)
		return cents, nil
	})
}, steplog.Keep{Level: slog.LevelInfo})

// Problems returns the warnings and errors of a run.
func Problems(ctx context.Context, c perdure.Caller, id string) (out []string, err error) {
	lines, err := steplog.Read(ctx, c, id, steplog.Query{})
	for _, l := range lines {
		if l.Level >= slog.LevelWarn {
			out = append(out, fmt.Sprintf("%s, attempt %d: %s", l.Step, l.Attempt, l.Message))
		}
	}
	return out, err
}
