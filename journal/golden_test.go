package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

var update = flag.Bool("update", false, "write the golden journals that are not there yet; those "+
	"that are there are never changed")

// golden has the entries of the files in testdata/golden. A file stays readable for ever, and means
// what it means here: files are added, never changed. A new kind, status or field needs a new file.
var golden = map[string][]journal.Entry{
	"v1-kinds.jsonl":    goldenKinds(firstKinds...),
	"v1-statuses.jsonl": goldenStatuses(),
	"v1-fields.jsonl":   goldenFields(),
	"v1-order.jsonl":    goldenOrder(),
	"v1-settled.jsonl":  goldenSettled(),

	// Messages, timers, children and chains.
	"v1-kinds-2.jsonl":   goldenKinds(secondKinds...),
	"v1-fields-2.jsonl":  alone(mailFields(), 1),
	"v1-messages.jsonl":  goldenMessages(),
	"v1-chain.jsonl":     goldenChain(),
	"v1-successor.jsonl": goldenSuccessor(),

	// Variables, keys, dead letters and the phases of steps.
	"v1-kinds-3.jsonl":  goldenKinds(thirdKinds...),
	"v1-fields-3.jsonl": alone(patternFields(), 1),
	"v1-shared.jsonl":   goldenShared(),

	// Scopes that stand for others.
	"v1-undone.jsonl":   goldenUndone(),
	"v1-effect.jsonl":   goldenEffect(),
	"v1-fields-5.jsonl": alone(journal.Detail{StartDetail: journal.StartDetail{CleansUp: true}}, 1),

	// Runs that retry others.
	"v1-fields-4.jsonl": alone(retriedFields(), 1),
	"v1-retried.jsonl":  goldenRetried(),
	"v1-does.jsonl":     goldenDoes(),
	"v1-layers.jsonl":   goldenLayers(),
	"v1-fields-7.jsonl": alone(journal.Detail{ScopeDetail: journal.ScopeDetail{ForStep: "pack"}},
		1),
	"v1-fields-6.jsonl": alone(journal.Detail{
		StartDetail: journal.StartDetail{
			Renewed: map[string]journal.RunID{"pack[1]": "db-1-2", "tcc/debit": "db-1-3"},
		},
	}, 1),
	"v1-tcc.jsonl":     goldenTCC(),
	"v1-kinds-4.jsonl": goldenKinds(fourthKinds...),
	"v1-slots.jsonl":   goldenSlots(),
	"v1-kinds-5.jsonl": goldenKinds(journal.ResultDiscarded, journal.HeaderSet),

	// The step that a workflow's error is from.
	"v1-fields-9.jsonl": alone(journal.Detail{
		Failure: &journal.Failure{Message: "no money", Step: "charge"},
	}, 1),

	// What a retry keeps after a failure.
	"v1-fields-8.jsonl": alone(journal.Detail{
		StepDetail:  journal.StepDetail{Declared: true, Tx: true},
		ScopeDetail: journal.ScopeDetail{Branch: true},
		Heard:       true,
	}, 1),

	// What operators do with runs.
	"v1-fields-10.jsonl": alone(journal.Detail{
		By:            "ada@desk",
		StepDetail:    journal.StepDetail{Undo: true, Skipped: true},
		MessageDetail: journal.MessageDetail{Mode: journal.ActionTerminate},
		StartDetail: journal.StartDetail{
			Action: journal.ActionFork, From: "pay/charge", NewInput: true, Undoes: "db-1-4",
		},
	}, 1),
	"v1-mended.jsonl": goldenMended(),
	"v1-visits.jsonl": goldenVisits(),

	// Answers to callbacks.
	"v1-answers.jsonl": goldenKinds(journal.AnswerReceived),

	// The trace context of a sender.
	"v1-fields-11.jsonl": alone(journal.Detail{MessageDetail: journal.MessageDetail{
		SentIn: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}}, 1),

	// What a codec has encoded.
	"v1-fields-12.jsonl": alone(journal.Detail{Attempt: 2, Sealed: []byte("\x00pdx")}, 1),
	// Streams and log lines of steps.
	"v1-output.jsonl": goldenOutput(),
}

// The kinds in the order in which versions of the package added them.
var (
	firstKinds = []journal.Kind{
		journal.RunStarted, journal.RunClaimed, journal.RunCompleted, journal.RunFailed,
		journal.RunCancelled,
		journal.RunTimedOut, journal.RunSuspended, journal.RunResumed, journal.RunRetrying,
		journal.RunContinued,
		journal.StatusChanged, journal.AttributeSet, journal.PayloadSet, journal.VersionMarked,
		journal.ValueRecorded,
		journal.ScopeOpened, journal.ScopeCancelled, journal.WaitEnded,
		journal.StepStarted, journal.StepCompleted, journal.StepFailed, journal.StepTimedOut,
		journal.StepCancelled,
		journal.StepSkipped, journal.StepRetrying, journal.CheckpointSaved,
		journal.CompensationStarted, journal.StepCompensated, journal.StepCompensationFailed,
		journal.PhaseStarted, journal.PhaseCompleted, journal.PhaseFailed,
		journal.SignalReceived, journal.SignalConsumed, journal.TimerRegistered, journal.TimerFired,
		journal.ChildStarted, journal.ChildCompleted,
	}
	secondKinds = []journal.Kind{
		journal.StatePublished, journal.RunClosing, journal.CleanupPlanned, journal.WaitStarted,
		journal.DecisionSought,
		journal.EventEmitted, journal.TimerCancelled,
		journal.CancelAsked, journal.SuspendAsked, journal.ResumeAsked, journal.DecisionMade,
	}
	thirdKinds  = []journal.Kind{journal.VariableSet, journal.KeyAdded, journal.DeadLettered}
	fourthKinds = []journal.Kind{journal.OperationAdded, journal.OperationUnused}
)

func goldenKinds(kinds ...journal.Kind) []journal.Entry {
	var entries []journal.Entry
	for i, k := range kinds {
		entries = append(entries, journal.Entry{Run: 1, Seq: int64(i + 1), Kind: k, At: at(i)})
	}
	return entries
}

