package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Differ makes the same random operations on two empty databases and demands
// the same answers. The seed, which a failure tells, decides everything.
func Differ(t *testing.T, one, two Database, seed uint64, operations int) {
	t.Helper()
	t.Logf("seed %d", seed)
	a, b := newPlayer(t, one, seed), newPlayer(t, two, seed)
	defer func() { a.s.Close(); b.s.Close() }()
	for i := range operations {
		got, want := a.play(), b.play()
		if got != want {
			t.Fatalf("seed %d, operation %d: one gives\n%s\nand the other\n%s", seed, i, got, want)
		}
	}
	if got, want := a.everything(), b.everything(); got != want {
		t.Fatalf("seed %d: in the end one has\n%s\nand the other\n%s", seed, got, want)
	}
}

// A player makes random operations on one database. Two players with the same
// seed make the same ones, as long as their stores answer alike.
type player struct {
	*world
	random *rand.Rand
	now    int // seconds
	heads  []journal.Head
	last   map[journal.Number]int64
	over   map[journal.Number]bool // has ended
	sent   []store.Change          // the last group, to be sent again
}

func newPlayer(t *testing.T, db Database, seed uint64) *player {
	p := &player{
		world: &world{T: t, db: db}, random: rand.New(rand.NewPCG(seed, 0)), last: map[journal.Number]int64{}, over: map[journal.Number]bool{},
	}
	p.open()
	p.join(0)
	return p
}

// play makes one operation and shows its answer.
func (p *player) play() string {
	p.now += p.random.IntN(4)
	switch n := p.random.IntN(100); {
	case n < 60:
		return p.commitSome()
	case n < 65:
		return p.sendAgain()
	case n < 80:
		return p.takeSome()
	case n < 85:
		return p.takeOne()
	case n < 90:
		return p.findSome()
	case n < 95:
		return p.loadSome()
	case n < 98:
		p.die(p.now)
		return fmt.Sprint("engine ", p.engine)
	}
	p.claim(store.Claim{Engine: p.engine, Leave: true, Now: at(p.now)})
	p.join(p.now)
	return fmt.Sprint("engine ", p.engine)
}

func (p *player) commitSome() string {
	var changes []store.Change
	used := map[journal.Number]bool{}
	for range 1 + p.random.IntN(5) {
		c := p.change()
		if !used[c.Run] {
			changes = append(changes, c)
		}
		used[c.Run] = true
	}
	if p.random.IntN(20) == 0 { // refused: the run is not there
		changes = append(changes, step(p.number(), 1))
	}
	g := p.group(changes...)
	err := p.try(g)
	if err == nil {
		p.sent = changes
		p.learn(changes)
	}
	if err != nil {
		return show(err) // the verdicts mean nothing then
	}
	return verdicts(changes)
}

// learn takes note of what a group has written.
func (p *player) learn(changes []store.Change) {
	for _, c := range changes {
		if c.Create && c.Verdict == store.Written {
			p.heads = append(p.heads, *c.Head)
		}
		if n := len(c.Entries); n > 0 && c.Verdict == store.Written {
			p.last[c.Run] = max(p.last[c.Run], c.Entries[n-1].Seq)
			p.over[c.Run] = p.over[c.Run] || c.Entries[n-1].Kind.EndsRun()
		}
	}
}

