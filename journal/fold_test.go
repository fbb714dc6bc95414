package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

// at returns an instant that is easy to distinguish from others.
func at(seconds int) time.Time {
	return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func newAggregate() *journal.Aggregate {
	return journal.NewAggregate("db-1-1", "ord-42", "order", journal.PatternSaga)
}

// fold returns the aggregate of entries whose sequence and time it sets.
func fold(t *testing.T, entries ...journal.Entry) *journal.Aggregate {
	t.Helper()
	a := newAggregate()
	for i, e := range entries {
		e.Seq, e.At = int64(i+1), at(i+1)
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func start() journal.Entry {
	return journal.Entry{
		Kind: journal.RunStarted, Status: journal.Running, Detail: &journal.Detail{
			CodeDetail: journal.CodeDetail{Build: "b1"},
		},
	}
}

// end returns the entry that ends a run with a terminal status.
func end(s journal.Status) journal.Entry {
	kind := map[journal.Status]journal.Kind{
		journal.Failed: journal.RunFailed, journal.Compensated: journal.RunFailed,
		journal.Cancelled: journal.RunCancelled, journal.Canceled: journal.RunCancelled,
		journal.TimedOut: journal.RunTimedOut, journal.ContinuedAsNew: journal.RunContinued,
	}[s]
	if kind == 0 {
		kind = journal.RunCompleted
	}
	return journal.Entry{Kind: kind, Status: s}
}

func terminal() []journal.Status {
	return slices.DeleteFunc(journal.Statuses(), func(s journal.Status) bool {
		return !s.IsTerminal()
	})
}

// next is the sequence of the entry that follows onItsWay.
const next = 8

// onItsWay is a run that has the step charge in flight and the branch ship open,
// and waits for one thing of each kind.
func onItsWay() []journal.Entry {
	begin := start()
	begin.Data = []byte("1")
	begin.Detail = &journal.Detail{
		CodeDetail: journal.CodeDetail{Build: "b1"},
		Other:      "db-1-0",
		StartDetail: journal.StartDetail{
			Began:      at(-9),
			Ended:      at(-1),
			Attributes: map[string]string{"region": "eu"},
			Headers:    map[string]string{"trace": "0a"},
		},
	}
	return []journal.Entry{
		begin,
		{Kind: journal.StepStarted, Op: charge},
		{Kind: journal.ScopeOpened, Op: ship},
		{Kind: journal.WaitStarted, Op: paid, Detail: &journal.Detail{Due: at(90)}},
		{Kind: journal.TimerRegistered, Op: reminder, Detail: &journal.Detail{Due: at(60)}},
		{Kind: journal.ChildStarted, Op: pack, Detail: &journal.Detail{Other: "db-1-2"}},
		{
			Kind: journal.DecisionSought, Op: review, Detail: &journal.Detail{
				Reason:  "odd",
				Choices: []string{"retry", "skip"},
			},
		},
	}
}

// afterStart has, for each kind, the changes that an entry of it makes in the snapshot of the run
// onItsWay. Everything else must stay as it was.
var afterStart = map[journal.Kind]struct {
	entry  journal.Entry
	change func(*journal.Snapshot)
}{
	journal.RunClaimed: {
		journal.Entry{
			Status: journal.Running, Detail: &journal.Detail{
				CodeDetail: journal.CodeDetail{Build: "b2", Engine: 7},
			},
		},
		func(s *journal.Snapshot) { s.Build = "b2" },
	},
	journal.RunCompleted: {
		end(journal.Completed),
		func(s *journal.Snapshot) { s.Status, s.Ended, s.Waits = journal.Completed, at(next), nil },
	},
	journal.RunFailed: {
		journal.Entry{
			Status: journal.Failed, Detail: &journal.Detail{
				Failure: &journal.Failure{Message: "no stock"},
			},
		},
		func(s *journal.Snapshot) {
			s.Status, s.Ended, s.Failure = journal.Failed, at(next),
				&journal.Failure{Message: "no stock"}
			s.Waits = nil
		},
	},
	journal.RunCancelled: {
		journal.Entry{Status: journal.Cancelled, Detail: &journal.Detail{Reason: "customer"}},
		func(s *journal.Snapshot) {
			s.Status, s.Ended, s.Reason, s.Waits = journal.Cancelled, at(next), "customer", nil
		},
	},
	journal.RunTimedOut: {
		end(journal.TimedOut),
		func(s *journal.Snapshot) { s.Status, s.Ended, s.Waits = journal.TimedOut, at(next), nil },
	},
	journal.RunContinued: {
		journal.Entry{Status: journal.ContinuedAsNew, Detail: &journal.Detail{Other: "db-1-3"}},
		func(s *journal.Snapshot) {
			s.Status, s.Ended, s.Waits, s.Successor = journal.ContinuedAsNew, at(next), nil,
				"db-1-3"
		},
	},
	journal.RunSuspended: {
		journal.Entry{
			Status: journal.Suspended, Detail: &journal.Detail{
				Reason: "look", Failure: &journal.Failure{Message: "odd"},
			},
		},
		func(s *journal.Snapshot) {
			s.Status, s.Reason, s.Failure = journal.Suspended, "look",
				&journal.Failure{Message: "odd"}
		},
	},
	journal.RunResumed: {
		journal.Entry{Status: journal.Running},
		func(*journal.Snapshot) {},
	},
	journal.RunRetrying: {
		journal.Entry{
			Status: journal.Waiting,
			Detail: &journal.Detail{
				Failure: &journal.Failure{Message: "nil map"}, Failures: 3, Due: at(60),
			},
		},
		func(s *journal.Snapshot) {
			s.Status, s.Failure, s.Failures, s.Due = journal.Waiting,
				&journal.Failure{Message: "nil map"}, 3, at(60)
		},
	},
	journal.StatusChanged: {
		journal.Entry{Status: journal.Waiting},
		func(s *journal.Snapshot) { s.Status = journal.Waiting },
	},
	journal.AttributeSet: {
		journal.Entry{Op: journal.Op{Name: "customer"}, Data: []byte("4711")},
		func(s *journal.Snapshot) { s.Attributes["customer"] = "4711" },
	},
	journal.ScopeOpened: {
		journal.Entry{Op: journal.Op{Name: "mail", Occ: 1}},
		func(s *journal.Snapshot) {
			s.Steps = append(s.Steps, journal.Step{
				Op: journal.Op{Name: "mail", Occ: 1}, Path: "mail", Opens: next,
				Status: journal.StepIsRunning, Attempts: 1, Started: at(next),
			})
		},
	},
	journal.ScopeCancelled: {
		journal.Entry{Op: ship, Detail: &journal.Detail{Reason: "too late"}},
		func(s *journal.Snapshot) {
			s.Steps[1].Status, s.Steps[1].Reason, s.Steps[1].Ended = journal.StepIsCancelled,
				"too late", at(next)
		},
	},
	journal.StepStarted: {
		journal.Entry{Op: charge, Detail: &journal.Detail{Attempt: 2}},
		func(s *journal.Snapshot) { s.Steps[0].Attempts = 2 },
	},
	journal.StepCompleted: {
		journal.Entry{Op: journal.Op{Scope: 3, Name: "label", Key: "a", Occ: 2}, Took: time.Second},
		func(s *journal.Snapshot) {
			s.Steps = append(s.Steps, journal.Step{
				Op: journal.Op{Scope: 3, Name: "label", Key: "a", Occ: 2}, Path: "ship/label[a]#2",
				Status: journal.StepIsDone, Attempts: 1, Started: at(next - 1), Ended: at(next),
			})
		},
	},
	journal.StepFailed: {
		journal.Entry{
			Op: charge, Detail: &journal.Detail{
				Attempt: 3, Failure: &journal.Failure{Message: "declined"},
			},
		},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Ended, s.Steps[0].Attempts = journal.StepIsFailed,
				at(next), 3
			s.Steps[0].Failure = &journal.Failure{Message: "declined"}
		},
	},
	journal.StepTimedOut: {
		journal.Entry{
			Op: charge, Detail: &journal.Detail{Failure: &journal.Failure{Message: "slow"}},
		},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Ended = journal.StepIsTimedOut, at(next)
			s.Steps[0].Failure = &journal.Failure{Message: "slow"}
		},
	},
	journal.StepCancelled: {
		journal.Entry{Op: charge, Detail: &journal.Detail{Reason: "workflow completed"}},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Ended, s.Steps[0].Reason = journal.StepIsCancelled,
				at(next), "workflow completed"
		},
	},
	journal.StepSkipped: {
		journal.Entry{Op: charge},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Ended = journal.StepIsSkipped, at(next)
		},
	},
	journal.StepRetrying: {
		journal.Entry{
			Op: charge, Detail: &journal.Detail{
				Due: at(60), Failure: &journal.Failure{Message: "busy"},
			},
		},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Due = journal.StepIsRetrying, at(60)
			s.Steps[0].Failure = &journal.Failure{Message: "busy"}
		},
	},
	journal.StepCompensated: {
		journal.Entry{Op: charge},
		func(s *journal.Snapshot) {
			s.Steps[0].Status, s.Steps[0].Ended = journal.StepIsCompensated, at(next)
		},
	},
	journal.StepCompensationFailed: {
		journal.Entry{Op: charge, Status: journal.CompensationFailed, Detail: &journal.Detail{
			Failure: &journal.Failure{Message: "stuck"},
		}},
		func(s *journal.Snapshot) {
			s.Status = journal.CompensationFailed
			s.Steps[0].Status, s.Steps[0].Ended = journal.StepIsCompensationFailed, at(next)
			s.Steps[0].Failure = &journal.Failure{Message: "stuck"}
		},
	},
	// These change the status alone, if they have one.
	journal.CompensationStarted: {
		journal.Entry{Op: charge, Status: journal.Compensating},
		func(s *journal.Snapshot) { s.Status = journal.Compensating },
	},
	journal.PhaseStarted: {
		journal.Entry{Status: journal.Trying, Detail: &journal.Detail{Phase: "try"}},
		func(s *journal.Snapshot) { s.Status = journal.Trying },
	},
	journal.PhaseCompleted: {journal.Entry{Detail: &journal.Detail{Phase: "try"}}, nothing},
	journal.PhaseFailed:    {journal.Entry{Detail: &journal.Detail{Phase: "try"}}, nothing},
	journal.ValueRecorded:  {journal.Entry{Op: journal.Op{Name: "now"}}, nothing},
	journal.ResultDiscarded: {
		journal.Entry{Op: charge, Detail: &journal.Detail{Attempt: 7}}, nothing,
	},
	journal.StepOutput: {
		journal.Entry{
			Op: charge, Data: []byte("12"),
			Detail: &journal.Detail{StepDetail: journal.StepDetail{
				OutputDetail: journal.OutputDetail{Stream: "answer"},
			}},
		},
		func(s *journal.Snapshot) {
			s.Streams = map[string]journal.Stream{
				"answer": {Last: s.Seq, Written: 2, Parts: map[int64]int64{s.Seq: 2}},
			}
		},
	},
	journal.StepLogged: {journal.Entry{Op: charge, Data: []byte("{}")}, nothing},
	journal.CheckpointSaved: {
		journal.Entry{
			Op: charge, Detail: &journal.Detail{StepDetail: journal.StepDetail{Once: "token"}},
		},
		nothing,
	},
	journal.CleanupPlanned: {
		journal.Entry{Op: journal.Op{Name: "unlock", Occ: 1}},
		func(s *journal.Snapshot) {
			s.Cleanups = []journal.Cleanup{
				{Op: journal.Op{Name: "unlock", Occ: 1}, Path: "unlock", Opens: s.Seq},
			}
		},
	},
	journal.DeadLettered: {
		journal.Entry{Op: charge, Detail: &journal.Detail{Other: "db-1-9"}},
		nothing,
	},
	journal.VariableSet: {
		journal.Entry{
			Op:     journal.Op{Name: "customer", Occ: 1},
			Data:   []byte("2"),
			Detail: &journal.Detail{VariableDetail: journal.VariableDetail{Variable: "customer"}},
		},
		func(s *journal.Snapshot) {
			s.Variables = map[string]journal.Published{
				"customer": {Data: []byte("2"), Seq: next, At: at(next)},
			}
		},
	},
	journal.HeaderSet: {
		journal.Entry{
			Data:   []byte("t1"),
			Detail: &journal.Detail{VariableDetail: journal.VariableDetail{Variable: "tenant"}},
		},
		func(s *journal.Snapshot) { s.Headers["tenant"] = "t1" },
	},
	journal.KeyAdded: {
		journal.Entry{
			Op: charge, Data: []byte("debit 1"), Detail: &journal.Detail{
				VariableDetail: journal.VariableDetail{ByStep: true},
			},
		},
		func(s *journal.Snapshot) { s.Keys = []string{"debit 1"} },
	},
	journal.EventEmitted: {
		journal.Entry{
			Data: []byte("2"), Detail: &journal.Detail{
				EventDetail: journal.EventDetail{Event: "order.paid"},
				Tell:        true,
			},
		},
		nothing,
	},
	journal.RunClosing: {
		journal.Entry{
			Detail: &journal.Detail{
				Failure: &journal.Failure{Message: "cancelled"}, Outcome: journal.Cancelled,
			},
		},
		func(s *journal.Snapshot) { s.Ending = journal.Cancelled },
	},
	journal.PayloadSet: {
		journal.Entry{Data: []byte("2")},
		func(s *journal.Snapshot) { s.Payload = []byte("2") },
	},
	journal.VersionMarked: {
		journal.Entry{Op: journal.Op{Name: "v"}, Detail: &journal.Detail{Version: 2}},
		func(s *journal.Snapshot) { s.Versions = map[string]int{"v": 2} },
	},
	journal.OperationUnused: {
		journal.Entry{Op: journal.Op{Scope: 3, Name: "pack", Occ: 1}},
		func(s *journal.Snapshot) { s.Unused = []string{"ship/pack"} },
	},
	journal.OperationAdded: {
		journal.Entry{Op: journal.Op{Name: "weigh", Occ: 1}},
		func(*journal.Snapshot) {},
	},
	journal.StatePublished: {
		journal.Entry{Op: journal.Op{Name: "progress"}, Data: []byte("50")},
		func(s *journal.Snapshot) {
			s.Published = map[string]journal.Published{
				"progress": {Data: []byte("50"), Seq: next, At: at(next)},
			}
		},
	},
	// These begin and end waits.
	journal.WaitStarted: {
		journal.Entry{Op: journal.Op{Scope: 3, Name: "paid", Occ: 1}, Detail: &journal.Detail{
			Due: at(70),
		}},
		func(s *journal.Snapshot) {
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Scope: 3, Name: "paid", Occ: 1}, Path: "ship/paid",
				Kind: journal.WaitSignal, Since: at(next), Due: at(70),
			})
		},
	},
	journal.DecisionSought: {
		journal.Entry{
			Op: journal.Op{Name: "more", Occ: 1}, Status: journal.Suspended,
			Detail: &journal.Detail{Reason: "why", Choices: []string{"yes"}},
		},
		func(s *journal.Snapshot) {
			s.Status, s.Reason = journal.Suspended, "why"
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Name: "more", Occ: 1}, Path: "more", Kind: journal.WaitDecision,
				Since:  at(next),
				Reason: "why", Choices: []string{"yes"},
			})
		},
	},
	journal.SlotAsked: {
		journal.Entry{
			Op:     journal.Op{Name: "printer", Occ: 1},
			Detail: &journal.Detail{Reason: "printer:lock", Due: at(70)},
		},
		func(s *journal.Snapshot) {
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Name: "printer", Occ: 1}, Path: "printer", Kind: journal.WaitSlot,
				Since: at(next), Due: at(70), Reason: "printer:lock",
			})
		},
	},
	journal.StepHeld: {
		journal.Entry{
			Op:     journal.Op{Name: "call", Occ: 1},
			Detail: &journal.Detail{Attempt: 2, Reason: "bank:rate"},
		},
		func(s *journal.Snapshot) {
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Name: "call", Occ: 1}, Path: "call", Kind: journal.WaitSlot,
				Since: at(next), Reason: "bank:rate",
			})
		},
	},
	journal.SlotTaken: {journal.Entry{Op: journal.Op{Name: "printer", Occ: 1}}, nothing},
	journal.SlotFreed: {
		journal.Entry{
			Op:     journal.Op{Name: "free:printer", Occ: 1},
			Detail: &journal.Detail{Reason: "printer:lock"},
		},
		nothing,
	},
	journal.TimerRegistered: {
		journal.Entry{Op: journal.Op{Name: "later", Occ: 1}, Detail: &journal.Detail{Due: at(70)}},
		func(s *journal.Snapshot) {
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Name: "later", Occ: 1}, Path: "later", Kind: journal.WaitTimer,
				Since: at(next), Due: at(70),
			})
		},
	},
	journal.ChildStarted: {
		journal.Entry{
			Op:     journal.Op{Name: "mail", Occ: 1},
			Detail: &journal.Detail{Other: "db-1-4"},
		},
		func(s *journal.Snapshot) {
			s.Waits = append(s.Waits, journal.Wait{
				Op: journal.Op{Name: "mail", Occ: 1}, Path: "mail", Kind: journal.WaitChild,
				Since: at(next), Child: "db-1-4",
			})
		},
	},
	journal.SignalConsumed: {
		journal.Entry{
			Op: paid, Data: []byte("3"), Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 1, Message: "pay-1"},
			},
		},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 0, 1) },
	},
	journal.SignalNoticed: {
		journal.Entry{Op: paid},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 0, 1) },
	},
	journal.WaitEnded: {
		journal.Entry{Op: paid, Detail: &journal.Detail{ByWait: true}},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 0, 1) },
	},
	journal.TimerFired: {
		journal.Entry{Op: reminder},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 1, 2) },
	},
	journal.TimerCancelled: {
		journal.Entry{
			Op: reminder, Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 2}},
		},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 1, 2) },
	},
	journal.ChildCompleted: {
		journal.Entry{
			Op: pack, Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 3},
				Other:         "db-1-2",
				Outcome:       journal.Failed,
				Failure:       &journal.Failure{Message: "no box"},
			},
		},
		func(s *journal.Snapshot) { s.Waits = slices.Delete(s.Waits, 2, 3) },
	},
}

