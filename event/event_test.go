package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/event"
)

func TestTheKeyOfAnEventIsOfItsSourceAndID(t *testing.T) {
	of := func(source, id, kind string) string {
		return (&event.Event{Source: source, ID: id, Type: kind}).Key()
	}
	a := of("/a", "1", "x")
	if a != of("/a", "1", "y") || len(a) != 32 || a == of("/a", "2", "x") ||
		of("/a 1", "2", "x") == of("/a", "1 2", "x") {
		t.Error(a)
	}
}

// spec: A-13
func TestAnEventIsACloudEvent(t *testing.T) {
	e := event.Event{
		ID: "A234-1234-1234", Source: "https://example.org/shop", Type: "org.example.order.placed",
		Subject: "order-7", Time: time.Date(2026, 4, 5, 17, 31, 0, 5, time.UTC),
		Schema: "https://example.org/order.json", ContentType: "application/vnd.order+json",
		Data:       []byte(`{"cents":1250}`),
		Extensions: map[string]string{event.ExtParent: "cart-1", "priority": "9"},
	}
	got, err := json.Marshal(e)
	want := `{"data":{"cents":1250},"datacontenttype":"application/vnd.order+json",` +
		`"dataschema":"https://example.org/order.json","id":"A234-1234-1234",` +
		`"parentsubject":"cart-1","priority":"9","source":"https://example.org/shop",` +
		`"specversion":"1.0","subject":"order-7","time":"2026-04-05T17:31:00.000000005Z",` +
		`"type":"org.example.order.placed"}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
	var back event.Event
	if err := json.Unmarshal(got, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(e) {
		t.Errorf("%v\n%v\n%v", err, back, e)
	}
}

// spec: A-13
func TestTheDataOfAnEventIsWhatItsTypeSays(t *testing.T) {
	const begin = `{"specversion":"1.0","id":"1","source":"s","type":"t"`
	for text, want := range map[string]string{
		`}`:                               "<nil>",
		`,"data":null}`:                   "null",
		`,"data":"text"}`:                 `"text"`,
		`,"data":[1, 2]}`:                 `[1, 2]`,
		`,"data_base64":"AAEC"}`:          "not JSON",
		`,"data_base64":null,"data":1}`:   "1",
		`,"data_base64":"MQ==","data":1}`: "two ways",
		`,"datacontenttype":"text/plain","data":"text"}`:                    "text",
		`,"datacontenttype":"text/plain","data":7}`:                         "data is not valid: it is a text",
		`,"datacontenttype":"application/octet","data_base64":"AAEC"}`:      "\x00\x01\x02",
		`,"datacontenttype":"application/octet","data_base64":""}`:          "",
		`,"datacontenttype":"application/octet","data_base64":"?"}`:         "it is base64",
		`,"datacontenttype":"Application/JSON; charset=utf-8","data":true}`: "true",
	} {
		var e event.Event
		err := json.Unmarshal([]byte(begin+text), &e)
		got := string(e.Data)
		if e.Data == nil {
			got = "<nil>"
		}
		if err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %q, %v, want %q", text, got, err, want)
		}
	}
}

// spec: A-13
func TestAllDefectsOfAnEventAreNamed(t *testing.T) {
	var e event.Event
	err := json.Unmarshal([]byte(`{"specversion":"0.3","id":7,"source":"%zz","type":"",
		"subject":"a\u0000b","time":"yesterday","dataschema":"schema","data":1,"data_base64":"MQ==",
		"Upper":"x","list":[1],"ok":true,"n":-1.5,"none":null}`), &e)
	if err == nil {
		t.Fatal("it is read")
	}
	for _, want := range []string{
		`specversion "0.3" is not valid`, "id is not valid: it is a text", "id is missing",
		`source "%zz" is not valid`, "type is missing", `subject "a\x00b" is not valid`,
		`time "yesterday" is not valid`, `dataschema "schema" is not valid`, "two ways",
		`extension "Upper" is not valid`, `extension "list" is not valid`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 11 {
		t.Errorf("%d defects are named:\n%v", n, err)
	}
	if e.Extensions["ok"] != "true" || e.Extensions["n"] != "-1.5" {
		t.Errorf("the extensions are %v", e.Extensions)
	}
	for text, e := range map[string]event.Event{
		"year":             {Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"not JSON":         {Data: []byte("{")},
		"extension \"id\"": {Extensions: map[string]string{"id": "x"}},
		"extension x":      {Extensions: map[string]string{"x": ""}},
		"datacontenttype":  {ContentType: "\xff"},
	} {
		e.ID, e.Source, e.Type = "1", "s", "t"
		if _, err := json.Marshal(e); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %s", e, err, text)
		}
	}
	for _, text := range []string{"null", "[]", "7", `"event"`, "{}", ""} {
		if json.Unmarshal([]byte(text), &e) == nil {
			t.Errorf("%s is an event", text)
		}
	}
}

// Whatever is read as an event is written as the same event.
//
// spec: A-13
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		`{"specversion":"1.0","id":"1","source":"s","type":"t"}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":[null]},"x":"y"}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"t","time":"2026-03-07T14:30:00.1+01:00",
			"datacontenttype":"text/plain","data":"é","subject":"\ud83d\ude00"}`,
		`{"specversion":"1.0","id":"1","source":"/a?b#c","type":"t","datacontenttype":"x/y",
			"data_base64":"AAEC","dataschema":"u:r","n":7,"b":false}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e, again event.Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		first, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%+v is read and not written: %v", e, err)
		}
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("%s is written and not read: %v", first, err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
	})
}
