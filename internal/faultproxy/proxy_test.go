package faultproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A wire is a proxy and a server behind it. The test controls both ends.
type wire struct {
	*Proxy
	t        *testing.T
	accepted chan net.Conn
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Proxy: New(t, l.Addr().String()), t: t, accepted: make(chan net.Conn, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.accepted <- conn
		}
	}()
	return w
}

// dial connects through the proxy.
func (w *wire) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.Addr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// connect returns the two ends of a working connection.
func (w *wire) connect() (client, server net.Conn) {
	w.t.Helper()
	client = w.dial()
	server = <-w.accepted
	w.t.Cleanup(func() { server.Close() })
	w.send(client, server, "hello")
	w.send(server, client, "welcome")
	return client, server
}

// write writes bytes for the proxy to pass on.
func (w *wire) write(from net.Conn, said string) {
	w.t.Helper()
	if _, err := io.WriteString(from, said); err != nil {
		w.t.Fatal(err)
	}
}

// send writes bytes and waits until they arrive.
func (w *wire) send(from, to net.Conn, said string) {
	w.t.Helper()
	w.write(from, said)
	w.arrives(to, said)
}

func (w *wire) arrives(to net.Conn, said string) {
	w.t.Helper()
	got := make([]byte, len(said))
	if n, err := io.ReadFull(to, got); err != nil || string(got) != said {
		w.t.Fatalf("%q arrived, not %q; %v", got[:n], said, err)
	}
}

// felt waits until the proxy has counted n hits.
func (w *wire) felt(n int) {
	for w.Hits() < n {
		runtime.Gosched()
	}
}

// silent demands that no bytes have arrived.
func (w *wire) silent(conns ...net.Conn) {
	w.t.Helper()
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			w.t.Fatal(err)
		}
		got := make([]byte, 100)
		if n, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			w.t.Errorf("%q arrived, and %v, at a connection that should be silent", got[:n], err)
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// broken waits for the connections to be reset.
func (w *wire) broken(conns ...net.Conn) {
	w.t.Helper()
	for _, c := range conns {
		if got, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) || len(got) > 0 {
			w.t.Errorf("%q arrived, and %v, at a connection that should be reset", got, err)
		}
	}
}

func TestWithoutAFaultEverythingPassesAlsoTheEnd(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	long := strings.Repeat("a long message ", 100_000)
	go io.WriteString(server, long)
	w.arrives(client, long)
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(server); err != nil || len(got) > 0 {
		t.Errorf("%q, %v after the end", got, err)
	}
	w.send(server, client, "last words")
	server.Close()
	if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
		t.Errorf("%q, %v after the end", got, err)
	}
	if w.Hits() != 0 {
		t.Errorf("%d hits without a fault", w.Hits())
	}
}

func TestABlackholeSwallowsBothWaysAndNewConnections(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	idle, idleServer := w.connect()
	w.Blackhole()
	w.write(client, "a question")
	w.felt(1)
	w.write(server, "an answer")
	w.felt(2)
	late := w.dial()
	w.felt(3)
	w.silent(client, server, late)
	if len(w.accepted) > 0 {
		t.Error("a new connection got to the server")
	}
	w.Heal()
	w.broken(client, server, late)
	w.send(idle, idleServer, "nothing was lost here")
	w.connect()
}

func TestABlackholeHidesThatOneSideHasLeft(t *testing.T) {
	for name, leave := range map[string]func(c net.Conn) error{
		"closed": func(c net.Conn) error { return c.Close() },
		"reset": func(c net.Conn) error {
			return errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			client, server := w.connect()
			w.Blackhole()
			if err := leave(client); err != nil {
				t.Fatal(err)
			}
			w.silent(server)
			w.Heal()
			w.broken(server)
		})
	}
}

func TestCutResetsWhatIsThereAndNothingElse(t *testing.T) {
	w := newWire(t)
	a, b := w.connect()
	c, d := w.connect()
	w.Cut()
	w.broken(a, b, c, d)
	if w.Hits() != 2 {
		t.Errorf("%d hits for two connections", w.Hits())
	}
	w.connect()
}