// goldenOutput is about a step that writes into a stream, and is tried again.
func goldenOutput() []journal.Entry {
	ask := journal.Op{Name: "ask", Occ: 1}
	put := func(seq int64, o journal.OutputDetail) journal.Entry {
		return journal.Entry{
			Run: 1, Seq: seq, Kind: journal.StepOutput, Op: ask, At: at(int(seq)),
			Data: []byte(`"t"`), Detail: &journal.Detail{
				Attempt: 1, StepDetail: journal.StepDetail{OutputDetail: o},
			},
		}
	}
	all := []journal.Entry{
		{Run: 1, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: at(0)},
		put(2, journal.OutputDetail{Stream: "answer"}),
		put(3, journal.OutputDetail{Stream: "answer", Part: 2, Size: 150_000}),
		put(4, journal.OutputDetail{Stream: "answer", Part: 2, Void: true}),
		{
			Run: 1, Seq: 5, Kind: journal.StepLogged, Op: ask, At: at(5),
			Data:   []byte(`{"level":"INFO","msg":"m"}` + "\n"),
			Detail: &journal.Detail{Attempt: 2},
		},
	}
	all[2].Data, all[2].Spill, all[3].Data = nil, 9, nil
	return all
}

// goldenSlots is about the slots and tokens of limits.
func goldenSlots() []journal.Entry {
	return []journal.Entry{
		{
			Run: 1, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: at(0),
			Detail: &journal.Detail{StartDetail: journal.StartDetail{Limited: true}},
		},
		{
			Run: 1, Seq: 2, Kind: journal.RunClaimed, Status: journal.Running, At: at(1),
			Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 1}},
		},
		{
			Run: 1, Seq: 3, Kind: journal.SlotAsked, Op: journal.Op{Name: "printer", Occ: 1},
			At: at(2), Detail: &journal.Detail{Reason: "printer:lock", Due: at(9)},
		},
		{
			Run: 1, Seq: 4, Kind: journal.SlotTaken, Op: journal.Op{Name: "printer", Occ: 1},
			At: at(3), Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 2}},
		},
		{
			Run: 1, Seq: 5, Kind: journal.StepHeld, Op: journal.Op{Name: "call", Occ: 1}, At: at(4),
			Detail: &journal.Detail{Attempt: 2, Reason: "bank:rate"},
		},
		{
			Run: 1, Seq: 6, Kind: journal.SlotFreed, Op: journal.Op{Name: "free:printer", Occ: 1},
			At: at(5), Detail: &journal.Detail{Reason: "printer:lock"},
		},
		{
			Run: 1, Seq: 7, Kind: journal.SlotGranted,
			Op: journal.Op{Name: "perdure:slot", Key: "-3"}, At: at(6),
		},
	}
}

func goldenStatuses() []journal.Entry {
	var entries []journal.Entry
	for i, s := range journal.Statuses() {
		entries = append(entries, journal.Entry{
			Run: 1, Seq: int64(i + 1), Kind: journal.StatusChanged, Status: s, At: at(i),
		})
	}
	return entries
}

// goldenFields has one entry with every field, and one for each field alone.
func goldenFields() []journal.Entry {
	failure := &journal.Failure{
		Message: "no \x00 money \u2028 ☃ <&>", Code: journal.CodePanic, Name: "ErrMoney",
		Type: "*bank.Error",
		Data: json.RawMessage(`{"cents":12}`), Class: journal.ClassRetry, After: 3 * time.Second,
		Stack: "goroutine 1\n",
		Wraps: []*journal.Failure{
			{Message: "inner"},
			{Message: "other", Wraps: []*journal.Failure{{Message: "root"}}},
		},
	}
	every := journal.Detail{
		Attempt:    3,
		Due:        at(9).Add(7),
		Failure:    failure,
		Reason:     "reason",
		CodeDetail: journal.CodeDetail{Build: "b2", Engine: 7},
		StepDetail: journal.StepDetail{Once: "once", Async: true},
		ByWait:     true,
		Failures:   4,
		Version:    2,
		Phase:      "try",
		Other:      "db-1-2",
	}
	entries := []journal.Entry{{
		Run: 1<<63 - 1, Seq: 2, Kind: journal.StepRetrying, Status: journal.Waiting,
		Op: journal.Op{Scope: 1, Name: "charge", Key: "4711", Occ: 12}, At: at(1).Add(1), Took: 1,
		Data: []byte{0, 0xff, '\n'}, Spill: 9, Detail: &every,
	}}
	entries = append(entries, alone(every, 3)...)
	for _, data := range [][]byte{nil, {}, {0}, []byte("null")} {
		seq := entries[len(entries)-1].Seq + 1
		entries = append(entries, journal.Entry{
			Run: 1, Seq: seq, Kind: journal.StepCompleted, At: at(0), Data: data,
		})
	}
	return entries
}

// alone has one entry for each field of a detail that is set, with that field alone.
func alone(every journal.Detail, seq int64) []journal.Entry {
	var entries []journal.Entry
	whole := reflect.ValueOf(every)
	for _, f := range reflect.VisibleFields(whole.Type()) {
		if f.Anonymous || whole.FieldByIndex(f.Index).IsZero() {
			continue
		}
		d := new(journal.Detail)
		reflect.ValueOf(d).Elem().FieldByIndex(f.Index).Set(whole.FieldByIndex(f.Index))
		n := len(entries)
		entries = append(entries, journal.Entry{
			Run: 1, Seq: seq + int64(n), Kind: journal.StepStarted, At: at(n), Detail: d,
		})
	}
	return entries
}

// mailFields has the fields that came with messages and chains.
func mailFields() journal.Detail {
	return journal.Detail{
		MessageDetail: journal.MessageDetail{Mail: 1<<63 - 1, Message: "m-\x00 ☃", To: "ord-42"},
		Outcome:       journal.TimedOut,
		Choices:       []string{"retry", "", "skip <&>"},
		EventDetail:   journal.EventDetail{Event: "order.shipped"},
		Policy:        "abandon",
		Tell:          true,
		StartDetail: journal.StartDetail{
			Headers:    map[string]string{"trace": "0a", "": ""},
			Attributes: map[string]string{"region": "eu", "customer": ""},
			Began:      at(1).Add(7),
			Ended:      at(2),
		},
	}
}

