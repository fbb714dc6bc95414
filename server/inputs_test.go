package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// An input is a request with the statuses that it may have.
type input struct {
	rows         string // of the checklist
	method, path string
	body         string
	headers      []string
	want         string // statuses
}

func start(rows, body, want string) input {
	return input{rows, "POST", "/workflows/waiting/start", body, nil, want}
}

// The rows of the checklist of bad inputs that are about requests. Left out are those about
// tenants, which this product has none of (4–6, 47), about a bind address and configuration (2, 48,
// 49, 51), about the page of operators, which is another package (52–54, 61, 62, 64, 65), and about
// HTTP/2, which is served only where an application adds TLS (32). Rows 1, 9 and 15 are in the
// matrix of routes, 12 is a look-up by hash in package auth, 13, 14, 55 to 63 have tests about
// sessions and streams, and 26, 27, 29, 31 tests about connections.
//
// spec: P-10
func TestABadRequestIsNamed(t *testing.T) {
	w := begin(t, server.Options{MaxBody: 1 << 16})
	w.start("waiting", `{"id":"w-1"}`)
	deep := strings.Repeat("[", 10_001)
	long := strings.Repeat("a", 300)
	all := []input{
		start("16", `{"tenant":"*"}`, "400"), start("16", `{"is_admin":true}`, "400"),
		start("16", `{"lease_token":9}`, "400"),
		start("17", `{"id":"a","id":"b"}`, "400"),
		start("17", `{"input":{"a":1,"a":2}}`, "400"),
		start("18", `{"Id":"a"}`, "400"), start("18", `{"ID":"a","id":"b"}`, "400"),
		start("18", `{"ıd":"a"}`, "400"), start("18", `{"ınput":1}`, "400"),
		start("19", `{}{}`, "400"), start("19", `{} x`, "400"), start("19", "\ufeff{}", "400"),
		start("19", `x{}`, "400"), start("19", `{`, "400"), start("19", ` `, "400"),
		start("19", `null`, "200 201 400"), start("19", `[]`, "400"), start("19", `"a"`, "400"),
		start("20", `{"nothing":1}`, "400"),
		start("21", deep, "400"), start("21", `{"input":`+deep, "400"),
		start("21", strings.Repeat(`{"a":`, 5_000), "400"),
		start("22", `{"input":1e400}`, "400"), start("22", `{"input":0x10}`, "400"),
		start("22", `{"input":NaN}`, "400"), start("22", `{"input":1E+999999999}`, "400"),
		start("22", `{"id":9007199254740993}`, "400"), start("22", `{"input":-0}`, "201"),
		start("22", `{"input":`+strings.Repeat("9", 300)+`}`, "201"),
		start("22", `{"input":`+strings.Repeat("9", 50_000)+`}`, "400"),
		start("23", `{"id":"\ud800"}`, "400"), start("23", `{"id":"\u0000"}`, "400"),
		start("23", "{\"id\":\"a\xff\"}", "400"), start("23", "{\"input\":\"a\xff\"}", "400"),
		start("23", `{"id":"a\nb"}`, "400"), start("23", `{"input":"\u202e\u0000😀"}`, "201"),
		start("24", `{"id":"caf\u00e9"}`, "201 400"), start("24", `{"id":"cafe\u0301"}`, "201 400"),
		start("25", `{"id":""}`, "201"), start("25", `{"id":"`+long+`"}`, "400"),
		start("25", `{"id":"   "}`, "201 400"), start("25", `{"id":".."}`, "201 400"),
		start("25", `{"id":"-"}`, "201 400"), start("25", `{"id":"null"}`, "201 400"),
		start("26", `{"input":"`+strings.Repeat("a", 1<<16)+`"}`, "413"),
		start("35", `{"delay":"-1s"}`, "400"), start("35", `{"delay":"9999999h"}`, "400"),
		start("35", `{"delay":"P1Y"}`, "400"), start("35", `{"delay":"NaN"}`, "400"),
		start("35", `{"dedup":"9223372036854775808ns"}`, "400"),
		start("35", `{"at":"0000-01-01T00:00:00Z"}`, "201 400"),
		start("35", `{"at":"9999-12-31T23:59:59Z"}`, "201 400"),
		start("35", `{"at":"292278994-08-17T07:12:55Z"}`, "400"),
		start("35", `{"at":"2020-01-01T00:00:00Z","delay":"1s"}`, "400"),
		start("38", `{"attributes":{"__proto__":"x"}}`, "201 400"),
		start("38", `{"attributes":{"a=b":"x"}}`, "201 400"),
		start("38", `{"attributes":{"a\nb":"x"}}`, "400"),
		start("38", `{"attributes":{"a":"`+strings.Repeat("x", 40_000)+`"}}`, "400 413"),
		start("38", `{"attributes":{`+many(101)+`}}`, "400"),
		start("38", `{"headers":{`+many(101)+`}}`, "400"),
	}
	all = append(all, inputsOfAddresses()...)
	all = append(all, inputsOfLists()...)
	all = append(all, inputsOfSettings()...)
	for _, in := range all {
		if !strings.HasPrefix(in.path, "!") {
			in.path = api + in.path
		}
		status, text := w.ask(in.method, strings.TrimPrefix(in.path, "!"), in.body, in.headers...)
		if !strings.Contains(in.want, fmt.Sprint(status)) {
			t.Errorf("row %s: %s %.80s %.80s %.80v: status %d, want %s: %.200s", in.rows, in.method,
				in.path, in.body, in.headers, status, in.want, text)
		}
	}
}

