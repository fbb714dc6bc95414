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

// Names that messages of the engine's own have; a signal's cannot begin so.
const (
	ownNames    = "perdure:"
	controlName = ownNames + "control" // cancel, suspend, resume, and of timers their cancelling
	childName   = ownNames + "child"   // how a child ended; the key is its run ID
)

// maxKept bounds how many messages of one run are in memory. What else there is
// stays in the store.
const maxKept = 4 * store.InboxPage

// An inbox has the messages of a run that it has not taken, in the order of
// their numbers: all up to whole, and of what comes after it, where the run has
// more than may be in memory, commands, and a page that the waits look through.
//
// The run may leave memory only if it has been sent nothing that it does not know
// of: the store compares how far that is, seen, with the number of the last message.
//
// While something is asked, the run stays in memory. It is guarded by its run's mu.
type inbox struct {
	mail   int64            // the last message that was posted, as far as is known
	seen   int64            // up to this one every command is known: seen ≤ asked ≤ mail
	asked  int64            // up to this one they are being read
	whole  int64            // up to this one every untaken message is kept
	kept   []journal.Entry  // Seq is the number
	page   []journal.Entry  // messages of one name after whole
	scans  map[string]int64 // by name: up to where pages have come
	begun  int64            // how often the scans were begun anew
	asking int              // questions to the store, and looks into the inbox, on their way
	taking map[int64]int64  // by number the entries that take messages and may not be durable
}

// hold counts a question to the store, or a look into the inbox, that is on its way.
func (in *inbox) hold() { in.asking++ }

// letGo counts one that is over.
func (in *inbox) letGo() { in.asking-- }

// isHeld reports whether one is on its way.
func (in *inbox) isHeld() bool { return in.asking > 0 }

// known is up to where every command is known.
func (in *inbox) known() int64 { return in.seen }

// found takes in how many messages a new run has found.
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

// saw counts messages up to that one as posted and seen.
func (in *inbox) saw(mail int64) { in.mail, in.seen, in.asked = mail, mail, mail }

// partial says whether untaken messages may be in the store that are not kept.
func (in *inbox) partial() bool { return in.whole < in.mail }

// add takes in a message that was posted. It says whether that is new. One that
// comes after others that have been missed counts as not seen, like those.
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
		at, known := slices.BinarySearchFunc(in.kept, e.Seq, func(e journal.Entry, n int64) int { return cmp.Compare(e.Seq, n) })
		if !known && in.taking[e.Seq] == 0 {
			in.kept = slices.Insert(in.kept, at, e)
		}
	}
}

// refilled takes in what the store gave of the messages after whole.
func (in *inbox) refilled(messages []journal.Entry, asked int64) {
	in.merge(messages)
	in.whole = max(in.whole, reached(messages, asked))
}

// scanned is refilled for a page of the messages of one name.
func (in *inbox) scanned(name string, messages []journal.Entry, asked int64) {
	if in.scans == nil {
		in.scans = map[string]int64{}
	}
	in.scans[name] = reached(messages, asked)
	in.page = slices.DeleteFunc(messages, func(e journal.Entry) bool { return in.taking[e.Seq] != 0 })
}

// reached gives up to where the store gave all messages. Less than a page means
// all that were there, at least those up to the number asked.
func reached(messages []journal.Entry, asked int64) int64 {
	if len(messages) == store.InboxPage {
		return lastOf(messages)
	}
	return max(asked, lastOf(messages))
}

// lastOf gives the number of the last of messages.
func lastOf(messages []journal.Entry) int64 {
	if len(messages) == 0 {
		return 0
	}
	return messages[len(messages)-1].Seq
}

// scanAgain has the scans begin anew: a wait has begun that has not seen what
// they came by.
func (in *inbox) scanAgain() {
	in.begun++
	in.page, in.scans = nil, nil
}

// searched says whether no message of a name is in the store that has not been
// looked at.
func (in *inbox) searched(name string) bool {
	return !in.partial() || len(in.kept) >= maxKept && in.scans[name] >= in.mail
}