// patternFields has the fields that came with the declared patterns.
func patternFields() journal.Detail {
	return journal.Detail{
		VariableDetail: journal.VariableDetail{Variable: "customer", ByStep: true},
		EventDetail: journal.EventDetail{
			Execution: "step completed", Topic: "orders ☃", Routing: "ord-42",
		},
	}
}

// retriedFields has the fields that came with runs that retry others.
func retriedFields() journal.Detail {
	return journal.Detail{
		MessageDetail: journal.MessageDetail{Taken: 1<<63 - 1},
		StartDetail: journal.StartDetail{
			Retried:     "db-1-2",
			Keys:        "db-1-1",
			DeadLetters: []string{"", "perdure:dead:db-1-1:charge"},
		},
	}
}

// goldenRetried is a run that retries another one, from the failed step.
func goldenRetried() []journal.Entry {
	op := func(name string) journal.Op { return journal.Op{Name: name, Occ: 1} }
	start := &journal.Detail{
		CodeDetail: journal.CodeDetail{Build: "b1"},
		StartDetail: journal.StartDetail{
			Retried:     "db-1-2",
			Keys:        "db-1-2",
			DeadLetters: []string{"perdure:dead:db-1-2:charge"},
		},
	}
	return numbered([]journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Pending, Data: []byte(`1`), Detail: start},
		{Kind: journal.WaitStarted, Op: op("paid")},
		{Kind: journal.SignalConsumed, Op: op("paid"), Data: []byte(`12`), Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{Taken: 3, Message: "pay-1"},
		}},
		{Kind: journal.RunClaimed, Status: journal.Running, Detail: &journal.Detail{
			CodeDetail: journal.CodeDetail{Build: "b2", Engine: 7},
		}},
		{Kind: journal.StepCompleted, Op: op("charge"), Data: []byte(`1`)},
		{Kind: journal.RunCompleted, Status: journal.Completed},
	})
}

// goldenLayers is a run of a graph that was started by a client without its workflow.
func goldenLayers() []journal.Entry {
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Pending, Data: []byte(`1`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{Kind: journal.RunClaimed, Status: journal.Running, Detail: &journal.Detail{
			CodeDetail:  journal.CodeDetail{Build: "b1", Engine: 7},
			StartDetail: journal.StartDetail{Layers: [][]string{{"a"}, {"b", "c"}}},
		}},
		{Kind: journal.RunCompleted, Status: journal.Completed},
	})
}

// goldenDoes is a run with a branch that performs a step, and one that is given up.
func goldenDoes() []journal.Entry {
	op := func(name string) journal.Op { return journal.Op{Name: name, Occ: 1} }
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`1`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{
			Kind: journal.ScopeOpened, Op: op("in:pack"), Detail: &journal.Detail{
				ScopeDetail: journal.ScopeDetail{ForStep: "pack"},
			},
		},
		{Kind: journal.ScopeOpened, Op: op("in:aside"), Detail: &journal.Detail{
			ScopeDetail: journal.ScopeDetail{ForStep: "aside"},
		}},
		{
			Kind: journal.StepStarted, Op: op("pack"), Detail: &journal.Detail{
				StepDetail: journal.StepDetail{Async: true},
			},
		},
		{Kind: journal.StepCompleted, Op: op("pack"), Data: []byte(`2`)},
		{Kind: journal.RunCompleted, Status: journal.Completed},
	})
}

// goldenShared is a run whose code and steps set variables, and a participant of a TCC.
func goldenShared() []journal.Entry {
	op := func(name string) journal.Op { return journal.Op{Name: name, Occ: 1} }
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`1`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{
			Kind: journal.VariableSet, Op: op("customer"), Data: []byte(`"c-1"`),
			Detail: &journal.Detail{VariableDetail: journal.VariableDetail{Variable: "customer"}},
		},
		{Kind: journal.VariableSet, Op: op("debit"), Spill: 9, Detail: &journal.Detail{
			VariableDetail: journal.VariableDetail{Variable: "hold", ByStep: true},
		}},
		{Kind: journal.KeyAdded, Op: op("debit"), Data: []byte("debit ☃"), Detail: &journal.Detail{
			VariableDetail: journal.VariableDetail{ByStep: true},
		}},
		{
			Kind: journal.StepCompleted, Op: op("try:debit"), Data: []byte(`1`),
			Detail: &journal.Detail{Phase: journal.PhaseTry},
		},
		{
			Kind:   journal.VariableSet,
			Op:     journal.Op{Name: "customer", Occ: 2},
			Detail: &journal.Detail{VariableDetail: journal.VariableDetail{Variable: "customer"}},
		},
		{Kind: journal.StepStarted, Op: op("confirm:debit"), Detail: &journal.Detail{
			Phase: journal.PhaseConfirm,
		}},
		{Kind: journal.StepFailed, Op: op("confirm:debit"), Detail: &journal.Detail{
			Phase: journal.PhaseConfirm, Failure: &journal.Failure{Message: "no"},
		}},
		{Kind: journal.StepStarted, Op: op("cancel:debit"), Detail: &journal.Detail{
			Phase: journal.PhaseCancel,
		}},
		{Kind: journal.DeadLettered, Op: op("debit"), Detail: &journal.Detail{Other: "db-1-9"}},
	})
}

