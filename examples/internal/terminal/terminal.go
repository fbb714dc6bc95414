// Package terminal has the tests of the examples use their programs as people do:
// by what they type.
package terminal

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asProgram has the test binary be the program.
const asProgram = "PERDURE_EXAMPLE_PROGRAM"

// Main runs the tests, or the program where a [Terminal] has started this process
// as that. TestMain ends with it.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// A Terminal is in a directory of its own, which is empty at first.
type Terminal struct {
	t   *testing.T
	dir string
}

// Open opens a terminal.
func Open(t *testing.T) *Terminal { return &Terminal{t, t.TempDir()} }

func (s *Terminal) command(args ...string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), asProgram+"=1")
	return cmd
}

// Run runs a command of the program and gives what it prints. It fails the test
// where the command does.
func (s *Terminal) Run(args ...string) string {
	s.t.Helper()
	var told strings.Builder
	cmd := s.command(args...)
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, told.String())
	}
	return string(out)
}

// Serve begins to serve in the background, and gives what kills it: as kill -9.
func (s *Terminal) Serve() (kill func()) {
	s.t.Helper()
	cmd := s.command("serve")
	told, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	s.t.Cleanup(kill)
	lines := bufio.NewReader(told)
	if _, err := lines.ReadString('\n'); err != nil { // it says what it serves
		s.t.Fatal("serve ended: ", err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return kill
}

// File gives the text of a file; of one that is not there, nothing.
func (s *Terminal) File(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(text)
}

// Until waits until something holds, for half a minute at most.
func (s *Terminal) Until(holds func() bool) {
	s.t.Helper()
	over := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-over:
			s.t.Fatal("it does not come to hold")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
