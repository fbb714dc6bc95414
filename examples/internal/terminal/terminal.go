// Package terminal has the tests of the examples use their programs as people do:
// by what they type.
package terminal

import (
	"bufio"
	"errors"
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

// Follow does what the README.md of the example says, from its first command to its
// last, and gives what each printed; of a command that is there twice, the last.
// A run that fails, as it should where the README has one, fails no test.
func (s *Terminal) Follow() map[string]string {
	s.t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		s.t.Fatal(err)
	}
	out, kill := map[string]string{}, func() {}
	for line := range strings.Lines(string(readme)) {
		switch words := split(line); {
		case len(words) < 3 || words[0] != "$" || words[1] == "go":
		case words[1] == "kill":
			kill()
		case words[2] == "serve":
			kill = s.Serve()
		default:
			printed, err := s.command(words[2:]...).Output()
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() > 1 {
				s.t.Errorf("%s%v\n%s", line, err, failed.Stderr)
			}
			out[strings.Join(words[2:], " ")] = string(printed)
		}
	}
	return out
}

// split gives the words of a line as a shell has them, with '…' as the only quotes.
func split(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
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
