package perduretest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
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
		says    string // nothing where it is right
	}{
		{"right", done, []journal.Entry{start, step(2, journal.StepCompleted), end}, ""},
		{"no entries", done, nil, "no entry"},
		{"a gap", done, []journal.Entry{start, end}, "entry 2 does not follow"},
		{"no start", done, []journal.Entry{step(1, journal.StepCompleted)}, "entry 1 does not follow"},
		{"another head", journal.Head{Number: 1, Status: journal.Waiting}, []journal.Entry{start}, "the head says WAITING, the journal RUNNING"},
		{"an end that the head does not know", journal.Head{Number: 1, Status: journal.Running}, []journal.Entry{start, step(2, journal.StepCompleted), end}, "it is RUNNING by entry 0"},
		{"another end", journal.Head{Number: 1, Status: journal.Completed, Last: 2}, []journal.Entry{start, step(2, journal.StepCompleted), end}, "by entry 2, and its last entry is 3"},
		{"an owner", journal.Head{Number: 1, Status: journal.Running, Owner: 4}, []journal.Entry{start}, "engine 4 still owns it"},
		{"two results", journal.Head{Number: 1, Status: journal.Running}, []journal.Entry{start, step(2, journal.StepCompleted), step(3, journal.StepFailed)}, "step a ended StepCompleted and then StepFailed"},
		{"an open step", done, []journal.Entry{start, step(2, journal.StepStarted), end}, "it is COMPLETED and its step a RUNNING"},
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
	one, again, other := show(Setup{Crashes: 5, Seed: 1}), show(Setup{Crashes: 5, Seed: 1}), show(Setup{Crashes: 5, Seed: 2})
	if one != again || one == other || strings.Count(one, ";") != 4 {
		t.Errorf("crashes by seed: %q, again %q, by another one %q", one, again, other)
	}
}

// spec: B-13
func TestWrongSetupsFailTheTest(t *testing.T) {
	for says, s := range map[string]Setup{
		"registered already": {Workflows: []perdure.Definition{empty, empty}},
		"Capacity is -1":     {Options: perdure.Options{Capacity: -1}},
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
