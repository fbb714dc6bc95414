// Package faultproxy provides a network with faults for tests: a proxy between a client and a
// server on TCP. Faults may be set and healed at any time, and affect both existing and new
// connections.
//
// There is one fault at a time for each way, and the last fault that was set counts.
// [Proxy.Refuse] is independent of them. The proxy stores at most one piece of data for each
// way of a connection.
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

// These are the two ways.
const (
	ToServer Way = iota
	ToClient
)

// An action is the treatment of bytes.
type action int

const (
	pass action = iota
	wait        // waits for the delay, then passes
	hold        // keeps bytes until another action is set
	swallow
	cut // resets the connection
)

// A lane is the action for the bytes of one way. It begins when "after" bytes have passed.
type lane struct {
	action action
	after  int64
	delay  time.Duration
}

// A Proxy passes connections to its target. Its methods may be called from any goroutine.
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
	changed  chan struct{} // closed when a lane changes, then replaced
	hits     int
}

// A link is one connection through the proxy.
type link struct {
	client, server net.Conn // server is nil until it is reached
	ctx            context.Context
	cancel         context.CancelFunc

	// The proxy's lock protects these.
	left [2]int64 // bytes that pass before the lane's action
	gap  bool     // bytes are lost: the connection can never continue
}

// New starts a proxy to the target, a host:port, on a port of its own on 127.0.0.1. The proxy
// ends with the test, with all of its connections.
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

// listen listens on a port below the ports that systems use for outgoing connections, so the
// port stays free while connections are refused.
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

// Addr returns the address of the proxy as host:port.
func (p *Proxy) Addr() string { return p.addr }

// Hits returns the number of effects of faults since the proxy began: pieces of bytes that
// were held back, delayed or swallowed, and connections that were cut or left without an
// answer. A test that sets a fault checks with Hits that the fault had an effect.
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

// Blackhole discards all bytes, both ways. Neither side gets any signal, not even that the
// other side has left. New connections are accepted and get no answer.
func (p *Proxy) Blackhole() { p.set(lane{action: swallow}, ToServer, ToClient) }

// Stall holds back all bytes of one way until the proxy is healed. Then they continue.
func (p *Proxy) Stall(way Way) { p.StallAfter(way, 0) }

// StallAfter is [Proxy.Stall] after n more bytes have gone that way, on each connection: a
// message arrives in part.
func (p *Proxy) StallAfter(way Way, n int64) { p.set(lane{action: hold, after: n}, way) }

// CutAfter resets each connection, to both sides, after n more of its bytes have gone that
// way. With 0 it resets the connection instead of passing the next byte. With [ToClient] the
// server has executed the request, and the client does not learn of it.
func (p *Proxy) CutAfter(way Way, n int64) { p.set(lane{action: cut, after: n}, way) }

// Delay delays each piece of bytes by d, both ways.
func (p *Proxy) Delay(d time.Duration) { p.set(lane{action: wait, delay: d}, ToServer, ToClient) }

// Cut resets all existing connections. New connections pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.hits++
		l.reset()
	}
}

// Refuse refuses new connections until the proxy is healed. Existing connections continue.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
}

func (p *Proxy) refuse() {
	if p.listener != nil {
		_ = p.listener.Close() // it only listens: an error has no effect
		p.listener = nil
	}
}

// set sets the lane of ways, and wakes all goroutines that wait in the old lane.
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
		return // reset: the target is not reachable
	}
	if !p.reach(l, server) {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { p.pump(l, ToServer, server, client) })
	ways.Go(func() { p.pump(l, ToClient, client, server) })
	ways.Wait()
}

// enter adds a new connection. It returns false if the test has ended.
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

// reach adds the connection to the target. It returns false if the link was reset meanwhile.
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
			// An error means that it is closed already.
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}
}

// pump passes the bytes from src, and their end.
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
		// The end of the bytes, of any kind, does not overtake the bytes before it.
		c, ok := dst.(*net.TCPConn)
		if !p.clear(l, way) || !ok || !errors.Is(err, io.EOF) || c.CloseWrite() != nil {
			l.reset()
		}
		return
	}
}

// judge returns the lane whose action applies to the next bytes, and to how many of n bytes.
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
			p.hits++ // cut after these bytes
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

// pass applies the lane to a piece, and reports whether the connection continues.
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
				continue // the lane has changed
			}
		}
		if _, err := dst.Write(piece[:n]); err != nil || now.action == cut {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// clear waits until a way is open, and reports whether the connection continues.
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

// await waits for a changed lane or the due time, and reports whether the connection is still
// there.
func (l *link) await(changed <-chan struct{}, due <-chan time.Time) bool {
	select {
	case <-changed:
	case <-due:
	case <-l.ctx.Done():
	}
	return l.ctx.Err() == nil
}
