package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

func itemsOf(t *testing.T, answer map[string]any) (all []map[string]any) {
	t.Helper()
	items, ok := answer["items"].([]any)
	if !ok {
		t.Fatal(answer)
	}
	for _, item := range items {
		all = append(all, item.(map[string]any))
	}
	return all
}

// spec: R-28, P-10
func TestARunIsUsedWithoutCode(t *testing.T) {
	w := begin(t, server.Options{})
	first := w.want(201, "POST", api+"/workflows/waiting/start", `{"id":"w-1"}`)
	again := w.want(200, "POST", api+"/workflows/waiting/start", `{"id":"w-1"}`)
	if first["new"] != true || again["new"] != false || first["run_id"] != again["run_id"] ||
		first["workflow_id"] != "w-1" {
		t.Error(first, again)
	}
	open := w.want(202, "GET", api+"/executions/w-1/result", "")
	if open["found"] != true || open["is_terminal"] != false || open["is_success"] != false ||
		open["output"] != nil {
		t.Error(open)
	}
	w.want(200, "POST", api+"/executions/w-1/signal/go", `"on"`)
	over := w.ended("w-1")
	if over["found"] != true || over["is_terminal"] != true || over["is_success"] != true ||
		over["output"] != "on" || over["status"] != "COMPLETED" || over["error"] != nil {
		t.Error(over)
	}
	failed := w.ended(w.start("failing", `{"id":"f-1"}`))
	if e, _ := failed["error"].(map[string]any); failed["is_terminal"] != true ||
		failed["is_success"] != false || e["message"] == nil || failed["output"] != nil {
		t.Error(failed)
	}
	// reading changes nothing
	before := len(itemsOf(t, w.want(200, "GET", api+"/executions/w-1/history", "")))
	for range 3 {
		w.want(200, "GET", api+"/executions/w-1", "")
		w.want(200, "POST", api+"/statuses", `{"ids":["w-1","f-1"]}`)
	}
	if n := len(itemsOf(t, w.want(200, "GET", api+"/executions/w-1/history", ""))); n != before {
		t.Errorf("%d entries after reads, %d before", n, before)
	}
}

// spec, P-10
func TestManyAreAnsweredInTheirOrder(t *testing.T) {
	w := begin(t, server.Options{})
	starts := itemsOf(t, w.want(200, "POST", api+"/workflows/waiting/starts", `{"items":[
		{"id":"m-0"},{"id":"m-1","delay":"-1s"},{"id":"m-2"},{"id":"m-0"},{"id":"perdure.x"},{}]}`))
	for i, want := range []string{
		"m-0 true", "invalid", "m-2 true", "m-0 false", "invalid", " true",
	} {
		run, _ := starts[i]["run"].(map[string]any)
		problem, _ := starts[i]["problem"].(map[string]any)
		got := fmt.Sprint(problem["code"])
		if run != nil {
			got = fmt.Sprint(run["workflow_id"], " ", run["new"])
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("start %d: %s, want %s", i, got, want)
		}
	}
	sent := itemsOf(t, w.want(200, "POST", api+"/signals/go", `{"items":[
		{"id":"m-0","payload":"a","key":"k"},{"id":"m-0","payload":"a","key":"k"},
		{"id":"nobody"},{"id":"a\nb"},{"id":"m-2","payload":"b"}]}`))
	for i, want := range []string{"run_id", "duplicate", "unrouted", "problem", "run_id"} {
		if text := fmt.Sprint(sent[i]); !strings.Contains(text, want) {
			t.Errorf("signal %d: %s, want %s", i, text, want)
		}
	}
	w.ended("m-0")
	w.ended("m-2")
	again := w.want(201, "POST", api+"/workflows/waiting/start", `{"id":"m-0","dedup":"0s"}`)
	all := itemsOf(t, w.want(200, "POST", api+"/statuses", fmt.Sprintf(
		`{"ids":["m-2","nobody","m-0","%s"]}`, starts[0]["run"].(map[string]any)["run_id"])))
	for i, want := range []string{
		"m-2 true true true", "nobody false false false", "m-0 true false false",
	} {
		got := fmt.Sprint(all[i]["id"], " ", all[i]["found"], " ", all[i]["is_terminal"], " ",
			all[i]["is_success"])
		if got != want {
			t.Errorf("status %d: %s, want %s", i, got, want)
		}
	}
	// a workflow ID stands for its open run, a run ID for itself
	if run := all[2]["run"].(map[string]any); run["run_id"] != again["run_id"] {
		t.Error(run)
	}
	if run := all[3]["run"].(map[string]any); run["output"] != "a" {
		t.Error(run)
	}
}

