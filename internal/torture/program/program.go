// Package program has programs of workflows: trees of operations that are generated from a seed,
// written as JSON, and can be shrunk; and the oracle, an interpreter without an engine that returns
// the required result of each program.
package program

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is the kind of an operation. Its ways are in [Ways].
type Kind string

// The kinds of operations.
const (
	Step     Kind = "step"
	Loop     Kind = "loop"
	Async    Kind = "async"
	Tx       Kind = "tx"
	Branches Kind = "branches"
	Shared   Kind = "shared"
	Blocked  Kind = "blocked"
	Nap      Kind = "nap"
	Wait     Kind = "wait"
	Gather   Kind = "gather"
	Child    Kind = "child"
	Park     Kind = "park"
	Read     Kind = "read"
	State    Kind = "state"
	Scope    Kind = "scope"
	Part     Kind = "part"
	Walk     Kind = "walk"
	Code     Kind = "code"
	Held     Kind = "held" // by a limit
	Callback Kind = "callback"
	Update   Kind = "update"
	Approval Kind = "approval"
	Broken   Kind = "broken"
)

// Ways has the ways in which each kind is done. A generator takes each of them.
var Ways = map[Kind][]string{
	Step: {
		"plain", "odd", "caught", "once", "big", "late", "parking", "unencodable", "announced",
		"around", "undo", "at-most-once", "says",
	},
	Loop:     {"keyed", "counted", "spread", "each", "batched"},
	Async:    {"await", "state", "cancel", "caught"},
	Tx:       {"plain", "big", "barrier", "start", "send", "fails", "panics", "locks"},
	Branches: {"await", "all", "any", "none", "completed", "set", "cancel"},
	Shared:   {"slept", "stepped", "busy"},
	Blocked:  {"mutex", "pipe"},
	Nap:      {"sleep", "until", "timer", "timerat", "cancel", "outside"},
	Wait: {
		"plain", "within", "before", "where", "future", "inbox", "latest", "hurry", "started",
		"where-odd",
	},
	Gather: {"plain"},
	Child:  {"await", "outcome", "detached", "ends", "cancel"},
	Park:   {"plain", "choices"},
	Read:   {"value", "value-odd", "now", "random", "version", "info", "ask", "errors"},
	State: {
		"variable", "key", "attribute", "payload", "publish", "status", "record", "emit", "letter",
	},
	Scope: {"plain", "stands"},
	Part: {
		"saga", "saga-bad", "saga-undone", "saga-keyed", "tcc", "tcc-bad", "tcc-park",
		"tcc-bad-park",
	},
	Walk:     {"plain", "limited"},
	Code:     {"panics", "retryable"},
	Held:     {"do", "acquire", "within", "rate", "child"},
	Broken:   {"plain", "child", "skip", "input"},
	Callback: {"succeed", "fail", "expire"},
	Update:   {"wait", "refuse", "serve"},
	Approval: {"approve", "reject", "quorum", "expire"},
}

// Odds are the ways in which the body of a step goes wrong before it succeeds.
var Odds = []string{
	"error", "panic", "goexit", "typed-nil", "panicking", "is", "unwrap", "retryable",
	"retry-after", "benign", "after", "hang",
}

// An Op is one operation. Its ID is unique in its program, that of children included.
type Op struct {
	ID     int     `json:"id"`
	Kind   Kind    `json:"kind"`
	Way    string  `json:"way"`
	N      int     `json:"n,omitempty"` // a number, depending on the kind
	Odd    string  `json:"odd,omitempty"`
	Bodies []Block `json:"bodies,omitempty"`
}

// A Block is a list of operations, done one after the other.
type Block []*Op

// A Program is the work of one run, of its children and of the runs that it continues as.
type Program struct {
	Seed     uint64   `json:"seed"`
	Workflow string   `json:"workflow"` // code, or the name of one of [Declarations]
	Body     Block    `json:"body,omitempty"`
	Deeds    []Deed   `json:"deeds,omitempty"`  // of a declaration
	Rounds   int      `json:"rounds,omitempty"` // how often it continues as new
	Clean    string   `json:"clean,omitempty"`  // finally, odd, cancel, or empty
	Start    string   `json:"start,omitempty"`  // see [Starts]
	End      string   `json:"end"`              // see [Ends]
	Acts     []string `json:"acts,omitempty"`   // acts of operators meanwhile: see [Acts]
	Then     []string `json:"then,omitempty"`   // orders when it has ended: see [Orders]
	Stuck    string   `json:"stuck,omitempty"`  // see [Stucks]
}

