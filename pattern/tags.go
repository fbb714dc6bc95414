package pattern

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
)

// parts are the fields that an argument is made of.
type parts struct {
	all    []part
	issues []definition.Issue // defects of the type itself; all of them are errors
	result reflect.Type       // of the function that takes the argument; nil for not known
}

// A part is one field of an argument, or the whole argument.
type part struct {
	index    []int // of the field; none for the whole argument
	name     string
	of       reflect.Type
	source   string // a word of sources, or a source below
	key      string
	required bool
}

// Sources of parts without a tag.
const (
	noTag       = ""
	fromContext = "context" // the type selects it
)

// A form describes whether the word of a source may stand alone, and with a key.
type form struct{ bare, keyed bool }

// sources has the words of tags.
var sources = map[string]form{
	"input": {true, true}, "step": {keyed: true}, "try": {keyed: true}, "undo": {keyed: true},
	"undo-error": {keyed: true},
	"header":     {keyed: true}, "headers": {bare: true}, "variable": {keyed: true},
	"variables": {bare: true}, "id": {bare: true},
}

// of returns the way a word is written.
func (f form) of(word string) string {
	switch {
	case f.bare && f.keyed:
		return word + " or " + word + "=name"
	case f.keyed:
		return word + "=name"
	}
	return word
}

var (
	contextType = reflect.TypeFor[context.Context]()
	infoType    = reflect.TypeFor[perdure.Info]()
)

// partsOf reads the tags of a type.
func partsOf(t reflect.Type) *parts {
	p := &parts{}
	switch {
	case tagged(t):
		p.read(t, nil)
	case t.Kind() == reflect.Pointer && tagged(t.Elem()):
		p.complain("", "it is a pointer to a struct with tags: take the struct itself")
	default:
		p.add(part{of: t, source: untagged(t)})
	}
	return p
}

// tagged reports whether a type is a struct that is made of parts.
func tagged(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if _, has := f.Tag.Lookup("perdure"); has || untagged(f.Type) == fromContext ||
			f.Anonymous && tagged(f.Type) {
			return true
		}
	}
	return false
}

// untagged returns the source of a field that has no tag.
func untagged(t reflect.Type) string {
	if t == contextType || t == infoType {
		return fromContext
	}
	return noTag
}

// read adds the fields of a struct, and the fields of structs that are embedded in it.
func (p *parts) read(t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, has := f.Tag.Lookup("perdure")
		g := part{
			index: append(slices.Clip(index), i), name: f.Name, of: f.Type,
			source: untagged(f.Type),
		}
		switch {
		case !has && f.Anonymous && tagged(f.Type):
			p.read(f.Type, g.index)
		case has && !f.IsExported():
			p.complain(f.Name, "a field that is not exported cannot be filled")
		case has:
			if message := g.parse(tag); message != "" {
				p.complain(f.Name, "%s", message)
			} else {
				p.add(g)
			}
		case f.IsExported():
			p.add(g)
		}
	}
}

// add adds a part, unless no value ever fits it.
func (p *parts) add(g part) {
	message := g.unfit()
	if g.source == noTag && slices.ContainsFunc(p.all, func(x part) bool {
		return x.source == noTag
	}) {
		message = "a second field without a tag: only one can be the input"
	}
	if message != "" {
		p.complain(g.name, "%s", message)
		return
	}
	p.all = append(p.all, g)
}

func (p *parts) complain(where, format string, args ...any) {
	p.issues = append(p.issues, definition.Issue{
		Severity: definition.SeverityError, Where: where, Message: fmt.Sprintf(format, args...),
	})
}

// parse reads a tag. It returns the defect of the tag; empty for none.
func (g *part) parse(tag string) string {
	g.source = noTag
	for _, word := range strings.Split(tag, ",") {
		name, key, keyed := strings.Cut(word, "=")
		takes, known := sources[name]
		switch {
		case word == "required":
			g.required = true
		case !known:
			return "the tag word " + failure.Quoted(word) + " is not known"
		case g.source != noTag:
			return fmt.Sprintf("two sources: %s and %s", g.source, name)
		case keyed && (key == "" || !takes.keyed), !keyed && !takes.bare:
			return fmt.Sprintf("the tag word %s is written %s", failure.Quoted(word),
				takes.of(name))
		default:
			g.source, g.key = name, key
		}
	}
	if g.source == noTag {
		return "it is required, and the tag does not say what it is: input, step=name …"
	}
	return ""
}

// what names the source of a part.
func (g *part) what() string {
	switch g.source {
	case "step":
		return "the result of step " + failure.Quoted(g.key)
	case "try":
		return "the try of participant " + failure.Quoted(g.key)
	case "undo":
		return "the compensation of step " + failure.Quoted(g.key)
	case "undo-error":
		return "the error of the compensation of step " + failure.Quoted(g.key)
	case "id":
		return "the workflow ID"
	case noTag:
		return "the input"
	}
	if g.source == "input" && g.key != "" {
		return "key " + failure.Quoted(g.key) + " of the input"
	}
	if g.key != "" {
		return g.source + " " + failure.Quoted(g.key)
	}
	return "the " + g.source
}
