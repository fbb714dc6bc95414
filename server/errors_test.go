package server_test

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/server"
)

// declining fails with its input as the message.
var declining = perdure.Define("declining", func(ctx context.Context, in string) (string, error) {
	return perdure.Step(ctx, "charge", func(context.Context) (string, error) {
		return "", perdure.Permanent(&perdure.Error{Code: "declined", Message: in})
	})
}, deadletter.Automatic(true))

// decline starts runs that fail with these messages, one after the other.
func (w *world) decline(messages ...string) (last string) {
	w.t.Helper()
	for _, m := range messages {
		input, _ := json.Marshal(m)
		last = w.start("declining", `{"input":`+string(input)+`}`)
		w.ended(last)
	}
	return last
}

// spec: P-1, P-10
func TestRunsAreCountedByStatus(t *testing.T) {
	w := begin(t, server.Options{})
	w.ended(w.start("greet", `{"input":"ada"}`))
	w.ended(w.start("greet", `{"input":"bob"}`))
	w.ended(w.start("failing", ""))
	w.until(w.start("sleeping", ""), "nap")
	for query, want := range map[string]map[string]float64{
		"":                         {"COMPLETED": 2, "FAILED": 1, "WAITING": 1},
		"?workflow=greet":          {"COMPLETED": 2},
		"?filter=workflow%3Dgreet": {"COMPLETED": 2},
		"?open=true":               {"WAITING": 1},
		"?status=FAILED":           {"FAILED": 1},
		"?filter=error~unexpected": {"FAILED": 1},
		"?pattern=SAGA":            {},
	} {
		got := map[string]float64{}
		for _, c := range itemsOf(t, w.want(200, "GET", api+"/executions/counts"+query, "")) {
			status, _ := c["status"].(string)
			if status == "RUNNING" || status == "PENDING" { // it begins to sleep now
				status = "WAITING"
			}
			n, _ := c["runs"].(float64)
			got[status] += n
			if c["more"] != nil {
				t.Errorf("%s: %v", query, c)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	w.want(400, "GET", api+"/executions/counts?status=nothing", "")
	w.want(400, "GET", api+"/executions/counts?limit=1", "")
}

// spec: P-10
func TestFailuresAreGroupedByTheirErrors(t *testing.T) {
	w := open(t, setting{more: declining})
	newest := w.decline("card 17 declined", "no order 3fa85f64-5717-4562-b3fc-2c963f66afa6",
		"card 18 declined", "no order 0b9d1c2e-1111-4562-b3fc-2c963f66afa7",
		"card 1200.50 declined")
	w.decline("out of stock")
	w.ended(w.start("failing", ""))
	w.ended(w.start("greet", `{"input":"ada"}`))
	groups := func(path string, looked float64) []map[string]any {
		t.Helper()
		all := w.want(200, "GET", api+path, "")
		if all["looked"] != looked || all["more"] != nil || all["left"] != nil {
			t.Errorf("%s: %v", path, all)
		}
		return itemsOf(t, all)
	}
	runs := groups("/executions/errors", 7)
	if len(runs) != 4 {
		t.Fatal(runs)
	}
	cards := runs[0]
	if cards["count"] != 3.0 || cards["run_id"] != newest ||
		!reflect.DeepEqual(cards["workflows"], []any{"declining"}) || cards["at"] == nil ||
		cards["code"] != "declined" {
		t.Error(cards)
	}
	if message := w.text(cards, "message"); !strings.HasSuffix(message, "card 1200.50 declined") {
		t.Error(message)
	}
	for i, want := range []int{3, 2} {
		filter := url.QueryEscape(w.text(runs[i], "filter"))
		found := itemsOf(t, w.want(200, "GET", api+"/executions?filter="+filter, ""))
		if len(found) != want {
			t.Errorf("%v selects %v", runs[i]["filter"], found)
		}
	}
	groups("/executions/errors?workflow=failing", 1)
	groups("/executions/errors?status=completed", 0)
	groups("/executions/errors?open=true", 0)
	some := groups("/executions/errors?filter=since%3D1h+error~CARD", 3)
	if f := w.text(some[0], "filter"); f == "" || len(some) != 1 {
		t.Error(some)
	} else {
		w.want(200, "GET", api+"/executions?filter="+url.QueryEscape(f), "")
	}

	letters := groups("/dlq/errors", 7)
	if len(letters) != 4 || letters[0]["count"] != 3.0 || letters[0]["run_id"] != newest ||
		letters[0]["code"] != "declined" || letters[0]["filter"] != nil {
		t.Fatal(letters)
	}
	w.want(200, "GET", api+"/dlq/"+url.PathEscape(w.text(letters[0], "dead_letter")), "")
	groups("/dlq/errors?workflow=failing", 1)
	for i, want := range []int{3, 2} {
		like := url.QueryEscape(w.text(letters[i], "message"))
		found := itemsOf(t, w.want(200, "GET", api+"/dlq?like="+like, ""))
		if len(found) != want || int(letters[i]["count"].(float64)) != want {
			t.Errorf("like %v are %v", letters[i]["message"], found)
		}
	}
}
