package observe_test

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/observe"
)

// spec: P-6
func TestTheLifecycleHas26Kinds(t *testing.T) {
	// The row of the spec, and the kind that it corresponds to.
	row := []struct {
		name string
		kind observe.Kind
	}{
		{"start", observe.RunStarted},
		{"step started", observe.StepStarted},
		{"step succeeded", observe.StepSucceeded},
		{"step failed", observe.StepFailed},
		{"step skipped", observe.StepSkipped},
		{"step skipped as duplicate", observe.StepDuplicate},
		{"completed", observe.RunEnded},
		{"dead-lettered", observe.DeadLettered},
		{"compensation started", observe.CompensationStarted},
		{"step compensated", observe.StepCompensated},
		{"compensation failed", observe.StepCompensationFailed},
		{"phase started", observe.PhaseStarted},
		{"phase completed", observe.PhaseCompleted},
		{"phase failed", observe.PhaseFailed},
		{"participant started", observe.ParticipantStarted},
		{"participant succeeded", observe.ParticipantSucceeded},
		{"participant failed", observe.ParticipantFailed},
		{"suspended", observe.RunParked},
		{"resumed", observe.RunResumed},
		{"signal delivered", observe.SignalDelivered},
		{"timer fired", observe.TimerFired},
		{"child started", observe.ChildStarted},
		{"child completed", observe.ChildEnded},
		{"continued as new", observe.RunContinued},
		{"composition started", observe.CompositionStarted},
		{"composition completed", observe.CompositionEnded},
	}
	got := observe.Lifecycle()
	if len(got) != 26 || len(row) != 26 {
		t.Fatalf("there are %d kinds, %d in the row, want 26", len(got), len(row))
	}
	seen := map[observe.Kind]bool{"": true}
	for i, want := range row {
		if got[i] != want.kind {
			t.Errorf("%s: the kind is %q, want %q", want.name, got[i], want.kind)
		}
		if seen[got[i]] {
			t.Errorf("%s: %q is there twice, or is no name", want.name, got[i])
		}
		seen[got[i]] = true
	}
	got[0] = "spoiled"
	if observe.Lifecycle()[0] != observe.RunStarted {
		t.Error("a change to the list has changed what Lifecycle gives")
	}
}

// spec: P-6
func TestWhatIsNotOfTheLifecycleHasNamesOfItsOwn(t *testing.T) {
	seen := map[observe.Kind]bool{"": true}
	for _, k := range append(observe.Lifecycle(),
		observe.RunClaimed, observe.RunRetrying, observe.StepRetrying, observe.StepCancelled,
		observe.LateResult,
		observe.StepAbandoned, observe.StepProgressed, observe.CleanupFailed,
		observe.ListenerFailed, observe.TurnLent,
		observe.ReplayDiffered, observe.KeyAdvised, observe.StoreFailed, observe.StoreRecovered,
		observe.Committed,
		observe.LeaseLost, observe.LeaseRegained, observe.EngineExpired, observe.DefinitionAdvised,
	) {
		if seen[k] {
			t.Errorf("%q is the name of two kinds, or of none", k)
		}
		seen[k] = true
	}
}

// heard collects which observer received which notice, in order.
type heard []string

func (h *heard) observer(name string, kinds ...observe.Kind) observe.Observer {
	return observe.Observer{Kinds: kinds, See: func(n observe.Notice) {
		*h = append(*h, fmt.Sprintf("%s: %s %s", name, n.Kind, n.Step))
	}}
}

// spec: P-6
func TestAnObserverTakesOnlyTheKindsItWants(t *testing.T) {
	var h heard
	kinds := []observe.Kind{observe.RunEnded, observe.StepFailed, observe.RunEnded}
	s := observe.NewSet([]observe.Observer{
		h.observer("ends", kinds...), h.observer("all"), {},
		{Kinds: []observe.Kind{observe.Committed}}, h.observer("failures", observe.StepFailed),
	})
	kinds[0] = observe.StepStarted // the caller may change the slice afterwards
	for _, c := range []struct {
		kind observe.Kind
		want []string
	}{
		{observe.RunEnded, []string{"ends: run ended s", "all: run ended s"}},
		{
			observe.StepFailed,
			[]string{"ends: step failed s", "all: step failed s", "failures: step failed s"},
		},
		{observe.StepStarted, []string{"all: step started s"}},
		{observe.Committed, []string{"all: committed s"}},
		{"of a later version", []string{"all: of a later version s"}},
	} {
		h = nil
		s.Tell(observe.Notice{Kind: c.kind, Step: "s"})
		if !slices.Equal(h, c.want) {
			t.Errorf("of %q were told %q, want %q", c.kind, h, c.want)
		}
		if !s.Wants(c.kind) {
			t.Errorf("nobody wants %q, they say", c.kind)
		}
	}
}

// spec: P-6
func TestASetWantsWhatAnObserverWants(t *testing.T) {
	see := func(observe.Notice) {}
	for _, c := range []struct {
		name         string
		set          *observe.Set
		ended, other bool
	}{
		{"nil", nil, false, false},
		{"empty", observe.NewSet(nil), false, false},
		{
			"one that does not look", observe.NewSet([]observe.Observer{
				{},
				{Kinds: []observe.Kind{observe.RunEnded}},
			}), false, false,
		},
		{
			"one kind", observe.NewSet([]observe.Observer{
				{Kinds: []observe.Kind{observe.RunEnded}, See: see},
			}), true, false,
		},
		{"all kinds", observe.NewSet([]observe.Observer{{See: see}}), true, true},
		{
			"one and all", observe.NewSet([]observe.Observer{
				{Kinds: []observe.Kind{observe.RunEnded}, See: see},
				{See: see},
			}), true, true,
		},
	} {
		for kind, want := range map[observe.Kind]bool{
			observe.RunEnded:   c.ended,
			observe.StepFailed: c.other,
		} {
			if got := c.set.Wants(kind); got != want {
				t.Errorf("%s: wants %q: %v", c.name, kind, got)
			}
			c.set.Tell(observe.Notice{Kind: kind})
		}
	}
}

// spec: P-6
func TestOneObserverThatPanicsDoesNotDisturbTheOthers(t *testing.T) {
	var h heard
	bad := func(cause any) observe.Observer {
		return observe.Observer{See: func(observe.Notice) { panic(cause) }}
	}
	s := observe.NewSet([]observe.Observer{
		bad("at once"), h.observer("first"), bad(nil), bad(fmt.Errorf("an error")),
		h.observer("last", observe.RunEnded),
	})
	for range 3 { // an observer that has panicked is called again, and so are the others
		s.Tell(observe.Notice{Kind: observe.RunEnded})
	}
	want := []string{"first: run ended ", "last: run ended "}
	if !slices.Equal(h, slices.Concat(want, want, want)) {
		t.Errorf("told were %q", h)
	}
}

// spec: P-6
func TestADirectObserverIsCalledOnTheSameGoroutine(t *testing.T) {
	var told []string
	see := func(name string, direct bool) observe.Observer {
		return observe.Observer{Direct: direct, See: func(observe.Notice) {
			stack := string(debug.Stack())
			here := strings.Contains(stack, "observe.(*Set).Tell(")
			told = append(told, fmt.Sprintf("%s%t", name, here))
			panic(name)
		}}
	}
	observe.NewSet([]observe.Observer{
		see("a", true), see("b", false), see("c", false), see("d", true),
	}).Tell(observe.Notice{Kind: observe.RunStarted})
	if got := strings.Join(told, " "); got != "atrue bfalse cfalse dtrue" {
		t.Errorf("told: %s", got)
	}
}
