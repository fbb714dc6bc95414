package dev

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// What a supervisor and its worker tell each other, each on a line of its own. A line of the worker
// begins with mark; the first one has its address. The other lines are what its workflows print.
const (
	end    = "end" // to the worker: it is to end in order
	mark   = "\x1eperdure dev: "
	killed = "killed" // of the worker: somebody wants it dead, and it dies now
)

// A Worker is the side of the process that executes workflows.
type Worker struct {
	ctx context.Context

	mu  sync.Mutex
	out io.Writer
}

// NewWorker listens to the supervisor, from which in comes. Interrupts are for the supervisor: the
// worker ends when that says so, and at once when that is dead.
func NewWorker(ctx context.Context, in io.Reader, out io.Writer) (*Worker, error) {
	if f, is := in.(*os.File); is {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil, &perdure.Error{
				Code: journal.CodeInvalid, Op: WorkerCommand,
				Message: "nobody told this process what to do", Err: err,
				Hint: "it is a part of dev: perdure dev",
			}
		}
	}
	// They are not ignored: Windows would end the process.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if lines.Text() == end {
				cancel()
			}
		}
		os.Exit(1) // the supervisor is dead: what is durable is all that the next worker needs
	}()
	return &Worker{ctx: ctx, out: out}, nil
}

// Context ends when the supervisor says so.
func (w *Worker) Context() context.Context { return w.ctx }

// Begun reports the address to the supervisor.
func (w *Worker) Begun(url string) { w.tell(url) }

// Kill kills this process, as kill -9 does.
func (w *Worker) Kill() {
	w.tell(killed)
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		os.Exit(1) // there is no harder way on this system
	}
	select {} // the signal arrives
}

func (w *Worker) tell(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, mark+text)
}
