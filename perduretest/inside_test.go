package perduretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// spec: B-13
func TestAuditFindsWhatIsWrongWithAJournal(t *testing.T) {
	start := journal.Entry{Run: 1, Seq: 1, Kind: journal.RunStarted, Status: journal.Running}
	step := func(seq int64, kind journal.Kind) journal.Entry {
		return journal.Entry{Run: 1, Seq: seq, Kind: kind, Op: journal.Op{Name: "a", Occ: 1}}
	}
	end := journal.Entry{Run: 1, Seq: 3, Kind: journal.RunCompleted, Status: journal.Completed}
	done := journal.Head{Number: 1, Status: journal.Completed, Last: 3, Ended: time.Now()}
	for _, c := range []struct {
		name    string
		head    journal.Head
		entries []journal.Entry
		says    string // empty if there is no fault
	}{
		{"right", done, []journal.Entry{start, step(2, journal.StepCompleted), end}, ""},
		{"no entries", done, nil, "no entry"},
		{
			"a gap",
			done,
			[]journal.Entry{start, end},
			"it has a hole: journal: entry 2 of run 1 cannot be read: it is missing, and entry 3 " +
				"is there",
		},
		{
			"no start",
			done,
			[]journal.Entry{step(1, journal.StepCompleted)},
			"entry 1 does not follow",
		},
		{"another head", journal.Head{Number: 1, Status: journal.Waiting}, []journal.Entry{
			start,
		}, "the head says WAITING, the journal RUNNING"},
		{
			"an end that the head does not know",
			journal.Head{Number: 1, Status: journal.Running},
			[]journal.Entry{start, step(2, journal.StepCompleted), end},
			"it is RUNNING by entry 0",
		},
		{
			"another end",
			journal.Head{Number: 1, Status: journal.Completed, Last: 2},
			[]journal.Entry{start, step(2, journal.StepCompleted), end},
			"by entry 2, and its last entry is 3",
		},
		{"an owner", journal.Head{Number: 1, Status: journal.Running, Owner: 4}, []journal.Entry{
			start,
		}, "engine 4 still owns it"},
		{"two results", journal.Head{Number: 1, Status: journal.Running}, []journal.Entry{
			start, step(2, journal.StepCompleted), step(3, journal.StepFailed),
		}, "step a ended StepCompleted and then StepFailed"},
		{
			"an open step",
			done,
			[]journal.Entry{start, step(2, journal.StepStarted), end},
			"it is COMPLETED and its step a RUNNING",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := strings.Join(faults(c.head, c.entries), "\n")
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

// spec: B-13
func TestCrashesAreChosenBySeed(t *testing.T) {
	show := func(s Setup) string {
		var out []string
		for _, c := range s.plans(t, 30) {
			out = append(out, c.String())
		}
		return strings.Join(out, "; ")
	}
	if all := (Setup{}).plans(t, 30); len(all) != 60 {
		t.Errorf("there are %d crashes, want 60", len(all))
	}
	one, again, other := show(Setup{Crashes: 5, Seed: 1}), show(Setup{Crashes: 5, Seed: 1}),
		show(Setup{Crashes: 5, Seed: 2})
	if one != again || one == other || strings.Count(one, ";") != 4 {
		t.Errorf("crashes by seed: %q, again %q, by another one %q", one, again, other)
	}
}

// spec: B-13
func TestWrongSetupsFailTheTest(t *testing.T) {
	for says, s := range map[string]Setup{
		"registered already":       {Workflows: []perdure.Definition{empty, empty}},
		"Capacity -1 is not valid": {Options: perdure.Options{Capacity: -1}},
	} {
		if said := FakeTest(t, s, func(*Env) {}); !strings.Contains(said, says) {
			t.Errorf("it says %q, want %q", said, says)
		}
	}
	said, _ := FakeCrashEverywhere(t, Setup{}, func(*Env) any { return nil })
	if !strings.Contains(said, "no crash has happened") {
		t.Errorf("of a scenario that does nothing it says %q", said)
	}
}

var empty = perdure.Define("empty", func(context.Context, int) (int, error) { return 0, nil })

// spec: B-13
func TestTestFailsWhereAJournalIsWrongAtItsEnd(t *testing.T) {
	said := FakeTest(t, Setup{Workflows: []perdure.Definition{empty}}, func(env *Env) {
		run := Start(env, empty, 0)
		run.Returns(0)
		env.Settle()
		info, err := env.db.Info(env.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := journal.RunID(run.RunID()).Number(info.Database)
		more := journal.Entry{Run: n, Seq: 3, Kind: journal.StatusChanged, Status: journal.Running}
		g := &store.Group{
			Engine:  info.Engines[0].ID,
			Now:     time.Now(),
			Changes: []store.Change{{Run: n, Entries: []journal.Entry{more}}},
		}
		if err := env.db.Commit(env.Context(), g); err != nil {
			t.Fatal(err)
		}
	})
	if !strings.Contains(said, "is wrong: entry 3 does not follow") {
		t.Errorf("it says %q", said)
	}
}

// spec: B-13
func TestTestFailsWhereTheEngineDiesByItself(t *testing.T) {
	said := FakeTest(t, Setup{Workflows: []perdure.Definition{empty}}, func(env *Env) {
		env.Settle()
		env.db.Close()
		if _, err := env.Engine().Describe(env.Context(), "any"); err == nil {
			t.Error("the store is not closed")
		}
	})
	if !strings.Contains(said, "the engine did not stop in good order") ||
		!strings.Contains(said, "the runs cannot be read") {
		t.Errorf("it says %q", said)
	}
}

// spec: B-13
func TestOptionsOfTheSetupHold(t *testing.T) {
	fails := perdure.Define("fails", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "act", func(context.Context) (int, error) { return 1, nil },
			perdure.Retry{Attempts: 2})
	})
	var around, told []string
	s := Setup{Workflows: []perdure.Definition{fails}, Options: perdure.Options{
		Build: "mine",
		Interceptor: func(ctx context.Context, step perdure.StepInfo,
			body func(context.Context) error) error {
			err := body(ctx)
			around = append(around, fmt.Sprint(step.Step, step.Attempt, err))
			return err
		},
		Observers: []observe.Observer{
			{Kinds: []observe.Kind{observe.RunEnded}, See: func(n observe.Notice) {
				told = append(told, n.Status)
			}},
		},
	}}
	s.Test(t, func(env *Env) {
		env.Step("act").Fail(1, errors.New("on purpose"))
		run := Start(env, fails, 0, perdure.ID("given"))
		run.Returns(1)
		env.Settle()
		if run.ID() != "given" || run.describe().State.Build != "mine" {
			t.Errorf("run %s of build %s", run.ID(), run.describe().State.Build)
		}
	})
	if got := fmt.Sprint(around, told); got != "[act1 on purpose act2 <nil>] [COMPLETED]" {
		t.Error(got)
	}
}

// spec: B-13
func TestHistoriesThatCannotBeReplayedAreRefused(t *testing.T) {
	start := journal.Entry{
		Run: 1, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, Data: []byte("1"),
	}
	spilled := journal.Entry{
		Run:   1,
		Seq:   2,
		Kind:  journal.StepCompleted,
		Op:    journal.Op{Name: "a", Occ: 1},
		Spill: 7,
	}
	for says, entries := range map[string][]journal.Entry{
		"it has no entry":       nil,
		"does not follow entry": {start, {Run: 1, Seq: 3, Kind: journal.StatusChanged}},
		"a run begins with": {
			{Run: 1, Seq: 1, Kind: journal.StatusChanged, Status: journal.Running},
		},
		"payload of entry 2 is": {start, spilled},
	} {
		if err := complete(entries); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v, want %q", err, says)
		}
	}
	spilled.Data = []byte("2")
	whole := []journal.Entry{start, spilled}
	if err := complete(whole); err != nil || whole[1].Spill != 0 {
		t.Error(whole, err)
	}
}
