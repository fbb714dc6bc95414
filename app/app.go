// Package app is the complete program: command line, engine, demo and benchmark. An
// application adds its workflows:
//
//	func main() { app.Main(Fulfil, Refund) }
//
// The program then has all commands: `serve` executes the workflows on a database, `start`
// starts a run, `runs` lists, shows and controls runs.
package app

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// Main runs the program with the arguments of the process and these workflows. It ends the
// process with one of the exit codes that the help lists. An interrupt or SIGTERM ends a
// command in order; a second one ends the process at once.
//
// Unless GOGC is set, Main sets it to 400: the heap grows to five times the memory in use
// before garbage is collected. An engine's heap is small and changes fast.
func Main(workflows ...perdure.Definition) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		// The system cannot do it: it ignores an interrupt in a process that a script has
		// put into the background.
		<-signals
		os.Exit(exitInterrupted)
	}()
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	os.Exit(run(ctx, name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, workflows...))
}

// gcPercent is the value of GOGC that bench measures with. It makes 5 % more steps per
// second than 100 does; higher values make little difference.
const gcPercent = 400

// run runs one command and returns its exit code. The result of the command goes to stdout,
// everything else to stderr. The end of ctx is an interrupt.
func run(ctx context.Context, name string, args []string, stdin io.Reader, stdout, stderr io.Writer,
	workflows ...perdure.Definition) int {
	p, err := newProgram(name, workflows)
	if err == nil {
		err = p.execute(ctx, args, stdin, stdout, stderr)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, errInterrupted) {
		err = errInterrupted
	}
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}

// A program is the name of the program and the workflows that its commands use.
type program struct {
	name      string // as the user called it
	workflows []perdure.Definition
	known     []perdure.Registered // the same, by name
}

// newProgram makes a program. It fails if a workflow is invalid, whatever the command is.
func newProgram(name string, workflows []perdure.Definition) (*program, error) {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	if err == nil {
		err = e.Register(workflows...)
	}
	if err != nil {
		return nil, err
	}
	return &program{name, workflows, e.Workflows()}, nil
}
