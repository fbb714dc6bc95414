// Package faultproxy gives tests a network that fails: a proxy between a client
// and a server on TCP, with faults that are set and healed at any time, on
// connections that are there and on new ones.
//
// There is one fault at a time for each way, and the last one that was set
// counts. [Proxy.Refuse] stands beside them. Nothing is kept of what passes but
// one piece for each way of a connection.
package faultproxy

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Way is a direction of bytes through the proxy.
type Way int

// The two ways.
const (
	ToServer Way = iota
	ToClient
)

// What happens to bytes.
type action int

const (
	pass action = iota
	wait        // for the delay, then pass
	hold        // until another action is set
	swallow
	cut // the connection
)

// A lane is what happens to all bytes of one way, once after of them have passed.
type lane struct {
	action action
	after  int64
	delay  time.Duration
}

// A Proxy passes connections to its target. Its methods may be called from any
// goroutine.
type Proxy struct {
	t      testing.TB
	target string
	addr   string
	ctx    context.Context
	group  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	closed   bool
	links    map[*link]struct{}
	lanes    [2]lane
	changed  chan struct{} // closed when a lane changes, then another one
	hits     int
}

// A link is one connection through the proxy.
type link struct {
	client, server net.Conn // server is nil until it is reached
	ctx            context.Context
	cancel         context.CancelFunc

	// Under the proxy's lock.
	left [2]int64 // bytes that pass before the lane's action
	gap  bool     // bytes are lost: the connection can never go on
}

// New starts a proxy to the target, a host:port, on a port of 127.0.0.1 of its
// own. It ends with the test, with all of its connections.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		t:       t,
		target:  target,
		ctx:     ctx,
		links:   map[*link]struct{}{},
		changed: make(chan struct{}),
	}
	l, err := listen()
	if err != nil {
		cancel()
		t.Fatalf("faultproxy: %v", err)
	}
	p.addr = l.Addr().String()
	p.accept(l)
	t.Cleanup(func() {
		cancel()
		p.end()
	})
	return p
}

// listen takes a port below those that systems give to outgoing connections, so
// it stays free while connections are refused.
func listen() (net.Listener, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp",
			net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+rand.IntN(18000)))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.addr }

// Hits counts what faults have done since the proxy began: pieces of bytes that
// were held back, delayed or swallowed, and connections that were cut or left
// without an answer. A test that set a fault asks it whether the fault was felt.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Heal ends all faults. A connection that has lost bytes is reset.
func (p *Proxy) Heal() {
	p.set(lane{}, ToServer, ToClient)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Errorf("faultproxy: %v", err)
		return
	}
	p.acceptLocked(l)
}

// Blackhole lets all bytes vanish, both ways; neither side is told anything, not
// even that the other one has left. New connections are accepted and get no answer.
func (p *Proxy) Blackhole() { p.set(lane{action: swallow}, ToServer, ToClient) }

// Stall holds all bytes of one way back until it is healed; then they go on.
func (p *Proxy) Stall(way Way) { p.StallAfter(way, 0) }

// StallAfter is [Proxy.Stall] once n more bytes have gone that way, on each
// connection: a message that has arrived in part.
func (p *Proxy) StallAfter(way Way, n int64) { p.set(lane{action: hold, after: n}, way) }

// CutAfter resets each connection, to both sides, once n more bytes of it have
// gone that way; with 0, instead of the next one. With [ToClient] the server has
// done what it was asked for, and the client does not learn of it.
func (p *Proxy) CutAfter(way Way, n int64) { p.set(lane{action: cut, after: n}, way) }

// Delay holds each piece that is read back for so long, both ways.
func (p *Proxy) Delay(d time.Duration) { p.set(lane{action: wait, delay: d}, ToServer, ToClient) }

// Cut resets all connections that are there. New ones pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.hits++
		l.reset()
	}
}

// Refuse lets no new connection in until it is healed. Those that are there go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
}

func (p *Proxy) refuse() {
	if p.listener != nil {
		_ = p.listener.Close() // it was listening, that is all it does
		p.listener = nil
	}
}