// One key starts one run, however often and however many send it, and also after its end.
//
// spec: P-10
func TestAnIdempotencyKeyStartsOneRun(t *testing.T) {
	w := begin(t, server.Options{})
	var mu sync.Mutex
	var all sync.WaitGroup
	runs, created := map[string]int{}, 0
	for range 100 {
		all.Go(func() {
			r := httptest.NewRequest("POST", api+"/workflows/greet/start",
				strings.NewReader(`{"input": "ada"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "k-1")
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			answer := httptest.NewRecorder()
			w.server.ServeHTTP(answer, r)
			mu.Lock()
			defer mu.Unlock()
			run, _, _ := strings.Cut(answer.Body.String(), ",")
			runs[run]++
			if answer.Code == 201 {
				created++
			} else if answer.Code != 200 {
				t.Error(answer.Code, answer.Body)
			}
		})
	}
	all.Wait()
	if len(runs) != 1 || created != 1 {
		t.Errorf("%d runs, %d of them new: %v", len(runs), created, runs)
	}
	w.ended("k-1")
	w.want(200, "POST", api+"/workflows/greet/start", `{"input":"ada"}`, "Idempotency-Key", "k-1")
	// the same key with another input is a mistake of the caller
	w.want(409, "POST", api+"/workflows/greet/start", `{"input":"bob"}`, "Idempotency-Key", "k-1")
	if n := len(itemsOf(t, w.want(200, "GET", api+"/executions", ""))); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A wrong name of a workflow is refused, unless the caller says that an engine will have it.
//
// spec: P-10
func TestAWorkflowThatNoEngineHasIsRefused(t *testing.T) {
	w := begin(t, server.Options{})
	w.ended(w.start("greet", `{"input":"ada"}`)) // the engine lives
	const path = api + "/workflows/gret"
	p := w.want(404, "POST", path+"/start", `{"id":"g-1","input":"ada"}`)
	if hint := fmt.Sprint(p["hint"]); p["code"] != "unregistered" ||
		!strings.Contains(hint, "did you mean greet?") || !strings.Contains(hint, "force") {
		t.Error(p)
	}
	w.want(404, "GET", api+"/executions/g-1", "")
	w.want(201, "POST", path+"/start", `{"id":"g-2","force":true}`)
	all := itemsOf(t, w.want(200, "POST", path+"/starts",
		`{"items":[{"id":"g-3"},{"id":"g-4","force":true}]}`))
	if all[0]["problem"] == nil || all[1]["run"] == nil {
		t.Error(all)
	}
	// nobody can tell where no engine lives
	s := closed(t, server.Options{})
	r := httptest.NewRequest("POST", api+"/workflows/gret/start", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	seen := httptest.NewRecorder()
	if s.ServeHTTP(seen, r); seen.Code != 201 {
		t.Error(seen.Code, seen.Body)
	}
}

// The pages of a list are the list, and a cursor is of its list only.
//
// spec: P-10
func TestTheCursorIsOfItsList(t *testing.T) {
	w := begin(t, server.Options{})
	for range 7 {
		w.ended(w.start("failing", ""))
	}
	for _, path := range []string{"/executions?workflow=failing", "/dlq?workflow=failing"} {
		seen, pages, cursor := map[any]bool{}, 0, ""
		for {
			page := w.want(200, "GET", api+path+"&limit=3&cursor="+cursor, "")
			for _, item := range itemsOf(t, page) {
				if seen[item["run_id"]] {
					t.Errorf("%s: %v comes twice", path, item["run_id"])
				}
				seen[item["run_id"]] = true
			}
			pages++
			next, _ := page["next"].(string)
			if next == "" {
				break
			}
			cursor = next
		}
		if len(seen) != 7 || pages != 3 {
			t.Errorf("%s: %d runs in %d pages", path, len(seen), pages)
		}
		other := strings.Replace(path, "failing", "greet", 1)
		w.want(400, "GET", api+other+"&cursor="+cursor, "")
		w.want(400, "GET", api+"/schedules?cursor="+cursor, "")
		w.want(400, "GET", api+path+"&cursor=1"+cursor, "")
		w.want(400, "GET", api+path+"&cursor="+cursor[:len(cursor)-1], "")
	}
	id := w.start("counting", `{"input":20}`)
	w.want(200, "POST", api+"/executions/"+id+"/signal/go", `"on"`)
	w.ended(id)
	whole := itemsOf(t, w.want(200, "GET", api+"/executions/"+id+"/history", ""))
	var parts []map[string]any
	for from := "1"; from != ""; {
		page := w.want(200, "GET", api+"/executions/"+id+"/history?limit=7&from="+from, "")
		parts = append(parts, itemsOf(t, page)...)
		from, _ = page["next"].(string)
	}
	if fmt.Sprint(parts) != fmt.Sprint(whole) || len(whole) < 20 {
		t.Errorf("%d entries in pages, %d at once", len(parts), len(whole))
	}
}

// The list of approvals has pages, whatever is decided between two of them.
//
// spec: P-10, R-21
func TestApprovalsHavePages(t *testing.T) {
	w := begin(t, server.Options{})
	for i := range 5 {
		id := w.start("asking", fmt.Sprintf(`{"id":"a-%d"}`, i))
		w.until(id, "approval:pay")
	}
	const path = api + "/approvals?role=manager&limit=2&cursor="
	var seen []string
	cursor := ""
	for {
		page := w.want(200, "GET", path+url.QueryEscape(cursor), "")
		for _, item := range itemsOf(t, page) {
			seen = append(seen, fmt.Sprint(item["workflow_id"]))
		}
		next, _ := page["next"].(string)
		if next == "" {
			break
		}
		if cursor == "" {
			w.want(200, "POST", api+"/approvals/a-1/pay", `{"approved":true,"role":"manager"}`)
		}
		cursor = next
	}
	if got := strings.Join(seen, " "); got != "a-0 a-1 a-2 a-3 a-4" {
		t.Error(got)
	}
	for _, path := range []string{
		api + "/approvals?role=clerk&cursor=" + url.QueryEscape(cursor), path + "x",
		path + url.QueryEscape("1"+cursor), api + "/batches?cursor=" + url.QueryEscape(cursor),
	} {
		w.want(400, "GET", path, "")
	}
}

// A counted store counts the entries that are read.
type counted struct {
	store.Store
	read atomic.Int64
}

// Load implements store.Store.
func (c *counted) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	entries, err := c.Store.Load(ctx, run, r)
	c.read.Add(int64(len(entries)))
	return entries, err
}

// A page of a journal costs what it has, wherever it is, and has the names of scopes that earlier
// pages have opened. So do live events that go on.
//
// spec: P-10
func TestAPageOfAJournalReadsThatPage(t *testing.T) {
	nested := perdure.Define("nested", func(ctx context.Context, n int) (int, error) {
		outer := perdure.Go(ctx, "outer", func(ctx context.Context) (int, error) {
			inner := perdure.Go(ctx, "inner", func(ctx context.Context) (int, error) {
				for range n {
					if err := perdure.Do(ctx, "count", func(context.Context) error {
						return nil
					}); err != nil {
						return 0, err
					}
				}
				return n, nil
			})
			return inner.Await(ctx)
		})
		return outer.Await(ctx)
	})
	db := &counted{Store: memory.New()}
	w := open(t, setting{db: db, more: nested})
	path := api + "/executions/" + w.start("nested", `{"id":"n-1","input":300}`)
	w.ended("n-1")
	whole := itemsOf(t, w.want(200, "GET", path+"/history", ""))
	var parts []map[string]any
	for from := "1"; from != ""; {
		before := db.read.Load()
		page := w.want(200, "GET", path+"/history?limit=20&from="+from, "")
		if n := db.read.Load() - before; n > 30 {
			t.Errorf("the page from %s reads %d entries", from, n)
		}
		parts = append(parts, itemsOf(t, page)...)
		from, _ = page["next"].(string)
	}
	if fmt.Sprint(parts) != fmt.Sprint(whole) || len(whole) < 300 ||
		!strings.Contains(fmt.Sprint(whole[250]["operation"]), "outer/inner/count") {
		t.Errorf("%d entries in pages, %d at once: %v", len(parts), len(whole), whole[250])
	}
	before := db.read.Load()
	rest := w.follow(t.Context(), path+"/events", "295").rest()
	if n := db.read.Load() - before; n > 30 || !strings.Contains(fmt.Sprint(rest),
		"outer/inner/count") || len(rest) != len(whole)-295+1 {
		t.Errorf("%d events, %d entries read: %v", len(rest), n, rest)
	}
}

// A slow store takes its time to read.
type slow struct{ store.Store }

// Load implements store.Store.
func (s slow) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	select {
	case <-time.After(time.Second / 10):
		return s.Store.Load(ctx, run, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A request for the result of a chain that grows faster than it can be read ends with its wait. The
// answer has a run of the chain, from which the caller may go on.
//
// spec: P-10
func TestAChainThatGrowsEndsTheWait(t *testing.T) {
	growing := perdure.Define("growing", func(ctx context.Context, left int) (int, error) {
		err := perdure.Do(ctx, "nap", func(context.Context) error {
			time.Sleep(time.Second / 50)
			return nil
		})
		if err != nil || left == 0 {
			return left, err
		}
		return 0, perdure.ContinueAsNew(ctx, left-1)
	})
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true, db: slow{memory.New()}, more: growing})
		first := w.start("growing", `{"id":"g-1","input":3000}`)
		time.Sleep(time.Second)
		for wait, bound := range map[string]time.Duration{
			"0s": 6 * time.Second, "10s": 16 * time.Second,
		} {
			began := time.Now()
			got := w.want(202, "GET", api+"/executions/"+first+"/result?wait="+wait, "")
			took := time.Since(began)
			if got["is_terminal"] != false || got["run_id"] == first || took > bound {
				t.Errorf("after %v: %v", took, got)
			}
		}
	})
}

// A broken store does not answer the questions about it.
type broken struct{ store.Store }

// Info implements store.Store.
func (broken) Info(context.Context) (store.Info, error) {
	return store.Info{}, errors.New("the disk is gone: password=canary")
}

// spec: P-11
func TestReadyIsAServerWithADatabaseAndAnEngine(t *testing.T) {
	w := begin(t, server.Options{})
	w.want(200, "GET", "/healthz", "")
	w.ready()
	if got := w.want(200, "GET", "/readyz", ""); got["store"] != "ok" || got["engine"] != "ok" {
		t.Error(got)
	}
	idle, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		caller perdure.Caller
		store  store.Store
	}{
		"does not run": {idle, memory.New()}, "does not answer": {w.engine, broken{w.store}},
	} {
		s, err := server.New(c.caller, c.store, server.Options{
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		for path, status := range map[string]int{"/readyz": 503, "/healthz": 200} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			text := answer.Body.String()
			if answer.Code != status || status == 503 && !strings.Contains(text, want) ||
				strings.Contains(text, "canary") {
				t.Errorf("%s: %d %s", path, answer.Code, text)
			}
		}
	}
}

// spec: P-9
func TestTheSummaryIsServed(t *testing.T) {
	w := begin(t, server.Options{})
	w.ended(w.start("trip", `{"input":"rome"}`))
	w.ended(w.start("failing", ""))
	for _, c := range []struct {
		path             string
		total, completed float64
	}{{"/metrics", 2, 1}, {"/metrics/SAGA", 1, 1}, {"/metrics/WORKFLOW", 1, 0}} {
		got := w.want(200, "GET", api+c.path, "")
		runs := got["executions"].(map[string]any)
		if runs["total"] != c.total || runs["completed"] != c.completed ||
			!strings.HasPrefix(fmt.Sprint(got["uptime"]), "P") {
			t.Errorf("%s: %v", c.path, got)
		}
	}
	if got := w.want(404, "GET", api+"/metrics/nothing", ""); got["detail"] == "" {
		t.Error(got)
	}
}
