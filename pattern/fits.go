package pattern

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/payload"
)

// check says what is wrong with an argument whose parts are made of these types.
func (p *parts) check(types SourceTypes) []definition.Issue {
	issues := append([]definition.Issue(nil), p.issues...)
	for i := range p.all {
		g := &p.all[i]
		message, severity := g.check(types), definition.SeverityError
		if g.source == noTag && message != "" {
			severity, message = definition.SeverityWarning, message+": it will be zero"
		}
		if message != "" {
			issues = append(issues, definition.Issue{Severity: severity, Where: g.name, Message: message})
		}
	}
	return issues
}

// goValues are the types of what is no JSON, by its source.
var goValues = map[string]reflect.Type{
	fromContext: nil, "header": reflect.TypeFor[string](), "id": reflect.TypeFor[string](),
	"headers": reflect.TypeFor[map[string]string](), "undo-error": reflect.TypeFor[error](),
}

// unfit says what is wrong with a part whatever it is made of.
func (g *part) unfit() string {
	variables := reflect.TypeFor[map[string]any]()
	from, isValue := goValues[g.source]
	switch {
	case g.source == noTag, g.source == fromContext:
	case isValue && !holds(from, g.of):
		return g.misfit(from)
	case g.source == "variables" && !fits(variables, g.of):
		return g.misfit(variables)
	case !isValue && shapeOf(g.of) == isNothing:
		return fmt.Sprintf("nothing decodes into its type %v", g.of)
	}
	return ""
}

func (g *part) misfit(from reflect.Type) string {
	return fmt.Sprintf("it is of type %v, and %s of type %v", g.of, g.what(), from)
}

