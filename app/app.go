// Package app is the whole program: an application that calls [Main] with its
// workflows has the command line with them in it.
package app

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
)

// Main runs the program with the arguments of the process and ends the process
// with its exit code. The workflows are the application's own; a definition that
// is wrong is told at once, whatever the command.
//
// The first interrupt ends the command in an orderly way, the second one at
// once.
func Main(workflows ...perdure.Definition) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, workflows...))
}

// gcPercent lets the heap grow to five times what is live before it is
// collected: an engine's live heap is small, and its garbage comes fast.
const gcPercent = 400

// run runs one command and gives its exit code. What was asked for goes to
// stdout, everything else to stderr. The end of ctx is an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, workflows ...perdure.Definition) int {
	err := check(workflows)
	if err == nil {
		err = execute(ctx, args, stdin, stdout, stderr)
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}

// check registers the workflows with an engine that never runs.
func check(workflows []perdure.Definition) error {
	e, err := perdure.New(memory.New(), perdure.Options{Build: "check"})
	if err != nil {
		return err
	}
	return e.Register(workflows...)
}
