package judge

import (
	"testing"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// alerted returns correct evidence of runs that have ended in several ways, each of which that
// failed was told of; a, twice.
func alerted() Evidence {
	e := Evidence{Alerts: true}
	for id, s := range map[journal.RunID]journal.Status{
		"a": journal.Failed, "b": journal.TimedOut, "c": journal.Compensated,
		"d": journal.Completed, "e": journal.Cancelled, "f": journal.Running,
		"g": journal.CompensationFailed,
	} {
		e.Runs = append(e.Runs, &Run{Head: journal.Head{
			ID: id, WorkflowID: "w" + string(id), Workflow: "bill", Status: s,
		}})
	}
	own := &Run{Head: journal.Head{
		ID: "own", Workflow: "perdure.alert-delivery", Status: journal.Failed,
	}}
	e.Runs = append(e.Runs, own)
	e.Others = []*Run{{Head: journal.Head{ID: "before", Status: journal.Failed}}}
	for _, id := range []string{"a", "b", "c", "a", "before"} {
		e.Calls = append(e.Calls, tells("ended/"+id))
	}
	e.Calls = append(e.Calls, tells("stalled/f"))
	return e
}

func tells(of string) (c Call) {
	c.Label = play.Alerted + of
	return c
}

// The judge sees a run that failed and of which no alert tells, and an alert of one that did not.
//
// spec: B-27, R-31
func TestJudgeSeesWhatIsWrongWithAnAlert(t *testing.T) {
	status := func(e *Evidence, id journal.RunID) *journal.Head {
		for _, r := range e.Runs {
			if r.Head.ID == id {
				return &r.Head
			}
		}
		panic(id)
	}
	for name, c := range map[string]struct {
		spoil func(e *Evidence)
		want  string
	}{
		"correct": {func(*Evidence) {}, ""},
		"a failure that nobody is told of": {
			func(e *Evidence) { e.Calls = e.Calls[1:3] },
			"no alert told that run a of wa ended FAILED",
		},
		"a run that timed out": {
			func(e *Evidence) { status(e, "d").Status = journal.TimedOut },
			"no alert told that run d of wd ended TIMED_OUT",
		},
		"a run that was compensated": {
			func(e *Evidence) { status(e, "e").Status = journal.Compensated },
			"no alert told that run e of we ended COMPENSATED",
		},
		"a run that was told of as standing still": {
			func(e *Evidence) { status(e, "f").Status = journal.Failed },
			"no alert told that run f of wf ended FAILED",
		},
		"a success": {
			func(e *Evidence) { e.Calls = append(e.Calls, tells("ended/d")) },
			"an alert tells of run d of wd, which is COMPLETED",
		},
		"a run that is open": {
			func(e *Evidence) { e.Calls = append(e.Calls, tells("ended/f")) },
			"an alert tells of run f of wf, which is RUNNING",
		},
		"a success of an earlier round": {
			func(e *Evidence) { e.Others[0].Head.Status = journal.Completed },
			"an alert tells of run before",
		},
		"a run that is not there": {
			func(e *Evidence) { e.Calls = append(e.Calls, tells("ended/x")) },
			"an alert tells of run x, which is not there",
		},
		"a rollback that has stopped": {
			func(e *Evidence) { e.Calls = append(e.Calls, tells("ended/g")) }, "",
		},
		"a rollback that stopped and went on": {
			func(e *Evidence) {
				e.Calls = append(e.Calls, tells("ended/f"))
				for _, r := range e.Runs {
					r.Entries = []journal.Entry{{Status: journal.CompensationFailed}}
				}
			}, "",
		},
	} {
		e := alerted()
		c.spoil(&e)
		finds(t, name, judged(e, (*bench).alerts), c.want)
	}
}
