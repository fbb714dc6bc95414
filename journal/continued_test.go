package journal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

func async(d *journal.Detail) { d.Async = true }

// What a fork and a rollback keep, rule by rule. Each entry is a second after the one before it.
//
// spec: B-8, R-10
func TestContinued(t *testing.T) {
	completed := row(journal.RunCompleted, "", func(e *journal.Entry) {
		e.Status = journal.Completed
	})
	beside := []journal.Entry{
		row(sc, "a"), row(ss, "b", with(declared), with(async)),
		row(ss, "c", with(declared), with(async)), row(sc, "b", with(async)),
		row(sc, "c", with(async)), row(ss, "d", with(declared), with(async)),
		row(sc, "d", with(async)), completed,
	}
	child := func(d *journal.Detail) { d.Other = "db-1-7" }
	for name, c := range map[string]struct {
		action journal.Action
		step   string
		was    []journal.Entry
		want   []string // after the start
	}{
		"a step of a declaration that began before the end of the step stays": {
			journal.ActionFork, "b", beside,
			[]string{"StepCompleted a", "StepStarted c", "StepCompleted c"},
		},
		"what began after it is done again, also in a declaration": {
			journal.ActionFork, "a", beside, nil,
		},
		"a child begins anew, and one before it stays": {
			journal.ActionFork, "two", []journal.Entry{
				row(journal.ChildStarted, "one", with(child)),
				row(journal.ChildCompleted, "one", with(child)),
				row(journal.ChildStarted, "two", with(child)),
				row(journal.ChildCompleted, "two", with(child)), row(sc, "a"), completed,
			},
			[]string{"ChildStarted one", "ChildCompleted one"},
		},
		"a TCC begins from the top": {
			journal.ActionFork, "confirm:q", []journal.Entry{
				row(sc, "try:p", phase("TRY")), row(sc, "try:q", phase("TRY")),
				row(journal.PhaseStarted, "phase", phase("CONFIRM")),
				row(sc, "confirm:p", phase("CONFIRM")), row(sc, "confirm:q", phase("CONFIRM")),
				completed,
			},
			nil,
		},
		"the step by which a run failed later is done again too": {
			journal.ActionFork, "b", []journal.Entry{
				row(sc, "a"), row(sc, "b"), row(sf, "c", failing("no")), row(rf, "", by("no")),
			},
			[]string{"StepCompleted a"},
		},
		"a rollback keeps everything but the end, also what the end has stopped": {
			journal.ActionCompensate, "", []journal.Entry{
				row(sc, "a"), row(ss, "b", with(async)), row(rc, ""),
				row(journal.StepCancelled, "b", with(async)), completed,
			},
			[]string{"StepCompleted a", "StepStarted b", "StepCancelled b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries := started(c.was)
			all, err := journal.Continued(entries, journal.Continuation{
				Action: c.action, Step: c.step,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(all.Entries)[1:]; !slices.Equal(got, c.want) {
				t.Errorf("kept are %q, want %q", got, c.want)
			}
		})
	}
}

// started returns the entries after a start, numbered, with a second between them.
func started(entries []journal.Entry) []journal.Entry {
	all := append([]journal.Entry{{Kind: rs, Status: journal.Pending}}, entries...)
	for i := range all {
		all[i].Run, all[i].Seq = 1, int64(i+1)
		all[i].At = time.Unix(int64(1000+i), 0)
	}
	return all
}

// A skip or a fork that is not possible says why, and what the run has.
//
// spec: R-40, B-8
func TestStepsThatAreNotSkippedOrForked(t *testing.T) {
	entries := started([]journal.Entry{
		row(sc, "a"), row(sf, "visa", failing("visa: no")), row(sc, "cash"),
		row(sf, "b", failing("b: no")), row(sf, "c", failing("c: no")),
		row(sc, "undo:a", phase("UNDO")), row(rf, "", by("b: no", "c: no")),
	})
	for name, c := range map[string]struct {
		action journal.Action
		step   string
		code   journal.Code
		want   string
	}{
		"a step that the run has not":  {"fork", "x", journal.CodeNotFound, "a, visa, cash"},
		"two failed steps, none named": {"skip", "", journal.CodeInvalid, "failed by"},
		"a step that is done":          {"skip", "a", journal.CodeWrongState, "has not failed"},
		"a failure that was dealt with": {
			"skip", "visa", journal.CodeWrongState, "went on after its failure",
		},
		"a compensation":            {"skip", "undo:a", journal.CodeWrongState, "a compensation"},
		"a fork of a compensation":  {"fork", "undo:a", journal.CodeWrongState, "rollback"},
		"a fork without such steps": {"fork", "a/b", journal.CodeNotFound, "has not come to"},
	} {
		t.Run(name, func(t *testing.T) {
			how, err := journal.Continuation{Action: c.action, Step: c.step}.Named(entries)
			if err == nil {
				_, err = journal.Continued(entries, how)
			}
			if journal.CodeOf(err) != c.code {
				t.Fatalf("%v, want %s", err, c.code)
			}
			if e := err.(*journal.Error); !strings.Contains(e.Message+e.Hint, c.want) {
				t.Errorf("%v (%s), want %s", err, e.Hint, c.want)
			}
		})
	}
}

// A skip that names no step finds the one by which the run failed, also of a run that has asked for
// a slot of a limit.
//
// spec: R-40
func TestASkipFindsTheStepOfARunWithALimit(t *testing.T) {
	entries := started([]journal.Entry{
		row(journal.SlotAsked, "lock"), row(journal.SlotTaken, "lock"),
		row(journal.SlotFreed, "free:lock"), row(sf, "b", failing("no")), row(rf, "", by("no")),
	})
	c, err := journal.Continuation{Action: journal.ActionSkip}.Named(entries)
	if err != nil || c.Step != "b" {
		t.Errorf("it skips %q, %v", c.Step, err)
	}
}

// spec: B-8
func TestAPreviewShowsRollbacksOnlyIfNothingElseRunsAgain(t *testing.T) {
	was := []journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Running}, row(sc, "a"),
		row(sf, "b", failing("no")),
		row(sc, "undo:a", phase("UNDO")), row(journal.ScopeOpened, "undo:z", phase("UNDO")),
		row(sc, "inner", in(5)), row(sf, "undo:y", phase("UNDO"), failing("no")),
	}
	for i := range was {
		was[i].Run, was[i].Seq, was[i].At = 1, int64(i+1), time.Unix(int64(i), 0)
	}
	for kept, want := range map[int][]string{
		1: {"a", "b"}, 2: {"b"}, 3: {"undo:a", "undo:z/inner", "undo:y"},
		4: {"undo:z/inner", "undo:y"},
	} {
		p, err := journal.PreviewOf("db-1-1", was, was[:kept], nil)
		if err != nil || !slices.Equal(p.Again, want) {
			t.Errorf("%d entries kept: %q runs again, want %q; %v", kept, p.Again, want, err)
		}
	}
}

