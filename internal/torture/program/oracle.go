package program

import (
	"fmt"
	"slices"
	"strings"
)

// An Expect is the required result of a program.
type Expect struct {
	Ends     []string        // the statuses that its last run may end with
	Facts    []string        // the facts in its output, sorted; of a run that COMPLETED
	Effects  map[string]bool // by label: whether it must take place; others must not
	Messages []Message       // the messages that it waits for
	Mends    []string        // labels that an operator mends before resuming or retrying
	Children []string        // workflow IDs
	Retried  bool            // it FAILS first, and an operator mends and retries it
	Fork     []int           // by order: the step from which on the run is forked
	Undos    []string        // labels that an operator mends when a rollback has stopped
	Once     []string        // labels that are called once at most
	Asked    [][2]string     // workflow IDs, and the names of decisions that these ask for
	Output   string          // of a machine that has COMPLETED: its way
	Stalls   bool            // the rollback of a machine stops
}

// A Message is a signal, a decision or the cancel of a timer from outside.
type Message struct {
	To    string // a workflow ID
	Name  string
	What  string // signal, decide, timer, update, approve
	Value int
	// Choice is the choice of a decision; empty for yes.
	Choice string
	Mends  string // the label that the operator mends before deciding to try again
	Key    string
}

// An oracle interprets a program.
type oracle struct {
	Expect
	instance string
	round    int
	maybe    bool // the operations that follow may take place, or not
	upset    bool // the program does not simply return
	last     bool // it is the last round
}

// Foresee returns the required result of a program that is started under a workflow ID.
func Foresee(p *Program, instance string) Expect {
	o := &oracle{instance: instance, Expect: Expect{Effects: map[string]bool{}}}
	cancelled := p.IsCut()
	o.maybe = cancelled
	d, _ := DeclarationOf(p.Workflow)
	switch {
	case p.Workflow == "code":
		o.code(p)
	case d.IsMachine():
		o.machine(p, d)
	default:
		o.declared(p)
	}
	if cancelled {
		o.Ends = append(o.Ends, "CANCELLED")
		if p.IsTCC() {
			o.Ends = append(o.Ends, "CANCELED")
			if slices.ContainsFunc(p.Deeds, func(d Deed) bool { return d.Cancel == "skip" }) {
				o.Ends = append(o.Ends, "FAILED")
			}
		}
	}
	slices.Sort(o.Facts)
	return o.Expect
}

func (o *oracle) code(p *Program) {
	o.Retried = p.Has(Broken, "")
	o.upset = o.maybe || p.End != "returns"
	for o.round = range p.Rounds + 1 {
		o.Facts = nil // those of the last round count
		o.last = o.round == p.Rounds
		o.block(p.Body, o.instance)
	}
	o.round = p.Rounds
	switch p.End {
	case "returns":
		o.Ends = []string{"COMPLETED"}
	case "fails", "errs":
		o.Ends = []string{"FAILED"}
	case "cancels":
		o.Ends = []string{"CANCELLED"}
	case "ends":
		o.Ends = []string{"COMPENSATED"}
	}
	if p.Clean == "finally" || p.Clean == "odd" || p.Clean == "cancel" && p.End == "cancels" {
		o.must(Label(o.instance, 0, p.Rounds, "clean"))
	} else if p.Clean == "cancel" {
		o.may(Label(o.instance, 0, p.Rounds, "clean"))
	}
	for r := range p.Rounds { // a round that an operator cancels cleans up as well
		if o.maybe && p.Clean != "" {
			o.may(Label(o.instance, 0, r, "clean"))
		}
	}
}

func (o *oracle) must(label string) {
	o.Effects[label] = !o.maybe
}

func (o *oracle) may(label string) {
	if !o.Effects[label] {
		o.Effects[label] = false
	}
}

func (o *oracle) fact(op *Op, format string, args ...any) {
	o.Facts = append(o.Facts, fmt.Sprintf("%s ", op.Name())+fmt.Sprintf(format, args...))
}

func (o *oracle) send(to, name string, values ...int) {
	for i, v := range values {
		o.Messages = append(o.Messages, Message{
			To: to, Name: name, What: "signal", Value: v, Key: fmt.Sprintf("%s:%s:%d", to, name, i),
		})
	}
}

// label returns the label of an effect of an operation.
func (o *oracle) label(op *Op, what string) string {
	return Label(o.instance, op.ID, o.round, what)
}

