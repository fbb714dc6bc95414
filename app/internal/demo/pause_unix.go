//go:build unix

package demo

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// canPause reports whether this system can pause a process.
const canPause = true

// hold pauses a process. It returns when no thread of it runs any more: before that, a
// thread could still get the answer that is held.
func hold(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var state syscall.WaitStatus
		switch _, err := syscall.Wait4(p.Pid, &state, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err == nil && !state.Stopped():
			return fmt.Errorf("process %d has ended: %v", p.Pid, state)
		default:
			return err
		}
	}
}

func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
