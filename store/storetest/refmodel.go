package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A reference has the limits as [store.Ask] and [store.Adjust] describe them, in plain lists. It is
// no store: it has no transactions, no indexes and no counters, and searches everything. A bucket
// is a number of tokens. Time is in hours. If each Every is 1, 2 or 4 of them, nothing is rounded.
type reference struct {
	now    float64 // the hour
	limits []*refLimit
	places []*place // of all limits, in the order of the asks
	asks   int      // so far
	runs   []*refRun
	forgot float64 // when the last bucket was gone: a store may forget it then, or later
}

// A refRun is an open run.
type refRun struct {
	number   journal.Number
	workflow string
	begun    bool
	told     []int64 // the numbers of its messages about slots
}

// A refLimit has the slots or the bucket of one key of a limit.
type refLimit struct {
	name, key string
	most      int
	revision  int64

	every, burst float64
	has          float64 // tokens; below 0: so many are given for later
	at           float64 // the hour when it had them
}

// A place is a slot, a wait for one, or a token.
type place struct {
	of       *refLimit
	run      journal.Number
	slot     int64
	since    float64
	held     bool
	isToken  bool
	due      float64 // of a token
	priority int
	share    string
	came     time.Time
	round    int
	nth      int // in the round: the number of its ask, or of that whose place it has
}

// commit carries out a group and returns the number of grants. It sets the answers to the asks of
// its changes.
func (m *reference) commit(changes []store.Change) (grants int) {
	successors := map[journal.Number]*refRun{}
	for _, c := range changes {
		if !c.Create {
			continue
		}
		r := &refRun{c.Run, c.Head.Workflow, c.Head.Status != journal.Pending, nil}
		if c.From != 0 {
			successors[c.From] = r
		} else {
			m.runs = append(m.runs, r)
		}
	}
	for _, c := range changes {
		ends := !c.Create && c.Head != nil && !c.Head.Ended.IsZero()
		goesOn := successors[c.Run] != nil
		m.places = slices.DeleteFunc(m.places, func(p *place) bool {
			return p.run == c.Run && (slices.Contains(c.Frees, p.slot) ||
				ends && (p.slot > 0 || !goesOn))
		})
		m.runs = slices.DeleteFunc(m.runs, func(r *refRun) bool {
			return r.number == c.Run && ends && !goesOn
		})
	}
	for _, c := range changes {
		for _, a := range c.Adjusts {
			grants += m.adjust(a)
		}
	}
	for _, l := range m.limits {
		grants += m.give(l, nil)
	}
	for i := range changes {
		grants += m.answer(&changes[i])
	}
	for i, r := range m.runs {
		if next := successors[r.number]; next != nil {
			next.told = r.told
			m.runs[i] = next
			for _, p := range m.places {
				if p.run == r.number {
					p.run = next.number
				}
			}
		}
	}
	m.limits = slices.DeleteFunc(m.limits, m.isGone)
	return grants
}

// isGone reports whether nobody has or waits for anything of a limit, and its bucket is full.
func (m *reference) isGone(l *refLimit) bool {
	isGone := len(m.of(l, nil)) == 0 && m.tokens(l) == l.burst
	if isGone && l.burst > 0 {
		m.forgot = m.now
	}
	return isGone
}

// of returns the places of a limit that are so, in the order of the asks.
func (m *reference) of(l *refLimit, so func(p *place) bool) (all []*place) {
	for _, p := range m.places {
		if p.of == l && (so == nil || so(p)) {
			all = append(all, p)
		}
	}
	return all
}

func (m *reference) used(l *refLimit) int {
	return len(m.of(l, func(p *place) bool { return p.held && !p.isToken }))
}

// line returns those that wait, the first in line first.
func (m *reference) line(l *refLimit) []*place {
	all := m.of(l, func(p *place) bool { return !p.held })
	slices.SortStableFunc(all, func(a, b *place) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.round, b.round),
			cmp.Compare(a.nth, b.nth))
	})
	return all
}

// give hands what is free to the first in line. It tells all but the one that asks.
func (m *reference) give(l *refLimit, asks *place) (grants int) {
	for line := m.line(l); len(line) > 0 && (l.most == 0 || m.used(l) < l.most); line = line[1:] {
		if line[0].held = true; line[0] != asks {
			grants += m.tell(line[0])
		}
	}
	return grants
}

// tell sends a run the message that it has a slot, or another time for its token.
func (m *reference) tell(p *place) int {
	for _, r := range m.runs {
		if r.number == p.run {
			r.told = append(r.told, p.slot)
		}
	}
	return 1
}

// limit returns the limit of a name and key, which it makes if there is none.
func (m *reference) limit(name, key string, revision int64) *refLimit {
	for _, l := range m.limits {
		if l.name == name && l.key == key {
			return l
		}
	}
	l := &refLimit{name: name, key: key, revision: revision}
	m.limits = append(m.limits, l)
	return l
}