var (
	charge   = journal.Op{Name: "charge", Occ: 1}
	ship     = journal.Op{Name: "ship", Occ: 1}
	paid     = journal.Op{Name: "paid", Occ: 1}
	reminder = journal.Op{Name: "reminder", Occ: 1}
	pack     = journal.Op{Scope: 3, Name: "pack", Occ: 1}
	review   = journal.Op{Name: "review", Occ: 1}
)

// onlyMessages are the kinds that only inboxes have.
var onlyMessages = []journal.Kind{
	journal.SignalReceived, journal.CancelAsked, journal.SuspendAsked, journal.ResumeAsked,
	journal.DecisionMade, journal.SlotGranted, journal.AnswerReceived,
}

// entryKinds returns the kinds that may follow in a journal.
func entryKinds() []journal.Kind {
	return slices.DeleteFunc(journal.Kinds()[1:], func(k journal.Kind) bool {
		return slices.Contains(onlyMessages, k)
	})
}

func nothing(*journal.Snapshot) {}

// spec: P-14
func TestEveryKindIsApplied(t *testing.T) {
	want := journal.Snapshot{
		Run: "db-1-1", WorkflowID: "ord-42", Workflow: "order", Pattern: journal.PatternSaga,
		Status: journal.Running, Seq: 7, Started: at(1), Last: at(7), Build: "b1", Events: 7,
		Steps: []journal.Step{
			{
				Op: charge, Path: "charge", Status: journal.StepIsRunning, Attempts: 1,
				Started: at(2),
			},
			{
				Op: ship, Path: "ship", Opens: 3, Status: journal.StepIsRunning, Attempts: 1,
				Started: at(3),
			},
		},
		Waits: []journal.Wait{
			{Op: paid, Path: "paid", Kind: journal.WaitSignal, Since: at(4), Due: at(90)},
			{Op: reminder, Path: "reminder", Kind: journal.WaitTimer, Since: at(5), Due: at(60)},
			{Op: pack, Path: "ship/pack", Kind: journal.WaitChild, Since: at(6), Child: "db-1-2"},
			{
				Op:      review,
				Path:    "review",
				Kind:    journal.WaitDecision,
				Since:   at(7),
				Reason:  "odd",
				Choices: []string{"retry", "skip"},
			},
		},
		Payload: []byte("1"), Attributes: map[string]string{"region": "eu"},
		Headers: map[string]string{"trace": "0a"},
		Neighbours: journal.Neighbours{
			Predecessor: "db-1-0", PredecessorStarted: at(-9), PredecessorEnded: at(-1),
		},
	}
	base := fold(t, onItsWay()...)
	if got := base.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Fatalf("before:\n got %+v\nwant %+v", got, want)
	}
	for _, kind := range entryKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			c, ok := afterStart[kind]
			if !ok {
				t.Fatal("the table does not say what it changes")
			}
			a := journal.Restore(want)
			e := c.entry
			e.Kind, e.Seq, e.At = kind, next, at(next)
			if err := a.Apply(e); err != nil {
				t.Fatal(err)
			}
			want := base.Snapshot()
			want.Seq, want.Last, want.Events = next, at(next), next
			c.change(&want)
			if kind.EndsRun() { // the child ship/pack is open
				want.Steps[1].Status = journal.StepIsCancelled
			}
			if got := a.Snapshot(); !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

