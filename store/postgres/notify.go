package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/store"
)

// channel is the name of the channel on which nodes notify each other.
const channel = "perdure"

// notices notifies other nodes of writes that may concern them. It does so after the commit
// and on a connection of its own, because a notification within a transaction makes all
// commits of the server wait for each other. A notification is only a hint and may be lost.
// Other nodes rely on the result of a claim.
type notices struct {
	store  *Store
	wanted chan struct{}
	done   chan struct{} // closed when no more notifications are sent
}

func newNotices(s *Store) *notices {
	n := &notices{store: s, wanted: make(chan struct{}, 1), done: make(chan struct{})}
	if s.options.Pooler || s.options.ReadOnly {
		close(n.done)
	} else {
		go n.loop()
	}
	return n
}

// tell notifies other nodes if a group has written anything that may concern them.
func (n *notices) tell(g *store.Group) {
	if concern(g) {
		n.say()
	}
}

// concern reports whether a group may concern another node.
func concern(g *store.Group) bool {
	return g.Grants > 0 ||
		slices.ContainsFunc(g.Changes, func(c store.Change) bool { return concerns(&c, g) })
}

// concerns reports whether a change may concern another node: a run that any engine may claim
// now, a message for a run of another engine, the end of a run, or a setting.
func concerns(c *store.Change, g *store.Group) bool {
	if len(c.Settings) > 0 || c.Create && c.Verdict == store.Written && c.Found.Owner == 0 {
		return true
	}
	if h := c.Head; h != nil && !c.Create &&
		(!h.Ended.IsZero() || h.Owner == 0 && !h.Wake.IsZero() && !h.Wake.After(g.Now)) {
		return true
	}
	for _, posts := range [][]store.Post{c.Posts, c.Else} {
		for i := range posts {
			if posts[i].Verdict == store.Delivered &&
				(g.Engine == 0 || posts[i].To.Owner != g.Engine) {
				return true
			}
		}
	}
	return false
}

// say requests a notification of other nodes. Many requests at about the same time cause one
// notification.
func (n *notices) say() {
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}

// pace is the shortest time between two notifications of a node.
const pace = 5 * time.Millisecond

// loop sends the requested notifications, and also those requested before the store is
// closed. So a process that starts a run and exits has notified the other nodes.
func (n *notices) loop() {
	defer close(n.done)
	for n.wait() {
		if err := n.session(); err != nil {
			n.say()
			if !sleep(n.store.life, time.Second) {
				return
			}
		}
	}
}

// wait waits until a notification is requested. It returns false when the store is closed and
// no notification is pending.
func (n *notices) wait() bool {
	select {
	case <-n.wanted:
		return true
	case <-n.store.life.Done():
	}
	select {
	case <-n.wanted:
		return true
	default:
		return false
	}
}

// session sends the requested notifications on one connection, until that fails.
func (n *notices) session() error {
	c, err := n.connect()
	if err != nil {
		return err
	}
	defer hangUp(c)
	if err := sayOn(c, "set synchronous_commit = off"); err != nil { // a hint need not be durable
		return err
	}
	for {
		if err := sayOn(c, notify); err != nil {
			return err
		}
		sleep(n.store.life, pace)
		if !n.wait() {
			return nil
		}
	}
}

// patienceToSay limits how long one notification may take, also while the store is being
// closed.
const patienceToSay = 2 * time.Second

func (n *notices) connect() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceToSay)
	defer cancel()
	return pgx.ConnectConfig(ctx, n.store.config.ConnConfig.Copy())
}

func sayOn(c *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patienceToSay)
	defer cancel()
	_, err := c.Exec(ctx, sql)
	return err
}

// hangUp closes a connection. It ignores an error.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// sleep waits for d. It returns false when ctx ends first.
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

// A node that gets no notifications polls at these intervals: the shortest while something
// happens, and longer ones, up to the longest, while nothing does.
const (
	oftenest = 50 * time.Millisecond
	rarest   = 10 * time.Second
)

// Watch calls f soon after another node has written something that may concern an engine or a
// waiter. Without notifications it calls f from time to time.
func (s *Store) Watch(ctx context.Context, f func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	for !s.options.Pooler && ctx.Err() == nil {
		// When the connection is lost, f is called again once there is a new one: it finds the
		// writes in between.
		err := s.listen(ctx, f)
		f()
		if code(err) == readOnly { // a standby, which sends no notifications
			break
		}
		if !sleep(ctx, time.Second) {
			return
		}
	}
	last := s.busy.Load()
	for wait := oftenest; sleep(ctx, wait); wait = min(wait+wait/4, rarest) {
		f()
		if now := s.busy.Load(); now != last {
			last, wait = now, oftenest
		}
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
	f() // for notifications sent before this session listened
	for {
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
		f()
	}
}
