//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/world"
	"github.com/perdure/perdure/store"
)

// A supervisor starts the world and the nodes, runs programs, makes faults strike and judges the
// result.
type supervisor struct {
	options
	t      *testing.T
	dir    string
	rng    *rand.Rand
	server *testpg.Server    // of its own; nil for none
	proxy  *faultproxy.Proxy // in front of it
	direct string            // the address of the store for the supervisor
	store  store.Store
	client *perdure.Client
	db     *sql.DB
	env    *play.Env // with which it starts and replays programs
	outer  *exec.Cmd
	world  *world.Client
	ledger *ledger
	nodes  []*node

	mu     sync.Mutex
	report report
	wrong  []string // errors of processes
}

func newSupervisor(t *testing.T, o options) (*supervisor, error) {
	s := &supervisor{options: o, t: t, rng: rand.New(rand.NewPCG(o.Seed, 2)), direct: o.Store}
	s.report = report{
		Store:   o.Store,
		Nodes:   o.Nodes,
		Seed:    o.Seed,
		Faults:  map[string]*strikes{},
		Effects: map[string]int{},
		Acts:    map[string]int{},
	}
	var err error
	s.dir = t.TempDir()
	t.Cleanup(s.end)
	if o.Store == "postgres" {
		s.server = testpg.Start(t)
		s.direct = s.server.URL()
		s.proxy = faultproxy.New(t, s.server.Addr())
		s.Store = strings.Replace(s.direct, s.server.Addr(), s.proxy.Addr(), 1)
	}
	ctx := context.Background()
	if s.store, err = openStore(ctx, s.direct); err != nil {
		return nil, err
	}
	if s.client, err = perdure.NewClient(ctx, s.store); err != nil {
		return nil, err
	}
	var money perdure.Transactions[*sql.Tx]
	if s.db, money, err = openDB(ctx, s.direct); err != nil {
		return nil, err
	}
	s.db.SetMaxIdleConns(0) // connections are of no use after the server was killed
	socket := filepath.Join(s.dir, "world")
	s.world, s.ledger = world.Dial(socket), &ledger{path: filepath.Join(s.dir, "ledger")}
	if err := s.startWorld(socket); err != nil {
		return nil, err
	}
	s.env = play.New(s.world, money, s.db)
	for i := range o.Nodes {
		s.nodes = append(s.nodes, &node{
			supervisor: s,
			name:       fmt.Sprint("node", i),
			args:       []string{"--store", s.Store, "--world", socket},
		})
	}
	if s.direct != o.Store || strings.HasPrefix(s.Store, "postgres") {
		s.nodes = append(s.nodes, &node{
			supervisor: s,
			name:       "short-lived",
			args:       []string{"--store", s.Store, "--world", socket, "--kept", "1ms"},
		})
	}
	if err := play.Alert(ctx, s.client); err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		if err := n.begin(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// startWorld starts the outside world, and returns when it listens.
func (s *supervisor) startWorld(socket string) error {
	cmd, err := command("world", "--socket", socket, "--ledger", s.ledger.path)
	if err != nil {
		return err
	}
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	s.outer = cmd
	if err := cmd.Start(); err != nil {
		return err
	}
	for range 500 {
		if c, err := net.Dial("unix", socket); err == nil {
			return c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the world does not listen")
}

// command returns the command that runs this program in another role.
func command(as string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), role+"="+as)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// end ends every process.
func (s *supervisor) end() {
	for _, n := range s.nodes {
		n.leave()
	}
	if s.outer != nil && s.outer.Process != nil {
		_ = s.outer.Process.Kill()
		_ = s.outer.Wait()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// effect counts an effect of a fault.
func (s *supervisor) effect(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Effects[what] += n
}

// blame records an error of a process.
func (s *supervisor) blame(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// A node is a process that executes programs. One that ends is started again.
type node struct {
	*supervisor
	name string
	args []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	in      io.Writer     // its commands
	gone    chan struct{} // closed when the current process has ended
	killed  bool          // by the supervisor
	leaving bool
}

// begin starts the process.
func (n *node) begin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leaving {
		return nil
	}
	cmd, err := command("node", n.args...)
	if err != nil {
		return err
	}
	var last lastLines
	cmd.Stderr = &last
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if n.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.killed, n.gone = cmd, false, make(chan struct{})
	go n.watch(cmd, out, n.gone, &last)
	return nil
}

// watch reads the output of the process, and starts the next one when it has ended.
func (n *node) watch(cmd *exec.Cmd, out io.Reader, gone chan struct{}, last *lastLines) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var k int
		var what string
		if count, rest, ok := strings.Cut(lines.Text(), " "); ok {
			_, _ = fmt.Sscan(count, &k)
			what = rest
		}
		n.effect(what, k)
	}
	err := cmd.Wait()
	n.mu.Lock()
	killed, leaving := n.killed, n.leaving
	n.mu.Unlock()
	switch {
	case killed || leaving || err == nil:
	case cmd.ProcessState.ExitCode() == 1:
		n.effect("node gave up", 1)
	default:
		n.blame("%s died by itself: %v\n%s", n.name, err, last)
	}
	close(gone)
	if !leaving {
		time.Sleep(20 * time.Millisecond)
		if err := n.begin(); err != nil {
			n.blame("%s does not start: %v", n.name, err)
		}
	}
}

// process returns the current process.
func (n *node) process() (*os.Process, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process, n.gone
}

// signal sends a signal to the process; ends states that the process ends by it.
func (n *node) signal(sig os.Signal, ends bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.killed = n.killed || ends
	return n.cmd.Process.Signal(sig)
}

// tell sends a command to the process.
func (n *node) tell(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := fmt.Fprintln(n.in, what)
	return err
}

// leave ends the node for good.
func (n *node) leave() {
	n.mu.Lock()
	n.leaving = true
	cmd, gone := n.cmd, n.gone
	n.mu.Unlock()
	if cmd != nil && cmd.Process != nil {
		_ = cmd.Process.Kill()
		<-gone
	}
}

// lastLines keeps the end of what is written to it.
type lastLines struct {
	mu   sync.Mutex
	data []byte
}

// Write keeps the end of p.
func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data = append(l.data, p...); len(l.data) > 6000 {
		l.data = l.data[:6000] // a panic is at the beginning
	}
	return len(p), nil
}

// String returns the kept text.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.data)
}
