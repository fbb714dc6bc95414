package kernel

import (
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A log is a run's journal on its way to the store. Entries are appended, then
// sealed, then durable, each in order of sequence:
//
//	durable ≤ sealed ≤ seq
//
// (durable, sealed] waits in the pipeline or is in a group that is being
// committed; (sealed, seq] belongs to a turn that has not ended. What must not
// happen before an entry is durable is an effect that waits for its sequence.
//
// The entries of a turn are (opened, seq]. What arrives from outside while the
// holder has appended nothing moves opened: it may be sealed before the turn ends
// and is kept where the turn is dropped. Once the holder has appended, a result
// from outside shares the fate of the turn.
//
// The log is guarded by its run's mu.
type log struct {
	seq, sealed, durable int64
	lastAt               time.Time       // of the entry that was appended last
	pending              []journal.Entry // (last taken, seq]
	effects              []effect        // in order of after
	outgoing             []outgoing      // in order of after
	queued               bool            // the pipeline has the run
	head                 journal.Head    // as of seq
	headSeq              int64           // the entry that changed the head; 0 when the store has it
	create               bool            // the head is not in the store yet
	since                time.Time       // see store.Change
	rests                bool            // the head that waits to be written ends the residence

	onWay     int           // changes that were taken and not answered; two while a group is told and the next one is committed
	refuses   int           // those of them that follow refused entries: the store refuses them too
	keeper    *attempt      // whose transaction it goes with; see transact.go
	tentative int64         // the result of the keeper, while it may still be taken back; else 0
	slot      int64         // where the next entry goes instead of the end; else 0
	stirred   chan struct{} // closed when any of this has changed; nil while nobody waits
}

// An outgoing is what becomes durable with the entry after, and not before: a
// message to another run, or a new run. It is dropped where that entry is.
type outgoing struct {
	after  int64
	post   *store.Post
	create *store.Change
}

// An effect is what happens when every entry up to after is durable: a step's
// body begins, or do is called. It runs on the pipeline's goroutine without the
// run's lock and must return soon.
type effect struct {
	after int64
	begin *operation
	do    func()
}

// append adds an entry and gives its sequence.
func (r *run) append(e journal.Entry) int64 {
	e.Detail = r.heardOf(&e)
	if seq := r.slot; seq != 0 {
		r.slot = 0
		r.replace(seq, e)
		return seq
	}
	r.seq++
	e.Run, e.Seq, e.At = r.head.Number, r.seq, time.Now()
	r.lastAt = e.At
	if r.pending == nil {
		r.pending = r.k.buffer()
	}
	r.pending = append(r.pending, e)
	if e.Status != 0 {
		r.head.Status, r.headSeq = e.Status, r.seq
	}
	r.k.gate.count(int64(e.Size()))
	return r.seq
}

// outside adds an entry that no goroutine of the run appends: a result, a
// timeout, a checkpoint. While a turn that has appended nothing is going on,
// the entry need not wait for its end.
func (r *run) outside(e journal.Entry) int64 {
	seq := r.append(e)
	if r.opened == seq-1 {
		r.opened = seq
	}
	return seq
}

// restate records that the run's status is s from here on, in the entry that
// was appended last where it has not been taken yet.
func (r *run) restate(s journal.Status) {
	if r.head.Status == s {
		return
	}
	if n := len(r.pending); n > 0 && !setsPhase(&r.pending[n-1]) {
		r.pending[n-1].Status = s
		r.head.Status, r.headSeq = s, r.seq
		return
	}
	r.append(journal.Entry{Kind: journal.StatusChanged, Status: s})
}

// setsPhase says whether an entry records the status that workflow code has set, and not
// where its run was besides.
func setsPhase(e *journal.Entry) bool {
	return e.Kind == journal.ValueRecorded && (e.Status.IsDecided() || e.Status == journal.Running || e.Status == journal.Trying) &&
		e.Status != journal.CompensationFailed
}

// seal lets the pipeline take everything up to seq.
func (r *run) seal(seq int64) {
	if seq <= r.sealed {
		return
	}
	r.sealed = seq
	r.stir()
	r.push()
}

// push has the pipeline take what is sealed, and the head.
func (r *run) push() {
	if !r.queued {
		r.queued = true
		r.k.lane(r.head.Number).push(r)
	}
}

// send gives a message, or a new run, to the group of the last entry.
func (r *run) send(o outgoing) {
	o.after = r.seq
	r.outgoing = append(r.outgoing, o)
}

// whenDurable does e when everything appended so far is durable; at once, on
// this goroutine and with the lock held, where it is.
func (r *run) whenDurable(e effect) {
	e.after = r.seq
	if e.after > r.durable {
		r.effects = append(r.effects, e)
		return
	}
	e.run()
}

func (e effect) run() {
	if e.begin != nil {
		e.begin.begin()
		return
	}
	e.do()
}

// take implements source. The run's own change is the first.
func (r *run) take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept() {
		r.queued = false
		return cs, true
	}
	return r.gather(cs, rows, bytes, first)
}