// goldenUndone is a run that undoes what it did: in its first clean-up, which is not
// recorded, in one that a scope has planned, and in a scope that stands for another one.
func goldenUndone() []journal.Entry {
	in := func(scope int64, name string) journal.Op {
		return journal.Op{Scope: scope, Name: name, Occ: 1}
	}
	undo := &journal.Detail{Phase: journal.PhaseUndo}
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`1`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{Kind: journal.ScopeOpened, Op: in(0, "order")},
		{Kind: journal.CleanupPlanned, Op: in(2, "compensate")},
		{Kind: journal.StepCompleted, Op: in(0, "mail"), Took: time.Second},
		{
			Kind: journal.StepCompleted, Op: in(2, "charge"), Took: time.Second,
			Detail: &journal.Detail{Attempt: 2},
		},
		{Kind: journal.StepCompleted, Op: in(2, "reserve"), Took: time.Second},
		{Kind: journal.ScopeOpened, Op: in(0, "undo:order"), Detail: &journal.Detail{
			ScopeDetail: journal.ScopeDetail{StandsFor: 2},
		}},
		{Kind: journal.StepCompleted, Op: in(7, "undo:charge"), Detail: undo},
		{Kind: journal.StepCompensated, Op: in(7, "charge")},
		{Kind: journal.RunClosing, Detail: &journal.Detail{Outcome: journal.Cancelled}},
		{Kind: journal.StepCompleted, Op: in(3, "undo:reserve"), Detail: undo},
		{Kind: journal.StepCompensated, Op: in(3, "reserve")},
		{Kind: journal.StepCompleted, Op: in(journal.ImpliedCleanup, "undo:mail"), Detail: undo},
		{
			Kind: journal.StepCompensationFailed, Op: in(journal.ImpliedCleanup, "mail"),
			Detail: &journal.Detail{Failure: &journal.Failure{Message: "read"}},
		},
		{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{
			Reason: "customer",
		}},
	})
}

// goldenEffect has a step that runs at most once, and two steps of one name, which are undone by
// options of theirs.
func goldenEffect() []journal.Entry {
	op := func(scope int64, name string, occ int) journal.Op {
		return journal.Op{Scope: scope, Name: name, Occ: occ}
	}
	undo := func(of int) *journal.Detail {
		return &journal.Detail{Phase: journal.PhaseUndo, Of: of}
	}
	own := &journal.Detail{StepDetail: journal.StepDetail{Undo: true, OwnUndo: true}}
	once := &journal.Detail{StepDetail: journal.StepDetail{AtMostOnce: true}}
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`1`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{Kind: journal.StepCompleted, Op: op(0, "pack", 1), Detail: own},
		{Kind: journal.StepCompleted, Op: op(0, "pack", 2), Detail: own},
		{Kind: journal.StepStarted, Op: op(0, "pay", 1), Detail: once},
		{Kind: journal.StepHeld, Op: op(0, "pay", 1), Detail: once},
		{Kind: journal.StepStarted, Op: op(0, "pay", 1), Detail: once},
		{Kind: journal.StepFailed, Op: op(0, "pay", 1), Detail: &journal.Detail{
			Attempt: 1,
			Failure: &journal.Failure{
				Message: "interrupted", Name: journal.Interrupted, Class: journal.ClassPermanent,
			},
		}},
		{Kind: journal.RunClosing, Detail: &journal.Detail{Outcome: journal.Failed}},
		{Kind: journal.CleanupPlanned, Op: op(0, "perdure:undo", 1)},
		{Kind: journal.StepCompleted, Op: op(9, "undo:pack", 1), Detail: undo(2)},
		{Kind: journal.StepCompensated, Op: op(9, "pack", 1), Detail: &journal.Detail{Of: 2}},
		{Kind: journal.StepFailed, Op: op(9, "undo:pack", 2), Detail: &journal.Detail{
			Attempt: 1, Phase: journal.PhaseUndo, Of: 1,
			Failure: &journal.Failure{Message: "broken"},
		}},
		{
			Kind: journal.StepCompensationFailed, Op: op(9, "pack", 2),
			Detail: &journal.Detail{Of: 1, Failure: &journal.Failure{Message: "broken"}},
		},
		{Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{
			Failure: &journal.Failure{Message: "interrupted", Name: journal.Interrupted},
		}},
	})
}

// goldenTCC is a TCC that is cancelled while it tries. Its clean-up has no record.
func goldenTCC() []journal.Entry {
	op := func(scope int64, name string) journal.Op {
		return journal.Op{Scope: scope, Name: name, Occ: 1}
	}
	timedOut := &journal.Failure{Code: journal.CodeTimedOut, Message: "workflow timed out"}
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Trying, Data: []byte(`1`),
			Detail: &journal.Detail{
				CodeDetail:  journal.CodeDetail{Build: "b1"},
				StartDetail: journal.StartDetail{CleansUp: true},
			},
		},
		{Kind: journal.RunClaimed, Status: journal.Trying, Detail: &journal.Detail{
			CodeDetail:  journal.CodeDetail{Build: "b2", Engine: 9},
			StartDetail: journal.StartDetail{CleansUp: true},
		}},
		{
			Kind: journal.StepCompleted, Op: op(0, "try:debit"), Data: []byte(`1`),
			Detail: &journal.Detail{Phase: journal.PhaseTry},
		},
		{
			Kind: journal.RunClosing, Detail: &journal.Detail{
				Failure: timedOut, Outcome: journal.TimedOut,
			},
		},
		{Kind: journal.ValueRecorded, Status: journal.Canceling, Op: op(1, "status")},
		{Kind: journal.PhaseStarted, Op: op(1, "phase"), Detail: &journal.Detail{
			Phase: journal.PhaseCancel,
		}},
		{Kind: journal.StepStarted, Op: op(1, "cancel:debit"), Detail: &journal.Detail{
			StepDetail: journal.StepDetail{Async: true},
			Phase:      journal.PhaseCancel,
		}},
		{Kind: journal.StepCompleted, Op: op(1, "cancel:debit"), Detail: &journal.Detail{
			StepDetail: journal.StepDetail{Async: true},
			Phase:      journal.PhaseCancel,
		}},
		{Kind: journal.RunCancelled, Status: journal.Canceled, Detail: &journal.Detail{
			Failure: timedOut, Reason: timedOut.Message,
		}},
	})
}