// spec: P-14
func TestTheSetOfEventsIsWhole(t *testing.T) {
	for _, name := range []string{
		"RunStarted", "RunCompleted", "RunFailed", "RunCancelled", "RunSuspended", "RunResumed",
		"StepStarted", "StepCompleted", "StepFailed", "StepSkipped", "StepRetrying",
		"CompensationStarted", "StepCompensated", "CompensationFailed",
		"PhaseStarted", "PhaseCompleted", "PhaseFailed", "SignalReceived", "SignalConsumed",
		"TimerRegistered", "TimerFired", "ChildStarted", "ChildCompleted",
		"AttributeSet", "RunContinued", "CheckpointSaved", "ResultDiscarded",
	} {
		if kind, ok := journal.ParseKind(name); !ok || kind.String() != name {
			t.Errorf("there is no event %s", name)
		}
	}
}

// spec: L-1, P-14
func TestATerminalRunNeverChangesAgain(t *testing.T) {
	for _, status := range terminal() {
		t.Run(status.String(), func(t *testing.T) {
			a := fold(t, start(), journal.Entry{Kind: journal.StepStarted, Op: charge}, end(status))
			before := a.Snapshot()
			if before.Status != status || !before.Ended.Equal(at(3)) {
				t.Fatalf("the run is %v, ended %v", before.Status, before.Ended)
			}
			for _, kind := range journal.Kinds() {
				for _, next := range append([]journal.Status{0}, journal.Statuses()...) {
					e := journal.Entry{Seq: 4, Kind: kind, Status: next, Op: charge, At: at(4)}
					if corrupt := new(journal.CorruptError); !errors.As(a.Apply(e), &corrupt) {
						t.Fatalf("%v with status %v was applied", kind, next)
					}
					if err := a.Raise(e); err == nil || len(a.Uncommitted()) != 0 {
						t.Fatalf("%v with status %v was raised", kind, next)
					}
				}
			}
			if after := a.Snapshot(); !reflect.DeepEqual(before, after) {
				t.Errorf("it has changed:\n got %+v\nwant %+v", after, before)
			}
		})
	}
}