// find gives the first message for which ok holds, or nil.
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

// remove takes a message out, which the entry seq has taken.
func (in *inbox) remove(number, seq int64) {
	in.kept = slices.DeleteFunc(in.kept, func(e journal.Entry) bool { return e.Seq == number })
	in.page = slices.DeleteFunc(in.page, func(e journal.Entry) bool { return e.Seq == number })
	if in.taking == nil {
		in.taking = map[int64]int64{}
	}
	in.taking[number] = seq
}

// settled forgets which messages were taken by entries up to that one, which are
// durable: the store gives them no more. What is asked already may still have them.
func (in *inbox) settled(durable int64) {
	if in.asking > 0 {
		return
	}
	maps.DeleteFunc(in.taking, func(_, seq int64) bool { return seq <= durable })
}

// signals gives the signals that are kept; of that name, where it is not empty.
func (in *inbox) signals(name string) []journal.Entry {
	var out []journal.Entry
	for _, e := range in.kept {
		if e.Kind == journal.SignalReceived && (name == "" || e.Op.Name == name) {
			out = append(out, e)
		}
	}
	return out
}

// untaken gives those of the signals that have not been taken since they were
// read.
func (in *inbox) untaken(messages []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(messages, func(e journal.Entry) bool {
		return in.taking[e.Seq] != 0 || e.Kind != journal.SignalReceived
	})
}

// offer offers a message that has just come to operations, until one has taken it. The run
// stays in memory meanwhile.
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

// offerAll has operations look into the inbox. The run stays in memory until all of them have,
// and its caller dispatches then.
func (in *inbox) offerAll(to []*operation) {
	in.hold()
	for _, o := range to {
		o.offer()
	}
	in.letGo()
}

// receive hands messages over that were posted to the run. It is called with
// the lock.
func (r *run) receive(messages ...journal.Entry) {
	for _, e := range messages {
		e.Run = r.number()
		switch {
		case !r.inbox.add(e) || r.gone():
		case e.Op.Name == controlName:
			command{r, e}.do()
		case !r.isFrozen():
			r.inbox.offer(&e, r.waits.of(addressOf(&e)))
		}
	}
	if r.gone() {
		return
	}
	r.readCommands()
	r.dispatch()
}

// learn says that the run was sent so many messages, which it may not have been
// given. What the store gives is learned too: a message that is taken before the
// run is told of it would else be news then, and taken twice.
func (r *run) learn(mail int64) {
	r.inbox.mail = max(r.inbox.mail, mail)
	if !r.gone() && r.readCommands() {
		r.dispatch()
	}
}

// seek asks the store for messages that are not in memory, where a wait may be
// for one of them: the next ones while there is room, else the next ones of its
// name. It is called when no code of the run can go on.
func (r *run) seek() {
	in := &r.inbox
	if !in.partial() || !r.waits.anyForMessage() || r.inbox.isHeld() {
		return
	}
	asked := in.mail
	if len(in.kept) < maxKept {
		r.ask(store.Range{From: in.whole + 1, Limit: store.InboxPage}, func(messages []journal.Entry) {
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
		r.ask(store.Range{Name: name, From: max(in.whole, in.scans[name]) + 1, Limit: store.InboxPage}, func(messages []journal.Entry) {
			if begun == in.begun {
				in.scanned(name, messages, asked)
			}
			in.offerAll(r.operations.forMessage())
		})
		return
	}
}

// readCommands asks the store for the engine's own messages, and does what they
// ask for, where some may have been missed: then it gives true. Until they are read,
// they are not seen.
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

// ask asks the store for untaken messages and calls then with the lock. The run
// stays in memory meanwhile.
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
		if err != nil { // the engine is over, as its next claim will tell it
			r.k.look()
			return
		}
		then(found)
		r.learn(lastOf(found))
		r.dispatch()
	}()
}