// goldenSettled has a failure that was read from a journal.
func goldenSettled() []journal.Entry {
	settled := &journal.Failure{Message: "declined", Class: journal.ClassPermanent, Settled: true}
	return []journal.Entry{
		{
			Run: 1, Seq: 1, Kind: journal.RunFailed, Status: journal.Failed, At: at(0),
			Detail: &journal.Detail{Failure: settled},
		},
		{
			Run: 1, Seq: 2, Kind: journal.RunFailed, Status: journal.Failed, At: at(0),
			Detail: &journal.Detail{
				Failure: &journal.Failure{
					Message: "order 5: declined",
					Wraps:   []*journal.Failure{settled},
				},
			},
		},
	}
}

// goldenOrder is a run as an engine writes it.
func goldenOrder() []journal.Entry {
	declined := &journal.Failure{Message: "declined", Type: "*errors.errorString"}
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`{"id":"ord-42"}`),
			Detail: &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b1"}},
		},
		{
			Kind: journal.StepCompleted,
			Op:   journal.Op{Name: "reserve", Occ: 1},
			Took: 12 * time.Millisecond,
			Data: []byte(`"hold-1"`),
		},
		{Kind: journal.ScopeOpened, Op: journal.Op{Name: "ship", Occ: 1}},
		{Kind: journal.StepStarted, Op: journal.Op{Name: "mail", Occ: 1}, Detail: &journal.Detail{
			StepDetail: journal.StepDetail{Async: true},
		}},
		{
			Kind: journal.StepRetrying, Op: journal.Op{Name: "charge", Occ: 1}, Took: time.Second,
			Detail: &journal.Detail{Attempt: 1, Due: at(60), Failure: declined},
		},
		{Kind: journal.StatusChanged, Status: journal.Waiting},
		{
			Kind:   journal.StepStarted,
			Status: journal.Running,
			Op:     journal.Op{Name: "charge", Occ: 1},
			Detail: &journal.Detail{Attempt: 2},
		},
		{
			Kind: journal.StepCompleted,
			Op:   journal.Op{Scope: 3, Name: "label", Key: "a", Occ: 1},
			Data: []byte(`"l-1"`),
		},
		{Kind: journal.StepFailed, Op: journal.Op{Name: "charge", Occ: 1}, Detail: &journal.Detail{
			Attempt: 2, Failure: declined,
		}},
		{
			Kind:   journal.ScopeCancelled,
			Op:     journal.Op{Name: "ship", Occ: 1},
			Detail: &journal.Detail{Reason: "workflow failed: declined"},
		},
		{Kind: journal.StepCancelled, Op: journal.Op{Name: "mail", Occ: 1}, Detail: &journal.Detail{
			StepDetail: journal.StepDetail{Async: true},
			Reason:     "workflow failed: declined",
		}},
		{Kind: journal.RunFailed, Status: journal.Failed, Detail: &journal.Detail{
			Failure: declined,
		}},
	})
}

// goldenMessages are the entries of inboxes: a message of each kind, and an unrouted one.
func goldenMessages() []journal.Entry {
	entries := []journal.Entry{
		{
			Kind: journal.SignalReceived, Op: journal.Op{Name: "paid"},
			Data: []byte(`{"cents":12}`),
			Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Message: "pay-1"},
				StartDetail:   journal.StartDetail{Headers: map[string]string{"trace": "0a"}},
			},
		},
		{
			Kind:   journal.TimerCancelled,
			Op:     journal.Op{Scope: 1, Name: "reminder", Key: "a", Occ: 2},
			Detail: &journal.Detail{Reason: "not needed"},
		},
		{
			Kind: journal.ChildCompleted, Op: journal.Op{Scope: 1, Name: "pack", Occ: 1}, Spill: 9,
			Detail: &journal.Detail{
				Other:         "db-1-2",
				Outcome:       journal.Failed,
				Failure:       &journal.Failure{Message: "no box"},
				MessageDetail: journal.MessageDetail{Message: "db-1-2"},
			},
		},
		{Kind: journal.SuspendAsked, Detail: &journal.Detail{Reason: "let me look"}},
		{Kind: journal.ResumeAsked},
		{
			Kind: journal.DecisionMade,
			Op:   journal.Op{Name: "skip", Key: "review"},
			Data: []byte(`"by hand"`),
		},
		{
			Kind: journal.CancelAsked, Detail: &journal.Detail{
				Reason:        "customer",
				MessageDetail: journal.MessageDetail{Message: "cancel-1"},
			},
		},
	}
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = 1, int64(i+1), at(i)
	}
	return append(entries, journal.Entry{
		Seq: 9, Kind: journal.SignalReceived, Op: journal.Op{Name: "paid"}, At: at(9),
		Data: []byte(`1`),
		Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{To: "ord-43", Message: "pay-2"},
			Due:           at(99),
		},
	})
}