// spec: L-1
func TestTheEndAndTheTerminalStatusComeTogether(t *testing.T) {
	for _, kind := range entryKinds() {
		for _, status := range append([]journal.Status{0}, journal.Statuses()...) {
			a := fold(t, start())
			err := a.Apply(journal.Entry{Seq: 2, Kind: kind, Status: status, At: at(2)})
			if fits := kind.EndsRun() == status.IsTerminal(); fits != (err == nil) {
				t.Errorf("%v with status %v: %v", kind, status, err)
			}
			if s := a.Snapshot(); s.Status.IsTerminal() != !s.Ended.IsZero() || !s.Status.Valid() {
				t.Errorf("%v with status %v leaves a run that is %v and ended %v", kind, status,
					s.Status, s.Ended)
			}
		}
	}
}

func TestApplyRefusesWhatCannotFollow(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry journal.Entry
	}{
		{"a gap", journal.Entry{Seq: 4, Kind: journal.StepStarted, Op: charge}},
		{
			"the entry it has",
			journal.Entry{Seq: 1, Kind: journal.RunStarted, Status: journal.Running},
		},
		{
			"a second start",
			journal.Entry{Seq: 3, Kind: journal.RunStarted, Status: journal.Running},
		},
		{
			"a scope that is not open",
			journal.Entry{Seq: 3, Kind: journal.ScopeOpened, Op: journal.Op{Scope: 3, Name: "x"}},
		},
		{
			"a scope that stands for one that is not open",
			journal.Entry{
				Seq:    3,
				Kind:   journal.ScopeOpened,
				Op:     journal.Op{Name: "y"},
				Detail: &journal.Detail{ScopeDetail: journal.ScopeDetail{StandsFor: 3}},
			},
		},
		{
			"a scope that was opened before",
			journal.Entry{Seq: 3, Kind: journal.ScopeOpened, Op: ship},
		},
		{
			"a negative scope",
			journal.Entry{Seq: 3, Kind: journal.ScopeOpened, Op: journal.Op{Scope: -1, Name: "x"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := fold(t, start(), journal.Entry{Kind: journal.ScopeOpened, Op: ship})
			before := a.Snapshot()
			if corrupt := new(journal.CorruptError); !errors.As(a.Apply(c.entry), &corrupt) {
				t.Error("it was applied")
			}
			if after := a.Snapshot(); !reflect.DeepEqual(before, after) {
				t.Errorf("it has changed to %+v", after)
			}
		})
	}
	for _, e := range []journal.Entry{
		{Seq: 1, Kind: journal.StepStarted, Op: charge},
		{Seq: 1, Kind: journal.RunStarted},
		{Seq: 1, Kind: journal.RunStarted, Status: journal.Completed},
	} {
		if newAggregate().Apply(e) == nil {
			t.Errorf("a run begins with %v of status %v", e.Kind, e.Status)
		}
	}
}

