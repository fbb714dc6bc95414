// Package dev keeps a worker process alive. The worker executes workflows and serves the API; the
// supervisor starts another one when it dies.
package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// WorkerCommand is the command under which the program is a worker.
const WorkerCommand = "dev-worker"

// Options set what a supervisor starts.
type Options struct {
	Executable string // the program
	Name       string // as the user called it
	// Args returns the arguments of a worker at an address; again is set if another one had the
	// address before.
	Args func(addr string, again bool) []string
	Addr string // of the first worker
	// Begun is called when the first worker serves.
	Begun    func(url string)
	Out, Log io.Writer
}

// A worker that dies before it has lived for quick has died at once. After tries of these in a row
// the supervisor gives up. Before each but the first it waits, twice as long each time.
const (
	quick = 5 * time.Second
	tries = 6
	pause = 50 * time.Millisecond
	// grace is how long a child of a dead worker may keep its output open.
	grace = time.Second
)

// An EndedError is the error of a worker that has ended, and has said why on its own stderr.
type EndedError struct{ Code int }

// Error returns the exit code in words.
func (e *EndedError) Error() string { return fmt.Sprintf("the worker has ended with %d", e.Code) }

// Run keeps a worker alive until ctx ends, and lets the last one end in order. It returns an
// [*EndedError] if the first worker does not begin.
func Run(ctx context.Context, o Options) error {
	addr, deaths := o.Addr, 0
	for again := false; ; again = true {
		began := time.Now()
		w, err := start(o, o.Args(addr, again))
		if err != nil {
			return err
		}
		at, ok := w.first(ctx)
		if ok && !again {
			if addr, err = hostOf(at, addr); err != nil {
				return errors.Join(err, w.leave())
			}
			o.Begun(at)
		} else if ok {
			fmt.Fprintf(o.Log, "worker %d goes on, %d ms after its start\n", w.pid(),
				time.Since(began).Milliseconds())
		}
		asked := w.watch(ctx)
		if ctx.Err() != nil {
			return w.leave()
		}
		code := w.wait()
		switch {
		case !ok && !again:
			return &EndedError{code}
		case asked || time.Since(began) > quick:
			deaths = 0
		default:
			deaths++
		}
		if deaths >= tries {
			return &perdure.Error{
				Code: journal.CodeFailed, Op: "dev",
				Message: fmt.Sprintf("%d workers in a row have died at once", deaths),
				Hint:    "what they have printed says why; the database has all that was finished",
			}
		}
		fmt.Fprintf(o.Log, "worker %d is dead (%s): another one takes over\n", w.pid(), w.how())
		if deaths > 1 && !rest(ctx, pause<<deaths) {
			return nil
		}
	}
}

// hostOf returns the host and port of an address, or those that were asked for if it is empty: the
// worker serves nothing.
func hostOf(at, asked string) (string, error) {
	if at == "" {
		return asked, nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// rest waits. It returns false if ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A worker is the process, as its supervisor has it.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it tells its supervisor; closed at its end
	err   error       // of its end
}

func start(o Options, args []string) (*worker, error) {
	w := &worker{cmd: exec.Command(o.Executable, args...), lines: make(chan string, 1)}
	w.cmd.Args[0], w.cmd.Stderr = o.Name, o.Log
	w.cmd.WaitDelay = grace
	said := &splitter{out: o.Out, lines: w.lines}
	w.cmd.Stdout = said
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		w.err = w.cmd.Wait()
		said.flush()
		close(w.lines)
	}()
	return w, nil
}

// A splitter takes the lines for the supervisor out of the output of a worker.
type splitter struct {
	out   io.Writer
	lines chan<- string
	begun []byte // a line without its end
}

// Write passes complete lines on.
func (s *splitter) Write(text []byte) (int, error) {
	s.begun = append(s.begun, text...)
	for {
		line, rest, is := bytes.Cut(s.begun, []byte("\n"))
		if !is {
			return len(text), nil
		}
		s.pass(line)
		s.begun = rest
	}
}

// pass passes a line on. Code of the user may have printed the beginning of it.
func (s *splitter) pass(line []byte) {
	of, told, is := bytes.Cut(line, []byte(mark))
	if !is {
		_, _ = s.out.Write(append(line[:len(line):len(line)], '\n')) // nobody may read it
		return
	}
	_, _ = s.out.Write(of)
	s.lines <- string(bytes.TrimSpace(told))
}

func (s *splitter) flush() { _, _ = s.out.Write(s.begun) }

func (w *worker) pid() int { return w.cmd.Process.Pid }

// first returns the first line of a worker, and false if the worker or ctx has ended before.
func (w *worker) first(ctx context.Context) (line string, ok bool) {
	select {
	case line, ok = <-w.lines:
	case <-ctx.Done():
	}
	return line, ok
}

// watch waits until the worker or ctx has ended. It reports whether the worker was killed because
// somebody asked for it.
func (w *worker) watch(ctx context.Context) (asked bool) {
	for {
		select {
		case text, more := <-w.lines:
			if !more {
				return asked
			}
			asked = asked || text == killed
		case <-ctx.Done():
			return asked
		}
	}
}

// wait waits for the end of a worker and returns its exit code, which is at least 1.
func (w *worker) wait() int {
	for range w.lines {
		continue
	}
	return max(w.cmd.ProcessState.ExitCode(), 1)
}

// how returns how a worker has ended.
func (w *worker) how() string { return w.cmd.ProcessState.String() }

// leave lets a worker end in order.
func (w *worker) leave() error {
	_, _ = io.WriteString(w.in, end+"\n") // it fails if the worker has ended
	for range w.lines {
		continue
	}
	return w.err
}
