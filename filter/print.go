package filter

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/perdure/perdure"
)

// Print returns the text of a query. [Parse] returns the same query for it, whatever the time is
// then. Print leaves out After and Limit, and Workflows if the query has Workflow.
func Print(q perdure.Query) string {
	var all []string
	list := func(key string, values []string) {
		for i := range values {
			values[i] = Quote(values[i])
		}
		if len(values) > 0 {
			all = append(all, key+strings.Join(values, ","))
		}
	}
	one := func(key, value string) {
		if value != "" {
			list(key, []string{value})
		}
	}
	at := func(key string, t time.Time) {
		if !t.IsZero() {
			one(key, t.UTC().Format(time.RFC3339Nano))
		}
	}
	list("status=", texts(q.Statuses))
	workflows := slices.Clone(q.Workflows)
	if q.Workflow != "" {
		workflows = []string{q.Workflow}
	}
	list("workflow=", workflows)
	list("pattern=", texts(q.Patterns))
	one("id=", q.WorkflowID)
	one("parent=", q.Parent)
	if q.Open {
		all = append(all, "open")
	}
	at("created>=", q.CreatedFrom)
	at("created<", q.CreatedTo)
	at("ended>=", q.EndedFrom)
	at("ended<", q.EndedTo)
	at("stale=", q.Stale)
	one("error~", q.Error)
	for _, name := range slices.Sorted(maps.Keys(q.Attributes)) {
		list("attr."+name+"=", []string{q.Attributes[name]})
	}
	return strings.Join(all, " ")
}

func texts[E interface{ String() string }](values []E) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

// Quote returns a value as a text has it: in double quotes if it needs them.
func Quote(s string) string {
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`",\`, r)
	}
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}
