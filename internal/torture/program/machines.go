package program

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// Calls are the actions of the steps of machines before their last one: to wait in some way, to
// start a child, to be tried again.
var Calls = []string{"yield", "sleep", "late", "wake", "take", "child", "ask", "decide",
	"retry"}

// Lasts are the last actions: to complete, to fail, to return an error, to split, to continue as
// new, and to wait until another step is next.
var Lasts = []string{"", "fail", "error", "split", "again", "late"}

// Visits is the limit of machines on visits of a step.
const Visits = 3

// Item is the name of the signals that machines take as they come.
const Item = "item"

// A Course is the part of the output of a machine's step that shows the way to it.
type Course struct {
	Trail  string `json:"trail"` // the steps before, by number, with the branches
	Sum    int    `json:"sum"`
	Items  []int  `json:"items,omitempty"`  // the signals that were taken
	Number int64  `json:"number,omitempty"` // of the effect of the last step
}

// Then returns the course after a step.
func (f Course) Then(step, calls int) Course {
	f.Trail += "." + strconv.Itoa(step)
	f.Sum += 1 + calls
	return f
}

// Branch returns the course of the i-th branch of a split.
func (f Course) Branch(i int) Course {
	return Course{Trail: f.Trail + "(" + BranchName(i), Sum: f.Sum + i}
}

// Joined returns the course after the branches of a split.
func Joined(all ...Course) (f Course) {
	for _, b := range all {
		f.Trail, f.Sum = b.Trail[:strings.LastIndexByte(b.Trail, '(')]+"+", f.Sum+b.Sum
		f.Items = append(f.Items, b.Items...)
	}
	return f
}

// BranchName returns the name of the i-th branch.
func BranchName(i int) string { return string(rune('a' + i)) }

// Visit returns the label of the effect of a visit: do or undo.
func (f Course) Visit(instance string, step, round int, what string) string {
	return Label(instance, step, round, what+f.Trail)
}

// Of returns a name that a call of a visit has for itself, as a label and as a name.
func Of(visit string, call int) (label, name string) {
	h := fnv.New64()
	_, _ = fmt.Fprint(h, visit, " ", call)
	return fmt.Sprint(visit, ":", call), fmt.Sprintf("c%x", h.Sum64())
}

// To returns the step that a sum chooses; -1 for the end.
func (d Deed) To(sum int) int {
	if len(d.Next) == 0 {
		return -1
	}
	return d.Next[sum%len(d.Next)]
}

// Ends reports whether the last action of a deed continues the run as new, for a course.
func (d Deed) Ends(round int, f Course) bool {
	return d.Last == "again" && round == 0 && !strings.Contains(f.Trail, "(")
}

// IsMachine reports whether the declaration is a machine.
func (d Declaration) IsMachine() bool { return d.Pattern == "machine" }

// Catches reports whether a machine goes on with its last step after any failure.
func (d Declaration) Catches() bool { return d.Name == "machine-catching" }

// machine makes the deeds of a machine that has one possible end.
func (m *maker) machine(p *Program, d Declaration) {
	for {
		p.Deeds = make([]Deed, len(d.Steps))
		sticks := false
		for i := range p.Deeds {
			p.Deeds[i] = m.state(i, len(d.Steps))
			if d.Steps[i].Way == "do" {
				p.Deeds[i] = Deed{Next: p.Deeds[i].Next}
			}
			p.Deeds[i].UndoBroken = d.Steps[i].Undo && m.IntN(8) == 0
			sticks = sticks || p.Deeds[i].UndoBroken
		}
		if sticks {
			p.Stuck = Stucks[m.IntN(len(Stucks))]
		}
		if w := (&oracle{Expect: Expect{Effects: map[string]bool{}}}).machine(p, d); !w.vague {
			return
		}
		p.Stuck = ""
	}
}

