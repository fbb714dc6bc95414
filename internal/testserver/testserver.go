// Package testserver provides Redis, NATS and RabbitMQ servers for tests.
//
// Each server belongs to one test, which may kill it, pause it and start it again. It is the
// program of this machine, on a free port of 127.0.0.1, in a temporary directory. Without the
// program the test is skipped with a message, and also if the variable that [Env] names is
// [None]. A server ends with its test; if the process of the tests dies first, a watchdog ends the
// server and removes its directory.
//
// Time is real here: do not use this package inside a bubble of testing/synctest.
package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Env names the variable that takes the servers away from the tests, if its value is [None].
const Env = "PERDURE_TEST_SERVERS"

// None is a value of the variable that [Env] names. With it, every test that needs one of these
// servers is skipped, as on a machine without them.
const None = "none"

// patience limits every wait: an event that takes longer is considered lost.
const patience = time.Minute

// A Server is a server of one test. Its methods may be called from any goroutine. Their errors fail
// the test.
type Server struct {
	t       testing.TB
	program program
	path    string
	dir     string
	port    int
	leash   io.WriteCloser // the watchdog acts when it is closed

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended; nil while the server is stopped
}

// A program is a kind of server.
type program struct {
	name    string
	paths   []string // where it is; without a slash: on PATH
	command func(s *Server) (args, env []string, err error)
	// ready reports whether a server has begun to serve, by a new connection to it.
	ready func(c net.Conn) bool
}

// start starts a server of a kind.
func start(t testing.TB, p program) *Server {
	t.Helper()
	s := &Server{t: t, program: p, path: p.find(t), dir: t.TempDir()}
	var err error
	if s.leash, err = watch(s.dir); err != nil {
		t.Fatalf("testserver: %v", err)
	}
	t.Cleanup(s.remove)
	for range 10 { // another process may take the port first
		s.port = freePort(t)
		if err = s.launch(); err == nil {
			return s
		}
	}
	t.Fatalf("testserver: %v", err)
	return nil
}

// find returns the path of the program, or skips the test.
func (p program) find(t testing.TB) string {
	t.Helper()
	if os.Getenv(Env) == None {
		t.Skipf("skipped: this test needs %s, and %s says that there is none", p.name, Env)
	}
	for _, name := range p.paths {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("skipped: this test needs %s, and there is no %s; install it", p.name,
		strings.Join(p.paths, ", no "))
	return ""
}

// Addr returns the address of the server as host:port. It stays the same for the server's whole
// life.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill kills the server without a warning. What it has not written to its files is lost.
func (s *Server) Kill() {
	s.t.Helper()
	s.report(s.end(syscall.SIGKILL))
}

// Stop stops the server in order.
func (s *Server) Stop() {
	s.t.Helper()
	s.report(s.end(syscall.SIGTERM))
}

// Pause stops the processes of the server where they are, as a machine that hangs, until
// [Server.Resume].
func (s *Server) Pause() {
	s.t.Helper()
	s.report(s.signal(pauses))
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.report(s.signal(resumes))
}

// Restart starts the server again at the same address with the same files, and returns when it
// serves. If it is running, it is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	err := s.end(syscall.SIGTERM)
	if err == nil {
		err = s.launch()
	}
	s.report(err)
}

func (s *Server) report(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("testserver: %s: %v", s.program.name, err)
	}
}

// launch starts the server's process and waits until it serves.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return errors.New("the server is started already")
	}
	args, env, err := s.program.command(s)
	if err != nil {
		return err
	}
	logged, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer logged.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = logged, logged
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return err
	}
	// The watchdog has to know the process even if this one dies now.
	if _, err := fmt.Fprintln(s.leash, cmd.Process.Pid); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // how it ended is in the log
	}()
	s.cmd, s.gone = cmd, gone
	return s.serves()
}

// serves waits until the server has begun to serve.
func (s *Server) serves() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.gone:
			s.gone = nil
			return fmt.Errorf("the server did not start:\n%s", s.log())
		case <-time.After(10 * time.Millisecond):
		}
		c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		ready := s.program.ready(c)
		_ = c.Close()
		if ready {
			return nil
		}
	}
	return fmt.Errorf("the server did not start within %v:\n%s", patience, s.log())
}

// signal sends a signal to all processes of the server.
func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		return errors.New("the server is not running")
	}
	return signalGroup(s.cmd.Process.Pid, sig)
}

// end ends the server if it is running.
func (s *Server) end(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		return nil
	}
	pid := s.cmd.Process.Pid
	err := signalGroup(pid, sig)
	select {
	case <-s.gone:
	case <-time.After(patience):
		err = fmt.Errorf("the server did not end within %v of %v:\n%s", patience, sig, s.log())
	}
	s.gone = nil
	_ = signalGroup(pid, syscall.SIGKILL) // what the process has left
	return errors.Join(err, s.silent())
}

// silent waits until nobody serves at the address of the server any more.
func (s *Server) silent() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return nil
		}
		_ = c.Close()
	}
	return errors.New("the server serves after its end")
}

// remove ends the server with its test.
func (s *Server) remove() {
	s.report(s.end(syscall.SIGKILL))
	if s.t.Failed() {
		s.t.Logf("testserver: the log of %s:\n%s", s.program.name, s.log())
	}
	s.report(s.leash.Close())
}

// log returns the last lines of the server's log.
func (s *Server) log() string {
	said, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// watchdog reads the numbers of the server's processes. When its input ends, it kills their groups
// and removes the directory.
const watchdog = `
trap '' HUP INT TERM
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do kill -KILL "-$pid" 2>/dev/null; done
sleep 0.1
rm -rf "$1"
`

// watch starts the watchdog of a directory, in a process group of its own: it survives if the tests
// are killed with their whole group.
func watch(dir string) (io.WriteCloser, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdog, "testserver-watchdog", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = ownGroup()
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }()
	return leash, nil
}

// freePort returns a port on which no process listens. It is below the ports that systems use for
// outgoing connections, so it stays free while a server is down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil && l.Close() == nil {
			return port
		}
	}
	t.Fatal("testserver: no free port")
	return 0
}

// line returns the first line that a server sends after a request.
func line(c net.Conn, request string) string {
	if _, err := io.WriteString(c, request); err != nil {
		return ""
	}
	said, _ := bufio.NewReader(c).ReadString('\n')
	return said
}