// goldenChain is a run that waits for one thing of each kind, and continues as new.
func goldenChain() []journal.Entry {
	op := func(name string) journal.Op { return journal.Op{Name: name, Occ: 1} }
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`{"month":1}`),
			Detail: &journal.Detail{
				CodeDetail: journal.CodeDetail{Build: "b1"},
				StartDetail: journal.StartDetail{
					Headers:    map[string]string{"trace": "0a"},
					Attributes: map[string]string{"region": "eu", "plan": "free"},
				},
			},
		},
		{Kind: journal.VersionMarked, Op: op("with-mail"), Detail: &journal.Detail{Version: 2}},
		{
			Kind: journal.TimerRegistered, Status: journal.Waiting, Op: op("pause"),
			Detail: &journal.Detail{Due: at(3)},
		},
		{Kind: journal.TimerFired, Status: journal.Running, Op: op("pause")},
		{Kind: journal.TimerRegistered, Op: op("reminder"), Detail: &journal.Detail{Due: at(3600)}},
		{Kind: journal.TimerRegistered, Op: op("trial"), Detail: &journal.Detail{Due: at(7200)}},
		{Kind: journal.ChildStarted, Op: op("pack"), Detail: &journal.Detail{Other: "db-1-2"}},
		{
			Kind: journal.WaitStarted, Status: journal.Waiting, Op: op("paid"),
			Detail: &journal.Detail{Due: at(600)},
		},
		{
			Kind: journal.ChildCompleted, Op: op("pack"), Data: []byte(`"box 3"`),
			Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 1, Message: "db-1-2"},
				Other:         "db-1-2",
				Outcome:       journal.Completed,
			},
		},
		{
			Kind: journal.SignalConsumed, Status: journal.Running, Op: op("paid"),
			Data: []byte(`{"cents":12}`), Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 2, Message: "pay-1"},
			},
		},
		{Kind: journal.PayloadSet, Data: []byte(`{"month":1,"paid":true}`)},
		{Kind: journal.AttributeSet, Op: journal.Op{Name: "plan"}},
		{Kind: journal.AttributeSet, Op: journal.Op{Name: "paid"}, Data: []byte("yes")},
		{Kind: journal.StatePublished, Op: journal.Op{Name: "progress"}, Data: []byte(`50`)},
		{Kind: journal.TimerCancelled, Op: op("reminder"), Detail: &journal.Detail{
			MessageDetail: journal.MessageDetail{Mail: 3},
		}},
		{
			Kind: journal.DecisionSought, Status: journal.Suspended, Op: op("review"),
			Detail: &journal.Detail{Reason: "odd amount", Choices: []string{"retry", "skip"}},
		},
		{
			Kind: journal.SignalConsumed, Status: journal.Running, Op: op("review"),
			Data: []byte(`"by hand"`), Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 4},
				Reason:        "skip",
			},
		},
		{
			Kind: journal.WaitStarted, Status: journal.Waiting, Op: op("refund"),
			Detail: &journal.Detail{Due: at(20)},
		},
		{Kind: journal.WaitEnded, Status: journal.Running, Op: op("refund")},
		{Kind: journal.StatePublished, Op: journal.Op{Name: "progress"}, Data: []byte(`100`)},
		{Kind: journal.RunContinued, Status: journal.ContinuedAsNew, Detail: &journal.Detail{
			Other: "db-1-3",
		}},
	})
}

// goldenSuccessor goes on after goldenChain, and is cancelled while it waits.
func goldenSuccessor() []journal.Entry {
	cancelled := &journal.Failure{Message: "cancelled: customer", Code: journal.CodeCancelled}
	return numbered([]journal.Entry{
		{
			Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`{"month":2}`),
			Detail: &journal.Detail{
				CodeDetail: journal.CodeDetail{Build: "b1"},
				Other:      "db-1-1",
				StartDetail: journal.StartDetail{
					Began:      at(0),
					Ended:      at(20),
					Headers:    map[string]string{"trace": "0a"},
					Attributes: map[string]string{"region": "eu", "paid": "yes"},
				},
			},
		},
		{
			Kind:   journal.TimerRegistered,
			Op:     journal.Op{Name: "trial", Occ: 1},
			Detail: &journal.Detail{Due: at(7200)},
		},
		{Kind: journal.CleanupPlanned, Op: journal.Op{Name: "unlock", Occ: 1}},
		{
			Kind: journal.EventEmitted,
			Op:   journal.Op{Name: "month", Occ: 1},
			Data: []byte(`2`),
			Detail: &journal.Detail{
				EventDetail: journal.EventDetail{Event: "month.began"},
				Tell:        true,
			},
		},
		{Kind: journal.WaitStarted, Status: journal.Waiting, Op: journal.Op{Name: "paid", Occ: 1}},
		{
			Kind: journal.RunClosing, Status: journal.Running,
			Detail: &journal.Detail{
				MessageDetail: journal.MessageDetail{Mail: 5},
				Reason:        "customer",
				Failure:       cancelled,
				Outcome:       journal.Cancelled,
			},
		},
		{Kind: journal.WaitEnded, Op: journal.Op{Name: "paid", Occ: 1}, Detail: &journal.Detail{
			Failure: cancelled, ByWait: true,
		}},
		{Kind: journal.StepCompleted, Op: journal.Op{Scope: 3, Name: "release", Occ: 1}},
		{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{
			Reason: "customer", Failure: cancelled, Tell: true,
		}},
	})
}

// goldenMended has a run that goes on from a failed one after its step was skipped, and that is
// terminated.
func goldenMended() []journal.Entry {
	return numbered([]journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Pending, Data: []byte(`2`),
			Detail: &journal.Detail{
				By: "ada", Reason: "paid by hand",
				CodeDetail: journal.CodeDetail{Build: "b1"},
				StartDetail: journal.StartDetail{
					Retried: "db-1-1", Keys: "db-1-1", Action: journal.ActionSkip, From: "charge",
				},
			}},
		{Kind: journal.StepCompleted, Op: journal.Op{Name: "reserve", Occ: 1}, Data: []byte(`1`),
			Detail: &journal.Detail{StepDetail: journal.StepDetail{Undo: true}}},
		{Kind: journal.StepCompleted, Op: journal.Op{Name: "charge", Occ: 1}, Data: []byte(`9`),
			Detail: &journal.Detail{
				By: "ada", Reason: "paid by hand",
				StepDetail: journal.StepDetail{Skipped: true},
			}},
		{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{
			By: "bob", Reason: "a mistake",
			MessageDetail: journal.MessageDetail{Mail: 1, Mode: journal.ActionTerminate},
		}},
	})
}

// goldenVisits has the visits of a step machine: the first goes on after a signal was noticed, and
// takes it with its result; the second is cancelled with the run.
func goldenVisits() []journal.Entry {
	visit := func(occ int, key string) journal.Op {
		return journal.Op{Name: "review", Key: key, Occ: occ}
	}
	wait := journal.Op{Name: "wait.review", Occ: 1}
	return numbered([]journal.Entry{
		{Kind: journal.RunStarted, Status: journal.Running, Data: []byte(`2`)},
		{Kind: journal.StepCompleted, Op: visit(1, ""), Data: []byte(`{"state":1}`),
			Detail: &journal.Detail{StepDetail: journal.StepDetail{
				VisitDetail: journal.VisitDetail{Then: "SUSPEND", Seen: 3},
			}}},
		{Kind: journal.WaitStarted, Op: wait, Status: journal.Waiting},
		{Kind: journal.SignalNoticed, Op: wait, Status: journal.Running},
		{Kind: journal.SignalConsumed, Op: visit(2, ""), Detail: &journal.Detail{
			Reason:         "decided",
			VariableDetail: journal.VariableDetail{ByStep: true},
			MessageDetail:  journal.MessageDetail{Mail: 4},
		}},
		{Kind: journal.StepCompleted, Op: visit(2, ""), Data: []byte(`9`),
			Detail: &journal.Detail{StepDetail: journal.StepDetail{
				VisitDetail: journal.VisitDetail{GoesOn: true, Next: "review"},
			}}},
		{Kind: journal.StepCompleted, Op: visit(1, "2"), Data: []byte(`{"after":60}`),
			Detail: &journal.Detail{StepDetail: journal.StepDetail{
				VisitDetail: journal.VisitDetail{Then: "SLEEP"},
			}}},
		{Kind: journal.RunCancelled, Status: journal.Cancelled, Detail: &journal.Detail{
			Reason: "customer",
		}},
	})
}

