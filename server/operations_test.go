package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/server"
)

// first returns the first item of a list.
func first(w *world, path string) map[string]any {
	w.t.Helper()
	items, _ := w.want(200, "GET", api+path, "")["items"].([]any)
	if len(items) == 0 {
		w.t.Fatalf("%s has no items", path)
	}
	item, _ := items[0].(map[string]any)
	return item
}

func (w *world) text(item map[string]any, field string) string {
	w.t.Helper()
	s, _ := item[field].(string)
	if s == "" {
		w.t.Fatalf("%v has no %s", item, field)
	}
	return s
}

// until follows the live events of a run until one has a text.
func (w *world) until(id, text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	stream := w.follow(ctx, api+"/executions/"+id+"/events", "")
	defer stream.close()
	var seen []string
	for e, ok := stream.next(); ok; e, ok = stream.next() {
		if seen = append(seen, e.data); strings.Contains(e.data, text) {
			return
		}
	}
	w.t.Fatalf("run %s has no event with %q, but %v", id, text, seen)
}

// Each operation answers with success once, and as the document says. The names of the operations
// that are left over are the failure.
//
// spec: P-10
func TestEachOperationWorks(t *testing.T) {
	tokens := make(chan string, 10)
	w := open(t, setting{tokens: tokens, Options: server.Options{
		Authenticator: people(t),
		Metrics:       http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Orchestrators: []server.Orchestrator{{Source: "shop"}},
		Kill:          func() {},
	}})
	w.token = adminToken
	for _, part := range []func(*world){
		lookAtTheProcess, lookAtRuns, actOnRuns, mendRuns, signalRuns, decideAsks,
		func(w *world) { answerCallbacks(w, tokens) }, keepSchedules, keepLetters, carryOutBatches,
		keepSettings, keepKeys, followRuns, keepASession,
	} {
		part(w)
	}
	var left []string
	for _, item := range w.doc.Paths {
		for _, op := range item {
			for status := range op.Responses {
				// 503 is the answer of a process that is not ready
				name := op.OperationID + " " + status
				if status != "default" && status != "503" && !w.doc.seen[name] {
					left = append(left, name)
				}
			}
		}
	}
	if slices.Sort(left); len(left) > 0 {
		t.Errorf("no request was answered by: %s", strings.Join(left, ", "))
	}
}

func lookAtTheProcess(w *world) {
	w.ready()
	for _, path := range []string{
		"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", api + "/doctor",
		api + "/loops", api + "/audit?limit=1", api + "/configuration",
		api + "/workers", api + "/database", api + "/metrics", api + "/metrics/SAGA",
		api + "/orchestrators", api + "/events/registrations", api + "/events/counts",
		api + "/session",
		api + "/workflows", api + "/workflows/trip", api + "/workflows/trip/topology",
		api + "/workflows/greet/versions",
	} {
		if status, text := w.ask("GET", path, ""); status != 200 {
			w.t.Errorf("%s: %d %s", path, status, text)
		}
	}
	w.want(202, "POST", api+"/process/kill", "")
	w.want(404, "GET", api+"/metrics/nothing", "")
	w.stopLoop("watch")
	w.want(200, "POST", api+"/loops/1/watch/start?reason=again", "")
	w.want(404, "POST", api+"/loops/1/watch/start", "")
	w.want(404, "GET", api+"/workflows/nothing", "")
}

func lookAtRuns(w *world) {
	id := w.start("greet", `{"id":"g-1","input":"ada","attributes":{"of":"ada"}}`)
	w.ended(id)
	w.ended(w.start("trip", `{"input":"rome"}`))
	w.want(200, "POST", api+"/workflows/greet/start", `{"id":"g-1","input":"ada"}`)
	for _, path := range []string{
		"", "/why", "/history", "/history?from=2&limit=1", "/report", "/graph", "/timers",
		"/result", "/logs", "/streams/words",
	} {
		for _, at := range []string{"/executions/", "/workflows/instances/"} {
			for _, name := range []string{id, "g-1"} {
				w.want(200, "GET", api+at+name+path, "")
			}
		}
	}
	if status, text := w.ask("GET", api+"/executions/g-1/streams/words/events",
		""); status != 200 {
		w.t.Error(status, text)
	}
	if status, text := w.ask("HEAD", api+"/executions/"+id, ""); status != 200 || text != "" {
		w.t.Error(status, text)
	}
	w.want(202, "GET", api+"/executions/"+w.start("waiting", "")+"/result", "")
	started := w.want(200, "POST", api+"/workflows/greet/starts",
		`{"items":[{"input":"a"},{"id":"g-1","input":"ada"},{"id":"perdure.x"}]}`)
	if n := len(started["items"].([]any)); n != 3 {
		w.t.Error(started)
	}
	first(w, "/executions?status=completed&status=failed&workflow=greet&limit=1")
	w.want(200, "POST", api+"/statuses", `{"ids":["g-1","nobody"]}`)
	w.want(200, "GET", api+"/executions/counts", "")
	w.want(200, "GET", api+"/executions/errors", "")
}

