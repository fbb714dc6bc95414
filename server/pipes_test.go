package server_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/perdure/perdure/server"
)

// pipes is a server whose connections are pipes, so that its time is that of a bubble. Its callers
// are on the same machine.
type pipes struct {
	server *http.Server
	client *http.Client
	next   chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func newPipes(h http.Handler) *pipes {
	p := &pipes{
		server: server.HTTPServer(h), next: make(chan net.Conn), done: make(chan struct{}),
	}
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial() },
	}}
	go p.server.Serve(p)
	return p
}

// dial returns a connection to the server.
func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.next <- local{there}:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.next:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return loopback }

func (p *pipes) close() {
	p.client.CloseIdleConnections()
	p.server.Close()
	<-time.After(time.Minute) // of the bubble: a server lingers on a connection that it cuts
}

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}

// local is a connection that comes from the same machine.
type local struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (local) RemoteAddr() net.Addr { return loopback }
