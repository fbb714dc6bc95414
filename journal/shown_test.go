package journal_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
)

// apply sets the next sequence and time of the entry, and applies it.
func apply(t *testing.T, a *journal.Aggregate, e journal.Entry) journal.Snapshot {
	t.Helper()
	n := int(a.Snapshot().Seq) + 1
	e.Seq, e.At = int64(n), at(n)
	if err := a.Apply(e); err != nil {
		t.Fatal(err)
	}
	return a.Snapshot()
}

// spec: P-14
func TestMessagesAreNoEntriesOfAJournal(t *testing.T) {
	for _, kind := range journal.Kinds() {
		want := slices.Contains(onlyMessages, kind)
		if want && !kind.IsMessage() {
			t.Errorf("%v is no message", kind)
		}
		for _, seq := range []int64{1, 2} {
			a := newAggregate()
			if seq == 2 {
				a = fold(t, start())
			}
			before := a.Snapshot()
			err := a.Apply(journal.Entry{Seq: seq, Kind: kind, Status: journal.Running, Op: paid})
			corrupt := new(journal.CorruptError)
			refused := errors.As(err, &corrupt) && strings.Contains(corrupt.Reason, "message") &&
				strings.Contains(corrupt.Reason, kind.String())
			if refused != want {
				t.Errorf("%v as entry %d: %v", kind, seq, err)
			}
			if want && (a.Raise(journal.Entry{Kind: kind}) == nil ||
				!reflect.DeepEqual(a.Snapshot(), before)) {
				t.Errorf("%v as entry %d has changed the run", kind, seq)
			}
		}
	}
}

// spec: L-8
func TestThePayloadIsTheLastOneSet(t *testing.T) {
	a := newAggregate()
	for i, c := range []struct {
		kind  journal.Kind
		data  []byte
		spill journal.Number
		want  []byte
		seq   int64
	}{
		{journal.RunStarted, []byte("1"), 0, []byte("1"), 0},
		{journal.PayloadSet, []byte("2"), 0, []byte("2"), 0},
		{journal.StatePublished, []byte("x"), 0, []byte("2"), 0},
		{journal.PayloadSet, nil, 7, nil, 4},
		{journal.StepCompleted, []byte("x"), 9, nil, 4},
		{journal.PayloadSet, []byte("large"), 8, []byte("large"), 6},
		{journal.PayloadSet, []byte{}, 0, []byte{}, 0},
		{journal.PayloadSet, nil, 0, nil, 0},
	} {
		s := apply(t, a, journal.Entry{
			Kind: c.kind, Status: journal.Running, Data: c.data, Spill: c.spill,
		})
		if !reflect.DeepEqual(s.Payload, c.want) || s.PayloadSeq != c.seq {
			t.Errorf("after entry %d the payload is %q of entry %d, want %q of %d", i+1, s.Payload,
				s.PayloadSeq, c.want, c.seq)
		}
	}
	spilled := start()
	spilled.Spill = 7
	if s := fold(t, spilled).Snapshot(); s.Payload != nil || s.PayloadSeq != 1 {
		t.Errorf("a spilled input is %q of entry %d", s.Payload, s.PayloadSeq)
	}
}

// spec: L-8
func TestPublishedIsTheLastOfEachName(t *testing.T) {
	a := fold(t, start())
	publish := func(name string, data []byte, spill journal.Number) journal.Snapshot {
		return apply(t, a, journal.Entry{
			Kind:  journal.StatePublished,
			Op:    journal.Op{Name: name},
			Data:  data,
			Spill: spill,
		})
	}
	publish("progress", []byte("50"), 0)
	publish("report", nil, 7)
	s := publish("progress", []byte("100"), 0)
	want := map[string]journal.Published{
		"progress": {Data: []byte("100"), Seq: 4, At: at(4)}, "report": {Seq: 3, At: at(3)},
	}
	if !reflect.DeepEqual(s.Published, want) {
		t.Errorf("published are %+v, want %+v", s.Published, want)
	}
	if s = apply(t, a, end(journal.Completed)); !reflect.DeepEqual(s.Published, want) {
		t.Errorf("of an ended run published are %+v", s.Published)
	}
}