// check says what is wrong with a part; nothing where that is not known.
func (g *part) check(types SourceTypes) string {
	switch g.source {
	case noTag:
		if g.of.Kind() == reflect.Struct && g.of.NumField() == 0 { // it wants nothing
			return ""
		}
		return g.made(types.Input)
	case "input":
		from, known := types.Input, true
		if g.key != "" {
			from, known = member(types.Input, g.key)
		}
		if !known {
			return fmt.Sprintf("there is no key %s in the input, a %v", failure.Quoted(g.key), types.Input)
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

// named says what is wrong with a part that names a step.
func (g *part) named(find func(string) (reflect.Type, bool)) string {
	if find != nil {
		if from, known := find(g.key); known {
			return g.made(from)
		}
	}
	return "there is no " + strings.TrimPrefix(strings.TrimPrefix(g.what(), "the result of "), "the ")
}

// made says what is wrong with a part that is made of such a value.
func (g *part) made(from reflect.Type) string {
	if from == nil || g.payload() && (payload.IsRaw(from) || payload.IsRaw(g.of)) || fits(from, g.of) {
		return ""
	}
	return g.misfit(from)
}

// A shape says what the JSON of a type looks like.
type shape uint8

const (
	isAnything shape = iota // or not known
	isString
	isNumber
	isBool
	isList
	isObject
	isNothing // no JSON decodes into it
)

// ownJSON are the types that say themselves what their JSON looks like.
var ownJSON = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// behind gives what a type points at. Nobody means more pointers than these, and a type
// may be a pointer to itself.
func behind(t reflect.Type) reflect.Type {
	for n := 0; n < 8 && t.Kind() == reflect.Pointer; n++ {
		t = t.Elem()
	}
	return t
}

func shapeOf(t reflect.Type) shape {
	t = behind(t)
	for _, own := range ownJSON {
		if reflect.PointerTo(t).Implements(own) { // so it does where t does
			return isAnything
		}
	}
	switch k := t.Kind(); {
	case k == reflect.Interface && t.NumMethod() == 0, k == reflect.Slice && t.Elem().Kind() == reflect.Uint8: // bytes are a string or a list
		return isAnything
	case k == reflect.String:
		return isString
	case k == reflect.Bool:
		return isBool
	case k >= reflect.Int && k <= reflect.Float64:
		return isNumber
	case k == reflect.Slice, k == reflect.Array:
		return isList
	case k == reflect.Struct, k == reflect.Map:
		return isObject
	}
	return isNothing
}

// fits says whether the JSON of one type decodes into another, and not into nothing, as
// far as that is known.
func fits(from, to reflect.Type) bool { return fitting{}.fits(from, to) && !strangers(from, to) }

// strangers says whether two structs have keys, and none in common.
func strangers(from, to reflect.Type) bool {
	from, to = behind(from), behind(to)
	if from.Kind() != reflect.Struct || to.Kind() != reflect.Struct || shapeOf(from) != isObject || shapeOf(to) != isObject {
		return false
	}
	gives, takes := keysOf(from), keysOf(to)
	for name := range gives {
		if len(takersOf(name, takes)) > 0 {
			return false
		}
	}
	return len(gives) > 0 && len(takes) > 0
}

// fitting has the pairs of types that are being compared, or were.
type fitting map[[2]reflect.Type]bool

func (seen fitting) fits(from, to reflect.Type) bool {
	from, to = behind(from), behind(to)
	pair := [2]reflect.Type{from, to}
	if from == to || from.Kind() == reflect.Interface || seen[pair] {
		return shapeOf(to) != isNothing
	}
	seen[pair] = true
	a, b := shapeOf(from), shapeOf(to)
	switch {
	case b == isNothing:
		return false
	case a == isAnything || b == isAnything:
		return true
	case a != b:
		return false
	case a == isList, from.Kind() == reflect.Map && to.Kind() == reflect.Map:
		return seen.fits(from.Elem(), to.Elem())
	case from.Kind() == reflect.Struct && to.Kind() == reflect.Struct:
		return seen.decode(keysOf(from), keysOf(to))
	}
	return true
}

// decode says whether no key of one struct has a value that does not fit into the other.
func (seen fitting) decode(from, to map[string]reflect.Type) bool {
	for name, f := range from {
		takers := takersOf(name, to)
		if len(takers) > 0 && !slices.ContainsFunc(takers, func(t reflect.Type) bool { return f == nil || t == nil || seen.fits(f, t) }) {
			return false
		}
	}
	return true
}

// takersOf gives the types of the fields that may get the value of a key: the one of
// this name, else those whose name differs in its case.
func takersOf(key string, keys map[string]reflect.Type) (types []reflect.Type) {
	if t, is := keys[key]; is {
		return []reflect.Type{t}
	}
	for name, t := range keys {
		if strings.EqualFold(name, key) {
			types = append(types, t)
		}
	}
	return types
}

// keysOf gives the keys of a struct in JSON, with their types; nil for one that is not
// known.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	addKeys(t, keys, map[reflect.Type]bool{})
	return keys
}

// addKeys adds the keys of a struct, and those of structs that are embedded in it.
func addKeys(t reflect.Type, keys map[string]reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		of := behind(f.Type)
		switch {
		case tag == "-":
			continue
		case name == "" && f.Anonymous && of.Kind() == reflect.Struct:
			embedded = append(embedded, of)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		_, twice := keys[name] // then JSON may ignore both
		keys[name] = f.Type
		if twice || strings.Contains(options, "string") {
			keys[name] = nil
		}
	}
	for _, e := range embedded {
		inner := map[string]reflect.Type{}
		addKeys(e, inner, seen)
		for name, of := range inner {
			if _, has := keys[name]; !has {
				keys[name] = of
			}
		}
	}
}

// member gives the type that a key has in the JSON of a type, nil where that is not
// known, and false where there is none.
func member(t reflect.Type, key string) (reflect.Type, bool) {
	if t == nil {
		return nil, true
	}
	switch t = behind(t); {
	case shapeOf(t) == isAnything || t.Kind() == reflect.Interface:
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), true
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	of, known := keysOf(t)[key]
	return of, known
}
