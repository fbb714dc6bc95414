package memory

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A message is a message in an inbox. A message that was taken stays, without its content, so that
// a second message with the same ID is known as a duplicate.
type message struct {
	number int64
	id     string // the sender's ID; empty if there is none
	sent   time.Time
	taker  *run // the run that took it; nil before
	row    row
}

// read returns the message as an entry of the inbox of a run.
func (m *message) read(run journal.Number) (journal.Entry, error) {
	e := m.row.entry
	e.Run, e.Seq = run, m.number
	detail, err := journal.DecodeDetail(m.row.detail)
	if err != nil {
		return e, &journal.CorruptError{Run: e.Run, Seq: e.Seq, Reason: err.Error()}
	}
	e.Detail = detail
	return e, e.Check()
}

// A sent identifies a message within a chain, by its sender's ID.
type sent struct {
	chain journal.Number
	id    string
}

// sent returns the key of the message with that ID in the run's chain.
func (r *run) sent(id string) sent {
	return sent{chain: cmp.Or(r.head.Chain, r.head.Number), id: id}
}

// knows returns the message with that ID in the run's chain; nil if there is none.
func (d *data) knows(r *run, id string) *message {
	if r == nil || id == "" {
		return nil
	}
	return d.known[r.sent(id)]
}

// own returns the message that a post by workflow ID wrote when its group was sent before, and the
// run that has it; the run is nil if the message waits for one. It finds the message by its
// sender's ID and its time. If it finds none, it returns nil and the receiver that it was given.
func (d *data) own(p *store.Post, receiver *run) (*message, *run) {
	id := messageID(p.Message.Detail)
	if p.Run != 0 || id == "" {
		return nil, receiver
	}
	sent := stored(p.Message.At)
	var own *message
	var has *run
	for _, r := range d.byID[p.WorkflowID] {
		m := d.knows(r, id)
		if m != nil && m.sent.Equal(sent) && r.has(m) &&
			(has == nil || r.head.Number > has.head.Number) {
			own, has = m, r
		}
	}
	if own != nil {
		return own, has
	}
	for _, u := range d.waiting[p.WorkflowID] {
		if u.id == id && u.sent.Equal(sent) {
			return &u.message, nil
		}
	}
	return nil, receiver
}

// posts writes the messages of a change. For a start that found a run, it writes those that are
// meant for this case.
func (tx *transaction) posts(_ int, c *store.Change) error {
	does, elses := true, false
	if c.Create {
		does, elses = c.Verdict != store.Taken, c.Verdict != store.Written
	}
	for _, part := range []struct {
		posts []store.Post
		does  bool
	}{{c.Posts, does}, {c.Else, elses}} {
		for j := range part.posts {
			p := &part.posts[j]
			p.Verdict, p.To, p.Number = store.Written, journal.Head{}, 0
			if !part.does {
				continue
			}
			if err := tx.post(p, tx.sending == done); err != nil {
				return err
			}
		}
	}
	return nil
}

// post writes a message. If old, the message was written before, and post only sets its verdict.
func (tx *transaction) post(p *store.Post, old bool) error {
	verdict, r, number := tx.data.judge(p, tx.group.Now)
	var own *message
	if tx.sending != first {
		own, r = tx.data.own(p, r)
	}
	switch {
	case own != nil:
		verdict, number = store.Delivered, own.number
		if r == nil {
			verdict = store.Unrouted
		}
	case tx.sending != first && p.Unrouted != 0 && number == 0 && r != nil:
		// The message was moved when the group was sent before.
		verdict = store.Delivered
	case tx.sending != first && p.Unrouted == 0 && verdict == store.Duplicate:
		verdict = store.Delivered
		if r == nil {
			verdict = store.Unrouted
		}
	case old:
	case p.Unrouted != 0:
		number = tx.reroute(p, verdict, r)
	case verdict == store.Delivered || verdict == store.Unrouted:
		row, err := tx.newRow(messageOf(p))
		if err != nil {
			return fmt.Errorf("a message for %d %s: %w", p.Run, p.WorkflowID, err)
		}
		if verdict == store.Delivered {
			number = tx.deliver(r, messageID(p.Message.Detail), row, p.Force)
			r.tell(tx.group.Engine, number)
		} else {
			number = tx.keep(p, row)
		}
	}
	if p.Verdict = verdict; verdict == store.Nobody {
		return nil
	}
	if r != nil {
		p.To = r.head
	}
	if verdict != store.Closed {
		p.Number = number
	}
	return nil
}