// spec
func TestTheOperationsOfAVisitAreOneStep(t *testing.T) {
	a := newAggregate()
	type step struct {
		path   string
		status journal.StepStatus
		then   string
	}
	want := map[int]step{
		2: {"review", journal.StepIsRunning, "SUSPEND"},
		5: {"review", journal.StepIsRunning, "SUSPEND"},
		6: {"review", journal.StepIsDone, ""}, 7: {"review[2]", journal.StepIsRunning, "SLEEP"},
		8: {"review[2]", journal.StepIsCancelled, ""},
	}
	for i, e := range goldenVisits() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
		s := a.Snapshot()
		if w, ok := want[i+1]; ok {
			last := s.Steps[len(s.Steps)-1]
			if got := (step{last.Path, last.Status, last.Then}); got != w {
				t.Errorf("after entry %d: %+v, want %+v", i+1, got, w)
			}
		}
	}
	if n := len(a.Snapshot().Steps); n != 2 {
		t.Errorf("there are %d steps", n)
	}
}

// spec: R-40, B-8
func TestASnapshotHasTheOriginTheSkippedStepAndWhatIsNotUndone(t *testing.T) {
	a := newAggregate()
	for _, e := range goldenMended() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	s := a.Snapshot()
	if want := (journal.Origin{
		Run: "db-1-1", Action: journal.ActionSkip, Step: "charge", By: "ada",
		Reason: "paid by hand",
	}); s.Origin != want {
		t.Errorf("the origin is %+v, want %+v", s.Origin, want)
	}
	if step := s.Steps[1]; step.Status != journal.StepIsSkipped || step.By != "ada" ||
		step.Reason != "paid by hand" {
		t.Errorf("the skipped step is %+v", step)
	}
	if got := s.Undoable(); len(got) != 1 || got[0] != "reserve" {
		t.Errorf("not undone are %v, want reserve", got)
	}
	if s.By != "bob" || s.Mode != journal.ActionTerminate {
		t.Errorf("it was ended by %q with mode %q", s.By, s.Mode)
	}
}

// numbered sets the runs, sequences and times of the entries.
func numbered(entries []journal.Entry) []journal.Entry {
	for i := range entries {
		entries[i].Run, entries[i].Seq, entries[i].At = 137438953473, int64(i+1), at(i)
	}
	return entries
}

// spec: P-14
func TestGoldenJournals(t *testing.T) {
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", name)
			var written bytes.Buffer
			if err := journal.Write(&written, want); err != nil {
				t.Fatal(err)
			}
			stored, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) && *update {
				stored, err = written.Bytes(), os.WriteFile(path, written.Bytes(), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := journal.Read(bytes.NewReader(stored))
			if err != nil {
				t.Fatalf("an old journal cannot be read any more: %v", err)
			}
			if len(got) != len(want) {
				t.Fatalf("it has %d entries, want %d", len(got), len(want))
			}
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Errorf("entry %d now means something else:\n got %+v\nwant %+v", i+1, got[i],
						want[i])
				}
			}
			if !bytes.Equal(stored, written.Bytes()) {
				t.Errorf("entries are written differently now: raise journal.FormatVersion, keep "+
					"this file, add another\n got %s\nwant %s", written.Bytes(), stored)
			}
		})
	}
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(files) != len(golden) {
		t.Errorf("%d golden journals, %d of them are tested (%v)", len(files), len(golden), err)
	}
}

// spec: P-14
func TestGoldenJournalsHaveEveryKindStatusAndField(t *testing.T) {
	kinds, statuses, fields := map[journal.Kind]bool{}, map[journal.Status]bool{}, map[string]bool{}
	for name := range golden {
		f, err := os.Open(filepath.Join("testdata", "golden", name))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := journal.Read(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			kinds[e.Kind], statuses[e.Status] = true, true
			present(fields, e)
			present(fields, e.Op)
			if e.Detail != nil {
				present(fields, *e.Detail)
			}
			if f := e.Failure(); f != nil {
				present(fields, *f)
			}
		}
	}
	for _, k := range journal.Kinds() {
		if !kinds[k] {
			t.Errorf("no golden journal has the kind %v: add a file", k)
		}
	}
	for _, s := range journal.Statuses() {
		if !statuses[s] {
			t.Errorf("no golden journal has the status %v: add a file", s)
		}
	}
	for _, v := range []any{journal.Entry{}, journal.Op{}, journal.Detail{}, journal.Failure{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			if !typ.Field(i).IsExported() { // the stored form of another field
				continue
			}
			if name := typ.Name() + "." + typ.Field(i).Name; !fields[name] {
				t.Errorf("no golden journal has the field %s: add a file", name)
			}
		}
	}
}

// present notes the fields of a struct that are set.
func present(fields map[string]bool, v any) {
	val := reflect.ValueOf(v)
	for i := range val.NumField() {
		if !val.Field(i).IsZero() {
			fields[val.Type().Name()+"."+val.Type().Field(i).Name] = true
		}
	}
}

