package kernel

import (
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A buffer has the entries that were read for one listener, or for the subscriber, and not
// delivered. It has a limit, and each listener has its own: a broker that does not answer fills the
// buffer of the subscriber, and listeners hear on. An entry that finds no place stays in the store.
// The dispatcher reads on past it, remembers the first such entry, and reads again from there once
// half of the buffer is free. If some listeners of an end have a place for it, the end is delivered
// to these at once, and to each other listener when that has a place, whether the first ones have
// returned or not. A listener that was called for an end has its place back while others are still
// called.
//
// The entries of one run are delivered in order. So the entries after one that found no place wait
// with it, and an entry in line behind one that is being delivered takes a place in the buffers of
// that one.
type buffer struct {
	slots  chan struct{}
	held   int   // entries read for it and not delivered
	behind int64 // the number of the first entry that found no place; 0 for none
}

const (
	outboxPage = 200  // entries read at a time
	maxHeld    = 1000 // entries in one buffer
	// runs with an entry that waits for a place; above it no further entries are read
	maxSkipped = 100_000
	maxCalls   = 16 // calls of one listener, or of the subscriber, at a time
)

// A telling is an entry of the outbox that is being delivered, or is in line for that.
type telling struct {
	store.OutboxEntry
	who    []*Listener // the listeners that it is delivered to; nil is the subscriber
	placed []*Listener // those in whose buffers it has a place
	inPart bool        // other listeners get it with another telling
	isLast bool        // the last of these tellings: all listeners have heard
}

// A part is an end that is not delivered to all of its listeners at the same time.
type part struct {
	all, begun, heard []*Listener
}

// A follow has the entry of one run that is being delivered, and the entries after it.
type follow struct {
	now  *telling
	next []*telling
}

// A gap is a range in which entries of one run wait in the store. No entry before from waits, and
// of the entries that were read, no entry after last waits. A reading that begins within the gap
// does not know the entries that wait before, so it takes no entry of the run. A reading that has
// found no place for from takes no later entry.
type gap struct {
	from, last int64
	missed     int64 // the reading that has found no place for from
}

// bufferOf returns the buffer of a listener. A nil listener means the subscriber. It is called with
// the lock.
func (a *dispatcher) bufferOf(l *Listener) *buffer {
	r := a.buffers[l]
	if r == nil {
		r = &buffer{slots: make(chan struct{}, maxCalls)}
		a.buffers[l] = r
	}
	return r
}

// full returns the listeners whose buffers are full.
func (a *dispatcher) full(placed []*Listener) (out []*Listener) {
	for _, l := range placed {
		if a.bufferOf(l).held >= a.most {
			out = append(out, l)
		}
	}
	return out
}

// take takes a place in each of the buffers.
func (a *dispatcher) take(placed []*Listener) {
	for _, l := range placed {
		a.bufferOf(l).held++
	}
}

// free frees the places, and asks the dispatcher to look if there is room again.
func (a *dispatcher) free(placed []*Listener) {
	for _, l := range placed {
		r := a.bufferOf(l)
		r.held--
		switch {
		case r.behind != 0 && r.held <= a.most/2:
			a.k.readOn()
		case r.behind == 0 && r.held == 0:
			delete(a.buffers, l)
		}
	}
}

// miss records that an entry found no place in some buffers.
func (a *dispatcher) miss(placed []*Listener, number int64) {
	for _, l := range placed {
		if r := a.bufferOf(l); r.behind == 0 || number < r.behind {
			r.behind = number
		}
		if a.bufferOf(l).held <= a.most/2 { // half of it has become free meanwhile
			a.k.readOn()
		}
	}
}

// audience returns the listeners that are to hear of an entry and have not. It is called without
// the lock.
func (a *dispatcher) audience(o store.OutboxEntry) []*Listener {
	if o.Entry.Kind == journal.EventEmitted {
		return []*Listener{nil}
	}
	return a.k.listening(o.Head)
}

// admit finds places for an entry. The entry was read by a reading of the entries after the number
// since. It returns the entry if that is to be delivered at once. Otherwise the entry is in line,
// or waits in the store. It is called with the lock.
func (a *dispatcher) admit(o store.OutboxEntry, all []*Listener, since int64) *telling {
	run := o.Head.Number
	g, waits := a.behind[run]
	if waits && (o.Number > g.last || since >= g.from ||
		o.Number > g.from && g.missed == a.reading) {
		g.last = max(g.last, o.Number)
		a.behind[run] = g
		return nil
	}
	who := all
	if p := a.parts[o.Number]; p != nil {
		if all, who = p.all, without(p.all, p.begun...); len(who) == 0 {
			return nil
		}
	}
	t := &telling{OutboxEntry: o, who: who, placed: who}
	in := a.lines[run]
	if in != nil {
		t.placed = in.now.placed
	}
	missing := a.full(t.placed)
	a.miss(missing, o.Number)
	if len(missing) > 0 {
		a.behind[run] = gap{from: o.Number, last: max(o.Number, g.last), missed: a.reading}
		if in != nil || len(missing) == len(who) {
			return nil
		}
		t.who = without(who, missing...)
		t.placed = t.who
	} else {
		a.closeGap(run, o.Number)
	}
	a.take(t.placed)
	switch {
	case len(t.who) < len(all):
		a.begin(t, all)
		return t
	case in != nil:
		a.mine[o.Number] = true
		in.next = append(in.next, t)
		return nil
	}
	a.mine[o.Number] = true
	a.lines[run] = &follow{now: t}
	return t
}

// pass leaves an event, and the entries of its run that follow it, to an engine that has a
// subscriber. It is called with the lock.
func (a *dispatcher) pass(o store.OutboxEntry) {
	run := o.Head.Number
	if g, waits := a.behind[run]; !waits || o.Number < g.from {
		a.behind[run] = gap{from: o.Number, last: max(o.Number, g.last), missed: a.reading}
	} else {
		g.last = max(g.last, o.Number)
		if o.Number == g.from {
			g.missed = a.reading
		}
		a.behind[run] = g
	}
}

// closeGap records that an entry that has waited does not any more.
func (a *dispatcher) closeGap(run journal.Number, number int64) {
	switch g, waits := a.behind[run]; {
	case !waits || number < g.from:
	case number >= g.last:
		delete(a.behind, run)
	default:
		g.from = number + 1
		a.behind[run] = g
	}
}

// passed records that a reading has come from one number to another. No entry in between waits in
// the store, but for those that the reading has found no place for.
func (a *dispatcher) passed(since, upTo int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for run, g := range a.behind {
		switch {
		case g.missed == a.reading, since >= g.from, g.from >= upTo:
		case g.last < upTo: // the entries of the gap are not in the outbox any more
			delete(a.behind, run)
		default:
			g.from = upTo
			a.behind[run] = g
		}
	}
}

// begin begins a part: an end is delivered to some of its listeners.
func (a *dispatcher) begin(t *telling, all []*Listener) {
	p := a.parts[t.Number]
	if p == nil {
		p = &part{all: all}
		a.parts[t.Number] = p
	}
	p.begun = append(p.begun, t.who...)
	t.inPart = true
}

// without returns all listeners except some.
func without(all []*Listener, some ...*Listener) []*Listener {
	return slices.DeleteFunc(slices.Clone(all), func(l *Listener) bool {
		return slices.Contains(some, l)
	})
}

// hasHeard frees the place of a listener that has heard of an end.
func (a *dispatcher) hasHeard(t *telling, l *Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.placed = without(t.placed, l)
	a.free([]*Listener{l})
}

// isTold reports whether all listeners have heard of an entry that some of them have just heard of.
func (a *dispatcher) isTold(t *telling) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.inPart {
		return true
	}
	p := a.parts[t.Number]
	p.heard = append(p.heard, t.who...)
	t.isLast = len(p.heard) == len(p.all)
	return t.isLast
}

