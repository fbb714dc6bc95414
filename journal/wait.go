package journal

import "time"

// A WaitKind is the kind of thing that a run waits for.
type WaitKind string

// The kinds of waits.
const (
	// a message of the wait's name; or, of a step of a machine, any signal
	WaitSignal   WaitKind = "signal"
	WaitTimer    WaitKind = "timer"    // the time Wait.Due, of a sleep or a timer
	WaitChild    WaitKind = "child"    // the end of the run Wait.Child
	WaitDecision WaitKind = "decision" // an operator, who decides one of Wait.Choices
	WaitSlot     WaitKind = "slot"     // a slot of the limit Wait.Reason
	// the next attempt of a step, at Wait.Due; not in a Snapshot, whose steps show it
	WaitRetry WaitKind = "retry"
)

// A Wait is something that a run expects: its code waits for it, or has asked for it and goes on.
type Wait struct {
	Op      Op
	Path    string // Op with the scopes it is in: branch/label
	Kind    WaitKind
	Since   time.Time
	Due     time.Time // when a timer is due; else when the wait is given up, zero for never
	Child   RunID     // the run it waits for
	Choices []string  // the decisions that the operator may take
	// the reason why the operator is asked; the name of a limit; or ReasonAnySignal
	Reason string
}

// ReasonAnySignal is the reason of a wait for a signal of any name, which takes none: a step of a
// machine has suspended.
const ReasonAnySignal = "any signal"

// ChildDetached is the policy (Detail.Policy) of a child whose parent never learns of its end and
// does not wait for it.
const ChildDetached = "detached"

// CallbackName is the name of a wait for an answer of somebody outside. Its key, and that of the
// answer, is the path of the callback.
const CallbackName = "perdure:callback"

// waitBegins has the kind of wait that an entry of a kind begins.
var waitBegins = map[Kind]WaitKind{
	WaitStarted: WaitSignal, TimerRegistered: WaitTimer, ChildStarted: WaitChild,
	DecisionSought: WaitDecision, SlotAsked: WaitSlot, StepHeld: WaitSlot,
}

// waitEnds has the kinds of waits that an entry of a kind ends for its operation. A WaitEnded ends
// a wait for a child that the code has given up.
var waitEnds = map[Kind]map[WaitKind]bool{
	SignalConsumed: {WaitSignal: true, WaitDecision: true},
	SignalNoticed:  {WaitSignal: true},
	WaitEnded: {
		WaitSignal: true, WaitDecision: true, WaitChild: true, WaitSlot: true,
	},
	SlotTaken: {WaitSlot: true},
	// of the attempt that waited for a token
	StepStarted: {WaitSlot: true}, StepRetrying: {WaitSlot: true}, StepCompleted: {WaitSlot: true},
	StepFailed: {WaitSlot: true}, StepTimedOut: {WaitSlot: true}, StepCancelled: {WaitSlot: true},
	TimerFired:     {WaitTimer: true},
	TimerCancelled: {WaitTimer: true},
	ChildCompleted: {WaitChild: true},
}

// openWaits has the waits that have not ended, in the order in which they began. A wait begins and
// ends in constant time, however many others there are.
type openWaits struct {
	list []Wait     // ended waits have no kind
	byOp map[Op]int // index in list of waits that have not ended
}

func (w *openWaits) begin(wait Wait) {
	w.end(wait.Op)
	if w.byOp == nil {
		w.byOp = map[Op]int{}
	}
	w.byOp[wait.Op] = len(w.list)
	w.list = append(w.list, wait)
}

// kind returns the kind of wait that the operation is in; empty if it does not wait.
func (w *openWaits) kind(op Op) WaitKind {
	if i, ok := w.byOp[op]; ok {
		return w.list[i].Kind
	}
	return ""
}

func (w *openWaits) end(op Op) {
	i, ok := w.byOp[op]
	if !ok {
		return
	}
	w.list[i] = Wait{}
	delete(w.byOp, op)
	if len(w.list) > 2*len(w.byOp) {
		w.list = w.open()
		for i := range w.list {
			w.byOp[w.list[i].Op] = i
		}
	}
}

// open returns the waits that have not ended; nil if there are none.
func (w *openWaits) open() []Wait {
	var out []Wait
	for i := range w.list {
		if w.list[i].Kind != "" {
			out = append(out, w.list[i])
		}
	}
	return out
}

func (a *Aggregate) applyWait(e *Entry, d *Detail) {
	if e.Kind.EndsRun() {
		a.waits = openWaits{}
		return
	}
	if waitEnds[e.Kind][a.waits.kind(e.Op)] {
		a.waits.end(e.Op)
		return
	}
	kind := waitBegins[e.Kind]
	if kind == "" || kind == WaitChild && d.Policy == ChildDetached {
		return
	}
	if e.Kind == StepHeld && d.Reason == "" { // the workflow was paused
		return
	}
	wait := Wait{Op: e.Op, Path: a.path(e.Op), Kind: kind, Since: e.At, Due: d.Due}
	switch kind {
	case WaitChild:
		wait.Child = d.Other
	case WaitSlot, WaitSignal:
		wait.Reason = d.Reason
	case WaitDecision:
		wait.Reason, wait.Choices = d.Reason, append([]string(nil), d.Choices...)
	}
	a.waits.begin(wait)
}