// tell counts a message as given if the engine that posts it owns the receiver and was given every
// earlier message. Such an engine learns of the message by the verdict.
func (r *run) tell(engine journal.EngineID, number int64) {
	if engine != 0 && r.head.Owner == engine && r.given == number-1 {
		r.given = number
	}
}

// messageOf returns the part of an entry that makes a message.
func messageOf(p *store.Post) journal.Entry {
	m := &p.Message
	return journal.Entry{
		Kind: m.Kind, Op: m.Op, At: m.At, Data: m.Data, Spill: m.Spill, Detail: m.Detail,
	}
}

func messageID(d *journal.Detail) string {
	if d == nil {
		return ""
	}
	return d.Message
}

// deliver puts a message into an inbox, makes the run due if the message may wake it, and returns
// the number of the message.
func (tx *transaction) deliver(r *run, id string, row row, force bool) int64 {
	tx.touch(r)
	d, h := tx.data, &r.head
	h.Mail++
	m := &message{number: h.Mail, id: id, sent: row.entry.At, row: row}
	r.inbox = append(r.inbox, m)
	if id != "" {
		key := r.sent(id)
		d.known[key] = m
		tx.undo = append(tx.undo, func() { delete(d.known, key) })
	}
	if m.row.entry.Kind.IsOrder() {
		e, _ := m.row.read() // of a detail that is not readable, the kind counts
		r.ordered = max(r.ordered, store.OrderOf(&e))
	}
	now := stored(tx.group.Now)
	if h.Owner == 0 && (h.Cause == "" || force) && (h.Wake.IsZero() || h.Wake.After(now)) {
		h.Wake = now
	}
	return m.number
}

// pass moves the inbox of a run unchanged to the run that continues it. Messages that were not
// taken count as not given.
func (tx *transaction) pass(from, to *run) {
	tx.touch(from)
	to.inbox, to.read, to.head.Mail, to.given = from.inbox, from.read, from.head.Mail,
		from.head.Mail
	if len(to.inbox) > 0 {
		to.given = to.inbox[0].number - 1
	}
	from.inbox, from.read, from.continued = nil, 0, true
}

// has reports whether the message is in the inbox of the run or was taken by the run.
func (r *run) has(m *message) bool {
	return m.taker == r || m.taker == nil && r.message(m.number) == m
}

// message returns the message with that number in the inbox; nil if there is none.
func (r *run) message(number int64) *message {
	if i := r.after(number - 1); i < len(r.inbox) && r.inbox[i].number == number &&
		r.inbox[i].taker == nil {
		return r.inbox[i]
	}
	return nil
}

// note records that a message of the inbox was taken. Taken messages are removed from the inbox
// when they come first, or when they are more than half of it.
func (r *run) note(m *message) {
	r.taken = append(r.taken, m)
	r.read++
	for len(r.inbox) > 0 && r.inbox[0].taker != nil {
		r.inbox, r.read = r.inbox[1:], r.read-1
	}
	if r.read > len(r.inbox)/2 {
		r.inbox, r.read = slices.Collect(r.untaken(0)), 0
	}
}

// after returns the position of the first message with a greater number.
func (r *run) after(number int64) int {
	i, _ := slices.BinarySearchFunc(r.inbox, number+1, func(m *message, n int64) int {
		return cmp.Compare(m.number, n)
	})
	return i
}

// hasMail reports whether the run has an owner that was not given all of its messages.
func (r *run) hasMail() bool {
	return r.isOpen() && r.head.Owner != 0 && r.head.Mail > r.given
}

// untaken returns the messages of the inbox with greater numbers.
func (r *run) untaken(above int64) iter.Seq[*message] {
	return func(yield func(*message) bool) {
		for _, m := range r.inbox[r.after(above):] {
			if m.taker == nil && !yield(m) {
				return
			}
		}
	}
}

// beginning returns the first messages of the inbox with numbers above a number, and reports
// whether there are more.
func (r *run) beginning(above int64) (entries []journal.Entry, more bool, err error) {
	size := 0
	for m := range r.untaken(above) {
		if len(entries) == store.InboxPage || size >= store.InboxBytes {
			return entries, true, nil
		}
		e, err := m.read(r.head.Number)
		if err != nil {
			return entries, false, err
		}
		entries = append(entries, e)
		size += e.Size()
	}
	return entries, false, nil
}