func actOnRuns(w *world) {
	id := w.start("sleeping", "")
	at := api + "/executions/" + id
	w.until(id, "nap")
	w.want(200, "POST", at+"/suspend", `{"reason":"later"}`)
	w.want(200, "POST", at+"/resume", "")
	w.until(id, "nap")
	timer := w.text(first(w, "/executions/"+id+"/timers"), "path")
	w.want(200, "DELETE", at+"/timers/"+url.PathEscape(timer)+"?reason=now", "")
	w.ended(id)
	id = w.start("waiting", "")
	w.want(200, "POST", api+"/executions/"+id+"/cancel", `{"reason":"no"}`)
	if out := w.ended(id); out["status"] != "CANCELLED" || out["is_success"] != false {
		w.t.Error(out)
	}
	id = w.start("waiting", "")
	w.want(200, "POST", api+"/executions/"+id+"/terminate", "")
	if out := w.ended(id); out["status"] != "CANCELLED" {
		w.t.Error(out)
	}
	id = w.start("parking", "")
	w.until(id, "the address is not clear")
	parked := first(w, "/parked")
	question := w.text(parked["questions"].([]any)[0].(map[string]any), "path")
	w.want(200, "POST", api+"/executions/"+id+"/decide/"+url.PathEscape(question),
		`{"choice":"yes"}`)
	if out := w.ended(id); out["output"] != "yes" {
		w.t.Error(out)
	}
}

func mendRuns(w *world) {
	id := w.start("failing", "")
	w.ended(id)
	at := api + "/executions/" + id
	w.want(200, "POST", at+"/retry/preview", "")
	w.want(200, "POST", at+"/skip/preview", `{"output":"paid"}`)
	w.want(200, "POST", at+"/fork/preview", `{"step":"charge"}`)
	w.ended(w.text(w.want(200, "POST", at+"/skip", `{"output":"paid"}`), "run_id"))
	id = w.start("failing", "")
	w.ended(id)
	w.ended(w.text(w.want(200, "POST", api+"/executions/"+id+"/retry", ""), "run_id"))
	id = w.start("greet", `{"input":"bob"}`)
	w.ended(id)
	w.ended(w.text(w.want(200, "POST", api+"/executions/"+id+"/fork", `{"step":"write"}`),
		"run_id"))
	id = w.start("trip", `{"input":"oslo"}`)
	w.ended(id)
	w.want(200, "POST", api+"/executions/"+id+"/compensate/preview", "")
	w.ended(w.text(w.want(200, "POST", api+"/executions/"+id+"/compensate", ""), "run_id"))
}

func signalRuns(w *world) {
	id := w.start("waiting", `{"id":"s-1"}`)
	w.want(200, "POST", api+"/executions/s-1/signal/go", `"on"`)
	if out := w.ended(id); out["output"] != "on" {
		w.t.Error(out)
	}
	w.want(409, "POST", api+"/executions/"+id+"/signal/go", `"on"`)
	w.want(200, "POST", api+"/executions/s-2/signal/go", `"kept"`)
	kept := first(w, "/signals/unrouted")
	id = w.start("waiting", `{"id":"s-3"}`)
	w.want(200, "POST", fmt.Sprintf("%s/signals/unrouted/%v/deliver/%s", api, kept["number"], id),
		"")
	if out := w.ended(id); out["output"] != "kept" {
		w.t.Error(out)
	}
	w.start("waiting", `{"id":"s-4"}`)
	sent := w.want(200, "POST", api+"/signals/go",
		`{"items":[{"id":"s-4","payload":"many"},{"id":"run_nobody"},{"id":"s-3"}]}`)
	if n := len(sent["items"].([]any)); n != 3 {
		w.t.Error(sent)
	}
	if out := w.ended("s-4"); out["output"] != "many" {
		w.t.Error(out)
	}
}

