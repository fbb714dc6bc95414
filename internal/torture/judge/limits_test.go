package judge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// limitedRun returns a run of the workflow narrow whose code was under way between two seconds.
func limitedRun(n int, key string, from, to int) *Run {
	at := func(s int) time.Time { return time.Unix(100+int64(s), 0) }
	in, _ := json.Marshal(play.Narrow{Label: fmt.Sprint(n), Key: key})
	return &Run{
		Head: journal.Head{
			ID: journal.RunID(fmt.Sprint("r", n)), Workflow: play.Narrows.Name, Created: at(0),
			Status: journal.Completed,
		},
		Entries: []journal.Entry{
			{Kind: journal.RunStarted, At: at(0), Data: in},
			{Kind: journal.StatusChanged, At: at(0)},
			{Kind: journal.StepCompleted, At: at(from), Op: journal.Op{Name: "do"}},
			{Kind: journal.RunCompleted, At: at(to), Status: journal.Completed},
		},
	}
}

// guardedRun returns a run that was in the region of a semaphore between two seconds.
func guardedRun(n, from, to int) *Run {
	r := limitedRun(n, "", from, to+1)
	r.Head.Workflow = "program"
	r.Entries[2] = journal.Entry{
		Kind: journal.SlotTaken, At: r.Entries[2].At,
		Op: journal.Op{Name: play.Single.Name, Occ: 1},
	}
	out := journal.Entry{
		Kind: journal.StepCompleted, At: time.Unix(100+int64(to), 0),
		Op: journal.Op{Name: "held1" + play.StepOut},
	}
	r.Entries = append(r.Entries[:3:3], out, r.Entries[3])
	return r
}

// ratedRun returns a run with an attempt of a step that is held back and then begins, and the call.
func ratedRun(n int, asked, used time.Duration) (*Run, Call) {
	r := limitedRun(n, "", 1, 2)
	r.Head.Workflow = "program"
	began := time.Unix(100, 0)
	op := journal.Op{Name: "held1", Occ: 1}
	r.Entries[2] = journal.Entry{
		Kind: journal.StepHeld, At: began.Add(asked), Op: op,
		Detail: &journal.Detail{Reason: "calls:rate"},
	}
	return r, Call{Gave: int64(n), Call: play.Call{
		Run: string(r.Head.ID), Step: "branch/" + op.String(), Tries: 1, Began: began.Add(used),
	}}
}

// The judge sees a limit that is broken by a run or a token, and a slot that is left.
func TestJudgeSeesABrokenLimit(t *testing.T) {
	every := play.Calls.Rate.Per / time.Duration(play.Calls.Rate.Tokens)
	tokens := func(n int, apart time.Duration) (e Evidence) {
		for i := range n {
			r, c := ratedRun(i, 0, time.Duration(i)*apart)
			e.Runs, e.Calls = append(e.Runs, r), append(e.Calls, c)
		}
		return e
	}
	cancelled := limitedRun(3, "c", 2, 4)
	cancelled.Entries[1].Kind = journal.RunClosing
	free := guardedRun(1, 1, 3)
	free.Entries[2].Kind = journal.SlotFreed
	for name, c := range map[string]struct {
		Evidence
		want string
	}{
		"as many as there are slots": {Evidence{Runs: []*Run{
			limitedRun(1, "a", 1, 3), limitedRun(2, "b", 2, 4), limitedRun(3, "c", 3, 5),
		}}, ""},
		"one that is cancelled before it has a slot": {Evidence{Runs: []*Run{
			limitedRun(1, "a", 1, 3), limitedRun(2, "b", 2, 4), cancelled,
		}}, ""},
		"one more": {Evidence{Runs: []*Run{
			limitedRun(1, "a", 1, 3), limitedRun(2, "b", 2, 4), limitedRun(3, "c", 2, 5),
		}}, "3 runs had a slot of limit narrow at a time: [r1 r2 r3]"},
		"two of one key": {Evidence{Runs: []*Run{
			limitedRun(1, "a", 1, 3), limitedRun(2, "a", 2, 4),
		}}, "2 runs had a slot of limit narrow[a] at a time: [r1 r2]"},
		"one after the other in a region": {Evidence{Runs: []*Run{
			guardedRun(1, 1, 3), guardedRun(2, 3, 5),
		}}, ""},
		"two in a region": {Evidence{Runs: []*Run{
			guardedRun(1, 1, 3), guardedRun(2, 2, 5),
		}}, "2 runs had a slot of limit single[] at a time: [r1 r2]"},
		"a region without a slot": {Evidence{Runs: []*Run{free}}, "without a slot"},
		"a slot that is left": {
			Evidence{Slots: []store.Slot{{Run: 7, Limit: "narrow", Held: true}}},
			"a slot or token of limit narrow[] is left: run 7, held: true",
		},
		"tokens at their rate": {tokens(20, every), ""},
		"tokens too soon":      {tokens(20, every/2), "limit calls:rate[key5] gave"},
	} {
		b := &bench{Evidence: c.Evidence}
		b.limits()
		if got := strings.Join(b.bad, "; "); c.want == "" && got != "" ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