// many returns fields for that many keys.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%d":"v"`, i))
	}
	return strings.Join(all, ",")
}

func inputsOfAddresses() []input {
	get := func(rows, path, want string) input { return input{rows, "GET", path, "", nil, want} }
	post := func(want string, headers ...string) input {
		return input{"30", "POST", "/workflows/waiting/start", `{}`, headers, want}
	}
	return []input{
		get("8", "/executions/1", "404"), get("8", "/executions/run_1", "404"),
		{"10", "GET", "/executions/w-1", "", []string{"X-HTTP-Method-Override", "DELETE"}, "200"},
		{"10", "POST", "/executions/w-1?_method=DELETE", "", nil, "405"},
		{"10", "OPTIONS", "/executions/w-1", "", nil, "405"},
		{"10", "TRACE", "/executions/w-1", "", nil, "405"},
		{"10", "PATCH", "/limits/x", "", nil, "405"},
		get("11", "//executions", "404"), get("11", "/./executions", "404"),
		get("11", "/x/../executions", "404"), get("11", "/%2e%2e/executions", "404"),
		get("11", "/executions/", "404"), get("11", "/executions;a=b", "404"),
		get("11", "/Executions", "404"), get("11", "/executions.", "404"),
		get("11", "/executions/w-1/..", "404"), get("11", "/executions/x%2fy", "404"),
		get("11", "/executions%2Fw-1", "404"), get("11", "/workflows/instances/w-1", "200"),
		get("11", "/workflows/%69nstances/w-1", "404"),
		get("11", "/workflows/instances/../instances/w-1", "404"),
		get("23", "/executions/%00", "400"), get("23", "/executions/a%0Ab", "400"),
		get("23", "/executions/%ff", "400"), get("23", "/executions/%E2%80%AE", "400 404"),
		get("25", "/executions/"+strings.Repeat("a", 600), "400"),
		get("25", "/executions/%20", "400 404"), get("25", "/executions/--", "400 404"),
		get("28", "/executions?a=b", "400"),
		post("415", "Content-Encoding", "gzip"), post("415", "Content-Encoding", "br"),
		post("415", "Content-Encoding", "gzip, gzip"), post("201", "Content-Encoding", "identity"),
		post("415", "Content-Type", "text/plain"), post("415", "Content-Type", ""),
		post("415", "Content-Type", "application/json; charset=utf-7"),
		post("415", "Content-Type", "multipart/form-data; boundary=x"),
		post("415", "Content-Type", "application/x-www-form-urlencoded"),
		post("415", "Content-Type", "application/"), post("415", "Content-Type", ";;;"),
		post("201", "Content-Type", "application/json; charset=UTF-8"),
		post("201", "Accept", "text/html"), post("201", "Accept", "application/cbor;q=x,*/*"),
		get("33", "/executions?filter="+strings.Repeat("a", 200_000), "431"),
		get("33", "/executions?limit=1&limit=2", "400"), get("33", "/executions?limit=%zz", "400"),
		get("33", "/executions?%00=1", "400"), get("33", "/executions?limit=1;cursor=x", "400"),
		{"39", "POST", "/workflows/waiting/start", "{}",
			[]string{"Idempotency-Key", strings.Repeat("k", 10_000)}, "400"},
		{"39", "POST", "/workflows/waiting/start", "{}", []string{"Idempotency-Key", "k\xff"},
			"400"},
		{"39", "POST", "/executions/w-1/signal/x", "{}", []string{"Idempotency-Key", "k\xff"},
			"400"},
		get("79", "/executions/..%2f..%2fetc%2fpasswd", "404"),
		get("79", "/workflows/%2Fetc%2Fpasswd", "404"), get("79", "/dlq/..%5C..%5C", "400 404"),
		get("79", "/batches/..%2f..", "400 404"), get("79", "/schedules/..", "404"),
		{"57", "OPTIONS", "/executions", "", []string{
			"Origin", "https://evil.example", "Access-Control-Request-Method", "POST",
		}, "405"},
		{"58", "GET", "/executions", "", []string{"Host", "attacker.tld"}, "421"},
		get("7", "/callbacks/show", "405"),
		{"7", "POST", "/callbacks/show", `{"token":"forged"}`, nil, "401"},
		{"7", "POST", "/callbacks/succeed", `{"token":""}`, nil, "401"},
		{"7", "POST", "/callbacks/fail", `{"token":"\u0000"}`, nil, "400"},
		{"7", "POST", "/approval-tokens", `{"token":"forged"}`, nil, "401"},
		{"7", "POST", "/approval-tokens/show", `{"token":"forged"}`, nil, "401"},
		{"77", "POST", "/approval-tokens", `{"token":"a.b.c"}`, nil, "401"},
		{"78", "POST", "/approval-tokens?token=x", `{"token":"x"}`, nil, "400"},
	}
}

