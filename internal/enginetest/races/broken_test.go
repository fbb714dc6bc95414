package races

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// A wrongStore makes one mistake about messages, in a way that a kernel or a driver could.
type wrongStore struct {
	store.Store
	commit func(s store.Store, g *store.Group) error
	claim  func(s store.Store, c store.Claim) (store.Claimed, error)
}

func (b *wrongStore) Commit(ctx context.Context, g *store.Group) error {
	if b.commit == nil {
		return b.Store.Commit(ctx, g)
	}
	return b.commit(b.Store, g)
}

func (b *wrongStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if b.claim == nil {
		return b.Store.Claim(ctx, c)
	}
	return b.claim(b.Store, c)
}

// The judge finds mistakes: with each of these stores it does, mostly within a hundred histories.
func TestRacesCatchWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	racesCatch(t, 1, map[string]wrongStore{
		"a run is unloaded whatever it was sent":   {commit: unloadsAnyway},
		"a message is sent and then a run started": {commit: startsApart},
		"a run is looked for and then sent to":     {commit: findsFirst},
		"a message is consumed and stays":          {commit: keepsConsumed},
		"a message is taken and not recorded":      {commit: consumesSilently},
		"a sender is told before it is durable":    {commit: tellsEarly},
		"a claim forgets the mail":                 {claim: forgetsMail},
		"a claim forgets the inbox":                {claim: forgetsInbox},
		"a message wakes nobody":                   {commit: wakesNobody},
		"a group is not known again":               {commit: knowsNoGroup},
		"a key is not known again":                 {commit: knowsNoKey},
		"a successor begins with an empty inbox":   {commit: inheritsNothing},
		"a timer fires a while before it should":   {commit: firesEarly},
	})
}

// As above, with several engines.
func TestRacesOfEnginesCatchWhatIsBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	racesCatch(t, 3, map[string]wrongStore{
		"a claim gives what others have":         {claim: givesWhatIsOwned},
		"a run is unloaded whatever it was sent": {commit: unloadsAnyway},
		"a claim forgets the mail":               {claim: forgetsMail},
	})
}

// racesCatch demands that a mistake is found with each of these stores.
func racesCatch(t *testing.T, engines int, stores map[string]wrongStore) {
	const enough = 4000
	for name, broken := range stores {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(enough) {
				bad := playWrong(t, seed, engines, broken)
				if len(bad) > 0 {
					t.Logf("history %d: %s", seed, bad[0])
					return
				}
			}
			t.Errorf("%d histories found nothing wrong", enough)
		})
	}
}

// playWrong plays the history of a seed on a store that makes a mistake. A history whose engine
// never ends what it has begun, so that its bubble cannot end, counts as a mistake, too.
func playWrong(t *testing.T, seed uint64, engines int, broken wrongStore) (bad []string) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case strings.Contains(fmt.Sprint(p), "blocked goroutines remain"):
			bad = append(bad, fmt.Sprint(p))
		default:
			panic(p)
		}
	}()
	bad, _ = playRace(t, seed, engines, func(*history) func(store.Store) store.Store {
		return func(s store.Store) store.Store {
			own := broken
			own.Store = s
			return &own
		}
	})
	return bad
}

// givesWhatIsOwned lets an engine claim runs that another one has, while they are young: otherwise
// engines would take them from each other until the history ends, which takes for ever.
func givesWhatIsOwned(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	due, ok := c.(store.TakeDue)
	if !ok || due.Max == 0 || err != nil {
		return got, err
	}
	heads, _, err := s.Find(context.Background(), store.Filter{Open: true})
	for _, h := range heads {
		if h.Owner == 0 || h.Owner == due.Engine || len(got.Runs) > 0 ||
			time.Since(h.Created) > time.Second {
			continue
		}
		entries, err := s.Load(context.Background(), h.Number, store.Range{})
		if err != nil {
			return got, err
		}
		aWhile() // or they do so at one instant
		h.Owner = due.Engine
		got.Runs = append(got.Runs, store.Run{Head: h, Entries: entries, Last: int64(len(entries))})
	}
	return got, err
}

func unloadsAnyway(s store.Store, g *store.Group) error {
	unloads := make([]bool, len(g.Changes))
	for i := range g.Changes {
		unloads[i], g.Changes[i].Unload = g.Changes[i].Unload, false
	}
	err := s.Commit(context.Background(), g)
	for i := range g.Changes {
		g.Changes[i].Unload = unloads[i]
	}
	return err
}

// aWhile lets others go first, as two calls of a database would.
func aWhile() { <-time.After(time.Duration(1 + rand.Int64N(int64(20*time.Millisecond)))) }

// opened returns the open run of a workflow ID.
func opened(s store.Store, id string) (journal.Head, bool) {
	heads, _, err := s.Find(context.Background(), store.Filter{
		WorkflowID: id, Open: true, Limit: 1,
	})
	if err != nil || len(heads) == 0 {
		return journal.Head{}, false
	}
	return heads[0], true
}