// answer answers the asks of a run.
func (m *reference) answer(c *store.Change) (grants int) {
	refused := false
	for i := range c.Asks {
		a := &c.Asks[i]
		a.Answer, a.Wait = store.NotAnswered, 0
		if a.Slot < 0 && refused {
			continue
		}
		p := m.place(c.Run, a)
		if l := p.of; l.name == a.Limit && l.key == a.Key && a.Revision >= l.revision {
			l.most = a.Max
		}
		grants += m.give(p.of, p)
		switch a.Answer = store.Granted; {
		case !p.held:
			a.Answer = store.InLine
		case p.isToken && p.due > m.now:
			a.Answer, a.Wait = store.Later, hours(p.due-m.now)
		}
		refused = refused || a.Slot < 0 && a.Answer != store.Granted
	}
	return grants
}

// place returns what a run has asked for by a number, or asks for now.
func (m *reference) place(run journal.Number, a *store.Ask) *place {
	for _, p := range m.places {
		if p.run == run && p.slot == a.Slot {
			return p
		}
	}
	p := &place{
		of: m.limit(a.Limit, a.Key, a.Revision), run: run, slot: a.Slot, since: m.now,
		priority: a.Priority, share: a.Share, came: a.Came,
	}
	if a.Every > 0 {
		m.token(p, a)
	} else {
		m.queue(p)
	}
	m.places = append(m.places, p)
	return p
}

// queue puts a place into the line: in the first round after those in which its share waits, not
// before the round that is served. If others of the share came later, it gets the place of the
// first of them, and each of them that of the next.
func (m *reference) queue(p *place) {
	line := slices.DeleteFunc(m.line(p.of), func(o *place) bool { return o.priority != p.priority })
	m.asks++
	p.round, p.nth = 1, m.asks
	if len(line) > 0 {
		p.round = line[0].round
	}
	share := slices.DeleteFunc(line, func(o *place) bool { return o.share != p.share })
	if n := len(share); n > 0 {
		p.round = share[n-1].round + 1
		if p.came.IsZero() {
			p.came = share[n-1].came
		}
	}
	for _, o := range slices.Backward(share) {
		if o.came.After(p.came) {
			o.round, o.nth, p.round, p.nth = p.round, p.nth, o.round, o.nth
		}
	}
}

// tokens returns how many tokens a bucket has. A clock that is put back takes the bucket along.
func (m *reference) tokens(l *refLimit) float64 {
	if l.burst == 0 { // there is none
		return 0
	}
	return min(l.burst, l.has+max(0, m.now-l.at)/l.every)
}

// token takes a token for now, or for the time at which the bucket has it.
func (m *reference) token(p *place, a *store.Ask) {
	l, every, burst := p.of, a.Every.Hours(), float64(a.Burst)
	switch has := m.tokens(l); {
	case l.burst == 0:
		l.every, l.burst, l.has = every, burst, burst
	case a.Revision < l.revision:
		l.has = has
	case has < 0: // the next token is Every after the last one that is given for later
		l.every, l.burst, l.has = every, burst, has*l.every/every
	default:
		l.every, l.burst, l.has = every, burst, min(has, burst)
	}
	l.at = m.now
	m.take(p)
}

func (m *reference) take(p *place) {
	l := p.of
	l.has--
	p.held, p.isToken, p.due = true, true, m.now+max(0, -l.has)*l.every
}

// adjust changes a limit for all of its keys.
func (m *reference) adjust(a store.Adjust) (grants int) {
	for _, r := range m.runs {
		had := slices.ContainsFunc(m.places, func(p *place) bool {
			return p.run == r.number && (p.slot == a.Slot || p.slot < 0 && !p.held)
		})
		if a.Workflow == "" || r.workflow != a.Workflow || !r.begun || had {
			continue
		}
		if l := m.limit(a.Limit, "", 0); a.Revision >= l.revision {
			m.places = append(m.places, &place{
				of: l, run: r.number, slot: a.Slot, since: m.now, held: true,
			})
		}
	}
	for _, l := range m.limits {
		if l.name != a.Limit || a.Revision < l.revision {
			continue
		}
		isNew := a.Revision > l.revision
		l.most, l.revision = a.Max, a.Revision
		if a.Every == 0 || !isNew {
			continue
		}
		// the bucket is empty, and the tokens for later are given anew
		l.every, l.burst, l.has, l.at = a.Every.Hours(), float64(a.Burst), 0, m.now
		for _, p := range m.of(l, func(p *place) bool { return p.isToken && p.due > m.now }) {
			m.take(p)
			grants += m.tell(p)
		}
	}
	return grants
}

// text returns who has and waits for what, as [slotText] does, by limit, key and place.
func (m *reference) text() (all []string) {
	for _, l := range m.limits {
		line := m.line(l)
		for _, p := range m.of(l, nil) {
			state := "holds"
			switch {
			case p.isToken:
				state = "token"
			case !p.held:
				state = fmt.Sprint("waits ", slices.Index(line, p)+1)
			}
			all = append(all, fmt.Sprintf("%s[%s] %d/%d %s of %d %d+%d; since %v", l.name, l.key,
				p.run&0xffff, p.slot, state, l.most, m.used(l), len(line), p.since))
		}
	}
	slices.SortFunc(all, strings.Compare)
	return all
}