// block interprets operations; id is the workflow ID of the run that does them.
func (o *oracle) block(b Block, id string) {
	for _, op := range b {
		o.op(op, id)
	}
}

// Does reports whether an operation makes a call under its plain label once, and nothing but its
// fact follows from it.
func (o *Op) Does() bool {
	switch o.Kind {
	case Step:
		return o.Way != "caught" && o.Way != "unencodable" && o.Way != "at-most-once"
	case Tx, Async:
		return o.Way != "caught" && o.Way != "cancel"
	case Code:
		return true
	}
	return false
}

func (o *oracle) op(op *Op, id string) {
	if op.Does() {
		o.must(o.label(op, "do"))
		o.fact(op, "done")
	}
	switch op.Kind {
	case Step, Async, Tx:
		o.step(op, id)
	case Loop, Shared, Walk:
		for i := range op.N {
			o.must(o.label(op, fmt.Sprint("do", i)))
		}
		if op.Kind == Loop && op.Way == "batched" {
			o.may(o.label(op, "bad"))
		}
		o.fact(op, "%d", op.N)
	case Blocked:
		for i := range 3 {
			o.must(o.label(op, fmt.Sprint("do", i)))
		}
		o.fact(op, "3")
	case Branches, Scope:
		o.bodies(op, id)
	case Nap:
		o.fact(op, "%s", map[bool]string{true: "cancelled", false: "woke"}[op.Way == "cancel" ||
			op.Way == "outside"])
		if op.Way == "outside" {
			o.Messages = append(o.Messages, Message{
				To: id, Name: op.Name(), What: "timer", Key: o.label(op, "timer"),
			})
		}
	case Wait, Gather:
		o.wait(op, id)
	case Child:
		o.child(op, id)
	case Park:
		o.Messages = append(o.Messages, Message{
			To: id, Name: op.Asks(o.round), What: "decide", Value: op.Payload(o.round, 0),
			Key: o.label(op, "decide"),
		})
		o.fact(op, "decided %d", op.Payload(o.round, 0))
	case Update:
		o.update(op, id)
	case Approval:
		o.approval(op, id)
	case Read, State:
		o.fact(op, "ok")
	case Part:
		o.part(op, id)
	case Held:
		o.held(op, id)
	case Callback:
		switch op.Way {
		case "succeed":
			o.fact(op, "got %d", op.Payload(o.round, 0))
		case "fail":
			o.fact(op, "failed")
		default:
			o.fact(op, "timed out")
		}
	case Broken:
		if op.Way == "skip" {
			o.fact(op, "skipped %d", op.Skipped())
			return
		}
		o.Mends = append(o.Mends, o.label(op, "do"))
		if op.Way == "child" {
			o.block(op.Bodies[0], op.ChildID(id, o.round))
			o.Children = append(o.Children, op.ChildID(id, o.round))
		}
		o.must(o.label(op, "do"))
		o.fact(op, "mended")
	}
}

func (o *oracle) step(op *Op, id string) {
	switch op.Way {
	case "caught", "unencodable":
		o.may(o.label(op, "do"))
		o.fact(op, "failed")
	case "at-most-once":
		o.may(o.label(op, "do"))
		o.Once = append(o.Once, o.label(op, "do"))
		o.fact(op, "tried")
	case "undo":
		o.undo(op, id)
	case "cancel":
		o.may(o.label(op, "do"))
		o.fact(op, "over")
	case "parking":
		o.Mends = append(o.Mends, o.label(op, "do"))
	case "start":
		o.must(o.label(op, "child"))
		o.Children = append(o.Children, op.ChildID(id, o.round))
	}
}

// undo interprets the Undo of a step: it must take place if the code ends the last round without
// success, and the step is in the run of the program.
func (o *oracle) undo(op *Op, id string) {
	switch {
	case o.maybe, o.upset && (id != o.instance || !o.last):
		o.may(o.label(op, "do-undo"))
	case o.upset:
		o.must(o.label(op, "do-undo"))
	}
}

func (o *oracle) bodies(op *Op, id string) {
	was := o.maybe
	for i, b := range op.Bodies {
		cancelled := op.Kind == Branches && op.Way == "cancel" && i == 0
		facts := slices.Clone(o.Facts)
		if cancelled {
			o.maybe = true
		}
		o.block(b, id)
		if cancelled {
			o.Facts, o.maybe = facts, was
		}
	}
	if op.Kind == Branches {
		o.fact(op, "gathered")
	}
}

