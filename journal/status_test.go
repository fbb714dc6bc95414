package journal_test

import (
	"testing"

	"github.com/perdure/perdure/journal"
)

// spec: L-1, L-2
func TestStatusPredicates(t *testing.T) {
	type answers struct{ terminal, open, active, success, suspend, resume bool }
	table := []struct {
		status journal.Status
		name   string
		number uint8 // stored, and so never changed
		answers
	}{
		{journal.Pending, "PENDING", 1, answers{open: true, active: true, suspend: true}},
		{journal.Running, "RUNNING", 2, answers{open: true, active: true, suspend: true}},
		{journal.Waiting, "WAITING", 3, answers{open: true, active: true, suspend: true}},
		{journal.Suspended, "SUSPENDED", 4, answers{open: true, resume: true}},
		{journal.Trying, "TRYING", 5, answers{open: true, active: true}},
		{journal.Confirming, "CONFIRMING", 6, answers{open: true, active: true}},
		{journal.Canceling, "CANCELING", 7, answers{open: true, active: true}},
		{journal.Compensating, "COMPENSATING", 8, answers{open: true, active: true}},
		{journal.CompensationFailed, "COMPENSATION_FAILED", 9, answers{open: true}},
		{journal.Completed, "COMPLETED", 20, answers{terminal: true, success: true}},
		{journal.Failed, "FAILED", 21, answers{terminal: true}},
		{journal.Cancelled, "CANCELLED", 22, answers{terminal: true}},
		{journal.TimedOut, "TIMED_OUT", 23, answers{terminal: true}},
		{journal.Confirmed, "CONFIRMED", 24, answers{terminal: true, success: true}},
		{journal.Canceled, "CANCELED", 25, answers{terminal: true}},
		{journal.Compensated, "COMPENSATED", 26, answers{terminal: true}},
		{journal.ContinuedAsNew, "CONTINUED_AS_NEW", 27, answers{terminal: true}},
	}
	known := map[journal.Status]bool{}
	for _, c := range table {
		s := c.status
		known[s] = true
		got := answers{
			s.IsTerminal(), s.IsOpen(), s.IsActive(), s.IsSuccess(), s.CanSuspend(), s.CanResume(),
		}
		if got != c.answers {
			t.Errorf("%v answers %+v, want %+v", s, got, c.answers)
		}
		if s.String() != c.name || uint8(s) != c.number || !s.Valid() {
			t.Errorf("%v is %q and %d, want %q and %d", s, s.String(), uint8(s), c.name, c.number)
		}
		if back, ok := journal.ParseStatus(c.name); !ok || back != s {
			t.Errorf("ParseStatus(%q) = %v, %v", c.name, back, ok)
		}
	}
	var listed []journal.Status
	for i := range 256 {
		s := journal.Status(i)
		if known[s] {
			listed = append(listed, s)
			continue
		}
		if got := (answers{
			s.IsTerminal(), s.IsOpen(), s.IsActive(), s.IsSuccess(), s.CanSuspend(), s.CanResume(),
		}); got != (answers{}) || s.Valid() {
			t.Errorf("%v is no status and answers %+v", s, got)
		}
		if _, ok := journal.ParseStatus(s.String()); ok {
			t.Errorf("%v is no status and its name can be read", s)
		}
	}
	if got := journal.Statuses(); len(got) != len(listed) {
		t.Errorf("Statuses gives %v, want %v", got, listed)
	} else {
		for i := range got {
			if got[i] != listed[i] {
				t.Errorf("Statuses gives %v, want %v", got, listed)
			}
		}
	}
}