// spec: P-14
func TestRaisedEntriesAreUncommittedUntilTheyAreDurable(t *testing.T) {
	a := newAggregate()
	for _, e := range []journal.Entry{
		start(),
		{Kind: journal.StepStarted, Op: charge},
		{Kind: journal.StepCompleted, Op: charge},
	} {
		if err := a.Raise(e); err != nil {
			t.Fatal(err)
		}
	}
	sequences := func() (out []int64) {
		for _, e := range a.Uncommitted() {
			out = append(out, e.Seq)
		}
		return out
	}
	if got := sequences(); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Fatalf("uncommitted %v", got)
	}
	if s := a.Snapshot(); s.Seq != 3 || s.Steps[0].Status != journal.StepIsDone {
		t.Fatalf("what was raised is not applied: %+v", s)
	}
	a.Uncommitted()[2].Kind = journal.RunFailed
	a.Committed(2)
	if got := a.Uncommitted(); len(got) != 1 || got[0].Seq != 3 ||
		got[0].Kind != journal.StepCompleted {
		t.Fatalf("uncommitted %v", got)
	}
	if err := a.Raise(end(journal.Completed)); err != nil {
		t.Fatal(err)
	}
	a.Committed(4)
	if got := sequences(); got != nil {
		t.Fatalf("uncommitted %v", got)
	}
}

