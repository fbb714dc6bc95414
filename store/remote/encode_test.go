package remote

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A filler is a source of values, none of them zero, for the fields of a struct.
type filler struct{ n int64 }

// deepest is the depth at which a filler leaves out what may be nil: causes have causes.
const deepest = 12

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(f.time()))
		return
	case errorType:
		v.Set(reflect.ValueOf(&said{text: fmt.Sprint("error ", f.n)}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(f.text())
	case reflect.Pointer:
		if depth < deepest {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < deepest {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			f.fill(v.Index(0), depth+1)
			f.fill(v.Index(1), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for t, field := range v.Fields() {
			if t.IsExported() {
				f.fill(field, depth+1)
			}
		}
	default:
		f.number(v)
	}
}

func (f *filler) number(v reflect.Value) {
	sign := int64(1)
	if f.n%2 == 0 {
		sign = -1
	}
	switch {
	case v.CanInt() && v.Type().Bits() == 64:
		v.SetInt(sign * (1<<62 + f.n)) // more than a float has
	case v.CanInt():
		v.SetInt(sign * f.n)
	case v.CanUint():
		v.SetUint(uint64(f.n%250) + 1)
	}
}

// text returns texts of all sorts.
func (f *filler) text() string {
	all := []string{"text ", "a\x00\xff", "\ufffd", "<&>\u2028\"\\ ☃ ", "e\u0301"}
	return fmt.Sprint(all[f.n%5], f.n)
}

// time returns times of all ages.
func (f *filler) time() time.Time {
	years := []int64{2026, 1, 1677, 9999, 200_000, -5}[f.n%6] - 1970
	return time.Unix(years*365*24*3600, f.n%int64(time.Second)).UTC()
}

// crosses is the types that cross the wire, each as a value.
func crosses() []any {
	return []any{
		store.Group{}, store.Claimed{}, loading{}, found{}, store.Filter{}, store.Purge{},
		store.Purged{}, store.Info{}, store.SlotQuery{}, []store.Slot{}, []journal.Entry{},
		answer[store.Claimed]{}, store.Join{}, store.Renew{}, store.Leave{}, store.TakeDue{},
		store.TakeRun{}, store.TakeOutbox{}, failure{},
	}
}

// Every field of the contract survives, a new one, too.
//
// spec: B-16
func TestEveryFieldCrossesTheWire(t *testing.T) {
	for _, of := range crosses() {
		sent := reflect.New(reflect.TypeOf(of)).Elem()
		(&filler{}).fill(sent, 0)
		there(t, sent.Interface())
		there(t, of) // zero fields are left out
	}
}

// there checks that a value arrives as it was sent.
func there(t *testing.T, sent any) {
	t.Helper()
	text, err := encode(sent)
	if err != nil {
		t.Errorf("%T: %v", sent, err)
		return
	}
	got := reflect.New(reflect.TypeOf(sent))
	if err := decode(text, got.Interface(), 1<<30); err != nil {
		t.Errorf("%T: %v", sent, err)
		return
	}
	if !reflect.DeepEqual(got.Elem().Interface(), sent) {
		t.Errorf("%T arrives as\n%+v\nand was\n%+v", sent, got.Elem(), sent)
	}
}

func TestNilAndEmptyAreTwoThings(t *testing.T) {
	none := ""
	for _, sent := range []any{
		store.Setting{Value: []byte{}}, store.Setting{Value: nil},
		journal.Entry{Data: []byte{}, Detail: &journal.Detail{}}, journal.Entry{Run: 1},
		store.SlotQuery{Key: &none}, store.SlotQuery{}, []journal.Entry{}, []journal.Entry(nil),
		store.Filter{Statuses: []journal.Status{}, Attributes: map[string]string{}},
		[]*journal.Failure{nil, {}},
	} {
		there(t, sent)
	}
}

// The time on the clock of a process does not cross the wire, and the moment does.
func TestMomentsAreExact(t *testing.T) {
	here := time.Now().In(time.FixedZone("x", 3601))
	text, err := encode(store.Setting{At: here})
	var got store.Setting
	if err == nil {
		err = decode(text, &got, maxRoom)
	}
	if err != nil || !got.At.Equal(here) || got.At.Nanosecond() != here.Nanosecond() {
		t.Errorf("%v arrives as %v, %v", here, got.At, err)
	}
}

func TestWhatIsNotOfTheContractIsRefused(t *testing.T) {
	if text, err := encode(struct{ F func() }{func() {}}); err == nil {
		t.Errorf("a function is %s", text)
	}
	for _, text := range []string{
		``, ` `, `x`, `[]`, `"x"`, `1`, `null`, `{`, `{"Engine":`, `{"Engine":1`, `{} {}`, `{}x`,
		"\xef\xbb\xbf{}", "{}\x00", `{"Engine":1,}`, `{"Engine":1.5}`, `{"Engine":1e3}`,
		`{"Engine":"1"}`, `{"Engine":9223372036854775808}`, `{"Engine":0x10}`, `{"Engine":NaN}`,
		`{"Engine":null}`, `{"Engine":1,"Engine":1}`, `{"engine":1}`, `{"Other":1}`, `{"Again":1}`,
		`{"Now":0}`, `{"Now":"2026-02-03"}`, `{"Now":[1]}`, `{"Now":[1,-1]}`, `{"Now":[1,1000000000]}`,
		`{"Now":[1,2,3]}`, `{"Changes":{}}`, `{"Changes":[[]]}`, `{"Changes":[{}}`,
		`{"Changes":[{"Entries":[{"Kind":256}]}]}`, `{"Changes":[{"Entries":[{"Data":"!"}]}]}`,
		`{"Changes":[{"Entries":[{"Data":[1]}]}]}`, `{"Changes":[{"Posts":[{"WorkflowID":"\ud800"}]}]}`,
		`{"Changes":[{"Posts":[{"WorkflowID":["YQ==","YQ=="]}]}]}`,
		`{"Changes":[{"Posts":[{"WorkflowID":[1]}]}]}`, "{\"Changes\":[{\"Posts\":[{\"WorkflowID\":\"\xff\"}]}]}",
		`{"Changes":[{"Entries":[{"Detail":{"Number":1}}]}]}`,
		`{"Changes":[{"Entries":[{"Detail":{"Attempt":1,"Build":"x"}}]}]}`,
		`{"Changes":[{"Entries":[{"Detail":{"StartDetail":{"Headers":[["a","b"],["a","c"]]}}}]}]}`,
		`{"Changes":[{"Entries":[{"Detail":{"StartDetail":{"Headers":[["a"]]}}}]}]}`,
		`{"Changes":[{"Entries":[{"Detail":{"StartDetail":{"Headers":[["a","b","c"]]}}}]}]}`,
		`{"Changes":[{"Entries":[{"Detail":{"Failure":` + strings.Repeat(`{"Wraps":[`, 600) +
			strings.Repeat(`]}`, 600) + `}}]}]}`,
		`{"Changes":[` + strings.Repeat(`{},`, 1e6) + `{}]}`, strings.Repeat(`[`, 1e6),
		strings.Repeat(`{"Changes":[`, 1e6),
	} {
		var g store.Group
		if err := decode([]byte(text), &g, maxRoom); err == nil {
			t.Errorf("%.80s is %+v", text, g)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, of := range []any{store.Group{}, answer[store.Claimed]{}} {
		v := reflect.New(reflect.TypeOf(of)).Elem()
		(&filler{}).fill(v, deepest-3)
		text, err := encode(v.Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"Changes":[{"Run":1,"Posts":[{"WorkflowID":["YQ=="]}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var g store.Group
		if decode(text, &g, maxRoom) == nil {
			there(t, g)
		}
		var a answer[store.Claimed]
		_ = decode(text, &a, maxRoom)
	})
}
