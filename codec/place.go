package codec

import (
	"strconv"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A place names what a payload is bound to. It is a text: the parts are separated by slashes, and
// what may have a slash is quoted.
type place []byte

func (p place) number(n int64) place { return strconv.AppendInt(append(p, '/'), n, 10) }

func (p place) text(s string) place { return strconv.AppendQuote(append(p, '/'), s) }

// in begins a place in the database.
func (s *wrapped) in(what string) place {
	return append(append(append(make(place, 0, 128), s.database...), '/'), what...)
}

// dataPlace is the place of the payload of an entry or message.
func (s *wrapped) dataPlace(e *journal.Entry, inbox bool) place {
	switch {
	case e.Spill != 0:
		return s.spillPlace(e.Spill)
	case inbox:
		return s.messagePlace("message", e)
	}
	return s.entryPlace("entry", e)
}

// detailPlace is the place of the sealed part of a detail. It also binds the entry to the payload
// that it names.
func (s *wrapped) detailPlace(e *journal.Entry, inbox bool) place {
	if inbox {
		return s.messagePlace("message detail", e).number(int64(e.Spill))
	}
	return s.entryPlace("entry detail", e).number(int64(e.Spill))
}

func (s *wrapped) entryPlace(what string, e *journal.Entry) place {
	return s.in(what).number(int64(e.Run)).number(e.Seq).number(int64(e.Kind))
}

// messagePlace has what a message has from its sending to its taking. The run and the number are
// not known when it is sent, and a message may go from run to run until it is taken.
func (s *wrapped) messagePlace(what string, e *journal.Entry) place {
	id := ""
	if e.Detail != nil {
		id = e.Detail.Message
	}
	return s.in(what).number(int64(e.Kind)).text(e.Op.Name).text(e.Op.Key).number(e.Op.Scope).
		number(int64(e.Op.Occ)).text(id)
}

func (s *wrapped) spillPlace(id journal.Number) place { return s.in("spill").number(int64(id)) }

func (s *wrapped) settingPlace(t *store.Setting) place {
	return s.in("setting").text(t.Kind).text(t.Name)
}

func (s *wrapped) headPlace(what string, run journal.Number) place {
	return s.in("head").text(what).number(int64(run))
}