// spec: P-14
func TestASnapshotIsAnImmutableCopy(t *testing.T) {
	failure := func() *journal.Failure {
		return &journal.Failure{
			Message: "busy",
			Data:    []byte(`{}`),
			Wraps:   []*journal.Failure{{Message: "inner"}},
		}
	}
	build := func() *journal.Aggregate {
		begin := start()
		begin.Data = []byte("1")
		begin.Detail = &journal.Detail{
			StartDetail: journal.StartDetail{
				Headers:    map[string]string{"trace": "0a"},
				Attributes: map[string]string{"customer": "4710"},
			},
		}
		return fold(t, begin, journal.Entry{
			Kind: journal.AttributeSet,
			Op:   journal.Op{Name: "customer"},
			Data: []byte("4711"),
		},
			journal.Entry{
				Kind: journal.StatePublished,
				Op:   journal.Op{Name: "progress"},
				Data: []byte("1"),
			},
			journal.Entry{
				Kind:   journal.VersionMarked,
				Op:     journal.Op{Name: "v"},
				Detail: &journal.Detail{Version: 1},
			},
			journal.Entry{
				Kind: journal.DecisionSought, Op: review, Detail: &journal.Detail{
					Choices: []string{"skip"},
				},
			},
			journal.Entry{Kind: journal.WaitStarted, Op: paid},
			journal.Entry{
				Kind: journal.StepRetrying, Op: charge, Detail: &journal.Detail{Failure: failure()},
			},
			journal.Entry{
				Kind: journal.RunRetrying, Status: journal.Waiting, Detail: &journal.Detail{
					Failure: failure(),
				},
			})
	}
	spoil := func(s journal.Snapshot) {
		s.Attributes["customer"], s.Attributes["more"] = "x", "x"
		s.Headers["trace"], s.Headers["more"] = "x", "x"
		s.Versions["v"], s.Versions["more"] = 9, 9
		s.Payload[0], s.Published["progress"].Data[0], s.Published["more"] = 'x', 'x',
			journal.Published{}
		s.Waits[0].Choices[0], s.Waits[1].Path = "x", "x"
		s.Steps[0].Status = journal.StepIsFailed
		for _, f := range []*journal.Failure{s.Failure, s.Steps[0].Failure} {
			f.Message, f.Data[0], f.Wraps[0].Message, f.Wraps[0] = "x", 'x', "x", nil
		}
	}
	want := build().Snapshot()

	a := build()
	spoil(a.Snapshot())
	if got := a.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("a change to a snapshot has changed the aggregate:\n got %+v\nwant %+v", got, want)
	}
	before := a.Snapshot()
	b := journal.Restore(before)
	spoil(before)
	if got := b.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("a change to a snapshot has changed what was restored from it:\n got %+v\n"+
			"want %+v", got, want)
	}
	before = a.Snapshot()
	for _, e := range []journal.Entry{
		{Kind: journal.AttributeSet, Op: journal.Op{Name: "customer"}, Data: []byte("4712")},
		{Kind: journal.StatePublished, Op: journal.Op{Name: "progress"}, Data: []byte("2")},
		{Kind: journal.VersionMarked, Op: journal.Op{Name: "v"}},
		{Kind: journal.PayloadSet, Data: []byte("2")},
		{Kind: journal.SignalConsumed, Op: review},
		{Kind: journal.StepCompleted, Op: charge},
		{Kind: journal.RunFailed, Status: journal.Failed},
	} {
		e.Seq = a.Snapshot().Seq + 1
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(before, want) {
		t.Errorf("what happened later has changed a snapshot:\n got %+v\nwant %+v", before, want)
	}
}