// done frees the places of an entry that was delivered, and returns the next entry of its run to be
// delivered, or nil.
func (a *dispatcher) done(t *telling) *telling {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free(t.placed)
	if t.inPart {
		if t.isLast {
			delete(a.parts, t.Number)
			a.forget(t.Number)
		}
		return nil
	}
	a.forget(t.Number)
	run := t.Head.Number
	in := a.lines[run]
	delete(a.lines, run)
	if len(in.next) == 0 {
		return nil
	}
	return a.advance(run, in.next)
}

// forget records that an entry was delivered. A reading in progress may have read the entry before
// that.
func (a *dispatcher) forget(number int64) {
	if a.reads {
		a.mine[number] = true
		a.told = append(a.told, number)
	} else {
		delete(a.mine, number)
	}
}

// advance takes the first entry in line, and returns it if there is a place for it in the buffers
// of its listeners. If there is none, all entries in line wait in the store.
func (a *dispatcher) advance(run journal.Number, line []*telling) *telling {
	next, last, rest := line[0], line[len(line)-1], line[1:]
	a.leave(next)
	t := a.admit(next.OutboxEntry, next.who, next.Number-1)
	if in := a.lines[run]; in != nil {
		in.next = rest
		return t
	}
	for _, waits := range rest {
		a.leave(waits)
	}
	g := a.behind[run]
	g.last = max(g.last, last.Number)
	a.behind[run] = g
	return t
}

// leave removes an entry from the line.
func (a *dispatcher) leave(t *telling) {
	delete(a.mine, t.Number)
	a.free(t.placed)
}

// catchUp reads again the entries that found no place in buffers that have room now.
func (a *dispatcher) catchUp(names []string) bool {
	a.mu.Lock()
	var buffers []*buffer
	for _, r := range a.buffers {
		if r.behind != 0 && r.held <= a.most/2 {
			buffers = append(buffers, r)
		}
	}
	a.mu.Unlock()
	for _, r := range buffers {
		a.mu.Lock()
		from, upTo := r.behind-1, a.after+1
		r.behind = 0
		a.mu.Unlock()
		goesOn := a.read(names, from, a.after, func(number int64) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			if r.behind == 0 {
				return false
			}
			r.behind, upTo = min(r.behind, number), number
			return true
		})
		if !goesOn {
			return false
		}
		a.passed(from, upTo)
	}
	if len(buffers) > 0 && !a.crowded() {
		a.k.readOn() // entries beyond may not have been read
	}
	return true
}

// crowded reports whether so many runs have entries without a place that no further entries are
// read.
func (a *dispatcher) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.behind) >= a.skips
}

// again makes the dispatcher read everything anew.
func (a *dispatcher) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.after = 0
	clear(a.behind)
}
