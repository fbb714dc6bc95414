package judge

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// ReadUnrouted reads the signals that no run has.
func ReadUnrouted(ctx context.Context, s store.Store) ([]journal.Entry, error) {
	return s.Load(ctx, 0, store.Range{Inbox: true, Payloads: true})
}

// messages checks that each acknowledged signal was taken once, or is listed: in the inbox of a
// run, or among the unrouted ones. A run that is retried may take again what was taken after its
// failure.
func (b *bench) messages(c *actor.Case) {
	// names of signals that the code takes by their number, whose entries do not have the name
	byNumber := map[string]bool{}
	c.Program.Body.All(func(o *program.Op) {
		for round := range c.Program.Rounds + 1 {
			byNumber[o.Signal(round)] = o.Kind == program.Wait && o.Way == "inbox"
		}
	})
	sent := map[program.Message]int{}
	for _, m := range c.Acked {
		m.Key = ""
		if isMachine(c) { // its steps take all of a name
			m.Value = anything
		}
		if byNumber[m.Name] {
			m.Name, m.Value = taking, 0
		}
		sent[m]++
	}
	for m, n := range sent {
		taken := b.taken(m)
		listed := b.listed(m, byNumber)
		if taken+listed < n {
			b.wrong("signal %s to %s was acknowledged %d times, taken %d times, and is listed "+
				"%d times", m.Name, m.To, n, taken, listed)
		}
		if taken > n && !b.retried[c.ID] {
			b.wrong("signal %s to %s was sent %d times and taken %d times", m.Name, m.To, n, taken)
		}
	}
}

// taking is the name of the entry that takes a message by its number.
const taking = "perdure:take"

// taken counts how often a signal was taken.
func (b *bench) taken(m program.Message) (n int) {
	for _, r := range b.byID[m.To] {
		for i := range r.Entries {
			e := &r.Entries[i]
			if d := e.Detail; d != nil && d.Mail != 0 && (d.ByStep && d.Reason == m.Name ||
				e.Op.Name == m.Name && (m.Name == taking || says(e, m.Value))) {
				n++
			}
		}
	}
	return n
}

// listed counts how often a signal is in an inbox, or among those that no run has.
func (b *bench) listed(m program.Message, byNumber map[string]bool) (n int) {
	is := func(e *journal.Entry) bool {
		return e.Kind == journal.SignalReceived && (e.Op.Name == m.Name && says(e, m.Value) ||
			m.Name == taking && byNumber[e.Op.Name])
	}
	for _, r := range b.byID[m.To] {
		for i := range r.Inbox {
			if is(&r.Inbox[i]) {
				n++
			}
		}
	}
	for i := range b.Unrouted {
		if e := &b.Unrouted[i]; is(e) && e.Detail != nil && e.Detail.To == m.To {
			n++
		}
	}
	return n
}

func says(e *journal.Entry, value int) bool {
	var v int
	return value == anything || json.Unmarshal(e.Data, &v) == nil && v == value
}
