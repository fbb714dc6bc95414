package postgres

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/store"
)

// channel is what nodes notify each other on.
const channel = "perdure"

// notices tells other nodes that something was written which they may want to know. It
// does so after the commit and on a connection of its own: a notification within a
// transaction has all commits of the server wait for each other. It is a hint and may
// be lost; what counts is what a claim finds.
type notices struct {
	store  *Store
	wanted chan struct{}

	asked, said atomic.Int64 // how often something was to be said, and how much of that was
}

func newNotices(s *Store) *notices {
	n := &notices{store: s, wanted: make(chan struct{}, 1)}
	if !s.options.Pooler && !s.options.ReadOnly {
		go n.loop()
	}
	return n
}

// tell looks whether a group has written anything that others may want to know.
func (n *notices) tell(g *store.Group) {
	if concern(g) {
		n.say()
	}
}

// concern says whether another node may want to know of a group.
func concern(g *store.Group) bool {
	return slices.ContainsFunc(g.Changes, func(c store.Change) bool { return concerns(&c, g) })
}

// concerns says whether another node may want to know of a change: a run that somebody
// may claim now, a message for a run of another engine, or an end.
func concerns(c *store.Change, g *store.Group) bool {
	if c.Create && c.Verdict == store.Written && c.Found.Owner == 0 {
		return true
	}
	if h := c.Head; h != nil && !c.Create && (!h.Ended.IsZero() || h.Owner == 0 && !h.Wake.IsZero() && !h.Wake.After(g.Now)) {
		return true
	}
	for _, posts := range [][]store.Post{c.Posts, c.Else} {
		for i := range posts {
			if posts[i].Verdict == store.Delivered && (g.Engine == 0 || posts[i].To.Owner != g.Engine) {
				return true
			}
		}
	}
	return false
}

// say notifies other nodes soon. Much that happens at once is said once.
func (n *notices) say() {
	n.asked.Add(1)
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}

// finish says what was not said yet, where that is soon done: who has only started a run
// is gone before the connection for it is there.
func (n *notices) finish() {
	if n.store.options.Pooler || n.store.options.ReadOnly || n.said.Load() == n.asked.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(n.store.life, time.Second)
	defer cancel()
	_, _ = n.store.pool.Exec(ctx, notify) // it is a hint
}

// pace is how often a node notifies others at most.
const pace = 5 * time.Millisecond

func (n *notices) loop() {
	ctx := n.store.life
	for {
		select {
		case <-n.wanted:
		case <-ctx.Done():
			return
		}
		if err := n.session(ctx); err != nil && !sleep(ctx, time.Second) {
			return
		}
	}
}

// session says what is wanted on one connection, until that fails.
func (n *notices) session(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, n.store.config.ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer hangUp(c)
	if _, err := c.Exec(ctx, "set synchronous_commit = off"); err != nil { // a hint need not be durable
		return err
	}
	for {
		asked := n.asked.Load()
		if _, err := c.Exec(ctx, notify); err != nil {
			return err
		}
		n.said.Store(asked)
		if !sleep(ctx, pace) {
			return nil
		}
		select {
		case <-n.wanted:
		case <-ctx.Done():
			return nil
		}
	}
}

// hangUp ends a connection; that it does not end well changes nothing.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// sleep waits; it gives false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// How often a node that hears no notifications asks: often while something happens,
// ever more rarely while nothing does.
const (
	oftenest = 50 * time.Millisecond
	rarest   = 10 * time.Second
)

// Watch calls f soon after another node has written something that an engine or a
// waiter may want to know. Where it hears no notifications, it calls f every now and
// then.
func (s *Store) Watch(ctx context.Context, f func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	for !s.options.Pooler && ctx.Err() == nil {
		_ = s.listen(ctx, f) // the connection is lost: what happens meanwhile is asked for when the next one is there
		f()
		if !sleep(ctx, time.Second) {
			return
		}
	}
	for wait := oftenest; sleep(ctx, wait); wait = min(wait+wait/4, rarest) {
		f()
	}
}

// listen calls f for each notification, until the connection is lost.
func (s *Store) listen(ctx context.Context, f func()) error {
	c, err := pgx.ConnectConfig(ctx, s.config.ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer hangUp(c)
	if _, err := c.Exec(ctx, "listen "+channel); err != nil {
		return err
	}
	f() // what was said before
	for {
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
		f()
	}
}