// startsApart starts a run in one group and sends it its message in the next.
func startsApart(s store.Store, g *store.Group) error {
	c := &g.Changes[0]
	if len(g.Changes) != 1 || !c.Create || len(c.Posts) != 1 || g.Again {
		return s.Commit(context.Background(), g)
	}
	posts := c.Posts
	c.Posts = nil
	err := s.Commit(context.Background(), g)
	c.Posts = posts
	if err != nil || c.Verdict == store.Taken {
		return err
	}
	if aWhile(); rand.IntN(4) == 0 {
		return storetest.ErrInjected
	}
	post := *g
	post.Changes = []store.Change{{Posts: []store.Post{posts[0]}}}
	post.Changes[0].Posts[0].Run, post.Changes[0].Posts[0].WorkflowID = c.Found.Number, ""
	if err := s.Commit(context.Background(), &post); err != nil {
		return err
	}
	posts[0].Verdict, posts[0].To, posts[0].Number = post.Changes[0].Posts[0].Verdict,
		post.Changes[0].Posts[0].To, post.Changes[0].Posts[0].Number
	return nil
}

// findsFirst looks for the run of a workflow ID before it posts to it.
func findsFirst(s store.Store, g *store.Group) error {
	c := &g.Changes[0]
	if len(g.Changes) != 1 || c.Create || len(c.Posts) != 1 || c.Run != 0 ||
		c.Posts[0].WorkflowID == "" {
		return s.Commit(context.Background(), g)
	}
	p := c.Posts[0]
	if h, ok := opened(s, p.WorkflowID); ok {
		c.Posts[0].Run, c.Posts[0].WorkflowID = h.Number, ""
		aWhile()
	}
	err := s.Commit(context.Background(), g)
	c.Posts[0].Run, c.Posts[0].WorkflowID = p.Run, p.WorkflowID
	return err
}

// eachEntry writes a group with other entries than it was given.
func eachEntry(s store.Store, g *store.Group, change func(*journal.Entry)) error {
	own := make([][]journal.Entry, len(g.Changes))
	for i := range g.Changes {
		c := &g.Changes[i]
		own[i] = c.Entries
		c.Entries = append([]journal.Entry(nil), c.Entries...)
		for j := range c.Entries {
			e := &c.Entries[j]
			if e.Detail != nil {
				d := *e.Detail
				e.Detail = &d
			}
			change(e)
		}
	}
	err := s.Commit(context.Background(), g)
	for i := range g.Changes {
		g.Changes[i].Entries = own[i]
	}
	return err
}

func keepsConsumed(s store.Store, g *store.Group) error {
	return eachEntry(s, g, func(e *journal.Entry) {
		if e.Kind == journal.SignalConsumed {
			e.Detail.Mail = 0
		}
	})
}

func consumesSilently(s store.Store, g *store.Group) error {
	return eachEntry(s, g, func(e *journal.Entry) {
		if e.Kind == journal.SignalConsumed {
			e.Kind, e.Op, e.Data = journal.StatusChanged, journal.Op{}, nil
		}
	})
}

func firesEarly(s store.Store, g *store.Group) error {
	return eachEntry(s, g, func(e *journal.Entry) {
		if e.Kind == journal.TimerRegistered {
			e.Detail.Due = e.Detail.Due.Add(-time.Second)
		}
	})
}

// tellsEarly reports to a caller that a message is in an inbox, and writes it a while later.
func tellsEarly(s store.Store, g *store.Group) error {
	c := &g.Changes[0]
	if g.Engine != 0 || c.Create || len(c.Posts) != 1 || c.Posts[0].WorkflowID == "" {
		return s.Commit(context.Background(), g)
	}
	p := &c.Posts[0]
	h, ok := opened(s, p.WorkflowID)
	if !ok {
		return s.Commit(context.Background(), g)
	}
	later := *g
	later.Changes = []store.Change{{Posts: []store.Post{*p}}}
	go func() {
		aWhile()
		_ = s.Commit(context.Background(), &later)
	}()
	p.Verdict, p.To, p.Number = store.Delivered, h, h.Mail+1
	return nil
}

func forgetsMail(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	got.Mail = nil
	return got, err
}

func forgetsInbox(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	for i := range got.Runs {
		got.Runs[i].Inbox = nil
	}
	return got, err
}

// wakesNobody writes messages as of a late time, so that runs are due then.
func wakesNobody(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		if c := &g.Changes[i]; len(c.Posts) > 0 && !c.Create {
			g.Now = g.Now.Add(1000 * time.Hour)
			break
		}
	}
	return s.Commit(context.Background(), g)
}

func knowsNoGroup(s store.Store, g *store.Group) error {
	g.Again = false
	return s.Commit(context.Background(), g)
}

func knowsNoKey(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		for j := range g.Changes[i].Posts {
			if d := g.Changes[i].Posts[j].Message.Detail; d != nil {
				own := *d
				own.Message, g.Changes[i].Posts[j].Message.Detail = "", &own
			}
		}
	}
	return s.Commit(context.Background(), g)
}

// inheritsNothing begins successors as runs like others.
func inheritsNothing(s store.Store, g *store.Group) error {
	now, then := *g, *g
	now.Changes, then.Changes = nil, nil
	var at [2][]int
	for i, c := range g.Changes {
		if c.From == 0 {
			now.Changes, at[0] = append(now.Changes, c), append(at[0], i)
			continue
		}
		c.From = 0
		then.Changes, at[1] = append(then.Changes, c), append(at[1], i)
	}
	for i, part := range []*store.Group{&now, &then} {
		if len(part.Changes) == 0 {
			continue
		}
		if err := s.Commit(context.Background(), part); err != nil {
			return err
		}
		for k, j := range at[i] {
			g.Changes[j].Verdict, g.Changes[j].Found = part.Changes[k].Verdict,
				part.Changes[k].Found
		}
	}
	return nil
}
