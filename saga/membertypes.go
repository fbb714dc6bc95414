package saga

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/jsontype"
)

// checkInput adds an issue for every part of a member's input that the saga of the member does not
// accept. The composition's input has the type whole.
func (m *member) checkInput(whole reflect.Type) {
	own := map[string]bool{} // keys that hide those of the composition's input
	for _, key := range slices.Sorted(maps.Keys(m.static)) {
		own[key] = true
		m.checkStatic(key)
	}
	for _, mapped := range m.mapped {
		own[mapped.key] = true
		message := mapped.from.issue(m)
		if message == "" {
			message = m.mappedIssue(mapped, whole)
		}
		if message != "" {
			m.complain(mapped.key, "%s", message)
		}
	}
	if m.input == reflect.TypeFor[Inputs]() && m.compile != nil {
		for _, key := range slices.Sorted(maps.Keys(own)) {
			if m.compile().byID[key] == nil {
				m.complain(key, "the saga has no step of this ID")
			}
		}
	}
	if len(own) == 0 && !jsontype.Fits(whole, m.input) {
		m.complain("", "its input is of type %v, and the composition's of type %v", m.input, whole)
		return
	}
	for _, key := range jsontype.Keys(whole) {
		if from, _ := jsontype.Key(whole, key); !own[key] && jsontype.KeyFits(nil, key, m.input) {
			m.checkKey(key, from)
		}
	}
}

// checkKey adds an issue if the saga's input does not accept a key of that type. A nil type means
// any type.
func (m *member) checkKey(key string, from reflect.Type) {
	if message := m.keyIssue(key, from); message != "" {
		m.complain(key, "%s", message)
	}
}

func (m *member) keyIssue(key string, from reflect.Type) string {
	switch {
	case !jsontype.KeyFits(nil, key, m.input):
		return fmt.Sprintf("the input of the saga has no such key: it is of type %v", m.input)
	case !jsontype.KeyFits(from, key, m.input):
		return fmt.Sprintf("the input of the saga, of type %v, does not take a value of type %v",
			m.input, from)
	}
	return ""
}

// checkStatic adds an issue for a value of [Member.With] that the saga's input does not accept.
func (m *member) checkStatic(key string) {
	m.checkKey(key, nil)
	if of, known := jsontype.Key(m.input, key); !known || of == nil {
		return // the type decodes itself
	}
	object, err := json.Marshal(map[string]json.RawMessage{key: m.static[key]})
	if err == nil {
		err = guard.Call(func() error {
			return json.Unmarshal(object, reflect.New(m.input).Interface())
		})
	}
	if err != nil {
		m.complain(key, "it does not decode into the input of the saga: %v", err)
	}
}

// mappedIssue returns the problem of the type of a mapped value; empty if there is none.
func (m *member) mappedIssue(mapped mapping, whole reflect.Type) string {
	var from reflect.Type
	s := mapped.from
	switch {
	case s.step != nil:
		from = s.step.result
	case s.variable == "":
		field, known := jsontype.Key(whole, s.key)
		if !known {
			return fmt.Sprintf("there is no key %q in the composition's input, a %v", s.key, whole)
		}
		from = field
	}
	if s.field != "" {
		field, known := jsontype.Key(from, s.field)
		if !known {
			return fmt.Sprintf("there is no key %q in %s, a %v", s.field, s.described, from)
		}
		from = field
	}
	return m.keyIssue(mapped.key, from)
}