// change is a start, or what happens to a run that is there: results, a head,
// the end, or an entry that it has already. A run that has ended gets results
// only, which no store looks at.
func (p *player) change() store.Change {
	if len(p.heads) == 0 || p.random.IntN(3) == 0 {
		c := p.start(fmt.Sprint("order-", p.random.IntN(12)))
		c.Head.Workflow = []string{"v", "w"}[p.random.IntN(2)]
		c.Head.Created = at(p.now)
		if p.random.IntN(2) == 0 {
			c.Since = at(p.now - p.random.IntN(200))
		}
		if p.random.IntN(2) == 0 {
			c.Head.Owner, c.Head.Status, c.Head.Wake = 0, journal.Pending, at(p.now+p.random.IntN(20))
		}
		return c
	}
	h := p.heads[p.random.IntN(len(p.heads))]
	seq := p.last[h.Number] + 1
	switch p.random.IntN(10) {
	case 0:
		seq = 1
	case 1, 2, 3:
		if p.over[h.Number] {
			break
		}
		return ended(h, seq, p.now)
	case 4, 5:
		if p.over[h.Number] {
			break
		}
		return update(h, func(h *journal.Head) {
			h.Status, h.Owner, h.Wake = journal.Waiting, 0, at(p.now+p.random.IntN(20))
		})
	}
	c := step(h.Number, seq)
	c.Entries[0].Took = time.Duration(p.random.Int64())
	c.Entries[0].Data = []byte{byte(p.random.IntN(256))}[:p.random.IntN(2)]
	if p.random.IntN(4) == 0 {
		c.Entries[0].Op.Key = fmt.Sprint(p.random.IntN(9))
		c.Entries[0].Detail = &journal.Detail{Attempt: 2, Due: at(p.now)}
	}
	return c
}

func (p *player) sendAgain() string {
	g := p.group(p.sent...)
	g.Again = true
	err := p.try(g)
	if err == nil {
		p.learn(p.sent)
	}
	if err != nil {
		return show(err)
	}
	return verdicts(p.sent)
}

func (p *player) takeSome() string {
	names := []string{"v", "w", "none"}[p.random.IntN(2):]
	got := p.claim(store.Claim{Engine: p.engine, Now: at(p.now), Workflows: names, Max: 1 + p.random.IntN(4)})
	return p.plain(fmt.Sprintf("%s more %v next %s", text(got.Runs), got.More, moment(got.Next)))
}

func (p *player) takeOne() string {
	if len(p.heads) == 0 {
		return ""
	}
	run := p.heads[p.random.IntN(len(p.heads))].Number
	return p.plain(text(p.claim(store.Claim{Engine: p.engine, Run: run, Now: at(p.now)}).Runs))
}

func (p *player) findSome() string {
	f := store.Filter{Limit: 1 + p.random.IntN(10)}
	if p.random.IntN(2) == 0 {
		f.WorkflowID = fmt.Sprint("order-", p.random.IntN(12))
	}
	if p.random.IntN(2) == 0 {
		f.Workflow = "w"
	}
	if p.random.IntN(2) == 0 {
		f.Statuses = []journal.Status{journal.Completed, journal.Running}
	}
	if len(p.heads) > 0 && p.random.IntN(2) == 0 {
		f.After = p.heads[p.random.IntN(len(p.heads))].Number
	}
	heads, next, err := p.s.Find(p.Context(), f)
	return p.plain(fmt.Sprintf("%s next %d %s", text(heads), next, show(err)))
}

func (p *player) loadSome() string {
	if len(p.heads) == 0 {
		return ""
	}
	run := p.heads[p.random.IntN(len(p.heads))].Number
	return text(p.load(run, store.Range{From: int64(p.random.IntN(4)), Limit: p.random.IntN(4)}))
}

// plain leaves the identity of the database out of a text, since it differs.
func (p *player) plain(text string) string { return strings.ReplaceAll(text, p.database, "DATABASE") }

// everything shows all heads and journals.
func (p *player) everything() string {
	heads := p.find(store.Filter{Limit: store.MaxLimit})
	s := p.plain(text(heads))
	for _, h := range slices.Backward(heads) {
		s += text(p.load(h.Number, store.Range{}))
	}
	return s
}

func verdicts(changes []store.Change) string {
	s := ""
	for _, c := range changes {
		s += fmt.Sprintf(" %d:%d found %d", c.Run, c.Verdict, c.Found.Number)
	}
	return s
}

// show gives what kind of error it is; the words are a driver's own.
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
