package dag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
)

// A reader reads a document and keeps all its defects.
type reader struct {
	registry Registry
	issues   []definition.Issue
}

// fields has the fields that an object may have, with the function that takes in each field.
type fields map[string]func(at string, v json.RawMessage)

// maxIssues limits the number of issues of one document.
const maxIssues = 1000

func (d *reader) complain(at, format string, args ...any) {
	if len(d.issues) < maxIssues {
		d.issues = append(d.issues, definition.Issue{
			Severity: definition.SeverityError, Where: at, Message: fmt.Sprintf(format, args...),
		})
	}
}

// object reads an object. A field that is not known, or that is there twice, is refused.
func (d *reader) object(at string, v json.RawMessage, known fields) {
	dec := json.NewDecoder(bytes.NewReader(v))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') || !json.Valid(v) {
		d.complain(at, "it is no JSON object")
		return
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, is := token.(string)
		var value json.RawMessage
		if err != nil || !is || dec.Decode(&value) != nil {
			d.complain(at, "it is no JSON object")
			return
		}
		switch take := known[name]; {
		case take == nil:
			d.complain(place(at, name), "this field is not known")
		case seen[name]:
			d.complain(place(at, name), "it is there twice")
		default:
			seen[name] = true
			take(place(at, name), value)
		}
	}
}

// list reads a list.
func (d *reader) list(at string, v json.RawMessage, take func(at string, v json.RawMessage)) {
	for i, one := range read[[]json.RawMessage](d, at, v) {
		take(place(at, strconv.Itoa(i)), one)
	}
}

// readOK reads a value of a type, and reports whether the value is of that type; null is not.
func readOK[T any](d *reader, at string, v json.RawMessage) (T, bool) {
	var out, zero T
	if err := json.Unmarshal(v, &out); err != nil || string(v) == "null" {
		d.complain(at, "it must be %s", typeNames[reflect.TypeFor[T]().Kind()])
		return zero, false
	}
	return out, true
}

var typeNames = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Int: "a whole number",
	reflect.Float64: "a number", reflect.Slice: "a list",
}

// read reads a value of a type, and returns zero if the value is not of that type.
func read[T any](d *reader, at string, v json.RawMessage) T {
	out, _ := readOK[T](d, at, v)
	return out
}

// name reads a text that must be valid as a name. It returns an empty text for any other value.
func (d *reader) name(at string, v json.RawMessage) string {
	s, ok := readOK[string](d, at, v)
	if err := pattern.CheckName("name", s, ""); ok && err != nil {
		d.complain(at, "%v", err)
		return ""
	}
	return s
}

// duration reads a time that is not negative.
func (d *reader) duration(at string, v json.RawMessage) time.Duration {
	s, ok := readOK[string](d, at, v)
	if !ok {
		return 0
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		d.complain(at, "%q is no time: it is like 90s, 5m or 36h", s)
	case t < 0:
		d.complain(at, "%v is not valid: at least 0", t)
	}
	return max(t, 0)
}

// number reads a number of at least least and at most most.
func number[N int | float64](d *reader, at string, v json.RawMessage, least, most N) N {
	n, ok := readOK[N](d, at, v)
	switch {
	case ok && n < least:
		d.complain(at, "%v is not valid: at least %v", n, least)
	case ok && n > most:
		d.complain(at, "%v is not valid: at most %v", n, most)
	}
	return min(max(n, least), most)
}

// retry reads a retry policy.
func (d *reader) retry(at string, v json.RawMessage) perdure.Retry {
	var r perdure.Retry
	d.object(at, v, fields{
		"attempts": func(at string, v json.RawMessage) {
			r.Attempts = number(d, at, v, 1, math.MaxInt)
		},
		"first": func(at string, v json.RawMessage) { r.First = d.duration(at, v) },
		"cap":   func(at string, v json.RawMessage) { r.Cap = d.duration(at, v) },
		"factor": func(at string, v json.RawMessage) {
			r.Factor = number(d, at, v, 1, math.MaxFloat64)
		},
		"jitter": func(at string, v json.RawMessage) { r.Jitter = number(d, at, v, 0.0, 1) },
		"on": func(at string, v json.RawMessage) {
			d.list(at, v, func(at string, v json.RawMessage) {
				if err := lookUp(d, at, v, d.registry.Errors); err != nil {
					r.On = append(r.On, err)
				}
			})
		},
	})
	return r
}
