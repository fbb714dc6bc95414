package patterns

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
)

// A parcel is an input with every effect that JSON tags and embedding have on structs.
type parcel struct {
	parcelBase
	*ParcelMore
	ID     string   `json:"id"`
	City   *string  `json:"city,omitempty"`
	Weight float64  // JSON uses the Go name
	Hidden int      `json:"-"`
	Dash   int      `json:"-,"` //nolint:staticcheck // its key is a dash
	Quoted int      `json:"quoted,string"`
	Parts  []parcel `json:"parts"`
	Named  struct{} `json:"named"`
	own    int
}

type parcelBase struct {
	Base bool `json:"base"`
	ID   int  `json:"id"` // the outer field counts
}

type ParcelMore struct {
	*ParcelMore // an embedded pointer to its own type
	More        string
}

// These types encode themselves as JSON, so that their form is unknown.
type (
	ownJSON struct{ N int }
	ownText struct{ N int }
)

func (ownJSON) MarshalJSON() ([]byte, error)  { return []byte(`{"city":"Rome"}`), nil }
func (*ownText) UnmarshalText(t []byte) error { return nil }

type city string

// These types are arguments; their names are in the table below.
type (
	embedded struct{ Inner }
	Inner    struct {
		City string `perdure:"input=city"`
	}
	innerWrong struct{ Wrong }
	Wrong      struct {
		City string `perdure:"input=nowhere"`
	}
)

// issuesOf returns the issues that Check has for an argument.
func issuesOf[A any](types pattern.SourceTypes) []string {
	var out []string
	for _, i := range pattern.NewArguments[A]().Check(types) {
		out = append(out, i.String())
	}
	return out
}

// typesOf returns a function that returns the type t for each of the names.
func typesOf(t reflect.Type, names ...string) func(string) (reflect.Type, bool) {
	return func(name string) (reflect.Type, bool) { return t, slices.Contains(names, name) }
}

func inputOf[I any]() pattern.SourceTypes {
	return pattern.SourceTypes{Input: reflect.TypeFor[I]()}
}

// spec: F-4
func TestEveryTagThatIsWrongIsTold(t *testing.T) {
	nothing := pattern.SourceTypes{}
	for i, c := range []struct{ got, want []string }{
		{issuesOf[struct {
			A int `perdure:"input"`
			B int `perdure:"input=b,required"`
			C int `perdure:"required,variable=c"`
			D int `perdure:"required,required,input"`
		}](nothing), nil},
		{issuesOf[struct {
			A int `perdure:""`
			B int `perdure:"inptu"`
			C int `perdure:"input, required"`
			D int `perdure:"required"`
		}](nothing), []string{
			`ERROR: A: the tag word "" is not known`, `ERROR: B: the tag word "inptu" is not known`,
			`ERROR: C: the tag word " required" is not known`,
			"ERROR: D: it is required, and the tag does not say what it is: input, step=name …",
		}},
		{issuesOf[struct {
			A int    `perdure:"input="`
			B int    `perdure:"step"`
			C int    `perdure:"try="`
			D int    `perdure:"undo"`
			E error  `perdure:"undo-error"`
			F string `perdure:"header"`
			G int    `perdure:"variable="`
			H string `perdure:"id=1"`
			I any    `perdure:"headers=x"`
			J any    `perdure:"variables=x"`
			K any    `perdure:"required=yes"`
		}](nothing), []string{
			`ERROR: A: the tag word "input=" is written input or input=name`,
			`ERROR: B: the tag word "step" is written step=name`,
			`ERROR: C: the tag word "try=" is written try=name`,
			`ERROR: D: the tag word "undo" is written undo=name`,
			`ERROR: E: the tag word "undo-error" is written undo-error=name`,
			`ERROR: F: the tag word "header" is written header=name`,
			`ERROR: G: the tag word "variable=" is written variable=name`,
			`ERROR: H: the tag word "id=1" is written id`,
			`ERROR: I: the tag word "headers=x" is written headers`,
			`ERROR: J: the tag word "variables=x" is written variables`,
			`ERROR: K: the tag word "required=yes" is not known`,
		}},
		{issuesOf[struct {
			A int `perdure:"input,id"`
			B int `perdure:"step=a,step=b"`
		}](nothing), []string{
			"ERROR: A: two sources: input and id", "ERROR: B: two sources: step and step",
		}},
		{issuesOf[struct {
			Ctx   context.Context
			Run   perdure.Info
			A     int
			B     int
			C     string `perdure:"id"`
			D     bool
			inner int
		}](nothing), []string{
			"ERROR: B: a second field without a tag: only one can be the input",
			"ERROR: D: a second field without a tag: only one can be the input",
		}},
		{issuesOf[struct {
			a int `perdure:"input"`
			B int `perdure:"input"`
		}](nothing), []string{"ERROR: a: a field that is not exported cannot be filled"}},
		{issuesOf[struct {
			A func()       `perdure:"input"`
			B fmt.Stringer `perdure:"variable=b"`
			C chan int     `perdure:"step=c"`
			D int          `perdure:"variables"`
			E string       `perdure:"undo-error=e"`
		}](nothing), []string{
			"ERROR: A: nothing decodes into its type func()", "ERROR: B: nothing decodes into " +
				"its type fmt.Stringer", "ERROR: C: nothing decodes into its type chan int",
			"ERROR: D: it is of type int, and the variables of type map[string]interface {}",
			`ERROR: E: it is of type string, and the error of the compensation of step "e" of type error`,
		}},
		{
			issuesOf[*Inner](nothing),
			[]string{"ERROR: it is a pointer to a struct with tags: take the struct itself"},
		},
		{issuesOf[embedded](inputOf[parcel]()), nil},
		{issuesOf[innerWrong](inputOf[parcel]()), []string{
			`ERROR: City: there is no key "nowhere" in the input, a patterns.parcel`,
		}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%d: it says\n%q, want\n%q", i, c.got, c.want)
		}
	}
}

