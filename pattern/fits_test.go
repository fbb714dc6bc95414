package pattern

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/jsontype"
	"github.com/perdure/perdure/internal/payload"
)

type (
	city   string
	parcel struct {
		ID     string `json:"id"`
		Weight float64
		Parts  []parcel
	}
)

// loop is a type that refers only to itself.
type loop *loop

// ring is a type that refers back to itself.
type ring struct {
	A, B, C *ring
	N       string
}

type otherRing struct {
	A, B, C *otherRing
	N       int
}

// oneOfTwo gets the key F in the field of this name, although the field with tag f matches too.
type oneOfTwo struct {
	F     int
	Other string `json:"f"`
}

// checkPair returns the issues of a field of type p.to that is made of a value of type p.from.
func checkPair(p pair, tag reflect.StructTag) []definition.Issue {
	a := reflect.StructOf([]reflect.StructField{
		{Name: "Field", Type: p.to, Tag: tag}, {
			Name: "ID", Type: reflect.TypeFor[string](), Tag: `perdure:"id"`,
		},
	})
	known := func(string) (reflect.Type, bool) { return p.from, true }
	types := SourceTypes{Input: p.from, Result: known, Tried: known, Undone: known}
	if tag == `perdure:"input=k"` {
		types.Input = reflect.MapOf(reflect.TypeFor[string](), p.from)
	}
	return partsOf(a).check(types)
}

// A pair states whether the JSON of one type decodes into another type.
type pair struct {
	from, to reflect.Type
	fits     bool
}

func pairOf[From, To any](fits bool) pair {
	return pair{reflect.TypeFor[From](), reflect.TypeFor[To](), fits}
}

// rivals has two fields with one key, so JSON ignores both and puts the key into the third field.
var rivals = reflect.StructOf([]reflect.StructField{
	{Name: "F0", Type: reflect.TypeFor[[]float64]()},
	{Name: "F1", Type: reflect.TypeFor[int](), Tag: `json:"f0"`},
	{Name: "F2", Type: reflect.TypeFor[string](), Tag: `json:"f0"`},
})

// Check knows of types the same as encoding/json does with their values.
//
// spec: F-4
func TestTypesThatNeverFitAreTold(t *testing.T) {
	for _, p := range []pair{
		{reflect.TypeFor[struct {
			F []float64 `json:"f0"`
		}](), rivals, true},
		pairOf[int, int](true), pairOf[int, int8](true), pairOf[int8, float64](true),
		pairOf[time.Duration, int](true), pairOf[int, *int](true), pairOf[**int, int](true),
		pairOf[string, city](true), pairOf[city, *string](true), pairOf[bool, bool](true),
		pairOf[int, string](false), pairOf[string, int](false), pairOf[bool, int](false),
		pairOf[int, bool](false), pairOf[string, []string](false),
		pairOf[[]int, [3]uint](true), pairOf[[]int, []string](false), pairOf[[]int, int](false),
		pairOf[int, []int](false), pairOf[[]int, map[string]int](false),
		pairOf[parcel, any](true), pairOf[any, parcel](true), pairOf[error, parcel](true),
		pairOf[parcel, fmt.Stringer](false), pairOf[parcel, error](false),
		pairOf[parcel, parcel](true), pairOf[parcel, *parcel](true),
		pairOf[parcel, struct{ Weight int }](true), pairOf[parcel, struct{ WEIGHT int }](true),
		pairOf[parcel, struct{ Weight string }](false), pairOf[parcel, struct {
			Other string
		}](false), pairOf[parcel, struct{}](true), pairOf[struct{}, parcel](true),
		pairOf[parcel, map[string]any](true), pairOf[map[string]any, parcel](true),
		pairOf[map[string]int, map[string]string](false), pairOf[map[int]int, map[string]int](true),
		pairOf[parcel, string](false), pairOf[parcel, []parcel](false),
		pairOf[string, parcel](false),
		pairOf[time.Time, string](true), pairOf[time.Time, int](true),
		pairOf[string, time.Time](true), pairOf[big.Int, int](true), pairOf[string, *big.Int](true),
		pairOf[struct{ F string }, oneOfTwo](false), pairOf[struct{ F int }, oneOfTwo](true),
		pairOf[ring, otherRing](false), pairOf[ring, struct{ A, B, C *ring }](true),
		pairOf[ring, ring](true),
		pairOf[int, func()](false), pairOf[parcel, chan int](false),
		pairOf[string, complex128](false), pairOf[any, chan int](false),
		pairOf[loop, int](false), pairOf[int, loop](false),
	} {
		for tag, severity := range map[reflect.StructTag]definition.Severity{
			`perdure:"step=s"`:  definition.SeverityError,
			`perdure:"try=s"`:   definition.SeverityError,
			`perdure:"undo=s"`:  definition.SeverityError,
			`perdure:"input"`:   definition.SeverityError,
			`perdure:"input=k"`: definition.SeverityError, "": definition.SeverityWarning,
		} {
			got := checkPair(p, tag)
			if (len(got) == 0) != p.fits || len(got) > 0 && (got[0].Severity != severity ||
				got[0].Where != "Field") {
				t.Errorf("%v into %v by %s: it says %q", p.from, p.to, tag, got)
			}
		}
	}
}