// randomJournal returns the journal of a run with all sorts of operations.
func randomJournal(rnd *rand.Rand) []journal.Entry {
	entries := []journal.Entry{start()}
	var scopes []int64
	opened := map[journal.Op]bool{}
	for range rnd.IntN(60) {
		e := journal.Entry{
			Kind: entryKinds()[rnd.IntN(len(entryKinds()))],
			Op:   journal.Op{Name: string(rune('a' + rnd.IntN(4))), Occ: 1 + rnd.IntN(2)},
		}
		if e.Kind.EndsRun() {
			continue
		}
		if len(scopes) > 0 && rnd.IntN(2) == 0 {
			e.Op.Scope = scopes[rnd.IntN(len(scopes))]
		}
		if e.Kind == journal.ScopeOpened {
			if opened[e.Op] {
				continue
			}
			opened[e.Op] = true
			scopes = append(scopes, int64(len(entries)+1))
		}
		if rnd.IntN(3) == 0 {
			e.Status = journal.Status(1 + rnd.IntN(int(journal.CompensationFailed)))
		}
		if rnd.IntN(2) == 0 {
			e.Data = []byte{byte(rnd.IntN(256))}
		}
		if rnd.IntN(2) == 0 {
			e.Detail = &journal.Detail{
				Attempt:       rnd.IntN(4),
				Due:           at(rnd.IntN(99)),
				Reason:        "reason",
				Failures:      rnd.IntN(3),
				Failure:       &journal.Failure{Message: fmt.Sprint("failure ", rnd.IntN(9))},
				Version:       rnd.IntN(3),
				Other:         "db-1-9",
				Choices:       make([]string, rnd.IntN(2)),
				Tell:          rnd.IntN(2) == 0,
				MessageDetail: journal.MessageDetail{Mail: int64(rnd.IntN(9))},
			}
		}
		if rnd.IntN(9) == 0 {
			e.Spill = 7
		}
		entries = append(entries, e)
	}
	if rnd.IntN(2) == 0 {
		entries[0].Detail = &journal.Detail{
			StartDetail: journal.StartDetail{
				Attributes: make(map[string]string), Headers: make(map[string]string),
				Began: at(-9), Ended: at(-1),
			},
			Other: "db-1-0",
		}
	}
	if rnd.IntN(2) == 0 {
		entries = append(entries, end(terminal()[rnd.IntN(len(terminal()))]))
	}
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = 1, int64(i+1), at(i+1)
	}
	return entries
}

// spec: P-14
func TestTheStateIsWhatTheEventsSayAndNothingElse(t *testing.T) {
	for seed := range uint64(200) {
		entries := randomJournal(rand.New(rand.NewPCG(seed, 1)))
		var lines bytes.Buffer
		if err := journal.Write(&lines, entries); err != nil {
			t.Fatal(err)
		}
		read, err := journal.Read(&lines)
		if err != nil {
			t.Fatal(err)
		}
		// Four ways to the same state: applied, raised, read back, and restored from
		// a snapshot before each entry.
		applied, raised, again, restored := newAggregate(), newAggregate(), newAggregate(),
			newAggregate()
		for i := range entries {
			restored = journal.Restore(restored.Snapshot())
			err := errors.Join(applied.Apply(entries[i]), raised.Raise(entries[i]),
				again.Apply(read[i]), restored.Apply(entries[i]))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want := applied.Snapshot()
			if want.Events != i+1 || want.Seq != entries[i].Seq ||
				!want.Last.Equal(entries[i].At) || !want.Status.Valid() {
				t.Fatalf("seed %d: after entry %d: %+v", seed, i+1, want)
			}
			for name, a := range map[string]*journal.Aggregate{
				"raised":    raised,
				"read back": again,
				"restored":  restored,
			} {
				if got := a.Snapshot(); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: %s, after entry %d:\n got %+v\nwant %+v", seed, name, i+1,
						got, want)
				}
			}
		}
	}
}