// spec: P-14
func TestAttributesAreSetAndRemoved(t *testing.T) {
	begin := start()
	begin.Detail = &journal.Detail{
		StartDetail: journal.StartDetail{
			Attributes: map[string]string{"region": "eu", "plan": "free"},
		},
	}
	a := fold(t, begin)
	for _, c := range []struct {
		name string
		data []byte
		want map[string]string
	}{
		{"plan", []byte("pro"), map[string]string{"region": "eu", "plan": "pro"}},
		{"region", nil, map[string]string{"plan": "pro"}},
		{"unknown", nil, map[string]string{"plan": "pro"}},
		{"empty", []byte{}, map[string]string{"plan": "pro", "empty": ""}},
		{"region", []byte("us"), map[string]string{"plan": "pro", "empty": "", "region": "us"}},
	} {
		s := apply(t, a, journal.Entry{
			Kind: journal.AttributeSet,
			Op:   journal.Op{Name: c.name},
			Data: c.data,
		})
		if !maps.Equal(s.Attributes, c.want) {
			t.Errorf("after %s = %q they are %v, want %v", c.name, c.data, s.Attributes, c.want)
		}
	}
	if want := map[string]string{
		"region": "eu",
		"plan":   "free",
	}; !maps.Equal(begin.Detail.Attributes, want) {
		t.Errorf("the fold has changed the entry: %v", begin.Detail.Attributes)
	}
	plain := fold(t, start())
	if s := apply(t, plain, journal.Entry{
		Kind: journal.AttributeSet,
		Op:   journal.Op{Name: "none"},
	}); len(s.Attributes) != 0 {
		t.Errorf("a removal has set %v", s.Attributes)
	}
}

// Only the start of a run has attributes and headers that count: those that a message brought in
// the detail of another entry are not the run's.
func TestOnlyTheStartHasAttributesAndHeaders(t *testing.T) {
	d := &journal.Detail{
		StartDetail: journal.StartDetail{
			Attributes: map[string]string{"a": "b"},
			Headers:    map[string]string{"c": "d"},
			Began:      at(1),
			Ended:      at(2),
		},
		Other: "db-9-9",
	}
	want := fold(t, start()).Snapshot()
	for _, kind := range entryKinds() {
		if kind.EndsRun() {
			continue
		}
		// without data a header and a variable are removed
		s := apply(t, fold(t, start()), journal.Entry{
			Kind: kind, Op: charge, Detail: d,
		})
		if len(s.Attributes) != 0 || len(s.Headers) != 0 || s.Predecessor != want.Predecessor ||
			s.Successor != "" ||
			!s.PredecessorStarted.IsZero() || !s.PredecessorEnded.IsZero() {
			t.Errorf("%v: attributes %v, headers %v, predecessor %q, successor %q", kind,
				s.Attributes, s.Headers, s.Predecessor, s.Successor)
		}
	}
	for _, status := range terminal() {
		e := end(status)
		e.Detail = d
		s := apply(t, fold(t, start()), e)
		if got := s.Successor; (got == "db-9-9") != (status == journal.ContinuedAsNew) ||
			s.Predecessor != "" {
			t.Errorf("%v: the successor is %q, the predecessor %q", status, got, s.Predecessor)
		}
	}
}

// spec: B-2
func TestAMarkerIsTheLowestThatWasDecided(t *testing.T) {
	a := fold(t, start(), journal.Entry{Kind: journal.ScopeOpened, Op: ship})
	for _, c := range []struct {
		scope   int64
		change  string
		version int
		want    map[string]int
	}{
		{0, "mail", 2, map[string]int{"mail": 2}},
		{2, "mail", 3, map[string]int{"mail": 2}},
		{0, "tax", 0, map[string]int{"mail": 2, "tax": 0}},
		{2, "tax", 1, map[string]int{"mail": 2, "tax": 0}},
		{2, "mail", 1, map[string]int{"mail": 1, "tax": 0}},
	} {
		op := journal.Op{Scope: c.scope, Name: c.change, Occ: 1}
		s := apply(t, a, journal.Entry{
			Kind: journal.VersionMarked, Op: op, Detail: &journal.Detail{Version: c.version},
		})
		if !maps.Equal(s.Versions, c.want) {
			t.Errorf("after %s = %d they are %v, want %v", c.change, c.version, s.Versions, c.want)
		}
	}
	bare := journal.Entry{Kind: journal.VersionMarked, Op: journal.Op{Name: "old"}}
	if s := apply(t, a, bare); !maps.Equal(s.Versions, map[string]int{
		"mail": 1,
		"tax":  0,
		"old":  0,
	}) {
		t.Errorf("after a marker of version 0 they are %v", s.Versions)
	}
}

// An entry in the outbox changes nothing in the fold because of that, whatever its kind.
func TestATellChangesNothing(t *testing.T) {
	for _, kind := range entryKinds() {
		c := afterStart[kind]
		plain, told := c.entry, c.entry
		plain.Kind, told.Kind = kind, kind
		d := journal.Detail{}
		if plain.Detail != nil {
			d = *plain.Detail
		}
		d.Tell = true
		told.Detail = &d
		want, got := apply(t, fold(t, onItsWay()...), plain), apply(t, fold(t, onItsWay()...), told)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v:\n got %+v\nwant %+v", kind, got, want)
		}
	}
}

