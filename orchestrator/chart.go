package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A Chart is a state machine that is declared: its states, and the transitions between them on
// events. C is the data that it keeps beside its state. Its method Handle is the handler of a
// [Version]. Guards and actions see the event as t.Event, and emit with t.
type Chart[C any] struct {
	// Start is the state that a new instance enters. Its first event is over then.
	Start  string
	States map[string]ChartState[C]
}

// A ChartState is one state of a [Chart].
type ChartState[C any] struct {
	// Entry is called when the state is entered; nil for nothing.
	Entry func(ctx context.Context, t *Turn, c *C) error
	// On has the transitions by the type of the event. The first one whose guard holds is taken. An
	// event without one changes nothing.
	On map[string][]Transition[C]
	// Always are tried after the entry, without an event.
	Always []Transition[C]
	// Final ends the instance after the entry.
	Final bool
}

// A Transition goes from one state to another one.
type Transition[C any] struct {
	Guard func(t *Turn, c *C) bool // nil holds always
	Do    func(ctx context.Context, t *Turn, c *C) error
	To    string // empty means that the state stays, and is not entered again
}

// A place is the stored state of an instance of a chart.
type place[C any] struct {
	At   string `json:"at"`
	Data C      `json:"data"`
}

// maxMoves limits the transitions of one event: a chart that has more goes round in a circle.
const maxMoves = 100

// Handle moves an instance on an event.
func (ch Chart[C]) Handle(ctx context.Context, t *Turn) error {
	var p place[C]
	found, err := t.State(&p)
	if err != nil {
		return err
	}
	if !found {
		err = ch.enter(ctx, t, &p, ch.Start)
	} else if s, is := ch.States[p.At]; is {
		err = ch.take(ctx, t, &p, s.On[t.Event.Type])
	} else {
		err = noState(p.At)
	}
	if err != nil {
		return err
	}
	for moves := 0; !ch.States[p.At].Final; moves++ {
		always := ch.States[p.At].Always
		i := open(t, &p.Data, always)
		if i < 0 {
			break
		}
		if moves == maxMoves {
			return fmt.Errorf("state %s: more than %d transitions on one event", p.At, maxMoves)
		}
		if err := ch.take(ctx, t, &p, always[i:i+1]); err != nil {
			return err
		}
	}
	if ch.States[p.At].Final {
		t.Finish()
	}
	return t.Become(p)
}

// open returns the index of the first transition whose guard holds; -1 for none.
func open[C any](t *Turn, c *C, all []Transition[C]) int {
	return slices.IndexFunc(all, func(tr Transition[C]) bool {
		return tr.Guard == nil || tr.Guard(t, c)
	})
}

// take takes the first transition whose guard holds.
func (ch Chart[C]) take(ctx context.Context, t *Turn, p *place[C], all []Transition[C]) error {
	i := open(t, &p.Data, all)
	if i < 0 {
		return nil
	}
	if do := all[i].Do; do != nil {
		if err := do(ctx, t, &p.Data); err != nil {
			return err
		}
	}
	if all[i].To == "" {
		return nil
	}
	return ch.enter(ctx, t, p, all[i].To)
}

// enter enters a state.
func (ch Chart[C]) enter(ctx context.Context, t *Turn, p *place[C], name string) error {
	s, found := ch.States[name]
	if !found {
		return noState(name)
	}
	p.At = name
	if s.Entry == nil {
		return nil
	}
	return s.Entry(ctx, t, &p.Data)
}

func noState(name string) error { return fmt.Errorf("there is no state %q", name) }

// Check returns all defects of the chart, joined; nil if it has none.
func (ch Chart[C]) Check() error {
	var all []error
	add := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if _, found := ch.States[ch.Start]; !found {
		add("the start is %q, and there is no such state", ch.Start)
	}
	reached := map[string]bool{ch.Start: true}
	for _, name := range slices.Sorted(maps.Keys(ch.States)) {
		s := ch.States[name]
		if s.Final && len(s.On)+len(s.Always) > 0 {
			add("state %q is final and has transitions", name)
		}
		for _, tr := range s.transitions() {
			if _, found := ch.States[tr.To]; !found && tr.To != "" {
				add("state %q has a transition to %q, and there is no such state", name, tr.To)
			}
			reached[tr.To] = true
		}
		for _, tr := range s.Always {
			if tr.To == "" && tr.Guard == nil {
				add("state %q always has a transition that stays", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ch.States)) {
		if !reached[name] {
			add("no transition leads to state %q", name)
		}
	}
	return errors.Join(all...)
}

// transitions returns all transitions of a state.
func (s ChartState[C]) transitions() []Transition[C] {
	all := slices.Clone(s.Always)
	for _, kind := range slices.Sorted(maps.Keys(s.On)) {
		all = append(all, s.On[kind]...)
	}
	return all
}