func inputsOfLists() (all []input) {
	list := func(rows, query, want string) {
		all = append(all, input{rows, "GET", "/executions?" + query, "", nil, want})
	}
	for _, limit := range []string{"-1", "0", "1000000000", "1e3", "abc", "1.5", "0x1", "%201"} {
		for _, path := range []string{
			"/executions", "/dlq", "/batches", "/schedules", "/parked", "/signals/unrouted",
			"/approvals", "/executions/w-1/history",
		} {
			all = append(all, input{"34", "GET", path + "?limit=" + limit, "", nil, "400"})
		}
	}
	for _, cursor := range []string{"x", "1", ".", "1.abcdef", "a.b.c", strings.Repeat("9", 150)} {
		for _, path := range []string{"/executions", "/dlq", "/batches", "/schedules", "/parked"} {
			all = append(all, input{"34", "GET", path + "?cursor=" + cursor, "", nil, "400"})
		}
	}
	for _, from := range []string{"-1", "0", "99999999999999999999", "x"} {
		path := "/executions/w-1/history?from=" + from
		all = append(all, input{"34", "GET", path, "", nil, "400"})
	}
	for _, from := range []string{"9223372036854775807", "1000000000000"} {
		path := "/executions/w-1/history?from=" + from
		all = append(all, input{"34", "GET", path, "", nil, "200"})
	}
	for _, wait := range []string{"-1s", "9999999h", "P1Y", "NaN", "x", "1"} {
		all = append(all, input{"35", "GET", "/executions/w-1/result?wait=" + wait, "", nil, "400"})
	}
	list("41", "filter='+OR+1%3D1+--", "400")
	list("41", "filter=id%3D%22%27+OR+1%3D1+--%22", "200 400")
	list("41", "workflow='+OR+1%3D1+--", "200 400")
	list("41", "workflow=%22%3B+DROP+TABLE+runs%3B--", "200 400")
	list("41", "status='+OR+''%3D'", "400")
	list("42", "sort=created_at", "400")
	list("42", "order_by=pg_sleep(10)", "400")
	list("43", "filter=%24..*%3D1", "400")
	list("43", "filter=attr.a'||(select+1)||'%3Dx", "400")
	list("44", "filter=id%3D%25", "200 400")
	list("44", "filter=id%3D_", "200 400")
	list("45", "filter=id~(a%2B)%2B%24", "400")
	list("46", "filter="+strings.Repeat("(", 1000)+"status%3Dfailed"+strings.Repeat(")", 1000),
		"400")
	list("46", "filter="+strings.Repeat("NOT+", 1000)+"status%3Dfailed", "400")
	list("46", "filter=status%3Dfailed"+strings.Repeat("+OR+status%3Dfailed", 2000), "400")
	list("46", strings.Repeat("workflow=a&", 200)+"limit=1", "400")
	list("34", "status=nothing", "400")
	list("34", "pattern=nothing", "400")
	return all
}