// spec
func TestSignalsOfWhatIsDoneAgainAreCarried(t *testing.T) {
	const sg = journal.SignalConsumed
	takes := func(mail int64, id string) func(*journal.Entry) {
		return with(func(d *journal.Detail) { d.Mail, d.Message = mail, id })
	}
	byStep := func(mail int64, signal string) func(*journal.Entry) {
		return with(func(d *journal.Detail) { d.Mail, d.Reason, d.ByStep = mail, signal, true })
	}
	was := []journal.Entry{
		row(sg, "early", takes(1, "k1")), row(sc, "a"),
		row(journal.WaitStarted, "late"), row(sg, "late", takes(3, "k3")),
		row(sg, "before", with(func(d *journal.Detail) { d.Taken, d.Passed = 2, "k2" })),
		row(journal.DecisionSought, "ask"), row(sg, "ask", takes(5, "")),
		row(journal.WaitStarted, journal.CallbackName), row(sg, journal.CallbackName, takes(6, "")),
		row(sg, "b", byStep(4, "item")), row(sg, "b", byStep(7, "of an older version")),
		row(sf, "b", failing("b: no")),
		row(rf, "", by("b: no")),
	}
	was[3].Data, was[9].Data = []byte("3"), []byte("4")
	for name, c := range map[string]struct {
		how  journal.Continuation
		want []string
	}{
		"of a retry, those that the failed step had taken": {
			journal.Continuation{Action: journal.ActionRetry}, []string{"item 4 4 "},
		},
		"of a skip, none of the skipped step": {
			journal.Continuation{Action: journal.ActionSkip, Step: "b"}, nil,
		},
		"of a fork, those after the step": {
			journal.Continuation{Action: journal.ActionFork, Step: "a"},
			[]string{"late 3 3 k3", "before 0  k2", "item 4 4 "},
		},
		"of a compensation, none": {
			journal.Continuation{Action: journal.ActionCompensate}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := journal.Continued(started(was), c.how)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range all.Signals {
				if e.Kind != journal.SignalReceived || e.Op.Occ != 0 || e.Misplaced() != "" {
					t.Errorf("%+v", e)
				}
				got = append(got, fmt.Sprint(e.Op.Name, " ", e.Seq, " ", string(e.Data), " ",
					e.Detail.MessageID()))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("signals are %q, want %q", got, c.want)
			}
		})
	}
}
