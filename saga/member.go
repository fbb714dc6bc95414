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

// A member is one of a definition.
type member struct {
	of       *composition
	alias    string
	input    reflect.Type // of the saga
	compile  func() *plan
	decode   func(json.RawMessage) error // says why that cannot be the saga's input
	after    []*member
	static   map[string]json.RawMessage
	mapped   []mapping
	optional bool
	when     pattern.Condition
	issues   []definition.Issue
}

// A mapping is a key of a member's input, and where its value is from.
type mapping struct {
	key  string
	from Source
}

// Join adds a saga to a composition, under an alias. The same saga may join under
// several. What is wrong with it is told when the composition is registered.
func Join[I, M any](c *Composition[I], alias string, s *Saga[M]) *Member {
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

// After has the member begin when those have ended.
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

// With sets keys of the member's input, over those of the composition's. It is anything
// that is an object as JSON.
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

// Map sets a key of the member's input to what has come of a run so far, over all that
// is set otherwise. Where that is not there, the key is not set.
func (m *Member) Map(key string, from Source) *Member {
	m.m.mapped = append(m.m.mapped, mapping{key, from})
	return m
}

// Optional has a failure of the member change nothing for the others: it is undone, and
// what comes after it gets no value from it.
func (m *Member) Optional() *Member {
	m.m.optional = true
	return m
}

// When has the member run only if the condition holds, when its turn comes; else it is
// SKIPPED, which is no failure. Of results the condition knows those of members, by
// alias, each an object of the results of its steps. One that cannot be evaluated fails
// the member.
func (m *Member) When(c pattern.Condition) *Member {
	if c == nil {
		m.m.complain("when", "a nil condition")
	}
	m.m.when = c
	return m
}

// A Source says where a value is from: [FromStep], [FromInput], [FromVariable].
type Source struct {
	member    *member
	step      *step
	key       string // of the input
	variable  string
	field     string
	described string
}

// FromStep is the result of a step of a member that comes before; of a step over a list
// all of them.
func FromStep[A, R any](of *Member, s *Step[A, R]) Source {
	if of == nil || s == nil {
		return Source{}
	}
	return Source{member: of.m, step: s.s, described: of.m.alias + "/" + s.s.id}
}

// FromInput is a key of the composition's input.
func FromInput(key string) Source { return Source{key: key, described: "the input's " + key} }

// FromVariable is a variable of the run, as members share them.
func FromVariable(name string) Source {
	return Source{variable: name, described: "variable " + name}
}

// Field is a key of what the source gives.
func (s Source) Field(key string) Source {
	s.field = key
	return s
}

// issue says what is wrong with a source of a member.
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

// follows says whether a member comes after another one, directly or not.
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

// value gives what a source has in a run; nil where it is not there.
func (s Source) value(ctx context.Context, x *composing) (json.RawMessage, error) {
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

// fieldsOf gives the keys of an object; none of what is no object.
func fieldsOf(data json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	return fields
}

// inputOf makes the input of a member: the composition's, then the static, then the
// mapped one, later keys winning.
func (x *composing) inputOf(ctx context.Context, m *member) (json.RawMessage, error) {
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

// known is what conditions decide by. Workflow code alone writes the results, and it does
// not while it asks.
func (x *composing) known(ctx context.Context) (pattern.View, error) {
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

// holds asks the condition of a member, which is the user's code.
func (x *composing) holds(ctx context.Context, m *member) (bool, error) {
	if m.when == nil {
		return true, nil
	}
	known, err := x.known(ctx)
	if err != nil {
		return false, err
	}
	return pattern.Evaluate(ctx, m.when, known)
}