func inputsOfSettings() (all []input) {
	put := func(rows, path, body, want string) {
		all = append(all, input{rows, "PUT", path, body, nil, want})
	}
	for _, cron := range []string{
		"* * * * * *x", "*/0 * * * *", "60 * * * *", "0 0 31 2 *", "@every 1ns", "@every -1s",
		strings.Repeat("1,", 30_000) + " * * * *", "CRON_TZ=../../etc/passwd * * * * *",
		"TZ=\\u0000 * * * * *", "", "x",
	} {
		put("37", "/schedules/bad", `{"workflow":"greet","cron":"`+cron+`"}`, "400")
	}
	for _, zone := range []string{"../../etc/passwd", "/etc/localtime", "Mars/Base", "\\u0000"} {
		put("37", "/schedules/bad", `{"workflow":"greet","cron":"0 3 * * *","zone":"`+zone+`"}`,
			"400")
	}
	for _, field := range []string{
		`"every":"1ns"`, `"every":"-1s"`, `"every":"P1Y"`, `"every":"9999999h"`,
		`"every":"1h","times":-1`, `"every":"1h","overlap":"x"`, `"every":"1h","catch_up":"x"`,
		`"every":"1h","jitter":"-1s"`, `"every":"1h","cron":"0 3 * * *"`, `"every":5`,
	} {
		put("35 36 37", "/schedules/bad", `{"workflow":"greet",`+field+`}`, "400")
	}
	for _, bounds := range []string{
		`{"concurrency":-1}`, `{"concurrency":1.5}`, `{"slots":99999999999999999999}`,
		`{"rate":"-1/1s"}`, `{"rate":"1/0s"}`, `{"rate":"1/-1s"}`, `{"rate":"NaN/1s"}`,
		`{"rate":"10"}`, `{"rate":"1e9/1s"}`, `{"burst":-1}`, `{}`,
	} {
		put("36", "/limits/bad", bounds, "400")
	}
	for _, rule := range []string{
		`{"times":-1}`, `{"within":"-1s"}`, `{"in_a_row":2147483648}`, `{"statuses":["x"]}`,
		`{"causes":["x"],"to":["a@b.example"]}`, `{"causes":null,"To":[]}`,
	} {
		put("36", "/alerts/bad", rule, "400")
	}
	for _, batch := range []string{
		`{}`, `{"order":{"action":"explode"},"runs":["a"]}`, `{"order":{"action":"cancel"}}`,
		`{"order":{"action":"cancel"},"runs":["a"],"rate":-1}`,
		`{"order":{"action":"cancel"},"runs":["a"],"rate":1e308}`,
		`{"order":{"action":"cancel"},"filter":"' OR 1=1"}`,
		`{"order":{"action":"cancel"},"runs":["a"],"filter":"status=failed"}`,
	} {
		for _, path := range []string{"/batches", "/batch-previews"} {
			all = append(all, input{"36 41", "POST", path, batch, nil, "400"})
		}
	}
	return all
}

// stores returns a store of each kind that keeps text in a database.
func stores(t *testing.T) map[string]func(*testing.T) store.Store {
	return map[string]func(*testing.T) store.Store{
		"sqlite": func(t *testing.T) store.Store {
			db, err := sqlite.Open(filepath.Join(t.TempDir(), "runs.db"))
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
		"postgres": func(t *testing.T) store.Store {
			db, err := postgres.Open(t.Context(), testpg.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
	}
}

// A text that breaks out of a statement, or that the database does not take, does no harm: it is
// taken as it is, or refused.
//
// spec: P-10
func TestTextsAreOnlyTexts(t *testing.T) {
	texts := []string{
		`' OR 1=1 --`, `"; DROP TABLE runs;--`, `\\'`, `0x27`, `%27`, `'); --`, `a'||(select 1)||'`,
		`a\"b`, `a.b`, `%`, `_`, `$1`, `{{7*7}}`, `<script>alert(1)</script>`, `\u0000`, `a\u0000b`,
		`\u202e`, `\ud800`, `\u2028`, `\r\nlevel=INFO`, `😀`, `../../etc/passwd`, `NaN`, `null`,
	}
	for name, open1 := range stores(t) {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" && os.Getenv(testpg.Env) == testpg.None {
				t.Skip("no PostgreSQL")
			}
			w := open(t, setting{db: open1(t)})
			w.start("waiting", `{"id":"w-1"}`)
			for _, text := range texts {
				w.harmless(text)
			}
			first(w, "/executions?workflow=waiting")
		})
	}
}