// randomType returns a type whose values JSON encodes, and at times another type.
func randomType(rng *rand.Rand, depth int) reflect.Type {
	plain := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[bool](),
		reflect.TypeFor[float64](), reflect.TypeFor[uint8](), reflect.TypeFor[any](),
		reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](),
		reflect.TypeFor[city](), reflect.TypeFor[error](),
		reflect.TypeFor[context.Context](), reflect.TypeFor[perdure.Info](),
		reflect.TypeFor[perdure.Headers](), reflect.TypeFor[func()](), reflect.TypeFor[struct{}](),
		reflect.TypeFor[*string](),
	}
	n := rng.IntN(len(plain) + 4*depth)
	if n < len(plain) {
		return plain[n]
	}
	switch n % 4 {
	case 0:
		return reflect.PointerTo(randomType(rng, depth-1))
	case 1:
		return reflect.SliceOf(randomType(rng, depth-1))
	case 2:
		return reflect.MapOf(reflect.TypeFor[string](), randomType(rng, depth-1))
	}
	var fields []reflect.StructField
	for i := range rng.IntN(4) {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprint("F", i), Type: randomType(rng, depth-1), Tag: randomTag(rng),
		})
	}
	return reflect.StructOf(fields)
}

// randomTag returns a tag that is mostly valid.
func randomTag(rng *rand.Rand) reflect.StructTag {
	of := func(words ...string) string { return words[rng.IntN(len(words))] }
	json := of("", "", `json:"f0" `, `json:"f1,omitempty" `, `json:"-" `, `json:",string" `)
	return reflect.StructTag(json + of("", "", `perdure:"`+of("input", "input=F0", "input=f1",
		"step=s", "try=s", "undo=s", "undo-error=s", "header=h", "headers",
		"variable=v", "variables", "id", "required", "input=", "nothing", "")+
		of("", ",required", ",id")+`"`))
}

// fillRandom makes a value that has no zero part, and reports whether the type has such a value.
func fillRandom(rng *rand.Rand, v reflect.Value) (full bool) {
	switch v.Kind() {
	case reflect.Int:
		v.SetInt(1 + rng.Int64N(100))
	case reflect.Uint8:
		v.SetUint(1 + rng.Uint64N(100))
	case reflect.Float64:
		v.SetFloat(0.5 + float64(rng.IntN(100)))
	case reflect.String:
		v.SetString([]string{"a", "7", "true", "2026-01-02T03:04:05Z"}[rng.IntN(4)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fillRandom(rng, v.Elem())
	case reflect.Slice:
		if payload.IsRaw(v.Type()) {
			v.SetBytes([]byte(`{"F0":1}`))
			return true
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fillRandom(rng, v.Index(0))
	case reflect.Map:
		of := reflect.New(v.Type().Elem()).Elem()
		full = fillRandom(rng, of)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("F0"), of)
		return full
	case reflect.Struct:
		full = true
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				full = fillRandom(rng, v.Field(i)) && full
			}
		}
		return full
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return false
		}
		v.Set(reflect.ValueOf(map[string]any{"F0": "x"}))
	default:
		return false
	}
	return true
}

// Arguments of random types with random tags are made from random values. Nothing panics, whatever
// the defect. A value that Check refuses does not decode, or decodes into an empty value.
//
// spec: F-4
func TestArgumentsOfAnyTypePanicNowhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	refused, filled, failed := 0, 0, 0
	for range 20_000 {
		from, to := randomType(rng, 3), randomType(rng, 3)
		value := reflect.New(from)
		full := fillRandom(rng, value.Elem())
		data, err := json.Marshal(value.Interface())
		if err != nil {
			continue
		}
		if full && !jsontype.Fits(from, to) { // null decodes into anything
			refused++
			into := reflect.New(to)
			if err := json.Unmarshal(data, into.Interface()); err == nil && !empty(into.Elem()) {
				t.Fatalf("%v does not fit %v, it says, and of %s comes %+v", from, to, data,
					into.Elem())
			}
		}
		known := func(string) (reflect.Type, bool) { return from, rng.IntN(4) > 0 }
		has := func(string) (json.RawMessage, bool) { return data, rng.IntN(4) > 0 }
		p := partsOf(to)
		p.check(SourceTypes{Input: from, Result: known, Tried: known, Undone: known})
		err = p.fill(context.Background(), Sources{
			Input:     data,
			Result:    has,
			Tried:     has,
			Undone:    has,
			UndoError: func(string) error { return context.Canceled },
		}, reflect.New(to).Elem())
		if err == nil {
			filled++
		} else {
			failed++
		}
	}
	if t.Logf("%d refused, %d filled, %d failed", refused, filled, failed); refused < 100 ||
		filled < 100 || failed < 100 {
		t.Error("there is not enough of each")
	}
}

// empty reports whether a value has only zero parts, which is how JSON's null and empty objects
// decode.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || empty(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !empty(v.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !empty(v.MapIndex(key)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}
