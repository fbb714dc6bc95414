package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

// spec: P-14
func TestWhatIsToldKeepsItsNames(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("elsewhere", 3600))
	of := api.JournalOf(journal.Head{ID: "r-1", WorkflowID: "w"})
	failure := &journal.Failure{Code: journal.CodeFailed, Message: "no"}
	state := journal.Snapshot{
		Seq: 7, Failure: failure, Payload: []byte(`{"a":1}`), Build: "b", Neighbours: journal.Neighbours{Successor: "r-2"},
		Steps: []journal.Step{
			{Path: "pay", Status: journal.StepIsRetrying, Attempts: 2, Due: at, Failure: failure},
		},
		Waits:     []journal.Wait{{Kind: journal.WaitSignal, Path: "go", Since: at}},
		Published: map[string]journal.Published{"progress": {Data: []byte("50")}},
		Versions:  map[string]int{"fee": 2},
	}
	ended := journal.Head{
		ID: "r-1", WorkflowID: "w", Workflow: "f", Status: journal.Failed, Created: at, Ended: at,
		Wake: at, Owner: 3,
	}
	open := ended
	open.Status, open.Ended = journal.Waiting, time.Time{}
	for _, c := range []struct {
		v    any
		want string
	}{
		{
			api.RunOf(open),
			`{"run_id":"r-1","workflow_id":"w","workflow":"f","pattern":"WORKFLOW","status":"WAITING","created":"2026-11-21T09:00:00Z","wake":"2026-11-21T09:00:00Z","engine":3}`,
		},
		{api.DescriptionOf(ended, state),
			`{"run_id":"r-1","workflow_id":"w","workflow":"f","pattern":"WORKFLOW","status":"FAILED","created":"2026-11-21T09:00:00Z","ended":"2026-11-21T09:00:00Z",` +
				`"error":{"code":"failed","message":"no"},"steps":[{"path":"pay","status":"RETRYING","attempts":2,"due":"2026-11-21T09:00:00Z","error":{"code":"failed","message":"no"}}],` +
				`"waits":[{"kind":"signal","path":"go","since":"2026-11-21T09:00:00Z"}],"payload":{"a":1},"published":{"progress":50},"versions":{"fee":2},"entries":7,"build":"b","successor":"r-2"}`},
		{of.Entry(journal.Entry{
			Seq:  2,
			At:   at,
			Kind: journal.ScopeOpened,
			Op:   journal.Op{Name: "branch", Key: "a", Occ: 1},
		}),
			`{"run_id":"r-1","workflow_id":"w","pattern":"WORKFLOW","seq":2,"at":"2026-11-21T09:00:00Z","kind":"ScopeOpened","operation":"branch[a]"}`},
		{of.Entry(journal.Entry{
			Seq:  3,
			At:   at,
			Kind: journal.StepCompleted,
			Op:   journal.Op{Scope: 2, Name: "pay", Occ: 1},
			Took: 1500 * time.Microsecond,
			Data: []byte{0xff},
		}),
			`{"run_id":"r-1","workflow_id":"w","pattern":"WORKFLOW","seq":3,"at":"2026-11-21T09:00:00Z","kind":"StepCompleted","operation":"branch[a]/pay","took_ms":1.5,"data":{"base64":"/w=="}}`},
		{of.Entry(journal.Entry{
			Seq: 4, At: at, Kind: journal.ChildCompleted, Detail: &journal.Detail{
				Outcome:       journal.Completed,
				Other:         "r-3",
				MessageDetail: journal.MessageDetail{Mail: 1},
			},
		}),
			`{"run_id":"r-1","workflow_id":"w","pattern":"WORKFLOW","seq":4,"at":"2026-11-21T09:00:00Z","kind":"ChildCompleted","other":"r-3","message":1,"outcome":"COMPLETED"}`},
		{of.Entry(journal.Entry{
			Seq: 5, At: at, Kind: journal.VersionMarked, Op: journal.Op{Name: "fee", Occ: 1},
			Detail: &journal.Detail{Version: 2},
		}),
			`{"run_id":"r-1","workflow_id":"w","pattern":"WORKFLOW","seq":5,"at":"2026-11-21T09:00:00Z","kind":"VersionMarked","operation":"fee","version":2}`},
		{api.Data(nil), `null`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v\nwant\n%s", got, err, c.want)
		}
	}
}
