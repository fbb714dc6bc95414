package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Differ makes the same random operations on two empty databases and demands the same
// answers. The seed decides everything, and a failure reports it. If both databases are for
// many engines, two engines act alternately.
func Differ(t *testing.T, one, two Database, seed uint64, operations int) {
	t.Helper()
	t.Logf("seed %d", seed)
	many := one.Lapse != nil && two.Lapse != nil
	a, b := newPlayer(t, one, seed, many), newPlayer(t, two, seed, many)
	defer func() {
		for _, s := range append(a.besides, append(b.besides, a.s, b.s)...) {
			s.Close()
		}
	}()
	for i := range operations {
		got, want := a.play(), b.play()
		if got != want {
			t.Fatalf("seed %d, operation %d: one gives\n%s\nand the other\n%s", seed, i, got, want)
		}
		if i%20 > 0 {
			continue
		}
		if got, want := a.everything(), b.everything(); got != want {
			t.Fatalf("seed %d, after operation %d: one has\n%s\nand the other\n%s", seed, i, got,
				want)
		}
	}
	if got, want := a.everything(), b.everything(); got != want {
		t.Fatalf("seed %d: in the end one has\n%s\nand the other\n%s", seed, got, want)
	}
}

// A player makes random operations on one database. Two players with the same seed make the
// same operations, as long as their stores answer alike.
type player struct {
	*world
	other  *world // the engine that acts next; nil for none
	random *rand.Rand
	now    int // seconds
	heads  []journal.Head
	last   map[journal.Number]int64
	over   map[journal.Number]bool  // has ended
	seen   map[journal.Number]int64 // messages of a run that the player knows
	kept   []int64                  // numbers of unrouted messages, which depend on the driver
	due    []int64                  // numbers of outbox entries, likewise
	sent   []store.Change           // the last group, to be sent again
}

func newPlayer(t *testing.T, db Database, seed uint64, many bool) *player {
	p := &player{
		world: &world{T: t, db: db}, random: rand.New(rand.NewPCG(seed, 0)),
		last: map[journal.Number]int64{}, over: map[journal.Number]bool{},
		seen: map[journal.Number]int64{},
	}
	p.open()
	p.join(0)
	if many {
		p.other = p.beside(0)
	}
	return p
}

// play makes one operation and returns its answer as text.
func (p *player) play() string {
	p.now += p.random.IntN(4)
	if p.other != nil && p.chance(4) {
		p.s, p.engine, p.other.s, p.other.engine = p.other.s, p.other.engine, p.s, p.engine
		p.sent, p.due = nil, nil
	}
	n := p.random.IntN(100)
	for _, o := range []struct {
		most int
		do   func() string
	}{
		{55, p.commitSome}, {60, p.sendAgain}, {64, p.postAlone}, {76, p.takeSome}, {80, p.takeOne},
		{84, p.outboxSome},
		{88, p.findSome}, {93, p.loadSome}, {95, p.purgeSome}, {98, p.restart}, {100, p.leave},
	} {
		if n < o.most {
			return p.plain(o.do())
		}
	}
	return ""
}

func (p *player) restart() string {
	p.sent = nil
	p.die(p.now)
	return fmt.Sprint("engine ", p.engine)
}

func (p *player) leave() string {
	p.sent = nil
	p.claim(store.Leave{Engine: p.engine, Now: at(p.now)})
	p.join(p.now)
	return fmt.Sprint("engine ", p.engine, " after ", p.reserveID())
}

func (p *player) commitSome() string {
	var changes []store.Change
	used := map[journal.Number]bool{}
	for range 1 + p.random.IntN(5) {
		some := p.changes()
		if slices.ContainsFunc(some, func(c store.Change) bool { return used[c.Run] }) {
			continue
		}
		for _, c := range some {
			used[c.Run] = c.Run != 0
		}
		changes = append(changes, some...)
	}
	if p.random.IntN(20) == 0 { // refused: the run is not there
		changes = append(changes, step(p.number(), 1))
	}
	answer, err := p.send(false, changes)
	if err == nil {
		p.sent = changes
	}
	return answer
}

func (p *player) sendAgain() string {
	answer, _ := p.send(true, p.sent)
	return answer
}

// postAlone sends posts as a group that may have been written before.
func (p *player) postAlone() string {
	answer, _ := p.send(p.random.IntN(2) == 0, []store.Change{
		{Posts: []store.Post{p.post(), p.post()}},
	})
	return answer
}

