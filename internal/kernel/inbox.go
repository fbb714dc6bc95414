package kernel

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The names of messages of the engine's own. The name of a signal does not begin so.
const (
	ownNames    = "perdure:"
	controlName = ownNames + "control" // cancel, suspend, resume, and the cancelling of timers
	childName   = ownNames + "child"   // the end of a child; the key is its run ID
)

// maxKept limits the number of messages of one run that are in memory. The others stay in the
// store.
const maxKept = 4 * store.InboxPage

// An inbox has the messages that its run has not taken, in the order of their numbers: all messages
// up to whole. If the run has more than may be in memory, the inbox has, of the messages after
// whole, the commands, and one page that the waits look through.
//
// Invariants: seen ≤ asked ≤ mail. The run may leave memory only if it knows every message that was
// sent to it: the store compares seen with the number of the last message. While the run asks the
// store, it stays in memory. The mu of the run guards the inbox.
type inbox struct {
	mail  int64 // the number of the last message posted, as far as is known
	seen  int64 // every command up to this number is known
	asked int64 // the messages up to this number are being read
	whole int64 // every untaken message up to this number is kept
	// untaken messages; the Seq of each is its number
	kept   []journal.Entry
	page   []journal.Entry  // messages of one name after whole
	scans  map[string]int64 // by name: the number that pages have come to
	begun  int64            // how often the scans began anew
	asking int              // requests to the store, and looks into the inbox, in progress
	taking map[int64]int64  // by number: the entry that takes the message and may not be durable
	// by number: the attempt of a visit that has observed the message, and that goes on
	claims map[int64]*attempt
	freed  bool // claims have ended, and no wait for any signal has looked since
}

// hold counts a request to the store, or a look into the inbox, that begins.
func (in *inbox) hold() { in.asking++ }

// letGo counts a request or a look that is over.
func (in *inbox) letGo() { in.asking-- }

// isHeld reports whether a request or a look is in progress.
func (in *inbox) isHeld() bool { return in.asking > 0 }

// known returns the number up to which every command is known.
func (in *inbox) known() int64 { return in.seen }

// found records how many messages a new run has found.
func (in *inbox) found(mail int64) {
	if mail > in.mail {
		in.saw(mail)
	}
}

// begin fills the inbox of a run that was claimed.
func (in *inbox) begin(mail int64, messages []journal.Entry, more bool) {
	in.saw(mail)
	in.whole, in.kept = mail, messages
	if more && len(messages) > 0 {
		in.whole = lastOf(messages)
	}
}

// saw counts messages up to that number as posted and seen.
func (in *inbox) saw(mail int64) { in.mail, in.seen, in.asked = mail, mail, mail }

// partial reports whether the store may have untaken messages that are not kept.
func (in *inbox) partial() bool { return in.whole < in.mail }

// add adds a message that was posted, and reports whether it is new. A message that comes after
// missed messages does not count as seen, like these.
func (in *inbox) add(e journal.Entry) bool {
	if e.Seq <= in.mail {
		return false
	}
	next := e.Seq == in.mail+1 && !in.partial() && len(in.kept) < maxKept
	in.mail = e.Seq
	if in.seen == e.Seq-1 {
		in.seen, in.asked = e.Seq, e.Seq
	}
	switch {
	case next:
		in.kept, in.whole = append(in.kept, e), e.Seq
	case e.Op.Name == controlName:
		in.merge([]journal.Entry{e})
	}
	return true
}

// merge keeps messages that were read from the store.
func (in *inbox) merge(messages []journal.Entry) {
	for _, e := range messages {
		at, known := slices.BinarySearchFunc(in.kept, e.Seq, func(e journal.Entry, n int64) int {
			return cmp.Compare(e.Seq, n)
		})
		if !known && in.taking[e.Seq] == 0 {
			in.kept = slices.Insert(in.kept, at, e)
		}
	}
}

// refilled adds the messages after whole that the store returned.
func (in *inbox) refilled(messages []journal.Entry, asked int64) {
	in.merge(messages)
	in.whole = max(in.whole, reached(messages, asked))
}