// gather is take, with the lock.
func (r *run) gather(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	n := len(r.pending) - int(r.seq-r.sealed)
	if n < 0 { // it was dropped: what came before it was refused
		r.queued = false
		return cs, true
	}
	out := 0
	for out < len(r.outgoing) && r.outgoing[out].after <= r.sealed {
		out++
	}
	size := 0
	for i := range r.pending[:n] {
		size += r.pending[i].Size()
	}
	if !first && (n+out > *rows || size > *bytes) {
		return cs, false
	}
	*rows -= n + out
	*bytes -= size
	r.queued = false
	c := store.Change{Run: r.head.Number, Create: r.create, Since: r.since, Entries: r.pending[:n:n]}
	rest := r.pending[n:]
	r.pending = nil
	if len(rest) > 0 {
		r.pending = append(r.k.buffer(), rest...)
	}
	if r.headSeq != 0 && r.headSeq <= r.sealed || r.create || r.rests {
		head := r.head
		c.Head, c.Rest, r.headSeq, r.create, r.rests = &head, r.rests, 0, false, false
	}
	if len(c.Entries) == 0 && c.Head == nil {
		return cs, true
	}
	r.onWay++
	at := len(cs)
	cs = append(cs, c)
	for _, o := range r.outgoing[:out] {
		if o.post != nil {
			cs[at].Posts = append(cs[at].Posts, *o.post)
		} else {
			cs = append(cs, *o.create)
		}
	}
	r.outgoing = slices.Delete(r.outgoing, 0, out)
	return cs, true
}

// committed implements source. Observers hear first: what begins once an entry is
// durable, and tells them of it, comes after that entry.
func (r *run) committed(cs []store.Change) {
	c := &cs[0]
	r.k.gate.count(-int64(sizeOf(c.Entries)))
	if !c.Create || c.Verdict == store.Written {
		r.tell(c)
		r.k.tellMade(cs[1:])
		r.tellTaken(cs[1:])
	}
	r.mu.Lock()
	r.answered()
	if c.Create && c.Verdict != store.Written {
		r.found, r.verdict = c.Found, c.Verdict
		r.leave()
		r.mu.Unlock()
		r.depart()
		return
	}
	if n := len(c.Entries); n > 0 {
		r.durable = c.Entries[n-1].Seq
	}
	r.weigh(false)
	if r.fetching == 0 {
		r.inbox.settled(r.durable)
	}
	if c.Create && c.Found.Mail > r.inbox.mail {
		r.inbox.saw(c.Found.Mail) // it has found messages
	}
	if c.Rest {
		r.rested(c)
	}
	due := 0
	for due < len(r.effects) && r.effects[due].after <= r.durable {
		due++
	}
	var few [4]effect
	effects := append(few[:0], r.effects[:due]...)
	r.effects = r.effects[:copy(r.effects, r.effects[due:])]
	gone, again := r.over() && r.durable == r.seq, r.again
	if c.Create && !gone && !r.overdue() {
		r.hold(r.root)
	}
	r.mu.Unlock()
	for i := range c.Entries {
		if d := c.Entries[i].Detail; d != nil && d.Tell {
			r.k.owe()
			break
		}
	}
	for _, e := range effects {
		e.run()
	}
	if gone {
		r.depart()
		if again {
			go r.k.takeAgain(r.head.Number)
		}
	} else if c.Create {
		close(r.begun)
	}
	r.k.sent(cs)
	r.k.recycle(c.Entries)
}

// answered counts what was on its way and is not any more. It reports whether that follows
// entries which were refused.
func (r *run) answered() (follows bool) {
	r.onWay--
	r.stir()
	if follows = r.refuses > 0; follows {
		r.refuses--
	}
	return follows
}

func sizeOf(entries []journal.Entry) int {
	size := 0
	for i := range entries {
		size += entries[i].Size()
	}
	return size
}

// keptBuffer is the largest buffer of entries that is kept for others.
const keptBuffer = 64

// buffer gives an empty buffer of entries.
func (k *Kernel) buffer() []journal.Entry {
	if b, ok := k.buffers.Get().(*[]journal.Entry); ok {
		return *b
	}
	return make([]journal.Entry, 0, 2)
}

// recycle keeps the buffer of entries that are durable and told.
func (k *Kernel) recycle(entries []journal.Entry) {
	if cap(entries) == 0 || cap(entries) > keptBuffer {
		return
	}
	clear(entries)
	entries = entries[:0]
	k.buffers.Put(&entries)
}

// refused implements source. A run whose data the store refuses goes back to
// what is durable and is parked there; where even that is refused, it is left
// as it is for the next engine.
func (r *run) refused(cs []store.Change, err error) {
	c := &cs[0]
	r.k.gate.count(-int64(sizeOf(c.Entries)))
	r.mu.Lock()
	if r.answered() {
		r.mu.Unlock()
		return
	}
	r.refuses = r.onWay
	first := r.refusal == nil
	r.refusal = err
	r.leave()
	r.k.gate.count(-int64(sizeOf(r.pending)))
	r.pending, r.outgoing, r.effects = nil, nil, nil
	if c.Create || !first || !refusal(err) {
		r.mu.Unlock()
		r.depart()
		return
	}
	r.seq, r.sealed = r.durable, r.durable
	r.end, r.head.Ended, r.head.Last = nil, time.Time{}, 0 // where it was to end
	r.suspend(err.Error(), nil)
	r.mu.Unlock()
}

// refusal says whether err blames the data that was to be committed.
func refusal(err error) bool {
	var data *store.DataError
	return errors.As(err, &data)
}
