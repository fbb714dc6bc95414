package journal_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

// row returns an entry of a journal in the tests below.
func row(kind journal.Kind, op string, change ...func(*journal.Entry)) journal.Entry {
	e := journal.Entry{Kind: kind}
	if op != "" {
		e.Op = journal.Op{Name: op, Occ: 1}
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func with(change func(*journal.Detail)) func(*journal.Entry) {
	return func(e *journal.Entry) {
		if e.Detail == nil {
			e.Detail = &journal.Detail{}
		}
		change(e.Detail)
	}
}

func in(scope int64) func(*journal.Entry) { return func(e *journal.Entry) { e.Op.Scope = scope } }

func keyed(e *journal.Entry) { e.Op.Key = "k" }

// fact makes an entry that of an operation that has come before under the same name.
func fact(e *journal.Entry) { e.Op.Occ = 2 }

func took(d time.Duration) func(*journal.Entry) { return func(e *journal.Entry) { e.Took = d } }

func failing(message string) func(*journal.Entry) {
	return with(func(d *journal.Detail) { d.Failure = &journal.Failure{Message: message} })
}

// by sets a failure that wraps the recorded ones with those messages.
func by(messages ...string) func(*journal.Entry) {
	return with(func(d *journal.Detail) {
		d.Failure = &journal.Failure{Message: "it failed"}
		for _, m := range messages {
			d.Failure.Wraps = append(d.Failure.Wraps, &journal.Failure{Message: m, Settled: true})
		}
	})
}

func phase(p string) func(*journal.Entry) { return with(func(d *journal.Detail) { d.Phase = p }) }

func byStep(d *journal.Detail)   { d.ByStep = true }
func branch(d *journal.Detail)   { d.Branch = true }
func heard(d *journal.Detail)    { d.Heard = true }
func declared(d *journal.Detail) { d.Declared = true }
func tx(d *journal.Detail)       { d.Tx = true }

// shown returns the entries of a journal in words: kind and operation, with the scope that it is
// in.
func shown(entries []journal.Entry) []string {
	var out []string
	for _, e := range entries {
		s := e.Kind.String()
		if !e.Op.IsZero() {
			s += " " + e.Op.String()
		}
		if e.Op.Scope != 0 {
			s += fmt.Sprint(" in ", e.Op.Scope)
		}
		out = append(out, s)
	}
	return out
}

const (
	rs, rc, rf = journal.RunStarted, journal.RunClaimed, journal.RunFailed
	ss, sc, sf = journal.StepStarted, journal.StepCompleted, journal.StepFailed
)

// The reusable history, rule by rule. Each entry is a second after the one before it.
//
// spec: P-4
func TestReusable(t *testing.T) {
	cancelled := with(func(d *journal.Detail) { d.Reason = "it ends" })
	detached := with(func(d *journal.Detail) { d.Policy = journal.ChildDetached })
	for name, c := range map[string]struct {
		was    []journal.Entry
		want   []string // after the start
		redone []string // paths
	}{
		"what was done before the failed step stays, and nothing after it": {
			was: []journal.Entry{
				row(rc, ""), row(sc, "reserve"), row(journal.StepRetrying, "charge", failing("no")),
				row(ss, "charge"),
				row(sf, "charge", failing("no")), row(sc, "notify"), row(rf, "", by("no")),
			},
			want: []string{"StepCompleted reserve"},
		},
		"a failure that the code has dealt with stays": {
			was: []journal.Entry{
				row(sf, "visa", failing("visa: no")), row(journal.DeadLettered, "nobody"),
				row(journal.StepSkipped, "visa", fact), row(sc, "cash"),
				row(sf, "ship", failing("ship: no")), row(rf, "", by("ship: no")),
			},
			want: []string{"StepFailed visa", "StepSkipped visa#2", "StepCompleted cash"},
		},
		"the error says which step it was": {
			was: []journal.Entry{
				row(sc, "a"), row(sf, "charge", failing("no money")),
				row(sf, "log", failing("no disk")), row(rf, "", by("no money")),
			},
			want: []string{"StepCompleted a"},
		},
		"where it says nothing it was the last that failed": {
			was: []journal.Entry{
				row(sf, "visa", failing("no")), row(sc, "cash"), row(journal.StepTimedOut, "ship",
					failing("late")), row(sc, "notify"), row(rf, "", by()),
			},
			want: []string{"StepFailed visa", "StepCompleted cash"},
		},
		"of equal errors the last ones count": {
			was: []journal.Entry{
				row(sf, "poll", failing("no")), row(sc, "a"), row(sf, "x", failing("no")),
				row(sc, "b"), row(sf, "y", failing("no")), row(rf, "", by("no", "no")),
			},
			want: []string{"StepFailed poll", "StepCompleted a"},
		},
		"dead letters say it better": {
			was: []journal.Entry{
				row(sc, "a"), row(sf, "charge", failing("no money")), row(sc, "b"),
				row(sf, "later", failing("later")),
				row(journal.DeadLettered, "charge", fact), row(rf, "", by("later")),
			},
			want: []string{"StepCompleted a"},
		},
		"a dead letter is about a participant's phase": {
			was: []journal.Entry{
				row(ss, "try:a", phase("TRY")), row(sc, "try:a", phase("TRY")),
				row(ss, "confirm:a", phase("CONFIRM")),
				row(sf, "confirm:a", phase("CONFIRM"), failing("no")), row(sf, "other",
					failing("no")), row(journal.DeadLettered, "a"), row(rf, "", by("no")),
			},
			want: []string{"StepStarted try:a", "StepCompleted try:a"},
		},
		"a dead letter is about the last failure of its name": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one"), row(sf, "charge", in(2), failing("1")),
				row(sc, "b"),
				row(sf, "charge", in(2), failing("3"), func(e *journal.Entry) { e.Op.Occ = 2 }),
				row(sf, "charge", failing("2")), row(sf, "charge", in(2), keyed, failing("4")),
				row(journal.DeadLettered, "charge", in(2), func(e *journal.Entry) { e.Op.Occ = 3 }),
				row(rf, ""),
			},
			want: []string{"ScopeOpened one", "StepFailed charge in 2", "StepCompleted b"},
		},
		"where code failed by itself all that ended well stays": {
			was: []journal.Entry{
				row(sc, "a"), row(ss, "b", with(func(d *journal.Detail) { d.Async = true })),
				row(journal.VersionMarked, "v"), row(sc, "c"),
				row(journal.StepCancelled, "b", cancelled), row(rf, "", by()),
			},
			want: []string{"StepCompleted a", "VersionMarked v", "StepCompleted c"},
		},
		"a cancelled run keeps its failures": {
			was: []journal.Entry{
				row(sc, "a"), row(sf, "b", failing("no")), row(sc, "c"), row(ss, "d"),
				row(journal.ScopeCancelled, "s", cancelled),
				row(journal.StepCancelled, "d", cancelled),
				row(journal.RunCancelled, "", failing("cancelled")),
			},
			want: []string{"StepCompleted a", "StepFailed b", "StepCompleted c"},
		},
		"a run that cleaned up is cut where its end began": {
			was: []journal.Entry{
				row(journal.CleanupPlanned, "unlock"), row(sc, "a"),
				row(journal.StepCancelled, "loser", cancelled),
				row(journal.RunClosing, "", with(func(d *journal.Detail) {
					d.Outcome = journal.TimedOut
				})), row(sc, "release", in(2)),
				row(sf, "other", in(2), failing("no")),
				row(journal.RunTimedOut, "", failing("late")),
			},
			want: []string{"CleanupPlanned unlock", "StepCompleted a", "StepCancelled loser"},
		},
		"what failed in a clean-up is no reason": {
			was: []journal.Entry{
				row(sc, "a"), row(sf, "charge", failing("no")), row(sc, "b"),
				row(journal.RunClosing, "",
					with(func(d *journal.Detail) { d.Outcome = journal.Failed })),
				row(sf, "release", failing("no")), row(rf, "", by("no")),
			},
			want: []string{"StepCompleted a"},
		},
		"what was going on at the failure and ended well stays": {
			was: []journal.Entry{
				row(ss, "a"), row(ss, "b"), row(journal.WaitStarted, "paid"),
				row(journal.TimerRegistered, "soon"), row(journal.ChildStarted, "pack"),
				row(journal.ChildStarted, "broken"), row(journal.WaitStarted, "late"),
				row(ss, "also"),
				row(sf, "a", failing("no")),
				row(journal.VariableSet, "b", with(byStep)), row(journal.EventEmitted, "b"),
				row(sc, "b"), row(journal.SignalConsumed, "paid"),
				row(journal.TimerFired, "soon"), row(journal.ChildCompleted, "pack"),
				row(journal.ChildCompleted, "broken", failing("no box")),
				row(journal.WaitEnded, "late", failing("late")), row(sf, "also", failing("no too")),
				row(ss, "c"), row(sc, "c"), row(rf, "", by("no")),
			},
			want: []string{
				"StepStarted b", "WaitStarted paid", "TimerRegistered soon", "ChildStarted pack",
				"ChildStarted broken",
				"VariableSet b", "EventEmitted b", "StepCompleted b", "SignalConsumed paid",
				"TimerFired soon", "ChildCompleted pack",
			},
		},
		"the result of a sequential step says when that began": {
			was: []journal.Entry{
				row(sf, "a", failing("no")), row(sc, "beside", took(90*time.Second)),
				row(sc, "after", took(500*time.Millisecond)), row(rf, "", by("no")),
			},
			want: []string{"StepCompleted beside"},
		},
		"open waits and timers begin anew, children go on, and what ended before stays": {
			was: []journal.Entry{
				row(journal.WaitStarted, "paid"), row(journal.SignalConsumed, "paid"),
				row(journal.WaitStarted, "never"),
				row(journal.TimerRegistered, "month"), row(journal.TimerRegistered, "day"),
				row(journal.TimerCancelled, "day"),
				row(journal.ChildStarted, "pack"), row(journal.ChildStarted, "mail", detached),
				row(journal.DecisionSought, "ok"),
				row(journal.WaitEnded, "wait:x", failing("over")), row(sf, "a", failing("no")),
				row(rf, "", by("no")),
			},
			want: []string{
				"WaitStarted paid", "SignalConsumed paid", "TimerRegistered day",
				"TimerCancelled day", "ChildStarted pack", "ChildStarted mail", "WaitEnded wait:x",
			},
		},
		"a child or a wait may be the reason": {
			was: []journal.Entry{
				row(sc, "a"), row(journal.WaitStarted, "paid"), row(journal.ChildStarted, "pack"),
				row(sf, "handled", failing("no")),
				row(journal.WaitEnded, "paid", failing("late")), row(sc, "b"),
				row(journal.ChildCompleted, "pack", failing("no box")),
				row(rf, "", by("late", "no box")),
			},
			want: []string{"StepCompleted a", "ChildStarted pack", "StepFailed handled"},
		},
		"a child that called everything off is begun anew": {
			was: []journal.Entry{
				row(journal.ChildStarted, "pay"), row(journal.ChildCompleted, "pay", with(
					func(d *journal.Detail) { d.Outcome = journal.Canceled })), row(rf, "", by()),
			},
			want: []string{},
		},
		"what branches beside the failure did until the end stays, each with a cut of its own": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one", with(branch)), row(journal.ScopeOpened, "two",
					with(branch)), row(journal.ScopeOpened, "three", with(branch)),
				row(journal.ScopeOpened, "four", with(branch)), row(sf, "a", in(2), failing("no")),
				row(sc, "after", in(2)), row(sc, "b", in(3)), row(journal.ValueRecorded, "now",
					in(3)), row(journal.WaitStarted, "paid", in(3)),
				row(journal.SignalConsumed, "paid", in(3)),
				row(journal.ScopeOpened, "within", in(3), with(branch)), row(sc, "c", in(12)),
				row(ss, "d", in(12)),
				row(sf, "visa", in(4), failing("visa")), row(sc, "cash", in(4)),
				row(sf, "ship", in(4), failing("no too")), row(sc, "late", in(4)),
				row(sc, "x", in(5)), row(sf, "y", in(5), failing("nobody heard of it")),
				row(sc, "z", in(5)),
				row(sc, "sorry"), row(sc, "d", in(12)), row(journal.StepCancelled, "e", in(3),
					cancelled), row(journal.ScopeCancelled, "within", in(3), cancelled),
				row(rf, "", by("no", "no too")),
			},
			want: []string{
				"ScopeOpened one", "ScopeOpened two", "ScopeOpened three", "ScopeOpened four",
				"StepCompleted b in 3", "ValueRecorded now in 3",
				"WaitStarted paid in 3", "SignalConsumed paid in 3", "ScopeOpened within in 3",
				"StepCompleted c in 10", "StepStarted d in 10",
				"StepFailed visa in 4", "StepCompleted cash in 4", "StepCompleted x in 5",
				"StepCompleted d in 10",
			},
		},
		"a branch that has heard of something since then is cut there, and so is what it is in": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "in", with(branch)), row(journal.ScopeOpened, "deep",
					in(2), with(branch)), row(journal.ScopeOpened, "beside", in(2), with(branch)),
				row(sc, "a", in(3), with(heard)), row(ss, "going-on", in(3)),
				row(sf, "charge", failing("no")), row(sc, "b", in(3)), row(sc, "c", in(2)),
				row(ss, "reads", in(4)), row(sc, "mail", in(3), took(time.Minute), with(heard)),
				row(sc, "going-on", in(3)), row(sc, "d", in(2)), row(sc, "e", in(4)),
				row(sc, "reads", in(4), with(heard)), row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened in", "ScopeOpened deep in 2", "ScopeOpened beside in 2",
				"StepCompleted a in 3", "StepStarted going-on in 3", "StepCompleted b in 3",
				"StepCompleted c in 2",
				"StepCompleted going-on in 3", "StepCompleted e in 4",
			},
		},
		"a branch that was cancelled because of the failure is cut there": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one", with(branch)), row(journal.ScopeOpened, "deep",
					in(2), with(branch)), row(sf, "a", failing("no")), row(sc, "b", in(3)),
				row(journal.ScopeCancelled, "one", cancelled),
				row(journal.ValueRecorded, "gave-up", in(2)), row(journal.ValueRecorded, "gave-up",
					in(3)), row(journal.ScopeCancelled, "deep", in(2), cancelled),
				row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened one", "ScopeOpened deep in 2", "StepCompleted b in 3"},
		},
		"what the cancellation of a branch has ended is done anew with it": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one", with(branch)), row(journal.ScopeOpened, "deep",
					in(2), with(branch)), row(ss, "x", in(2)), row(journal.WaitStarted, "paid",
					in(3)), row(journal.ChildStarted, "pack", in(3)),
				row(journal.TimerRegistered, "soon", in(3)), row(ss, "mine"),
				row(sf, "a", failing("no")), row(journal.StepCancelled, "mine", cancelled),
				row(journal.StepCancelled, "x", in(2), cancelled),
				row(journal.ScopeCancelled, "deep", in(2), cancelled),
				row(journal.WaitEnded, "paid", in(3), cancelled), row(journal.WaitEnded, "pack",
					in(3), cancelled), row(journal.TimerCancelled, "soon", in(3), cancelled),
				row(journal.ScopeCancelled, "one", cancelled), row(sc, "sorry"),
				row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened one", "ScopeOpened deep in 2", "ChildStarted pack in 3"},
		},
		"a child that nobody waits for any more goes on": {
			was: []journal.Entry{
				row(journal.CleanupPlanned, "unlock"), row(journal.ChildStarted, "pack"),
				row(journal.ScopeOpened, "in", with(branch)), row(sf, "a", failing("no")),
				row(sc, "reads", in(4), with(heard)),
				row(journal.ChildStarted, "mail", in(4)),
				row(journal.RunClosing, "", with(func(d *journal.Detail) {
					d.Outcome = journal.Failed
				})), row(journal.WaitEnded, "pack", cancelled),
				row(journal.WaitEnded, "mail", in(4), cancelled), row(journal.ScopeCancelled, "in",
					cancelled), row(sc, "x", in(2)), row(rf, "", by("no")),
			},
			want: []string{
				"CleanupPlanned unlock", "ChildStarted pack", "ScopeOpened in",
				"ChildStarted mail in 4",
			},
		},
		"a child that failed in a gate that had heard goes on": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "gate:x", with(branch)), row(sf, "a", failing("no")),
				row(sc, "reads", in(2), with(heard)), row(journal.ChildStarted, "pack", in(2)),
				row(journal.ChildCompleted, "pack", in(2), failing("no box")),
				row(sf, "x", failing("no box")), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened gate:x", "ChildStarted pack in 2"},
		},
		"no child stays of a clean-up that is planned again": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "gate:x", with(branch)), row(journal.ScopeOpened, "deep",
					in(2), with(branch)), row(journal.CleanupPlanned, "off", in(3)),
				row(sf, "s", in(2), failing("no")),
				row(journal.ScopeCancelled, "deep", in(2), cancelled),
				row(sc, "reads", in(4), with(heard)), row(journal.ChildStarted, "refund", in(4)),
				row(journal.ChildCompleted, "refund", in(4)), row(sf, "x", failing("no")),
				row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened gate:x", "ScopeOpened deep in 2", "CleanupPlanned off in 3",
			},
		},
		"no child stays of a TCC that begins from the top": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "book", with(branch)),
				row(ss, "try:a", in(2), phase("TRY")), row(sc, "try:a", in(2), phase("TRY")),
				row(sf, "x", failing("no")), row(sc, "reads", in(2), with(heard)),
				row(journal.ChildStarted, "inside", in(2)),
				row(sc, "cancel:a", in(2), phase("CANCEL")), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened book"}, redone: []string{"book/a"},
		},
		"a scope without a goroutine knows what that one does which has opened it": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "plain"), row(journal.ScopeOpened, "branch", with(branch)),
				row(journal.ScopeOpened, "plain", in(3)), row(ss, "a"), row(sf, "a", failing("no")),
				row(sc, "sorry", in(2)), row(sc, "b", in(4)), row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened plain", "ScopeOpened branch", "ScopeOpened plain in 3",
				"StepCompleted b in 4",
			},
		},
		"a step of a declaration stays that ended well, with what it waited for": {
			was: []journal.Entry{
				row(ss, "a", with(declared)), row(sf, "a", failing("no")),
				row(ss, "b", with(declared)), row(sc, "b"), row(journal.ScopeOpened, "gate:c",
					with(branch)), row(journal.WaitStarted, "go", in(6)),
				row(journal.SignalConsumed, "go", in(6)),
				row(ss, "c", with(declared)), row(journal.VariableSet, "c", with(byStep)),
				row(sc, "c"), row(ss, "d", with(declared)), row(sf, "d", failing("no too")),
				row(ss, "e"), row(sc, "e"), row(rf, "", by("no")),
			},
			want: []string{
				"StepStarted b", "StepCompleted b", "ScopeOpened gate:c", "WaitStarted go in 4",
				"SignalConsumed go in 4", "StepStarted c", "VariableSet c", "StepCompleted c",
			},
		},
		"what a transaction has stays wherever it was, unless it was undone": {
			was: []journal.Entry{
				row(journal.CleanupPlanned, "unlock"), row(sc, "hold", with(tx)), row(sf, "a",
					failing("no")), row(sc, "sorry", with(tx)), row(journal.ScopeOpened, "amends"),
				row(sc, "more", in(6), with(tx)), row(sc, "else", in(6)),
				row(journal.VariableSet, "last", with(byStep)), row(sc, "last", with(tx)),
				row(sc, "undo:hold", phase("UNDO"), with(tx)),
				row(journal.RunClosing, "", with(func(d *journal.Detail) {
					d.Outcome = journal.Failed
				})), row(sc, "release", in(2), with(tx)), row(rf, "", by("no")),
			},
			want: []string{
				"CleanupPlanned unlock", "StepCompleted sorry", "ScopeOpened amends",
				"StepCompleted more in 4", "VariableSet last", "StepCompleted last",
				"StepCompleted release in 2",
			},
			redone: []string{"hold"},
		},
		"a scope of a journal in which none says that it has a goroutine is taken for one " +
			"without, but for its children": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "names"), row(journal.ScopeOpened, "bad"),
				row(sf, "charge", in(3), failing("no")), row(sc, "sorry", in(2)),
				row(journal.ChildStarted, "pack", in(2)),
				row(journal.ChildStarted, "amends", in(3)), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened names", "ScopeOpened bad", "ChildStarted pack in 2"},
		},
		"with what a transaction has there stays the scope that it is done for": {
			was: []journal.Entry{
				row(sf, "a", failing("no")), row(journal.ScopeOpened, "in"),
				row(journal.ScopeOpened, "of", in(3)), row(journal.ScopeOpened, "undoing",
					with(func(d *journal.Detail) { d.StandsFor = 4 })),
				row(sc, "book", in(5), with(tx)), row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened in", "ScopeOpened of in 2", "ScopeOpened undoing",
				"StepCompleted book in 4",
			},
		},
		"of a gate that failed after something else what was too late is waited for anew": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "gate:x"), row(journal.WaitStarted, "go", in(2)), row(
					journal.TimerRegistered, "perdure:late", in(2)), row(sf, "a", failing("no")),
				row(journal.TimerFired, "perdure:late", in(2)), row(journal.WaitEnded, "go", in(2)),
				row(sf, "x", failing("late")), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened gate:x"},
		},
		"children of branches beside what failed stay, and those that were begun because of " +
			"that do not": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one", with(branch)), row(journal.ScopeOpened, "two",
					with(branch)), row(sf, "a", in(2), failing("no")),
				row(journal.ChildStarted, "pack", in(3)), row(journal.ChildStarted, "mail", in(3),
					detached), row(journal.ChildCompleted, "pack", in(3)),
				row(journal.ChildStarted, "amends", in(2)), row(journal.ChildStarted, "more"),
				row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened one", "ScopeOpened two", "ChildStarted pack in 3",
				"ChildStarted mail in 3", "ChildCompleted pack in 3",
			},
		},
		"children of a branch that has only heard of something stay, with their scopes, and what " +
			"else it did since does not": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "in", with(branch)), row(sf, "a", failing("no")),
				row(sc, "reads", in(2), with(heard)), row(sc, "mail", in(2)),
				row(journal.ChildStarted, "pack", in(2)), row(journal.ChildCompleted, "pack",
					in(2)), row(journal.ScopeOpened, "deep", in(2), with(branch)),
				row(journal.ScopeOpened, "plain", in(2)),
				row(journal.ChildStarted, "open", in(8)), row(journal.ChildStarted, "broken",
					in(9)), row(journal.ChildStarted, "away", in(2), detached),
				row(journal.ChildStarted, "off", in(2)),
				row(journal.ChildCompleted, "broken", in(9), failing("no box")),
				row(journal.ChildCompleted, "off", in(2), with(func(d *journal.Detail) {
					d.Outcome = journal.Compensated
				})), row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened in", "ChildStarted pack in 2", "ChildCompleted pack in 2",
				"ScopeOpened deep in 2", "ScopeOpened plain in 2", "ChildStarted open in 5",
				"ChildStarted broken in 6",
				"ChildStarted away in 2",
			},
		},
		"a step that was undone is done anew, with what its branch did": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "child:a", with(func(d *journal.Detail) {
					d.ForStep = "a"
				})), row(journal.ChildStarted, "pack", in(2)), row(journal.ChildCompleted, "pack",
					in(2)), row(sc, "a"),
				row(journal.ScopeOpened, "in:b", with(func(d *journal.Detail) { d.ForStep = "b" })),
				row(sc, "inner", in(6)), row(sc, "b"),
				row(sf, "c", failing("no")), row(journal.StepCompensated, "a"),
				row(journal.StepCompensated, "b"), row(rf, "", by("no")),
			},
			want:   []string{"ScopeOpened child:a", "ScopeOpened in:b"},
			redone: []string{"a", "b", "child:a/pack", "in:b/inner"},
		},
		"a child may be the last that failed": {
			was: []journal.Entry{
				row(journal.ChildStarted, "pack"), row(sf, "handled", failing("no")), row(sc, "a"),
				row(journal.ChildCompleted, "pack", failing("no box")), row(sc, "b"),
				row(rf, "", by()),
			},
			want: []string{"ChildStarted pack", "StepFailed handled", "StepCompleted a"},
		},
		"a step that was undone is done anew, with what it has set": {
			was: []journal.Entry{
				row(journal.VariableSet, "reserve", with(byStep)), row(journal.KeyAdded, "reserve",
					with(byStep)), row(journal.CheckpointSaved, "reserve"), row(sc, "reserve"),
				row(journal.VariableSet, "own"), row(sc, "mail"), row(sf, "charge", failing("no")),
				row(journal.CompensationStarted, "reserve", fact),
				row(ss, "undo:reserve", phase("UNDO")), row(sc, "undo:reserve", phase("UNDO")),
				row(journal.StepCompensated, "reserve", fact), row(rf, "", by("no")),
			},
			want: []string{"VariableSet own", "StepCompleted mail"}, redone: []string{"reserve"},
		},
		"it may be undone in another scope, and without a fact": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "saga"), row(sc, "reserve", in(2)), row(sc, "hold", in(2)),
				row(sf, "charge", in(2), failing("no")),
				row(sc, "undo:hold", in(2), phase("UNDO")), row(journal.ScopeOpened, "undo",
					with(func(d *journal.Detail) { d.StandsFor = 2 })),
				row(journal.StepCompensated, "reserve", in(7)), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened saga"}, redone: []string{"saga/hold", "saga/reserve"},
		},
		"what was undone before is history, and what could not be undone is done": {
			was: []journal.Entry{
				row(sc, "offer"), row(sc, "undo:offer", phase("UNDO")),
				row(journal.StepCompensated, "offer", fact), row(sc, "reserve"),
				row(sf, "charge", failing("no")), row(sf, "undo:reserve", phase("UNDO"),
					failing("no")), row(journal.StepCompensationFailed, "reserve", fact),
				row(rf, "", by("no")),
			},
			want: []string{
				"StepCompleted offer", "StepCompleted undo:offer", "StepCompensated offer#2",
				"StepCompleted reserve",
			},
		},
		"a TCC that was being cancelled begins from the top": {
			was: []journal.Entry{
				row(sc, "before"), row(journal.ScopeOpened, "tcc"), row(journal.PhaseStarted, "TRY",
					in(3)), row(sc, "try:a", in(3), phase("TRY")),
				row(sc, "try:b", in(3), phase("TRY")), row(journal.PhaseFailed, "TRY", in(3)),
				row(sc, "cancel:b", in(3), phase("CANCEL")),
				row(sf, "cancel:a", in(3), phase("CANCEL"), failing("no")),
				row(journal.DeadLettered, "a", in(3)), row(rf, "", by("no")),
			},
			// a is unchanged
			want: []string{"StepCompleted before", "ScopeOpened tcc"}, redone: []string{"tcc/b"},
		},
		"a TCC that was confirming goes on, beside one that was cancelled before": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "one"), row(sc, "try:x", in(2), phase("TRY")),
				row(sc, "cancel:x", in(2), phase("CANCEL")),
				row(sc, "try:a", phase("TRY")), row(journal.PhaseCompleted, "TRY"),
				row(sc, "confirm:a", phase("CONFIRM")),
				row(sf, "confirm:b", phase("CONFIRM"), failing("no")), row(rf, "", by("no")),
			},
			want: []string{
				"ScopeOpened one", "StepCompleted try:x in 2", "StepCompleted cancel:x in 2",
				"StepCompleted try:a", "PhaseCompleted TRY", "StepCompleted confirm:a",
			},
		},
		"a TCC may be cancelled in a clean-up": {
			was: []journal.Entry{
				row(journal.CleanupPlanned, "cancel"), row(sc, "try:a", phase("TRY")), row(sc, "b"),
				row(journal.RunClosing, "",
					with(func(d *journal.Detail) { d.Outcome = journal.Cancelled })),
				row(sc, "cancel:a", in(2), phase("CANCEL")), row(journal.RunCancelled, ""),
			},
			want: []string{"CleanupPlanned cancel", "StepCompleted b"}, redone: []string{"a"},
		},
		"of the gate of a failed step what came too late is waited for anew": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "gate:x"), row(journal.TimerRegistered, "t", in(2)),
				row(journal.WaitStarted, "go", in(2)), row(journal.TimerRegistered, "perdure:late",
					in(2)),
				row(journal.TimerFired, "t", in(2)), row(journal.TimerFired, "perdure:late", in(2)),
				row(journal.WaitEnded, "go", in(2)),
				row(sf, "x", failing("late")), row(journal.DeadLettered, "x"),
				row(rf, "", by("late")),
			},
			want: []string{"ScopeOpened gate:x", "TimerRegistered t in 2", "TimerFired t in 2"},
		},
		"a gate that has let the step go stays open": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "gate:x"), row(journal.WaitStarted, "go", in(2)),
				row(journal.SignalConsumed, "go", in(2)),
				row(sf, "x", failing("no")), row(journal.DeadLettered, "x"), row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened gate:x", "WaitStarted go in 2", "SignalConsumed go in 2"},
		},
		"of a branch what failed in it is done anew": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "in:x"), row(journal.ScopeOpened, "body", in(2)),
				row(sc, "a", in(3)), row(sf, "b", in(3), failing("no")),
				row(journal.ValueRecorded, "v", in(3), failing("no")), row(sf, "x", failing("no")),
				row(rf, "", by("no")),
			},
			want: []string{"ScopeOpened in:x", "ScopeOpened body in 2", "StepCompleted a in 3"},
		},
		"a branch that took too long goes on with what it had done": {
			was: []journal.Entry{
				row(journal.ScopeOpened, "in:x"), row(journal.ScopeOpened, "body", in(2)),
				row(sc, "a", in(3)), row(journal.TimerRegistered, "perdure:late", in(2)),
				row(journal.TimerFired, "perdure:late", in(2)), row(journal.ScopeCancelled, "body",
					in(2)), row(sf, "x", failing("late")), row(rf, "", by("late")),
			},
			want: []string{"ScopeOpened in:x", "ScopeOpened body in 2", "StepCompleted a in 3"},
		},
		"a dead letter about a failure that was dealt with does not count": {
			was: []journal.Entry{
				row(sf, "visa", failing("visa: no")), row(journal.DeadLettered, "visa"),
				row(sc, "cash"), row(sf, "ship", failing("ship: no")),
				row(journal.DeadLettered, "ship"), row(rf, "", by("ship: no")),
			},
			want: []string{"StepFailed visa", "StepCompleted cash"},
		},
		"a step of a name that looks like a phase is no other one's": {
			was: []journal.Entry{
				row(sf, "hotel", failing("no room")), row(sf, "cancel:hotel", failing("no hotel")),
				row(journal.DeadLettered, "hotel"), row(journal.DeadLettered, "cancel:hotel"),
				row(rf, "", by("no room")),
			},
			want: nil,
		},
		"what a body has kept once stays kept": {
			was: []journal.Entry{
				row(ss, "charge"), row(journal.CheckpointSaved, "charge"),
				row(sf, "charge", failing("no")), row(rf, "", by("no")),
			},
			want: []string{"CheckpointSaved charge"},
		},
		"scopes are named anew": {
			was: []journal.Entry{
				row(rc, ""), row(journal.ScopeOpened, "a"), row(sf, "x", in(3), failing("no")),
				row(rc, ""), row(journal.ScopeOpened, "b", in(3)),
				row(sc, "y", in(6)), row(sf, "z", failing("z")), row(journal.ScopeOpened, "c"),
				row(sc, "w", in(9), took(time.Hour)), row(rf, "", by("z")),
			},
			want: []string{
				"ScopeOpened a", "StepFailed x in 2", "ScopeOpened b in 2", "StepCompleted y in 4",
			},
		},
		"the status of a pattern stays in its journal, and the run is pending": {
			was: []journal.Entry{
				row(journal.ValueRecorded, "status", func(e *journal.Entry) {
					e.Status = journal.Trying
				}),
				row(journal.ValueRecorded, "x", func(e *journal.Entry) {
					e.Status = journal.Waiting
				}), row(sc, "a", func(e *journal.Entry) { e.Status = journal.Running }),
				row(sf, "b", failing("no")), row(rf, "", by("no")),
			},
			want: []string{
				"ValueRecorded status", "ValueRecorded x", "StepCompleted a", "StatusChanged",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			was := numbered(append([]journal.Entry{start()}, c.was...))
			before := clones(t, was)
			got, redone, err := journal.Reusable(was)
			if err != nil {
				t.Fatal(err)
			}
			if s := shown(got)[1:]; !slices.Equal(s, c.want) || !slices.Equal(redone, c.redone) {
				t.Errorf("it keeps\n%s\nwant\n%s\nredone %q", strings.Join(s, "\n"),
					strings.Join(c.want, "\n"), redone)
			}
			if !reflect.DeepEqual(clones(t, was), before) {
				t.Error("the old journal has changed")
			}
			sound(t, got)
		})
	}
}