// spec: F-4
func TestStepsThatAreNotThereAreTold(t *testing.T) {
	type all struct {
		A int   `perdure:"step=a"`
		B int   `perdure:"try=b"`
		C int   `perdure:"undo=c"`
		D error `perdure:"undo-error=d"`
	}
	missing := []string{
		`ERROR: A: there is no step "a"`, `ERROR: B: there is no try of participant "b"`,
		`ERROR: C: there is no compensation of step "c"`,
		`ERROR: D: there is no compensation of step "d"`,
	}
	number := reflect.TypeFor[int]()
	for i, c := range []struct {
		types pattern.SourceTypes
		want  []string
	}{
		{pattern.SourceTypes{}, missing},
		{
			pattern.SourceTypes{
				Result: typesOf(number, "x"), Tried: typesOf(number), Undone: typesOf(number),
			},
			missing,
		},
		{
			pattern.SourceTypes{
				Result: typesOf(number, "a"), Tried: typesOf(number, "b"),
				Undone: typesOf(number, "c", "d"),
			},
			nil,
		},
		{
			pattern.SourceTypes{
				Result: typesOf(nil, "a"), Tried: typesOf(nil, "b"), Undone: typesOf(nil, "c", "d"),
			},
			nil,
		},
		{pattern.SourceTypes{
			Result: typesOf(reflect.TypeFor[string](), "a"), Tried: typesOf(reflect.TypeFor[bool](),
				"b"), Undone: typesOf(reflect.TypeFor[[]int](), "c", "d"),
		}, []string{
			`ERROR: A: it is of type int, and the result of step "a" of type string`,
			`ERROR: B: it is of type int, and the try of participant "b" of type bool`,
			`ERROR: C: it is of type int, and the compensation of step "c" of type []int`,
		}},
	} {
		if got := issuesOf[all](c.types); !slices.Equal(got, c.want) {
			t.Errorf("%d: it says\n%q, want\n%q", i, got, c.want)
		}
	}
}

// spec: F-4
func TestKeysThatAnInputDoesNotHaveAreTold(t *testing.T) {
	wrong := func(key string, in any) []string {
		return []string{fmt.Sprintf("ERROR: A: there is no key %q in the input, a %T", key, in)}
	}
	type idKey struct {
		A string `perdure:"input=id"`
	}
	for i, c := range []struct{ got, want []string }{
		{issuesOf[idKey](inputOf[parcel]()), nil},
		{issuesOf[idKey](inputOf[*parcel]()), nil},
		{issuesOf[idKey](inputOf[**parcel]()), nil},
		{issuesOf[idKey](inputOf[map[string]string]()), nil},
		{issuesOf[idKey](inputOf[map[string]any]()), nil},
		{issuesOf[idKey](inputOf[map[string]json.RawMessage]()), nil},
		{issuesOf[idKey](inputOf[json.RawMessage]()), nil},
		{issuesOf[idKey](inputOf[[]byte]()), nil},
		{issuesOf[idKey](inputOf[any]()), nil},
		{issuesOf[idKey](inputOf[error]()), nil},
		{issuesOf[idKey](inputOf[ownJSON]()), nil},
		{issuesOf[idKey](inputOf[*ownText]()), nil},
		{issuesOf[idKey](pattern.SourceTypes{}), nil},
		{issuesOf[idKey](inputOf[string]()), wrong("id", "")},
		{issuesOf[idKey](inputOf[[]parcel]()), wrong("id", []parcel{})},
		{issuesOf[idKey](inputOf[struct{}]()), wrong("id", struct{}{})},
		{
			issuesOf[idKey](inputOf[map[string]int]()),
			[]string{`ERROR: A: it is of type string, and key "id" of the input of type int`},
		},
		{issuesOf[struct {
			A int `perdure:"input=ID"`
		}](inputOf[parcel]()), wrong("ID", parcel{})},
		{issuesOf[struct {
			A bool `perdure:"input=base"`
		}](inputOf[parcel]()), nil},
		{issuesOf[struct {
			A string `perdure:"input=More"`
		}](inputOf[parcel]()), nil},
		{issuesOf[struct {
			A int `perdure:"input=Hidden"`
		}](inputOf[parcel]()), wrong("Hidden", parcel{})},
		{issuesOf[struct {
			A int `perdure:"input=-"`
		}](inputOf[parcel]()), nil},
		{issuesOf[struct {
			A int `perdure:"input=own"`
		}](inputOf[parcel]()), wrong("own", parcel{own: 1})},
		{issuesOf[struct {
			A any `perdure:"input=parcelBase"`
		}](inputOf[parcel]()), wrong("parcelBase", parcel{})},
		{issuesOf[struct {
			A any `perdure:"input=ParcelMore"`
		}](inputOf[parcel]()), wrong("ParcelMore", parcel{})},
		{issuesOf[struct {
			A string `perdure:"input=quoted"`
		}](inputOf[parcel]()), nil},
		{issuesOf[struct {
			A *city `perdure:"input=city"`
		}](inputOf[parcel]()), nil},
		{issuesOf[struct {
			A int `perdure:"input=city"`
		}](inputOf[parcel]()), []string{
			`ERROR: A: it is of type int, and key "city" of the input of type *string`,
		}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%d: it says\n%q, want\n%q", i, c.got, c.want)
		}
	}
}
