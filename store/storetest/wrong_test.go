package storetest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The following drivers are wrong about messages and retention.

func alwaysUnloads(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		g.Changes[i].Unload = false
	}
	return s.Commit(context.Background(), g)
}

// neverNow writes every group with a late time.
func neverNow(s store.Store, g *store.Group) error {
	g.Now = at(1 << 30)
	return s.Commit(context.Background(), g)
}

// everyPost changes the posts of a group.
func everyPost(g *store.Group, change func(*store.Post)) {
	for i := range g.Changes {
		for _, posts := range [][]store.Post{g.Changes[i].Posts, g.Changes[i].Else} {
			for j := range posts {
				change(&posts[j])
			}
		}
	}
}

func alwaysForces(s store.Store, g *store.Group) error {
	everyPost(g, func(p *store.Post) { p.Force = true })
	return s.Commit(context.Background(), g)
}

func forgetsIDs(s store.Store, g *store.Group) error {
	everyPost(g, func(p *store.Post) {
		if p.Message.Detail != nil {
			d := *p.Message.Detail
			d.Message, p.Message.Detail = "", &d
		}
	})
	return s.Commit(context.Background(), g)
}

// noSuccessors makes successors runs like any others, in a group of their own.
func noSuccessors(s store.Store, g *store.Group) error {
	now, then := *g, *g
	now.Changes, then.Changes = nil, nil
	for _, c := range g.Changes {
		if c.From == 0 {
			now.Changes = append(now.Changes, c)
			continue
		}
		c.From = 0
		then.Changes = append(then.Changes, c)
	}
	if err := s.Commit(context.Background(), &now); err != nil {
		return err
	}
	if len(then.Changes) == 0 {
		copy(g.Changes, now.Changes)
		return nil
	}
	return s.Commit(context.Background(), &then)
}

func noElse(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		c := &g.Changes[i]
		c.Posts, c.Else = append(c.Posts, c.Else...), nil
	}
	return s.Commit(context.Background(), g)
}

func keepsAttributes(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		for j := range g.Changes[i].Entries {
			if e := &g.Changes[i].Entries[j]; e.Kind == journal.AttributeSet && e.Data == nil {
				e.Kind = journal.ValueRecorded
			}
		}
	}
	return s.Commit(context.Background(), g)
}

func noMail(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	got.Mail = nil
	return got, err
}

func keepsNoDrain(s store.Store, c store.Claim) (store.Claimed, error) {
	if r, is := c.(store.Renew); is {
		r.Drain = store.Drain{}
		c = r
	}
	return s.Claim(context.Background(), c)
}

func takesPaused(s store.Store, c store.Claim) (store.Claimed, error) {
	if t, is := c.(store.TakeDue); is {
		t.Workflows, t.Paused = slices.Concat(t.Workflows, t.Paused), nil
		c = t
	}
	return s.Claim(context.Background(), c)
}

func leavesOrders(s store.Store, c store.Claim) (store.Claimed, error) {
	if t, is := c.(store.TakeDue); is {
		t.Paused = nil
		c = t
	}
	return s.Claim(context.Background(), c)
}

// leavesUnknown takes runs of the named workflows only.
func leavesUnknown(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	if t, is := c.(store.TakeDue); is {
		got.Runs = slices.DeleteFunc(got.Runs, func(r store.Run) bool {
			return !slices.Contains(slices.Concat(t.Workflows, t.Paused), r.Head.Workflow)
		})
	}
	return got, err
}

// nextWithoutOrders has no next time for an engine that has a paused workflow.
func nextWithoutOrders(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	if t, is := c.(store.TakeDue); is && len(t.Paused) > 0 {
		got.Next = time.Time{}
	}
	return got, err
}

// takesUnknown takes a workflow that no engine has for a paused one.
func takesUnknown(s store.Store, c store.Claim) (store.Claimed, error) {
	if t, is := c.(store.TakeDue); is {
		t.Paused = append(slices.Clone(t.Paused), "gone")
		c = t
	}
	return s.Claim(context.Background(), c)
}

// keepsNoneOf forgets which workflows engines have.
func keepsNoneOf(s store.Store, c store.Claim) (store.Claimed, error) {
	switch r := c.(type) {
	case store.Renew:
		r.Workflows = []string{}
		c = r
	case store.Join:
		r.Self.Workflows = []string{}
		c = r
	}
	return s.Claim(context.Background(), c)
}

func keepsNoWorkflows(s store.Store, c store.Claim) (store.Claimed, error) {
	if r, is := c.(store.Renew); is {
		r.Workflows = nil
		c = r
	}
	return s.Claim(context.Background(), c)
}

func keepsNoLoops(s store.Store, c store.Claim) (store.Claimed, error) {
	if r, is := c.(store.Renew); is {
		r.Loops = nil
		c = r
	}
	return s.Claim(context.Background(), c)
}

func noInbox(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	for i := range got.Runs {
		got.Runs[i].Inbox = nil
	}
	return got, err
}

func tellsOnce(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	for _, o := range got.Outbox {
		told := &store.Group{Engine: got.Engine, Changes: []store.Change{{Told: []int64{o.Number}}}}
		if err := s.Commit(context.Background(), told); err != nil {
			return got, err
		}
	}
	return got, err
}

func clientsJoin(s store.Store, c store.Claim) (store.Claimed, error) {
	if _, reserves := c.(store.ReserveID); reserves {
		c = store.Join{}
	}
	return s.Claim(context.Background(), c)
}

func noTail(s store.Store, run journal.Number, r store.Range) ([]journal.Entry, error) {
	r.Tail = false
	return s.Load(context.Background(), run, r)
}

func ignoresKeep(s store.Store, p store.Purge) (store.Purged, error) {
	p.Now = at(math.MaxInt32)
	return s.Purge(context.Background(), p)
}

func ignoresOutbox(s store.Store, p store.Purge) (store.Purged, error) {
	told := &store.Group{Engine: p.Engine, Changes: []store.Change{{}}}
	for n := range int64(100) {
		told.Changes[0].Told = append(told.Changes[0].Told, n)
	}
	if err := s.Commit(context.Background(), told); err != nil {
		return store.Purged{}, err
	}
	return s.Purge(context.Background(), p)
}

func ignoresLimit(s store.Store, p store.Purge) (store.Purged, error) {
	p.Limit = math.MaxInt
	return s.Purge(context.Background(), p)
}

// neverKept writes Keep only with a new run.
func neverKept(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		if c := &g.Changes[i]; c.Head != nil && !c.Create {
			c.Head.Keep = 0
		}
	}
	return s.Commit(context.Background(), g)
}

func noShares(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		g.Changes[i].Shares = 0
	}
	return s.Commit(context.Background(), g)
}

func withAll(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	f.Without = ""
	return s.Find(context.Background(), f)
}