// state makes the deed of one of n steps.
func (m *maker) state(i, n int) (d Deed) {
	for range m.IntN(3) {
		d.Calls = append(d.Calls, Calls[m.IntN(len(Calls))])
	}
	if m.IntN(5) == 0 {
		d.Fails, d.Odd = 1+m.IntN(2), m.odd()
	}
	for range 1 + m.IntN(2) {
		to := i + 1 + m.IntN(2)
		if m.IntN(8) == 0 {
			to = m.IntN(n)
		}
		if to >= n {
			to = -1
		}
		d.Next = append(d.Next, to)
	}
	switch m.IntN(8) {
	case 0, 1, 2:
		d.Last = Lasts[m.IntN(len(Lasts))]
	case 3:
		d.Last = "split"
	}
	if i+1 == n && (d.Last == "late" || d.Last == "split") {
		d.Last = ""
	}
	for d.Last == "split" && len(d.Branches) < 1+m.IntN(3) {
		d.Branches = append(d.Branches, i+1+m.IntN(n-i-1))
	}
	return d
}

// order makes the order of an operator to undo a machine that has completed.
func (p *Program) order(d Declaration) []string {
	o := &oracle{Expect: Expect{Effects: map[string]bool{}}}
	w := o.machine(p, d)
	stops := slices.ContainsFunc(w.done, func(v visited) bool {
		return !v.maybe && p.Deeds[v.step].UndoBroken
	})
	surely := slices.ContainsFunc(w.done, func(v visited) bool { return !v.maybe })
	if p.IsCut() || w.fault != nil || !surely || p.Stuck != "" && !stops {
		return nil
	}
	return []string{"compensate"}
}

// A walk interprets a machine.
type walk struct {
	*oracle
	p      *Program
	d      Declaration
	done   []visited // what can be undone, by completion; in no order over branches
	fault  *fault    // how the machine fails
	again  bool
	vague  bool // it has more than one possible end, or is too large
	visits int
}

// A visited is a visit that can be undone.
type visited struct {
	step  int
	label string // of its compensation
	maybe bool   // it has not taken place for certain
}

// A fault is a failure for good.
type fault struct {
	step int
	in   Course
	last string
}

// A route is the way of a run or branch through a machine.
type route struct {
	*walk
	above  *route
	visits map[int]int
	done   []visited
	labels []string
}

// machine foresees a machine.
func (o *oracle) machine(p *Program, d Declaration) *walk {
	w := &walk{oracle: o, p: p, d: d}
	for o.round = 0; ; o.round++ {
		r := &route{walk: w, visits: map[int]int{}}
		w.again = false
		out, f := r.from(0, Course{})
		for last := len(d.Steps) - 1; f != nil && d.Catches() && f.step != last; {
			out, f = r.from(last, f.in)
		}
		w.done, w.fault = r.done, f
		o.Output = out.Trail + " " + strconv.Itoa(out.Sum)
		if !w.again {
			break
		}
		o.undone(w, false) // an operator may cancel it
	}
	o.Ends = []string{"COMPLETED"}
	if w.fault != nil {
		o.Ends = o.undone(w, true)
	}
	o.undone(w, false)
	for i, order := range p.Then {
		o.Fork = append(o.Fork, i)
		if order == "compensate" {
			o.Ends = o.undone(w, true)
		}
	}
	return w
}

// undone foresees the rollback of a machine, and returns how it may end. If it does not happen for
// certain, its effects are only possible.
func (o *oracle) undone(w *walk, happens bool) (ends []string) {
	surely, left := false, false
	for _, v := range w.done {
		broken := w.p.Deeds[v.step].UndoBroken
		switch {
		case broken && !w.p.IsMended():
			left = left || w.p.Stuck == "skip"
		case happens && !v.maybe:
			o.must(v.label)
		case happens || o.maybe:
			o.may(v.label)
		}
		surely = surely || !v.maybe
		if broken && !slices.Contains(o.Undos, v.label) {
			o.Undos = append(o.Undos, v.label)
		}
		o.Stalls = o.Stalls || broken && happens && !v.maybe && !o.maybe
	}
	if len(w.done) > 0 {
		ends = append(ends, "COMPENSATED")
	}
	if left || !surely {
		ends = append(ends, "FAILED")
	}
	if left && o.Stalls {
		ends = []string{"FAILED"}
	}
	return ends
}

