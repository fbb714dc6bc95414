package program

import (
	"fmt"
	"slices"
	"strconv"
)

// tcc foresees a TCC, or a composition of TCCs of one participant each. It returns the participants
// that have tried.
func (o *oracle) tcc(p *Program, d Declaration) (tried []int) {
	o.Ends = []string{"CONFIRMED"}
	do := func(i int, what string) (fails bool) {
		stuck := p.Deeds[i].Stuck(what)
		if stuck == "" || stuck == "retry" {
			o.must(Label(o.instance, i, o.round, what))
		}
		o.asks(p, d, i, what, !o.maybe)
		return stuck == "skip"
	}
	var all [][]int // the participants that try before any of them confirms
	for i := range d.Steps {
		if d.Pattern == "tccs" || i == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], i)
	}
	bad := false
	for _, member := range all {
		first := len(tried)
		for _, i := range member {
			switch {
			case bad:
			case p.Deeds[i].Bad:
				bad = d.Steps[i].Way != "optional"
			default:
				do(i, "do")
				tried = append(tried, i)
			}
		}
		if bad {
			break
		}
		for _, i := range tried[first:] { // all at once
			bad = do(i, "confirm") || bad
		}
		if bad {
			break
		}
	}
	if bad {
		o.Ends = []string{"CANCELED"}
	}
	for _, i := range tried {
		if bad && do(i, "cancel") {
			o.Ends = []string{"FAILED"}
		}
	}
	for i := range d.Steps {
		for _, what := range []string{"confirm", "cancel"} {
			o.asks(p, d, i, what, false)
		}
	}
	if o.maybe {
		o.mayAll(d)
	}
	return tried
}

// asks adds the decision about a phase that fails for good, once.
func (o *oracle) asks(p *Program, d Declaration, i int, phase string, must bool) {
	name := phase + ":step" + strconv.Itoa(i)
	if d.Pattern == "tccs" {
		name = phase + ":m" + strconv.Itoa(i) + ".step" + strconv.Itoa(i)
	}
	choice := p.Deeds[i].Stuck(phase)
	if choice == "" {
		return
	}
	if !slices.ContainsFunc(o.Messages, func(m Message) bool { return m.Name == name }) {
		o.Messages = append(o.Messages, Message{
			To: o.instance, Name: name, What: "decide", Choice: choice, Key: o.instance + name,
			Mends: Label(o.instance, i, o.round, phase),
		})
	}
	if must {
		o.Asked = append(o.Asked, [2]string{o.instance, name})
	}
}

// parkedPart foresees a TCC of two participants that is part of the code. The confirm of the second
// one fails for good or, if that does not try, the cancel of the first one.
func (o *oracle) parkedPart(op *Op, id string) {
	does, who, phase := []string{"first", "second", "first-confirm"}, "second", "confirm"
	if op.Way == "tcc-bad-park" {
		does, who, phase = []string{"first"}, "first", "cancel"
	}
	label := o.label(op, "a"+who+"-"+phase)
	switch choice := op.Decision(); {
	case choice == "retry":
		does = append(does, who+"-"+phase)
	case choice == "skip" && phase == "confirm":
		does = append(does, "first-cancel", "second-cancel")
	}
	for _, what := range does {
		o.must(o.label(op, "a"+what))
	}
	name := fmt.Sprintf("%s:part-tcc-park.%d.%s", phase, op.ID, who)
	o.Messages = append(o.Messages, Message{
		To: id, Name: name, What: "decide", Choice: op.Decision(), Mends: label, Key: label,
	})
	if !o.maybe && !o.upset {
		o.Asked = append(o.Asked, [2]string{id, name})
	}
}