// A step that a pause holds back waits for nothing that its run could name.
func TestAStepThatAPauseHoldsBackIsNoWait(t *testing.T) {
	a := fold(t, start(), journal.Entry{Kind: journal.StepHeld, Op: journal.Op{Name: "s", Occ: 1}})
	if s := a.Snapshot(); len(s.Waits) != 0 {
		t.Errorf("the run waits for %+v", s.Waits)
	}
}

// spec: B-7
func TestAWaitEndsByWhatItWaitsForAndByNothingElse(t *testing.T) {
	begins := map[journal.Kind]journal.WaitKind{
		journal.WaitStarted: journal.WaitSignal, journal.DecisionSought: journal.WaitDecision,
		journal.TimerRegistered: journal.WaitTimer, journal.ChildStarted: journal.WaitChild,
		journal.SlotAsked: journal.WaitSlot, journal.StepHeld: journal.WaitSlot,
	}
	ends := map[journal.WaitKind][]journal.Kind{
		journal.WaitSignal:   {journal.SignalConsumed, journal.SignalNoticed, journal.WaitEnded},
		journal.WaitDecision: {journal.SignalConsumed, journal.WaitEnded},
		journal.WaitTimer:    {journal.TimerFired, journal.TimerCancelled},
		journal.WaitChild:    {journal.ChildCompleted, journal.WaitEnded},
		journal.WaitSlot: {
			journal.SlotTaken, journal.WaitEnded, journal.StepStarted, journal.StepRetrying,
			journal.StepCompleted, journal.StepFailed, journal.StepTimedOut, journal.StepCancelled,
		},
	}
	op := journal.Op{Scope: 2, Name: "op", Key: "k", Occ: 1}
	others := []journal.Op{
		{Name: "op", Key: "k", Occ: 1}, {Scope: 2, Name: "other", Key: "k", Occ: 1},
		{Scope: 2, Name: "op", Occ: 1}, {Scope: 2, Name: "op", Key: "k", Occ: 2},
	}
	for begin, what := range begins {
		for _, kind := range entryKinds() {
			if kind.EndsRun() || begins[kind] != "" {
				continue
			}
			a := fold(t, start(), journal.Entry{Kind: journal.ScopeOpened, Op: ship},
				journal.Entry{Kind: begin, Op: op, Detail: &journal.Detail{Reason: "r"}})
			want := a.Snapshot().Waits
			if len(want) != 1 || want[0].Kind != what || want[0].Op != op ||
				want[0].Path != "ship/op[k]" || !want[0].Since.Equal(at(3)) {
				t.Fatalf("after %v the run waits for %+v", begin, want)
			}
			for _, other := range others {
				if s := apply(t, a, journal.Entry{
					Kind: kind, Op: other,
				}); !reflect.DeepEqual(s.Waits, want) {
					t.Errorf("%v of %+v has changed the waits to %+v", kind, other, s.Waits)
				}
			}
			if kind == journal.ScopeOpened {
				continue // it may open a scope of its own
			}
			s := apply(t, a, journal.Entry{Kind: kind, Op: op})
			if slices.Contains(ends[what], kind) {
				want = nil
			}
			if !reflect.DeepEqual(s.Waits, want) {
				t.Errorf("%v, then %v: the run waits for %+v, want %+v", begin, kind, s.Waits, want)
			}
		}
	}
}

// spec: B-7
func TestAnEndedRunWaitsForNothing(t *testing.T) {
	for _, status := range terminal() {
		a := fold(t, onItsWay()...)
		if n := len(a.Snapshot().Waits); n != 4 {
			t.Fatalf("the run has %d waits", n)
		}
		s := apply(t, a, end(status))
		if s.Waits != nil || journal.Restore(s).Snapshot().Waits != nil {
			t.Errorf("%v: it waits for %+v", status, s.Waits)
		}
	}
}

