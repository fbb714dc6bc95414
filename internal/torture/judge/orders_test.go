package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

// called returns a call of a run: its label, its key, the second in which it began, and the number
// that it gave.
func called(label, key string, second int, gave int64) Call {
	return Call{Gave: gave, Call: play.Call{
		Label: label, Key: key, Run: "r", Began: time.Unix(int64(second), 0),
	}}
}

// undoing returns a call that takes back the effect with a number.
func undoing(label, key string, second int, of int64) Call {
	c := called(label+"-undo", key, second, 100)
	c.After, c.Number = label, of
	return c
}

// judged returns what the judge finds wrong.
func judged(e Evidence, judge func(*bench)) string {
	b := &bench{Evidence: e, calls: map[string][]Call{}, byID: map[string][]*Run{}}
	for _, c := range e.Calls {
		b.calls[c.Label] = append(b.calls[c.Label], c)
	}
	for _, r := range e.Runs {
		b.byID[r.Head.WorkflowID] = append(b.byID[r.Head.WorkflowID], r)
	}
	judge(b)
	return strings.Join(b.bad, "; ")
}

// finds fails the test if the judge finds something else. Empty means nothing.
func finds(t *testing.T, name, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// The judge sees an effect that is undone twice, or that takes place again.
//
// spec: B-27
func TestJudgeSeesWhatIsUndoneTwice(t *testing.T) {
	do, other := called("p/do", "k", 1, 7), called("p/do", "l", 1, 8)
	undo := func(key string, second int, of int64) Call {
		return undoing("p/do", key, second, of)
	}
	for name, c := range map[string]struct {
		calls []Call
		want  string
	}{
		"undone once":         {[]Call{do, undo("u", 2, 7)}, ""},
		"again under its key": {[]Call{do, undo("u", 2, 7), undo("u", 3, 7)}, ""},
		"two effects":         {[]Call{do, other, undo("u", 2, 7), undo("v", 2, 8)}, ""},
		"done again before": {
			[]Call{do, called("p/do", "k", 2, 7), undo("u", 3, 7)}, "",
		},
		"undone under two keys": {
			[]Call{do, undo("u", 2, 7), undo("v", 3, 7)}, "undone under another key",
		},
		"done again after it": {
			[]Call{do, undo("u", 2, 7), called("p/do", "k", 5, 7)},
			"took place again under the key under which it was undone, 3s later",
		},
		"the undo that came first": {
			[]Call{do, undo("u", 4, 7), undo("u", 2, 7), called("p/do", "k", 3, 7)}, "1s later",
		},
	} {
		finds(t, name, judged(Evidence{Calls: c.calls}, (*bench).undone), c.want)
	}
}

// The judge sees a run that was terminated and goes on all the same.
//
// spec: B-27
func TestJudgeSeesATerminatedRunThatGoesOn(t *testing.T) {
	last := journal.Entry{
		Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{Mode: journal.ActionTerminate},
		},
	}
	plain := journal.Entry{Kind: journal.RunCancelled, Detail: &journal.Detail{}}
	undo := []Call{undoing("p/do", "u", 2, 7)}
	clean := []Call{called("p/1/clean", "c", 2, 7)}
	elsewhere := undoing("p/do", "u", 2, 7)
	elsewhere.Run = "other"
	none := journal.Entry{}
	for name, c := range map[string]struct {
		before, last journal.Entry
		calls        []Call
		status       journal.Status
		want         string
	}{
		"nothing follows": {none, last, nil, journal.Cancelled, ""},
		"it undid before": {
			journal.Entry{Status: journal.Compensating}, last, undo, journal.Cancelled, "",
		},
		"it cleaned up before": {
			journal.Entry{Kind: journal.RunClosing}, last, clean, journal.Cancelled, "",
		},
		"another run undoes": {none, last, []Call{elsewhere}, journal.Cancelled, ""},
		"a plain cancel":     {none, plain, undo, journal.Cancelled, ""},
		"it undoes": {
			none, last, undo, journal.Cancelled, "was terminated before it began to end",
		},
		"it cleans up":          {none, last, clean, journal.Cancelled, "p/1/clean took place"},
		"it has another status": {none, last, nil, journal.Failed, "was terminated and is FAILED"},
	} {
		r := &Run{
			Head:    journal.Head{ID: "r", WorkflowID: "p", Status: c.status},
			Entries: []journal.Entry{c.before, c.last},
		}
		e := Evidence{Runs: []*Run{r, {}}, Calls: c.calls}
		finds(t, name, judged(e, (*bench).terminated), c.want)
	}
}

// ticked returns correct evidence of a schedule that has started three runs, one each minute.
func ticked() Evidence {
	made := time.Unix(6000, 0).UTC()
	s := &actor.Timed{
		Name: "s", Every: time.Minute, Overlap: schedule.Allow, Calm: true,
		Asked: []string{"s@asked"},
	}
	s.Before.Name, s.Before.Created = "s", made
	s.Before.Next = &schedule.Time{At: made.Add(4 * time.Minute)}
	s.After = s.Before
	s.After.Started = 4
	e := Evidence{Schedules: []*actor.Timed{s}}
	start := func(nominal string) {
		id := "s@" + nominal
		e.Runs = append(e.Runs, &Run{Head: journal.Head{
			WorkflowID: id, Status: journal.Completed,
		}})
		e.Calls = append(e.Calls, called(play.TickLabel("s", id), id, 1, 1))
	}
	for i := range 3 {
		start(made.Add(time.Duration(i+1) * time.Minute).Format(time.RFC3339Nano))
	}
	start("asked")
	return e
}

