package postgres

import (
	"context"
	"slices"
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
	done   chan struct{} // closed when nothing more is said
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

// say notifies other nodes soon. Much that happens at once is said once.
func (n *notices) say() {
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}

// pace is how often a node notifies others at most.
const pace = 5 * time.Millisecond

// loop says what is wanted, also what was wanted when the store is closed: a process
// that starts a run and ends has said so.
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

// wait waits until something is to be said. It gives false when the store is closed
// and nothing is.
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

// session says what is wanted on one connection, until that fails.
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

// patienceToSay is how long saying may take, also while the store is closed.
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
		// the connection is lost: what happens meanwhile is asked for when the next one is there
		err := s.listen(ctx, f)
		f()
		if code(err) == readOnly { // a standby, which notifies nobody
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
	f() // what was said before
	for {
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
		f()
	}
}