// spec: B-7
func TestTheReasonOfADecisionIsWhyTheRunIsSuspended(t *testing.T) {
	sought := func(status journal.Status, reason string) journal.Entry {
		return journal.Entry{
			Kind: journal.DecisionSought, Status: status, Op: journal.Op{Name: reason, Occ: 1},
			Detail: &journal.Detail{Reason: reason},
		}
	}
	a := fold(t, start())
	for _, c := range []struct {
		entry  journal.Entry
		reason string
		waits  int
	}{
		{sought(0, "branch"), "", 1},
		{sought(journal.Suspended, "first"), "first", 2},
		{sought(0, "second"), "first", 3},
		{
			journal.Entry{
				Kind:   journal.SignalConsumed,
				Status: journal.Running,
				Op:     journal.Op{Name: "first", Occ: 1},
			},
			"",
			2,
		},
	} {
		if s := apply(t, a, c.entry); s.Reason != c.reason || len(s.Waits) != c.waits {
			t.Errorf("after %v the reason is %q with %d waits, want %q with %d", c.entry.Op,
				s.Reason, len(s.Waits), c.reason, c.waits)
		}
	}
}

// spec: B-7
func TestWaitsAreInTheOrderInWhichTheyBegan(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		a := fold(t, start())
		var want []journal.Wait
		for range 300 {
			op := journal.Op{Name: "pause", Occ: 1 + rnd.IntN(30)}
			e := journal.Entry{Kind: journal.TimerFired, Op: op}
			want = slices.DeleteFunc(want, func(w journal.Wait) bool { return w.Op == op })
			if rnd.IntN(2) == 0 {
				e.Kind = journal.TimerRegistered
				want = append(want, journal.Wait{
					Op: op, Path: op.String(), Kind: journal.WaitTimer,
					Since: at(int(a.Snapshot().Seq) + 1),
				})
			}
			got := apply(t, a, e).Waits
			if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d:\n got %+v\nwant %+v", seed, got, want)
			}
			if rnd.IntN(9) == 0 {
				a = journal.Restore(a.Snapshot())
			}
		}
	}
}

// A run that has started many children learns of the end of each without looking at the others.
func TestManyWaitsBeginAndEnd(t *testing.T) {
	const many = 50_000
	a := fold(t, start())
	seq := int64(1)
	for _, kind := range []journal.Kind{journal.ChildStarted, journal.ChildCompleted} {
		for i := range many {
			seq++
			if err := a.Apply(journal.Entry{
				Seq:  seq,
				Kind: kind,
				Op:   journal.Op{Name: "child", Occ: i + 1},
			}); err != nil {
				t.Fatal(err)
			}
		}
		want := 0
		if kind == journal.ChildStarted {
			want = many
		}
		if n := len(a.Snapshot().Waits); n != want {
			t.Errorf("after %d entries %v it waits for %d, want %d", many, kind, n, want)
		}
	}
}

// A branch that returns writes no entry.
//
// spec: B-7
func TestNoBranchOfAnEndedRunIsRunning(t *testing.T) {
	branch := func(name string, scope int64) journal.Entry {
		return journal.Entry{
			Kind: journal.ScopeOpened, Op: journal.Op{Scope: scope, Name: name, Occ: 1},
		}
	}
	for _, status := range terminal() {
		a := fold(t, start(),
			branch("returned", 0), branch("waits", 0), branch("inner", 3), branch("works", 0),
			branch("stopped", 0),
			journal.Entry{Kind: journal.StepStarted, Op: journal.Op{Scope: 2, Name: "s", Occ: 1}},
			journal.Entry{Kind: journal.StepCompleted, Op: journal.Op{Scope: 2, Name: "s", Occ: 1}},
			journal.Entry{Kind: journal.WaitStarted, Op: journal.Op{Scope: 4, Name: "w", Occ: 1}},
			journal.Entry{Kind: journal.StepRetrying, Op: journal.Op{Scope: 5, Name: "r", Occ: 1}},
			journal.Entry{
				Kind: journal.ScopeCancelled, Op: journal.Op{Name: "stopped", Occ: 1},
			},
		)
		for path, want := range map[string]journal.StepStatus{
			"returned": journal.StepIsRunning, "works": journal.StepIsRunning,
		} {
			if got := statusOf(a.Snapshot(), path); got != want {
				t.Errorf("before the end %s is %s, want %s", path, got, want)
			}
		}
		s := apply(t, a, end(status))
		for path, want := range map[string]journal.StepStatus{
			"returned": journal.StepIsDone, "waits": journal.StepIsCancelled,
			"waits/inner": journal.StepIsCancelled, "works": journal.StepIsCancelled,
			"stopped": journal.StepIsCancelled,
		} {
			if got := statusOf(s, path); got != want {
				t.Errorf("%v: %s is %s, want %s", status, path, got, want)
			}
		}
	}
}

func statusOf(s journal.Snapshot, path string) journal.StepStatus {
	for _, t := range s.Steps {
		if t.Path == path {
			return t.Status
		}
	}
	return ""
}
