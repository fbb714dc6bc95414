package journal

import "time"

// WaitKind says what a run waits for.
type WaitKind string

// The kinds of waits.
const (
	WaitSignal   WaitKind = "signal"   // a message of the wait's name
	WaitTimer    WaitKind = "timer"    // the time Wait.Due, of a sleep or a timer
	WaitChild    WaitKind = "child"    // the end of the run Wait.Child
	WaitDecision WaitKind = "decision" // an operator, who decides one of Wait.Choices
)

// A Wait is what is still to come to a run: its code waits for it, or has asked
// for it and goes on.
type Wait struct {
	Op      Op
	Path    string // Op with the scopes it is in: branch/label
	Kind    WaitKind
	Since   time.Time
	Due     time.Time // of a timer; else when the wait is given up, zero for never
	Child   RunID     // the run it waits for
	Choices []string  // what the operator may decide
	Reason  string    // why he is asked
}

// ChildDetached is the policy (Detail.Policy) of a child whose parent never hears
// of its end, and so does not wait for it.
const ChildDetached = "detached"

// waitBegins says what an entry of a kind begins to wait for.
var waitBegins = map[Kind]WaitKind{
	WaitStarted: WaitSignal, TimerRegistered: WaitTimer, ChildStarted: WaitChild,
	DecisionSought: WaitDecision,
}

// waitEnds says which kinds of waits an entry of a kind ends, where they are of
// its operation. A wait for a child ends with a WaitEnded where the code has given
// the child up.
var waitEnds = map[Kind]map[WaitKind]bool{
	SignalConsumed: {WaitSignal: true, WaitDecision: true},
	WaitEnded:      {WaitSignal: true, WaitDecision: true, WaitChild: true},
	TimerFired:     {WaitTimer: true},
	TimerCancelled: {WaitTimer: true},
	ChildCompleted: {WaitChild: true},
}

// openWaits has the waits that have not ended, in the order in which they began.
// A wait begins and ends in constant time, also beside many others.
type openWaits struct {
	list []Wait     // ended ones have no kind
	byOp map[Op]int // of those that have not ended
}

func (w *openWaits) begin(wait Wait) {
	w.end(wait.Op)
	if w.byOp == nil {
		w.byOp = map[Op]int{}
	}
	w.byOp[wait.Op] = len(w.list)
	w.list = append(w.list, wait)
}

// kind says what the operation waits for; empty where it does not wait.
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

// open gives the waits that have not ended; nil without.
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
	wait := Wait{Op: e.Op, Path: a.path(e.Op), Kind: kind, Since: e.At, Due: d.Due}
	switch kind {
	case WaitChild:
		wait.Child = d.Other
	case WaitDecision:
		wait.Reason, wait.Choices = d.Reason, append([]string(nil), d.Choices...)
	}
	a.waits.begin(wait)
}
