// Package app is the program: command line, engine, demo and benchmark. An
// application adds its workflows to it:
//
//	func main() { app.Main(Fulfil, Refund) }
//
// and has the whole of it: `serve` runs them on a database, `start` starts one,
// `runs` lists, shows and mends what there is.
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

// Main runs the program with the arguments of the process and these workflows,
// and ends the process with one of the exit codes that its help tells. An interrupt
// or SIGTERM ends a command in order; a second one ends the process at once.
//
// It lets the heap grow to five times what is in use before garbage is collected,
// unless GOGC is set: an engine's heap is small and changes fast.
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
		// not left to the system, which ignores it in a process that a script has put into the
		// background
		<-signals
		os.Exit(exitInterrupted)
	}()
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	os.Exit(run(ctx, name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, workflows...))
}

// gcPercent is what bench is measured with: 5 % more steps per second than with
// 100, and more gain little.
const gcPercent = 400

// run runs one command and gives its exit code. What was asked for goes to
// stdout, everything else to stderr. The end of ctx is an interrupt.
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

// A program is what the commands are about.
type program struct {
	name      string // as the user called it
	workflows []perdure.Definition
	known     []perdure.Registered // the same, by name
}

// newProgram says at once what is wrong with a workflow, whatever the command is.
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
