package kernel

import (
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A log is a run's journal on its way to the store. Entries are appended, then sealed, then
// durable, each in order of sequence:
//
//	durable ≤ sealed ≤ seq
//
// The entries (durable, sealed] wait in the pipeline or are in a group that is being committed. The
// entries (sealed, seq] belong to a turn that has not ended. Anything that must not happen before
// an entry is durable is an effect that waits for the sequence of the entry.
//
// The entries of a turn are (opened, seq]. An entry from outside that arrives while the holder has
// appended nothing moves opened: it may be sealed before the turn ends, and is kept if the turn is
// dropped. Once the holder has appended an entry, a result from outside shares the fate of the
// turn.
//
// Two changes may be on their way: the verdict on one is delivered while the next one is committed.
//
// A log performs nothing but effects whose time has come. It reports to its caller when the
// pipeline has to take the run. The mu of the run guards it.
type log struct {
	standing
	reservation

	// more returns the entry that follows an entry, if one does; nil if none ever does
	more func(*journal.Entry) (journal.Entry, bool)

	clock   clock
	gate    *gate    // counts the bytes that are not durable
	buffers *buffers // for entries

	seq, sealed, durable, opened int64
	// progress is the last entry that shows that the run has come further (see
	// journal.Kind.IsOutput), and progressed the last of these that is durable.
	progress, progressed int64
	lastAt               time.Time       // the time of the entry that was appended last
	pending              []journal.Entry // the entries (last taken, seq]
	effects              []effect        // in order of after
	outgoing             []outgoing      // in order of after
	marks                marks           // operations whose next entry is to be marked
	slot                 int64           // the place of the next entry; 0 means the end

	queued bool // the pipeline has the run
	onWay  int  // changes that were taken and not answered
	// those of the changes that follow refused entries: the store refuses them too
	refuses int
}

// An outgoing is a message to another run, a new run, an ask for a slot, or a slot that the run
// frees. It becomes durable in the commit of the entry after, and is dropped if that entry is.
type outgoing struct {
	after  int64
	post   *store.Post
	create *store.Change
	ask    *store.Ask
	free   int64 // the number of a slot; 0 for none
}

// An effect happens when every entry up to after is durable: a step's body begins, or do is called.
// It runs on the pipeline's goroutine without the run's lock and must return soon.
type effect struct {
	after int64
	begin *operation
	do    func()
}

func (e effect) run() {
	if e.begin != nil {
		e.begin.begin()
		return
	}
	e.do()
}

// newLog returns a log that goes on behind the durable entry last; 0 for none.
func newLog(h journal.Head, last int64, c clock, g *gate, b *buffers) log {
	return log{standing: standingAs(h), clock: c, gate: g, buffers: b, seq: last, sealed: last,
		durable: last, progress: last, progressed: last}
}

// last returns the sequence of the entry that was appended last.
func (l *log) last() int64 { return l.seq }

// lastTime returns the time of that entry.
func (l *log) lastTime() time.Time { return l.lastAt }

// isSealed reports whether the entry with that sequence is sealed.
func (l *log) isSealed(seq int64) bool { return seq <= l.sealed }

// isDurable reports whether the entry with that sequence is durable.
func (l *log) isDurable(seq int64) bool { return seq <= l.durable }

// lastDurable returns the last entry that is durable.
func (l *log) lastDurable() int64 { return l.durable }

// lastProgress returns the last entry that shows that the run has come further.
func (l *log) lastProgress() int64 { return min(l.progress, l.seq) }

// durableProgress returns the last of these entries that is durable.
func (l *log) durableProgress() int64 { return l.progressed }

// allDurable reports whether every entry is durable.
func (l *log) allDurable() bool { return l.durable == l.seq }

// noneDurable reports whether the store has no entry yet.
func (l *log) noneDurable() bool { return l.durable == 0 }

// mark marks the next entry of an operation.
func (l *log) mark(op journal.Op, h hearing) { l.marks.add(op, h) }

// writeHead makes the head be written with the entry that was appended last.
func (l *log) writeHead() {
	l.pending[len(l.pending)-1].Status = l.status()
	l.become(l.status(), l.seq)
}

// reserve reserves the log for an attempt. It returns false while the pipeline has entries of the
// log, or another attempt has it.
func (l *log) reserve(a *attempt) bool { return l.onWay == 0 && l.keep(a) }

// append adds an entry, and the event that follows from it. It returns the sequence of the entry.
func (l *log) append(e journal.Entry) int64 {
	seq := l.put(e)
	if l.more == nil {
		return seq
	}
	e.Seq = seq
	if next, is := l.more(&e); is {
		l.put(next)
	}
	return seq
}

// follow lets an entry follow each entry for which more returns one.
func (l *log) follow(more func(*journal.Entry) (journal.Entry, bool)) { l.more = more }

// follows reports whether entries follow others.
func (l *log) follows() bool { return l.more != nil }

// put adds an entry and returns its sequence.
func (l *log) put(e journal.Entry) int64 {
	e.Detail = l.marks.of(&e)
	if seq := l.slot; seq != 0 {
		l.slot = 0
		l.replace(seq, e)
		return seq
	}
	l.seq++
	e.Run, e.Seq, e.At = l.number(), l.seq, l.clock.Now()
	l.lastAt = e.At
	if !e.Kind.IsOutput() {
		l.progress = l.seq
	}
	if l.pending == nil {
		l.pending = l.buffers.get()
	}
	l.pending = append(l.pending, e)
	if e.Status != 0 {
		l.become(e.Status, l.seq)
	}
	l.gate.count(int64(e.Size()))
	return l.seq
}

// outside adds an entry that no goroutine of the run appends: a result, a
// timeout, a checkpoint. While a turn that has appended nothing is going on,
// the entry need not wait for its end.
func (l *log) outside(e journal.Entry) int64 {
	seq := l.append(e)
	if l.opened == seq-1 {
		l.opened = seq
		if l.seq == seq+1 { // the entry that follows
			l.opened = l.seq
		}
	}
	return seq
}

// alone adds an entry from outside without the one that follows it.
func (l *log) alone(e journal.Entry) {
	more := l.more
	l.more = nil
	l.outside(e)
	l.more = more
}

// restate records that the run's status is s from here on. It changes the last entry if that has
// not been taken yet.
func (l *log) restate(s journal.Status) {
	if l.status() == s {
		return
	}
	if n := len(l.pending); n > 0 && !setsPhase(&l.pending[n-1]) {
		l.pending[n-1].Status = s
		l.become(s, l.seq)
		return
	}
	l.append(journal.Entry{Kind: journal.StatusChanged, Status: s})
}

// beginTurn begins a turn. It reports whether entries from before it are not sealed.
func (l *log) beginTurn() bool {
	l.opened = l.seq
	return l.seq > l.sealed
}

// beforeTurn returns the last entry that does not belong to the turn that goes on.
func (l *log) beforeTurn() int64 { return l.opened }

// sealTo lets the pipeline take every entry up to seq. It reports whether any of them was not
// sealed.
func (l *log) sealTo(seq int64) bool {
	if seq <= l.sealed {
		return false
	}
	l.sealed = seq
	l.stir()
	return true
}

// queue records that the pipeline has the run. It reports whether the pipeline did not have it
// before.
func (l *log) queue() (first bool) {
	first = !l.queued
	l.queued = true
	return first
}

// unqueue records that the pipeline has taken nothing.
func (l *log) unqueue() { l.queued = false }

// unappend drops the entries of the present turn.
func (l *log) unappend() {
	drop := int(l.seq - max(l.opened, l.sealed))
	if drop <= 0 {
		return
	}
	keep := len(l.pending) - drop
	l.gate.count(-int64(sizeOf(l.pending[keep:])))
	l.pending = l.pending[:keep]
	l.seq -= int64(drop)
	l.outgoing = slices.DeleteFunc(l.outgoing, func(o outgoing) bool { return o.after > l.seq })
}

// send adds an outgoing to the commit of the last entry, if there is anything in it.
func (l *log) send(o outgoing) {
	if o == (outgoing{}) {
		return
	}
	o.after = l.seq
	l.outgoing = append(l.outgoing, o)
}

// whenDurable makes e happen when every entry appended so far is durable. If they are durable
// already, it happens at once, on this goroutine and with the lock held.
func (l *log) whenDurable(e effect) {
	e.after = l.seq
	if e.after > l.durable {
		l.effects = append(l.effects, e)
		return
	}
	e.run()
}

// waited reports whether something other than workflow code waits for an entry to be durable.
func (l *log) waited() bool { return len(l.effects) > 0 || len(l.outgoing) > 0 }

// gather appends the sealed changes to cs, as source.take does. The run's own change is the first.
func (l *log) gather(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	n := len(l.pending) - int(l.seq-l.sealed)
	if n < 0 { // the entry was dropped: an entry before it was refused
		l.queued = false
		return cs, true
	}
	out := 0
	for out < len(l.outgoing) && l.outgoing[out].after <= l.sealed {
		out++
	}
	size := sizeOf(l.pending[:n])
	if !first && (n+out > *rows || size > *bytes) {
		return cs, false
	}
	*rows -= n + out
	*bytes -= size
	l.queued = false
	c := store.Change{Entries: l.pending[:n:n]}
	l.into(&c, l.sealed)
	rest := l.pending[n:]
	l.pending = nil
	if len(rest) > 0 {
		l.pending = append(l.buffers.get(), rest...)
	}
	if len(c.Entries) == 0 && c.Head == nil && out == 0 {
		return cs, true
	}
	l.onWay++
	at := len(cs)
	cs = append(cs, c)
	for _, o := range l.outgoing[:out] {
		switch {
		case o.post != nil:
			cs[at].Posts = append(cs[at].Posts, *o.post)
		case o.create != nil:
			cs = append(cs, *o.create)
		case o.ask != nil:
			cs[at].Asks = append(cs[at].Asks, *o.ask)
		default:
			cs[at].Asks = slices.DeleteFunc(cs[at].Asks, func(a store.Ask) bool {
				return a.Slot == o.free
			})
			cs[at].Frees = append(cs[at].Frees, o.free)
		}
	}
	l.outgoing = slices.Delete(l.outgoing, 0, out)
	if h := cs[at].Head; h != nil && !h.Ended.IsZero() { // a run that has ended asks for nothing
		cs[at].Asks = nil
	}
	return cs, true
}

// answered counts a change that was on its way and is answered. It reports whether the change
// follows entries which were refused.
func (l *log) answered() (follows bool) {
	l.onWay--
	l.stir()
	if follows = l.refuses > 0; follows {
		l.refuses--
	}
	return follows
}

// stableTo records that these entries are durable.
func (l *log) stableTo(entries []journal.Entry) {
	for i := range entries {
		l.durable = entries[i].Seq
		if !entries[i].Kind.IsOutput() {
			l.progressed = l.durable
		}
	}
}

// takeEffects adds the effects that wait for no further entry to due.
func (l *log) takeEffects(due []effect) []effect {
	n := 0
	for n < len(l.effects) && l.effects[n].after <= l.durable {
		n++
	}
	due = append(due, l.effects[:n]...)
	l.effects = l.effects[:copy(l.effects, l.effects[n:])]
	return due
}

// dropEffects drops the effects that wait: the run leaves memory.
func (l *log) dropEffects() { l.effects = nil }

// drop drops every entry that is not on its way, because the store refuses an entry before them.
func (l *log) drop() {
	l.refuses = l.onWay
	l.gate.count(-int64(sizeOf(l.pending)))
	l.pending, l.outgoing, l.effects = nil, nil, nil
}

// reopen makes the log go on behind the last durable entry.
func (l *log) reopen() {
	l.seq, l.sealed = l.durable, l.durable
	l.standing.reopen() // where the journal was to end
}

// blocksTurn reports whether an effect or a tentative result waits for the turn to end.
func (l *log) blocksTurn() bool { return len(l.effects) > 0 || l.isLater(l.sealed) }

// tentatively makes the last entry of a proposal, the result, tentative. It reports whether the
// result may be sealed at once, since no turn has appended anything.
func (l *log) tentatively(w *proposal) bool {
	w.seq = l.seq
	l.hold(w.seq)
	return l.opened == l.seq
}

// propose takes the sealed entries once the result of a proposal is sealed. It returns false if the
// turn was dropped with the result.
func (l *log) propose(w *proposal, result *journal.Entry) bool {
	i := w.seq - (l.seq - int64(len(l.pending))) - 1
	is := i >= 0 && i < int64(len(l.pending)) &&
		l.pending[i].Kind == result.Kind && l.pending[i].Op == result.Op
	if l.sealed < w.seq || !is {
		l.certain()
		return false
	}
	rows, bytes := groupRows, groupBytes
	w.headSeq, w.outgoing = l.writtenWith(), slices.Clone(l.outgoing)
	w.changes, _ = l.gather(nil, &rows, &bytes, true)
	w.outgoing = w.outgoing[:len(w.outgoing)-len(l.outgoing)]
	return true
}

// withdraw withdraws a proposal. If no entry was appended after the result, it drops the entries of
// the attempt, and returns true.
func (l *log) withdraw(w *proposal) (dropped bool) {
	l.answered()
	l.certain()
	c := &w.changes[0]
	l.pending = append(c.Entries, l.pending...)
	l.outgoing = append(w.outgoing, l.outgoing...)
	l.takeBack(c, w.headSeq)
	if l.seq == w.seq {
		l.cut(w.first)
		return true
	}
	for seq := w.first; seq < w.seq; seq++ { // events that have not happened
		l.replace(seq, journal.Entry{Kind: journal.StatusChanged})
	}
	return false
}

// putAt makes the next entry take the place of an entry that is not taken.
func (l *log) putAt(seq int64) { l.slot = seq }

// cut drops the entries that begin with a sequence. They are sealed and were not taken.
func (l *log) cut(from int64) {
	keep := len(l.pending) - int(l.seq-from+1)
	l.gate.count(-int64(sizeOf(l.pending[keep:])))
	l.pending = l.pending[:keep:keep]
	l.seq = from - 1
	l.sealed, l.opened = min(l.sealed, l.seq), min(l.opened, l.seq)
	for i := range l.effects {
		l.effects[i].after = min(l.effects[i].after, l.seq)
	}
	for i := range l.outgoing {
		l.outgoing[i].after = min(l.outgoing[i].after, l.seq)
	}
}

// replace puts another entry in the place of one that is not taken.
func (l *log) replace(seq int64, e journal.Entry) {
	old := &l.pending[len(l.pending)-int(l.seq-seq)-1]
	if old.Detail != nil && old.Detail.Heard {
		e.Detail = heard(e.Detail)
	}
	e.Run, e.Seq, e.At = l.number(), seq, l.clock.Now()
	l.lastAt = e.At
	l.gate.count(int64(e.Size()) - int64(old.Size()))
	*old = e
}

// buffers keeps buffers of entries that are durable and told.
type buffers struct{ pool sync.Pool } // of *[]journal.Entry

// keptBuffer is the largest buffer of entries that is kept for others.
const keptBuffer = 64

// get returns an empty buffer of entries.
func (b *buffers) get() []journal.Entry {
	if b, ok := b.pool.Get().(*[]journal.Entry); ok {
		return *b
	}
	return make([]journal.Entry, 0, 2)
}

// put takes a buffer back.
func (b *buffers) put(entries []journal.Entry) {
	if cap(entries) == 0 || cap(entries) > keptBuffer {
		return
	}
	clear(entries)
	entries = entries[:0]
	b.pool.Put(&entries)
}
