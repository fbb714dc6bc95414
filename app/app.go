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
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// Main runs the program with the arguments of the process and these workflows. It ends the
// process with one of the exit codes that the help lists. An interrupt or SIGTERM ends a
// command in order; a second one ends the process at once.
//
// Unless GOGC is set, Main sets it to 400: the heap grows to five times the memory in use
// before garbage is collected. An engine's heap is small and changes fast.
func Main(workflows ...perdure.Definition) { Application{Workflows: workflows}.Main() }

// An Application is the program of an application: its workflows, and what else it adds.
type Application struct {
	Workflows []perdure.Definition
	// Orchestrators is called once before `serve` or `dev` begins, with where the configuration
	// keeps the states of orchestrators. An error ends the command. If it is nil, a configuration
	// with orchestrators.redis is refused.
	Orchestrators func(ctx context.Context, in Orchestrators) error
}

// Orchestrators are the keys orchestrators.* of the configuration. With them an application makes a
// memory of package orchestrator/redismemory:
//
//	o, err := redis.ParseURL(in.Redis)
//	if err != nil {
//		return err
//	}
//	memory = redismemory.New[orchestrator.Record](redis.NewClient(o),
//		redismemory.Options{Prefix: in.Prefix, TTL: in.TTL})
type Orchestrators struct {
	Redis  string        // the URL of a Redis, for redis.ParseURL; empty for none
	Prefix string        // of its keys
	TTL    time.Duration // for how long the states of what has ended are kept; 0 for ever
}

// Main runs the program, as the function [Main] does.
func (a Application) Main() {
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
	os.Exit(runApplication(ctx, name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, a))
}

// gcPercent is the value of GOGC that bench measures with. It makes 5 % more steps per
// second than 100 does; higher values make little difference.
const gcPercent = 400

// runApplication runs one command and returns its exit code. The result of the command goes to
// stdout, everything else to stderr. The end of ctx is an interrupt.
func runApplication(ctx context.Context, name string, args []string, stdin io.Reader, stdout,
	stderr io.Writer, a Application) int {
	p, err := newProgram(name, a)
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
	// orchestrators is [Application.Orchestrators]
	orchestrators func(context.Context, Orchestrators) error
}

// newProgram makes a program. It fails if a workflow is invalid, whatever the command is.
func newProgram(name string, a Application) (*program, error) {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	if err == nil {
		err = e.Register(a.Workflows...)
	}
	if err != nil {
		return nil, err
	}
	return &program{name, a.Workflows, e.Workflows(), a.Orchestrators}, nil
}
