package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal opens a terminal, and returns the end of its user and the end of the
// program.
func openTerminal(t *testing.T) (people, program *os.File) {
	t.Helper()
	people, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { people.Close() })
	var unlocked, number int32
	control(t, people, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	control(t, people, syscall.TIOCGPTN, unsafe.Pointer(&number))
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return people, program
}

func control(t *testing.T, f *os.File, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); e != 0 {
		t.Fatal(e)
	}
}

// modes returns the modes of a terminal, such as lines or single keys.
func modes(t *testing.T, f *os.File) (m syscall.Termios) {
	t.Helper()
	control(t, f, syscall.TCGETS, unsafe.Pointer(&m))
	return m
}

// A deed is an act of the user, after the demo has printed a line with these words.
type deed struct {
	words string
	do    func(people *os.File, interrupt func())
}

func press(key string) func(*os.File, func()) {
	return func(people *os.File, _ func()) { people.WriteString(key) }
}

func send(s syscall.Signal) func(*os.File, func()) {
	return func(*os.File, func()) { syscall.Kill(os.Getpid(), s) }
}

// over is the last line on the terminal.
const over = "the demo is over"

// readTo reads lines up to the first line with these words.
func readTo(t *testing.T, lines *bufio.Scanner, words string) {
	t.Helper()
	var all []string
	for lines.Scan() {
		all = append(all, lines.Text())
		if strings.Contains(lines.Text(), words) {
			return
		}
		if lines.Text() == over {
			break
		}
	}
	t.Fatalf("it does not say %q, but\n%s", words, strings.Join(all, "\n"))
}

func TestDemoOnATerminal(t *testing.T) {
	t.Setenv(child, "1")
	for _, c := range []struct {
		name  string
		deeds []deed
		code  int
	}{
		{"approve, stop, quit", []deed{
			{"keys ", press("a")},
			{"exp-9     expense-approval  ask ✓  pay ✓  result ✓  COMPLETED", press("axs")},
			{"exp-9 has ended", nil},
			{"sub-5     subscription      charge 3× ✓  COMPLETED", press("q")},
		}, exitOK},
		{"Ctrl-C", []deed{{"keys ", press("\x03")}}, exitInterrupted},
		{
			"an interrupt",
			[]deed{{"keys ", func(_ *os.File, interrupt func()) { interrupt() }}},
			exitInterrupted,
		},
		{"a hangup", []deed{{"keys ", send(syscall.SIGHUP)}}, exitInterrupted},
		{"a quit", []deed{{"keys ", send(syscall.SIGQUIT)}}, exitInterrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			people, program := openTerminal(t)
			before := modes(t, program)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			dir, stderr, code := t.TempDir(), &bytes.Buffer{}, make(chan int, 1)
			go func() {
				args := []string{
					"demo", "--seed", "1", "--kills", "0", "--orders", "1", "--dir", dir,
				}
				code <- run(ctx, "perdure", args, program, program, stderr)
				program.WriteString(over + "\n")
			}()
			lines := bufio.NewScanner(people)
			for _, d := range c.deeds {
				readTo(t, lines, d.words)
				if modes(t, program) == before {
					t.Error("the terminal gives lines, not keys")
				}
				if d.do != nil {
					d.do(people, interrupt)
				}
			}
			readTo(t, lines, over)
			if got := <-code; got != c.code || c.code == exitOK && stderr.Len() > 0 {
				t.Errorf("exit code %d, want %d: %s", got, c.code, stderr)
			}
			if after := modes(t, program); after != before {
				t.Errorf("the terminal is %v, was %v", after, before)
			}
			gone(t, dir)
		})
	}
}

// On a terminal every process gets the interrupt. The worker and the world ignore it, so
// that the supervisor ends them.
func TestCtrlCIsForTheSupervisor(t *testing.T) {
	t.Setenv(child, "1")
	people, program := openTerminal(t)
	dir, stderr := t.TempDir(), &bytes.Buffer{}
	cmd := exec.Command(os.Args[0], "demo", "--seed", "1", "--kills", "30", "--dir", dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	readTo(t, bufio.NewScanner(people), "kill 3 of 30")
	people.WriteString("\x03")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted ||
		stderr.String() != "error: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	gone(t, dir)
}