// scanned adds a page of the messages of one name.
func (in *inbox) scanned(name string, messages []journal.Entry, asked int64) {
	if in.scans == nil {
		in.scans = map[string]int64{}
	}
	in.scans[name] = reached(messages, asked)
	in.page = slices.DeleteFunc(messages, func(e journal.Entry) bool {
		return in.taking[e.Seq] != 0
	})
}

// reached returns the number up to which the store returned all messages. Less than a page means
// all messages that were there, at least those up to the number asked.
func reached(messages []journal.Entry, asked int64) int64 {
	if len(messages) == store.InboxPage {
		return lastOf(messages)
	}
	return max(asked, lastOf(messages))
}

// lastOf returns the number of the last of the messages.
func lastOf(messages []journal.Entry) int64 {
	if len(messages) == 0 {
		return 0
	}
	return messages[len(messages)-1].Seq
}

// scanAgain makes the scans begin anew: a wait has begun that has not seen the messages which they
// have passed.
func (in *inbox) scanAgain() {
	in.begun++
	in.page, in.scans = nil, nil
}

// searched reports whether the scan has looked at every message of a name in the store.
func (in *inbox) searched(name string) bool {
	return !in.partial() || len(in.kept) >= maxKept && in.scans[name] >= in.mail
}

// find returns the first message for which ok holds, or nil.
func (in *inbox) find(ok func(*journal.Entry) bool) *journal.Entry {
	for _, messages := range [][]journal.Entry{in.kept, in.page} {
		for i := range messages {
			if ok(&messages[i]) {
				return &messages[i]
			}
		}
	}
	return nil
}

// remove removes a message that the entry seq has taken.
func (in *inbox) remove(number, seq int64) {
	in.kept = slices.DeleteFunc(in.kept, func(e journal.Entry) bool { return e.Seq == number })
	in.page = slices.DeleteFunc(in.page, func(e journal.Entry) bool { return e.Seq == number })
	if in.taking == nil {
		in.taking = map[int64]int64{}
	}
	in.taking[number] = seq
}

// claim records that an attempt of a visit has observed a message. It reports whether that is new,
// and whether the attempt has the message: false if another one has.
func (in *inbox) claim(number int64, a *attempt) (isNew, mine bool) {
	if by := in.claims[number]; by != nil {
		return false, by == a
	}
	if in.claims == nil {
		in.claims = map[int64]*attempt{}
	}
	in.claims[number] = a
	return true, true
}

// release ends a claim.
func (in *inbox) release(number int64, a *attempt) {
	if in.claims[number] == a {
		delete(in.claims, number)
		in.freed = true
	}
}

// takeFreed reports whether claims have ended since it was called last.
func (in *inbox) takeFreed() bool {
	freed := in.freed
	in.freed = false
	return freed
}

// isClaimed reports whether an attempt of a visit has claimed a message.
func (in *inbox) isClaimed(number int64) bool { return in.claims[number] != nil }

// free returns the messages that no other attempt than a has claimed. Nil heeds no claims. The
// attempt remembers the others.
func (in *inbox) free(messages []journal.Entry, a *attempt) []journal.Entry {
	if a == nil || len(in.claims) == 0 {
		return messages
	}
	return slices.DeleteFunc(slices.Clone(messages), func(e journal.Entry) bool {
		by := in.claims[e.Seq]
		if by == nil || by == a {
			return false
		}
		if !slices.Contains(a.hidden, e.Seq) {
			a.hidden = append(a.hidden, e.Seq)
		}
		return true
	})
}

// isTaken reports whether a message was taken since the inbox is held.
func (in *inbox) isTaken(number int64) bool { return in.taking[number] != 0 }

// last returns the number of the last message that is known to be posted.
func (in *inbox) last() int64 { return in.mail }

// settled forgets which messages were taken by entries up to durable, since the store does not
// return these messages any more. While a request is in progress nothing is forgotten: its answer
// may still have them. Nor is anything forgotten while there are claims: one may be for them.
func (in *inbox) settled(durable int64) {
	if in.asking > 0 || len(in.claims) > 0 {
		return
	}
	maps.DeleteFunc(in.taking, func(_, seq int64) bool { return seq <= durable })
}

// signals returns the signals that are kept; only those of a name if it is not empty.
func (in *inbox) signals(name string) []journal.Entry {
	var out []journal.Entry
	for _, e := range in.kept {
		if e.Kind == journal.SignalReceived && (name == "" || e.Op.Name == name) {
			out = append(out, e)
		}
	}
	return out
}