// The judge sees a time that has started no run, two runs, or a run of no time.
//
// spec: B-27, R-34
func TestJudgeSeesWhatIsWrongWithASchedule(t *testing.T) {
	head := func(e *Evidence) *journal.Head { return &e.Runs[1].Head }
	for name, c := range map[string]struct {
		spoil func(e *Evidence, s *actor.Timed)
		want  string
	}{
		"correct": {func(*Evidence, *actor.Timed) {}, ""},
		"two runs of a time": {
			func(e *Evidence, _ *actor.Timed) { e.Runs = append(e.Runs, e.Runs[0]) },
			"has started 2 runs of",
		},
		"a run that has not ended": {
			func(e *Evidence, _ *actor.Timed) { head(e).Status = journal.Running }, "is RUNNING",
		},
		"a run that did nothing": {
			func(e *Evidence, _ *actor.Timed) { e.Calls = e.Calls[1:] }, "has done nothing",
		},
		"another count": {
			func(_ *Evidence, s *actor.Timed) { s.After.Started = 5 },
			"says that it has started 5 runs, and there are 4",
		},
		"no run that was asked for": {
			func(_ *Evidence, s *actor.Timed) { s.Asked = append(s.Asked, "s@more") },
			"was asked for s@more, which is not there",
		},
		"a time that is lost": {
			func(e *Evidence, s *actor.Timed) {
				e.Runs = slices.Delete(e.Runs, 1, 2)
				s.After.Started = 3
			}, "has started runs of 2 times, and missed 0: due were 3",
		},
		"a time that is not one of it": {
			func(e *Evidence, s *actor.Timed) {
				id := "s@" + s.Before.Created.Add(150*time.Second).Format(time.RFC3339Nano)
				head(e).WorkflowID = id
				e.Calls = append(e.Calls, called(play.TickLabel("s", id), id, 1, 1))
			}, "which is no time of it",
		},
		"a time that is missed without need": {
			func(_ *Evidence, s *actor.Timed) { s.Before.Missed = 1 }, "and missed 1",
		},
		"a first time that is late": {
			func(_ *Evidence, s *actor.Timed) {
				s.Before.Created = s.Before.Created.Add(-time.Hour)
			}, "and its first time is",
		},
		"one that somebody has changed": {
			func(_ *Evidence, s *actor.Timed) { s.Calm, s.Before.Missed = false, 9 }, "",
		},
	} {
		e := ticked()
		c.spoil(&e, e.Schedules[0])
		finds(t, name, judged(e, (*bench).schedules), c.want)
	}
}

// The judge sees a rollback that does not stop at a compensation that fails for good.
//
// spec: B-27, R-9
func TestJudgeSeesARollbackThatDoesNotStop(t *testing.T) {
	rollback := func(stops bool) *Run {
		r := &Run{Head: journal.Head{WorkflowID: "p"}, Entries: []journal.Entry{{
			Detail: &journal.Detail{StartDetail: journal.StartDetail{
				Retried: "a", Action: journal.ActionCompensate,
			}},
		}}}
		if stops {
			r.Entries = append(r.Entries, journal.Entry{Status: journal.CompensationFailed})
		}
		return r
	}
	first := &Run{Head: journal.Head{WorkflowID: "p"}, Entries: []journal.Entry{{}}}
	for name, c := range map[string]struct {
		stuck string
		runs  []*Run
		want  string
	}{
		"it stops":              {"skip", []*Run{first, rollback(true)}, ""},
		"it goes on":            {"skip", []*Run{first, rollback(false)}, "0 of 1 rollbacks of p"},
		"there is none yet":     {"skip", []*Run{first}, ""},
		"nothing is to fail":    {"", []*Run{first, rollback(false)}, ""},
		"one that was mended":   {"retry", []*Run{rollback(true), rollback(false)}, ""},
		"mended, and none":      {"resume", []*Run{rollback(false)}, "0 of 1 rollbacks of p"},
		"one that still breaks": {"handled", []*Run{rollback(true), rollback(false)}, "1 of 2"},
	} {
		got := judged(Evidence{Runs: c.runs}, func(b *bench) {
			b.stuck(&actor.Case{ID: "p", Program: &program.Program{Stuck: c.stuck}})
		})
		finds(t, name, got, c.want)
	}
}

// The judge sees a run that does not ask about a phase that fails for good.
//
// spec: B-27
func TestJudgeSeesARunThatDoesNotAsk(t *testing.T) {
	asks := func(kind journal.Kind, name string) []*Run {
		return []*Run{{Head: journal.Head{WorkflowID: "p"}, Entries: []journal.Entry{
			{Kind: kind, Op: journal.Op{Name: name}},
		}}}
	}
	for name, c := range map[string]struct {
		runs []*Run
		want string
	}{
		"it asks":          {asks(journal.DecisionSought, "cancel:a"), ""},
		"about another":    {asks(journal.DecisionSought, "cancel:b"), "p has not asked"},
		"it does not wait": {asks(journal.StepFailed, "cancel:a"), "p has not asked"},
		"there is no run":  {nil, "p has not asked"},
	} {
		got := judged(Evidence{Runs: c.runs}, func(b *bench) {
			b.asked(&actor.Case{ID: "p", Want: program.Expect{
				Asked: [][2]string{{"p", "cancel:a"}},
			}})
		})
		finds(t, name, got, c.want)
	}
}
