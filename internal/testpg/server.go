package testpg

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience limits every wait: an event that takes longer is considered lost.
const patience = time.Minute

// A Mode is how [Server.Stop] stops a server.
type Mode int

// These are the modes of PostgreSQL.
const (
	Smart     Mode = iota // accepts no new client and waits until the last client has left
	Fast                  // ends the clients' sessions and writes all data to disk
	Immediate             // stops as in a crash: the next start recovers
)

func (m Mode) signal() syscall.Signal {
	switch m {
	case Smart:
		return syscall.SIGTERM
	case Fast:
		return syscall.SIGINT
	default:
		return syscall.SIGQUIT
	}
}

// A Server is a PostgreSQL server of one test. Its methods may be called from any goroutine.
// Their errors are reported as errors of the test.
type Server struct {
	t    testing.TB // nil for the shared server
	home *place
	dir  string
	port int

	mu   sync.Mutex
	proc *os.Process
	gone chan struct{} // closed when no process of the server is left; nil while it is stopped
	mess bool          // killed, and not started again: its shared memory is still there
}

// URL returns the connection URL of a new, empty database.
func (s *Server) URL() string {
	s.t.Helper()
	name := databaseName(s.t)
	need(s.t, s.run(s.url("postgres"), createDatabase(name)))
	return s.url(name)
}

// Addr returns the address of the server as host:port. It stays the same for the server's
// whole life.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Stop stops the server, and returns when no process of it is left. With [Smart] that is
// after the last client has left.
func (s *Server) Stop(mode Mode) {
	s.t.Helper()
	s.report(s.end(mode.signal()))
}

// Kill kills the postmaster without a warning, and returns when the processes that it had
// started have detected that and ended.
func (s *Server) Kill() {
	s.t.Helper()
	s.report(s.end(syscall.SIGKILL))
}

// Restart starts the server again at the same address with the same data, and returns when it
// accepts connections. If the server is running, Restart first stops it with [Fast].
func (s *Server) Restart() {
	s.t.Helper()
	err := s.end(Fast.signal())
	if err == nil {
		err = s.launch()
	}
	for deadline := time.Now().Add(patience); errors.Is(err, errPort) &&
		time.Now().Before(deadline); {
		err = s.launch()
	}
	s.report(err)
}

func (s *Server) report(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("testpg: %v", err)
	}
}

func (s *Server) url(database string) string {
	return "postgres://perdure@" + s.Addr() + "/" + database + "?sslmode=disable"
}

// run runs one statement.
func (s *Server) run(at, statement string) error {
	return psql(s.home.tools.psql, plainEnv(), at, statement)
}

// errPort means that another process uses the port.
var errPort = errors.New("the port is in use")

// start starts a new server on a free port.
func (h *place) start(settings []Option) (*Server, error) {
	pattern, err := h.pattern()
	if err != nil {
		return nil, err
	}
	s := &Server{home: h, dir: filepath.Join(h.dir, strconv.Itoa(int(h.servers.Add(1))))}
	if err := h.mkdir(s.dir); err != nil {
		return nil, err
	}
	if err := h.run("/bin/cp", "-R", pattern, s.data()); err != nil {
		return nil, err
	}
	if err := s.configure(settings); err != nil {
		return nil, err
	}
	for range 10 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.launch(); !errors.Is(err, errPort) {
			break
		}
	}
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// configure adds settings to postgresql.conf, where the last line for a setting counts.
func (s *Server) configure(settings []Option) (err error) {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, o := range append([]Option{
		{"listen_addresses", "127.0.0.1"},
		{"unix_socket_directories", ""},
		{"max_connections", "200"},
		{"shared_buffers", "32MB"},
		{"max_wal_size", "256MB"},
		{"dynamic_shared_memory_type", "mmap"}, // in the directory that is removed
		{"log_line_prefix", "%m [%p] %d "},
	}, settings...) {
		if _, err := fmt.Fprintf(f, "%s = '%s'\n", o.name, strings.ReplaceAll(o.value, "'",
			"''")); err != nil {
			return err
		}
	}
	return nil
}

// freePort returns a port on which no process listens. It is below the ports that systems use
// for outgoing connections, so it stays free while a server is down.
func freePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(18000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port")
}

// launcher writes the pid file, closes the leash, and becomes postgres. The watchdog cannot
// miss the server: until the pid file exists, the leash is still open.
const launcher = `echo $$ >"$1" || exit 1; shift; exec 3>&-; exec "$@"`

// launch starts the server's processes and waits until they accept connections.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return errors.New("the server is started already")
	}
	logged, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer logged.Close()
	// Every process of the server inherits the write end of the pipe: the reader sees the end
	// of file when the last process has ended.
	r, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	pidFile := filepath.Join(s.dir, "pid")
	cmd := s.home.command("/bin/sh", "-c", launcher, "sh", pidFile,
		s.home.tools.postgres, "-D", s.data(), "-p", strconv.Itoa(s.port))
	cmd.Stdout, cmd.Stderr = logged, logged
	cmd.ExtraFiles = []*os.File{s.home.leash, s.home.lock, alive}
	err = cmd.Start()
	if err := errors.Join(err, alive.Close()); err != nil {
		return errors.Join(err, r.Close())
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer r.Close()
		_ = cmd.Wait() // how it ended is in the log
		_ = os.Remove(pidFile)
		_, _ = io.Copy(io.Discard, r)
	}()
	s.proc, s.gone = cmd.Process, gone
	return s.ready()
}

// ready waits until the server accepts connections. The server writes that into its pid file.
func (s *Server) ready() error {
	deadline := time.After(patience)
	for {
		said, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		lines := strings.Split(string(said), "\n")
		if len(lines) >= 8 && lines[0] == strconv.Itoa(s.proc.Pid) &&
			strings.TrimSpace(lines[7]) == "ready" {
			s.mess = false
			return nil
		}
		select {
		case <-s.gone:
			s.gone = nil
			said := s.log()
			if strings.Contains(said, "could not create any TCP/IP sockets") {
				return fmt.Errorf("%w:\n%s", errPort, said)
			}
			return fmt.Errorf("the server did not start:\n%s", said)
		case <-deadline:
			return fmt.Errorf("the server did not start within %v:\n%s", patience, s.log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end sends the signal if the server is running, and waits until the server has ended.
func (s *Server) end(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		return nil
	}
	if err := s.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.gone:
		s.gone, s.mess = nil, sig == syscall.SIGKILL
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the server did not end within %v of %v:\n%s", patience, sig, s.log())
	}
}

// remove ends the server with its test and removes its directory.
func (s *Server) remove() {
	s.t.Helper()
	s.report(s.end(Immediate.signal()))
	if s.t.Failed() {
		s.t.Logf("testpg: the log of the server:\n%s", s.log())
	}
	if s.mess {
		s.Restart() // finds the shared memory and removes it in the end
		s.report(s.end(Immediate.signal()))
	}
	s.report(os.RemoveAll(s.dir))
}

// log returns the last lines that the server has logged since it was started.
func (s *Server) log() string {
	said, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}