// untaken returns those of the signals that no entry has taken since they were read.
func (in *inbox) untaken(messages []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(messages, func(e journal.Entry) bool {
		return in.taking[e.Seq] != 0 || e.Kind != journal.SignalReceived
	})
}

// offer offers a message that has just come to operations, until one takes it. The run stays in
// memory meanwhile.
func (in *inbox) offer(e *journal.Entry, to iter.Seq[*operation]) {
	in.hold()
	for o := range to {
		if o.wants(e) {
			o.offer()
		}
		if in.taking[e.Seq] != 0 {
			break
		}
	}
	in.letGo()
}

// offerAll lets operations look into the inbox. The run stays in memory until all of them have
// looked. The caller dispatches then.
func (in *inbox) offerAll(to []*operation) {
	in.hold()
	for _, o := range to {
		o.offer()
	}
	in.letGo()
}

// receive delivers messages that were posted to the run. It is called with the lock.
func (r *run) receive(messages ...journal.Entry) {
	for _, e := range messages {
		e.Run = r.number()
		switch {
		case !r.inbox.add(e) || r.gone():
		case e.Op.Name == controlName:
			command{r, e}.do()
		case r.operations.changeToken(r, &e):
		case !r.isFrozen():
			r.inbox.offer(&e, r.waits.of(addressOf(&e)))
			r.inbox.offer(&e, r.waits.of(anySignal))
		}
	}
	if r.gone() {
		return
	}
	r.readCommands()
	r.dispatch()
}

// learn records that mail messages were sent to the run, which may not have received them. It also
// learns from messages that the store returns: otherwise a message that is taken before it is
// delivered would count as new then, and would be taken twice.
func (r *run) learn(mail int64) {
	r.inbox.mail = max(r.inbox.mail, mail)
	if !r.gone() && r.readCommands() {
		r.dispatch()
	}
}

// seek asks the store for messages that are not in memory, if a wait may be for one of them: for
// the next messages while there is room, else for the next ones of its name. It is called when no
// code of the run is able to go on.
func (r *run) seek() {
	in := &r.inbox
	if !in.partial() || !r.waits.anyForMessage() || r.inbox.isHeld() {
		return
	}
	asked := in.mail
	if len(in.kept) < maxKept {
		r.ask(store.Range{
			From: in.whole + 1, Limit: store.InboxPage,
		}, func(messages []journal.Entry) {
			in.refilled(messages, asked)
			in.offerAll(r.operations.forMessage())
		})
		return
	}
	for o := range r.operations.all() {
		if !o.forMessage || o.settled || in.searched(o.from) {
			continue
		}
		name, begun := o.from, in.begun
		r.ask(store.Range{
			Name: name, From: max(in.whole, in.scans[name]) + 1, Limit: store.InboxPage,
		}, func(messages []journal.Entry) {
			if begun == in.begun {
				in.scanned(name, messages, asked)
			}
			in.offerAll(r.operations.forMessage())
		})
		return
	}
}

// readCommands asks the store for the engine's own messages and carries them out, and returns true,
// if some may have been missed. Until they are read, they do not count as seen.
func (r *run) readCommands() bool {
	in := &r.inbox
	if in.asked >= in.mail {
		return false
	}
	upTo := in.mail
	in.asked = upTo
	r.ask(store.Range{Name: controlName}, func(messages []journal.Entry) {
		in.seen = max(in.seen, upTo)
		in.merge(messages)
		r.commands()
	})
	return true
}

// ask asks the store for untaken messages and calls then with the lock. The run stays in memory
// meanwhile.
func (r *run) ask(messages store.Range, then func([]journal.Entry)) {
	r.inbox.hold()
	go func() {
		found, err := r.k.loadMessages(r.number(), messages)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inbox.letGo()
		if r.gone() {
			return
		}
		var corrupt *journal.CorruptError
		if errors.As(err, &corrupt) {
			r.suspend(unreadable(err))
			return
		}
		if err != nil { // the engine is over, as its next claim will report
			r.k.look()
			return
		}
		then(found)
		r.learn(lastOf(found))
		r.dispatch()
	}()
}
