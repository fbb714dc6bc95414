package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/steplog"
	streams "github.com/perdure/perdure/stream"
)

var words = streams.New[string]("words")

// telling is a workflow that says words in two attempts, of which the first one fails.
var telling = perdure.Define("telling", func(ctx context.Context, _ json.RawMessage) (string,
	error) {
	return perdure.Step(ctx, "tell", func(ctx context.Context) (string, error) {
		n, _, err := perdure.Attempt(ctx)
		if err != nil {
			return "", err
		}
		steplog.Logger(ctx).Info("telling", slog.Int("attempt", n))
		for _, w := range []string{"one", "two"}[:n] {
			if err := words.Append(ctx, w); err != nil {
				return "", err
			}
		}
		if n == 1 {
			return "", errors.New("again")
		}
		return "told", nil
	}, perdure.Retry{Attempts: 2, First: 1})
}, steplog.Keep{})

// spec: B-11, B-24
func TestOutputOfStepsIsReadAndFollowed(t *testing.T) {
	w := begin(t, server.Options{})
	if err := w.engine.Register(telling); err != nil {
		t.Fatal(err)
	}
	id := w.start("telling", "")
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.http.URL+api+"/executions/"+id+
		"/streams/words/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	// Whoever has seen the words of the first attempt hears that they are void.
	var all []string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		event, is := strings.CutPrefix(lines.Text(), "event: ")
		if !is || !lines.Scan() {
			continue
		}
		var c struct{ Data string }
		_ = json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &c)
		all = append(all, strings.TrimSpace(event+" "+c.Data))
	}
	text := strings.Join(all, ", ")
	if text != "chunk one, chunk two, end" && text != "chunk one, void, chunk one, chunk two, end" {
		t.Errorf("the events are %s", text)
	}
	w.ended(id)
	page := w.want(200, "GET", api+"/executions/"+id+"/streams/words", "")
	items, _ := page["items"].([]any)
	if valuesOf(page, "data") != "one two" || page["ended"] != true || len(items) != 2 {
		t.Fatalf("the page is %v", page)
	}
	first, _ := items[0].(map[string]any)
	offset := fmt.Sprint(first["offset"])
	if rest := w.want(200, "GET", api+"/executions/"+id+"/streams/words?after="+offset,
		""); valuesOf(rest, "data") != "two" {
		t.Errorf("the next page is %v", rest)
	}
	if got := valuesOf(w.want(200, "GET", api+"/executions/"+id+"/logs", ""),
		"message"); got != "telling telling" {
		t.Errorf("the lines are %s", got)
	}
	if got := valuesOf(w.want(200, "GET", api+"/executions/"+id+"/logs?step=tell&attempt=2", ""),
		"message"); got != "telling" {
		t.Errorf("the lines of the second attempt are %s", got)
	}
	page = w.want(200, "GET", api+"/executions/"+id+"/logs?limit=1", "")
	if got := itemsOf(t, page); len(got) != 1 || got[0]["attempt"] != 1.0 || page["next"] == nil {
		t.Errorf("the first page of lines is %v", page)
	}
	page = w.want(200, "GET", fmt.Sprintf("%s/executions/%s/logs?limit=1&after=%v", api, id,
		page["next"]), "")
	if got := itemsOf(t, page); len(got) != 1 || got[0]["attempt"] != 2.0 || page["next"] != nil {
		t.Errorf("the second page of lines is %v", page)
	}
	w.want(404, "GET", api+"/executions/nobody/streams/words", "")
	w.want(404, "GET", api+"/executions/nobody/streams/words/events", "")
	w.want(400, "GET", api+"/executions/"+id+"/streams/words/events", "", "Last-Event-ID", "x")
	if resumed := after(w, api+"/executions/"+id+"/streams/words/events",
		offset); strings.Count(resumed, "event: chunk") != 1 {
		t.Errorf("after an event: %s", resumed)
	}
}

// valuesOf returns the values of a field of the items of a list.
func valuesOf(page map[string]any, field string) string {
	var all []string
	items, _ := page["items"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		text, _ := fields[field].(string)
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// after returns a whole stream of events behind an ID.
func after(w *world, path, id string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", w.http.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", id)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