// Ends are the ways in which code ends.
var Ends = []string{"returns", "fails", "errs", "cancels", "ends"}

// Starts are the ways in which programs are started: by the type of the workflow or by its
// name, or with a signal, each also in a transaction, or with an update; the first one is by the
// type.
var Starts = []string{"", "tx", "name", "name-tx", "signal", "signal-tx", "update"}

// StartsInTx reports whether the program is started in a transaction.
func (p *Program) StartsInTx() bool { return p.Start == "tx" || strings.HasSuffix(p.Start, "-tx") }

// Acts are calls of operators on a run at any time. Only cancel and terminate change its result.
var Acts = []string{
	"suspend", "cancel", "look", "purge", "signal", "deliver", "letters", "terminate",
}

// IsCut reports whether an operator may end the run at any time.
func (p *Program) IsCut() bool {
	return slices.Contains(p.Acts, "cancel") || slices.Contains(p.Acts, "terminate")
}

// Orders are those of operators by which a declaration goes on when its run has ended: to undo it,
// to do a step again, and to do one again with an input by which it fails; and to go on with an
// input by which nothing fails any more.
var Orders = []string{"compensate", "fork", "fork-bad", "mended"}

// Stucks are the ways in which operators let a rollback go on that they have ordered, and that has
// stopped because compensations fail: they mend these and resume the run or decide to try again, or
// leave them broken and decide that they are handled, or skipped.
var Stucks = []string{"resume", "retry", "handled", "skip"}

// IsMended reports whether operators mend the compensations by which a rollback has stopped.
func (p *Program) IsMended() bool { return p.Stuck == "resume" || p.Stuck == "retry" }

// Decision returns the decision about the phase of a TCC that fails for good in an operation.
func (o *Op) Decision() string { return Decisions[o.N%len(Decisions)] }

// Skipped returns the output that an operator gives to a broken step.
func (o *Op) Skipped() int { return o.ID * 7 }

// Name returns the name of an operation in journals.
func (o *Op) Name() string { return string(o.Kind) + strconv.Itoa(o.ID) }

// Signal returns the name of the signal that an operation waits for in a round.
func (o *Op) Signal(round int) string { return fmt.Sprintf("s%d.%d", o.ID, round) }

// Asks returns the name under which an operation asks for a decision in a round.
func (o *Op) Asks(round int) string { return fmt.Sprintf("%s.%d", o.Name(), round) }

// Payload returns the payload of the i-th message of that signal.
func (o *Op) Payload(round, i int) int { return o.ID*10_000 + round*100 + i }

// ChildID returns the workflow ID of the child that an operation starts.
func (o *Op) ChildID(parent string, round int) string {
	return fmt.Sprintf("%s.%d.%d", parent, o.ID, round)
}

// Label returns the name of an effect in the outside world: the program, operation and round, and
// which effect of these.
func Label(instance string, id, round int, what string) string {
	return fmt.Sprintf("%s/%d.%d/%s", instance, id, round, what)
}

// All calls f for every operation, those in children and branches too.
func (b Block) All(f func(*Op)) {
	for _, o := range b {
		f(o)
		for _, body := range o.Bodies {
			body.All(f)
		}
	}
}

// Has reports whether an operation of a kind is in the program, done in that way; in any way if it
// is empty.
func (p *Program) Has(k Kind, way string) (found bool) {
	p.Body.All(func(o *Op) { found = found || o.Kind == k && (way == "" || o.Way == way) })
	return found
}

// Without returns the program without some operations, and whether anything was left
// out.
func (p *Program) Without(ids ...int) *Program {
	out := *p
	out.Body = p.Body.without(ids)
	return &out
}

func (b Block) without(ids []int) Block {
	var out Block
	for _, o := range b {
		if slices.Contains(ids, o.ID) {
			continue
		}
		c := *o
		c.Bodies = nil
		for _, body := range o.Bodies {
			c.Bodies = append(c.Bodies, body.without(ids))
		}
		out = append(out, &c)
	}
	return out
}
