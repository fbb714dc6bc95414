package kernel

import (
	"cmp"
	"context"
	"errors"
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
// stays in the store and is asked for by name.
const maxKept = 4 * store.InboxPage

// An inbox has the messages of a run that it has not taken, in the order of
// their numbers: all of them, or, where the run has more than may be in memory,
// some of them.
//
// The number of the last message decides whether the run may leave memory: the
// store lets it only if it has been sent nothing that the run has not seen. So
// mail only grows without a gap: what comes too early is not looked at, and the
// store is asked for what is missing.
//
// It is guarded by its run's mu.
type inbox struct {
	mail    int64           // every message up to this one is kept, taken, or in the store
	kept    []journal.Entry // untaken; Seq is the number
	partial bool            // untaken ones are in the store that are not kept
	taking  map[int64]int64 // by number the entries that take messages and may not be durable, as far as a question to the store can tell
}

// begin fills the inbox of a run that was claimed.
func (in *inbox) begin(mail int64, messages []journal.Entry, more bool) {
	in.mail, in.kept, in.partial = mail, messages, more
}

// add takes in a message that was posted. It gives false where it is known, and
// missing where one before it is not.
func (in *inbox) add(e journal.Entry) (added, missing bool) {
	switch {
	case e.Seq <= in.mail:
		return false, false
	case e.Seq > in.mail+1:
		return false, true
	}
	in.mail = e.Seq
	if in.partial || len(in.kept) >= maxKept {
		in.partial = true
		return true, false
	}
	in.kept = append(in.kept, e)
	return true, false
}

// merge adds messages that were asked for by name.
func (in *inbox) merge(messages []journal.Entry) {
	for _, e := range messages {
		if in.taking[e.Seq] != 0 || e.Seq > in.mail {
			continue
		}
		at, known := slices.BinarySearchFunc(in.kept, e.Seq, func(e journal.Entry, n int64) int { return cmp.Compare(e.Seq, n) })
		if !known {
			in.kept = slices.Insert(in.kept, at, e)
		}
	}
}

// trim forgets what is over the bound, which the store has. What a wait is about
// to look at must not be trimmed.
func (in *inbox) trim() {
	if len(in.kept) > maxKept {
		in.partial = true
		in.kept = slices.Delete(in.kept, maxKept, len(in.kept))
	}
}

// find gives the first message for which ok holds, or nil.
func (in *inbox) find(ok func(*journal.Entry) bool) *journal.Entry {
	for i := range in.kept {
		if ok(&in.kept[i]) {
			return &in.kept[i]
		}
	}
	return nil
}

// remove takes a message out, which the entry seq has taken.
func (in *inbox) remove(number, seq int64) {
	in.kept = slices.DeleteFunc(in.kept, func(e journal.Entry) bool { return e.Seq == number })
	if in.taking == nil {
		in.taking = map[int64]int64{}
	}
	in.taking[number] = seq
}

// settled forgets which messages were taken by entries up to that one, which are
// durable: the store gives them no more.
func (in *inbox) settled(durable int64) {
	maps.DeleteFunc(in.taking, func(_, seq int64) bool { return seq <= durable })
}

// signals gives the signals that are kept; of that name, where it is not empty.
func (in *inbox) signals(name string) []journal.Entry {
	var out []journal.Entry
	for _, e := range in.kept {
		if e.Kind == journal.SignalReceived && (name == "" || e.Op.Name == name) && len(out) < maxPeek {
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

// receive hands messages over that were posted to the run. It is called with
// the lock.
func (r *run) receive(messages ...journal.Entry) {
	for _, e := range messages {
		e.Run = r.head.Number
		switch added, missing := r.inbox.add(e); {
		case missing:
			r.k.look() // the claim loop asks for what others have posted
			return
		case added && !r.gone():
			r.arrived(&e)
		}
	}
	if !r.gone() {
		r.dispatch()
	}
}

// given hands over what a claim gave of the run's inbox. It is called with the
// lock.
func (r *run) given(c *store.Run) {
	r.receive(c.Inbox...)
	if r.inbox.mail < c.Head.Mail { // it has more than one page
		r.inbox.mail, r.inbox.partial = c.Head.Mail, true
		if !r.gone() {
			r.lookAgain()
		}
	}
}

// arrived acts on a message that has just come.
func (r *run) arrived(e *journal.Entry) {
	if e.Op.Name == controlName {
		r.command(e)
		return
	}
	for o := r.operations; o != nil; o = o.older {
		if o.wants(e) {
			o.offer()
		}
	}
}

// lookAgain has every open wait look into the inbox, the one that has waited
// longest first.
func (r *run) lookAgain() {
	if r.inbox.partial {
		r.fetch(controlName, 0, func([]journal.Entry) { r.commands() })
	}
	var waits []*operation
	for o := r.operations; o != nil; o = o.older {
		if o.forMessage && !o.settled {
			waits = append(waits, o)
		}
	}
	for _, o := range slices.Backward(waits) {
		o.offer()
	}
}

// fetch asks the store for untaken messages of a name, from a number on, adds
// them, and calls then with the lock. The run stays in memory meanwhile.
func (r *run) fetch(name string, from int64, then func([]journal.Entry)) {
	r.fetching++
	go func() {
		var messages []journal.Entry
		err := r.k.persist(func() (err error) {
			messages, err = r.k.store.Load(context.Background(), r.head.Number, store.Range{
				Inbox: true, Name: name, From: from, Limit: store.InboxPage,
			})
			return err
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fetching--
		if r.gone() {
			return
		}
		var corrupt *journal.CorruptError
		if errors.As(err, &corrupt) {
			r.suspend(err.Error(), &journal.Failure{Code: journal.CodeCorrupt, Message: err.Error()})
			return
		}
		if err == nil {
			if r.trying == 0 {
				r.inbox.trim()
			}
			r.inbox.merge(messages)
			then(messages)
		}
		r.dispatch()
	}()
}

// commands does what the engine's own messages in the inbox ask for.
func (r *run) commands() {
	for !r.gone() {
		e := r.inbox.find(func(e *journal.Entry) bool {
			return e.Op.Name == controlName && (e.Kind != journal.TimerCancelled || r.holder == nil)
		})
		if e == nil {
			return
		}
		own := *e
		r.command(&own)
	}
}

// command does what a message of the engine's own asks for; the entry that does
// it takes the message. To cancel a timer waits until no code can go on: code
// that is replayed may not have come to that timer yet.
func (r *run) command(e *journal.Entry) {
	if e.Kind == journal.TimerCancelled && r.holder != nil {
		return
	}
	d := e.Detail
	if d == nil {
		d = &journal.Detail{}
	}
	r.inbox.remove(e.Seq, r.seq+1)
	done := false
	switch e.Kind {
	case journal.CancelAsked:
		if done = r.closing == nil; done {
			r.cancel(d.Reason, e.Seq, true)
		}
	case journal.SuspendAsked:
		if done = r.head.Status.CanSuspend(); done {
			r.suspendWith(&journal.Detail{Reason: suspended(d.Reason), Mail: e.Seq})
		}
	case journal.TimerCancelled:
		done = r.cancelTimer(e.Op.Key, d.Reason, e.Seq)
	}
	if !done {
		r.outside(journal.Entry{Kind: journal.StatusChanged, Status: r.head.Status, Detail: &journal.Detail{Mail: e.Seq}})
	}
}