func decideAsks(w *world) {
	id := w.start("asking", `{"id":"a-1"}`)
	w.until(id, "pay")
	first(w, "/approvals?id=a-1&role=manager&workflow=asking")
	got := w.want(200, "POST", api+"/approvals/a-1/pay",
		`{"approved":true,"role":"manager","for":"gina","reason":"fine"}`)
	if got["status"] != "approved" || w.ended(id)["output"] != true {
		w.t.Error(got)
	}
	id = w.start("asking", `{"id":"a-2"}`)
	w.until(id, "pay")
	token, err := approval.Token(w.t.Context(), w.engine, id, "pay", approval.Decision{
		By: "gina", Role: "manager",
	}, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	w.token = "" // the token is the credential
	w.want(200, "POST", api+"/approval-tokens", `{"token":"`+token+`","reason":"too much"}`)
	w.want(401, "POST", api+"/approval-tokens", `{"token":"`+token+`x"}`)
	w.want(200, "POST", api+"/approval-tokens/show", `{"token":"`+token+`"}`)
	w.token = adminToken
	if out := w.ended(id); out["output"] != false {
		w.t.Error(out)
	}
}

func answerCallbacks(w *world, tokens <-chan string) {
	for _, end := range []string{"succeed", "fail"} {
		id := w.start("paying", "")
		body := `{"token":"` + <-tokens + `"`
		w.token = ""
		at := api + "/callbacks/"
		if got := w.want(200, "POST", at+"show", body+"}"); got["state"] != "open" {
			w.t.Error(got)
		}
		w.want(200, "POST", at+"heartbeat", body+`,"extend":"10m"}`)
		w.want(400, "POST", at+"heartbeat", body+`,"extend":"-10m"}`)
		w.want(200, "POST", at+end, body+`,"data":{"paid":7},"reason":"refused"}`)
		if got := w.want(200, "POST", at+"show", body+"}"); got["state"] == "open" {
			w.t.Error(got)
		}
		w.token = adminToken
		if out := w.ended(id); out["is_success"] != (end == "succeed") {
			w.t.Error(out)
		}
	}
}

func keepSchedules(w *world) {
	at := api + "/schedules/nightly"
	w.want(200, "PUT", at+"?reason=new", `{"workflow":"greet","cron":"0 3 * * *","input":"eve"}`)
	w.want(200, "GET", at, "")
	w.want(200, "GET", at+"/times?limit=3", "")
	first(w, "/schedules?workflow=greet")
	plan := w.want(200, "POST", api+"/schedule-previews",
		`{"workflow":"greet","cron":"30 2 * * *","zone":"Europe/Berlin"}`)
	if n := len(plan["items"].([]any)); n != 10 {
		w.t.Errorf("%d times: %v", n, plan)
	}
	w.want(400, "POST", api+"/schedule-previews", `{"workflow":"greet","cron":"30 2"}`)
	w.want(200, "POST", at+"/pause", `{"reason":"holiday"}`)
	w.want(200, "POST", at+"/resume", "")
	ends := w.follow(w.t.Context(), api+"/events?workflow=greet&kind=run+ended", "")
	id := w.text(w.want(200, "POST", at+"/run", ""), "workflow_id")
	if e, _ := ends.next(); !strings.Contains(e.data, id) {
		w.t.Errorf("%s has not ended, but %+v", id, e)
	}
	ends.close()
	from := time.Now().Add(-72 * time.Hour).UTC().Format(time.RFC3339)
	span := `{"from":"` + from + `","to":"` + time.Now().UTC().Format(time.RFC3339) + `"}`
	plan = w.want(200, "POST", at+"/backfill/preview", span)
	if n := len(plan["items"].([]any)); n != 3 {
		w.t.Errorf("%d planned times: %v", n, plan)
	}
	if got := w.want(200, "POST", at+"/backfill", span); got["count"] != 3.0 {
		w.t.Error(got)
	}
	w.want(200, "DELETE", at+"?reason=old", "")
	w.want(404, "GET", at+"-not", "")
}

func keepLetters(w *world) {
	for range 3 {
		w.ended(w.start("failing", ""))
	}
	all := w.want(200, "GET", api+"/dlq?workflow=failing", "")["items"].([]any)
	// the count may have letters that were settled just now
	n, _ := w.want(200, "GET", api+"/dlq/count?workflow=failing", "")["count"].(float64)
	if int(n) < len(all) || len(all) < 3 {
		w.t.Fatalf("%v letters, %v counted", len(all), n)
	}
	at := func(i int) string {
		return api + "/dlq/" + url.PathEscape(w.text(all[i].(map[string]any), "id"))
	}
	w.want(200, "GET", at(0), "")
	w.want(200, "GET", api+"/dlq/errors?workflow=failing", "")
	w.ended(w.text(w.want(200, "POST", at(0)+"/retry", `{"reason":"again"}`), "run_id"))
	w.want(200, "POST", at(1)+"/handle", `{"reason":"paid by hand"}`)
	w.want(404, "GET", at(1), "")
	w.want(200, "GET", api+"/dlq?handled=true", "") // it is there when an engine has read the mark
	w.want(200, "DELETE", at(2), "")
	w.want(404, "GET", at(2), "")
}

func carryOutBatches(w *world) {
	w.start("waiting", `{"id":"b-1"}`)
	body := `{"runs":["b-1","nobody"],"order":{"action":"cancel","by":"mallory"}}`
	w.want(200, "POST", api+"/batch-previews", body)
	got := w.want(201, "POST", api+"/batches", body)
	if order := got["spec"].(map[string]any)["order"].(map[string]any); order["by"] != "ada" {
		w.t.Error("the order is by", order["by"])
	}
	id := w.text(got, "id")
	w.ended("b-1")
	w.want(200, "GET", api+"/batches/"+url.PathEscape(id), "")
	first(w, "/batches?limit=1")
	w.want(200, "GET", api+"/batches?open=true", "")
	w.ended(w.text(got, "run_id"))
	body = `{"filter":"workflow=waiting","order":{"action":"cancel"},"rate":0.001}`
	for i := range 3 {
		w.start("waiting", fmt.Sprintf(`{"id":"b-2-%d"}`, i))
	}
	id = w.text(w.want(201, "POST", api+"/batches", body), "id")
	w.want(200, "POST", api+"/batches/"+url.PathEscape(id)+"/stop?reason=enough", "")
}

func keepSettings(w *world) {
	w.want(200, "PUT", api+"/limits/greet?reason=less", `{"concurrency":3,"rate":"10/1s","burst":2}`)
	first(w, "/limits")
	w.want(200, "DELETE", api+"/limits/greet", "")
	holdAndWait(w)
	w.want(200, "PUT", api+"/pauses/greet?reason=stop", "")
	first(w, "/pauses")
	w.want(200, "DELETE", api+"/pauses/greet", "")
	w.want(200, "PUT", api+"/alerts/-", `{"off":true,"statuses":["failed"],"within":"5m",`+
		`"times":2}`)
	first(w, "/alerts")
	w.want(200, "PUT", api+"/alerts/-", `{"to":["https://hooks.invalid/x"]}`)
	sent, _ := w.want(200, "POST", api+"/alerts/-/test", "")["items"].([]any)
	if len(sent) != 1 || w.text(sent[0].(map[string]any), "to") != "https://hooks.invalid/x" {
		w.t.Error(sent)
	}
	w.want(200, "DELETE", api+"/alerts/-", "")
	w.want(404, "POST", api+"/alerts/-/test", "")
}

// holdAndWait asks who has a limit, and who waits for it.
func holdAndWait(w *world) {
	w.want(200, "PUT", api+"/limits/waiting", `{"concurrency":1}`)
	at := api + "/limits/waiting/runs"
	old := w.start("waiting", `{"id":"l-0"}`)
	for len(itemsOf(w.t, w.want(200, "GET", at, ""))) == 0 { // until the engine has learned of it
	}
	id := w.start("waiting", `{"id":"l-1"}`)
	place := func() any {
		for _, one := range itemsOf(w.t, w.want(200, "GET", at, "")) {
			if one["run_id"] == id {
				return one["place"]
			}
		}
		return nil
	}
	for place() == nil {
	}
	if got, _ := place().(float64); got < 1 {
		w.t.Error("its place is", got)
	}
	if none := itemsOf(w.t, w.want(200, "GET", at+"?of=rate", "")); len(none) > 0 {
		w.t.Error(none)
	}
	w.want(200, "DELETE", api+"/limits/waiting", "")
	for _, id := range []string{old, id} {
		w.want(200, "POST", api+"/executions/"+id+"/cancel", "")
		w.ended(id)
	}
}

func keepKeys(w *world) {
	old := w.text(first(w, "/keys"), "id")
	w.want(200, "POST", api+"/keys/rotate?reason=yearly", "")
	w.want(200, "DELETE", api+"/keys/"+url.PathEscape(old), "")
}

func followRuns(w *world) {
	id := w.start("waiting", "")
	all := w.follow(w.t.Context(), api+"/events?run="+id+"&kind=signal+delivered", "")
	defer all.close()
	w.want(200, "POST", api+"/executions/"+id+"/signal/go", `"on"`)
	if e, ok := all.next(); !ok || e.name != "notice" {
		w.t.Error(e, ok)
	}
	w.until(id, "COMPLETED")
}

func keepASession(w *world) {
	w.token = ""
	w.want(200, "POST", api+"/session", `{"token":"`+adminToken+`"}`)
	w.want(401, "POST", api+"/session", `{"token":"no"}`)
	w.want(204, "DELETE", api+"/session", "")
	w.token = adminToken
}