// escaped returns a text of JSON for a path.
func escaped(text string) string {
	var plain string
	if err := json.Unmarshal([]byte(`"`+text+`"`), &plain); err != nil {
		plain = text
	}
	return url.PathEscape(plain)
}

// noFault sends a request that the server must not fail by.
func (w *world) noFault(method, path, body string) {
	w.t.Helper()
	if status, answer := w.ask(method, api+path, body); status >= 500 {
		w.t.Errorf("%s %s %s: %d %.300s", method, path, body, status, answer)
	}
}

// harmless sends a text, as it is in JSON, in each place that takes one.
func (w *world) harmless(text string) {
	w.t.Helper()
	q := `"` + text + `"`
	for path, body := range map[string]string{
		"POST /workflows/waiting/start": `{"input":` + q + `,"attributes":{"a":` + q +
			`},"headers":{"h":` + q + `}}`,
		"POST /workflows/waiting/starts":    `{"items":[{"id":` + q + `}]}`,
		"POST /executions/w-1/signal/other": q,
		"POST /signals/other":               `{"items":[{"id":` + q + `,"payload":` + q + `,"key":` + q + `}]}`,
		"POST /statuses":                    `{"ids":[` + q + `]}`,
		"POST /executions/w-1/suspend":      `{"reason":` + q + `}`,
		"POST /executions/w-1/resume":       `{"reason":` + q + `}`,
		"POST /executions/w-1/fork":         `{"step":` + q + `,"reason":` + q + `}`,
		"POST /executions/w-1/fork/preview": `{"step":` + q + `}`,
		"POST /executions/w-1/decide/which": `{"choice":` + q + `,"data":` + q + `,"reason":` + q + `}`,
		"POST /approvals/w-1/pay": `{"approved":true,"role":` + q + `,"for":` + q + `,"reason":` + q +
			`,"data":` + q + `}`,
		"POST /approval-tokens":      `{"token":` + q + `}`,
		"POST /approval-tokens/show": `{"token":` + q + `}`,
		"POST /callbacks/succeed":    `{"token":` + q + `}`,
		"PUT /schedules/s-1": `{"workflow":` + q + `,"every":"24h","description":` + q + `,"input":` +
			q + `,"headers":{` + q + `:` + q + `}}`,
		"POST /schedules/s-1/pause": `{"reason":` + q + `}`,
		"PUT /limits/l-1":           `{"rate":` + q + `}`,
		"PUT /alerts/a-1":           `{"to":[` + q + `],"causes":[` + q + `]}`,
		"POST /batch-previews":      `{"runs":[` + q + `],"order":{"action":"cancel","reason":` + q + `}}`,
		"POST /batches":             `{"filter":` + q + `,"order":{"action":"cancel"}}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		w.noFault(method, path, body)
	}
	for _, path := range []string{
		"/executions/%s", "/executions/%s/history", "/workflows/%s", "/workflows/%s/versions",
		"/executions?filter=id%%3D%s", "/executions?workflow=%s", "/dlq?workflow=%s",
		"/dlq?workflow_id=%s", "/dlq/%s", "/schedules/%s", "/schedules?workflow=%s", "/batches/%s",
		"/approvals?role=%s", "/approvals?workflow=%s", "/approvals?id=%s", "/metrics/%s",
		"/executions?cursor=%s",
	} {
		w.noFault(http.MethodGet, fmt.Sprintf(path, escaped(text)), "")
	}
	for _, path := range []string{"/limits/%s", "/pauses/%s", "/alerts/%s", "/keys/%s"} {
		w.noFault(http.MethodDelete, fmt.Sprintf(path, escaped(text)), "")
	}
}
