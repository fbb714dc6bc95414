package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// The commands under which the program runs [Worker] and [World].
const (
	WorkerCommand = "demo-worker"
	WorldCommand  = "demo-world"
)

// notByHand returns the error of a child that the supervisor has not started.
func notByHand(command string, err error) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Op: command, Message: "nobody told this process what to do",
		Err:  err,
		Hint: "it is a part of the demo: perdure demo --once",
	}
}

// A child is a process of this program that the supervisor has started. It sends events of
// type E.
type child[E any] struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	events chan E // closed after the last event
	said   bytes.Buffer
	reap   func() error
}

// start starts a child and sends it its setup.
func start[E any](executable, command string, setup any) (*child[E], error) {
	c := &child[E]{cmd: exec.Command(executable, command), events: make(chan E)}
	c.cmd.Stderr = &c.said
	c.reap = sync.OnceValue(c.cmd.Wait)
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(out)
	if err := c.tell(setup); err != nil {
		c.kill()
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return c, nil
}

// listen passes events on until the child ends. A killed child may leave half an event,
// which is dropped.
func (c *child[E]) listen(out io.Reader) {
	defer close(c.events)
	lines := json.NewDecoder(out)
	for {
		var e E
		if lines.Decode(&e) != nil {
			return
		}
		c.events <- e
	}
}

func (c *child[E]) pid() int { return c.cmd.Process.Pid }

func (c *child[E]) tell(v any) error { return json.NewEncoder(c.in).Encode(v) }

// kill ends the child as kill -9 does, and returns the events that it had sent by then. On
// a child that has ended it has no effect.
func (c *child[E]) kill() []E {
	_ = c.cmd.Process.Kill() // it fails if the child has ended
	var rest []E
	for e := range c.events {
		rest = append(rest, e)
	}
	_ = c.reap() // the error only reports the kill
	return rest
}

// patienceWithChildren limits how long a child may take to end.
const patienceWithChildren = 10 * time.Second

// leave asks the child to end in order, and waits for its end.
func (c *child[E]) leave() error {
	late := time.AfterFunc(patienceWithChildren, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.in.Close() // it fails if the child has ended
	for range c.events {
		continue // the last events are not needed
	}
	return c.ended()
}

// ended waits until the child ends by itself, after its last event. It returns the reason
// of a failure.
func (c *child[E]) ended() error {
	err := c.reap()
	if said := bytes.TrimSpace(c.said.Bytes()); err != nil && len(said) > 0 {
		return fmt.Errorf("process %d: %w: %s", c.pid(), err, said)
	}
	return err
}

// unasked returns the error of a child that has ended without being asked to.
func unasked[E any](what string, c *child[E]) error {
	return fmt.Errorf("%s has ended: %w", what,
		cmp.Or(c.ended(), errors.New("it does not say why")))
}
