package pattern

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/jsontype"
	"github.com/perdure/perdure/internal/payload"
)

// check returns the defects of an argument whose parts are made of these types.
func (p *parts) check(types SourceTypes) []definition.Issue {
	issues := append([]definition.Issue(nil), p.issues...)
	if p.result != nil {
		issues = append(issues, kept("", "result", p.result)...)
	}
	for i := range p.all {
		g := &p.all[i]
		if g.isKept() {
			if bad := kept(g.name, "argument", g.of); bad != nil {
				issues = append(issues, bad...)
				continue
			}
		}
		message, severity := g.check(types), definition.SeverityError
		if g.source == noTag && message != "" {
			severity, message = definition.SeverityWarning, message+": it will be zero"
		}
		if message != "" {
			issues = append(issues, definition.Issue{
				Severity: severity, Where: g.name, Message: message,
			})
		}
	}
	return issues
}

// isKept reports whether the part is made of a value in the journal, and not refused by itself. A
// field without a tag stays zero.
func (g *part) isKept() bool {
	_, isValue := goValues[g.source]
	return !isValue && (g.source != noTag || len(g.index) == 0) && g.unfit() == ""
}

// kept returns the issue of a type of which journals can keep no value.
func kept(where, what string, t reflect.Type) []definition.Issue {
	err := payload.Check(t)
	if err == nil {
		return nil
	}
	return []definition.Issue{definition.Wrong(where, &perdure.Error{
		Code: perdure.CodeInvalid, Message: "the type of the " + what + " is not valid", Err: err,
		Hint: "use structs with exported fields, or let the type have MarshalJSON and " +
			"UnmarshalJSON",
	})}
}

// goValues has, by source, the types of values that are not JSON.
var goValues = map[string]reflect.Type{
	fromContext: nil, "header": reflect.TypeFor[string](), "id": reflect.TypeFor[string](),
	"headers": reflect.TypeFor[map[string]string](), "undo-error": reflect.TypeFor[error](),
}

// unfit returns the defect that a part has with any value; empty for none.
func (g *part) unfit() string {
	variables := reflect.TypeFor[map[string]any]()
	from, isValue := goValues[g.source]
	switch {
	case g.source == noTag, g.source == fromContext:
	case isValue && !holds(from, g.of):
		return g.misfit(from)
	case g.source == "variables" && !jsontype.Fits(variables, g.of):
		return g.misfit(variables)
	case !isValue && !jsontype.Decodes(g.of):
		return fmt.Sprintf("nothing decodes into its type %v", g.of)
	}
	return ""
}

func (g *part) misfit(from reflect.Type) string {
	return fmt.Sprintf("it is of type %v, and %s of type %v", g.of, g.what(), from)
}

// check returns the defect of a part; empty if there is none or the type is not known.
func (g *part) check(types SourceTypes) string {
	switch g.source {
	case noTag:
		if g.of.Kind() == reflect.Struct && g.of.NumField() == 0 { // it takes no input
			return ""
		}
		return g.made(types.Input)
	case "input":
		from, known := types.Input, true
		if g.key != "" {
			from, known = jsontype.Key(types.Input, g.key)
		}
		if !known {
			return fmt.Sprintf("there is no key %s in the input, a %v", failure.Quoted(g.key),
				types.Input)
		}
		return g.made(from)
	case "step":
		return g.named(types.Result)
	case "try":
		return g.named(types.Tried)
	case "undo":
		return g.named(types.Undone)
	case "undo-error":
		if types.Undone != nil {
			if _, known := types.Undone(g.key); known {
				return ""
			}
		}
		return "there is no compensation of step " + failure.Quoted(g.key)
	}
	return ""
}

// named returns the defect of a part that names a step or participant; empty for none.
func (g *part) named(find func(string) (reflect.Type, bool)) string {
	if find != nil {
		if from, known := find(g.key); known {
			return g.made(from)
		}
	}
	return "there is no " + strings.TrimPrefix(strings.TrimPrefix(g.what(), "the result of "),
		"the ")
}

// made returns the defect of a part that is made of a value of type from; empty for none.
func (g *part) made(from reflect.Type) string {
	if from == nil || g.payload() && (payload.IsRaw(from) || payload.IsRaw(g.of)) ||
		jsontype.Fits(from, g.of) {
		return ""
	}
	return g.misfit(from)
}
