package deadletter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
)

// A letter that an older version has kept has numbers for the pattern and the status.
func TestLettersOfOlderVersionsAreRead(t *testing.T) {
	old :=
		`{"workflow":"w","workflow_id":"w-1","run_id":"db-1-1","pattern":1,"step":"s","status":8,"error":"no"}`
	var l deadletter.Letter
	err := json.Unmarshal([]byte(old), &l)
	if err != nil || l.Pattern != journal.PatternSaga || l.Status != journal.Compensating {
		t.Fatalf("%+v: %v", l, err)
	}
	data, err := json.Marshal(l)
	if err != nil || !strings.Contains(string(data), `"pattern":"SAGA"`) ||
		!strings.Contains(string(data), `"status":"COMPENSATING"`) {
		t.Errorf("%s: %v", data, err)
	}
}
