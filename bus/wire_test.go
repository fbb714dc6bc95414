package bus_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// spec: F-10
func TestAnEventIsOneMessageInStructuredMode(t *testing.T) {
	sent := event.Event{
		ID: "1", Source: "/s", Type: "t", ContentType: "text/plain", Data: []byte("a"),
		Extensions: map[string]string{event.ExtCause: "0"},
	}
	all, err := bus.Encode([]event.Event{sent, {ID: "2", Source: "/s", Type: "t"}})
	if err != nil || len(all) != 2 {
		t.Fatalf("%q, %v", all, err)
	}
	var members map[string]string
	if err := json.Unmarshal(all[0], &members); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "causationid": "0",
		"datacontenttype": "text/plain", "data_base64": "YQ==",
	}
	if !reflect.DeepEqual(members, want) {
		t.Errorf("%v is sent, want %v", members, want)
	}
	m := bus.Decode(all[0])
	if m.Bad != nil || m.Raw != nil || !reflect.DeepEqual(m.Event, sent) {
		t.Errorf("%+v has come, want %+v", m, sent)
	}
}

// spec: F-10
func TestABatchWithADefectIsNoMessage(t *testing.T) {
	all, err := bus.Encode([]event.Event{{ID: "1", Source: "/s", Type: "t"}, {ID: "2"}})
	if err == nil || all != nil {
		t.Errorf("%q, %v", all, err)
	}
}

// spec: F-10
func TestWhatIsNoEventIsABadMessage(t *testing.T) {
	for _, raw := range []string{"", "x", "null", `{"specversion":"1.0","id":"1","source":"/s"}`} {
		m := bus.Decode([]byte(raw))
		if m.Bad == nil || string(m.Raw) != raw || m.Event.ID != "" {
			t.Errorf("%q is %+v", raw, m)
		}
	}
}
