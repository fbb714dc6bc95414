package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// counted returns correct evidence of the ends of a workflow whose rule has a threshold: runs that
// end one second after the other, of which some succeed; and of alerts, which tell of the runs with
// these numbers.
func counted(name string, ends []journal.Status, alerts ...[]int) (e Evidence) {
	e.Alerts = true
	for i, s := range ends {
		e.Runs = append(e.Runs, &Run{Head: journal.Head{
			ID: journal.RunID(fmt.Sprint(i)), Workflow: name, Status: s,
			Ended: time.Unix(int64(i), 0),
		}})
	}
	for n, runs := range alerts {
		for _, i := range runs {
			c := tells(fmt.Sprint("ended/", i))
			c.Step, c.At = fmt.Sprint("alert", n), time.Unix(1000, 0)
			e.Calls = append(e.Calls, c)
		}
	}
	return e
}

// The judge sees alerts that tell of too few runs, of a run twice, or too early; and that an alert
// is missing.
//
// spec: B-27, R-31
func TestJudgeSeesWhatIsWrongWithAThreshold(t *testing.T) {
	const f, s = journal.Failed, journal.Completed
	failed := []journal.Status{f, f, f, f, f, f, f}
	again := counted(play.InARow, failed, []int{0, 1, 2}, []int{3, 4, 5})
	again.Calls = append(again.Calls, again.Calls...)
	early := counted(play.InARow, failed[:3], []int{0, 1, 2})
	early.Calls[2].At = time.Unix(1, 0)
	other := counted(play.InARow, failed[:3], []int{0, 1, 2})
	other.Runs[1].Head.Workflow = play.Often
	for name, c := range map[string]struct {
		e    Evidence
		want string
	}{
		"three, and three":        {again, ""},
		"two are less than three": {counted(play.InARow, failed[:2]), ""},
		"a success between":       {counted(play.InARow, []journal.Status{f, f, s, f, f}), ""},
		"none": {
			counted(play.InARow, failed[:3]), "no alert tells of 3 runs of in-a-row, and at most 2",
		},
		"none after a success": {
			counted(play.InARow, []journal.Status{f, f, s, f, f, f}), "of 5 runs of in-a-row",
		},
		"a success that counts": {
			counted(play.InARow, []journal.Status{f, s, f}, []int{0, 1, 2}),
			"which is COMPLETED",
		},
		"too few": {counted(play.InARow, failed[:2], []int{0, 1}), "is about 2 runs of in-a-row"},
		"a run twice": {
			counted(play.InARow, failed[:5], []int{0, 1, 2}, []int{2, 3, 4}),
			"run 2 counts in alert alert0 and in alert1",
		},
		"before the end": {early, "tells of run 2 1s before its end"},
		"of another":     {other, "is about runs of"},
		"often": {
			counted(play.Often, []journal.Status{f, f, s, f, f}, []int{0, 1, 3, 4}), "",
		},
		"often, and none": {
			counted(play.Often, []journal.Status{f, f, s, f, f}), "tells of 4 runs of often",
		},
		"a short time, and none": {counted(play.Briefly, failed), ""},
		"longer than a short time": {
			counted(play.Briefly, failed, []int{0, 1, 2}), "have ended within 2s, not 1s",
		},
	} {
		finds(t, name, judged(c.e, (*bench).alerts), c.want)
	}
}
