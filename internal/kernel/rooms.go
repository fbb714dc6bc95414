package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A room has what was read for one listener, or for the subscriber, and was not told. It
// is bounded, and each has its own: a broker that does not answer fills the room of the
// subscriber, and listeners hear on. What finds no place stays in the store. The announcer
// reads on past it, keeps in mind where it began, and reads it again once half of the
// room is free. An end that some listeners have a place for is told to these at once, and
// a listener that has heard of an end has its place back while others are still called.
//
// Of one run all is told in order. So what follows something that found no place waits
// with it, and what is in line behind something that is being told takes a place in the
// room of that.
type room struct {
	slots  chan struct{}
	held   int   // read for it and not told
	behind int64 // the first that found no place; 0 for none
}

const (
	owedPage   = 200     // read at a time
	maxHeld    = 1000    // held in a room
	maxSkipped = 100_000 // runs that wait for a place, and ends that some have heard; above it nothing is read
	tellers    = 16      // calls of one listener, or of the subscriber, at a time
)

// A telling is an entry that is owed, on its way.
type telling struct {
	store.Owed
	who   []*Listener // that it is told to; nil is the subscriber
	rest  []*Listener // that have no place for it now
	lanes []*Listener // in whose rooms it has a place
}

// A follow is what is to be told of one run after that which is being told.
type follow struct {
	lanes []*Listener // of what is being told
	next  []telling
}

// roomOf returns the room of a listener; nil is the subscriber. It is called with the lock.
func (a *announcer) roomOf(l *Listener) *room {
	r := a.rooms[l]
	if r == nil {
		r = &room{slots: make(chan struct{}, tellers)}
		a.rooms[l] = r
	}
	return r
}

// full returns those of the listeners whose rooms are.
func (a *announcer) full(lanes []*Listener) (out []*Listener) {
	for _, l := range lanes {
		if a.roomOf(l).held >= maxHeld {
			out = append(out, l)
		}
	}
	return out
}

// take takes a place in each of the rooms.
func (a *announcer) take(lanes []*Listener) {
	for _, l := range lanes {
		a.roomOf(l).held++
	}
}

// free gives the places back, and asks the announcer to look where there is room again.
func (a *announcer) free(lanes []*Listener) {
	for _, l := range lanes {
		r := a.roomOf(l)
		r.held--
		switch {
		case r.behind != 0 && r.held <= maxHeld/2:
			a.k.owe()
		case r.behind == 0 && r.held == 0:
			delete(a.rooms, l)
		}
	}
}

// miss keeps in mind that an entry found no place in some rooms.
func (a *announcer) miss(lanes []*Listener, number int64) {
	for _, l := range lanes {
		if r := a.roomOf(l); r.behind == 0 || number < r.behind {
			r.behind = number
		}
		if a.roomOf(l).held <= maxHeld/2 { // it has become free meanwhile
			a.k.owe()
		}
	}
}

// audience returns who is to hear of an entry and has not. It is called without the lock.
func (a *announcer) audience(o store.Owed) []*Listener {
	if o.Entry.Kind == journal.EventEmitted {
		return []*Listener{nil}
	}
	return a.k.listening(o.Head)
}

// admit finds places for an entry, and reports whether it has its turn at once: else it is
// in line, or waits in the store. It is called with the lock.
func (a *announcer) admit(o store.Owed, who []*Listener) (t telling, now bool) {
	run := o.Head.Number
	if last, waits := a.behind[run]; waits && o.Number > last {
		a.behind[run] = o.Number
		return t, false
	}
	who = slices.DeleteFunc(slices.Clone(who), func(l *Listener) bool { return slices.Contains(a.heard[o.Number], l) })
	in := a.lines[run]
	t = telling{Owed: o, who: who, lanes: who}
	if in != nil {
		t.lanes = in.lanes
	}
	missing := a.full(t.lanes)
	a.miss(missing, o.Number)
	switch {
	case len(missing) > 0 && (in != nil || len(missing) == len(who)):
		a.behind[run] = o.Number
		return t, false
	case len(missing) > 0:
		a.behind[run] = o.Number
		t.who = slices.DeleteFunc(who, func(l *Listener) bool { return slices.Contains(missing, l) })
		t.lanes, t.rest = t.who, missing
	case a.behind[run] == o.Number:
		delete(a.behind, run)
	}
	a.mine[o.Number] = true
	a.take(t.lanes)
	if in != nil {
		in.next = append(in.next, t)
		return t, false
	}
	a.lines[run] = &follow{lanes: t.lanes}
	return t, true
}

// done gives up the places of an entry that was told, and gives what is to be told next
// of its run.
func (a *announcer) done(t telling) (next telling, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	run := t.Head.Number
	if a.reads && len(t.rest) == 0 { // it may have been read before it was told
		a.told = append(a.told, t.Number)
	} else {
		delete(a.mine, t.Number)
	}
	if len(t.rest) > 0 {
		a.heard[t.Number] = append(a.heard[t.Number], t.who...)
		a.miss(t.rest, t.Number)
	} else {
		delete(a.heard, t.Number)
	}
	in := a.lines[run]
	delete(a.lines, run)
	a.free(in.lanes)
	if len(in.next) == 0 {
		return telling{}, false
	}
	return a.advance(in.next)
}

// advance gives the first in line its turn, if there is a place for it in the rooms of those
// who are to hear of it. If there is none, all that are in line wait in the store.
func (a *announcer) advance(line []telling) (next telling, more bool) {
	next = line[0]
	run := next.Head.Number
	a.leave(next)
	if next, more = a.admit(next.Owed, next.who); more {
		a.lines[run].next = line[1:]
		return next, true
	}
	for _, t := range line[1:] {
		a.leave(t)
		a.behind[run] = t.Number
	}
	return telling{}, false
}

// leave takes an entry out of the line.
func (a *announcer) leave(t telling) {
	delete(a.mine, t.Number)
	a.free(t.lanes)
}

// hasHeard gives back the place of a listener that has heard of an end.
func (a *announcer) hasHeard(run journal.Number, l *Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.lines[run]
	in.lanes = slices.DeleteFunc(slices.Clone(in.lanes), func(other *Listener) bool { return other == l })
	a.free([]*Listener{l})
}

// catchUp reads again what found no place in rooms that have some now.
func (a *announcer) catchUp(names []string) bool {
	a.mu.Lock()
	var rooms []*room
	for _, r := range a.rooms {
		if r.behind != 0 && r.held <= maxHeld/2 {
			rooms = append(rooms, r)
		}
	}
	a.mu.Unlock()
	for _, r := range rooms {
		a.mu.Lock()
		from := r.behind - 1
		r.behind = 0
		a.mu.Unlock()
		if !a.read(names, from, a.after, func(number int64) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			if r.behind == 0 {
				return false
			}
			r.behind = min(r.behind, number)
			return true
		}) {
			return false
		}
	}
	if len(rooms) > 0 && !a.crowded() {
		a.k.owe() // what is beyond may not have been read
	}
	return true
}

// crowded reports whether so much found no place that no more is read.
func (a *announcer) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.behind)+len(a.heard) >= maxSkipped
}

// again has everything read anew.
func (a *announcer) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.after = 0
	clear(a.behind)
}