// from goes from step to step.
func (r *route) from(at int, in Course) (Course, *fault) {
	for {
		next, out, f := r.visit(at, in)
		switch way := r.d.Steps[at].Way; {
		case r.vague || r.again:
			return out, nil
		case f == nil && next < 0:
			return out, nil
		case f == nil:
			at, in = next, out
		case f.step == at && f.last != "split" &&
			(way == "caught" || way == "meant" && f.last == "error"):
			at++
		default:
			return out, f
		}
	}
}

func (r *route) visit(at int, in Course) (next int, out Course, f *fault) {
	d, n, depth := r.p.Deeds[at], 0, 0
	r.visits[at]++
	for up := r; up != nil; up = up.above {
		n, depth = n+up.visits[at], depth+1
	}
	if r.walk.visits++; r.walk.visits > 40 || depth > 3 {
		r.vague = true
		return -1, in, nil
	}
	if n > Visits {
		return 0, in, &fault{at, in, "limit"}
	}
	label := in.Visit(r.instance, at, r.round, "do")
	_, known := r.Effects[label]
	r.vague = r.vague || known
	r.does(label)
	for i, call := range d.Calls {
		mine, name := Of(label, i)
		switch call {
		case "wake":
			r.send(r.instance, name, 1)
		case "take":
			r.Messages = append(r.Messages, Message{
				To: r.instance, Name: Item, What: "signal", Value: len(r.Messages),
				Key: r.instance + ":" + name,
			})
		case "decide":
			r.Messages = append(r.Messages, Message{
				To: r.instance, Name: name, What: "approve", Choice: "yes",
				Key: r.instance + ":" + name,
			})
		case "child":
			r.does(mine)
		}
	}
	out = in.Then(at, len(d.Calls))
	back := visited{step: at, label: in.Visit(r.instance, at, r.round, "undo")}
	switch {
	case d.Last == "fail" || d.Last == "error":
		return 0, out, &fault{at, in, d.Last}
	case d.Last == "late":
		return at + 1, in, nil
	case d.Ends(r.round, in):
		r.again = true
		return -1, out, nil
	}
	if r.d.Steps[at].Undo {
		r.done = append(r.done, back)
	}
	if d.Last == "split" {
		out, f = r.split(d, out)
		return d.To(0), out, f
	}
	return d.To(out.Sum), out, nil
}

func (r *route) does(label string) {
	r.must(label)
	r.labels = append(r.labels, label)
}

// split foresees the branches of a split. If the machine goes on after the failure of one, the
// others are cut off somewhere.
func (r *route) split(d Deed, in Course) (Course, *fault) {
	var all []*route
	var outs []Course
	var failed []*fault
	for i, at := range d.Branches {
		b := &route{walk: r.walk, above: r, visits: map[int]int{}}
		out, f := b.from(at, in.Branch(i))
		if r.vague {
			return in, nil
		}
		if f != nil {
			failed = append(failed, f)
		}
		all, outs = append(all, b), append(outs, out)
	}
	caught := len(failed) > 0 && r.d.Catches() && failed[0].step != len(r.d.Steps)-1
	r.vague = r.vague || r.d.Catches() && len(failed) > 1
	for _, b := range all {
		for _, label := range b.labels {
			if caught {
				r.Effects[label] = false
			}
		}
		for _, v := range b.done {
			v.maybe = v.maybe || caught
			r.done = append(r.done, v)
		}
		r.labels = append(r.labels, b.labels...)
	}
	if len(failed) > 0 {
		return in, &fault{failed[0].step, failed[0].in, "split"}
	}
	return Joined(outs...), nil
}
