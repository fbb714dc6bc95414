package filter_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/journal"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 5, time.UTC)

// spec: P-1, B-8
func TestAFilterIsReadAndPrinted(t *testing.T) {
	failed := []journal.Status{journal.Failed, journal.TimedOut}
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		query perdure.Query
		print string
	}{
		"":     {},
		" \t ": {},
		"status=failed,timed-out": {
			perdure.Query{Statuses: failed}, "status=FAILED,TIMED_OUT",
		},
		"open\nworkflow=order,refund pattern=saga": {
			perdure.Query{
				Open: true, Workflows: []string{"order", "refund"},
				Patterns: []journal.Pattern{journal.PatternSaga},
			}, "workflow=order,refund pattern=SAGA open",
		},
		"parent=ord-1 id=bestellung/ß": {
			perdure.Query{Parent: "ord-1", WorkflowID: "bestellung/ß"},
			"id=bestellung/ß parent=ord-1",
		},
		"since=24h ended<2026-11-01": {
			perdure.Query{CreatedFrom: now.Add(-24 * time.Hour), EndedTo: day},
			"created>=2026-11-24T12:00:00.000000005Z ended<2026-11-01T00:00:00Z",
		},
		"until=2w": {
			perdure.Query{CreatedTo: now.AddDate(0, 0, -14)},
			"created<2026-11-11T12:00:00.000000005Z",
		},
		"created>2026-11-01 created<=2026-11-01T01:00:00+01:00": {
			perdure.Query{CreatedFrom: day.Add(1), CreatedTo: day.Add(1)},
			"created>=2026-11-01T00:00:00.000000001Z created<2026-11-01T00:00:00.000000001Z",
		},
		"ended>=2026-11-01T00:00 stale=0s": {
			perdure.Query{EndedFrom: day, Stale: now},
			"ended>=2026-11-01T00:00:00Z stale=2026-11-25T12:00:00.000000005Z",
		},
		`error~declined attr.customer=4711 attr.a="x, y"`: {
			perdure.Query{Error: "declined", Attributes: map[string]string{
				"customer": "4711", "a": "x, y",
			}}, `error~declined attr.a="x, y" attr.customer=4711`,
		},
		`error~"a \"b\"\\" attr.empty=""`: {
			perdure.Query{Error: `a "b"\`, Attributes: map[string]string{"empty": ""}},
			`error~"a \"b\"\\" attr.empty=""`,
		},
	} {
		q, err := filter.Parse(text, now)
		if err != nil || !reflect.DeepEqual(q, want.query) {
			t.Errorf("%q is %+v, %v; want %+v", text, q, err, want.query)
		}
		if got := filter.Print(q); got != want.print {
			t.Errorf("%q is printed as %q, want %q", text, got, want.print)
		}
	}
	q := perdure.Query{Workflow: "w", After: journal.Cursor{Number: 1}, Limit: 5}
	if got := filter.Print(q); got != "workflow=w" {
		t.Errorf("a query with Workflow is printed as %q", got)
	}
}

// spec: B-8
func TestAFilterThatIsNotValidIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"statsu=failed":                     `"statsu" at character 1 .* did you mean status?`,
		"open  staus=failed":                `"staus" at character 7 .* did you mean status?`,
		"größe=1":                           `"größe" at character 1 .* allowed are attr.NAME, created, ended`,
		"workflow=ß open":                   `"ß" at character 10 `,
		"status=FAILLED":                    `"FAILLED" at character 8 .* did you mean FAILED?`,
		"status=FAILED,":                    `"status=" at character 1 .* a value is missing`,
		"status=":                           `a value is missing`,
		"status":                            `"status" at character 1 .* allowed is status=FAILED`,
		"status~FAILED":                     `"status~" at character 1 .* allowed is status=FAILED`,
		"status==FAILED":                    `"status==" at character 1`,
		"open=true":                         `"open=" at character 1 .* allowed is open`,
		"open open":                         `"open" at character 6 .* it is there already`,
		"status=FAILED status=TIMED_OUT":    `"status=" at character 15 .* it is there already .* a list is`,
		"pattern=graph":                     `"graph" at character 9 .* WORKFLOW, SAGA, TCC, MACHINE, ORCHESTRATOR`,
		"created=24h":                       `allowed is created>=24h or created<24h`,
		"created>=1h since=1h":              `"since=" at character 13 .* there already`,
		"created>1h created>=1h":            `there already`,
		"ended<yesterday":                   `"yesterday" at character 7 .* allowed are a time such as`,
		"ended<-5h":                         `"-5h" at character 7`,
		"ended<99999999999999999999h":       `at character 7`,
		"ended<4000000000d":                 `at character 7`,
		"ended<200000d":                     `at character 7`,
		"ended<0001-01-01":                  `at character 7`,
		"ended<2026-13-01":                  `at character 7`,
		"since=1h,2h":                       `"2h" at character 10 .* since has one value .* double quotes`,
		`error~"never ends`:                 `a quote does not end, .* outside of quotes .* for example error~"two words"`,
		`error~a"b`:                         `a quote does not end`,
		`error~""`:                          `allowed are 1 to 240 bytes`,
		`error~` + strings.Repeat("x", 300): `allowed are 1 to 240 bytes`,
		`error~"a"b`:                        `"b" at character 10 .* a space or a comma follows a value`,
		`error~"\x00"`:                      `allowed is UTF-8 without zero bytes`,
		`error~"\xff"`:                      `allowed is UTF-8 without zero bytes`,
		"error~\xff":                        `no UTF-8`,
		"attr=1":                            `allowed is attr.NAME=VALUE`,
		"attr.=1":                           `allowed is attr.NAME=VALUE`,
		"attr.a b=1":                        `"attr.a" at character 1 .* allowed is attr.customer=4711`,
		"attr.a=1 attr.a=2":                 `"attr.a=" at character 10 .* it is there already`,
		"attr.a= open":                      `a value is missing`,
		"id=\"a b\"":                        `"a b" at character 4`,
		"workflow=" + strings.Repeat("w,", 1000) + "w": `at most 1000 values`,
		strings.Repeat(" ", 1<<20):                     `1048576 bytes is not valid: at most 65536`,
		"=":                                            `"" at character 1`,
	} {
		q, err := filter.Parse(text, now)
		var e *perdure.Error
		if !errors.As(err, &e) || e.Code != perdure.CodeInvalid ||
			!reflect.DeepEqual(q, perdure.Query{}) {
			t.Errorf("%q is %+v, %v", text, q, err)
			continue
		}
		said := e.Message + " " + e.Hint
		for _, part := range strings.Split(want, ".* ") {
			if !strings.Contains(said, part) {
				t.Errorf("%q: the error %q lacks %q", text, said, part)
			}
		}
	}
}

// What is printed is read as the same query, and nothing makes the parser panic.
//
// spec: B-8
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`status=FAILED,TIMED_OUT workflow=order pattern=saga since=24h ended<2026-11-01 ` +
			`attr.customer=4711 error~"card declined" parent=ord-1 open id=x stale=1h`,
		`created>1h created<=2w error~"\x00\"" attr.a=","`, `a"b=,,`, "\xff", `attr..=\`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := filter.Parse(text, now)
		if err != nil {
			return
		}
		printed := filter.Print(q)
		again, err := filter.Parse(printed, now.Add(time.Hour))
		if len(printed) > filter.MaxText {
			return
		}
		if err != nil || !reflect.DeepEqual(q, again) || filter.Print(again) != printed {
			t.Errorf("%q is printed as %q, which is %+v, %v; want %+v", text, printed, again, err,
				q)
		}
	})
}

func ExampleParse() {
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	q, err := filter.Parse(`status=failed since=24h error~"card declined"`, noon)
	fmt.Println(q.Statuses[0], q.Error, err)
	fmt.Println(filter.Print(q))
	_, err = filter.Parse("open statsu=failed", noon)
	fmt.Println(err)
	// Output:
	// FAILED card declined <nil>
	// status=FAILED created>=2026-11-24T12:00:00Z error~"card declined"
	// perdure: filter: "statsu" at character 6 of the filter is not valid: allowed are attr.NAME, created, ended, error, id, open, parent, pattern, since, stale, status, until, workflow (did you mean status?)
}