// set gives ways another lane, and tells those who wait in the old one.
func (p *Proxy) set(now lane, ways ...Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range ways {
		p.lanes[way] = now
	}
	for l := range p.links {
		for _, way := range ways {
			l.left[way] = now.after
		}
		if l.gap && now.action != swallow {
			l.reset()
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// end resets every connection and waits for all goroutines.
func (p *Proxy) end() {
	p.mu.Lock()
	p.closed = true
	p.refuse()
	for l := range p.links {
		l.reset()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *Proxy) accept(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acceptLocked(l)
}

func (p *Proxy) acceptLocked(l net.Listener) {
	p.listener = l
	p.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() { p.serve(conn) })
		}
	})
}

// serve passes one connection to the target, until both ways have ended.
func (p *Proxy) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(p.ctx)
	l := &link{client: client, ctx: ctx, cancel: cancel}
	defer l.reset()
	if !p.enter(l) {
		return
	}
	defer p.leave(l)
	if !p.clear(l, ToServer) {
		return
	}
	dialer := net.Dialer{Timeout: time.Minute}
	server, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return // reset: there is nobody
	}
	if !p.reach(l, server) {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { p.pump(l, ToServer, server, client) })
	ways.Go(func() { p.pump(l, ToClient, client, server) })
	ways.Wait()
}

// enter adds a new connection, which a test that has ended does not take.
func (p *Proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	for way := range p.lanes {
		l.left[way] = p.lanes[way].after
	}
	if p.lanes[ToServer].action == swallow {
		p.hits++
	}
	return !p.closed
}

// reach adds the connection to the target.
func (p *Proxy) reach(l *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	return l.ctx.Err() == nil
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	l.reset()
}

// reset ends a connection so that both sides see an error, not an end.
func (l *link) reset() {
	l.cancel()
	for _, c := range []net.Conn{l.client, l.server} {
		if c, ok := c.(*net.TCPConn); ok {
			// An error says that it is closed already.
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}
}

// pump passes what comes from src, and its end.
func (p *Proxy) pump(l *link, way Way, dst, src net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if !p.pass(l, way, dst, buf[:n]) {
			l.reset()
			return
		}
		if err == nil {
			continue
		}
		// An end, of whatever kind, goes no faster than what came before it.
		c, ok := dst.(*net.TCPConn)
		if !p.clear(l, way) || !ok || !errors.Is(err, io.EOF) || c.CloseWrite() != nil {
			l.reset()
		}
		return
	}
}

// judge says what to do with n bytes: the action, and with how many of them.
func (p *Proxy) judge(l *link, way Way, n int) (lane, int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.lanes[way]
	switch {
	case now.action == pass:
	case l.left[way] > 0:
		n = int(min(l.left[way], int64(n)))
		l.left[way] -= int64(n)
		if now.action != cut || l.left[way] > 0 {
			now.action = pass
		} else {
			p.hits++ // cut behind these
		}
	default:
		p.hits++
		if now.action == cut {
			n = 0
		}
		l.gap = l.gap || now.action == swallow
	}
	return now, n, p.changed
}

// pass does with a piece what its lane says, and whether the connection goes on.
func (p *Proxy) pass(l *link, way Way, dst net.Conn, piece []byte) bool {
	for len(piece) > 0 {
		now, n, changed := p.judge(l, way, len(piece))
		switch now.action {
		case swallow:
			return true
		case hold:
			if !l.await(changed, nil) {
				return false
			}
			continue
		case wait:
			timer := time.NewTimer(now.delay)
			if !l.await(changed, timer.C) {
				return false
			}
			if timer.Stop() {
				continue // there is another lane
			}
		}
		if _, err := dst.Write(piece[:n]); err != nil || now.action == cut {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// clear waits until a way is open, and says whether the connection goes on.
func (p *Proxy) clear(l *link, way Way) bool {
	for {
		p.mu.Lock()
		now, changed := p.lanes[way].action, p.changed
		l.gap = l.gap || now == swallow
		p.mu.Unlock()
		if now != swallow && now != hold {
			return l.ctx.Err() == nil
		}
		if !l.await(changed, nil) {
			return false
		}
	}
}

// await waits for one of two things, and says whether the connection is still there.
func (l *link) await(changed <-chan struct{}, due <-chan time.Time) bool {
	select {
	case <-changed:
	case <-due:
	case <-l.ctx.Done():
	}
	return l.ctx.Err() == nil
}