// spec: P-14, F-3
func TestWhatIsUndoneCountsWhereItWasDone(t *testing.T) {
	entries := goldenUndone()
	for restored := range entries {
		a := newAggregate()
		for i, e := range entries {
			if err := a.Apply(e); err != nil {
				t.Fatal(err)
			}
			if i == restored {
				a = journal.Restore(a.Snapshot())
			}
		}
		got := map[string]journal.Step{}
		for _, s := range a.Snapshot().Steps {
			got[s.Path] = s
		}
		for path, want := range map[string]journal.StepStatus{
			"order/charge": journal.StepIsCompensated, "order/reserve": journal.StepIsCompensated,
			"mail": journal.StepIsCompensationFailed,
		} {
			if got[path].Status != want || got[path].Ended.After(entries[5].At) {
				t.Errorf("restored at %d: %s is %v since %v, want %v", restored+1, path,
					got[path].Status, got[path].Ended, want)
			}
		}
		if n := got["order/charge"].Attempts; n != 2 {
			t.Errorf("restored at %d: the step had %d attempts, want 2", restored+1, n)
		}
		if len(got) != 8 {
			t.Errorf("restored at %d: there are %d steps and scopes: %v", restored+1, len(got), got)
		}
		if about := a.About(journal.Op{
			Scope: 7, Name: "undo:charge", Occ: 2,
		}); a.Path(about) != "order/undo:charge" {
			t.Errorf("restored at %d: the compensation is about %s", restored+1, a.Path(about))
		}
	}
}

// Steps of one name are undone each for itself.
//
// spec: B-25, P-14
func TestWhatOccursTwiceIsUndoneForEach(t *testing.T) {
	a := newAggregate()
	for _, e := range goldenEffect() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]journal.StepStatus{}
	for _, s := range a.Snapshot().Steps {
		got[s.Path] = s.Status
	}
	if got["pack"] != journal.StepIsCompensationFailed ||
		got["pack#2"] != journal.StepIsCompensated || got["pay"] != journal.StepIsFailed {
		t.Errorf("the steps are %v", got)
	}
	s := a.Snapshot()
	if left := s.Undoable(); !slices.Equal(left, []string{"pack"}) {
		t.Errorf("not undone are %q", left)
	}
	_, redone, err := journal.Reusable(goldenEffect())
	if !slices.Equal(redone, []string{"pack#2"}) || err != nil {
		t.Errorf("a retry does %q again, %v", redone, err)
	}
}

// spec: P-14
func TestGoldenOrderFolds(t *testing.T) {
	a := newAggregate()
	for _, e := range goldenOrder() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	s := a.Snapshot()
	got := map[string]journal.StepStatus{}
	for _, step := range s.Steps {
		got[step.Path] = step.Status
		if !step.Status.IsTerminal() {
			t.Errorf("step %s of an ended run is %s", step.Path, step.Status)
		}
	}
	want := map[string]journal.StepStatus{
		"reserve": journal.StepIsDone, "ship": journal.StepIsCancelled,
		"ship/label[a]": journal.StepIsDone,
		"mail":          journal.StepIsCancelled, "charge": journal.StepIsFailed,
	}
	if s.Status != journal.Failed || s.Failure.Message != "declined" ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("it is %v, %+v, with steps %v; want FAILED, declined, %v", s.Status, s.Failure,
			got, want)
	}
}

// spec: P-14, R-25, L-8
func TestGoldenChainFolds(t *testing.T) {
	a := newAggregate()
	var open []int // waits after each entry
	for _, e := range goldenChain() {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
		open = append(open, len(a.Snapshot().Waits))
	}
	if want := []int{
		0, 0, 1, 0, 1, 2, 3, 4, 3, 2, 2, 2, 2, 2, 1, 2, 1, 2, 1, 1, 0,
	}; !slices.Equal(open, want) {
		t.Errorf("the run has %v open waits, want %v", open, want)
	}
	want := journal.Snapshot{
		Run: "db-1-1", WorkflowID: "ord-42", Workflow: "order", Pattern: journal.PatternSaga,
		Status: journal.ContinuedAsNew, Seq: 21, Events: 21, Started: at(0), Last: at(20),
		Ended: at(20), Build: "b1",
		Payload: []byte(`{"month":1,"paid":true}`),
		Published: map[string]journal.Published{
			"progress": {Data: []byte("100"), Seq: 20, At: at(19)},
		},
		Attributes: map[string]string{"region": "eu", "paid": "yes"},
		Headers:    map[string]string{"trace": "0a"},
		Versions:   map[string]int{"with-mail": 2},
		Neighbours: journal.Neighbours{Successor: "db-1-3"},
	}
	if got := a.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// spec: P-14, R-25
func TestGoldenSuccessorFolds(t *testing.T) {
	a := journal.NewAggregate("db-1-3", "ord-42", "order", journal.PatternWorkflow)
	entries := goldenSuccessor()
	for _, e := range entries[:7] {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	trial := journal.Op{Name: "trial", Occ: 1}
	want := journal.Snapshot{
		Run: "db-1-3", WorkflowID: "ord-42", Workflow: "order",
		Status: journal.Running, Seq: 7, Events: 7, Started: at(0), Last: at(6), Build: "b1",
		Ending: journal.Cancelled,
		Cleanups: []journal.Cleanup{
			{Op: journal.Op{Name: "unlock", Occ: 1}, Path: "unlock", Opens: 3},
		},
		Waits: []journal.Wait{
			{Op: trial, Path: "trial", Kind: journal.WaitTimer, Since: at(1), Due: at(7200)},
		},
		Payload:    []byte(`{"month":2}`),
		Attributes: map[string]string{"region": "eu", "paid": "yes"},
		Headers:    map[string]string{"trace": "0a"},
		Neighbours: journal.Neighbours{
			Predecessor: "db-1-1", PredecessorStarted: at(0), PredecessorEnded: at(20),
		},
	}
	if got := a.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	a = journal.Restore(a.Snapshot())
	for _, e := range entries[7:] {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if s := a.Snapshot(); s.Status != journal.Cancelled || s.Reason != "customer" ||
		s.Waits != nil || len(s.Steps) != 1 || s.Steps[0].Path != "unlock/release" ||
		s.Ending != 0 {
		t.Errorf("it ended as %+v", s)
	}
}