// A step in a transaction is not kept if an operation that is done again may be taken for it.
//
// spec: P-4
func TestReusableRefusesTransactionsThatMayBeMistaken(t *testing.T) {
	second := func(e *journal.Entry) { e.Op.Occ = 2 }
	for name, c := range map[string]struct {
		was  []journal.Entry
		want string // in the message; empty if it is not refused
	}{
		"the first of two": {
			[]journal.Entry{
				row(sf, "a", failing("no")), row(sc, "book", with(tx)),
				row(sf, "book", second, failing("no too")), row(rf, "", by("no")),
			},
			"step book has",
		},
		"the second of two": {
			[]journal.Entry{
				row(sc, "book", with(tx)), row(sf, "a", failing("no")),
				row(sc, "book", with(tx), second), row(rf, "", by("no")),
			},
			"step book#2 has",
		},
		"in the second of two": {
			[]journal.Entry{
				row(journal.ScopeOpened, "item"), row(sf, "a", failing("no")),
				row(journal.ScopeOpened, "item", second), row(sc, "book", in(4), with(tx)),
				row(rf, "", by("no")),
			},
			"scope item#2 has",
		},
		"two of before": {
			[]journal.Entry{
				row(sc, "book", with(tx)), row(sc, "book", with(tx), second),
				row(sf, "a", failing("no")), row(sc, "sorry", with(tx)), row(rf, "", by("no")),
			},
			"",
		},
		"one with a key": {
			[]journal.Entry{
				row(sc, "book", with(tx)), row(sf, "a", failing("no")),
				row(sc, "book", with(tx), keyed), row(rf, "", by("no")),
			},
			"",
		},
		"one that was undone": {
			[]journal.Entry{
				row(sf, "a", failing("no")), row(sc, "book", with(tx)),
				row(journal.StepCompensated, "book", fact), row(rf, "", by("no")),
			},
			"",
		},
		"one that a fact tells of": {
			[]journal.Entry{
				row(sf, "a", failing("no")), row(sc, "book", with(tx)),
				row(journal.StepSkipped, "book", fact), row(rf, "", by("no")),
			},
			"",
		},
		"one that was going on": {
			[]journal.Entry{
				row(ss, "book"), row(sc, "book", second), row(sf, "a", failing("no")),
				row(sc, "book", with(tx)), row(rf, "", by("no")),
			},
			"",
		},
		"what no transaction has": {
			[]journal.Entry{
				row(sf, "a", failing("no")), row(sc, "mail"), row(sc, "mail", second),
				row(rf, "", by("no")),
			},
			"",
		},
		"a child that knows of it": {
			[]journal.Entry{
				row(journal.ScopeOpened, "in", with(branch)), row(sf, "a", failing("no")),
				row(sc, "reads", in(2), with(heard)), row(journal.ChildStarted, "pack", in(2)),
				row(journal.ChildStarted, "pack", in(2), second), row(rf, "", by("no")),
			},
			"child in/pack has begun",
		},
		"one in a branch beside it": {
			[]journal.Entry{
				row(journal.ScopeOpened, "beside", with(branch)), row(sf, "a", failing("no")),
				row(sc, "book", in(2), with(tx)), row(sc, "book", in(2), with(tx), second),
				row(rf, "", by("no")),
			},
			"",
		},
	} {
		_, _, err := journal.Reusable(numbered(append([]journal.Entry{start()}, c.was...)))
		if (err == nil) != (c.want == "") ||
			err != nil && (journal.CodeOf(err) != journal.CodeWrongState ||
				!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The history is returned along with the refusal, so that the caller sees its children. If these
// are begun again, nothing is refused.
//
// spec: P-4, F-18
func TestReusableReturnsTheChildrenOfWhatItRefuses(t *testing.T) {
	other := func(id journal.RunID) func(*journal.Entry) {
		return with(func(d *journal.Detail) { d.Other = id })
	}
	second := func(e *journal.Entry) { e.Op.Occ = 2 }
	was := numbered([]journal.Entry{
		start(), row(journal.ScopeOpened, "in", with(branch)), row(sf, "a", failing("no")),
		row(sc, "reads", in(2), with(heard)),
		row(journal.ChildStarted, "pack", in(2), other("one")), row(journal.ChildStarted, "pack",
			in(2), other("two"), second), row(rf, "", by("no")),
	})
	kept, _, err := journal.Reusable(was)
	if got := shown(kept)[1:]; journal.CodeOf(err) != journal.CodeWrongState || !slices.Equal(
		got, []string{"ScopeOpened in", "ChildStarted pack in 2", "ChildStarted pack#2 in 2"}) {
		t.Errorf("it keeps %v, %v", got, err)
	}
	if kept, _, err = journal.Reusable(was, "one", "two"); err != nil ||
		!slices.Equal(shown(kept)[1:], []string{"ScopeOpened in"}) {
		t.Errorf("with both begun anew it keeps %v, %v", shown(kept), err)
	}
}

// clones returns deep copies.
func clones(t *testing.T, entries []journal.Entry) []journal.Entry {
	t.Helper()
	var buf bytes.Buffer
	if err := journal.Write(&buf, entries); err != nil {
		t.Fatal(err)
	}
	out, err := journal.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sound demands what holds for every journal that a run may begin with.
func sound(t *testing.T, entries []journal.Entry) {
	t.Helper()
	a := newAggregate()
	for _, e := range entries {
		if err := a.Apply(e); err != nil {
			t.Fatalf("entry %v: %v", e.Seq, err)
		}
		if d := e.Detail; d != nil && (d.Mail != 0 || d.Tell) {
			t.Errorf("entry %d takes a message or is in the outbox: %+v", e.Seq, d)
		}
		if e.Status != 0 && e.Kind != rs && e.Kind != journal.StatusChanged &&
			(e.Kind != journal.ValueRecorded || e.Status == journal.Waiting) {
			t.Errorf("entry %d, %v, says that the run is %v", e.Seq, e.Kind, e.Status)
		}
	}
	s := a.Snapshot()
	notChild := func(w journal.Wait) bool { return w.Kind != journal.WaitChild }
	if s.Status != journal.Pending || slices.ContainsFunc(s.Waits, notChild) || s.Ending != 0 {
		t.Errorf("the run is %v, waits for %v and ends as %v", s.Status, s.Waits, s.Ending)
	}
}

// spec: P-4
func TestReusableKeepsTheFieldsOfEntries(t *testing.T) {
	if kept, redone, err := journal.Reusable(nil); kept != nil || redone != nil || err != nil {
		t.Error("of nothing it keeps", kept)
	}
	was := numbered([]journal.Entry{
		row(rs, "", func(e *journal.Entry) { e.Status, e.Spill = journal.Running, 9 },
			with(func(d *journal.Detail) {
				d.Headers, d.Other, d.Tell = map[string]string{"trace": "1"}, "db-1-7", true
			})),
		row(sc, "a", func(e *journal.Entry) { e.Spill, e.Took = 11, time.Second }),
		row(journal.EventEmitted, "b",
			with(func(d *journal.Detail) { d.Event, d.Tell, d.Message = "x", true, "m" })),
		row(sc, "b", func(e *journal.Entry) { e.Data = []byte("1") }),
		row(journal.WaitStarted, "paid"),
		row(journal.SignalConsumed, "paid",
			with(func(d *journal.Detail) { d.Mail, d.Message = 7, "key/1" })),
		row(journal.WaitStarted, "again"),
		// by a run that this one has retried
		row(journal.SignalConsumed, "again", with(func(d *journal.Detail) { d.Taken = 5 })),
		row(sf, "c", failing("no")), row(rf, "", by("no")),
	})
	got, _, _ := journal.Reusable(was)
	want := clones(t, was)[:8]
	want[0].Status, want[0].Detail.Tell, want[2].Detail.Tell = journal.Pending, false, false
	want[5].Detail.Mail, want[5].Detail.Taken = 0, 7
	if g := clones(t, got); !reflect.DeepEqual(g, want) {
		t.Errorf("it keeps\n%+v\nwant\n%+v", g, want)
	}
}

// In the random journal of a failed run, every result from before the cut of its branch is
// reusable, and no failed operation is. The result, reused again as the journal of a run that
// failed at once, does not change.
//
// spec: P-4
func TestReusableHistoryOfRandomJournals(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		was, cause := randomFailure(rng)
		got, redone, err := journal.Reusable(was)
		if err != nil {
			t.Fatal(err)
		}
		if len(redone) > 0 {
			t.Fatalf("seed %d: nothing was undone", seed)
		}
		sound(t, got)
		kept := map[string]bool{}
		for _, e := range got {
			if e.Kind == sc {
				kept[string(e.Data)] = true
			}
			if e.Kind == sf && string(e.Data) == "cause" {
				t.Fatalf("seed %d: what failed is kept", seed)
			}
		}
		want := map[string]bool{}
		begun := map[journal.Op]bool{}
		cuts := cutsOf(was, cause)
		for i, e := range was {
			before := i < cuts[e.Op.Scope]
			begun[e.Op] = begun[e.Op] || e.Kind == ss && before
			if e.Kind == sc && (before || begun[e.Op]) {
				want[string(e.Data)] = true
			}
		}
		if !maps.Equal(kept, want) {
			t.Fatalf("seed %d: it keeps %v, want %v of\n%s", seed, kept, want,
				strings.Join(shown(was), "\n"))
		}
		end := was[len(was)-1]
		end.Seq, end.Detail = int64(len(got)+1), &journal.Detail{
			Failure: &journal.Failure{Message: "at once"},
		}
		again, _, _ := journal.Reusable(append(slices.Clone(got), end))
		if failures := slices.ContainsFunc(got, func(e journal.Entry) bool {
			return e.Kind == sf
		}); !failures && !reflect.DeepEqual(again, got) {
			t.Fatalf("seed %d: reused again it is\n%s\nand was\n%s", seed,
				strings.Join(shown(again), "\n"), strings.Join(shown(got), "\n"))
		}
	}
}

// cutsOf returns, for each branch of a random journal, the entry from which on it is done again.
// For the run and the branches around the cause, it is the cause. A branch that these have opened
// later is done again from its start. Any other branch is done again from the first failure in it,
// or in the branches that it has opened.
func cutsOf(was []journal.Entry, cause int) map[int64]int {
	cuts := map[int64]int{0: cause}
	for i, e := range was {
		if e.Kind != journal.ScopeOpened {
			continue
		}
		cuts[e.Seq] = len(was)
		for j := cause; j < len(was); j++ {
			if was[j].Kind == sf && within(was, was[j].Op.Scope, e.Seq) {
				cuts[e.Seq] = min(cuts[e.Seq], j)
			}
		}
		if i >= cuts[e.Op.Scope] {
			cuts[e.Seq] = 0
		}
	}
	return cuts
}

// within reports whether a scope is the scope in, or inside it.
func within(was []journal.Entry, scope, in int64) bool {
	for ; scope != 0 && scope != in; scope = was[scope-1].Op.Scope {
	}
	return scope == in
}

// randomFailure returns the journal of a failed run, and the place of the failure: of steps in a
// few scopes, some beside each other.
func randomFailure(rng *rand.Rand) (entries []journal.Entry, cause int) {
	entries = []journal.Entry{start()}
	scopes, open := []int64{0}, []journal.Entry{}
	add := func(e journal.Entry) { entries = append(entries, e) }
	n := 4 + rng.IntN(30)
	cause = 1 + rng.IntN(n)
	for i := 1; i <= n || len(entries) <= cause; i++ {
		name := fmt.Sprint("s", i)
		scope := in(scopes[rng.IntN(len(scopes))])
		data := func(e *journal.Entry) { e.Data = []byte(name) }
		switch k := rng.IntN(8); {
		case len(entries) == cause:
			add(row(sf, name, scope, failing("the cause"), func(e *journal.Entry) {
				e.Data = []byte("cause")
			}))
		case k == 0:
			add(row(journal.ScopeOpened, name, scope, with(branch)))
			scopes = append(scopes, int64(len(entries)))
		case k == 1:
			e := row(ss, name, scope)
			open = append(open, e)
			add(e)
		case k <= 4 && len(open) > 0:
			at := rng.IntN(len(open))
			e := row(sc, open[at].Op.Name, in(open[at].Op.Scope))
			e.Data = []byte(e.Op.Name)
			open = slices.Delete(open, at, at+1)
			add(e)
		case k == 5:
			add(row(sf, name, scope, failing("dealt with "+name)))
		case k == 6:
			add(row([]journal.Kind{
				rc, journal.StatusChanged, journal.RunResumed, journal.StepRetrying,
			}[rng.IntN(4)], "", failing("x")))
			if e := &entries[len(entries)-1]; e.Kind == journal.StepRetrying {
				e.Op = journal.Op{Name: name, Occ: 1}
			}
		default:
			add(row(sc, name, scope, data))
		}
	}
	add(row(rf, "", by("the cause")))
	entries[len(entries)-1].Status = journal.Failed
	return numbered(entries), cause
}

// A scope that stands for another one does so after a retry too, whatever numbers they have then.
//
// spec: F-18
func TestReusableKeepsWhatAScopeStandsFor(t *testing.T) {
	rows := []journal.Entry{
		row(journal.RunStarted, ""), row(journal.RunClaimed, ""), row(journal.ScopeOpened, "a"),
		row(journal.ScopeOpened, "b", with(func(d *journal.Detail) { d.StandsFor = 3 })),
		row(journal.StepCompleted, "done", in(4)), row(journal.StepFailed, "bad", failing("x")),
		row(journal.RunFailed, "", by("x")),
	}
	for i := range rows {
		rows[i].Run, rows[i].Seq, rows[i].At = 1, int64(i+1), time.Unix(int64(i), 0)
	}
	kept, _, _ := journal.Reusable(rows)
	a := journal.NewAggregate("r", "w", "f", 0)
	for _, e := range kept {
		if err := a.Apply(e); err != nil {
			t.Fatalf("%v: %v", e, err)
		}
	}
	for _, e := range kept {
		if e.Op.Name == "b" && kept[e.Detail.StandsFor-1].Op.Name != "a" {
			t.Errorf("b stands for entry %d of %v", e.Detail.StandsFor, kept)
		}
	}
	if rows[3].Detail.StandsFor != 3 {
		t.Error("the old journal was changed")
	}
}
