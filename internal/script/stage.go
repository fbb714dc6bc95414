package script

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Stage is a place to run scripts: a directory, and programs by name.
type Stage struct {
	Dir string // of the test; a command begins there

	t   *testing.T
	env []string
	off []func(os.Signal) // ends each background command
}

// NewStage returns a stage with the programs in bin. It ends with the test. The test is skipped
// where there is no Unix shell.
func NewStage(t *testing.T, bin string, env ...string) *Stage {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("scripts are for a Unix shell")
	}
	s := &Stage{t: t, Dir: t.TempDir()}
	s.env = append(os.Environ(), append(env, "PATH="+bin+string(os.PathListSeparator)+
		os.Getenv("PATH"))...)
	t.Cleanup(func() { s.end(os.Interrupt) })
	return s
}

// Setenv sets a variable for the commands that follow.
func (s *Stage) Setenv(name, value string) { s.env = append(s.env, name+"="+value) }

// Run runs a command of a file. Its output and its exit code must be as expected: the exit code of
// its comment, or 0. A command that ends in & goes on in the background.
func (s *Stage) Run(file string, c Command) {
	s.t.Helper()
	code, text := 0, c.Text
	if m := exits.FindStringSubmatch(text); m != nil {
		code, _ = strconv.Atoi(m[1])
		text = strings.TrimSuffix(text, m[0])
	}
	if beside, ok := strings.CutSuffix(text, " &"); ok {
		s.begin(beside)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = s.Dir, s.env
	cmd.WaitDelay = time.Second // children of the shell may outlive it
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("%s:%d: %s\nexit code %d, want %d (%v)\n%s", file, c.Line, text, got, code, err,
			&out)
		return
	}
	if len(c.Want) > 0 && !like(out.String(), c.Want) {
		s.t.Errorf("%s:%d: %s\nprints\n%s\nand should print\n%s", file, c.Line, text, &out,
			strings.Join(c.Want, "\n"))
	}
}

// begin starts a background command, and waits until it prints something. It runs until the
// end of the test at most.
func (s *Stage) begin(text string) {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+text)
	cmd.Dir, cmd.Env = s.Dir, s.env
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = w.Close()
	heard := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		_, _ = r.Read(buf)
		close(heard)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	<-heard
	s.off = append(s.off, func(how os.Signal) {
		_ = cmd.Process.Signal(how) // it fails if the process has ended
		_ = cmd.Wait()
		_ = r.Close()
	})
}

// Kill ends the background commands as kill -9 does.
func (s *Stage) Kill() { s.end(os.Kill) }

func (s *Stage) end(how os.Signal) {
	for _, off := range s.off {
		off(how)
	}
	s.off = nil
}