func TestRefuseLetsNobodyInUntilItIsHealed(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	w.Refuse()
	w.Refuse()
	if c, err := net.Dial("tcp", w.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v instead of a refusal", c, err)
	}
	w.send(client, server, "still here")
	w.Heal()
	w.Heal()
	w.connect()
}

func TestStallHoldsOneWayBackAndLosesNothing(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	w.Stall(ToClient)
	w.send(client, server, "a question")
	w.write(server, "an answer")
	w.felt(1)
	w.silent(client)
	w.Heal()
	w.arrives(client, "an answer")
	w.send(client, server, "thanks")
}

func TestStallAfterLetsAMessageArriveInPart(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	w.StallAfter(ToServer, 6)
	w.write(client, "commit it all")
	w.arrives(server, "commit")
	w.felt(1)
	w.silent(server)
	w.send(server, client, "the other way is open")
	w.Heal()
	w.arrives(server, " it all")
}

func TestCutAfterLosesAnAnswerInTheMiddle(t *testing.T) {
	for name, answer := range map[string]string{"longer": "an answer", "exactly": "an"} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			client, server := w.connect()
			w.CutAfter(ToClient, 2)
			w.send(client, server, "a question")
			w.write(server, answer)
			w.arrives(client, "an")
			w.broken(client, server)
			if w.Hits() != 1 {
				t.Errorf("%d hits for one connection", w.Hits())
			}
			w.Heal()
			w.connect()
		})
	}
}

func TestCutAfterNothingLosesTheWholeAnswerOnNewConnectionsToo(t *testing.T) {
	w := newWire(t)
	w.CutAfter(ToClient, 0)
	client := w.dial()
	server := <-w.accepted
	w.send(client, server, "a question")
	w.write(server, "an answer")
	w.broken(client, server)
}

func TestDelayHoldsEveryPieceBack(t *testing.T) {
	w := newWire(t)
	client, server := w.connect()
	w.Delay(time.Millisecond)
	w.send(client, server, "slow")
	w.send(server, client, "slow too")
	if w.Hits() < 2 {
		t.Errorf("%d hits for two pieces", w.Hits())
	}
	w.Delay(time.Hour)
	before := w.Hits()
	w.write(client, "in an hour")
	w.write(server, "in an hour, or so")
	w.felt(before + 2)
	w.silent(client, server)
	w.Heal()
	w.arrives(server, "in an hour")
	w.arrives(client, "in an hour, or so")
}

func TestWhatIsHeldBackMeetsTheNextFault(t *testing.T) {
	for name, fault := range map[string]func(w *wire){
		"stall": func(w *wire) { w.Stall(ToServer) },
		"delay": func(w *wire) { w.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			client, server := w.connect()
			fault(w)
			w.write(client, "held, then swallowed")
			w.felt(1)
			w.Blackhole()
			w.felt(2)
			w.silent(server)
			w.Heal()
			w.broken(client, server)
		})
	}
}

func TestAConnectionToNobodyIsReset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	w := &wire{Proxy: New(t, l.Addr().String()), t: t}
	c, err := net.Dial("tcp", w.Addr())
	if err == nil {
		defer c.Close()
		_, err = io.ReadAll(c)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v instead of a reset", err)
	}
}

func TestNothingOfAProxyOutlivesItsTest(t *testing.T) {
	for name, fault := range map[string]func(w *wire){
		"none":      func(*wire) {},
		"refuse":    func(w *wire) { w.Refuse() },
		"blackhole": func(w *wire) { w.Blackhole() },
		"stall":     func(w *wire) { w.Stall(ToServer) },
		"delay":     func(w *wire) { w.Delay(time.Hour) },
	} {
		var addr string
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			addr = w.Addr()
			client, server := w.connect()
			gone, _ := w.connect()
			fault(w)
			w.write(client, "on its way")
			w.write(server, "on its way")
			gone.Close()
			if name != "refuse" {
				w.dial()
			}
		})
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if strings.Contains(string(stacks), "faultproxy.(*Proxy)") {
			t.Errorf("goroutines are left:\n%s", stacks)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s is still open", addr)
		}
	}
}