func (o *oracle) wait(op *Op, id string) {
	v := op.Payload(o.round, 0)
	switch op.Way {
	case "within", "before", "hurry":
		o.fact(op, "timed out")
		return
	case "where", "where-odd":
		o.send(id, op.Signal(o.round), v+1, v) // the odd one stays
		o.fact(op, "got %d", v)
		return
	}
	if op.Kind == Gather {
		var all []int
		for i := range op.N + 1 {
			all = append(all, op.Payload(o.round, i))
		}
		o.send(id, op.Signal(o.round), all...)
		sum := 0
		for _, v := range all {
			sum += v
		}
		o.fact(op, "sum %d", sum)
		return
	}
	o.send(id, op.Signal(o.round), v)
	o.fact(op, "got %d", v)
}

func (o *oracle) child(op *Op, id string) {
	child := op.ChildID(id, o.round)
	o.Children = append(o.Children, child)
	facts, was := o.Facts, o.maybe
	o.Facts = nil
	if op.Way == "cancel" || op.Way == "ends" {
		o.maybe = true
	}
	o.block(op.Bodies[0], child)
	slices.Sort(o.Facts)
	mine := strings.Join(o.Facts, "; ")
	o.Facts, o.maybe = facts, was
	switch op.Way {
	case "await", "outcome":
		o.fact(op, "child {%s}", mine)
	default:
		o.fact(op, "%s", op.Way)
	}
}

// held interprets what waits for a slot or a token of a limit.
func (o *oracle) held(op *Op, id string) {
	switch op.Way {
	case "do", "acquire":
		o.must(o.label(op, "enter"))
		o.must(o.label(op, "leave"))
	case "within":
		o.may(o.label(op, "enter"))
		o.may(o.label(op, "leave"))
	case "rate":
		for i := range op.N {
			o.must(o.label(op, fmt.Sprint("do", i)))
		}
	case "child":
		o.must(o.label(op, "do"))
		o.Children = append(o.Children, op.ChildID(id, o.round))
	}
	o.fact(op, "ok")
}

func (o *oracle) part(op *Op, id string) {
	one := func(part, what string) { o.must(o.label(op, part+what)) }
	switch op.Way {
	case "saga", "saga-keyed":
		for _, part := range []string{"a", "b"} {
			one(part, "first")
			one(part, "second")
		}
	case "saga-bad", "saga-undone":
		one("a", "first")
		one("a", "first-undo")
		if op.Way == "saga-undone" {
			one("a", "second")
			one("a", "second-undo")
		}
	case "tcc":
		for _, what := range []string{"first", "second", "first-confirm", "second-confirm"} {
			one("a", what)
		}
	case "tcc-bad":
		one("a", "first")
		one("a", "first-cancel")
	case "tcc-park", "tcc-bad-park":
		o.parkedPart(op, id)
	}
	o.fact(op, "%s", op.Way)
	if !o.upset && !o.maybe {
		return
	}
	// the operation around it ends otherwise, and so may this one
	for _, part := range []string{"a", "b"} {
		for _, what := range []string{"first", "second"} {
			for _, then := range []string{"", "-undo", "-confirm", "-cancel"} {
				o.may(o.label(op, part+what+then))
			}
		}
	}
}

// update interprets the taking of updates. One that is refused has an odd number.
func (o *oracle) update(op *Op, id string) {
	v := op.Payload(o.round, 0) * 2
	all := []int{v}
	if op.Way == "refuse" {
		all = []int{v + 1, v}
	}
	for i, v := range all {
		name := op.Signal(o.round)
		o.Messages = append(o.Messages, Message{
			To: id, Name: name, What: "update", Value: v,
			Key: fmt.Sprintf("%s:%s:%d", id, name, i),
		})
	}
	o.fact(op, "got %d", v)
}

// approval interprets an ask. Two of three approve what has a quorum.
func (o *oracle) approval(op *Op, id string) {
	choices := map[string][]string{
		"approve": {"yes"}, "reject": {"no"}, "quorum": {"yes", "no", "yes"},
	}[op.Way]
	for i, choice := range choices {
		name := op.Asks(o.round)
		o.Messages = append(o.Messages, Message{
			To: id, Name: name, What: "approve", Choice: choice,
			Key: fmt.Sprintf("%s:%s:%d", id, name, i),
		})
	}
	switch op.Way {
	case "reject":
		o.fact(op, "rejected")
	case "expire":
		o.fact(op, "expired")
	default:
		o.fact(op, "approved")
	}
}
