package kernel

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// peekPage limits how many messages of an inbox are read from the store at a time.
const peekPage = 1000

// A Look selects untaken signals of an inbox.
type Look struct {
	Name  string // empty for any name
	Limit int    // the first so many; 0 means all
	Last  bool   // only the last one, whatever Limit is
}

// cut returns the messages that are selected.
func (l Look) cut(messages []journal.Entry) []journal.Entry {
	switch {
	case l.Last:
		return messages[max(len(messages)-1, 0):]
	case l.Limit > 0:
		return messages[:min(len(messages), l.Limit)]
	}
	return messages
}

// Peek returns signals that the run of ctx has not taken, in order. In workflow code the result is
// recorded. In the body of a step it is the state of the moment.
func Peek(ctx context.Context, l Look) ([]journal.Entry, error) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		if !a.op.work.Visit {
			return l.at(a.op.run, nil)
		}
		return l.at(a.op.run, a)
	}
	out, err := TakeNote(ctx, Note{
		Kind: journal.ValueRecorded, Name: ownNames + "inbox", Key: l.Name,
		Produce: func() ([]byte, *journal.Failure) {
			s, err := scopeOf(ctx, call{"peek", l.Name})
			if err == nil {
				var messages []journal.Entry
				if messages, err = l.at(s.run, nil); err == nil {
					data, err := json.Marshal(messages)
					if err == nil {
						return data, nil
					}
				}
			}
			return nil, &journal.Failure{Code: journal.CodeOf(err), Message: err.Error()}
		},
	})
	if err != nil {
		return nil, err
	}
	if f := out.Failure; f != nil {
		return nil, &journal.Error{Code: f.Code, Op: "peek", Message: f.Message}
	}
	var messages []journal.Entry
	if err := json.Unmarshal(out.Data, &messages); err != nil {
		return nil, &journal.Error{Code: journal.CodeDecode, Op: "peek", Err: err}
	}
	return messages, nil
}

// at returns signals that a run has not taken. It reads payloads and messages that are not in
// memory. If by is the attempt of a visit, it claims what it returns.
func (l Look) at(r *run, by *attempt) ([]journal.Entry, error) {
	var messages []journal.Entry
	r.mu.Lock()
	partial := r.inbox.partial()
	if !partial {
		messages = l.pick(r, r.inbox.signals(l.Name), by)
	}
	r.inbox.hold()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.inbox.letGo()
		r.mu.Unlock()
	}()
	if partial {
		var err error
		if messages, err = l.untaken(r, by); err != nil {
			return nil, err
		}
	}
	for i := range messages {
		if m := &messages[i]; m.Spill != 0 && m.Data == nil {
			data, err := r.k.fetchMessage(r.number(), m.Seq)
			if err != nil {
				return nil, err
			}
			m.Data = data
		}
	}
	return messages, nil
}

// pick returns the messages that are selected. It is called with the lock.
func (l Look) pick(r *run, messages []journal.Entry, by *attempt) []journal.Entry {
	if by == nil {
		return l.cut(messages)
	}
	return by.claim(l.cut(r.inbox.free(messages, by)))
}

// untaken reads signals that a run has not taken. The store may not know yet that some are taken.
func (l Look) untaken(r *run, by *attempt) ([]journal.Entry, error) {
	var out []journal.Entry
	for from := int64(0); ; {
		messages, err := r.k.loadMessages(
			r.number(), store.Range{Name: l.Name, From: from, Limit: peekPage},
		)
		if err != nil {
			return nil, err
		}
		n := len(messages)
		if n > 0 {
			from = messages[n-1].Seq + 1
		}
		r.mu.Lock()
		out = l.cut(append(out, r.inbox.free(r.inbox.untaken(messages), by)...))
		over, before := n < peekPage || l.Limit > 0 && len(out) == l.Limit, len(out)
		if over { // others may have taken messages while the last page was read
			out = r.inbox.free(r.inbox.untaken(out), by)
			if over = len(out) == before || !l.Last && l.Limit == 0; over {
				out = l.pick(r, out, by)
			} else {
				out, from = nil, 0
			}
		}
		r.mu.Unlock()
		if over {
			return out, nil
		}
	}
}

// TakeMessage takes the signal of that number out of the inbox. It returns false if the run has no
// such signal, or the signal is taken.
func TakeMessage(ctx context.Context, number int64) (bool, error) {
	what := call{"take", strconv.FormatInt(number, 10)}
	s, err := inside(ctx, what)
	if err != nil {
		return false, err
	}
	r := s.run
	defer r.mu.Unlock()
	op, rec := s.ask(asked{name: ownNames + "take", key: what.name, class: isNote, inert: true})
	if rec != nil {
		return rec.ended.Detail != nil && rec.ended.Detail.ByMessage(), nil
	}
	m, err := s.signalOf(number)
	if err != nil {
		return false, err
	}
	e := journal.Entry{Kind: journal.ValueRecorded, Op: op}
	if m != nil {
		e.Data, e.Spill, e.Detail = m.Data, m.Spill, takes(m)
		e.Detail.Reason = m.Op.Name
		r.inbox.remove(number, r.last()+1)
	}
	r.append(e)
	return m != nil, nil
}

// signalOf returns a signal that is in the inbox; nil if there is none. It may release the lock
// meanwhile.
func (s *scope) signalOf(number int64) (*journal.Entry, error) {
	r := s.run
	is := func(e *journal.Entry) bool { return e.Seq == number && e.Kind == journal.SignalReceived }
	if e := r.inbox.find(is); e != nil {
		m := *e
		return &m, nil
	}
	if !r.inbox.partial() {
		return nil, nil //nolint:nilnil // there is none
	}
	r.reads(1)
	r.inbox.hold()
	r.mu.Unlock()
	messages, err := r.k.loadMessages(r.number(), store.Range{From: number, Limit: 1})
	r.mu.Lock()
	r.reads(-1)
	r.inbox.letGo()
	r.stay()
	if err != nil {
		return nil, err
	}
	if err := s.ended(); err != nil {
		return nil, err
	}
	messages = r.inbox.untaken(messages)
	if len(messages) != 1 || !is(&messages[0]) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &messages[0], nil
}