func TestStepStatusIsTerminal(t *testing.T) {
	for s, want := range map[journal.StepStatus]bool{
		"": false, journal.StepIsPending: false, journal.StepIsRunning: false,
		journal.StepIsRetrying: false,
		journal.StepIsDone:     true, journal.StepIsFailed: true, journal.StepIsTimedOut: true,
		journal.StepIsCancelled: true,
		journal.StepIsSkipped:   true, journal.StepIsCompensated: true,
		journal.StepIsCompensationFailed: true,
	} {
		if got := s.IsTerminal(); got != want {
			t.Errorf("%q is terminal: %v, want %v", s, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	ends := map[journal.Kind]bool{
		journal.RunCompleted: true, journal.RunFailed: true, journal.RunCancelled: true,
		journal.RunTimedOut: true, journal.RunContinued: true,
	}
	endsStep := map[journal.Kind]bool{
		journal.StepCompleted: true, journal.StepFailed: true, journal.StepTimedOut: true,
		journal.StepCancelled: true, journal.StepSkipped: true,
	}
	message := map[journal.Kind]bool{
		journal.SignalReceived: true, journal.ChildCompleted: true, journal.TimerCancelled: true,
		journal.CancelAsked: true, journal.SuspendAsked: true, journal.ResumeAsked: true,
		journal.DecisionMade: true, journal.SlotGranted: true, journal.AnswerReceived: true,
	}
	n := 0
	for i := range 256 {
		k := journal.Kind(i)
		if k.IsMessage() != message[k] {
			t.Errorf("%v is a message: %v", k, k.IsMessage())
		}
		back, ok := journal.ParseKind(k.String())
		if ok != k.Valid() || ok && back != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, back, ok)
		}
		if k.EndsRun() != ends[k] || k.EndsStep() != endsStep[k] {
			t.Errorf("%v ends the run: %v, a step: %v", k, k.EndsRun(), k.EndsStep())
		}
		if !k.Valid() {
			continue
		}
		if all := journal.Kinds(); n >= len(all) || all[n] != k {
			t.Errorf("Kinds does not give %v as number %d", k, n)
		}
		n++
	}
	if n != len(journal.Kinds()) {
		t.Errorf("%d kinds are valid, Kinds gives %d", n, len(journal.Kinds()))
	}
}

// The numbers are in databases, and so never change.
func TestKindsKeepTheirNumbersAndNames(t *testing.T) {
	stored := map[journal.Kind]string{
		1: "RunStarted", 2: "RunClaimed", 3: "RunCompleted", 4: "RunFailed", 5: "RunCancelled",
		6: "RunTimedOut",
		7: "RunSuspended", 8: "RunResumed", 9: "RunRetrying", 10: "RunContinued",
		11: "StatusChanged", 12: "AttributeSet",
		13: "PayloadSet", 14: "VersionMarked", 15: "ValueRecorded", 16: "StatePublished",
		17: "RunClosing", 18: "CleanupPlanned",
		20: "ScopeOpened", 21: "ScopeCancelled", 22: "WaitEnded", 23: "WaitStarted",
		24: "DecisionSought", 25: "VariableSet", 26: "KeyAdded", 27: "OperationAdded",
		28: "OperationUnused", 29: "HeaderSet",
		30: "StepStarted", 31: "StepCompleted", 32: "StepFailed", 33: "StepTimedOut",
		34: "StepCancelled", 35: "StepSkipped",
		36: "StepRetrying", 37: "CheckpointSaved", 38: "ResultDiscarded", 39: "StepHeld",
		40: "CompensationStarted", 41: "StepCompensated", 42: "CompensationFailed",
		43: "PhaseStarted", 44: "PhaseCompleted", 45: "PhaseFailed", 46: "DeadLettered",
		47: "SlotAsked", 48: "SlotTaken", 49: "SlotFreed",
		50: "SignalReceived", 51: "SignalConsumed",
		52: "TimerRegistered", 53: "TimerFired", 54: "ChildStarted", 55: "ChildCompleted",
		56: "EventEmitted", 57: "TimerCancelled", 58: "SignalNoticed",
		60: "CancelAsked", 61: "SuspendAsked", 62: "ResumeAsked", 63: "DecisionMade",
		64: "SlotGranted", 65: "AnswerReceived", 70: "StepOutput", 71: "StepLogged",
	}
	for _, k := range journal.Kinds() {
		if stored[k] != k.String() {
			t.Errorf("kind %d is %v, want %q", uint8(k), k, stored[k])
		}
	}
	if len(journal.Kinds()) != len(stored) {
		t.Errorf("there are %d kinds, want %d", len(journal.Kinds()), len(stored))
	}
}
