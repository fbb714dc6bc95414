// Package terminal lets the tests of the examples use their programs as people do: by the
// commands that they type.
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

// asProgram is the environment variable that makes the test binary run as the program.
const asProgram = "PERDURE_TEST_EXAMPLE"

// Main runs the tests, or the program if a [Terminal] has started this process. TestMain
// calls it last.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// A Terminal runs commands in a directory of its own, which is empty at first.
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

// Run runs a command of the program and returns its output. It fails the test if the
// command fails.
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

// Serve starts the command serve in the background. It returns a function that kills the
// process as kill -9 does.
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
	if _, err := lines.ReadString('\n'); err != nil { // serve prints a line when it is ready
		s.t.Fatal("serve ended: ", err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return kill
}

// File returns the text of a file, or nothing if the file does not exist.
func (s *Terminal) File(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(text)
}

// Until waits until holds returns true, for at most 30 seconds.
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