// send commits changes and returns their verdicts as text. After an error the verdicts mean
// nothing.
func (p *player) send(again bool, changes []store.Change) (string, error) {
	g := p.group(changes...)
	g.Now, g.Again = at(p.now), again
	if err := p.try(g); err != nil {
		return show(err), err
	}
	p.learn(changes)
	return p.verdicts(again, changes), nil
}

// learn remembers the writes of a group.
func (p *player) learn(changes []store.Change) {
	for _, c := range changes {
		wrote := c.Verdict == store.Written || c.Verdict == store.Mail
		if c.Create && wrote && p.last[c.Run] == 0 {
			p.heads = append(p.heads, *c.Head)
		}
		if n := len(c.Entries); n > 0 && wrote {
			p.last[c.Run] = max(p.last[c.Run], c.Entries[n-1].Seq)
			p.over[c.Run] = p.over[c.Run] || c.Entries[n-1].Kind.EndsRun()
		}
		p.learnMail(c.Found)
		for _, post := range slices.Concat(c.Posts, c.Else) {
			p.learnMail(post.To)
			if post.Verdict == store.Unrouted {
				p.rank(post.Number)
			}
		}
	}
}

func (p *player) learnMail(h journal.Head) { p.seen[h.Number] = max(p.seen[h.Number], h.Mail) }

// rank returns the position of an unrouted message in the order in which the player met them.
func (p *player) rank(number int64) int {
	i := slices.Index(p.kept, number)
	if i < 0 {
		i = len(p.kept)
		p.kept = append(p.kept, number)
	}
	return i
}

// some returns a run that the player knows, or false if it knows none.
func (p *player) some() (journal.Head, bool) {
	if len(p.heads) == 0 {
		return journal.Head{}, false
	}
	return p.heads[p.random.IntN(len(p.heads))], true
}

// plain replaces the identity of the database in a text, because it differs between
// databases.
func (p *player) plain(text string) string {
	return strings.ReplaceAll(text, p.database, "DATABASE")
}

// all returns every head, newest first.
func (p *player) all() []journal.Head {
	var all []journal.Head
	for after := (journal.Cursor{}); ; {
		heads, next, err := p.s.Find(p.Context(), store.Filter{Limit: store.MaxLimit, After: after})
		p.ok(err)
		all = append(all, heads...)
		if after = next; next.IsZero() {
			return all
		}
	}
}

// everything returns all heads, journals, inboxes, slots and outbox entries as text.
func (p *player) everything() string {
	heads := p.all()
	s := p.plain(text(heads))
	for _, h := range heads {
		s += text(p.load(h.Number, store.Range{Payloads: true})) +
			text(p.load(h.Number, store.Range{Inbox: true, Payloads: true}))
	}
	info, err := p.s.Info(p.Context())
	p.ok(err)
	return s + slotsOf(p.world, store.SlotQuery{Count: store.MaxLimit}) +
		p.plain(p.unroutedText(store.Range{})+p.outboxSome()) +
		fmt.Sprint(info.Runs, info.Unrouted, info.Outbox)
}

// unroutedText returns unrouted messages as text, their numbers by rank.
func (p *player) unroutedText(r store.Range) string {
	r.Inbox = true
	messages := p.load(0, r)
	for i := range messages {
		messages[i].Seq = int64(p.rank(messages[i].Seq))
	}
	return text(messages)
}

// verdicts returns the verdicts on changes and posts as text. In a group that was sent again,
// little is known of a message without an ID.
func (p *player) verdicts(again bool, changes []store.Change) string {
	var s strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&s, "\n%d:%d found %d", c.Run, c.Verdict, c.Found.Number)
		for _, a := range c.Asks {
			fmt.Fprintf(&s, " %s", answerText(a))
		}
		for _, post := range slices.Concat(c.Posts, c.Else) {
			if again && messageOf(post) == "" {
				continue
			}
			fmt.Fprintf(&s, "\n  %d to %d", post.Verdict, post.To.Number)
			switch {
			case post.Verdict == store.Unrouted:
				fmt.Fprintf(&s, " as %d", p.rank(post.Number))
			case post.Verdict == store.Delivered && !again:
				fmt.Fprintf(&s, " as %d: %s", post.Number, text(post.To))
			}
		}
	}
	return s.String()
}

func messageOf(p store.Post) string {
	if p.Message.Detail == nil {
		return ""
	}
	return p.Message.Detail.Message
}

// show returns the kind of an error as text, because the words depend on the driver.
func show(err error) string {
	var data *store.DataError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &data):
		return "refused"
	}
	return err.Error()
}

// byRun orders claimed runs by their numbers.
func byRun(a, b store.Run) int { return cmp.Compare(a.Head.Number, b.Head.Number) }
