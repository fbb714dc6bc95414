package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/pattern"
)

// A Member is a saga in a composition. Its methods build it, and return it.
type Member struct{ m *member }

// A member is a [Member] inside its definition.
type member struct {
	of       *composition
	alias    string
	input    reflect.Type // of the saga
	compile  func() *plan
	decode   func(json.RawMessage) error // returns why the data cannot be the saga's input
	after    []*member
	static   map[string]json.RawMessage
	mapped   []mapping
	optional bool
	when     pattern.Condition
	issues   []definition.Issue
}

// A mapping is a key of a member's input and the source of its value.
type mapping struct {
	key  string
	from Source
}

// Include adds a saga to a composition, under an alias. One saga may be included under several
// aliases. Mistakes in a member are reported when the composition is registered.
func Include[I, M any](c *Composition[I], alias string, s *Saga[M]) *Member {
	m := &member{of: c.def, alias: alias, input: reflect.TypeFor[M](),
		decode: func(input json.RawMessage) error {
			_, err := pattern.Decode[M](input)
			return err
		}}
	if s == nil || s.def == nil {
		m.complain("", "a member needs a saga")
	} else {
		m.compile = s.def.compile
	}
	c.def.members = append(c.def.members, m)
	return &Member{m}
}

func (m *member) complain(at, format string, args ...any) {
	m.issues = append(m.issues, definition.Issue{
		Severity: definition.SeverityError, Where: where(m.alias, at),
		Message: fmt.Sprintf(format, args...),
	})
}

// After makes the member begin after the given members have ended.
func (m *Member) After(members ...*Member) *Member {
	for _, before := range members {
		if before == nil || before.m == nil {
			m.m.complain("after", "a nil member")
			continue
		}
		m.m.after = append(m.m.after, before.m)
	}
	return m
}

// With sets keys of the member's input. They take precedence over the composition's keys. The value
// may be of any type that is an object as JSON.
func (m *Member) With(static any) *Member {
	data, err := json.Marshal(static)
	if err == nil {
		err = json.Unmarshal(data, &m.m.static)
	}
	if err != nil {
		m.m.complain("with", "it is no object: %v", err)
	}
	return m
}

// Map sets a key of the member's input to a value of the run. It takes precedence over all other
// values of the key. If the source has no value, the key is not set.
func (m *Member) Map(key string, from Source) *Member {
	m.m.mapped = append(m.m.mapped, mapping{key, from})
	return m
}

// Optional lets the other members go on if this member fails. The member is undone, and members
// that come after it get no value from it.
func (m *Member) Optional() *Member {
	m.m.optional = true
	return m
}

// When sets a condition, which is evaluated when the member could begin. If it does not hold, the
// member is SKIPPED, which is not a failure. The results that the condition can read are those of
// members, by alias; each is an object with the results of the member's steps. A condition that
// cannot be evaluated fails the member.
func (m *Member) When(c pattern.Condition) *Member {
	if c == nil {
		m.m.complain("when", "a nil condition")
	}
	m.m.when = c
	return m
}

// A Source is the origin of a value: [FromStep], [FromInput] or [FromVariable].
type Source struct {
	member    *member
	step      *step
	key       string // of the input
	variable  string
	field     string
	described string
}

// FromStep returns a source: the result of a step of an earlier member. For a step over a list it
// is the list of all results.
func FromStep[A, R any](of *Member, s *Step[A, R]) Source {
	if of == nil || s == nil {
		return Source{}
	}
	return Source{member: of.m, step: s.s, described: of.m.alias + "/" + s.s.id}
}

// FromInput returns a source: a key of the composition's input.
func FromInput(key string) Source { return Source{key: key, described: "the input's " + key} }

// FromVariable returns a source: a variable of the run. Members share variables.
func FromVariable(name string) Source {
	return Source{variable: name, described: "variable " + name}
}

// Field returns a source: the value of a key in the object that is the value of s.
func (s Source) Field(key string) Source {
	s.field = key
	return s
}

// issue returns the problem of a source of a member; empty if there is none.
func (s Source) issue(m *member) string {
	switch {
	case s.described == "":
		return "a source is needed"
	case s.step == nil || s.member.compile == nil:
		return ""
	case s.step.of != s.member.compile().key:
		return fmt.Sprintf("step %s is not one of member %s", s.step.id, s.member.alias)
	case !m.follows(s.member, map[*member]bool{}):
		return fmt.Sprintf("member %s does not come before", s.member.alias)
	}
	return ""
}

// follows reports whether a member comes after another member, directly or not.
func (m *member) follows(other *member, seen map[*member]bool) bool {
	if seen[m] {
		return false
	}
	seen[m] = true
	for _, before := range m.after {
		if before == other || before.follows(other, seen) {
			return true
		}
	}
	return false
}

// value returns the value that a source has in a run; nil if it has none.
func (s Source) value(ctx context.Context, x *compositionRun) (json.RawMessage, error) {
	var data json.RawMessage
	switch {
	case s.step != nil:
		if part := x.parts[s.member.alias]; part != nil && part.err == nil {
			data = part.resultOf(s.step.id)
		}
	case s.variable != "":
		var err error
		if data, _, err = perdure.Variable[json.RawMessage](ctx, s.variable); err != nil {
			return nil, err
		}
	default:
		data = fieldsOf(x.input)[s.key]
	}
	if s.field != "" {
		data = fieldsOf(data)[s.field]
	}
	return data, nil
}

// fieldsOf returns the keys of an object; nil if the data is not an object.
func fieldsOf(data json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	return fields
}

// inputOf makes the input of a member: the keys of the composition, then the static keys, then the
// mapped keys. A later key replaces an earlier one.
func (x *compositionRun) inputOf(ctx context.Context, m *member) (json.RawMessage, error) {
	input := x.input
	if len(m.static)+len(m.mapped) > 0 {
		merged := map[string]json.RawMessage{}
		maps.Copy(merged, fieldsOf(x.input))
		maps.Copy(merged, m.static)
		for _, mapped := range m.mapped {
			data, err := mapped.from.value(ctx, x)
			if err != nil {
				return nil, err
			}
			if data != nil {
				merged[mapped.key] = data
			}
		}
		var err error
		if input, err = json.Marshal(merged); err != nil {
			return nil, err
		}
	}
	return input, m.decode(input)
}

// known returns the values that conditions can read. Only workflow code writes the results, and it
// does not write while it evaluates a condition.
func (x *compositionRun) known(ctx context.Context) (pattern.View, error) {
	for len(x.unread) > 0 {
		p := x.unread[0]
		data, err := json.Marshal(p.resultsOf(""))
		if err != nil {
			return pattern.View{}, err
		}
		x.results[p.name], x.unread = data, x.unread[1:]
	}
	return pattern.View{
		Input: x.input, Results: x.results, Headers: x.headers,
		Variables: func(names ...string) (map[string]json.RawMessage, error) {
			return pattern.Variables(ctx, names...)
		},
	}, nil
}

// holds evaluates the condition of a member. The condition is the user's code.
func (x *compositionRun) holds(ctx context.Context, m *member) (bool, error) {
	if m.when == nil {
		return true, nil
	}
	known, err := x.known(ctx)
	if err != nil {
		return false, err
	}
	return pattern.Evaluate(ctx, m.when, known)
}