func TestAnOperatorsResumeCountsPanicsAnew(t *testing.T) {
	panicked := journal.Entry{
		Kind: journal.RunRetrying, Status: journal.Waiting, Detail: &journal.Detail{
			Failures: 2, Due: at(60),
		},
	}
	for _, c := range []struct {
		name string
		then journal.Entry
		want int
	}{
		{"status", journal.Entry{Kind: journal.StatusChanged, Status: journal.Running}, 2},
		{"claim", journal.Entry{Kind: journal.RunClaimed, Status: journal.Running}, 2},
		{
			"parked by an operator",
			journal.Entry{Kind: journal.RunSuspended, Status: journal.Suspended},
			2,
		},
		{
			"parked by the last panic",
			journal.Entry{
				Kind: journal.RunSuspended, Status: journal.Suspended, Detail: &journal.Detail{
					Failures: 3,
				},
			},
			3,
		},
		{"resume", journal.Entry{Kind: journal.RunResumed, Status: journal.Running}, 0},
		{
			"step",
			journal.Entry{Kind: journal.StepCompleted, Op: charge, Status: journal.Running},
			0,
		},
	} {
		s := fold(t, start(), panicked, c.then).Snapshot()
		if s.Failures != c.want || !s.Due.IsZero() {
			t.Errorf("%s: %d panics in a row, due %v; want %d, due never", c.name, s.Failures,
				s.Due, c.want)
		}
	}
}

// spec: P-14
func TestAProjectionSummarisesRuns(t *testing.T) {
	heads := []journal.Head{
		{ID: "db-1-1", WorkflowID: "ord-1", Workflow: "order", Pattern: journal.PatternSaga},
		{ID: "db-1-2", WorkflowID: "ord-2", Workflow: "order", Pattern: journal.PatternSaga},
		{ID: "db-1-3", WorkflowID: "mail", Workflow: "mail"},
	}
	p := journal.NewProjection()
	apply := func(h journal.Head, seq int64, e journal.Entry) {
		t.Helper()
		e.Seq, e.At = seq, at(int(seq))
		if err := p.Apply(h, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range heads {
		apply(h, 1, start())
	}
	apply(heads[0], 2, journal.Entry{Kind: journal.ScopeOpened, Op: ship})
	apply(heads[0], 3, journal.Entry{
		Kind: journal.StepCompleted,
		Op:   journal.Op{Scope: 2, Name: "label", Occ: 1},
	})
	apply(heads[0], 4, journal.Entry{
		Kind: journal.StepFailed, Op: charge, Detail: &journal.Detail{
			Failure: &journal.Failure{Message: "declined"},
		},
	})
	apply(heads[0], 5, journal.Entry{
		Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{
			Failure: &journal.Failure{Message: "no money"},
		},
	})

	want := journal.Summary{
		Run: "db-1-1", WorkflowID: "ord-1", Workflow: "order", Pattern: journal.PatternSaga,
		Status: journal.Failed,
		Steps: map[string]journal.StepStatus{
			"ship": journal.StepIsDone, "ship/label": journal.StepIsDone,
			"charge": journal.StepIsFailed,
		},
		First: at(1), Last: at(5), Failure: "no money", Events: 5,
	}
	if got, ok := p.Run("db-1-1"); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("by ID:\n got %+v\nwant %+v", got, want)
	}
	if _, ok := p.Run("db-1-9"); ok {
		t.Error("there is a summary of a run that nobody told of")
	}
	ids := func(list []journal.Summary) (out []journal.RunID) {
		for _, s := range list {
			out = append(out, s.Run)
		}
		return out
	}
	if got := ids(p.ByStatus(journal.Running)); !slices.Equal(
		got, []journal.RunID{"db-1-2", "db-1-3"}) {
		t.Errorf("RUNNING: %v", got)
	}
	if got := ids(p.ByStatus(journal.Failed)); !slices.Equal(got, []journal.RunID{"db-1-1"}) {
		t.Errorf("FAILED: %v", got)
	}
	if got := p.ByStatus(journal.Completed); got != nil {
		t.Errorf("COMPLETED: %v", got)
	}
	if got := ids(p.ByPattern(journal.PatternSaga)); !slices.Equal(
		got, []journal.RunID{"db-1-1", "db-1-2"}) {
		t.Errorf("sagas: %v", got)
	}
	if got := ids(p.ByPattern(journal.PatternWorkflow)); !slices.Equal(
		got, []journal.RunID{"db-1-3"}) {
		t.Errorf("workflows: %v", got)
	}
	if err := p.Apply(heads[0], journal.Entry{
		Seq: 6, Kind: journal.StepStarted, Op: charge,
	}); err == nil {
		t.Error("a projection went on after the end of a run")
	}
}
